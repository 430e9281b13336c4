//! A seeded model check of the race: random plans, delays, failures, ties and departures on a stopped clock, and what
//! must hold for every one of them. The seed is printed with any violation; `PHOTOFINISH_SEEDS` sets how many are run.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use super::{Attempt, Cut, Finish, Launch, Race, Starting};
use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::routing::plan::{Entry, Plan, Start};

/// What one candidate does each time it is started.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Ready,
    Fail(FailureKind),
    Hang,
}

#[derive(Clone, Debug)]
struct World {
    behaviours: Vec<(Duration, Behaviour)>,
    /// The candidate that asks to be tried once more when it fails.
    asks_again: Option<usize>,
    /// Losers that are kept running, as audits are.
    audits: bool,
    leaves_at: Option<Duration>,
    winner_breaks: u32,
}

/// One row for each started attempt, as the guard would write it.
#[derive(Debug, Default)]
struct Log {
    started: Vec<Starting>,
    /// By ordinal: how it ended.
    rows: Vec<(usize, &'static str)>,
    running: usize,
    audited: Vec<Fake>,
}

#[derive(Debug)]
struct Fake {
    ordinal: usize,
    sleep: Pin<Box<Sleep>>,
    behaviour: Behaviour,
    ended: &'static str,
    log: Rc<RefCell<Log>>,
}

impl Future for Fake {
    type Output = Result<usize, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.behaviour, Behaviour::Hang) || self.sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        assert_eq!(self.ended, "left", "polled after its end");
        match self.behaviour {
            Behaviour::Fail(kind) => {
                self.ended = "failed";
                Poll::Ready(Err(Failure::new(kind, Phase::Headers, "")))
            }
            _ => {
                self.ended = "ready";
                Poll::Ready(Ok(self.ordinal))
            }
        }
    }
}

impl Attempt for Fake {
    type Ready = usize;

    fn cut(&mut self, cut: Cut) {
        self.ended = match cut {
            Cut::Lost => "lost",
            Cut::Late => "late",
            Cut::Deadline => "deadline",
        };
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Ok(mut log) = self.log.try_borrow_mut() {
            log.running -= 1;
            log.rows.push((self.ordinal, self.ended));
        }
    }
}

struct Fakes {
    world: World,
    asked_again: bool,
    log: Rc<RefCell<Log>>,
}

impl Launch for Fakes {
    type Ready = usize;
    type Attempt = Fake;

    fn launch(&mut self, starting: Starting) -> Fake {
        let (delay, behaviour) = self.world.behaviours[starting.candidate];
        let mut log = self.log.borrow_mut();
        assert_eq!(starting.ordinal, log.started.len(), "ordinals count the starts");
        log.started.push(starting);
        log.running += 1;
        Fake {
            ordinal: starting.ordinal,
            sleep: Box::pin(tokio::time::sleep(delay)),
            behaviour,
            ended: "left",
            log: self.log.clone(),
        }
    }

    fn failed(&mut self, candidate: usize, _: &Failure) -> bool {
        let again = self.world.asks_again == Some(candidate) && !self.asked_again;
        self.asked_again |= again;
        again
    }

    fn lost(&mut self, attempt: Fake) {
        if self.world.audits && attempt.ordinal.is_multiple_of(2) {
            self.log.borrow_mut().audited.push(attempt);
        }
    }
}

fn random_world(random: &mut fastrand::Rng) -> (World, Plan) {
    let candidates = random.usize(1..6);
    // Few distinct delays, so that ties are common.
    let delay = |random: &mut fastrand::Rng| Duration::from_millis(random.u64(0..8) * 50);
    let kinds = [
        FailureKind::ServerError,
        FailureKind::RateLimited,
        FailureKind::BadRequest,
        FailureKind::Empty,
        FailureKind::ContentPolicy,
    ];
    let behaviours = (0..candidates)
        .map(|_| {
            let behaviour = match random.u8(0..10) {
                0..5 => Behaviour::Ready,
                5..9 => Behaviour::Fail(kinds[random.usize(0..kinds.len())]),
                _ => Behaviour::Hang,
            };
            (delay(random), behaviour)
        })
        .collect();
    let entries = (0..candidates)
        .map(|candidate| {
            let start = match random.u8(0..3) {
                0 => Start::At(Duration::ZERO),
                1 => Start::At(delay(random)),
                _ => Start::AfterFailure,
            };
            Entry { candidate, start, first_token: Duration::from_millis(random.u64(1..8) * 50), p_include: 1.0 }
        })
        .collect();
    let world = World {
        behaviours,
        asks_again: random.bool().then(|| random.usize(0..candidates)),
        audits: random.bool(),
        leaves_at: (random.u8(0..4) == 0).then(|| delay(random)),
        winner_breaks: if random.u8(0..4) == 0 { random.u32(1..3) } else { 0 },
    };
    (world, Plan { entries, max_attempts: random.usize(1..6), total: Duration::from_millis(random.u64(2..40) * 50) })
}

async fn check(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (world, plan) = random_world(&mut random);
    let log = Rc::new(RefCell::new(Log::default()));
    let context = format!("seed {seed}: {world:?} {plan:?}");
    let mut race =
        Race::new(plan.clone(), Fakes { world: world.clone(), asked_again: false, log: log.clone() }, Instant::now());
    let leaves_at = Instant::now() + world.leaves_at.unwrap_or(Duration::from_secs(3_600));
    let mut breaks = world.winner_breaks;
    let mut delivered: Option<usize> = None;
    loop {
        let Ok(finish) = tokio::time::timeout_at(leaves_at, race.run()).await else { break };
        let audited = log.borrow().audited.len();
        assert_eq!(log.borrow().running, audited, "something runs on after the end: {context}");
        match finish {
            Finish::Won { ready, candidate, ordinal } => {
                assert_eq!(ready, ordinal, "{context}");
                assert!(matches!(world.behaviours[candidate].1, Behaviour::Ready), "{context}");
                if breaks == 0 {
                    assert_eq!(delivered.replace(ordinal), None, "two winners: {context}");
                    break;
                }
                breaks -= 1;
                race.reopen(candidate, Failure::new(FailureKind::Reset, Phase::Stream, ""));
            }
            Finish::Failed => {
                check_nothing_was_left(&race, &plan, &log.borrow(), &context);
                break;
            }
            Finish::Deadline => {
                assert!(Instant::now() >= race.deadline(), "{context}");
                break;
            }
        }
    }
    let started = race.started();
    drop(race);
    log.borrow_mut().audited.iter_mut().for_each(|audit| audit.ended = "audited");
    let audited = std::mem::take(&mut log.borrow_mut().audited);
    drop(audited);
    check_rows(&log.borrow(), started, &plan, delivered, &context);
}

/// A race may only fail when every candidate was tried, the bound was reached, or a policy refusal stopped it.
fn check_nothing_was_left(race: &Race<Fakes>, plan: &Plan, log: &Log, context: &str) {
    let refused = race.failures().iter().any(|(_, failure)| failure.kind == FailureKind::ContentPolicy);
    let all_tried =
        (0..plan.entries.len()).all(|candidate| log.started.iter().any(|starting| starting.candidate == candidate));
    assert!(refused || all_tried || log.started.len() >= plan.max_attempts, "gave up too early: {context}");
}

fn check_rows(log: &Log, started: usize, plan: &Plan, delivered: Option<usize>, context: &str) {
    assert_eq!(log.started.len(), started, "{context}");
    assert!(started <= plan.max_attempts, "{context}");
    assert_eq!(log.running, 0, "{context}");
    let mut ordinals: Vec<usize> = log.rows.iter().map(|(ordinal, _)| *ordinal).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (0..started).collect::<Vec<_>>(), "not one row for each attempt: {context}");
    if let Some(winner) = delivered {
        assert!(log.rows.contains(&(winner, "ready")), "{context}");
        assert!(
            !log.rows.iter().any(|(_, ended)| *ended == "left"),
            "an attempt was dropped without a reason: {context}"
        );
    }
}

#[test]
fn every_seed_keeps_the_rules() {
    let seeds = std::env::var("PHOTOFINISH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        for seed in 0..seeds {
            check(seed).await;
        }
    });
}

/// What the race does, told as a story: which ordinals start when, and how each ends.
async fn story(
    behaviours: Vec<(u64, Behaviour)>,
    entries: Vec<(Start, u64)>,
    max_attempts: usize,
    total: u64,
) -> (String, Vec<(usize, &'static str)>, u128) {
    let world = World {
        behaviours: behaviours.iter().map(|(millis, behaviour)| (Duration::from_millis(*millis), *behaviour)).collect(),
        asks_again: None,
        audits: false,
        leaves_at: None,
        winner_breaks: 0,
    };
    let entries = entries
        .iter()
        .enumerate()
        .map(|(candidate, (start, first_token))| Entry {
            candidate,
            start: *start,
            first_token: Duration::from_millis(*first_token),
            p_include: 1.0,
        })
        .collect();
    let log = Rc::new(RefCell::new(Log::default()));
    let began = Instant::now();
    let plan = Plan { entries, max_attempts, total: Duration::from_millis(total) };
    let mut race = Race::new(plan, Fakes { world, asked_again: false, log: log.clone() }, began);
    let finish = match race.run().await {
        Finish::Won { ordinal, .. } => format!("won by {ordinal}"),
        Finish::Failed => "failed".to_owned(),
        Finish::Deadline => "deadline".to_owned(),
    };
    let elapsed = began.elapsed().as_millis();
    drop(race);
    let mut rows = log.borrow().rows.clone();
    rows.sort_unstable();
    (finish, rows, elapsed)
}

const NOW: Start = Start::At(Duration::ZERO);

fn after(millis: u64) -> Start {
    Start::At(Duration::from_millis(millis))
}

fn error() -> Behaviour {
    Behaviour::Fail(FailureKind::ServerError)
}

#[tokio::test(start_paused = true)]
async fn a_fast_failure_does_not_beat_a_healthy_attempt() {
    let (finish, rows, elapsed) =
        story(vec![(1, error()), (300, Behaviour::Ready)], vec![(NOW, 9_000); 2], 4, 9_000).await;
    assert_eq!((finish.as_str(), elapsed), ("won by 1", 300));
    assert_eq!(rows, [(0, "failed"), (1, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn two_that_are_ready_in_one_poll_leave_one_winner_and_one_loser() {
    let (finish, rows, _) =
        story(vec![(50, Behaviour::Ready), (50, Behaviour::Ready)], vec![(NOW, 9_000); 2], 4, 9_000).await;
    assert_eq!(finish, "won by 0");
    assert_eq!(rows, [(0, "ready"), (1, "lost")]);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_starts_on_time_or_at_once_after_a_failure() {
    let late = vec![(5_000, Behaviour::Ready), (100, Behaviour::Ready)];
    let (finish, rows, elapsed) = story(late, vec![(NOW, 9_000), (after(200), 9_000)], 4, 9_000).await;
    assert_eq!((finish.as_str(), elapsed), ("won by 1", 300));
    assert_eq!(rows, [(0, "lost"), (1, "ready")]);
    let (finish, _, elapsed) =
        story(vec![(10, error()), (100, Behaviour::Ready)], vec![(NOW, 9_000), (after(200), 9_000)], 4, 9_000).await;
    assert_eq!((finish.as_str(), elapsed), ("won by 1", 110));
}

#[tokio::test(start_paused = true)]
async fn the_last_one_alive_is_never_cut_by_its_first_token_timeout() {
    let slow = vec![(500, Behaviour::Ready), (10, error())];
    let (finish, rows, elapsed) = story(slow, vec![(NOW, 100), (Start::AfterFailure, 100)], 4, 9_000).await;
    // The second was started because the first was late, so the first was cut; had it been the last, it would have run on.
    assert_eq!((finish.as_str(), elapsed), ("failed", 110));
    assert_eq!(rows, [(0, "late"), (1, "failed")]);
    let (finish, _, elapsed) = story(vec![(500, Behaviour::Ready)], vec![(NOW, 100)], 4, 9_000).await;
    assert_eq!((finish.as_str(), elapsed), ("won by 0", 500));
    let both = vec![(500, Behaviour::Ready), (600, Behaviour::Ready)];
    let (finish, rows, elapsed) = story(both, vec![(NOW, 100); 2], 4, 9_000).await;
    assert_eq!((finish.as_str(), elapsed), ("won by 1", 600), "of two that are late at once the last one stays");
    assert_eq!(rows, [(0, "late"), (1, "ready")]);
}

#[tokio::test(start_paused = true)]
async fn the_total_deadline_ends_it() {
    let (finish, rows, elapsed) = story(vec![(0, Behaviour::Hang); 2], vec![(NOW, 100); 2], 4, 700).await;
    assert_eq!((finish.as_str(), elapsed), ("deadline", 700));
    assert_eq!(rows, [(0, "late"), (1, "deadline")]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_refusal_starts_no_others_but_lets_the_running_win() {
    let refusal = Behaviour::Fail(FailureKind::ContentPolicy);
    let (finish, rows, _) =
        story(vec![(10, refusal), (10, Behaviour::Ready)], vec![(NOW, 900), (Start::AfterFailure, 900)], 4, 900).await;
    assert_eq!((finish.as_str(), rows.len()), ("failed", 1));
    let three = vec![(10, refusal), (100, Behaviour::Ready), (0, Behaviour::Ready)];
    let (finish, rows, _) = story(three, vec![(NOW, 900), (NOW, 900), (after(50), 900)], 4, 900).await;
    assert_eq!((finish.as_str(), rows.len()), ("won by 1", 2));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_same_poll_as_a_win_is_not_routed_around_by_a_reopening() {
    let behaviours = [Behaviour::Fail(FailureKind::ContentPolicy), Behaviour::Ready, Behaviour::Ready];
    let world = World {
        behaviours: behaviours.map(|behaviour| (Duration::from_millis(10), behaviour)).to_vec(),
        asks_again: None,
        audits: false,
        leaves_at: None,
        winner_breaks: 0,
    };
    let entry = |candidate, start| Entry { candidate, start, first_token: Duration::from_secs(9), p_include: 1.0 };
    let entries = vec![entry(0, NOW), entry(1, NOW), entry(2, Start::AfterFailure)];
    let plan = Plan { entries, max_attempts: 4, total: Duration::from_secs(9) };
    let log = Rc::new(RefCell::new(Log::default()));
    let mut race = Race::new(plan, Fakes { world, asked_again: false, log: log.clone() }, Instant::now());
    assert!(matches!(race.run().await, Finish::Won { candidate: 1, .. }));
    race.reopen(1, Failure::new(FailureKind::Reset, Phase::Stream, ""));
    assert!(matches!(race.run().await, Finish::Failed));
    assert_eq!(race.started(), 2);
}
