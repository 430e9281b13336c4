//! The interface between a race and its launcher: starting attempts, taking losers, and decisions while it runs. The defaults
//! run a plan unchanged. Not for the decisions themselves: see `policy`.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use photofinish_base::clock::Instant;
use photofinish_base::failure::Failure;
use photofinish_facts::record::StartReason;
use photofinish_routing::policy::plan::{PlannedStart, Replan};

/// A started attempt. It is ready at its first token, or, if the launcher makes such attempts, with its whole answer.
pub trait RacingAttempt: Future<Output = Result<Self::Ready, Failure>> + Unpin {
    type Ready: HeldAttempt;

    /// Called right before it is dropped or passed to [`Launch::lost`]. An attempt dropped without this call was dropped because
    /// the client left, or at a shutdown.
    fn cut(&mut self, cut: CutReason);

    /// Whether its first token has arrived before it is ready. Then it cannot be late, and nothing starts until it
    /// ends.
    fn has_begun(&self) -> bool {
        false
    }
}

/// A ready attempt while it is held back.
pub trait HeldAttempt {
    /// Reads on within a bound, so that events get the time of their arrival. Ready: it broke, and has recorded that.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure>;

    /// As for an attempt; called before [`Launch::lost_ready`].
    fn cut(&mut self, cut: CutReason);
}

/// Why an attempt is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// Another attempt won, or will.
    Lost,
    /// No first token within its timeout, and another attempt won.
    Late,
    /// The total deadline passed.
    Deadline,
}

/// An attempt that runs, or its result when it is ready.
pub struct RunningAttempt<A> {
    pub attempt: A,
    pub(super) entry: PlannedStart,
    pub(super) ordinal: usize,
    /// The instant of its start, by [`Launch::now`].
    pub started_at: Instant,
    /// When it is late. None once its first token came, or if it may run on.
    pub(super) late_at: Option<Instant>,
    /// It had no first token in its timeout.
    pub(super) was_late: bool,
    /// Another one was started because it was late.
    pub(super) is_overdue: bool,
    /// It was started because another one was late.
    pub(super) is_rescue: bool,
}

impl<A> RunningAttempt<A> {
    pub(super) fn became<R>(self, ready: R) -> RunningAttempt<R> {
        let RunningAttempt { entry, ordinal, started_at, late_at, was_late, is_overdue, is_rescue, .. } = self;
        RunningAttempt { attempt: ready, entry, ordinal, started_at, late_at, was_late, is_overdue, is_rescue }
    }

    pub fn candidate(&self) -> usize {
        self.entry.candidate
    }
}

/// Starts the attempts of a race and answers its questions.
pub trait Launch {
    type Ready: HeldAttempt;
    type Attempt: RacingAttempt<Ready = Self::Ready>;

    /// The clock of the race.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Starts an attempt. None: it may not start, now or later.
    fn launch(&mut self, starting: AttemptStart) -> Option<Self::Attempt>;

    /// Records a failure, and decides whether the same candidate is retried.
    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision;

    /// Whether a due retry may start while others run. False: it waits until one of them fails.
    fn affords_retry(&mut self, _candidate: usize, _running: &[RunningAttempt<Self::Attempt>]) -> bool {
        true
    }

    /// Takes a loser after its [`RacingAttempt::cut`]. Dropping it cancels it.
    fn lost(&mut self, attempt: Self::Attempt);

    /// Takes a loser that was ready, after its [`HeldAttempt::cut`]. Dropping it cancels it.
    fn lost_ready(&mut self, _candidate: usize, ready: Self::Ready) {
        drop(ready);
    }

    /// Decides what to start next. Called at `ask_after` of the plan, again when the last answer requests that, and
    /// after each failure; only while attempts run and none of their answers has begun.
    fn replan(&mut self, _running: &[RunningAttempt<Self::Attempt>], _waiting: &[usize]) -> Replan {
        Replan::Never
    }

    /// The candidate that starts after a failure, or in place of a late one, as an index into `waiting`, which is not empty. An index
    /// beyond the end means the last. None: no further one. `must`: nothing else runs, or all that runs is late.
    fn next_after_failure(&mut self, _waiting: &[usize], _must: bool) -> Option<usize> {
        Some(0)
    }

    /// How long a ready attempt is held back for the running ones. None: not at all.
    fn hold(
        &mut self,
        _ready: &RunningAttempt<Self::Ready>,
        _running: &[RunningAttempt<Self::Attempt>],
    ) -> Option<Duration> {
        None
    }

    /// Another attempt became ready during a hold: which of the two wins.
    fn prefer(&mut self, _held: &RunningAttempt<Self::Ready>, _new: &RunningAttempt<Self::Ready>) -> RaceSide {
        RaceSide::Held
    }

    /// An attempt that cannot win any more, as an index into `running`: it is cut as a loser. Asked after every event, and again
    /// after each answer.
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

/// Whether a failed candidate is retried in the same race, if time and attempts allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    No,
    /// At once, because its request changed or goes over a new connection.
    Now,
    /// After `wait`. `first`: until it starts, no failure starts another candidate; else the next one starts at once.
    Later {
        wait: Duration,
        first: bool,
    },
}

/// One of two ready attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceSide {
    Held,
    New,
}
