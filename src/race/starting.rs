//! Who is started, when, and why: by the plan's timers, by its being asked again, or after a failure.

use std::time::Duration;

use super::{AttemptStart, Launch, Race, Replan, RetryDecision, RunningAttempt, WaitingCandidate};
use crate::clock::Instant;
use crate::history::StartReason;
use crate::routing::plan::{PlannedStart, StartRule};

/// A plan is not asked more often than this without something failing or starting.
const ASK_PAUSE: Duration = Duration::from_millis(1);

impl<L: Launch> Race<L> {
    /// Asks a plan that learns what to start beside what runs, when that is due.
    pub(super) fn ask(&mut self) {
        let now = self.launch.now();
        while self.asks_at().is_some_and(|at| at <= now) {
            let free = self.free();
            match self.launch.replan(&self.running, &self.candidates(&free)) {
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

    /// By the plan's timers, and after a failure's wait. A retry beside others is one that the launcher can afford; else it
    /// waits for them to fail.
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

    /// Starts the next candidate: the first one in the plan's order, a later one by the launcher's choice. Losers come again
    /// when nothing else is left. False if none may be started.
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
                // Those that lost already come behind those that were not tried.
                let untried = free.iter().take_while(|place| !self.waiting[**place].retry).count();
                free.truncate(if untried == 0 { free.len() } else { untried });
                if free.is_empty() { 0 } else { self.launch.next_after_failure(&self.candidates(&free)) }
            }
        };
        let Some(position) = free.get(place).or(free.last()) else { return false };
        self.start_at(*position, reason);
        true
    }

    /// Puts one that failed back among those that wait, before all others, if it is to be asked again and there is time and
    /// an attempt left for it.
    pub(super) fn put_back(&mut self, entry: PlannedStart, again: RetryDecision) -> bool {
        let (wait, first) = match again {
            RetryDecision::No => return false,
            RetryDecision::Now => (Duration::ZERO, true),
            RetryDecision::Later { wait, first } => (wait, first),
        };
        let due = self.launch.now() + wait.min(self.plan.total);
        let is_possible = !self.stopped && self.started < self.plan.max_attempts && due < self.deadline();
        if is_possible {
            self.waiting.insert(0, WaitingCandidate { due: Some(due), first, ..WaitingCandidate::again(entry) });
        }
        is_possible
    }

    /// Starts what was put back just now, beside whatever runs, unless nothing may be started now.
    pub(super) fn start_again(&mut self) {
        if self.may_start() {
            self.start_at(0, StartReason::Retry);
        }
    }

    /// Nothing runs, but something will be started again.
    pub(super) fn awaits_retry(&self) -> bool {
        self.may_start() && self.waiting.iter().any(|waiting| waiting.due.is_some())
    }

    /// Those that lost may be started once more.
    pub(super) fn recall_losers(&mut self) {
        let losers = self.losers.drain(..).map(|entry| WaitingCandidate::again(PlannedStart { trial: false, ..entry }));
        self.waiting.extend(losers);
    }

    /// The next moment at which something is to be done without any attempt's doing.
    pub fn next_wake(&self) -> Instant {
        let starts = self.waiting.iter().filter_map(|waiting| self.starts_at(waiting));
        let late = self.running.iter().filter_map(|running| running.late_at);
        let held = self.held.as_ref().map(|(_, until)| *until);
        starts.chain(late).chain(self.asks_at()).chain(held).fold(self.deadline(), Instant::min)
    }

    /// Beside an attempt whose answer has begun nothing is started, whether a timer or a failure asks for it: the attempt may
    /// yet break, and then it is replaced.
    fn may_start(&self) -> bool {
        let may = !self.stopped && self.started < self.plan.max_attempts && self.held.is_none();
        may && !self.running.iter().any(RunningAttempt::has_begun)
    }

    /// An answer broke off. Timers that ran out while it was under way start nothing now: what failures start replaces it.
    pub(super) fn forget_past_timers(&mut self) {
        let elapsed = self.began.elapsed();
        for waiting in &mut self.waiting {
            if matches!(waiting.entry.start, StartRule::At(after) if after <= elapsed) {
                waiting.entry.start = StartRule::AfterFailure;
            }
        }
    }

    /// When a timer starts it, the plan's or that of a retry; none while it waits for something else.
    fn starts_at(&self, waiting: &WaitingCandidate) -> Option<Instant> {
        let by_plan = match waiting.entry.start {
            StartRule::At(after) => Some(self.began + after.min(self.plan.total)),
            StartRule::AfterFailure => None,
        };
        waiting.due.or(by_plan).filter(|_| self.may_start())
    }

    /// Nobody is asked what to start beside nothing.
    fn asks_at(&self) -> Option<Instant> {
        let is_free = |waiting: &WaitingCandidate| waiting.due.is_none();
        let may_ask = || !self.running.is_empty() && self.waiting.iter().any(is_free) && self.may_start();
        self.ask_at.filter(|_| may_ask())
    }

    /// The places of those that may be started at any time.
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
        self.running.push(RunningAttempt { attempt, entry, ordinal, started_at, late_at });
    }
}
