//! Whether an upstream fails so often that hedging to it would only add to its overload: the token count of gRPC's retry
//! throttling (proposal A6). Not a breaker: the upstream still serves.

const TOKENS_MOST: f32 = 10.0;
const FAILURE: f32 = 1.0;
const SUCCESS: f32 = 0.2;

/// Tokens; nothing is hedged to the upstream while half or fewer are left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    tokens: f32,
}

impl Throttle {
    pub fn new() -> Throttle {
        Throttle { tokens: TOKENS_MOST }
    }

    pub fn failed(&mut self) {
        self.tokens = (self.tokens - FAILURE).max(0.0);
    }

    pub fn answered(&mut self) {
        self.tokens = (self.tokens + SUCCESS).min(TOKENS_MOST);
    }

    pub fn closed(&self) -> bool {
        self.tokens <= TOKENS_MOST / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_at_half_and_opens_by_success() {
        let mut throttle = Throttle::new();
        (0..4).for_each(|_| throttle.failed());
        assert!(!throttle.closed());
        throttle.failed();
        assert!(throttle.closed());
        throttle.answered();
        assert!(!throttle.closed(), "above half again");
        (0..50).for_each(|_| throttle.failed());
        (0..25).for_each(|_| throttle.answered());
        assert!(throttle.closed(), "it counts from 0, not from below it");
        (0..100).for_each(|_| throttle.answered());
        assert_eq!(throttle, Throttle::new());
    }
}
