//! Scripted attempts on a stopped clock, a launcher that decides at random or by a script, and their log. They assert
//! the rules of every call. Not for examples: see `stories`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use super::world::{Behaviour, Course, World};
use crate::retries::Retries;
use crate::{
    AttemptStart, CutReason, HeldAttempt, Launch, RaceSide, RacingAttempt, Replan, RetryDecision, RunningAttempt,
};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_facts::record::StartReason;
use photofinish_routing::policy::plan::RacePlan;

/// One row for each started attempt, as the guard would write it.
#[derive(Debug, Default)]
pub struct Log {
    pub started: Vec<AttemptStart>,
    /// The ending of each attempt, by ordinal.
    pub rows: Vec<(usize, &'static str)>,
    pub running: usize,
    /// Attempts that run and whose whole answer has begun.
    pub begun: Vec<usize>,
    pub audited: Vec<Row>,
    /// The held attempt, and its latest instant.
    pub held: Option<(usize, Instant)>,
    /// Candidates with a pending retry, its instant, and whether no other starts before it.
    pub due: Vec<(usize, Instant, bool)>,
    /// Retries so far, by candidate.
    pub retried: HashMap<usize, u32>,
}

impl Log {
    /// A start ends the wait of a retry. That wait must be over.
    fn note_start(&mut self, starting: &AttemptStart) {
        let retry = self.due.iter().position(|(candidate, ..)| *candidate == starting.candidate);
        if let Some(position) = retry {
            let (candidate, due, _) = self.due.remove(position);
            assert!(Instant::now() >= due, "asked again before its wait was over");
            assert_eq!(starting.reason, StartReason::Retry);
            *self.retried.entry(candidate).or_default() += 1;
        }
        let others_wait = self.due.iter().any(|(.., first)| *first);
        assert!(!others_wait || starting.reason != StartReason::Fallback, "another one was to be asked again first");
    }
}

/// Not `Clone`: two rows would report one attempt twice.
#[derive(Debug)]
pub struct Row {
    pub ordinal: usize,
    pub ended: &'static str,
    log: Rc<RefCell<Log>>,
}

impl Row {
    fn cut(&mut self, cut: CutReason) {
        self.ended = match cut {
            CutReason::Lost => "lost",
            CutReason::Late => "late",
            CutReason::Deadline => "deadline",
        };
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Ok(mut log) = self.log.try_borrow_mut() {
            log.running -= 1;
            log.begun.retain(|ordinal| *ordinal != self.ordinal);
            log.rows.push((self.ordinal, self.ended));
        }
    }
}

#[derive(Debug)]
pub struct Fake {
    /// None once it was passed on.
    row: Option<Row>,
    course: Course,
    whole: bool,
    begun: bool,
    /// Until the next step.
    sleep: Pin<Box<Sleep>>,
}

impl Fake {
    fn whole_answer(&self) -> (Duration, bool) {
        let broken = self.course.breaks.filter(|breaks| *breaks < self.course.lasts);
        (broken.unwrap_or(self.course.lasts), broken.is_some())
    }

    fn fail(&mut self, kind: FailureKind, phase: Phase) -> Poll<Result<Token, Failure>> {
        self.row.as_mut().expect("polled after its end").ended = "failed";
        let retry_after = self.course.retry_after.filter(|_| phase == Phase::Headers);
        Poll::Ready(Err(Failure { retry_after, ..Failure::new(kind, phase, "") }))
    }

    fn arrive(&mut self) -> Poll<Result<Token, Failure>> {
        let row = self.row.take().expect("polled after its end");
        let breaks = self.course.breaks.filter(|_| !self.whole);
        Poll::Ready(Ok(Token { row, breaks: breaks.map(|breaks| Box::pin(tokio::time::sleep(breaks))) }))
    }
}

impl Future for Fake {
    type Output = Result<Token, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if matches!(self.course.behaviour, Behaviour::Hang) || self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let (rest, breaks) = self.whole_answer();
            match self.course.behaviour {
                Behaviour::Fail(kind) => return self.fail(kind, Phase::Headers),
                _ if self.begun && breaks => return self.fail(FailureKind::Reset, Phase::Stream),
                _ if self.begun || !self.whole => return self.arrive(),
                _ => {
                    self.begun = true;
                    let row = self.row.as_ref().expect("polled after its end");
                    row.log.borrow_mut().begun.push(row.ordinal);
                    self.sleep = Box::pin(tokio::time::sleep(rest));
                }
            }
        }
    }
}

impl RacingAttempt for Fake {
    type Ready = Token;

    fn cut(&mut self, cut: CutReason) {
        self.row.as_mut().expect("cut after its end").cut(cut);
    }

    fn has_begun(&self) -> bool {
        self.begun
    }
}

/// A ready fake.
#[derive(Debug)]
pub struct Token {
    pub row: Row,
    breaks: Option<Pin<Box<Sleep>>>,
}

impl Token {
    /// It should have broken by now.
    pub fn should_have_broken(&self) -> bool {
        self.breaks.as_ref().is_some_and(|breaks| breaks.is_elapsed())
    }
}

impl HeldAttempt for Token {
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        let held = self.row.log.borrow().held.map(|(ordinal, _)| ordinal);
        assert_eq!(held, Some(self.row.ordinal), "only the one that is held is polled so");
        let Some(breaks) = &mut self.breaks else { return Poll::Pending };
        breaks.as_mut().poll(context).map(|()| {
            self.row.ended = "broke";
            self.row.log.borrow_mut().held = None;
            Failure::new(FailureKind::Reset, Phase::Stream, "")
        })
    }

    fn cut(&mut self, cut: CutReason) {
        self.row.cut(cut);
    }
}

/// The launcher's answers.
pub enum Decide {
    AtRandom(fastrand::Rng),
    As(Script),
}

#[derive(Default)]
pub struct Script {
    /// In this order, then never.
    pub replans: Vec<Replan>,
    /// The index that follows a failure.
    pub next: usize,
    /// Only the first time.
    pub hold: Option<Duration>,
    pub prefers_new: bool,
    /// No retry while others run.
    pub is_poor: bool,
    /// This candidate is hopeless once another one has begun.
    pub hopeless: Option<usize>,
}

pub struct Fakes {
    pub world: World,
    pub decide: Decide,
    pub log: Rc<RefCell<Log>>,
    pub asked_again: bool,
    pub retries: Retries,
    pub deadline: Instant,
    pub max_attempts: usize,
}

impl Fakes {
    pub fn new(world: World, decide: Decide, plan: &RacePlan, log: &Rc<RefCell<Log>>) -> Fakes {
        let (most, wait_max, _) = world.retries;
        let retries = Retries::new(most, wait_max, world.courses.len());
        let deadline = Instant::now() + plan.total;
        let (log, max_attempts) = (log.clone(), plan.max_attempts);
        Fakes { world, decide, log, asked_again: false, retries, deadline, max_attempts }
    }
}

impl Launch for Fakes {
    type Ready = Token;
    type Attempt = Fake;

    fn launch(&mut self, starting: AttemptStart) -> Option<Fake> {
        let course = self.world.courses[starting.candidate];
        let mut log = self.log.borrow_mut();
        assert_eq!(starting.ordinal, log.started.len(), "ordinals count the starts");
        assert_eq!(log.held, None, "started while one is held back");
        assert!(log.begun.is_empty(), "started while one has begun");
        let by_plan = starting.reason == StartReason::First && starting.ordinal > 0;
        assert!(!by_plan || log.running - log.audited.len() < self.max_attempts, "more at once than may be");
        log.note_start(&starting);
        log.started.push(starting);
        log.running += 1;
        let row = Row { ordinal: starting.ordinal, ended: "left", log: self.log.clone() };
        let whole = self.world.whole;
        let sleep = Box::pin(tokio::time::sleep(course.delay));
        Some(Fake { row: Some(row), course, whole, begun: false, sleep })
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision {
        let again = self.world.asks_again == Some(candidate) && !self.asked_again;
        self.asked_again |= again;
        if again {
            return RetryDecision::Now;
        }
        let jitter = match &mut self.decide {
            Decide::As(_) => 0.0,
            Decide::AtRandom(random) => random.f64(),
        };
        let Some(wait) = self.retries.next(candidate, failure, None, jitter) else { return RetryDecision::No };
        let (due, first) = (Instant::now() + wait, self.world.retries.2);
        let mut log = self.log.borrow_mut();
        let is_untried = |other: &usize| log.started.iter().all(|starting| starting.candidate != *other);
        let untried = (0..self.world.courses.len()).filter(is_untried).count();
        if due < self.deadline && log.started.len() + untried < self.max_attempts {
            log.due.push((candidate, due, first));
        }
        RetryDecision::Later { wait, first }
    }

    fn affords_retry(&mut self, candidate: usize, running: &[RunningAttempt<Fake>]) -> bool {
        assert!(!running.is_empty(), "a retry alone is always affordable");
        let affords = match &mut self.decide {
            Decide::As(script) => !script.is_poor,
            Decide::AtRandom(random) => random.bool(),
        };
        if !affords {
            self.log.borrow_mut().due.retain(|(waiting, ..)| *waiting != candidate);
        }
        affords
    }

    fn lost(&mut self, mut attempt: Fake) {
        let row = attempt.row.take().expect("lost after its end");
        self.keep_or_drop(row);
    }

    fn lost_ready(&mut self, _: usize, ready: Token) {
        // A refusal ends also what is held back.
        self.log.borrow_mut().held.take_if(|(ordinal, _)| *ordinal == ready.row.ordinal);
        self.keep_or_drop(ready.row);
    }

    fn replan(&mut self, running: &[RunningAttempt<Fake>], waiting: &[usize]) -> Replan {
        assert!(!running.is_empty() && !waiting.is_empty(), "asked for nothing");
        assert!(!running.iter().any(|running| running.attempt.begun), "asked while one has begun");
        assert_eq!(self.log.borrow().held, None, "asked while one is held back");
        match &mut self.decide {
            Decide::As(script) if script.replans.is_empty() => Replan::Never,
            Decide::As(script) => script.replans.remove(0),
            Decide::AtRandom(random) => match random.u8(0..8) {
                0..2 => Replan::Start(waiting[random.usize(0..waiting.len())]),
                2 => Replan::Rescue(waiting[random.usize(0..waiting.len())]),
                3 => Replan::Start(random.usize(0..8)),
                4..6 => Replan::Again(Duration::from_millis(random.u64(0..8) * 50)),
                6 => Replan::Again(Duration::MAX),
                _ => Replan::Never,
            },
        }
    }

    fn next_after_failure(&mut self, waiting: &[usize], must: bool) -> Option<usize> {
        assert!(!waiting.is_empty(), "asked for nothing");
        match &mut self.decide {
            Decide::As(script) => Some(script.next),
            Decide::AtRandom(random) => (must || random.u8(0..4) > 0).then(|| random.usize(0..waiting.len() + 1)),
        }
    }

    fn hold(&mut self, ready: &RunningAttempt<Token>, running: &[RunningAttempt<Fake>]) -> Option<Duration> {
        assert!(!running.is_empty(), "held while none runs");
        let hold = match &mut self.decide {
            Decide::As(script) => script.hold.take(),
            Decide::AtRandom(_) if self.world.whole => None,
            Decide::AtRandom(random) => match random.u8(0..6) {
                0..3 => Some(Duration::from_millis(random.u64(0..8) * 50)),
                3 => Some(Duration::MAX),
                _ => None,
            },
        };
        let until = |hold: Duration| Instant::now() + hold.min(Duration::from_secs(3_600));
        let hold_on = hold.filter(|hold| !hold.is_zero());
        self.log.borrow_mut().held = hold_on.map(|hold| (ready.attempt.row.ordinal, until(hold)));
        hold
    }

    fn prefer(&mut self, held: &RunningAttempt<Token>, new: &RunningAttempt<Token>) -> RaceSide {
        let (ordinal, until) = self.log.borrow_mut().held.take().expect("none is held");
        assert!(ordinal == held.attempt.row.ordinal && ordinal != new.attempt.row.ordinal);
        assert!(Instant::now() <= until, "held for too long");
        let new = match &mut self.decide {
            Decide::As(script) => script.prefers_new,
            Decide::AtRandom(random) => random.bool(),
        };
        if new { RaceSide::New } else { RaceSide::Held }
    }

    fn hopeless(&mut self, running: &[RunningAttempt<Fake>]) -> Option<usize> {
        assert!(running.len() > 1, "asked of one alone");
        if self.world.first_decides {
            let first = running.iter().position(|running| running.attempt.begun)?;
            return (0..running.len()).find(|place| *place != first);
        }
        match &mut self.decide {
            Decide::As(script) => {
                let candidate = script.hopeless?;
                let begun = running.iter().any(|other| other.candidate() != candidate && other.attempt.begun);
                running.iter().position(|running| begun && running.candidate() == candidate)
            }
            Decide::AtRandom(_) if !self.world.whole => None,
            Decide::AtRandom(random) => (random.u8(0..8) == 0).then(|| random.usize(0..running.len() + 1)),
        }
    }
}

impl Fakes {
    fn keep_or_drop(&mut self, row: Row) {
        assert_eq!(row.ended, "lost", "a loser knows that it lost before it is handed over");
        self.log.borrow_mut().begun.retain(|ordinal| *ordinal != row.ordinal);
        if self.world.audits && row.ordinal.is_multiple_of(2) {
            self.log.borrow_mut().audited.push(row);
        }
    }
}
