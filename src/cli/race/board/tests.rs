//! What a board makes of events, and the events that pictures are tested with.

use super::*;
use photofinish_facts::record::{CensorCause, sample};

const RACE: &str = "race-1";

/// An event of the race under test.
pub fn step(ordinal: i64, upstream: &str, step: AttemptStep, dispatch_us: i64, at_us: i64) -> FeedEvent {
    FeedEvent::Step(AttemptStepped {
        race_id: RACE.to_owned(),
        ordinal,
        upstream: upstream.to_owned(),
        reason: if dispatch_us == 0 { StartReason::First } else { StartReason::Hedge },
        dispatch_us,
        at_us,
        step,
        http_status: Some(200),
    })
}

/// The events up to a first token, at these times since the request was read.
pub fn run_to_token(ordinal: i64, upstream: &str, times_us: [i64; 4]) -> Vec<FeedEvent> {
    let steps = [AttemptStep::Dispatched, AttemptStep::Connected, AttemptStep::Headers, AttemptStep::FirstToken];
    steps.into_iter().zip(times_us).map(|(at, at_us)| step(ordinal, upstream, at, times_us[0], at_us)).collect()
}

pub fn won(ordinal: i64) -> FeedEvent {
    FeedEvent::Committed { race_id: RACE.to_owned(), ordinal }
}

/// The row of an attempt that was dispatched at `dispatch_us` and ended `after_us` later.
pub fn ended(ordinal: i64, dispatch_us: i64, after_us: i64, change: impl Fn(&mut AttemptRecord)) -> FeedEvent {
    let mut row = sample::lost(1, after_us);
    (row.race_id, row.ordinal, row.dispatch_us, row.cancel_us) =
        (RACE.to_owned(), ordinal, dispatch_us, Some(after_us));
    change(&mut row);
    FeedEvent::Recorded(Record::Attempt(Box::new(row)))
}

pub fn failed(ordinal: i64, dispatch_us: i64, after_us: i64, failure: &'static str, status: i64) -> FeedEvent {
    ended(ordinal, dispatch_us, after_us, |row| {
        (row.outcome, row.failure, row.http_status) = (AttemptOutcome::Failed, Some(failure), Some(status));
        (row.cancel_us, row.eof_us) = (None, Some(after_us));
    })
}

fn said(board: &mut RaceBoard, events: &[FeedEvent]) -> Vec<String> {
    let said = events.iter().filter_map(|event| board.take(event, 999));
    said.map(|said| format!("{} {} {}", said.at_us, said.upstream, said.what)).collect()
}

#[test]
fn a_race_is_told_event_by_event() {
    let mut board = RaceBoard::new(["a/x", "b/y"].map(str::to_owned));
    let mut events = run_to_token(0, "a/x", [0, 10, 20, 30]);
    events.push(step(1, "b/y", AttemptStep::Dispatched, 15, 15));
    events.extend([ended(1, 15, 16, |_| ()), won(0)]);
    events.push(ended(0, 0, 90, |row| (row.outcome, row.censor_cause) = (AttemptOutcome::Won, None)));
    assert_eq!(
        said(&mut board, &events),
        [
            "0 a/x started",
            "10 a/x connected",
            "20 a/x headers 200",
            "30 a/x first token",
            "15 b/y started: hedge",
            "31 b/y lost: cancelled",
            "30 a/x won",
            "90 a/x done",
        ]
    );
    assert!(board.committed && board.lines.len() == 2);
    assert!(board.lines[0].run.as_ref().is_some_and(|run| run.won));
}

#[test]
fn losers_of_the_race_before_are_not_heard() {
    let mut board = RaceBoard::new(["a/x".to_owned()]);
    let FeedEvent::Step(stepped) = step(1, "a/x", AttemptStep::FirstToken, 0, 500) else { unreachable!() };
    let before = FeedEvent::Step(AttemptStepped { race_id: "race-0".to_owned(), ..stepped });
    let row = ended(1, 0, 500, |row| row.race_id = "race-0".to_owned());
    assert!(said(&mut board, &[before, row]).is_empty());
    let started = said(&mut board, &[step(0, "a/x", AttemptStep::Dispatched, 0, 0)]);
    assert_eq!(started, ["0 a/x started"]);
}

#[test]
fn a_second_start_of_an_upstream_is_a_line_of_its_own() {
    let mut board = RaceBoard::new(["a/x".to_owned()]);
    let events = [
        step(0, "a/x", AttemptStep::Dispatched, 0, 0),
        failed(0, 0, 40, "server_error", 500),
        step(1, "a/x", AttemptStep::Dispatched, 45, 45),
    ];
    assert_eq!(
        said(&mut board, &events),
        ["0 a/x started", "40 a/x failed: server_error (500)", "45 a/x started: hedge"]
    );
    assert_eq!(board.lines.len(), 2);
}

#[test]
fn every_outcome_has_its_words() {
    let words = |change: fn(&mut AttemptRecord)| {
        let mut row = sample::lost(1, 5);
        change(&mut row);
        how(&row).words()
    };
    assert_eq!(words(|row| row.outcome = AttemptOutcome::Drained), "lost: read to its end");
    assert_eq!(words(|row| (row.audited, row.first_token_us) = (true, Some(9))), "lost: ran on to its first token");
    assert_eq!(words(|row| row.audited = true), "lost: cancelled");
    assert_eq!(words(|row| (row.outcome, row.failure) = (AttemptOutcome::Empty, None)), "failed: empty");
    assert_eq!(
        words(|row| (row.outcome, row.failure) = (AttemptOutcome::FailedMid, Some("reset"))),
        "failed: reset after its first token"
    );
    let gone = words(|row| {
        (row.outcome, row.censor_cause) = (AttemptOutcome::ClientGone, Some(CensorCause::ClientGone));
    });
    assert_eq!(gone, "cancelled");
}
