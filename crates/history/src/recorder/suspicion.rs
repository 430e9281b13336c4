//! Decides what to do about a database that seems damaged. Only damage that is confirmed counts: by a check of the whole
//! file, or by the writer's own error after a check that found nothing. A lock or a full disk never gets here.
//!
//! Not for doing it: see `upkeep`.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::{FileFinding, Symptom};

/// After a check that found nothing, the word of a reader counts for nothing for this long, and the next error of the
/// writer is proof enough.
const CLEARED_FOR: Duration = Duration::from_secs(600);

/// Checks in a row in which the disk must fail to return a part of the file: it may only be away for a moment.
const UNREADABLE_CHECKS: u32 = 3;

/// From one such check to the next, and from one try to move the file to the next.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Who says that the database is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    /// A write, or the look at what was just written.
    Writer(Symptom),
    /// A question, a roll-up, or a row that is missing.
    Reader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DamageStep {
    GoOn,
    /// Now, or at `again_at`.
    Examine,
    SetAside,
}

#[derive(Debug, Default)]
pub(super) struct Suspicion {
    /// When a check found nothing.
    cleared_at: Option<Instant>,
    /// Checks in a row in which the disk failed.
    unreadable: u32,
    /// When the file is examined again.
    pub again_at: Option<Instant>,
}

impl Suspicion {
    pub fn heard(&self, witness: Witness, now: Instant) -> DamageStep {
        let was_cleared = self.cleared_at.is_some_and(|at| now - at < CLEARED_FOR);
        match witness {
            Witness::Reader if was_cleared => DamageStep::GoOn,
            Witness::Writer(Symptom::Damaged) if was_cleared => DamageStep::SetAside,
            Witness::Reader | Witness::Writer(_) => DamageStep::Examine,
        }
    }

    /// `is_ending`: the gateway ends, and has interrupted the check.
    pub fn found(&mut self, finding: &FileFinding, now: Instant, is_ending: bool) -> DamageStep {
        match finding {
            FileFinding::Damaged(_) => DamageStep::SetAside,
            FileFinding::Unreadable(_) if self.unreadable + 1 >= UNREADABLE_CHECKS => DamageStep::SetAside,
            FileFinding::Unreadable(_) => {
                self.unreadable += 1;
                self.again(now)
            }
            FileFinding::Unknown(_) if is_ending => self.again(now),
            FileFinding::Sound | FileFinding::Unknown(_) => {
                *self = Suspicion { cleared_at: Some(now), ..Suspicion::default() };
                DamageStep::GoOn
            }
        }
    }

    /// The file is examined again later.
    pub fn again(&mut self, now: Instant) -> DamageStep {
        self.again_at = Some(now + AGAIN_AFTER);
        DamageStep::Examine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        "why".to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn damage_counts_when_it_is_confirmed() {
        use DamageStep::{Examine, GoOn, SetAside};
        let writer = Witness::Writer(Symptom::Damaged);
        let disk = Witness::Writer(Symptom::Unreadable);
        for (finding, after, then) in [
            (FileFinding::Damaged(text()), SetAside, [Examine, Examine, Examine]),
            (FileFinding::Unreadable(text()), Examine, [Examine, Examine, Examine]),
            (FileFinding::Sound, GoOn, [SetAside, Examine, GoOn]),
            (FileFinding::Unknown(text()), GoOn, [SetAside, Examine, GoOn]),
        ] {
            let (mut suspicion, now) = (Suspicion::default(), Instant::now());
            let heard = |suspicion: &Suspicion, at| [writer, disk, Witness::Reader].map(|who| suspicion.heard(who, at));
            assert_eq!(heard(&suspicion, now), [Examine; 3]);
            assert_eq!(suspicion.found(&finding, now, false), after, "{finding:?}");
            assert_eq!(heard(&suspicion, now), then, "{finding:?}");
            assert_eq!(heard(&suspicion, now + CLEARED_FOR), [Examine; 3], "{finding:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_must_fail_several_times() {
        let (mut suspicion, mut now) = (Suspicion::default(), Instant::now());
        let fails = FileFinding::Unreadable(text());
        for _ in 1..UNREADABLE_CHECKS {
            assert_eq!(suspicion.found(&fails, now, false), DamageStep::Examine);
            assert_eq!(suspicion.again_at, Some(now + AGAIN_AFTER));
            now += AGAIN_AFTER;
        }
        assert_eq!(suspicion.found(&fails, now, false), DamageStep::SetAside);
        assert_eq!(suspicion.found(&FileFinding::Sound, now, false), DamageStep::GoOn);
        assert_eq!(suspicion.found(&fails, now, false), DamageStep::Examine, "it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_the_end_interrupts_clears_nothing() {
        let (mut suspicion, now) = (Suspicion::default(), Instant::now());
        assert_eq!(suspicion.found(&FileFinding::Unknown(text()), now, true), DamageStep::Examine);
        assert!(suspicion.again_at.is_some());
    }
}
