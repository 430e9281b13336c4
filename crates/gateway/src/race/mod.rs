//! The race: runs a plan over any futures until one is ready. Not for HTTP, keys, rows or statistics.
//!
//! An attempt starts by a timer of the plan, by an answer of [`Launch`], after a failure, or because another is late. The first
//! that is ready wins, unless it is held back for a moment; the others are cut. Dropping a [`Race`] drops every attempt.

mod ending;
mod launch;
pub mod retries;
mod starting;

#[cfg(test)]
mod model_check;

pub use launch::{
    AttemptStart, CutReason, HeldAttempt, Launch, RaceSide, RacingAttempt, RetryDecision, RunningAttempt,
};
pub use photofinish_routing::routing::plan::Replan;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use photofinish_base::clock::Instant;
use photofinish_base::failure::Failure;
use photofinish_history::record::StartReason;
use photofinish_routing::routing::plan::{PlannedStart, RacePlan, StartRule};
use photofinish_routing::verdict::{NextStep, next};

/// How a race ended.
#[derive(Debug)]
pub enum RaceFinish<R> {
    Won {
        ready: R,
        candidate: usize,
        ordinal: usize,
    },
    /// No candidate is left; see [`Race::failures`].
    Failed,
    /// The total deadline passed.
    Deadline,
}

/// A race under way.
pub struct Race<L: Launch> {
    launch: L,
    plan: RacePlan,
    began: Instant,
    /// Candidates that may still start, in order. Losers return behind them when no other candidate is left.
    waiting: Vec<WaitingCandidate>,
    running: Vec<RunningAttempt<L::Attempt>>,
    /// Ready, and held back until this instant. Nothing starts in that time.
    held: Option<(RunningAttempt<L::Ready>, Instant)>,
    /// When the policy is asked again. None: never.
    ask_at: Option<Instant>,
    /// Candidates that were cut as losers.
    losers: Vec<PlannedStart>,
    started: usize,
    /// A refusal on content policy came: nothing starts any more.
    stopped: bool,
    failures: Vec<(usize, Failure)>,
}

struct WaitingCandidate {
    entry: PlannedStart,
    /// It was started before.
    retry: bool,
    /// A retry: it starts at this instant, and for no other reason.
    due: Option<Instant>,
    /// Until it starts, no failure starts another candidate.
    first: bool,
}

impl WaitingCandidate {
    fn untried(entry: PlannedStart) -> WaitingCandidate {
        WaitingCandidate { entry, retry: false, due: None, first: false }
    }

    /// A candidate that ran before waits for others to fail.
    fn again(entry: PlannedStart) -> WaitingCandidate {
        WaitingCandidate {
            entry: PlannedStart { start: StartRule::AfterFailure, ..entry },
            retry: true,
            due: None,
            first: false,
        }
    }
}

enum RaceEvent<R> {
    Ready(RunningAttempt<R>),
    Failed,
    Time,
}

impl<L: Launch> Race<L> {
    /// A race that began at `began`. Nothing starts until [`Race::run`] is polled.
    pub fn new(plan: RacePlan, launch: L, began: Instant) -> Race<L> {
        let waiting = plan.entries.iter().copied().map(WaitingCandidate::untried).collect();
        let ask_at = plan.ask_after.map(|after| began + after.min(plan.total));
        Race {
            launch,
            plan,
            began,
            waiting,
            running: Vec::new(),
            held: None,
            ask_at,
            losers: Vec::new(),
            started: 0,
            stopped: false,
            failures: Vec::new(),
        }
    }

    /// Runs until an attempt wins or no candidate is left. Dropping the future and the race cancels everything.
    pub async fn run(&mut self) -> RaceFinish<L::Ready> {
        loop {
            if let Some(finish) = self.do_what_is_due() {
                return finish;
            }
            let wake = self.next_wake();
            let event = self.wait(wake).await;
            if let Some(finish) = self.handle(event) {
                return finish;
            }
        }
    }

    /// [`Race::run`] for a launcher with its own clock: runs as far as possible without waiting. When it is pending,
    /// call it again at [`Race::next_wake`], or sooner if an attempt has something new.
    pub fn advance(&mut self, context: &mut Context<'_>) -> Poll<RaceFinish<L::Ready>> {
        loop {
            if let Some(finish) = self.do_what_is_due() {
                return Poll::Ready(finish);
            }
            let event = match self.poll_running(context) {
                Poll::Ready(event) => event,
                Poll::Pending if self.next_wake() <= self.launch.now() => RaceEvent::Time,
                Poll::Pending => return Poll::Pending,
            };
            if let Some(finish) = self.handle(event) {
                return Poll::Ready(finish);
            }
        }
    }

    fn do_what_is_due(&mut self) -> Option<RaceFinish<L::Ready>> {
        if let Some(winner) = self.end_hold() {
            return Some(self.win(winner));
        }
        self.ask();
        self.start_what_is_due();
        let nothing = self.running.is_empty() && !self.start_next(StartReason::First) && !self.awaits_retry();
        nothing.then_some(RaceFinish::Failed)
    }

    fn handle(&mut self, event: RaceEvent<L::Ready>) -> Option<RaceFinish<L::Ready>> {
        match event {
            RaceEvent::Ready(arrival) => return self.hold_or_choose(arrival).map(|winner| self.win(winner)),
            RaceEvent::Failed => {}
            RaceEvent::Time if self.hold_is_over() => {}
            RaceEvent::Time if self.launch.now() >= self.deadline() => {
                self.cut_at_deadline();
                return Some(RaceFinish::Deadline);
            }
            RaceEvent::Time => self.cut_the_late(),
        }
        None
    }

    /// Ends the race and returns its launcher. Running attempts are dropped.
    pub fn into_launch(self) -> L {
        self.launch
    }

    /// Every failure so far with its candidate, in order of arrival.
    pub fn failures(&self) -> &[(usize, Failure)] {
        &self.failures
    }

    /// The number of started attempts.
    pub fn started(&self) -> usize {
        self.started
    }

    pub fn deadline(&self) -> Instant {
        self.began + self.plan.total
    }

    async fn wait(&mut self, wake: Instant) -> RaceEvent<L::Ready> {
        let mut timer = std::pin::pin!(tokio::time::sleep_until(wake));
        poll_fn(|context| match self.poll_running(context) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => timer.as_mut().poll(context).map(|()| RaceEvent::Time),
        })
        .await
    }

    /// Polls the held attempt and every running one once. A ready attempt ends the pass before failures in the same pass start
    /// anything.
    fn poll_running(&mut self, context: &mut Context<'_>) -> Poll<RaceEvent<L::Ready>> {
        let mut failed = Vec::new();
        if let Some((held, until)) = self.held.take() {
            match self.poll_held(held, until, context) {
                Poll::Pending => {}
                Poll::Ready(broken) => failed.push(broken),
            }
        }
        let mut position = 0;
        while position < self.running.len() {
            let had_begun = self.running[position].has_begun();
            match Pin::new(&mut self.running[position].attempt).poll(context) {
                Poll::Pending => position += 1,
                Poll::Ready(Err(failure)) => {
                    failed.push((self.running.remove(position).entry, failure));
                    if had_begun {
                        self.forget_past_timers();
                    }
                }
                Poll::Ready(Ok(ready)) => {
                    let arrival = self.running.remove(position).became(ready);
                    for (entry, failure) in failed {
                        let again = self.launch.failed(entry.candidate, &failure);
                        self.keep(entry.candidate, failure);
                        self.put_back(entry, again);
                    }
                    return Poll::Ready(RaceEvent::Ready(arrival));
                }
            }
        }
        if failed.is_empty() {
            self.cut_the_hopeless();
            return Poll::Pending;
        }
        // Replacements start before failed probes are handled: a probe needs none if anything runs.
        failed.sort_by_key(|(entry, _)| entry.trial);
        for (entry, failure) in failed {
            self.heed(entry.candidate, failure, Some(entry));
        }
        Poll::Ready(RaceEvent::Failed)
    }

    /// Handles a failure: asks the same candidate again, or starts the next one at once, or both. A failed probe is not replaced
    /// while others run.
    fn heed(&mut self, candidate: usize, failure: Failure, entry: Option<PlannedStart>) {
        let again = self.launch.failed(candidate, &failure);
        self.keep(candidate, failure);
        let was_beside = entry.is_some_and(|entry| entry.trial) && !self.running.is_empty();
        if !was_beside {
            self.ask_at = self.plan.ask_after.map(|_| self.launch.now());
        }
        let is_back = entry.is_some_and(|entry| self.put_back(entry, again));
        match again {
            RetryDecision::Now if is_back => self.start_again(),
            RetryDecision::Later { first: true, .. } if is_back => {}
            _ if was_beside => {}
            _ => {
                self.start_next(StartReason::Fallback);
            }
        }
    }

    fn keep(&mut self, candidate: usize, failure: Failure) {
        self.stopped |= next(&failure, self.plan.content_policy) == NextStep::Stop;
        self.failures.push((candidate, failure));
    }
}
