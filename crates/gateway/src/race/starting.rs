//! Starts: by a timer of the plan, by the policy, or after a failure. Not for endings.

use std::time::Duration;

use super::{AttemptStart, Launch, Race, Replan, RetryDecision, RunningAttempt, WaitingCandidate};
use photofinish_base::clock::Instant;
use photofinish_history::record::StartReason;
use photofinish_routing::routing::plan::{PlannedStart, StartRule};

/// The shortest pause between two questions to the policy, unless an attempt fails or starts.
const ASK_PAUSE: Duration = Duration::from_millis(1);

impl<L: Launch> Race<L> {
    /// Asks the policy for hedges when that is due.
    pub(super) fn ask(&mut self) {
        let now = self.launch.now();
        while self.asks_at().is_some_and(|at| at <= now) {
            let free = self.free();
            let replan = self.launch.replan(&self.running, &self.candidates(&free));
            tracing::debug!(?replan, "what the policy starts in addition");
            match replan {
                Replan::Start(candidate) => {
                    match free.iter().find(|place| self.waiting[**place].entry.candidate == candidate) {
                        Some(place) => self.start_at(*place, StartReason::Hedge),
                        None => self.ask_at = None,
                    }
                }
                Replan::Again(after) => self.ask_at = Some(now + after.max(ASK_PAUSE).min(self.plan.total)),
                Replan::Never => self.ask_at = None,
            }
        }
    }

    /// Starts candidates whose timer or retry is due. A retry while others run needs the launcher's consent; without it, it
    /// waits until they fail.
    pub(super) fn start_what_is_due(&mut self) {
        let now = self.launch.now();
        while let Some(position) =
            self.waiting.iter().position(|waiting| self.starts_at(waiting).is_some_and(|at| at <= now))
        {
            let waiting = &mut self.waiting[position];
            let (candidate, first) = (waiting.entry.candidate, waiting.first);
            let is_retry = waiting.due.take().is_some();
            let beside = is_retry && !first && !self.running.is_empty();
            if beside && !self.launch.affords_retry(candidate, &self.running) {
                continue;
            }
            let reason = match self.waiting[position].entry.start {
                StartRule::At(Duration::ZERO) => StartReason::First,
                _ => StartReason::Hedge,
            };
            self.start_at(position, reason);
        }
    }

    /// Starts the next candidate: the first by the plan's order, later ones by the launcher's choice. Losers start again when no
    /// other is left. False if none may start.
    pub(super) fn start_next(&mut self, reason: StartReason) -> bool {
        if !self.may_start() || self.waiting.iter().any(|waiting| waiting.first && waiting.due.is_some()) {
            return false;
        }
        let mut free = self.free();
        if free.is_empty() && self.running.is_empty() {
            self.recall_losers();
            free = self.free();
        }
        let place = match reason {
            StartReason::First => 0,
            _ => {
                // Losers come after untried candidates.
                let untried = free.iter().take_while(|place| !self.waiting[**place].retry).count();
                free.truncate(if untried == 0 { free.len() } else { untried });
                if free.is_empty() { 0 } else { self.launch.next_after_failure(&self.candidates(&free)) }
            }
        };
        let Some(position) = free.get(place).or(free.last()) else { return false };
        self.start_at(*position, reason);
        true
    }

    /// Puts a failed candidate first in the waiting list, if it is to be retried and time and attempts allow it.
    pub(super) fn put_back(&mut self, entry: PlannedStart, again: RetryDecision) -> bool {
        let (wait, first) = match again {
            RetryDecision::No => return false,
            RetryDecision::Now => (Duration::ZERO, true),
            RetryDecision::Later { wait, first } => (wait, first),
        };
        let due = self.launch.now() + wait.min(self.plan.total);
        // A retry takes no place of a candidate that was not asked yet.
        let untried = self.waiting.iter().filter(|waiting| !waiting.retry).count();
        let places = if again == RetryDecision::Now { 0 } else { untried };
        let is_possible =
            !self.stopped && self.started.saturating_add(places) < self.plan.max_attempts && due < self.deadline();
        if is_possible {
            self.waiting.insert(0, WaitingCandidate { due: Some(due), first, ..WaitingCandidate::again(entry) });
        }
        is_possible
    }

    /// Starts the candidate that was just put back, if anything may start.
    pub(super) fn start_again(&mut self) {
        if self.may_start() {
            self.start_at(0, StartReason::Retry);
        }
    }

    /// A retry is due later.
    pub(super) fn awaits_retry(&self) -> bool {
        self.may_start() && self.waiting.iter().any(|waiting| waiting.due.is_some())
    }

    /// Makes losers available again.
    pub(super) fn recall_losers(&mut self) {
        let losers = self.losers.drain(..).map(|entry| WaitingCandidate::again(PlannedStart { trial: false, ..entry }));
        self.waiting.extend(losers);
    }

    /// The next instant at which the race must act by itself.
    pub fn next_wake(&self) -> Instant {
        let starts = self.waiting.iter().filter_map(|waiting| self.starts_at(waiting));
        let late = self.running.iter().filter_map(|running| running.late_at);
        let held = self.held.as_ref().map(|(_, until)| *until);
        starts.chain(late).chain(self.asks_at()).chain(held).fold(self.deadline(), Instant::min)
    }

    /// While an answer is under way nothing starts, neither by a timer nor after a failure. If that answer breaks, it is
    /// replaced then.
    fn may_start(&self) -> bool {
        let may = !self.stopped && self.started < self.plan.max_attempts && self.held.is_none();
        may && !self.running.iter().any(RunningAttempt::has_begun)
    }

    /// An answer broke. Timers that expired while it was under way must not all start at once: one replacement is enough.
    pub(super) fn forget_past_timers(&mut self) {
        let elapsed = self.launch.now().saturating_duration_since(self.began);
        for waiting in &mut self.waiting {
            if matches!(waiting.entry.start, StartRule::At(after) if after <= elapsed) {
                waiting.entry.start = StartRule::AfterFailure;
            }
        }
    }

    /// When a timer of the plan or of a retry starts it. None if it waits for a failure.
    fn starts_at(&self, waiting: &WaitingCandidate) -> Option<Instant> {
        let by_plan = match waiting.entry.start {
            StartRule::At(after) => Some(self.began + after.min(self.plan.total)),
            StartRule::AfterFailure => None,
        };
        waiting.due.or(by_plan).filter(|_| self.may_start())
    }

    /// The policy is asked only while an attempt runs and a candidate is free.
    fn asks_at(&self) -> Option<Instant> {
        let is_free = |waiting: &WaitingCandidate| waiting.due.is_none();
        let may_ask = || !self.running.is_empty() && self.waiting.iter().any(is_free) && self.may_start();
        self.ask_at.filter(|_| may_ask())
    }

    /// Indices of waiting candidates without a pending retry.
    fn free(&self) -> Vec<usize> {
        (0..self.waiting.len()).filter(|place| self.waiting[*place].due.is_none()).collect()
    }

    fn candidates(&self, places: &[usize]) -> Vec<usize> {
        places.iter().map(|place| self.waiting[*place].entry.candidate).collect()
    }

    fn start_at(&mut self, position: usize, reason: StartReason) {
        let WaitingCandidate { entry, retry, .. } = self.waiting.remove(position);
        let reason = if retry { StartReason::Retry } else { reason };
        let ordinal = self.started;
        self.started += 1;
        let started_at = self.launch.now();
        let late_at = Some(started_at + entry.first_token);
        let attempt = self.launch.launch(AttemptStart {
            candidate: entry.candidate,
            ordinal,
            reason,
            p_include: entry.p_include,
        });
        self.running.push(RunningAttempt { attempt, entry, ordinal, started_at, late_at, was_late: false });
    }
}
