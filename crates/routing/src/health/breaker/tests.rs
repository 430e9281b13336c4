//! Events of a breaker, and its state after each.

use super::BreakerStatus::{Closed, HalfOpen};
use super::TrialScope::{InAddition, InPlace};
use super::*;

const UP: BreakerScope<'static> = BreakerScope { upstream: "a/m", surface: Surface::Chat, named: false };

fn named(upstream: &str) -> BreakerScope<'_> {
    BreakerScope { upstream, named: true, ..UP }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn settings(failures: u32) -> Settings {
    Settings { failures, open: seconds(5), open_max: seconds(60) }
}

fn open(wait: u64) -> BreakerStatus {
    BreakerStatus::Open(seconds(wait))
}

/// What happens at a time; times are seconds.
enum Event {
    Failed {
        sent: u64,
    },
    Broke {
        sent: u64,
    },
    FirstToken {
        sent: u64,
    },
    EndedWell,
    TimePasses,
    TrialBegins,
    NoTrialBegins,
    /// The trial that began at this time.
    TrialEnds(u64),
}

/// Checks the state after each event, at the time of the event.
fn run(failures: u32, table: &[(u64, Event, BreakerStatus)]) {
    run_for(InAddition, failures, table);
}

fn run_for(trying: TrialScope, failures: u32, table: &[(u64, Event, BreakerStatus)]) {
    let (mut breakers, settings, zero) = (Breakers::default(), settings(failures), Instant::now());
    let at = |time: u64| zero + seconds(time);
    for (row, (time, event, expected)) in table.iter().enumerate() {
        let now = at(*time);
        match event {
            Event::Failed { sent } => drop(breakers.failed(UP, &settings, false, None, at(*sent), now)),
            Event::Broke { sent } => drop(breakers.failed(UP, &settings, true, None, at(*sent), now)),
            Event::FirstToken { sent } => drop(breakers.first_token(UP, at(*sent), now)),
            Event::EndedWell => breakers.ended_well(UP),
            Event::TimePasses => {}
            Event::TrialBegins => assert_eq!(breakers.begin_trial(UP, &settings, now), Some(now), "row {row}"),
            Event::NoTrialBegins => assert_eq!(breakers.begin_trial(UP, &settings, now), None, "row {row}"),
            Event::TrialEnds(begun) => breakers.end_trial(UP, at(*begun)),
        }
        assert_eq!(breakers.status(UP, &settings, None, trying, now), *expected, "row {row}");
    }
}

use Event::*;

#[test]
fn failures_in_a_row_open_it_and_a_first_token_begins_anew() {
    run(
        3,
        &[
            (0, Failed { sent: 0 }, Closed),
            (1, Failed { sent: 1 }, Closed),
            (2, FirstToken { sent: 0 }, Closed),
            (3, Failed { sent: 3 }, Closed),
            (4, Failed { sent: 3 }, Closed),
            (5, NoTrialBegins, Closed),
            (6, Failed { sent: 3 }, open(5)),
        ],
    );
}

#[test]
fn answers_that_break_off_are_a_run_of_their_own() {
    run(
        2,
        &[
            (0, FirstToken { sent: 0 }, Closed),
            (1, Broke { sent: 0 }, Closed),
            (2, FirstToken { sent: 2 }, Closed),
            (2, EndedWell, Closed),
            (3, Failed { sent: 3 }, Closed),
            (4, Broke { sent: 4 }, Closed),
            (5, FirstToken { sent: 5 }, Closed),
            (6, Broke { sent: 5 }, open(5)),
            (7, EndedWell, open(4)),
        ],
    );
}

#[test]
fn beside_others_there_is_a_trial_every_five_seconds_however_long_it_fails() {
    let mut table = vec![(0, Failed { sent: 0 }, open(5))];
    for time in (5..100).step_by(5) {
        table.push((time, TimePasses, HalfOpen));
        table.push((time, TrialBegins, open(5)));
        // The next trial does not depend on how long this one takes to fail.
        table.push((time + 3, Failed { sent: time }, open(2)));
    }
    table.push((100, TrialBegins, open(5)));
    table.push((101, FirstToken { sent: 100 }, Closed));
    table.push((101, Failed { sent: 101 }, open(5)));
    run(1, &table);
}

#[test]
fn in_its_own_place_a_failed_trial_doubles_the_time_up_to_its_bound() {
    let mut table = vec![(0, Failed { sent: 0 }, open(5))];
    let mut time = 5;
    for lasts in [10, 20, 40, 60, 60] {
        table.push((time, TimePasses, HalfOpen));
        table.push((time, TrialBegins, open(60)));
        table.push((time + 1, Failed { sent: time }, open(lasts - 1)));
        time += lasts;
    }
    table.push((time, TrialBegins, open(60)));
    table.push((time, FirstToken { sent: time }, Closed));
    table.push((time, Failed { sent: time }, open(5)));
    run_for(InPlace, 1, &table);
}

#[test]
fn a_trial_that_hangs_keeps_the_next_away_for_a_while() {
    let hangs = |trying, next| {
        let table = [
            (0, Failed { sent: 0 }, open(5)),
            (5, TrialBegins, open(next)),
            (9, NoTrialBegins, open(next - 4)),
            (5 + next, TimePasses, HalfOpen),
            (5 + next, TrialBegins, open(next)),
            // The first of the two fails; then the second.
            (6 + next, Failed { sent: 5 }, open(next - 1)),
            (7 + next, FirstToken { sent: 5 + next }, Closed),
        ];
        run_for(trying, 1, &table);
    };
    hangs(InAddition, 5);
    hangs(InPlace, 60);
}

#[test]
fn a_trial_that_ended_without_a_word_makes_room_for_the_next() {
    run(
        1,
        &[
            (0, Failed { sent: 0 }, open(5)),
            (1, TrialBegins, open(5)),
            (2, NoTrialBegins, open(4)),
            (3, TrialEnds(1), open(2)),
            (5, TrialBegins, open(5)),
            (6, TrialEnds(1), open(4)),
            (7, TrialEnds(5), HalfOpen),
            (8, TrialBegins, open(5)),
        ],
    );
}

#[test]
fn what_was_sent_before_it_opened_tells_nothing_new() {
    run(
        1,
        &[
            (10, Failed { sent: 1 }, open(5)),
            (11, Failed { sent: 2 }, open(4)),
            (12, FirstToken { sent: 9 }, open(3)),
            (13, Failed { sent: 12 }, open(2)),
            (15, TrialBegins, open(5)),
            (16, Failed { sent: 9 }, open(4)),
            (16, FirstToken { sent: 15 }, Closed),
        ],
    );
}

#[test]
fn no_failures_turn_it_off() {
    run(0, &[(0, Failed { sent: 0 }, Closed), (1, Broke { sent: 0 }, Closed)]);
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    assert_eq!(breakers.failed(UP, &settings(1), false, None, now, now), Some(seconds(5)));
    assert_eq!(breakers.failed(UP, &settings(1), false, None, now, now), None, "it is open already");
    assert_eq!(breakers.status(UP, &settings(0), None, InAddition, now), Closed, "for a model that has none");
    let other = BreakerScope { upstream: "b/m", ..UP };
    assert_eq!(breakers.status(other, &settings(1), None, InAddition, now), Closed, "another upstream");
    let embeddings = BreakerScope { surface: Surface::Embeddings, ..UP };
    assert_eq!(breakers.status(embeddings, &settings(1), None, InAddition, now), Closed, "another surface");
    assert_eq!(breakers.open(), BTreeSet::from([UP.upstream.to_owned()]));
    breakers.retain(|asked| asked != UP);
    assert_eq!(breakers.status(UP, &settings(1), None, InAddition, now), Closed);
}

/// Failures in a row, three of which open the breaker: whose request met each failure, and for whom the breaker is open
/// then.
#[test]
fn one_caller_opens_it_for_itself_alone() {
    let (ann, bob) = (Some(1), Some(2));
    let table: &[(&[Option<u64>], [bool; 2])] = &[
        (&[ann, ann], [false, false]),
        (&[ann, ann, ann], [true, false]),
        (&[ann, ann, ann, ann, ann, ann], [true, false]),
        (&[ann, ann, bob], [true, true]),
        (&[ann, ann, ann, bob], [true, true]),
        (&[ann, ann, None], [true, true]),
        (&[ann, ann, ann, None], [true, true]),
        (&[None, None, None], [true, true]),
    ];
    for (callers, expected) in table {
        let (mut breakers, now) = (Breakers::default(), Instant::now());
        for caller in *callers {
            breakers.failed(UP, &settings(3), false, *caller, now, now);
        }
        let open = [ann, bob].map(|caller| breakers.status(UP, &settings(3), caller, InAddition, now) != Closed);
        assert_eq!(open, *expected, "{callers:?}");
        assert_eq!(breakers.open().is_empty(), *expected != [true, true], "{callers:?}");
    }
}

#[test]
fn one_caller_s_trials_keep_it_open_for_nobody() {
    let (mut breakers, zero) = (Breakers::default(), Instant::now());
    let mut now = zero;
    for caller in [1, 2] {
        breakers.failed(UP, &settings(2), false, Some(caller), now, now);
    }
    // Each trial begins as soon as any caller may begin one, and fails. Per trial: its caller, and when each caller may
    // try next.
    for (caller, others) in [(1, open(5)), (1, HalfOpen), (1, HalfOpen), (2, open(5)), (1, open(5)), (1, HalfOpen)] {
        now += seconds(60);
        breakers.begin_trial(UP, &settings(2), now).unwrap();
        breakers.failed(UP, &settings(2), false, Some(caller), now, now);
        let status = |caller| breakers.status(UP, &settings(2), Some(caller), InAddition, now);
        assert_eq!((status(caller), status(3)), (open(5), others));
    }
}

#[test]
fn another_caller_s_answer_closes_what_one_opened_for_itself() {
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    for _ in 0..2 {
        breakers.failed(UP, &settings(2), false, Some(1), now, now);
    }
    assert_eq!(breakers.status(UP, &settings(2), Some(1), InAddition, now), open(5));
    assert!(breakers.first_token(UP, now + seconds(1), now + seconds(1)));
    assert_eq!(breakers.status(UP, &settings(2), Some(1), InAddition, now), Closed);
    assert_eq!(breakers.failed(UP, &settings(2), false, Some(2), now, now), None, "a new run");
}

#[test]
fn one_that_is_back_has_room_for_twice_as_many_each_second() {
    let (mut breakers, settings, zero) = (Breakers::default(), settings(1), Instant::now());
    let at = |time: u64| zero + seconds(time);
    let room = |breakers: &Breakers, time: u64| breakers.room(UP, at(time));
    assert_eq!(room(&breakers, 0), None, "it never failed");
    breakers.failed(UP, &settings, false, None, at(0), at(0));
    assert!(breakers.first_token(UP, at(5), at(7)));
    assert_eq!(
        [6, 7, 8, 12, 16, 17, 90].map(|time| room(&breakers, time)),
        [2, 2, 4, 64, 1024, 0, 0].map(|n| (n > 0).then_some(n))
    );
    assert!(!breakers.first_token(UP, at(8), at(9)));
    breakers.ended_well(UP);
    assert_eq!(room(&breakers, 12), Some(64), "answers change nothing");
    breakers.failed(UP, &settings, false, None, at(12), at(12));
    assert!(breakers.first_token(UP, at(17), at(17)));
    assert_eq!(room(&breakers, 18), Some(4), "it begins anew");
    breakers.first_token(UP, at(30), at(30));
    assert!(breakers.breakers.values().all(HashMap::is_empty), "nothing is kept of it");
}

#[test]
fn one_that_is_back_for_one_caller_has_room_for_all() {
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    breakers.failed(UP, &settings(1), false, Some(1), now, now);
    assert!(breakers.first_token(UP, now, now));
    assert_eq!(breakers.room(UP, now), None);
}

#[test]
fn what_callers_name_is_bounded_and_pushes_out_nothing_else() {
    let (mut breakers, now) = (Breakers::default(), Instant::now());
    breakers.failed(UP, &settings(2), false, None, now, now);
    breakers.failed(named("x/first"), &settings(1), false, None, now, now);
    for upstream in 0..NAMED_MAX + 500 {
        breakers.failed(named(&upstream.to_string()), &settings(2), false, None, now, now);
        assert!(breakers.breakers[&(Surface::Chat, true)].len() <= NAMED_MAX);
    }
    assert_eq!(breakers.status(named("x/first"), &settings(1), None, InAddition, now), open(5), "closed ones go first");
    for upstream in 0..NAMED_MAX + 500 {
        breakers.failed(named(&upstream.to_string()), &settings(1), false, None, now, now + seconds(1));
    }
    assert_eq!(breakers.breakers[&(Surface::Chat, true)].len(), NAMED_MAX);
    assert_eq!(
        breakers.status(named("x/first"), &settings(1), None, InAddition, now),
        Closed,
        "its time would be over first"
    );
    assert!(breakers.failed(UP, &settings(2), false, None, now, now).is_some(), "its first failure is not forgotten");
}
