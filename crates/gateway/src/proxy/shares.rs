//! What each caller holds of what all share: places of requests, and memory of bodies. Not for the rule: see `fair_share`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fair_share::{ShareQuestion, ShareRefusal, reserve};
use super::load::ShedReason;
use photofinish_base::clock::Instant;
use photofinish_config::config::User;

/// How long a caller that was refused counts as waiting: longer than clients wait before they ask again.
const WAITS_FOR: Duration = Duration::from_secs(10);

/// Who holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareHolder {
    /// The hash of a user's name.
    User(u64),
    /// Without users: an IPv4 address, or a /64 network of IPv6.
    Address(IpAddr),
    /// The gateway's own requests. They are counted and not refused.
    Operator,
}

impl ShareHolder {
    pub fn of(user: Option<&User>, address: IpAddr) -> ShareHolder {
        let Some(user) = user else { return ShareHolder::Address(address) };
        let mut hasher = DefaultHasher::new();
        user.name.hash(&mut hasher);
        ShareHolder::User(hasher.finish())
    }
}

/// What callers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// Places of requests that are there, and are served.
    Racing,
    /// Places of requests whose bodies are still coming.
    Arriving,
    /// Bytes of large bodies.
    Memory,
}

const KINDS: usize = 3;

/// How much there is, and for how many.
#[derive(Clone, Copy, Debug)]
pub struct ShareLimits {
    /// Places, or bytes.
    pub all: usize,
    /// The users of the configuration. 0: callers are told apart by address.
    pub users: usize,
}

/// The shares of all callers.
#[derive(Debug, Default)]
pub struct CallerShares {
    held: Mutex<HeldShares>,
    /// What is taken, by kind. Changed under the lock, read without it.
    taken: [AtomicUsize; KINDS],
}

#[derive(Debug, Default)]
struct HeldShares {
    /// Only those who hold any. By kind.
    by_holder: HashMap<ShareHolder, [usize; KINDS]>,
    refused: [LastRefusals; KINDS],
}

impl CallerShares {
    pub fn taken(&self, kind: SharedKind) -> usize {
        self.taken[kind as usize].load(Ordering::Relaxed)
    }

    /// Takes one place. Returns how many were taken before.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(&self, kind: SharedKind, holder: ShareHolder, limits: ShareLimits) -> Result<usize, ShedReason> {
        self.take_more(&mut self.lock(), kind, holder, (1, limits))
    }

    /// Takes a place in exchange for one of another kind, which is given back in any case.
    ///
    /// # Errors
    /// Why there is none.
    pub fn exchange(
        &self,
        (from, to): (SharedKind, SharedKind),
        holder: ShareHolder,
        limits: ShareLimits,
    ) -> Result<usize, ShedReason> {
        let mut held = self.lock();
        self.taken[from as usize].fetch_sub(1, Ordering::Relaxed);
        // Not removed when it holds nothing for a moment.
        if let Some(mine) = held.by_holder.get_mut(&holder) {
            mine[from as usize] -= 1;
        }
        let taken = self.take_more(&mut held, to, holder, (1, limits));
        if taken.is_err() {
            self.subtract(&mut held, from, holder, 0);
        }
        taken
    }

    /// Takes `more` in addition to the `own` part of one body. If the holder holds nothing else, it is not refused.
    ///
    /// # Errors
    /// Why there is not so much.
    pub fn take_beside(
        &self,
        kind: SharedKind,
        holder: ShareHolder,
        own: usize,
        (more, limits): (usize, ShareLimits),
    ) -> Result<(), ShedReason> {
        let mut held = self.lock();
        if held.mine(kind, holder) == own || holder == ShareHolder::Operator {
            self.add(&mut held, kind, holder, more);
            return Ok(());
        }
        self.take_more(&mut held, kind, holder, (more, limits)).map(drop)
    }

    /// Takes one place without asking. Returns how many were taken before.
    pub fn take_anyway(&self, kind: SharedKind, holder: ShareHolder) -> usize {
        self.add(&mut self.lock(), kind, holder, 1)
    }

    pub fn give_back(&self, kind: SharedKind, holder: ShareHolder, less: usize) {
        self.subtract(&mut self.lock(), kind, holder, less);
    }

    fn take_more(
        &self,
        held: &mut HeldShares,
        kind: SharedKind,
        holder: ShareHolder,
        (more, limits): (usize, ShareLimits),
    ) -> Result<usize, ShedReason> {
        let HeldShares { by_holder, refused } = held;
        let mine = by_holder.get_mut(&holder);
        let question = ShareQuestion {
            all: limits.all,
            taken: self.taken(kind),
            mine: mine.as_ref().map_or(0, |mine| mine[kind as usize]),
            more,
            reserve: reserve(limits.all, limits.users),
            others_wait: refused[kind as usize].others_wait(holder),
        };
        let Err(why) = question.answer() else {
            // Looked up once: this is on the path of every request.
            match mine {
                Some(mine) => mine[kind as usize] += more,
                None => by_holder.entry(holder).or_default()[kind as usize] = more,
            }
            return Ok(self.taken[kind as usize].fetch_add(more, Ordering::Relaxed));
        };
        refused[kind as usize].note(holder);
        Err(match why {
            ShareRefusal::AllTaken if kind == SharedKind::Memory => ShedReason::Memory,
            ShareRefusal::AllTaken => ShedReason::InFlight,
            ShareRefusal::Share => ShedReason::Share,
        })
    }

    fn add(&self, held: &mut HeldShares, kind: SharedKind, holder: ShareHolder, more: usize) -> usize {
        held.by_holder.entry(holder).or_default()[kind as usize] += more;
        self.taken[kind as usize].fetch_add(more, Ordering::Relaxed)
    }

    fn subtract(&self, held: &mut HeldShares, kind: SharedKind, holder: ShareHolder, less: usize) {
        self.taken[kind as usize].fetch_sub(less, Ordering::Relaxed);
        let Entry::Occupied(mut mine) = held.by_holder.entry(holder) else { return };
        mine.get_mut()[kind as usize] -= less;
        if mine.get().iter().all(|holds| *holds == 0) {
            mine.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldShares> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldShares {
    fn mine(&self, kind: SharedKind, holder: ShareHolder) -> usize {
        self.by_holder.get(&holder).map_or(0, |mine| mine[kind as usize])
    }
}

/// The last two callers that were refused: whoever asks, one of them is another.
#[derive(Debug, Default)]
struct LastRefusals([Option<(ShareHolder, Instant)>; 2]);

impl LastRefusals {
    fn note(&mut self, who: ShareHolder) {
        let [latest, before] = &mut self.0;
        if latest.is_some_and(|(other, _)| other != who) {
            *before = *latest;
        }
        *latest = Some((who, Instant::now()));
    }

    /// Whether another caller than this one was refused a moment ago.
    fn others_wait(&self, who: ShareHolder) -> bool {
        let is_waiting = |(other, at): &(ShareHolder, Instant)| *other != who && at.elapsed() < WAITS_FOR;
        self.0.iter().flatten().any(is_waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShareLimits = ShareLimits { all: 1_000, users: 9 };
    const RACING: SharedKind = SharedKind::Racing;

    fn user(id: u64) -> ShareHolder {
        ShareHolder::User(id)
    }

    fn fill(shares: &CallerShares, who: ShareHolder) -> usize {
        (0..1_560).filter(|_| shares.take(RACING, who, LIMITS).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_leaves_the_reserve_and_others_share_it() {
        let shares = CallerShares::default();
        assert_eq!((fill(&shares, user(1)), shares.taken(RACING)), (875, 875));
        for caller in 2..27 {
            shares.take(RACING, user(caller), LIMITS).unwrap();
            shares.give_back(RACING, user(caller), 1);
        }
        assert_eq!(fill(&shares, user(2)), 63);
        assert_eq!(shares.take(RACING, user(1), LIMITS), Err(ShedReason::Share));
        // Now the second one waits: what the first gives back is not its own again until it holds less than half.
        shares.give_back(RACING, user(1), 375);
        assert_eq!(shares.take(RACING, user(1), LIMITS), Err(ShedReason::Share));
        assert_eq!(shares.take(RACING, user(2), LIMITS), Ok(563));
        tokio::time::advance(WAITS_FOR).await;
        assert_eq!(shares.take(RACING, user(1), LIMITS), Ok(564));
        shares.give_back(RACING, user(1), 501);
        shares.give_back(RACING, user(2), 64);
        assert_eq!(shares.taken(RACING), 0);
        assert!(shares.lock().by_holder.is_empty(), "who holds nothing is not remembered");
    }

    #[test]
    fn the_last_two_callers_that_were_refused_are_known() {
        let mut refused = LastRefusals::default();
        assert!(!refused.others_wait(user(1)));
        refused.note(user(1));
        assert!(!refused.others_wait(user(1)) && refused.others_wait(user(2)));
        for _ in 0..3 {
            refused.note(user(2));
        }
        assert!([1, 2, 3].into_iter().all(|id| refused.others_wait(user(id))));
        refused.note(user(1));
        assert!([1, 2, 3].into_iter().all(|id| refused.others_wait(user(id))));
    }

    #[test]
    fn a_caller_is_a_user_or_else_an_address() {
        let config = "[users.ann]\ntoken = \"t\"\n[users.bob]\ntoken = \"u\"";
        let config = photofinish_config::config::parse(config, std::path::Path::new("x"), &|_| None).unwrap();
        let of = |user: Option<usize>, last: u8| {
            ShareHolder::of(user.map(|user| &*config.users[user]), [192, 0, 2, last].into())
        };
        assert_eq!(of(Some(0), 1), of(Some(0), 2));
        assert_ne!(of(Some(0), 1), of(Some(1), 1));
        assert_ne!(of(None, 1), of(None, 2));
        assert_eq!(of(None, 1), of(None, 1));
    }
}
