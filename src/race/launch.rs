//! What a race asks of its surroundings: to start an attempt, to take a loser, and, where a plan learns while it runs, what
//! is to be done next. The defaults run a plan as it was made.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{ReadyArrival, RunningAttempt};
use crate::clock::Instant;
use crate::failure::Failure;
use crate::history::StartReason;
use crate::routing::plan::Replan;

/// A started attempt. Ready means: it may be committed to, for its first token is there, or its whole answer where the
/// launcher makes such attempts.
pub trait RacingAttempt: Future<Output = Result<Self::Ready, Failure>> + Unpin {
    type Ready: HeldAttempt;

    /// Called right before it is dropped or handed to [`Launch::lost`]. An attempt that is dropped without it was dropped
    /// because the client left, or at a shutdown.
    fn cut(&mut self, cut: CutReason);

    /// Its first token is there although it is not ready: it cannot be late any more, and no timer of the plan starts
    /// another beside it.
    fn has_begun(&self) -> bool {
        false
    }
}

/// What is ready, as long as it is held back.
pub trait HeldAttempt {
    /// Reads on, within a bound, so that what comes meanwhile is stamped when it comes. Ready: it broke, and recorded that.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure>;

    /// As for an attempt; called before [`Launch::lost_ready`].
    fn cut(&mut self, cut: CutReason);
}

/// Why an attempt is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// Another attempt won, or will.
    Lost,
    /// No first token within its timeout.
    Late,
    /// The total deadline passed.
    Deadline,
}

/// What the race asks of its surroundings.
pub trait Launch {
    type Ready: HeldAttempt;
    type Attempt: RacingAttempt<Ready = Self::Ready>;

    /// The clock of the race.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Starts an attempt.
    fn launch(&mut self, starting: AttemptStart) -> Self::Attempt;

    /// Hears of a failure, and says whether the same candidate is asked again.
    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision;

    /// Asked when a retry is due while others run. False: it waits until one of them fails.
    fn affords_retry(&mut self, _candidate: usize, _running: &[RunningAttempt<Self::Attempt>]) -> bool {
        true
    }

    /// Takes a loser, which was told so; to drop it cancels it.
    fn lost(&mut self, attempt: Self::Attempt);

    /// Takes a loser that was ready, which was told so; to drop it cancels it.
    fn lost_ready(&mut self, _candidate: usize, ready: Self::Ready) {
        drop(ready);
    }

    /// Asked of a plan with `ask_after` while something may be started beside what runs, none of which has begun: then, when
    /// its last answer says so, and after each failure.
    fn replan(&mut self, _running: &[RunningAttempt<Self::Attempt>], _waiting: &[usize]) -> Replan {
        Replan::Never
    }

    /// Which of those that wait, by its place among them, is started because of a failure. Beyond the last: the last.
    fn next_after_failure(&mut self, _waiting: &[usize]) -> usize {
        0
    }

    /// One is ready and others run: how long to wait for these before it is committed to. None: not at all.
    fn hold(
        &mut self,
        _ready: &ReadyArrival<Self::Ready>,
        _running: &[RunningAttempt<Self::Attempt>],
    ) -> Option<Duration> {
        None
    }

    /// Another one became ready while one was held back: which is committed to.
    fn prefer(&mut self, _held: &ReadyArrival<Self::Ready>, _new: &ReadyArrival<Self::Ready>) -> RaceSide {
        RaceSide::Held
    }

    /// One of several that cannot win any more, by its place among them: it is cut as a loser. Asked whenever anything may
    /// have come, and again after each answer.
    fn hopeless(&mut self, _running: &[RunningAttempt<Self::Attempt>]) -> Option<usize> {
        None
    }
}

/// One start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttemptStart {
    pub candidate: usize,
    /// From 0, in the order of starting.
    pub ordinal: usize,
    pub reason: StartReason,
    pub p_include: f64,
}

/// Whether a candidate that failed is asked again in the same race, as far as its time and its attempts allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    No,
    /// At once: the request to it has changed, or goes over a new connection.
    Now,
    /// After `wait`. `first`: until it is started, no failure starts another; else the next is started at once.
    Later {
        wait: Duration,
        first: bool,
    },
}

/// One of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceSide {
    Held,
    New,
}
