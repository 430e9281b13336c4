//! A seeded model check of the race: random plans, delays, failures, retries, ties, departures and decisions on a stopped clock,
//! and the invariants of every race. A violation prints its seed; `PHOTOFINISH_SEEDS` sets the number of seeds:
//! `PHOTOFINISH_SEEDS=100000 cargo test --lib race::model_check`.

mod fakes;
mod stories;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::{Race, RaceFinish};
use fakes::{Decide, Fakes, Log};
use photofinish_base::clock::Instant;
use photofinish_base::failure::FailureKind;
use photofinish_config::ContentPolicy;
use photofinish_routing::policy::plan::{PlannedStart, RacePlan, StartRule};
use world::{Behaviour, Course, World};

fn random_world(random: &mut fastrand::Rng) -> (World, RacePlan) {
    let candidates = random.usize(1..6);
    let whole = random.u8(0..3) == 0;
    let courses = (0..candidates).map(|_| random_course(random)).collect();
    let entries = (0..candidates)
        .map(|candidate| {
            let start = match random.u8(0..7) {
                0 | 1 => StartRule::At(Duration::ZERO),
                2 | 3 => StartRule::At(random_delay(random)),
                4 | 5 => StartRule::AfterFailure,
                _ => StartRule::Last,
            };
            let trial = candidate > 0 && random.u8(0..5) == 0;
            PlannedStart {
                candidate,
                start,
                first_token: Duration::from_millis(random.u64(1..8) * 50),
                p_include: 1.0,
                trial,
                only_shows: trial && random.bool(),
            }
        })
        .collect();
    let world = World {
        courses,
        whole,
        first_decides: whole && random.bool(),
        asks_again: random.bool().then(|| random.usize(0..candidates)),
        retries: (random.u32(0..3), random_delay(random), random.bool()),
        audits: random.bool(),
        leaves_at: (random.u8(0..4) == 0).then(|| random_delay(random)),
    };
    let plan = RacePlan {
        entries,
        max_attempts: random.usize(1..6),
        total: Duration::from_millis(random.u64(2..40) * 50),
        ask_after: random.bool().then(|| random_delay(random)),
        expected: None,
        trials_win: true,
        content_policy: ContentPolicy::ALL[random.usize(0..2)],
    };
    (world, plan)
}

/// One of few values, so that ties are common.
fn random_delay(random: &mut fastrand::Rng) -> Duration {
    Duration::from_millis(random.u64(0..8) * 50)
}

fn random_course(random: &mut fastrand::Rng) -> Course {
    let kinds = [
        FailureKind::ServerError,
        FailureKind::Reset,
        FailureKind::RateLimited,
        FailureKind::BadRequest,
        FailureKind::Empty,
        FailureKind::ContentPolicy,
    ];
    let behaviour = match random.u8(0..10) {
        0..6 => Behaviour::Ready,
        6..9 => Behaviour::Fail(kinds[random.usize(0..kinds.len())]),
        _ => Behaviour::Hang,
    };
    let breaks = (random.u8(0..4) == 0).then(|| random_delay(random));
    let retry_after = random.bool().then(|| random_delay(random));
    Course { delay: random_delay(random), behaviour, lasts: random_delay(random), breaks, retry_after }
}

async fn check(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (world, plan) = random_world(&mut random);
    let log = Rc::new(RefCell::new(Log::default()));
    let context = format!("seed {seed}: {world:?} {plan:?}");
    let fakes = Fakes::new(world.clone(), Decide::AtRandom(random), &plan, &log);
    let mut race = Race::new(plan.clone(), fakes, Instant::now());
    let leaves_at = Instant::now() + world.leaves_at.unwrap_or(Duration::from_secs(3_600));
    let mut delivered: Option<usize> = None;
    if let Ok(finish) = tokio::time::timeout_at(leaves_at, race.run()).await {
        let kept = log.borrow().audited.len() + usize::from(matches!(finish, RaceFinish::Won { .. }));
        assert_eq!(log.borrow().running, kept, "something runs on after the end: {context}");
        let held = log.borrow_mut().held.take();
        match finish {
            RaceFinish::Won { mut ready, candidate, ordinal } => {
                assert_eq!(ready.row.ordinal, ordinal, "{context}");
                check_winner(&world, candidate, held, ordinal, &context);
                assert!(held.is_none() || !ready.should_have_broken(), "it broke while it was held: {context}");
                ready.row.ended = "won";
                delivered = Some(ordinal);
            }
            RaceFinish::Failed => {
                assert_eq!(held, None, "one was held back and not committed to: {context}");
                check_nothing_was_left(&race, &plan, &log.borrow(), &context);
            }
            RaceFinish::Deadline => {
                assert_eq!(held, None, "one was held back and not committed to: {context}");
                assert!(Instant::now() >= race.deadline(), "{context}");
                check_deadline(&race, &world, &plan, &log.borrow(), &context);
            }
        }
    }
    let started = race.started();
    drop(race);
    let mut audited = std::mem::take(&mut log.borrow_mut().audited);
    audited.iter_mut().for_each(|row| row.ended = "audited");
    drop(audited);
    check_rows(&log.borrow(), started, delivered, &context);
    let (most, ..) = world.retries;
    assert!(log.borrow().retried.values().all(|retried| *retried <= most), "asked again too often: {context}");
}

/// `held`: the attempt that was held back to the end, and until when that was allowed.
fn check_winner(world: &World, candidate: usize, held: Option<(usize, Instant)>, ordinal: usize, context: &str) {
    let course = world.courses[candidate];
    assert!(matches!(course.behaviour, Behaviour::Ready), "{context}");
    let breaks_before = course.breaks.is_some_and(|breaks| breaks < course.lasts);
    assert!(!(world.whole && breaks_before), "won before its whole answer was there: {context}");
    if let Some((held, until)) = held {
        assert_eq!(held, ordinal, "another one won without being preferred: {context}");
        assert!(Instant::now() <= until, "held for too long: {context}");
    }
}

/// A race may fail only if every candidate was tried, or a refusal on policy stopped it.
fn check_nothing_was_left(race: &Race<Fakes>, plan: &RacePlan, log: &Log, context: &str) {
    let refused = plan.content_policy == ContentPolicy::Stop
        && race.failures().iter().any(|(_, failure)| failure.kind == FailureKind::ContentPolicy);
    let all_tried =
        (0..plan.entries.len()).all(|candidate| log.started.iter().any(|starting| starting.candidate == candidate));
    assert!(refused || all_tried, "gave up too early: {context}");
    assert!(refused || log.due.is_empty(), "one was to be asked again: {context}");
}

/// No race waits idly for its deadline, and no retry is forgotten. Timers are exact to a millisecond.
fn check_deadline(race: &Race<Fakes>, world: &World, plan: &RacePlan, log: &Log, context: &str) {
    let is_late = |due: &(usize, Instant, bool)| due.1 + Duration::from_millis(1) >= race.deadline();
    let ran = log.rows.iter().any(|(_, ended)| *ended == "deadline");
    assert!(ran || log.due.iter().any(is_late), "it ended with none running: {context}");
    // Nothing starts while an answer is under way.
    let refused = race.failures().iter().any(|(_, failure)| failure.kind == FailureKind::ContentPolicy);
    let may_wait = world.whole || refused || plan.max_attempts < plan.entries.len();
    assert!(may_wait || log.due.iter().all(is_late), "one was to be asked again: {context}");
}

fn check_rows(log: &Log, started: usize, delivered: Option<usize>, context: &str) {
    assert_eq!(log.started.len(), started, "{context}");
    assert_eq!(log.running, 0, "{context}");
    let mut ordinals: Vec<usize> = log.rows.iter().map(|(ordinal, _)| *ordinal).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (0..started).collect::<Vec<_>>(), "not one row for each attempt: {context}");
    let won: Vec<usize> = log.rows.iter().filter(|(_, ended)| *ended == "won").map(|(ordinal, _)| *ordinal).collect();
    assert_eq!(won, Vec::from_iter(delivered), "{context}");
    if delivered.is_some() {
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
