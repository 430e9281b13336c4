//! Wrong tokens by address: when the answers to them are held back, and when they are refused for a while. A right token is
//! not counted. Not for checking tokens: see `caller`.
//!
//! A right token is never refused, also from an address that guesses. So this makes guessing slow and seen; what makes it
//! hopeless is the length of the tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use crate::attempt::InFlightGuard;
use crate::proxy::state::minute_counts::MinuteCounts;
use photofinish_base::clock::Instant;

/// Wrong tokens from one address within a minute that are answered at once: somebody types.
const PROMPT_MAX: u32 = 3;
/// Wrong tokens from one address within a minute; further ones are refused.
const WRONG_MAX: u32 = 10;
/// How long the answer to a further one is held back. Shorter than the second that health checks wait, because one may
/// have an old token.
const SLOWED_FOR: Duration = Duration::from_millis(500);
/// Answers that are held back at the same time; further ones are sent at once.
const SLOWED_MAX: i64 = 1_024;

/// The wrong tokens of one gateway.
#[derive(Default)]
pub struct WrongTokens {
    by_address: MinuteCounts<IpAddr>,
    /// Answers that are held back.
    slowed: Arc<AtomicI64>,
}

/// What becomes of one wrong token.
pub struct WrongToken {
    /// Wrong tokens from this address so far, this one included.
    pub times: u32,
    /// Refused: the wait until the next one is answered. None: it is only wrong.
    pub refused_for: Option<Duration>,
    /// None: the answer is sent at once.
    pub slowed: Option<SlowedAnswer>,
}

impl WrongToken {
    /// Whether it is logged: each until the refusals begin, then the powers of ten.
    pub fn is_logged(&self) -> bool {
        self.times <= WRONG_MAX + 1 || 10_u32.pow(self.times.ilog10()) == self.times
    }
}

/// An answer that is held back.
pub struct SlowedAnswer {
    _place: InFlightGuard,
}

impl SlowedAnswer {
    /// Resolves when the answer may go.
    pub async fn over(self) {
        tokio::time::sleep(SLOWED_FOR).await;
    }
}

impl WrongTokens {
    /// Counts a wrong token from `address`.
    pub fn count(&self, address: IpAddr, now: Instant) -> WrongToken {
        let (times, left) = self.by_address.count(address, now);
        let slow = || {
            let place = InFlightGuard::enter(self.slowed.clone());
            (place.before < SLOWED_MAX).then_some(SlowedAnswer { _place: place })
        };
        WrongToken {
            times,
            refused_for: (times > WRONG_MAX).then_some(left),
            slowed: if times > PROMPT_MAX { slow() } else { None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn the_first_are_answered_then_slowed_then_refused_until_the_minute_is_over() {
        let (wrong, began) = (WrongTokens::default(), Instant::now());
        let count = |address, seconds| wrong.count(address, began + Duration::from_secs(seconds));
        for (times, seconds, slowed, refused_for) in [
            (1, 0, false, None),
            (2, 0, false, None),
            (3, 1, false, None),
            (4, 1, true, None),
            (5, 2, true, None),
            (6, 3, true, None),
            (7, 3, true, None),
            (8, 3, true, None),
            (9, 3, true, None),
            (10, 20, true, None),
            (11, 45, true, Some(15)),
            (12, 59, true, Some(1)),
            // Another minute.
            (1, 60, false, None),
        ] {
            let answer = count(HERE, seconds);
            let logged = (answer.times, answer.slowed.is_some(), answer.refused_for.map(|wait| wait.as_secs()));
            assert_eq!(logged, (times, slowed, refused_for), "{times} at {seconds} s");
        }
        let other = count([192, 0, 2, 2].into(), 59);
        assert_eq!((other.times, other.refused_for), (1, None), "another address");
    }

    #[test]
    fn a_bounded_number_of_answers_is_held_back_at_once() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let guess = || wrong.count(HERE, now).slowed;
        let held: Vec<SlowedAnswer> = (0..2_000).filter_map(|_| guess()).collect();
        assert_eq!(held.len(), 1_024);
        assert!(guess().is_none());
        drop(held);
        assert!(guess().is_some(), "an answer that was sent gives its place back");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_held_back_for_half_a_second() {
        let wrong = WrongTokens::default();
        let slowed = (0..4).find_map(|_| wrong.count(HERE, Instant::now()).slowed);
        let began = Instant::now();
        slowed.unwrap().over().await;
        assert_eq!(began.elapsed(), SLOWED_FOR);
    }

    #[test]
    fn the_log_tells_of_few() {
        let logged = |times: u32| WrongToken { times, refused_for: None, slowed: None }.is_logged();
        let logged: Vec<u32> = (1..=100_000).filter(|times| logged(*times)).collect();
        assert_eq!(logged, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 1_000, 10_000, 100_000]);
    }
}
