//! The rules by hand: clocks that jump, rows that cease, breakers, several upstreams.

use super::usual::{Hours, Week};
use super::*;
use crate::estimate::class::Input;
use crate::estimate::survival::Observation;

/// 2026-01-02T03:00:00Z
const NOW: i64 = 1_767_322_800_000_000;
const SECOND: i64 = 1_000_000;

/// A watch whose upstreams usually have first tokens from 200 to 400 ms, evenly, and 10 ms for each token.
struct Scene {
    watch: IncidentWatch,
    now_us: i64,
    open: BTreeSet<String>,
}

fn attempt(at_us: i64) -> IncidentAttempt {
    let ttft = Some(Observation { time_us: 300_000, event: true, audit: None });
    IncidentAttempt {
        at_us,
        class: Input::at(0),
        failed: false,
        refused: false,
        saved: None,
        outcome_known: true,
        ttft,
        tpot_us: Some(10_000.0),
        lost_to: None,
        caller: None,
    }
}

fn failed(at_us: i64) -> IncidentAttempt {
    IncidentAttempt { failed: true, ttft: None, tpot_us: None, ..attempt(at_us) }
}

/// A first token at this time, or a cut.
fn timed(at_us: i64, time_us: i64, event: bool) -> IncidentAttempt {
    IncidentAttempt { ttft: Some(Observation { time_us, event, audit: None }), outcome_known: event, ..attempt(at_us) }
}

fn usual() -> Usual {
    let (mut week, mut hours) = (Week::default(), Hours::default());
    let attempts: Vec<IncidentAttempt> =
        (0..48 * 60).map(|n| timed(NOW - (48 * 60 - n) * MINUTE_US, 200_000 + n % 60 * 10_000 / 3, true)).collect();
    attempts.iter().for_each(|attempt| week.add(attempt));
    let usual = week.usual();
    for attempt in &attempts {
        hours.add(&usual, attempt.at_us, attempt.class, &[attempt.ttft.unwrap().points().0]);
    }
    usual.with_hours(&hours)
}

impl Scene {
    fn new(upstreams: &[&str]) -> Scene {
        let mut watch = IncidentWatch::default();
        watch.compare_with(upstreams.iter().map(|upstream| ((*upstream).to_owned(), usual())).collect());
        Scene { watch, now_us: NOW, open: BTreeSet::new() }
    }

    /// A look at the end of a minute.
    fn check(&mut self) -> Vec<IncidentChange> {
        self.watch.advance(self.now_us);
        self.watch.check(&self.open)
    }

    /// Lets minutes pass, each with these attempts at second 5, 15, … of it.
    fn minutes(&mut self, minutes: i64, upstream: &str, each: &[fn(i64) -> IncidentAttempt]) -> Vec<IncidentChange> {
        self.all(minutes, &[upstream], each)
    }

    fn all(&mut self, minutes: i64, upstreams: &[&str], each: &[fn(i64) -> IncidentAttempt]) -> Vec<IncidentChange> {
        let mut changes = Vec::new();
        for _ in 0..minutes {
            self.watch.advance(self.now_us);
            for upstream in upstreams {
                for (n, make) in (0..).zip(each) {
                    self.watch.see(upstream, &make(self.now_us + (5 + 10 * (n % 6)) * SECOND));
                }
            }
            self.now_us += MINUTE_US;
            changes.extend(self.check());
        }
        changes
    }

    fn steps(changes: &[IncidentChange]) -> Vec<(IncidentStep, &str, IncidentKind, IncidentState)> {
        let reported = changes.iter().filter(|change| change.step != IncidentStep::GoesOn);
        let of = |change: &'_ IncidentChange| (change.step, change.incident.kind, change.incident.state);
        reported
            .map(|change| {
                let (step, kind, state) = of(change);
                (step, change.incident.upstream.as_deref().unwrap_or("gateway"), kind, state)
            })
            .collect()
    }
}

const WELL: [fn(i64) -> IncidentAttempt; 6] = [attempt; 6];
const FAILING: [fn(i64) -> IncidentAttempt; 6] = [failed; 6];

#[test]
fn failures_begin_and_end_where_they_turn() {
    let mut scene = Scene::new(&["a/m"]);
    assert_eq!(scene.minutes(60, "a/m", &WELL), []);
    let began_at = scene.now_us;
    let changes = scene.minutes(10, "a/m", &FAILING);
    let ended_at = scene.now_us;
    assert_eq!(Scene::steps(&changes), [(IncidentStep::Begun, "a/m", IncidentKind::Failures, IncidentState::Open)]);
    assert_eq!(changes[0].incident.began_at, began_at);
    assert_eq!(changes[0].incident.updated_at, began_at + MINUTE_US, "found within a minute");
    assert_eq!(changes.len(), 2, "it is written again after five minutes");
    let changes = scene.minutes(8, "a/m", &WELL);
    let ended = &changes.iter().find(|change| change.step == IncidentStep::Ended).unwrap().incident;
    assert_eq!((ended.ended_at, ended.attempts, ended.failures), (Some(ended_at), 60, 60));
    assert_eq!(scene.watch.open().count(), 0);
    // Within half an hour it is the same one; later it is another.
    let again = scene.minutes(2, "a/m", &FAILING);
    assert_eq!((&again[0].incident.incident_id, again[0].incident.began_at), (&ended.incident_id, began_at));
    scene.minutes(50, "a/m", &WELL);
    let other = scene.minutes(2, "a/m", &FAILING);
    assert_ne!(other[0].incident.incident_id, ended.incident_id);
}

/// In a race that this upstream won.
fn lost(at_us: i64, to: &str) -> IncidentAttempt {
    IncidentAttempt { lost_to: Some(to.to_owned()), ..timed(at_us, 2_000_000, false) }
}

fn of(caller: i64, attempt: IncidentAttempt) -> IncidentAttempt {
    IncidentAttempt { caller: Some(caller.unsigned_abs()), ..attempt }
}

#[test]
fn the_failures_of_one_caller_are_no_illness_of_the_upstream() {
    let broken: fn(i64) -> IncidentAttempt = |at_us| of(1, failed(at_us));
    let other: fn(i64) -> IncidentAttempt = |at_us| of(2 + at_us / SECOND % 8, attempt(at_us));
    let ill: fn(i64) -> IncidentAttempt = |at_us| of(2 + at_us / SECOND % 8, failed(at_us));
    let begun = |warm: &[fn(i64) -> IncidentAttempt], each: &[fn(i64) -> IncidentAttempt]| {
        let mut scene = Scene::new(&["a/m"]);
        scene.minutes(60, "a/m", warm);
        let changes = scene.minutes(20, "a/m", each);
        changes.first().map(|change| change.incident.clone())
    };
    assert_eq!(begun(&[other; 6], &[broken, other, broken, other, broken, other]), None);
    // No other caller asks, or the others fail too: it is the upstream.
    let alone: fn(i64) -> IncidentAttempt = |at_us| of(1, attempt(at_us));
    assert!(begun(&[alone; 6], &[broken; 6]).is_some());
    assert!(begun(&[alone; 6], &[broken, alone, broken, alone]).is_some());
    let all = begun(&[other; 6], &[broken, ill, broken, ill, broken, ill]).unwrap();
    assert!(all.callers > 1, "{all:?}");
    // Without known callers it is reported as before.
    assert_eq!(begun(&WELL, &[failed, attempt, failed, attempt]).unwrap().callers, 0);
    // An illness that begins while one caller's requests are broken is found, and where it began.
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &[broken, other, other, other, other, other]);
    let began_at = scene.now_us;
    let changes = scene.minutes(10, "a/m", &[broken, ill, ill, ill, ill, ill]);
    assert!(changes[0].incident.began_at >= began_at && changes[0].incident.began_at < began_at + MINUTE_US);
    assert!(changes[0].incident.updated_at <= began_at + 2 * MINUTE_US);
}

#[test]
fn slowness_says_to_whom_its_races_were_lost() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    let each: [fn(i64) -> IncidentAttempt; 6] = [
        |at_us| lost(at_us, "b/m"),
        |at_us| lost(at_us, "c/m"),
        |at_us| lost(at_us, "c/m"),
        |at_us| lost(at_us, "c/m"),
        |at_us| timed(at_us, 2_000_000, true),
        |at_us| lost(at_us, "b/m"),
    ];
    let changes = scene.minutes(6, "a/m", &each);
    let incident = &changes.iter().rev().find(|change| change.incident.kind == IncidentKind::Slower).unwrap().incident;
    assert_eq!(incident.traffic.as_deref(), Some("c/m"));
    assert!(incident.lost > 0 && 6 * incident.lost == 5 * incident.attempts, "{incident:?}");
}

#[test]
fn an_upstream_that_always_loses_is_well_again_once_no_attempt_fails() {
    let cut: fn(i64) -> IncidentAttempt = |at_us| timed(at_us, 50_000, false);
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    // While it fails, other attempts are cut: they are none of those whose outcome is known.
    scene.minutes(10, "a/m", &[failed, cut, failed, cut, failed, cut]);
    let ended_at = scene.now_us - 10 * SECOND;
    let changes = scene.minutes(8, "a/m", &[cut; 6]);
    let ended = &changes.iter().find(|change| change.step == IncidentStep::Ended).unwrap().incident;
    assert_eq!((ended.ended_at, ended.attempts, ended.failures), (Some(ended_at), 30, 30));
    // Too few of them say nothing.
    scene.minutes(10, "a/m", &FAILING);
    assert!(Scene::steps(&scene.minutes(9, "a/m", &[cut])).is_empty());
}

#[test]
fn a_hiccup_is_no_incident_however_many_attempts_it_fails() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    for n in 0..500 {
        scene.watch.see("a/m", &failed(scene.now_us + n * 19 * SECOND / 500));
    }
    assert_eq!(scene.minutes(30, "a/m", &WELL), []);
    // Nor are attempts that were cut before anything was known of them.
    let cut: [fn(i64) -> IncidentAttempt; 2] = [|at_us| timed(at_us, 50_000, false), attempt];
    assert_eq!(scene.minutes(60, "a/m", &cut), []);
}

#[test]
fn an_upstream_that_often_fails_is_compared_with_itself() {
    let mut week = Week::default();
    (0..1_000).for_each(|n| week.add(&if n % 4 == 0 { failed(NOW - n) } else { attempt(NOW - n) }));
    let mut scene = Scene::new(&[]);
    scene.watch.compare_with([("a/m".to_owned(), week.usual())].into());
    let usually: [fn(i64) -> IncidentAttempt; 4] = [failed, attempt, attempt, attempt];
    assert_eq!(scene.minutes(180, "a/m", &usually), []);
    assert_eq!(Scene::steps(&scene.minutes(60, "a/m", &FAILING)).len(), 1);
}

#[test]
fn slowness_is_measured_also_where_all_are_cut() {
    let slow: [fn(i64) -> IncidentAttempt; 6] = [|at_us| timed(at_us, 660_000, true); 6];
    let cut: [fn(i64) -> IncidentAttempt; 6] = [|at_us| timed(at_us, 390_000, false); 6];
    for (each, factor, at_least) in [(&slow, 2.2, false), (&cut, 1.8, true)] {
        let mut scene = Scene::new(&["a/m"]);
        assert_eq!(scene.minutes(60, "a/m", &WELL), []);
        let began_at = scene.now_us;
        let begun = scene.minutes(60, "a/m", each);
        let ended_at = scene.now_us;
        assert_eq!(Scene::steps(&begun), [(IncidentStep::Begun, "a/m", IncidentKind::Slower, IncidentState::Open)]);
        let changes = scene.minutes(40, "a/m", &WELL);
        let ended = &changes.last().unwrap().incident;
        assert_eq!((ended.began_at, ended.ended_at), (began_at, Some(ended_at)));
        let found = ended.factor.unwrap();
        assert!((found / factor - 1.0).abs() < 0.05 && ended.at_least == at_least, "{ended:?}");
        assert_eq!(ended.attempts, 360);
    }
}

#[test]
fn tokens_that_come_slowly_are_an_incident_of_their_own() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    let slow: [fn(i64) -> IncidentAttempt; 6] =
        [|at_us| IncidentAttempt { tpot_us: Some(30_000.0), ..attempt(at_us) }; 6];
    let changes = scene.minutes(30, "a/m", &slow);
    assert_eq!(Scene::steps(&changes), [(IncidentStep::Begun, "a/m", IncidentKind::TokS, IncidentState::Open)]);
    assert!((changes.last().unwrap().incident.factor.unwrap() / 3.0 - 1.0).abs() < 0.05);
}

#[test]
fn an_open_breaker_is_an_incident_though_it_takes_the_rows_away() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    scene.open.insert("a/m".to_owned());
    let mut changes = scene.minutes(1, "a/m", &[]);
    assert_eq!(changes, [], "a minute has not passed");
    changes.extend(scene.minutes(1, "a/m", &[]));
    assert_eq!(Scene::steps(&changes), [(IncidentStep::Begun, "a/m", IncidentKind::Failures, IncidentState::Open)]);
    assert!(changes[0].incident.breaker);
    assert_eq!(Scene::steps(&scene.minutes(90, "a/m", &[])), [], "it lasts while the breaker is open");
    scene.open.clear();
    let ended = scene.minutes(10, "a/m", &WELL);
    assert_eq!(Scene::steps(&ended), [(IncidentStep::Ended, "a/m", IncidentKind::Failures, IncidentState::Ended)]);
}

#[test]
fn where_rows_cease_nobody_knows_the_end() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    scene.minutes(5, "a/m", &FAILING);
    let last_at = scene.now_us - 5 * SECOND;
    let changes = scene.minutes(300, "a/m", &[]);
    assert_eq!(
        Scene::steps(&changes),
        [(IncidentStep::Ended, "a/m", IncidentKind::Failures, IncidentState::EndUnknown)]
    );
    let ended = &changes.last().unwrap().incident;
    assert_eq!((ended.ended_at, ended.last_at), (None, last_at));
    assert!(scene.watch.upstreams.is_empty(), "nothing is kept of what is gone");
}

#[test]
fn a_clock_that_jumps_does_not_alarm() {
    for jump in [-400 * 24 * 60, -90, -3, 11, 180, 400 * 24 * 60] {
        let mut scene = Scene::new(&["a/m"]);
        scene.minutes(60, "a/m", &WELL);
        // Five failures: one more opens an incident.
        scene.minutes(1, "a/m", &FAILING[..5]);
        scene.now_us += jump * MINUTE_US;
        assert_eq!(scene.minutes(1, "a/m", &FAILING[..1]), [], "{jump} min");
        assert_eq!(scene.minutes(120, "a/m", &WELL), [], "{jump} min");
        // What is known before a jump has no end.
        scene.minutes(3, "a/m", &FAILING);
        scene.now_us += jump * MINUTE_US;
        let ended = scene.minutes(2, "a/m", &WELL);
        let state = ended.iter().find(|change| change.step == IncidentStep::Ended).map(|change| change.incident.state);
        assert_eq!(state, Some(IncidentState::EndUnknown), "{jump} min");
    }
    // Rows of another time are left out.
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(10, "a/m", &WELL);
    for n in 0..1_000 {
        scene.watch.see("a/m", &failed(scene.now_us + 3 * 60 * MINUTE_US + n * SECOND));
        scene.watch.see("a/m", &failed(scene.now_us - 3 * 60 * MINUTE_US - n * SECOND));
    }
    assert_eq!(scene.minutes(10, "a/m", &WELL), []);
}

#[test]
fn half_of_the_providers_at_once_are_one_incident_of_the_gateway() {
    let upstreams = ["a/m", "b/m", "c/m", "d/m"];
    for (failing, is_of_gateway) in [(1, false), (2, true), (4, true)] {
        let mut scene = Scene::new(&upstreams);
        scene.all(60, &upstreams, &WELL);
        let mut changes = Vec::new();
        for _ in 0..5 {
            changes.extend(scene.all(1, &upstreams[..failing], &FAILING));
            // The minute is the same one for the others.
            for upstream in &upstreams[failing..] {
                scene.watch.see(upstream, &attempt(scene.now_us - SECOND));
            }
        }
        let gateway: Vec<&IncidentRecord> =
            changes.iter().map(|change| &change.incident).filter(|incident| incident.upstream.is_none()).collect();
        assert_eq!(!gateway.is_empty(), is_of_gateway, "{failing} of 4");
        let Some(first) = gateway.first() else { continue };
        assert_eq!(first.upstreams, failing as i64);
        let parts = scene.watch.open().filter(|open| open.part_of.as_ref() == Some(&first.incident_id)).count();
        assert_eq!(parts, failing);
        let changes = scene.all(10, &upstreams, &WELL);
        let last = changes.iter().rev().find(|change| change.incident.upstream.is_none()).unwrap();
        assert_eq!((last.step, last.incident.state), (IncidentStep::Ended, IncidentState::Ended));
    }
    // Two upstreams of one provider are that provider's.
    let mut scene = Scene::new(&["a/m", "a/n"]);
    scene.all(60, &["a/m", "a/n"], &WELL);
    let changes = scene.all(5, &["a/m", "a/n"], &FAILING);
    assert!(changes.iter().all(|change| change.incident.upstream.is_some() && change.incident.part_of.is_none()));
}

#[test]
fn what_was_known_before_a_restart_goes_on() {
    let mut scene = Scene::new(&["a/m"]);
    scene.minutes(60, "a/m", &WELL);
    let known = scene.minutes(3, "a/m", &FAILING)[0].incident.clone();
    let mut after = Scene::new(&["a/m"]);
    after.now_us = scene.now_us;
    after.watch.resume(known.clone());
    // It reads the rows of the last minutes, and opens nothing twice.
    (1..18).for_each(|n| after.watch.see("a/m", &failed(after.now_us - n * 10 * SECOND)));
    assert_eq!(Scene::steps(&after.minutes(2, "a/m", &FAILING)), []);
    let ended = after.minutes(10, "a/m", &WELL);
    assert_eq!(ended[0].incident.incident_id, known.incident_id);
    // One whose upstream was not asked since has no end.
    let mut late = Scene::new(&["a/m"]);
    late.now_us = scene.now_us + 90 * MINUTE_US;
    late.watch.resume(known);
    assert_eq!(late.minutes(1, "b/m", &WELL)[0].incident.state, IncidentState::EndUnknown);
}

#[test]
fn slowness_needs_a_history_and_enough_attempts() {
    let slow: [fn(i64) -> IncidentAttempt; 6] = [|at_us| timed(at_us, 900_000, true); 6];
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.minutes(120, "a/m", &slow), [], "nothing is usual yet");
    let mut scene = Scene::new(&["a/m"]);
    for _ in 0..20 {
        // One attempt in ten minutes: less than 20 are expected in an hour.
        assert_eq!(scene.minutes(1, "a/m", &slow[..1]), []);
        assert_eq!(scene.minutes(9, "a/m", &[]), []);
    }
    // A burst is no incident.
    let mut scene = Scene::new(&["a/m"]);
    for n in 0..60 {
        scene.watch.see("a/m", &timed(scene.now_us + n * SECOND / 3, 900_000, true));
    }
    assert_eq!(scene.minutes(30, "a/m", &[]), []);
}

/// A minute after which routing asks others: what was seen in it is enough, losers that were cut included.
#[test]
fn a_minute_of_stalls_is_told_although_nobody_asks_afterwards() {
    for event in [true, false] {
        let mut scene = Scene::new(&["a/m"]);
        for n in 0..60 {
            scene.watch.see("a/m", &timed(scene.now_us + n * SECOND, 900_000, event));
        }
        let changes = scene.minutes(2, "a/m", &[]);
        assert_eq!(
            (changes[0].step, changes[0].incident.kind),
            (IncidentStep::Begun, IncidentKind::Slower),
            "{changes:?}"
        );
        assert_eq!((changes[0].incident.began_at, changes[0].incident.attempts), (NOW, 60));
        let ended = scene.minutes(40, "a/m", &[]);
        assert_eq!(ended.last().unwrap().incident.state, IncidentState::EndUnknown);
    }
}

/// What failed among answers that came well shows much in seconds; what failed in a row shows little.
#[test]
fn a_quarter_of_four_hundred_answers_in_half_a_minute_is_told() {
    let run = |is_failed: fn(i64) -> bool| {
        let mut scene = Scene::new(&["a/m"]);
        for n in 0..400 {
            let at_us = scene.now_us + n * 37 * SECOND / 400;
            let one =
                if is_failed(n) { IncidentAttempt { saved: Some(n % 8 > 0), ..failed(at_us) } } else { attempt(at_us) };
            scene.watch.see("a/m", &one);
        }
        scene.minutes(1, "a/m", &[])
    };
    let reported = run(|n| n % 4 == 0);
    assert_eq!((reported[0].step, reported[0].incident.failures), (IncidentStep::Begun, 100), "{reported:?}");
    assert_eq!((reported[0].incident.broke, reported[0].incident.saved), (50, 50));
    assert_eq!(run(|n| (100..200).contains(&n)), [], "9 s in which all failed");
}

/// 30 % where 10 % is usual.
#[test]
fn a_share_of_failures_that_trebles_is_told() {
    let mut scene = Scene::new(&[]);
    let mut usual = usual();
    usual.failed = 0.1;
    scene.watch.compare_with([("a/m".to_owned(), usual)].into());
    let mut draws = fastrand::Rng::with_seed(5);
    let mut minutes = |scene: &mut Scene, share: f64, minutes: i64| {
        let mut changes = Vec::new();
        for _ in 0..minutes {
            for n in 0..20 {
                let at_us = scene.now_us + n * 3 * SECOND;
                scene.watch.see("a/m", &if draws.f64() < share { failed(at_us) } else { attempt(at_us) });
            }
            changes.extend(scene.minutes(1, "a/m", &[]));
        }
        changes
    };
    assert_eq!(minutes(&mut scene, 0.1, 600), [], "ten hours as usual");
    let reported = minutes(&mut scene, 0.3, 60);
    assert!(reported.first().is_some_and(|change| change.step == IncidentStep::Begun), "{reported:?}");
}

#[test]
fn so_many_upstreams_are_watched() {
    let mut scene = Scene::new(&[]);
    (0..UPSTREAMS_MAX + 10).for_each(|n| scene.watch.see(&format!("a/{n}"), &attempt(scene.now_us)));
    assert_eq!(scene.watch.upstreams.len(), UPSTREAMS_MAX);
}
