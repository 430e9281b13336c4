//! What racing was: the attempts that were not the answer, by what they were for.
//!
//! Pure. Not for what they cost: see `cost`.

use crate::record::names::{AttemptOutcome, RaceSource, StartReason};
use photofinish_config::names::names;

/// What racing cost is the cost of these attempts. The API says it with its figures.
pub const RACING: &str = "every attempt that was not the answer: of a request that was answered all others, also those that failed; \
    of one without an answer what lost or was cut next to another; and shadows. A failed attempt of a request without an answer \
    is none";

names! {
    /// What an attempt was for that was not the answer. Roll-ups store places of this list: a new kind goes to the end.
    #[derive(Hash)]
    pub enum RacingKind {
        /// It started with the first, and was cut off.
        Cut = "cut",
        /// It started because others were late or failed, and was cut off.
        Late = "late",
        /// The request drew its upstream to be looked at.
        Look = "looks",
        /// It ran on to its first token, to be measured.
        Audit = "audits",
        /// It was read to its end, because its provider bills a cancelled answer in full.
        Drain = "drains",
        /// It failed, and another attempt answered.
        Failed = "failed",
        /// The client's request once more, at a newcomer.
        Shadow = "shadows",
    }
}

/// An attempt, as far as this needs it.
#[derive(Clone, Copy, Debug)]
pub struct CostedAttempt {
    pub ordinal: i64,
    pub outcome: AttemptOutcome,
    pub start_reason: StartReason,
    pub audited: bool,
    /// Its upstream is the one that the request drew.
    pub is_look: bool,
}

/// Its request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostedRequest {
    pub source: RaceSource,
    /// The attempts whose answer the client got: the winner, and the one that continued it after a break.
    pub answers: [Option<i64>; 2],
    /// Where no upstream answered: the first attempt that was cut, which a single attempt would have been too.
    pub first_cut: Option<i64>,
}

impl CostedRequest {
    /// `attempts`: all of them.
    pub fn new(
        source: RaceSource,
        answers: [Option<i64>; 2],
        attempts: impl Iterator<Item = (i64, AttemptOutcome)>,
    ) -> CostedRequest {
        let cut = attempts.filter(|(_, outcome)| was_stopped(*outcome));
        CostedRequest { source, answers, first_cut: cut.map(|(ordinal, _)| ordinal).min() }
    }

    fn is_answered(&self) -> bool {
        self.answers.iter().any(Option::is_some)
    }
}

impl RacingKind {
    /// None: the attempt was the answer, or failed where no upstream answered. `request`: none while its row is not written.
    pub fn of(attempt: &CostedAttempt, request: Option<&CostedRequest>) -> Option<RacingKind> {
        let CostedAttempt { ordinal, outcome, .. } = *attempt;
        let request = request.copied().unwrap_or_default();
        if request.source == RaceSource::Shadow {
            return Some(RacingKind::Shadow);
        }
        if outcome == AttemptOutcome::Drained {
            return Some(RacingKind::Drain);
        }
        if request.answers.contains(&Some(ordinal)) {
            return None;
        }
        if outcome.is_loss() {
            return Some(RacingKind::of_loser(attempt));
        }
        match (request.is_answered(), was_stopped(outcome)) {
            (true, false) => Some(RacingKind::Failed),
            (false, false) => None,
            (false, true) if request.first_cut.is_none_or(|first| first == ordinal) => None,
            (_, true) => Some(RacingKind::of_loser(attempt)),
        }
    }

    fn of_loser(attempt: &CostedAttempt) -> RacingKind {
        match attempt.start_reason {
            _ if attempt.is_look => RacingKind::Look,
            _ if attempt.audited => RacingKind::Audit,
            StartReason::First => RacingKind::Cut,
            _ => RacingKind::Late,
        }
    }

    /// Such an attempt was cancelled.
    pub fn is_cancelled(self) -> bool {
        matches!(self, RacingKind::Cut | RacingKind::Late | RacingKind::Look | RacingKind::Audit)
    }
}

/// It ended with its request, and not by its own fault.
fn was_stopped(outcome: AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::ClientGone | AttemptOutcome::Shutdown | AttemptOutcome::Shed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttemptOutcome::{ClientGone, Drained, Failed, FailedMid, Lost, Won};
    use StartReason::{Fallback, First, Hedge, Rescue, Retry};

    fn kinds(
        source: RaceSource,
        answers: [Option<i64>; 2],
        attempts: &[(AttemptOutcome, StartReason)],
    ) -> Vec<Option<&'static str>> {
        let numbered = || (0..).zip(attempts);
        let request =
            CostedRequest::new(source, answers, numbered().map(|(ordinal, (outcome, _))| (ordinal, *outcome)));
        let kind = |(ordinal, (outcome, start_reason)): (i64, &(AttemptOutcome, StartReason))| {
            let (outcome, start_reason) = (*outcome, *start_reason);
            let attempt = CostedAttempt { ordinal, outcome, start_reason, audited: false, is_look: false };
            RacingKind::of(&attempt, Some(&request)).map(RacingKind::as_str)
        };
        numbered().map(kind).collect()
    }

    #[test]
    fn racing_is_what_was_not_the_answer() {
        let of = |answers, attempts: &[_]| kinds(RaceSource::Client, answers, attempts);
        let (none, first, second) = ([None, None], [Some(0), None], [Some(1), None]);
        assert_eq!(of(first, &[(Won, First), (Lost, First), (Lost, Hedge)]), [None, Some("cut"), Some("late")]);
        assert_eq!(of(second, &[(Failed, First), (Won, Retry)]), [Some("failed"), None], "a retry before the answer");
        assert_eq!(of(none, &[(Failed, First), (Failed, Fallback)]), [None, None], "no answer");
        assert_eq!(of(none, &[(ClientGone, First)]), [None], "a single attempt would have cost the same");
        assert_eq!(of(none, &[(ClientGone, First), (ClientGone, Hedge)]), [None, Some("late")]);
        assert_eq!(of(none, &[(Failed, First), (ClientGone, Fallback)]), [None, None]);
        assert_eq!(of(first, &[(ClientGone, First), (Lost, First)]), [None, Some("cut")], "left while it was answered");
        assert_eq!(
            of([Some(0), Some(1)], &[(FailedMid, First), (Won, Rescue)]),
            [None, None],
            "both are in the answer"
        );
        assert_eq!(of(none, &[(Drained, First), (Failed, First)]), [Some("drains"), None]);
        assert_eq!(kinds(RaceSource::Shadow, first, &[(Won, First)]), [Some("shadows")]);
        assert_eq!(kinds(RaceSource::Probe, first, &[(Won, First)]), [None]);
    }

    #[test]
    fn looks_and_audits_are_told_apart_and_a_race_without_a_row_has_its_losers() {
        let attempt =
            |outcome, audited, is_look| CostedAttempt { ordinal: 1, outcome, start_reason: First, audited, is_look };
        let kind = |attempt: CostedAttempt| RacingKind::of(&attempt, None);
        assert_eq!(kind(attempt(Lost, true, true)), Some(RacingKind::Look));
        assert_eq!(kind(attempt(Lost, true, false)), Some(RacingKind::Audit));
        assert_eq!(kind(attempt(Lost, false, false)), Some(RacingKind::Cut));
        assert_eq!(kind(attempt(Won, false, false)), None);
    }
}
