//! The fair share: how much of something that all callers share one of them may hold. Pure. Not for counting: see `shares`.
//!
//! What a caller holds is never taken away. So what it may take depends on what it leaves: at most half of what the others leave,
//! and while none of them waits more, up to a reserve that the next one finds.

/// The part that is left to others while none of them waits: an eighth.
const RESERVE: usize = 8;

/// A caller asks for more of something.
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

/// What a caller has to leave to others while none of them waits. `users`: the number of users, 0 if callers are told apart by
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
        for (all, others, alone, beside) in [
            // Nobody else: all but the reserve, and half while another waits.
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
            assert_eq!((most(all, others, false), most(all, others, true)), (alone, beside), "{others} of {all}");
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
