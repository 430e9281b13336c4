//! Hedge throttling: whether an upstream fails so often that hedges would add to its overload. It is the token count of gRPC's retry
//! throttling (proposal A6); tokens also come back with time, since an upstream without hedges may never get the chance to
//! answer. Not a breaker: the upstream still serves.

const TOKENS_MOST: f64 = 10.0;
/// What an answer gives back of the token that a failure takes.
const SUCCESS: f64 = 0.2;
/// The time in which a token comes back, µs.
const BACK_US: f64 = 30e6;

/// Tokens; nothing is hedged to the upstream while half or fewer are left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    tokens: f64,
    /// When they were counted, µs.
    at: i64,
}

impl Throttle {
    pub fn new() -> Throttle {
        Throttle { tokens: TOKENS_MOST, at: 0 }
    }

    pub fn failed(&mut self, now: i64) {
        self.count(now, -1.0);
    }

    pub fn answered(&mut self, now: i64) {
        self.count(now, SUCCESS);
    }

    /// Some tokens are missing.
    pub fn counts(&self, now: i64) -> bool {
        self.tokens(now) < TOKENS_MOST
    }

    pub fn closed(&self, now: i64) -> bool {
        self.tokens(now) <= TOKENS_MOST / 2.0
    }

    fn count(&mut self, now: i64, change: f64) {
        self.tokens = (self.tokens(now) + change).clamp(0.0, TOKENS_MOST);
        self.at = self.at.max(now);
    }

    fn tokens(&self, now: i64) -> f64 {
        (self.tokens + now.saturating_sub(self.at).max(0) as f64 / BACK_US).min(TOKENS_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_at_half_and_opens_by_success_or_by_and_by() {
        let mut throttle = Throttle::new();
        (0..4).for_each(|_| throttle.failed(1));
        assert!(!throttle.closed(1));
        throttle.failed(1);
        assert!(throttle.closed(1));
        throttle.answered(1);
        assert!(!throttle.closed(1), "above half again");
        (0..50).for_each(|_| throttle.failed(1));
        (0..24).for_each(|_| throttle.answered(1));
        assert!(throttle.closed(1), "it counts from 0, not from below it");
        (0..100).for_each(|_| throttle.answered(1));
        assert_eq!(throttle, Throttle { at: 1, ..Throttle::new() });
        (0..50).for_each(|_| throttle.failed(2));
        let second = 1_000_000;
        assert!(throttle.closed(149 * second) && !throttle.closed(151 * second), "five tokens in 150 s");
        assert!(throttle.closed(0), "a clock that goes back stops");
    }
}
