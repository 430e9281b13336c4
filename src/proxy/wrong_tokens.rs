//! Wrong tokens by address: when the answers to them are held back, and when they are refused for a while. A right token is
//! not counted. Not for checking tokens: see `caller`.
//!
//! A right token is never refused, also from an address that guesses. So this makes guessing slow and seen; what makes it
//! hopeless is the length of the tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::sessions::forget_oldest;
use crate::clock::Instant;

/// Wrong tokens from one address within [`WRONG_FOR`] that are answered at once: somebody types.
const PROMPT_MAX: u32 = 3;
/// Wrong tokens from one address within [`WRONG_FOR`]; further ones are refused.
const WRONG_MAX: u32 = 10;
/// How long wrong tokens count, from the first one.
const WRONG_FOR: Duration = Duration::from_secs(60);
/// Addresses whose wrong tokens are counted at the same time; the longest counted is forgotten for a further one.
const ADDRESSES_MAX: usize = 10_000;
/// How long an answer is held back. Shorter than the second that health checks wait, because one may have an old token.
const SLOWED_FOR: Duration = Duration::from_millis(500);
/// Answers to one address that are held back at the same time; further ones are sent at once.
const SLOWED_HERE_MAX: u32 = 16;
/// The same for all addresses together.
const SLOWED_MAX: u32 = 512;

/// Cheap to clone; all clones count together.
#[derive(Clone, Default)]
pub struct WrongTokens(Arc<Mutex<CountedTokens>>);

#[derive(Default)]
struct CountedTokens {
    by_address: HashMap<IpAddr, AddressTokens>,
    /// Answers that are held back.
    slowed: u32,
}

struct AddressTokens {
    since: Instant,
    times: u32,
    slowed: u32,
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
    /// Whether the log tells of it: each until the refusals begin, then the powers of ten.
    pub fn is_told(&self) -> bool {
        self.times <= WRONG_MAX + 1 || 10_u32.pow(self.times.ilog10()) == self.times
    }
}

/// An answer that is held back. Not `Clone`: it counts once.
pub struct SlowedAnswer {
    counted: WrongTokens,
    address: IpAddr,
}

impl SlowedAnswer {
    /// Resolves when the answer may go.
    pub async fn over(self) {
        tokio::time::sleep(SLOWED_FOR).await;
    }
}

impl Drop for SlowedAnswer {
    fn drop(&mut self) {
        let mut counted = self.counted.lock();
        counted.slowed -= 1;
        // The address may have been forgotten meanwhile.
        if let Some(here) = counted.by_address.get_mut(&self.address) {
            here.slowed = here.slowed.saturating_sub(1);
        }
    }
}

impl WrongTokens {
    /// Counts a wrong token from `address`.
    pub fn count(&self, address: IpAddr, now: Instant) -> WrongToken {
        let mut counted = self.lock();
        let counted = &mut *counted;
        let is_over = |here: &AddressTokens| now.saturating_duration_since(here.since) >= WRONG_FOR;
        if counted.by_address.len() >= ADDRESSES_MAX && !counted.by_address.contains_key(&address) {
            counted.by_address.retain(|_, here| !is_over(here) || here.slowed > 0);
            forget_oldest(&mut counted.by_address, ADDRESSES_MAX - 1, |here| here.since);
        }
        let here = counted.by_address.entry(address).or_insert(AddressTokens { since: now, times: 0, slowed: 0 });
        if is_over(here) {
            (here.since, here.times) = (now, 0);
        }
        here.times = here.times.saturating_add(1);
        let is_slowed = here.times > PROMPT_MAX && here.slowed < SLOWED_HERE_MAX && counted.slowed < SLOWED_MAX;
        if is_slowed {
            here.slowed += 1;
            counted.slowed += 1;
        }
        let left = WRONG_FOR.saturating_sub(now.saturating_duration_since(here.since));
        WrongToken {
            times: here.times,
            refused_for: (here.times > WRONG_MAX).then_some(left),
            slowed: is_slowed.then(|| SlowedAnswer { counted: self.clone(), address }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CountedTokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            let told = (answer.times, answer.slowed.is_some(), answer.refused_for.map(|wait| wait.as_secs()));
            assert_eq!(told, (times, slowed, refused_for), "{times} at {seconds} s");
        }
        let other = count([192, 0, 2, 2].into(), 59);
        assert_eq!((other.times, other.refused_for), (1, None), "another address");
    }

    #[test]
    fn few_answers_are_held_back_at_once() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let guess = |last: u32| wrong.count(IpAddr::V4((0x0A00_0000 + last).into()), now).slowed;
        let guesses = |last: u32| -> Vec<SlowedAnswer> { (0..100).filter_map(|_| guess(last)).collect() };
        let held: Vec<Vec<SlowedAnswer>> = (0..40).map(guesses).collect();
        assert_eq!(held[0].len(), SLOWED_HERE_MAX as usize);
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), SLOWED_MAX as usize);
        drop(held);
        assert!(guess(0).is_some(), "an answer that was sent gives its place back");
        assert_eq!(wrong.lock().slowed, 0);
        assert!(wrong.lock().by_address.values().all(|here| here.slowed == 0));
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
    fn many_addresses_take_bounded_memory() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        for last in 0..12_000_u32 {
            wrong.count(IpAddr::V4((0x0A00_0000 + last).into()), now + Duration::from_millis(last.into()));
        }
        let counted = wrong.lock();
        assert_eq!(counted.by_address.len(), ADDRESSES_MAX);
        assert!(!counted.by_address.contains_key(&IpAddr::from([10, 0, 0, 0])), "the longest counted is forgotten");
    }

    #[test]
    fn the_log_tells_of_few() {
        let told = |times: u32| WrongToken { times, refused_for: None, slowed: None }.is_told();
        let told: Vec<u32> = (1..=100_000).filter(|times| told(*times)).collect();
        assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 1_000, 10_000, 100_000]);
    }
}
