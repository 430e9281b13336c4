//! The place of one request: in the race, or among those whose bodies are still coming; and the memory that its body takes. Not for
//! counting what a caller holds: see `shares`.
//!
//! A request enters the race at once, leaves it while it waits for its body, and comes back with it, if there is room. The common
//! request has its body with its head, so it takes one lock to enter and one to leave.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::attempt::InFlightGuard;
use crate::proxy::refusals::shed::ShedReason;
use crate::proxy::state::shares::{CallerShares, ShareHolder, ShareLimits, SharedKind};

/// Bodies of shed requests that are read at the same time; further ones are closed.
const DISCARDS_MAX: i64 = 512;

/// The places of one gateway.
#[derive(Debug, Default)]
pub struct RequestPlaces {
    shares: CallerShares,
    /// Bodies of shed requests that are being read.
    discards: Arc<AtomicI64>,
}

impl RequestPlaces {
    /// A place in the race.
    ///
    /// # Errors
    /// Why there is none.
    pub fn enter(self: &Arc<Self>, holder: ShareHolder, limits: ShareLimits) -> Result<RequestPlace, ShedReason> {
        let before = self.shares.take(SharedKind::Racing, holder, limits)?;
        Ok(self.place(holder, limits, before))
    }

    /// A place in the race for a request of the operator. It is counted and not refused.
    pub fn enter_own(self: &Arc<Self>) -> RequestPlace {
        let before = self.shares.take_anyway(SharedKind::Racing, ShareHolder::Operator);
        self.place(ShareHolder::Operator, ShareLimits { all: usize::MAX, users: 1 }, before)
    }

    fn place(self: &Arc<Self>, holder: ShareHolder, limits: ShareLimits, before: usize) -> RequestPlace {
        RequestPlace { places: self.clone(), holder, limits, state: PlaceState::Held(SharedKind::Racing), before }
    }

    /// A place among the bodies that are read only to be dropped, if one is free.
    pub fn enter_discard(&self) -> Option<InFlightGuard> {
        let slot = InFlightGuard::enter(self.discards.clone());
        (slot.before < DISCARDS_MAX).then_some(slot)
    }

    /// Requests in the race.
    pub fn racing(&self) -> usize {
        self.shares.taken(SharedKind::Racing)
    }

    /// Requests whose bodies are still coming.
    pub fn arriving(&self) -> usize {
        self.shares.taken(SharedKind::Arriving)
    }
}

/// The place of one request, given back on drop. Not `Clone`: it counts once.
#[derive(Debug)]
pub struct RequestPlace {
    places: Arc<RequestPlaces>,
    holder: ShareHolder,
    limits: ShareLimits,
    state: PlaceState,
    /// Requests in the race when this one entered it.
    before: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceState {
    Held(SharedKind),
    /// It gave one place up and got no other.
    Lost(ShedReason),
}

impl RequestPlace {
    /// The body is not there yet: the request leaves the race until it is.
    ///
    /// # Errors
    /// Too many bodies are still coming, or too many of this caller. The request then has no place any more.
    pub fn arrive(&mut self) -> Result<(), ShedReason> {
        self.change_to(SharedKind::Arriving).map(drop)
    }

    /// The body is there.
    ///
    /// # Errors
    /// There is no place in the race any more. The request then has none at all.
    pub fn race(&mut self) -> Result<(), ShedReason> {
        if let Some(before) = self.change_to(SharedKind::Racing)? {
            self.before = before;
        }
        Ok(())
    }

    /// Returns how many places of this kind were taken before; none if the request has one.
    fn change_to(&mut self, kind: SharedKind) -> Result<Option<usize>, ShedReason> {
        let held = match self.state {
            PlaceState::Held(held) if held == kind => return Ok(None),
            PlaceState::Held(held) => held,
            PlaceState::Lost(why) => return Err(why),
        };
        let taken = self.places.shares.exchange((held, kind), self.holder, self.limits);
        self.state = taken.map_or_else(PlaceState::Lost, |_| PlaceState::Held(kind));
        taken.map(Some)
    }

    /// Whose it is.
    pub fn holder(&self) -> ShareHolder {
        self.holder
    }

    /// Requests in the race when this one entered it.
    pub fn before(&self) -> usize {
        self.before
    }

    /// Why the request has no place any more.
    pub fn lost(&self) -> Option<ShedReason> {
        match self.state {
            PlaceState::Held(_) => None,
            PlaceState::Lost(why) => Some(why),
        }
    }

    /// The share of memory that the body of this request takes; empty at first.
    pub fn body_share(&self) -> BodyShare {
        BodyShare { places: self.places.clone(), holder: self.holder, users: self.limits.users, bytes: 0 }
    }

    /// As [`RequestPlaces::enter_discard`].
    pub fn enter_discard(&self) -> Option<InFlightGuard> {
        self.places.enter_discard()
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        if let PlaceState::Held(kind) = self.state {
            self.places.shares.give_back(kind, self.holder, 1);
        }
    }
}

/// What one body takes of its caller's share of memory, given back on drop. Empty for a small one: their number bounds them.
#[derive(Debug)]
pub struct BodyShare {
    places: Arc<RequestPlaces>,
    holder: ShareHolder,
    users: usize,
    bytes: usize,
}

impl BodyShare {
    /// Counts a body of this many bytes, of `all` the memory there is. It counts twice, because it may be translated. A
    /// caller's only body is not refused: it fits into memory or not.
    ///
    /// # Errors
    /// The other bodies of this caller take too much.
    pub fn cover(&mut self, bytes: usize, all: usize) -> Result<(), ShedReason> {
        let more = bytes.saturating_mul(2).saturating_sub(self.bytes);
        if more > 0 {
            let limits = ShareLimits { all, users: self.users };
            self.places.shares.take_in_addition(SharedKind::Memory, self.holder, self.bytes, (more, limits))?;
            self.bytes += more;
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.places.shares.give_back(SharedKind::Memory, self.holder, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShareLimits = ShareLimits { all: 1_000, users: 9 };

    fn user(id: u64) -> ShareHolder {
        ShareHolder::User(id)
    }

    #[test]
    fn a_body_that_is_still_coming_holds_no_place_in_the_race() {
        let places = Arc::<RequestPlaces>::default();
        let mut slow = Vec::new();
        for _ in 0..1_100 {
            let mut place = places.enter(user(1), LIMITS).unwrap();
            if place.arrive().is_ok() {
                slow.push(place);
            } else {
                assert_eq!(place.lost(), Some(ShedReason::Share));
                assert_eq!(place.race(), Err(ShedReason::Share), "it stays lost");
            }
        }
        assert_eq!((slow.len(), places.racing(), places.arriving()), (875, 0, 875));
        let mut other = places.enter(user(2), LIMITS).unwrap();
        other.arrive().unwrap();
        other.arrive().unwrap();
        let _racing = [(); 10].map(|()| places.enter(user(1), LIMITS).unwrap());
        other.race().unwrap();
        assert_eq!((other.before(), places.racing(), places.arriving()), (10, 11, 875));
        // The body is there, and the race is full.
        let _others: Vec<RequestPlace> =
            (0..1_000).filter_map(|id| places.enter(user(100 + id), LIMITS).ok()).collect();
        assert_eq!(places.racing(), 1_000);
        assert_eq!(slow[0].race(), Err(ShedReason::InFlight));
        assert_eq!((slow[0].lost(), places.arriving()), (Some(ShedReason::InFlight), 874));
        drop((slow, other));
        assert_eq!(places.arriving(), 0);
    }

    #[test]
    fn large_bodies_of_one_caller_leave_memory_to_others() {
        const MIB: usize = 1 << 20;
        let places = Arc::<RequestPlaces>::default();
        let all = 256 * MIB;
        let hold = |who: ShareHolder, mib: usize| {
            let mut share = places.enter(who, LIMITS).unwrap().body_share();
            share.cover(mib * MIB, all).map(|()| share)
        };
        let mut mine: Vec<BodyShare> = (0..20).filter_map(|_| hold(user(1), 8).ok()).collect();
        assert_eq!(mine.len(), 14, "each counts twice, and an eighth is left");
        let theirs = hold(user(2), 8).unwrap();
        assert_eq!(hold(user(2), 1).unwrap_err(), ShedReason::Share);
        // The only body of a caller is bounded by memory alone, however it grows.
        let mut only = places.enter(user(3), LIMITS).unwrap().body_share();
        (1..=200).for_each(|mib| only.cover(mib * MIB, all).unwrap());
        assert!(only.cover(MIB, all).is_ok() && !only.is_empty());
        assert_eq!(hold(user(1), 1).unwrap_err(), ShedReason::Memory, "more than there is");
        drop((only, theirs));
        mine.truncate(5);
        assert!(hold(user(1), 8).is_ok());
        drop(mine);
        assert_eq!(places.shares.taken(SharedKind::Memory), 0);
    }

    #[test]
    fn the_operator_is_counted_and_not_refused() {
        let places = Arc::<RequestPlaces>::default();
        let mut own = [(); 3].map(|()| places.enter_own());
        assert!(own.iter_mut().all(|own| own.arrive().is_ok()));
        assert!(own.iter_mut().all(|own| own.race().is_ok()));
        assert_eq!(places.racing(), 3);
        let limits = ShareLimits { all: 1, users: 9 };
        assert_eq!(places.enter(user(1), limits).unwrap_err(), ShedReason::InFlight);
    }
}
