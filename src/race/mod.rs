//! The race: runs a plan over any futures, and stops at the first that is ready.
//!
//! It knows nothing of HTTP, keys or rows: it starts attempts when the plan says so, when one fails, or when one is late;
//! the first that becomes ready wins and the others are cut. Dropping a [`Race`] drops every attempt.

pub mod verdict;

#[cfg(test)]
mod model_check;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::history::StartReason;
use crate::routing::plan::{Entry, Plan, Start};
use verdict::{Next, verdict};

/// A started attempt. Ready means: its first token is there.
pub trait Attempt: Future<Output = Result<Self::Ready, Failure>> + Unpin {
    type Ready;

    /// Called right before it is dropped or handed to [`Launch::lost`]. An attempt that is dropped without it was dropped
    /// because the client left, or at a shutdown.
    fn cut(&mut self, cut: Cut);
}

/// Why an attempt is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Another attempt won.
    Lost,
    /// No first token within its timeout.
    Late,
    /// The total deadline passed.
    Deadline,
}

/// What the race asks of its surroundings.
pub trait Launch {
    type Ready;
    type Attempt: Attempt<Ready = Self::Ready>;

    /// Starts an attempt.
    fn launch(&mut self, starting: Starting) -> Self::Attempt;

    /// Hears of a failure. True: ask the same candidate once more, for the request to it has changed.
    fn failed(&mut self, candidate: usize, failure: &Failure) -> bool;

    /// Takes a loser, which was told so; to drop it cancels it.
    fn lost(&mut self, attempt: Self::Attempt);
}

/// One start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Starting {
    pub candidate: usize,
    /// From 0, in the order of starting.
    pub ordinal: usize,
    pub reason: StartReason,
    pub p_include: f64,
}

/// How a race ended, for now: after a win it may go on, see [`Race::reopen`].
#[derive(Debug)]
pub enum Finish<R> {
    Won {
        ready: R,
        candidate: usize,
        ordinal: usize,
    },
    /// Nothing is left to try; [`Race::failures`] says why.
    Failed,
    /// The total deadline passed.
    Deadline,
}

/// A race under way.
pub struct Race<L: Launch> {
    launch: L,
    plan: Plan,
    began: Instant,
    /// Candidates that may still be started, in order. Those that lost come back behind the others on a reopening.
    waiting: Vec<Waiting>,
    running: Vec<Running<L::Attempt>>,
    /// Entries of candidates that were cut as losers.
    losers: Vec<Entry>,
    started: usize,
    /// A policy refusal came: nothing is started any more.
    stopped: bool,
    failures: Vec<(usize, Failure)>,
}

struct Waiting {
    entry: Entry,
    retry: bool,
}

struct Running<A> {
    attempt: A,
    entry: Entry,
    ordinal: usize,
    /// When it is late; none once it was let run on as the last one alive.
    late_at: Option<Instant>,
}

enum Event<R> {
    Ready(R, Entry, usize),
    Failed,
    Time,
}

impl<L: Launch> Race<L> {
    /// A race that began at `began`; nothing runs until [`Race::run`] is polled.
    pub fn new(plan: Plan, launch: L, began: Instant) -> Race<L> {
        let waiting = plan.entries.iter().map(|entry| Waiting { entry: *entry, retry: false }).collect();
        Race {
            launch,
            plan,
            began,
            waiting,
            running: Vec::new(),
            losers: Vec::new(),
            started: 0,
            stopped: false,
            failures: Vec::new(),
        }
    }

    /// Runs until an attempt wins or nothing is left. Dropping the future and then the race cancels everything.
    pub async fn run(&mut self) -> Finish<L::Ready> {
        loop {
            self.start_what_is_due();
            if self.running.is_empty() && !self.start_next(StartReason::First) {
                return Finish::Failed;
            }
            let wake = self.next_wake();
            match self.wait(wake).await {
                Event::Ready(ready, entry, ordinal) => {
                    self.cut_losers();
                    return Finish::Won { ready, candidate: entry.candidate, ordinal };
                }
                Event::Failed => {}
                Event::Time => {
                    if Instant::now() >= self.deadline() {
                        self.cut_at_deadline();
                        return Finish::Deadline;
                    }
                    self.cut_the_late();
                }
            }
        }
    }

    /// The winner broke before anything of it was delivered: [`Race::run`] goes on with the candidates not yet tried, then
    /// with losers once more.
    pub fn reopen(&mut self, candidate: usize, failure: Failure) {
        let losers = std::mem::take(&mut self.losers);
        self.waiting.extend(losers.into_iter().map(|entry| Waiting { entry, retry: true }));
        for waiting in &mut self.waiting {
            waiting.entry.start = Start::AfterFailure;
        }
        self.heed(candidate, failure, None);
    }

    /// Every failure so far with its candidate, in the order of their coming.
    pub fn failures(&self) -> &[(usize, Failure)] {
        &self.failures
    }

    /// How many attempts were started.
    pub fn started(&self) -> usize {
        self.started
    }

    pub fn deadline(&self) -> Instant {
        self.began + self.plan.total
    }

    fn start_what_is_due(&mut self) {
        let elapsed = Instant::now().saturating_duration_since(self.began);
        while let Some(position) =
            self.waiting.iter().position(|waiting| matches!(waiting.entry.start, Start::At(after) if after <= elapsed))
        {
            let reason = match self.waiting[position].entry.start {
                Start::At(Duration::ZERO) => StartReason::First,
                _ => StartReason::Hedge,
            };
            if !self.start_at(position, reason) {
                return;
            }
        }
    }

    /// Starts the next candidate in the plan's order. False if none may be started.
    fn start_next(&mut self, reason: StartReason) -> bool {
        !self.waiting.is_empty() && self.start_at(0, reason)
    }

    fn start_at(&mut self, position: usize, reason: StartReason) -> bool {
        if self.stopped || self.started >= self.plan.max_attempts {
            self.waiting.clear();
            return false;
        }
        let Waiting { entry, retry } = self.waiting.remove(position);
        self.start(entry, if retry { StartReason::Retry } else { reason });
        true
    }

    fn start(&mut self, entry: Entry, reason: StartReason) {
        let ordinal = self.started;
        self.started += 1;
        let late_at = Some(Instant::now() + entry.first_token);
        let attempt =
            self.launch.launch(Starting { candidate: entry.candidate, ordinal, reason, p_include: entry.p_include });
        self.running.push(Running { attempt, entry, ordinal, late_at });
    }

    /// A failure: it is kept, and the next candidate is started at once.
    fn heed(&mut self, candidate: usize, failure: Failure, entry: Option<Entry>) {
        let again = self.launch.failed(candidate, &failure);
        self.keep(candidate, failure);
        match entry {
            Some(entry) if again && !self.stopped && self.started < self.plan.max_attempts => {
                self.start(entry, StartReason::Retry)
            }
            _ => {
                self.start_next(StartReason::Fallback);
            }
        }
    }

    /// A refusal beside a win stops too: a reopening must not route around it.
    fn keep(&mut self, candidate: usize, failure: Failure) {
        self.stopped |= verdict(&failure).next == Next::Stop;
        self.failures.push((candidate, failure));
    }

    /// The next moment at which something is to be done without any attempt's doing.
    fn next_wake(&self) -> Instant {
        let hedges = self.waiting.iter().filter_map(|waiting| match waiting.entry.start {
            Start::At(after) if self.started < self.plan.max_attempts && !self.stopped => Some(self.began + after),
            _ => None,
        });
        let late = self.running.iter().filter_map(|running| running.late_at);
        hedges.chain(late).fold(self.deadline(), Instant::min)
    }

    async fn wait(&mut self, wake: Instant) -> Event<L::Ready> {
        let mut timer = std::pin::pin!(tokio::time::sleep_until(wake));
        poll_fn(|context| match self.poll_running(context) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => timer.as_mut().poll(context).map(|()| Event::Time),
        })
        .await
    }

    /// Polls every running attempt once. A winner ends the pass before the failures beside it start anything.
    fn poll_running(&mut self, context: &mut Context<'_>) -> Poll<Event<L::Ready>> {
        let mut failed = Vec::new();
        let mut position = 0;
        while position < self.running.len() {
            match Pin::new(&mut self.running[position].attempt).poll(context) {
                Poll::Pending => position += 1,
                Poll::Ready(Err(failure)) => failed.push((self.running.remove(position).entry, failure)),
                Poll::Ready(Ok(ready)) => {
                    let Running { entry, ordinal, .. } = self.running.remove(position);
                    for (entry, failure) in failed {
                        self.launch.failed(entry.candidate, &failure);
                        self.keep(entry.candidate, failure);
                    }
                    return Poll::Ready(Event::Ready(ready, entry, ordinal));
                }
            }
        }
        if failed.is_empty() {
            return Poll::Pending;
        }
        for (entry, failure) in failed {
            self.heed(entry.candidate, failure, Some(entry));
        }
        Poll::Ready(Event::Failed)
    }

    /// Whoever is late makes room for the next, unless it is the last one alive: that one runs on.
    fn cut_the_late(&mut self) {
        let now = Instant::now();
        while let Some(position) = self.running.iter().position(|running| running.late_at.is_some_and(|at| at <= now)) {
            self.start_next(StartReason::Fallback);
            if self.running.len() == 1 {
                self.running[position].late_at = None;
                return;
            }
            let mut late = self.running.remove(position);
            late.attempt.cut(Cut::Late);
            let message = format!("no first token within {:?}", late.entry.first_token);
            let failure = Failure::new(FailureKind::Timeout, Phase::FirstToken, message);
            self.launch.failed(late.entry.candidate, &failure);
            self.failures.push((late.entry.candidate, failure));
        }
    }

    fn cut_losers(&mut self) {
        for mut loser in self.running.drain(..) {
            loser.attempt.cut(Cut::Lost);
            self.losers.push(loser.entry);
            self.launch.lost(loser.attempt);
        }
    }

    fn cut_at_deadline(&mut self) {
        for mut running in self.running.drain(..) {
            running.attempt.cut(Cut::Deadline);
            let failure = Failure::new(FailureKind::Timeout, Phase::FirstToken, "the total deadline passed");
            self.launch.failed(running.entry.candidate, &failure);
            self.failures.push((running.entry.candidate, failure));
        }
    }
}
