//! Who is started, when, and why: by the plan's timers, by its being asked again, or after a failure.

use std::time::Duration;

use super::{Launch, Race, Replan, Running, Starting, Waiting};
use crate::clock::Instant;
use crate::history::StartReason;
use crate::routing::plan::{Entry, Start};

/// A plan is not asked more often than this without something failing or starting.
const ASK_PAUSE: Duration = Duration::from_millis(1);

impl<L: Launch> Race<L> {
    /// Asks a plan that learns what to start beside what runs, when that is due.
    pub(super) fn ask(&mut self) {
        let now = Instant::now();
        while !self.running.is_empty() && self.asks_at().is_some_and(|at| at <= now) {
            let waiting = self.candidates_waiting();
            match self.launch.replan(&self.running, &waiting) {
                Replan::Start(candidate) => match waiting.iter().position(|waiting| *waiting == candidate) {
                    Some(position) => self.start_at(position, StartReason::Hedge),
                    None => self.ask_at = None,
                },
                Replan::Again(after) => self.ask_at = Some(now + after.max(ASK_PAUSE).min(self.plan.total)),
                Replan::Never => self.ask_at = None,
            }
        }
    }

    pub(super) fn start_what_is_due(&mut self) {
        let now = Instant::now();
        while let Some(position) =
            self.waiting.iter().position(|waiting| self.starts_at(waiting).is_some_and(|at| at <= now))
        {
            let reason = match self.waiting[position].entry.start {
                Start::At(Duration::ZERO) => StartReason::First,
                _ => StartReason::Hedge,
            };
            self.start_at(position, reason);
        }
    }

    /// Starts the next candidate: the first one in the plan's order, a later one by the launcher's choice. Losers come again
    /// when nothing else is left. False if none may be started.
    pub(super) fn start_next(&mut self, reason: StartReason) -> bool {
        if self.waiting.is_empty() && self.running.is_empty() {
            self.recall_losers();
        }
        if self.waiting.is_empty() || !self.may_start() {
            return false;
        }
        let position = match reason {
            StartReason::First => 0,
            _ => {
                // Those that lost already come behind those that were not tried.
                let untried = self.waiting.iter().take_while(|waiting| !waiting.retry).count();
                let choice = if untried == 0 { self.waiting.len() } else { untried };
                self.launch.next_after_failure(&self.candidates_waiting()[..choice]).min(choice - 1)
            }
        };
        self.start_at(position, reason);
        true
    }

    /// Asks the same candidate once more, now or, where nothing may be started now, before all others.
    pub(super) fn start_again(&mut self, entry: Entry) {
        let entry = Entry { start: Start::AfterFailure, ..entry };
        self.waiting.insert(0, Waiting { entry, retry: true });
        if self.may_start() {
            self.start_at(0, StartReason::Retry);
        }
    }

    /// Those that lost may be started once more.
    pub(super) fn recall_losers(&mut self) {
        let losers = self.losers.drain(..).map(|entry| Entry { start: Start::AfterFailure, ..entry });
        self.waiting.extend(losers.map(|entry| Waiting { entry, retry: true }));
    }

    /// The next moment at which something is to be done without any attempt's doing.
    pub(super) fn next_wake(&self) -> Instant {
        let starts = self.waiting.iter().filter_map(|waiting| self.starts_at(waiting));
        let late = self.running.iter().filter_map(|running| running.late_at);
        let held = self.held.as_ref().map(|(_, until)| *until);
        starts.chain(late).chain(self.asks_at()).chain(held).fold(self.deadline(), Instant::min)
    }

    fn may_start(&self) -> bool {
        !self.stopped && self.started < self.plan.max_attempts && self.held.is_none()
    }

    /// Timers are there for first tokens: one that has begun needs nobody beside it.
    fn timers_run(&self) -> bool {
        self.may_start() && !self.running.iter().any(Running::has_begun)
    }

    /// When the plan's own timer starts it; none while it waits for something else.
    fn starts_at(&self, waiting: &Waiting) -> Option<Instant> {
        match waiting.entry.start {
            Start::At(after) if self.timers_run() => Some(self.began + after.min(self.plan.total)),
            _ => None,
        }
    }

    fn asks_at(&self) -> Option<Instant> {
        self.ask_at.filter(|_| !self.waiting.is_empty() && self.timers_run())
    }

    fn candidates_waiting(&self) -> Vec<usize> {
        self.waiting.iter().map(|waiting| waiting.entry.candidate).collect()
    }

    fn start_at(&mut self, position: usize, reason: StartReason) {
        let Waiting { entry, retry } = self.waiting.remove(position);
        let reason = if retry { StartReason::Retry } else { reason };
        let ordinal = self.started;
        self.started += 1;
        let started_at = Instant::now();
        let late_at = Some(started_at + entry.first_token);
        let attempt =
            self.launch.launch(Starting { candidate: entry.candidate, ordinal, reason, p_include: entry.p_include });
        self.running.push(Running { attempt, entry, ordinal, started_at, late_at });
    }
}
