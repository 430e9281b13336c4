//! The words, and what a watch reads from a real file.

use std::collections::BTreeSet;

use super::*;
use crate::store::{Roller, RollupStep, Store};
use photofinish_facts::estimate::incident::IncidentStep;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, Record, sample};

const MINUTE: i64 = 60 * SECOND_US;

#[test]
fn what_clients_felt_in_words() {
    let full = IncidentRecord { traffic: None, ..sample::incident(0) };
    for (broke, saved, expected) in [
        (0, 0, " UTC"),
        (0, 1, "; another upstream answered the 1 request"),
        (0, 97, "; another upstream answered the 97 requests"),
        (8, 0, "; 8 requests broke"),
        (8, 97, "; 8 requests broke, 97 were saved"),
    ] {
        let shown = words(&IncidentRecord { broke, saved, ..full.clone() }, full.updated_at);
        assert!(shown.ends_with(expected), "{shown}");
    }
}

#[test]
fn what_happened_in_words() {
    let full = IncidentRecord { broke: 0, saved: 0, traffic: None, callers: 0, ..sample::incident(0) };
    let now_us = full.updated_at + MINUTE;
    let failing =
        IncidentRecord { kind: IncidentKind::Failures, factor: None, failures: 945, refusals: 0, ..full.clone() };
    let open = IncidentRecord { state: IncidentState::Open, ended_at: None, ..full.clone() };
    for (incident, now_us, expected) in [
        (full.clone(), now_us, "first tokens took 2.2 times as long from 2026-01-02 03:04 to 04:19 UTC"),
        (
            IncidentRecord { factor: Some(1.3), at_least: true, ..full.clone() },
            now_us,
            "first tokens took at least 1.3 times as long from 2026-01-02 03:04 to 04:19 UTC",
        ),
        (
            IncidentRecord { kind: IncidentKind::TokS, factor: Some(3.04), ..full.clone() },
            now_us,
            "tokens after the first took 3.0 times as long from 2026-01-02 03:04 to 04:19 UTC",
        ),
        (open.clone(), now_us, "first tokens took 2.2 times as long since 2026-01-02 03:04 UTC"),
        (
            IncidentRecord { kind: IncidentKind::WeekSlower, factor: Some(1.347), ..open.clone() },
            now_us,
            "first tokens took 1.35 times as long as in the week before, since 2026-01-02 03:04 UTC",
        ),
        (
            IncidentRecord { kind: IncidentKind::WeekTokS, factor: Some(1.5), ..full.clone() },
            now_us,
            "tokens after the first took 1.50 times as long as in the week before, from 2026-01-02 03:04 to 04:19 UTC",
        ),
        (
            open.clone(),
            open.updated_at + 16 * MINUTE,
            "first tokens took 2.2 times as long from 2026-01-02 03:04 UTC; not watched since 2026-01-02 04:34 UTC: end unknown",
        ),
        (
            IncidentRecord { state: IncidentState::EndUnknown, ended_at: None, ..full.clone() },
            now_us,
            "first tokens took 2.2 times as long from 2026-01-02 03:04 UTC; not asked since 2026-01-02 04:34 UTC: end unknown",
        ),
        (
            failing.clone(),
            now_us,
            "945 of 1500 attempts failed (63 %; usually 0.5 %) from 2026-01-02 03:04 to 04:19 UTC",
        ),
        (
            IncidentRecord { refusals: 3, breaker: true, ..failing.clone() },
            now_us,
            "945 of 1500 attempts failed, and its breaker was open, (63 %, 3 by a content policy; usually 0.5 %) from 2026-01-02 03:04 to \
             04:19 UTC",
        ),
        (
            IncidentRecord { failures: 0, breaker: true, ..failing },
            now_us,
            "its breaker was open from 2026-01-02 03:04 to 04:19 UTC",
        ),
        (
            sample::bare_incident(0),
            now_us,
            "3 upstreams at once: 900 of 1500 attempts failed (60 %, 1 by a content policy) since 2026-01-02 03:04 UTC",
        ),
    ] {
        assert_eq!(words(&incident, now_us), expected);
    }
    let object = object(&full, now_us);
    assert_eq!((&object["began"], &object["ended"]), (&json!("2026-01-02T03:04:05Z"), &json!("2026-01-02T04:19:05Z")));
    assert_eq!(object["words"], words(&full, now_us));
}

#[test]
fn to_whom_it_happened_in_words() {
    let lost = |lost| {
        let slow = IncidentRecord { broke: 0, saved: 0, attempts: 72, lost, ..sample::incident(0) };
        words(&IncidentRecord { traffic: Some("gamma/m".into()), ..slow }, 0)
    };
    assert!(lost(71).ends_with(" UTC; 71 of 72 attempts lost, most of them to gamma/m"), "{}", lost(71));
    assert!(lost(35).ends_with(" UTC"), "{}", lost(35));
    let failing = |callers| {
        let kind = IncidentKind::Failures;
        words(&IncidentRecord { kind, factor: None, failures: 945, refusals: 0, callers, ..sample::incident(0) }, 0)
    };
    assert!(failing(0).starts_with("945 of 1500 attempts failed (63 %; usually 0.5 %)"), "{}", failing(0));
    assert!(failing(1).contains("(63 %, of one caller; usually 0.5 %)"), "{}", failing(1));
    assert!(failing(3).contains("(63 %, of 3 callers; usually 0.5 %)"), "{}", failing(3));
}

/// How the identifier of a race begins.
fn uuid_at(at_us: i64) -> String {
    let ms = at_us / 1_000;
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

/// A race of one attempt at `a/m`, at this time; its first token takes 100 to 300 ms.
fn asked(n: i64, at_us: i64, fails: bool) -> [Record; 2] {
    let race_id = format!("{}-7000-8000-{n:012x}", uuid_at(at_us));
    let ttft_us = 100_000 + n * 7_919 % 200_000;
    let upstream = ("a".to_owned(), "m".to_owned());
    let attempt = AttemptRecord {
        first_token_us: (!fails).then_some(ttft_us),
        ttft_obs_us: (!fails).then_some(ttft_us),
        ttft_event: (!fails).then_some(1),
        outcome: if fails { AttemptOutcome::Failed } else { AttemptOutcome::Won },
        ..AttemptRecord::new(race_id.clone(), 0, upstream, photofinish_facts::record::StartReason::First)
    };
    let race = RaceRecord { race_id, started_at: at_us, attempts: 1, winner: (!fails).then_some(0), ..sample::race(0) };
    [Record::Race(Box::new(race)), Record::Attempt(Box::new(attempt))]
}

#[test]
fn a_watch_begins_with_what_the_history_knows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let now_us = (sample::STARTED_AT / HOUR_US + 30) * HOUR_US + 30 * MINUTE;
    // Thirty hours with one request a minute, of which the last ten fail.
    let rows = (1..30 * 60).flat_map(|n| asked(n, now_us - n * MINUTE, n <= 10));
    store.write(&rows.collect::<Vec<_>>()).unwrap();
    let open = IncidentRecord { state: IncidentState::Open, ended_at: None, ..sample::incident(0) };
    store.write(&[Record::Incident(Box::new(open.clone()))]).unwrap();
    let reader = StoreReader::open(&path).unwrap();

    let usual = usual(&reader, now_us).unwrap();
    assert_eq!(usual.keys().collect::<Vec<_>>(), ["a/m"]);
    let of = &usual["a/m"];
    let times = of.times(photofinish_facts::estimate::class::Input::of(1_000)).unwrap();
    assert!((times.unit_us / 200e3 - 1.0).abs() < 0.05 && of.failed == 0.0, "{}", times.unit_us);
    let spread = of.ttft_spread.expect("it has thirty hours");
    assert!((0.02..0.4).contains(&spread), "{spread}");

    let mut watch = IncidentWatch::default();
    watch.compare_with(usual);
    resume(&reader, &mut watch, now_us).unwrap();
    watch.advance(now_us + 15 * SECOND_US);
    let changes = watch.check(&BTreeSet::new());
    let shown: Vec<_> =
        changes.iter().map(|change| (change.step, name(&change.incident), change.incident.kind)).collect();
    // The failures of before the restart are found at once, and what was open long ago has no end.
    assert_eq!(
        shown,
        [
            (IncidentStep::Begun, "a/m", IncidentKind::Failures),
            (IncidentStep::Ended, "groq/llama-70b", IncidentKind::Slower)
        ]
    );
    assert_eq!(changes[0].incident.began_at.div_euclid(MINUTE), now_us.div_euclid(MINUTE) - 10);

    let asked = ask(&reader, &IncidentsQuestion::default(), now_us).unwrap();
    assert_eq!(asked.incidents, [open]);
    assert_eq!(asked.not_watched, [], "50 first tokens in the last hour");
    let later = ask(&reader, &IncidentsQuestion::default(), now_us + 50 * MINUTE).unwrap();
    assert_eq!(later.not_watched, [("a/m".to_owned(), 0)]);
}

/// The days before are rolled up, and take three quarters of the time of the last one.
#[test]
fn rolled_up_days_are_compared_as_rows_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let now_us = (sample::STARTED_AT / HOUR_US + 8 * 24) * HOUR_US;
    // Hours with 24 requests each, six hours a day.
    let hours = (0..8 * 24).filter(|hour| hour % 4 == 0);
    let rows = hours.flat_map(|hour| {
        (0..24).flat_map(move |n| asked(hour * 24 + n, now_us - hour * HOUR_US - (n + 1) * 2 * MINUTE, false))
    });
    let is_new = |record: &AttemptRecord, from_us: i64| record.race_id >= uuid_at(from_us);
    let rows = rows.map(|mut record| {
        if let Record::Attempt(attempt) = &mut record
            && is_new(attempt, now_us - DAY_US)
        {
            let slow = |us: Option<i64>| us.map(|us| us * 4 / 3);
            (attempt.first_token_us, attempt.ttft_obs_us) = (slow(attempt.first_token_us), slow(attempt.ttft_obs_us));
        }
        record
    });
    store.write(&rows.collect::<Vec<_>>()).unwrap();
    store.close();
    let compared = || {
        let usual = usual(&StoreReader::open(&path).unwrap(), now_us).unwrap();
        let day = usual["a/m"].ttft_day.clone().expect("it has eight days");
        (day.is_slower(), day.factor, day.attempts)
    };
    let of_rows = compared();
    assert!(of_rows.0 && (of_rows.1 / (4.0 / 3.0) - 1.0).abs() < 0.05 && of_rows.2 == 6 * 24, "{of_rows:?}");
    let mut roller = Roller::new(&path, || false);
    while roller.step(now_us, Some(now_us - 20 * HOUR_US)).unwrap() != RollupStep::Nothing {}
    let of_cells = compared();
    assert!(of_cells.0 && (of_cells.1 / of_rows.1 - 1.0).abs() < 0.02 && of_cells.2 == of_rows.2, "{of_cells:?}");
}

#[test]
fn an_empty_history_has_neither() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    drop(Store::open(&path).unwrap());
    let reader = StoreReader::open(&path).unwrap();
    assert!(usual(&reader, sample::STARTED_AT).unwrap().is_empty());
    let mut watch = IncidentWatch::default();
    resume(&reader, &mut watch, sample::STARTED_AT).unwrap();
    assert_eq!(watch.check(&BTreeSet::new()), []);
    let answer = ask(&reader, &IncidentsQuestion::default(), sample::STARTED_AT).unwrap();
    assert_eq!(answer.json(), json!({ "incidents": [], "not_watched": [] }));
}
