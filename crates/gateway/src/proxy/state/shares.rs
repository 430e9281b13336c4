//! What each caller holds of what all share: places of requests, and memory of bodies; and how much of it one caller may hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::proxy::refusals::shed::ShedReason;
use photofinish_base::clock::Instant;
use photofinish_config::User;

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
    /// The users of the configuration. 0: callers are distinguished by address.
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
    pub fn take_in_addition(
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

/// The part that is left to others while none of them waits: an eighth.
const RESERVE: usize = 8;

/// A caller asks for more of something. What it holds is never taken away, so what it may take depends on what it leaves: at
/// most half of what the others leave, and while no other waits more, up to a reserve that the next one finds.
#[derive(Clone, Copy, Debug)]
pub struct ShareQuestion {
    /// All there is.
    pub all: usize,
    /// What all callers hold.
    pub taken: usize,
    /// What this one holds of it.
    pub mine: usize,
    /// What it asks for.
    pub more: usize,
    /// What it has to leave to others: see [`reserve`].
    pub reserve: usize,
    /// Another caller was refused a moment ago.
    pub others_wait: bool,
}

/// Why a caller gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareRefusal {
    /// There is not so much left for anybody.
    AllTaken,
    /// The caller has its share.
    Share,
}

impl ShareQuestion {
    /// # Errors
    /// Why it gets nothing.
    pub fn answer(self) -> Result<(), ShareRefusal> {
        let ShareQuestion { all, taken, mine, more, reserve, others_wait } = self;
        let left = all.saturating_sub(taken).checked_sub(more).ok_or(ShareRefusal::AllTaken)?;
        // Half of what the others leave, rounded up, so that the last one may be taken too.
        let is_within_half = mine.saturating_add(more) <= left.saturating_add(1);
        if is_within_half || (!others_wait && left >= reserve) { Ok(()) } else { Err(ShareRefusal::Share) }
    }
}

/// What a caller has to leave to others while no other waits. `users`: the number of users, 0 if callers are distinguished by
/// address. Then there is rarely another one, and the reserve of a small gateway is none.
pub fn reserve(all: usize, users: usize) -> usize {
    match users {
        0 => all / RESERVE,
        1 => 0,
        _ => (all / RESERVE).max(1),
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
        let config = photofinish_config::parse(config, std::path::Path::new("x"), &|_| None).unwrap();
        let of = |user: Option<usize>, last: u8| {
            ShareHolder::of(user.map(|user| &*config.users[user]), [192, 0, 2, last].into())
        };
        assert_eq!(of(Some(0), 1), of(Some(0), 2));
        assert_ne!(of(Some(0), 1), of(Some(1), 1));
        assert_ne!(of(None, 1), of(None, 2));
        assert_eq!(of(None, 1), of(None, 1));
    }
}

#[cfg(test)]
mod fair_share_tests {
    use super::*;

    fn ask(all: usize, others: usize, mine: usize, others_wait: bool) -> Result<(), ShareRefusal> {
        let reserve = reserve(all, 9);
        ShareQuestion { all, taken: others + mine, mine, more: 1, reserve, others_wait }.answer()
    }

    /// What a caller gets at most, one place after the other.
    fn most(all: usize, others: usize, others_wait: bool) -> usize {
        (0..).find(|mine| ask(all, others, *mine, others_wait).is_err()).unwrap()
    }

    #[test]
    fn a_caller_holds_at_most_half_of_what_the_others_leave_while_they_wait() {
        for (all, others, alone, contended) in [
            // No other caller: all but the reserve, and half while another waits.
            (1_000, 0, 875, 500),
            // Of the rest half again, and so on: who comes next always finds a place.
            (1_000, 500, 375, 250),
            (1_000, 750, 125, 125),
            (1_000, 875, 63, 63),
            (1_000, 990, 5, 5),
            (1_000, 999, 1, 1),
            (1_000, 1_000, 0, 0),
            (1_000, 1_200, 0, 0),
            (8, 0, 7, 4),
            (4, 0, 3, 2),
            (4, 3, 1, 1),
            (3, 0, 2, 2),
            (2, 0, 1, 1),
            (2, 1, 1, 1),
            (1, 0, 1, 1),
        ] {
            assert_eq!((most(all, others, false), most(all, others, true)), (alone, contended), "{others} of {all}");
        }
    }

    #[test]
    fn many_who_take_all_they_can_leave_room_for_the_next() {
        // Each takes what it can while all others wait, 100 callers one after the other.
        let mut taken = 0;
        for caller in 0..9 {
            taken += most(1_000, taken, true);
            assert!(ask(1_000, taken, 0, true).is_ok(), "after {caller}");
        }
        // With as many callers as places each has one.
        assert!((0..1_000).all(|others| ask(1_000, others, 0, true).is_ok()));
    }

    #[test]
    fn who_holds_much_gets_nothing_until_others_have_theirs() {
        // It took 875 while it was alone. Then others came, and wait.
        let others: usize = 100;
        let regains = (0..=875).rev().find(|mine| ask(1_000, others, *mine, true).is_ok()).unwrap();
        assert_eq!(regains, 449, "below half of what the others leave");
    }

    #[test]
    fn amounts_are_shared_as_places_are() {
        let mib = 1 << 20;
        let question =
            ShareQuestion { all: 256 * mib, taken: 0, mine: 0, more: 32 * mib, reserve: 32 * mib, others_wait: true };
        assert_eq!(question.answer(), Ok(()));
        assert_eq!(ShareQuestion { taken: 128 * mib, mine: 128 * mib, ..question }.answer(), Err(ShareRefusal::Share));
        let alone = ShareQuestion { others_wait: false, ..question };
        assert_eq!(ShareQuestion { taken: 192 * mib, mine: 192 * mib, ..alone }.answer(), Ok(()));
        assert_eq!(ShareQuestion { taken: 224 * mib, mine: 224 * mib, ..alone }.answer(), Err(ShareRefusal::Share));
        assert_eq!(ShareQuestion { taken: 230 * mib, mine: 0, ..alone }.answer(), Err(ShareRefusal::AllTaken));
        let huge = ShareQuestion { more: usize::MAX, mine: usize::MAX, ..question };
        assert_eq!(huge.answer(), Err(ShareRefusal::AllTaken));
    }

    #[test]
    fn the_reserve_is_for_others_that_can_come() {
        for (all, users, expected) in
            [(1_000, 0, 125), (1_000, 1, 0), (1_000, 2, 125), (4, 0, 0), (4, 1, 0), (4, 2, 1), (1, 2, 1), (9, 0, 1)]
        {
            assert_eq!(reserve(all, users), expected, "{all} {users}");
        }
        let one_user = |mine| ShareQuestion { all: 4, taken: mine, mine, more: 1, reserve: 0, others_wait: false };
        assert!((0..4).all(|mine| one_user(mine).answer().is_ok()));
        assert_eq!(one_user(4).answer(), Err(ShareRefusal::AllTaken));
    }
}
