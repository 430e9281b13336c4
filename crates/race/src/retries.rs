//! Retries of the same upstream in one race: after which failures, how often, and after which pause. Pure. Not for
//! retries with another key, another request or a new connection.

use std::time::Duration;

use photofinish_base::failure::Failure;
use photofinish_routing::verdict::may_pass;

/// The first back-off, doubled with each further retry of the same upstream. Long enough for another machine behind the same
/// name to take over, and short compared with a first token.
const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
/// Jitter: at most this share is added to a wait, so that clients that were limited together do not return together.
const LATER: f64 = 0.1;

/// The retries of one race.
#[derive(Clone, Debug)]
pub struct Retries {
    most: u32,
    wait_max: Duration,
    /// Retries so far, by candidate.
    done: Vec<u32>,
}

impl Retries {
    /// At most `most` for each candidate. A failure that asks for a longer wait than `wait_max` is not retried.
    pub fn new(most: u32, wait_max: Duration, candidates: usize) -> Retries {
        Retries { most, wait_max, done: if most == 0 { Vec::new() } else { vec![0; candidates] } }
    }

    /// The pause before the next retry of this candidate, counted as used. None: no retry. `rest`: the cool-down that
    /// this failure caused. `jitter` is in 0..1.
    pub fn next(
        &mut self,
        candidate: usize,
        failure: &Failure,
        rest: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        let done = self.done.get_mut(candidate).filter(|done| **done < self.most)?;
        if !may_pass(failure.kind) {
            return None;
        }
        let given = failure.retry_after.max(rest).filter(|wait| !wait.is_zero());
        let wait = match given {
            Some(wait) if wait > self.wait_max => return None,
            Some(wait) => wait.mul_f64(1.0 + LATER * jitter),
            None => {
                let back_off = BACK_OFF_FIRST.saturating_mul(1 << (*done).min(10));
                back_off.min(self.wait_max).mul_f64(0.5 + jitter / 2.0)
            }
        };
        *done += 1;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_base::failure::{FailureKind, Phase};

    const TWO: Duration = Duration::from_secs(2);

    fn failure(kind: FailureKind, retry_after_ms: u64) -> Failure {
        let retry_after = (retry_after_ms > 0).then(|| Duration::from_millis(retry_after_ms));
        Failure { retry_after, ..Failure::new(kind, Phase::Headers, "") }
    }

    /// Milliseconds before each retry of a candidate that always fails this way.
    fn waits(kind: FailureKind, retry_after_ms: u64, rest_ms: u64, jitter: f64) -> Vec<u128> {
        let mut retries = Retries::new(3, TWO, 2);
        let failure = failure(kind, retry_after_ms);
        let rest = (rest_ms > 0).then(|| Duration::from_millis(rest_ms));
        std::iter::from_fn(|| retries.next(1, &failure, rest, jitter)).map(|wait| wait.as_millis()).take(9).collect()
    }

    #[test]
    fn what_is_asked_again_and_after_how_long() {
        use FailureKind::*;
        for kind in [RateLimited, Overloaded, ServerError, InStreamError, Connect, Reset, Closed, Protocol] {
            assert_eq!(waits(kind, 0, 0, 1.0), [100, 200, 400], "{kind}: backs off, at most three times");
            assert_eq!(waits(kind, 0, 0, 0.0), [50, 100, 200], "{kind}");
            assert_eq!(waits(kind, 2_000, 0, 0.0), [2_000; 3], "{kind}: as the provider said");
            assert_eq!(waits(kind, 2_000, 0, 1.0), [2_200; 3], "{kind}: a little later, never sooner");
            assert_eq!(waits(kind, 2_001, 0, 0.0), [0; 0], "{kind}: too long");
        }
        assert_eq!(waits(RateLimited, 0, 700, 0.0), [700; 3], "the wait of its key is waited out too");
        assert_eq!(waits(RateLimited, 100, 700, 0.0), [700; 3], "the longer of the two");
        assert_eq!(waits(RateLimited, 0, 2_001, 0.0), [0; 0]);
        let never = FailureKind::ALL.into_iter().filter(|kind| !may_pass(*kind));
        assert_eq!(never.clone().count(), 16);
        never.for_each(|kind| assert_eq!(waits(kind, 10, 10, 0.0), [0; 0], "{kind}"));
    }

    #[test]
    fn each_candidate_has_retries_of_its_own_and_a_back_off_is_bounded_too() {
        let mut retries = Retries::new(1, Duration::from_millis(80), 2);
        let error = failure(FailureKind::ServerError, 0);
        assert_eq!(retries.next(0, &error, None, 1.0), Some(Duration::from_millis(80)));
        assert_eq!(retries.next(0, &error, None, 1.0), None);
        assert_eq!(retries.next(1, &error, None, 0.0), Some(Duration::from_millis(40)));
        assert_eq!(Retries::new(0, TWO, 2).next(0, &error, None, 0.0), None, "none are configured");
    }
}
