//! The race: runs a plan over any futures until one is ready. Not for HTTP, keys, rows or statistics.
//!
//! An attempt starts by a timer of the plan, by an answer of [`Launch`], after a failure, or because another is late. The first
//! that is ready wins, unless it is held back for a moment; the others are cut. Dropping a [`Race`] drops every attempt.

mod launch;
pub mod retries;

pub use launch::{
    AttemptStart, CutReason, HeldAttempt, Launch, RaceSide, RacingAttempt, RetryDecision, RunningAttempt,
};
pub use photofinish_routing::policy::plan::Replan;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_facts::record::StartReason;
use photofinish_routing::policy::plan::{PlannedStart, RacePlan, StartRule};
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

    fn is_free(&self) -> bool {
        self.due.is_none() && self.entry.start != StartRule::Last
    }

    /// A candidate that ran before waits for others to fail. Asked again it may serve, even if it was only to show its first token.
    fn again(entry: PlannedStart) -> WaitingCandidate {
        WaitingCandidate {
            entry: PlannedStart { start: StartRule::AfterFailure, only_shows: false, ..entry },
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
        let reason = if self.started == 0 { StartReason::First } else { StartReason::Fallback };
        let nothing = self.running.is_empty() && !self.start_next(reason) && !self.awaits_retry();
        nothing.then_some(RaceFinish::Failed)
    }

    fn handle(&mut self, event: RaceEvent<L::Ready>) -> Option<RaceFinish<L::Ready>> {
        match event {
            RaceEvent::Ready(arrival) if self.may_not_answer(&arrival) => self.lose_ready(arrival),
            RaceEvent::Ready(arrival) => return self.hold_or_choose(arrival).map(|winner| self.win(winner)),
            RaceEvent::Failed => {}
            RaceEvent::Time if self.hold_is_over() => {}
            RaceEvent::Time if self.launch.now() >= self.deadline() => {
                self.cut_at_deadline();
                return Some(RaceFinish::Deadline);
            }
            RaceEvent::Time => self.replace_the_late(),
        }
        None
    }

    /// Ends the race and returns its launcher. Running attempts are dropped.
    pub fn into_launch(self) -> L {
        self.launch
    }

    /// Every failure so far with its candidate, in order of arrival.
    pub fn launch(&self) -> &L {
        &self.launch
    }

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
        // Replacements start before failed trials are handled: a trial needs none if anything runs.
        failed.sort_by_key(|(entry, _)| entry.trial);
        for (entry, failure) in failed {
            self.heed(entry.candidate, failure, Some(entry));
        }
        Poll::Ready(RaceEvent::Failed)
    }

    /// Handles a failure: asks the same candidate again, or starts the next one at once, or both. A failed trial is not replaced
    /// while others run.
    fn heed(&mut self, candidate: usize, failure: Failure, entry: Option<PlannedStart>) {
        let again = self.launch.failed(candidate, &failure);
        self.keep(candidate, failure);
        let was_trial = entry.is_some_and(|entry| entry.trial) && !self.running.is_empty();
        if !was_trial {
            self.ask_at = self.plan.ask_after.map(|_| self.launch.now());
        }
        let is_back = entry.is_some_and(|entry| self.put_back(entry, again));
        match again {
            RetryDecision::Now if is_back => self.start_again(),
            RetryDecision::Later { first: true, .. } if is_back => {}
            _ if was_trial => {}
            _ => {
                self.start_next(StartReason::Fallback);
            }
        }
    }

    fn keep(&mut self, candidate: usize, failure: Failure) {
        if next(&failure, self.plan.content_policy) == NextStep::Stop {
            self.stopped = true;
            // What was asked only because another one was late must not answer what was refused.
            let (rescues, running): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.running).into_iter().partition(|running| running.is_rescue);
            self.running = running;
            rescues.into_iter().for_each(|rescue| self.lose(rescue));
            if let Some((held, _)) = self.held.take_if(|(held, _)| held.is_rescue) {
                self.lose_ready(held);
            }
        }
        self.failures.push((candidate, failure));
    }
}

/// Attempts of one race, whatever becomes of them.
const STARTS_MAX: usize = 128;

/// The shortest pause between two questions to the policy, unless an attempt fails or starts.
const ASK_PAUSE: Duration = Duration::from_millis(1);

impl<L: Launch> Race<L> {
    /// Asks the policy for hedges when that is due.
    pub(crate) fn ask(&mut self) {
        let now = self.launch.now();
        while self.asks_at().is_some_and(|at| at <= now) {
            let free = self.free();
            let replan = self.launch.replan(&self.running, &self.candidates(&free));
            tracing::debug!(?replan, "what the policy starts in addition");
            match replan {
                Replan::Start(candidate) | Replan::Rescue(candidate) => {
                    let place = free.iter().find(|place| self.waiting[**place].entry.candidate == candidate);
                    let is_rescue = matches!(replan, Replan::Rescue(_));
                    match place {
                        Some(place) if self.start_at(*place, StartReason::Hedge) && is_rescue => self.note_rescue(),
                        Some(_) => {}
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
    pub(crate) fn start_what_is_due(&mut self) {
        let now = self.launch.now();
        while let Some(position) =
            self.waiting.iter().position(|waiting| self.starts_at(waiting).is_some_and(|at| at <= now))
        {
            let waiting = &mut self.waiting[position];
            let (candidate, first) = (waiting.entry.candidate, waiting.first);
            let is_retry = waiting.due.take().is_some();
            let in_addition = is_retry && !first && !self.running.is_empty();
            if in_addition && !self.launch.affords_retry(candidate, &self.running) {
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
    /// other is left, and after them the last resort. False if none may start.
    pub(crate) fn start_next(&mut self, reason: StartReason) -> bool {
        if !self.may_start() || self.waiting.iter().any(|waiting| waiting.first && waiting.due.is_some()) {
            return false;
        }
        let mut free = self.free();
        let all_late = self.running.iter().all(|running| running.was_late);
        if free.is_empty() && all_late {
            self.recall_losers();
            free = self.free();
        }
        if free.is_empty() && all_late && !self.awaits_retry() {
            free = (0..self.waiting.len()).collect();
        }
        let place = match reason {
            StartReason::First => 0,
            _ => {
                // Losers come after untried candidates.
                let untried = free.iter().take_while(|place| !self.waiting[**place].retry).count();
                free.truncate(if untried == 0 { free.len() } else { untried });
                if free.is_empty() {
                    return false;
                }
                let Some(place) = self.launch.next_after_failure(&self.candidates(&free), all_late) else {
                    return false;
                };
                place
            }
        };
        let Some(position) = free.get(place).or(free.last()) else { return false };
        self.start_at(*position, reason) || self.start_next(reason)
    }

    /// Puts a failed candidate first in the waiting list, if it is to be retried and time and attempts allow it.
    pub(crate) fn put_back(&mut self, entry: PlannedStart, again: RetryDecision) -> bool {
        let (wait, first) = match again {
            RetryDecision::No => return false,
            RetryDecision::Now => (Duration::ZERO, true),
            RetryDecision::Later { wait, first } => (wait, first),
        };
        let due = self.launch.now() + wait.min(self.plan.total);
        // No race waits for a pause while enough candidates were not asked yet.
        let is_untried = |waiting: &&WaitingCandidate| !waiting.retry && waiting.entry.start != StartRule::Last;
        let untried = self.waiting.iter().filter(is_untried).count();
        let may_retry = again == RetryDecision::Now || self.started + untried < self.plan.max_attempts;
        let is_possible = !self.stopped && may_retry && self.started < STARTS_MAX && due < self.deadline();
        if is_possible {
            self.waiting.insert(0, WaitingCandidate { due: Some(due), first, ..WaitingCandidate::again(entry) });
        }
        is_possible
    }

    /// Starts the candidate that was just put back, if anything may start.
    pub(crate) fn start_again(&mut self) {
        if self.may_start() {
            self.start_at(0, StartReason::Retry);
        }
    }

    /// A retry is due later.
    pub(crate) fn awaits_retry(&self) -> bool {
        self.may_start() && self.waiting.iter().any(|waiting| waiting.due.is_some())
    }

    /// Makes losers available again.
    pub(crate) fn recall_losers(&mut self) {
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
        let may = !self.stopped && self.started < STARTS_MAX && self.held.is_none();
        may && !self.running.iter().any(RunningAttempt::has_begun)
    }

    /// One more attempt may run by choice.
    fn has_room(&self) -> bool {
        self.running.len() < self.plan.max_attempts
    }

    /// An answer broke. Timers that expired while it was under way must not all start at once: one replacement is enough.
    pub(crate) fn forget_past_timers(&mut self) {
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
            StartRule::AfterFailure | StartRule::Last => None,
        };
        waiting.due.or(by_plan).filter(|_| self.may_start() && self.has_room())
    }

    /// The policy is asked only while an attempt runs and a candidate is free.
    fn asks_at(&self) -> Option<Instant> {
        let may_ask =
            || !self.running.is_empty() && self.waiting.iter().any(WaitingCandidate::is_free) && self.may_start();
        self.ask_at.filter(|_| may_ask())
    }

    /// Indices of waiting candidates without a pending retry. The last resort is not free.
    fn free(&self) -> Vec<usize> {
        (0..self.waiting.len()).filter(|place| self.waiting[*place].is_free()).collect()
    }

    fn candidates(&self, places: &[usize]) -> Vec<usize> {
        places.iter().map(|place| self.waiting[*place].entry.candidate).collect()
    }

    /// False: it may not start, and is a candidate no longer.
    fn start_at(&mut self, position: usize, reason: StartReason) -> bool {
        let WaitingCandidate { entry, retry, .. } = self.waiting.remove(position);
        let reason = if retry { StartReason::Retry } else { reason };
        let ordinal = self.started;
        let started_at = self.launch.now();
        let late_at = Some(started_at + entry.first_token);
        let starting = AttemptStart { candidate: entry.candidate, ordinal, reason, p_include: entry.p_include };
        let Some(attempt) = self.launch.launch(starting) else { return false };
        self.started += 1;
        let (was_late, is_overdue, is_rescue) = (false, false, false);
        let running = RunningAttempt { attempt, entry, ordinal, started_at, late_at, was_late, is_overdue, is_rescue };
        self.running.push(running);
        true
    }

    /// The latest start replaces the attempt that has waited longest.
    fn note_rescue(&mut self) {
        let Some((rescue, others)) = self.running.split_last_mut() else { return };
        rescue.is_rescue = true;
        if let Some(longest) = others.iter_mut().filter(|other| !other.entry.trial).min_by_key(|other| other.started_at)
        {
            longest.is_overdue = true;
        }
    }
}

impl<A: RacingAttempt> RunningAttempt<A> {
    pub(crate) fn has_begun(&self) -> bool {
        self.attempt.has_begun()
    }
}

impl<L: Launch> Race<L> {
    /// Declares the winner and cuts all others.
    pub(crate) fn win(&mut self, winner: RunningAttempt<L::Ready>) -> RaceFinish<L::Ready> {
        for loser in std::mem::take(&mut self.running) {
            tracing::debug!(ordinal = loser.ordinal, winner = winner.ordinal, "cut: another attempt won");
            let waits = !loser.has_begun();
            if waits && loser.was_late {
                self.cut_late(loser);
                continue;
            }
            // A hang that another one answered for is no less a hang.
            if waits && loser.is_overdue {
                self.launch.failed(loser.entry.candidate, &no_answer("its usual time"));
            }
            self.lose(loser);
        }
        let RunningAttempt { attempt: ready, entry, ordinal, .. } = winner;
        RaceFinish::Won { ready, candidate: entry.candidate, ordinal }
    }

    /// An attempt is ready: holds it back for the others (none), or returns the winner.
    pub(crate) fn hold_or_choose(&mut self, arrival: RunningAttempt<L::Ready>) -> Option<RunningAttempt<L::Ready>> {
        let Some((held, _)) = self.held.take() else {
            return self.hold(arrival);
        };
        let (winner, loser) = match self.launch.prefer(&held, &arrival) {
            RaceSide::Held => (held, arrival),
            RaceSide::New => (arrival, held),
        };
        self.lose_ready(loser);
        Some(winner)
    }

    /// It was refused by another, or is only watched: it may not serve the client while another one may.
    fn may_not_answer(&self, arrival: &RunningAttempt<L::Ready>) -> bool {
        let is_only_watched =
            || arrival.entry.trial && !self.plan.trials_win && !(self.running.is_empty() && self.held.is_none());
        self.stopped && arrival.is_rescue || arrival.entry.only_shows || is_only_watched()
    }

    fn lose_ready(&mut self, mut loser: RunningAttempt<L::Ready>) {
        loser.attempt.cut(CutReason::Lost);
        self.losers.push(loser.entry);
        self.launch.lost_ready(loser.entry.candidate, loser.attempt);
    }

    /// The held attempt, once its time is over or no other runs.
    pub(crate) fn end_hold(&mut self) -> Option<RunningAttempt<L::Ready>> {
        if self.hold_is_over() { self.held.take().map(|(held, _)| held) } else { None }
    }

    pub(crate) fn hold_is_over(&self) -> bool {
        self.held.as_ref().is_some_and(|(_, until)| self.running.is_empty() || *until <= self.launch.now())
    }

    /// Lets the held attempt read on. Returns its failure if it broke.
    pub(crate) fn poll_held(
        &mut self,
        mut held: RunningAttempt<L::Ready>,
        until: Instant,
        context: &mut Context<'_>,
    ) -> Poll<(PlannedStart, Failure)> {
        match held.attempt.poll_held(context) {
            Poll::Ready(failure) => Poll::Ready((held.entry, failure)),
            Poll::Pending => {
                self.held = Some((held, until));
                Poll::Pending
            }
        }
    }

    /// Starts others in addition to late attempts. None is cut: whoever answers first wins.
    pub(crate) fn replace_the_late(&mut self) {
        let now = self.launch.now();
        for begun in self.running.iter_mut().filter(|running| running.has_begun()) {
            begun.late_at = None;
        }
        while let Some(position) = self.running.iter().position(|running| running.late_at.is_some_and(|at| at <= now)) {
            let late = &mut self.running[position];
            (late.late_at, late.was_late) = (None, true);
            if late.entry.trial {
                continue;
            }
            if self.start_next(StartReason::Fallback) {
                self.note_rescue();
            }
            self.ask_at = self.plan.ask_after.map(|_| now);
        }
    }

    fn cut_late(&mut self, mut late: RunningAttempt<L::Attempt>) {
        late.attempt.cut(CutReason::Late);
        tracing::debug!(ordinal = late.ordinal, limit = ?late.entry.first_token, "cut: it was late, and another won");
        let failure = no_answer(&format!("timeouts.first_token, {:?}", late.entry.first_token));
        self.launch.failed(late.entry.candidate, &failure);
        self.failures.push((late.entry.candidate, failure));
    }

    /// Cuts attempts that cannot win any more. The last running attempt stays.
    pub(crate) fn cut_the_hopeless(&mut self) {
        while self.running.len() > 1
            && let Some(position) = self.launch.hopeless(&self.running).filter(|at| *at < self.running.len())
        {
            let loser = self.running.remove(position);
            tracing::debug!(ordinal = loser.ordinal, "cut: it cannot win any more");
            self.lose(loser);
        }
    }

    pub(crate) fn cut_at_deadline(&mut self) {
        for mut running in self.running.drain(..) {
            running.attempt.cut(CutReason::Deadline);
            tracing::debug!(ordinal = running.ordinal, "cut: the total deadline passed");
            let begun = running.has_begun();
            let phase = if begun { Phase::Stream } else { Phase::FirstToken };
            let failure = Failure { phase, ..no_answer(&format!("timeouts.total, {:?}", self.plan.total)) };
            // A long answer is not the upstream's fault.
            if !begun {
                self.launch.failed(running.entry.candidate, &failure);
            }
            self.failures.push((running.entry.candidate, failure));
        }
    }

    /// Holds it back if the launcher wants that, at most until the deadline.
    fn hold(&mut self, arrival: RunningAttempt<L::Ready>) -> Option<RunningAttempt<L::Ready>> {
        let now = self.launch.now();
        let left = self.deadline().saturating_duration_since(now);
        let hold = if self.running.is_empty() { None } else { self.launch.hold(&arrival, &self.running) };
        match hold.map(|hold| hold.min(left)).filter(|hold| !hold.is_zero()) {
            None => Some(arrival),
            Some(hold) => {
                tracing::debug!(ordinal = arrival.ordinal, ?hold, "held back: another may end first");
                self.held = Some((arrival, now + hold));
                None
            }
        }
    }

    fn lose(&mut self, mut loser: RunningAttempt<L::Attempt>) {
        loser.attempt.cut(CutReason::Lost);
        self.losers.push(loser.entry);
        self.launch.lost(loser.attempt);
    }
}

fn no_answer(limit: &str) -> Failure {
    Failure::new(FailureKind::Timeout, Phase::FirstToken, format!("no answer within {limit}"))
}

#[cfg(test)]
mod model_check;
