//! The figures of made-up probes, and what is left out of a public report.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::store::Store;
use photofinish_base::clock::SECOND_US;
use photofinish_config as config;
use photofinish_facts::record::sample::{self, STARTED_AT};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, RaceSource, Record, RunKind, RunRecord};

const NOW_US: i64 = STARTED_AT + 60 * SECOND_US;

/// One probe, `ago_us` before now, of `groq/llama-70b`.
fn probe(number: i64, ago_us: i64, change: impl FnOnce(&mut RaceRecord, &mut AttemptRecord)) -> [Record; 2] {
    let at_us = NOW_US - ago_us;
    let mut race = RaceRecord { started_at: at_us, ..sample::race_of(RaceSource::Probe, 0) };
    race.race_id = format!("{}{number:012x}", &sample::race_id((at_us - STARTED_AT) / 1_000)[..24]);
    race.max_tokens = Some(41);
    let mut attempt = AttemptRecord { race_id: race.race_id.clone(), ..sample::won(0) };
    change(&mut race, &mut attempt);
    [Record::Race(Box::new(race)), Record::Attempt(Box::new(attempt))]
}

fn stored(records: Vec<Record>) -> (TempDir, StoreReader) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    store.write(&records).unwrap();
    store.close();
    let reader = StoreReader::open(&path).unwrap();
    (directory, reader)
}

fn asked(reader: &StoreReader, since: &str, public: bool) -> ProbeReport {
    let question = ProbesQuestion { since: moment(since).unwrap(), public };
    let config = "[models.m]\nupstreams = [\"ollama/x\"]\n[probes]\nmax_cost = 1.0\nfrom = \"Frankfurt\"\n";
    let config = config::parse(config, Path::new("test"), &|_| None).unwrap();
    ask(reader, &question, &config, NOW_US).unwrap()
}

#[test]
fn the_three_numbers_with_their_intervals() {
    // TTFT 10, 20, … 240 ms, one every three hours.
    let probes = (1..=24).flat_map(|n| {
        probe(n, (24 - n) * 3 * HOUR_US + SECOND_US, |_, attempt| attempt.first_token_us = Some(n * 10_000))
    });
    let (_directory, reader) = stored(probes.collect());
    let report = asked(&reader, "72h", false);
    let [upstream] = &report.upstreams[..] else { panic!("{report:?}") };
    assert_eq!((upstream.model.as_str(), upstream.workload.as_str()), ("llama-3.3-70b", "1k"));
    assert_eq!((upstream.upstream.as_str(), upstream.answered, upstream.failed), ("groq/llama-70b", 24, 0));
    let ttft = &upstream.ttft_ms;
    assert_eq!((ttft.samples, ttft.p5, ttft.p25, ttft.p50), (24, Some(20.0), Some(60.0), Some(120.0)));
    assert_eq!((ttft.p75, ttft.p95), (Some(180.0), Some(230.0)));
    assert_eq!((ttft.p50_low, ttft.p50_high), (Some(70.0), Some(180.0)), "ranks 7 and 18");
    assert_eq!((ttft.p95_low, ttft.p95_high), (None, None), "24 samples cannot bound it");
    assert_eq!((ttft.steps.len(), ttft.by_hour.len()), (24, 0), "each is a point, and 72 h have no hours of the day");
    assert_eq!(upstream.end_to_end_ms.p50, Some(2_100.0));
    assert_eq!(report.place.as_deref(), Some("Frankfurt"));
}

#[test]
fn a_long_window_has_days_and_hours() {
    let probes = (0..30 * 8).flat_map(|n| probe(n, n * 3 * HOUR_US + SECOND_US, |_, _| ()));
    let (_directory, reader) = stored(probes.collect());
    let report = asked(&reader, "30d", false);
    let ttft = &report.upstreams[0].ttft_ms;
    assert!(ttft.p95_low.is_some() && (30..=31).contains(&ttft.steps.len()), "{ttft:?}");
    assert_eq!(ttft.by_hour.iter().map(|hour| hour.samples).sum::<usize>(), 240);
    assert_eq!(ttft.by_hour.len(), 8);
    assert_eq!(asked(&reader, "13d", false).upstreams[0].ttft_ms.by_hour, []);
}

#[test]
fn failures_short_answers_and_probes_that_were_not_sent_are_told_apart() {
    let ended = |outcome: AttemptOutcome, failure: Option<&'static str>| {
        move |_: &mut RaceRecord, attempt: &mut AttemptRecord| (attempt.outcome, attempt.failure) = (outcome, failure)
    };
    let mut records = Vec::new();
    records.extend(probe(1, HOUR_US, ended(AttemptOutcome::Failed, Some("rate_limited"))));
    records.extend(probe(2, HOUR_US, ended(AttemptOutcome::Empty, None)));
    records.extend(probe(3, HOUR_US, ended(AttemptOutcome::Shutdown, None)));
    records.extend(probe(4, HOUR_US, |race, _| race.max_tokens = Some(51)));
    records.extend(probe(5, HOUR_US, |race, _| race.max_tokens = Some(52)));
    records.extend(probe(6, HOUR_US, |race, attempt| {
        (race.source, attempt.cost_usd_max) = (RaceSource::Bench, Some(9.0))
    }));
    records.extend(probe(7, HOUR_US, |race, attempt| {
        (race.source, attempt.cost_usd_max) = (RaceSource::Client, Some(9.0))
    }));
    records.push(probe(8, HOUR_US, |race, _| race.attempts = 0).into_iter().next().unwrap());
    let (_directory, reader) = stored(records);
    let report = asked(&reader, "72h", false);
    let upstream = &report.upstreams[0];
    assert_eq!((upstream.answered, upstream.failed, upstream.short), (2, 2, 1), "41 of 52 tokens are short");
    assert_eq!(upstream.failures, [("empty".to_owned(), 1), ("rate_limited".to_owned(), 1)].into());
    assert_eq!(report.skipped, [("llama-3.3-70b".to_owned(), 1)].into());
    assert_eq!(upstream.ttft_ms.samples, 2);
    let cost = 5.0 * sample::won(0).cost_usd_max.unwrap();
    assert!((report.cost.cost_usd_max.unwrap() - cost).abs() < 1e-9, "{report:?}");
}

/// Three probes of ten at once, each with its ping; one request of the last one failed.
#[test]
fn pings_are_told_apart_and_ten_at_once_are_one_probe() {
    let mut records = Vec::new();
    for round in 0..3 {
        let ago_us = HOUR_US * (round + 1);
        records.extend(probe(100 * round, ago_us, |race, attempt| {
            (race.workload, attempt.first_token_us) = (Some("ping".to_owned()), Some(900_000));
            if round == 0 {
                (attempt.outcome, attempt.failure) = (AttemptOutcome::Empty, None);
            }
        }));
        for lane in 1..=10 {
            records.extend(probe(100 * round + lane, ago_us - SECOND_US / 2 - lane, |race, attempt| {
                (race.workload, attempt.first_token_us) =
                    (Some("parallel".to_owned()), Some(round * 1_000 + lane * 10_000));
                if round == 2 && lane == 5 {
                    (attempt.outcome, attempt.failure) = (AttemptOutcome::Failed, Some("rate_limited"));
                }
            }));
        }
    }
    let (_directory, reader) = stored(records);
    let report = asked(&reader, "72h", false);
    let [upstream] = &report.upstreams[..] else { panic!("{report:?}") };
    assert_eq!((upstream.workload.as_str(), upstream.answered, upstream.failed), ("parallel", 2, 1));
    assert_eq!(upstream.failures, [("rate_limited".to_owned(), 1)].into());
    let ttft = &upstream.ttft_ms;
    assert_eq!((ttft.samples, ttft.p5, ttft.p95), (2, Some(50.0), Some(51.0)), "the medians of two probes");
    let [pings] = &report.pings[..] else { panic!("{report:?}") };
    assert_eq!((pings.upstream.as_str(), pings.samples, pings.ttft_p50_ms), ("groq/llama-70b", 2, Some(900.0)));
    assert_eq!(pings.failed, 0, "an empty ping has opened the connection");
}

fn bench_run(number: i64, started_at: i64, target: &str) -> Record {
    let stage = |users: u64, doubts: serde_json::Value| {
        serde_json::json!({
            "target": target, "users": users, "ttft_ms": {"n": 30, "p50": {"value": 120.5, "low": 110.0, "high": 140.0}, "p99": {"value": 180.0}}, "tok_s": {"p50": {"value": 50.0}},
            "tok_s_all": 400.0, "e2e_ms": {"p50": {"value": 900.0}}, "goodput": 3.5,
            "attainment": {"value": 0.97}, "doubts": doubts,
        })
    };
    let result = serde_json::json!({
        "workload": {"name": "chat"},
        "stages": [stage(1, serde_json::json!([])), stage(10, serde_json::json!(["the client woke late"]))],
        "found": [{"target": target, "attain": 0.9, "passes": 11.4, "fails": 12.6, "first_missed": "ttft"}],
    });
    Record::Run(Box::new(RunRecord {
        run_id: sample::race_id(number),
        kind: RunKind::Bench,
        started_at,
        target: target.to_owned(),
        machine: Some("host-of-mine".to_owned()),
        trust: Some("the client woke late on gpu7.corp".to_owned()),
        result: Some(result.to_string()),
        ..sample::run(number)
    }))
}

#[test]
fn of_each_target_the_last_run_is_told() {
    let old = bench_run(0, NOW_US - 100 * HOUR_US, "groq/llama-70b");
    let runs = [bench_run(1, NOW_US - 9 * HOUR_US, "groq/llama-70b"), bench_run(2, NOW_US - HOUR_US, "groq/llama-70b")];
    let (_directory, reader) = stored([vec![old], runs.to_vec(), vec![bench_run(3, NOW_US, "other/m")]].concat());
    let loads = asked(&reader, "72h", false).loads;
    assert_eq!(loads.iter().map(|load| load.run_id.clone()).collect::<Vec<_>>(), [3, 2].map(sample::race_id));
    let LoadLevel { users, ttft_p50_ms, tok_s_all, trusted, .. } = loads[0].levels[1].clone();
    let level = &loads[0].levels[1];
    assert_eq!((level.answered, level.ttft_p50_low_ms, level.ttft_p50_high_ms), (Some(30), Some(110.0), Some(140.0)));
    let insufficient = level.ttft_p99_insufficient.map(|why| why.to_string());
    assert_eq!((level.ttft_p99_ms, insufficient.as_deref()), (None, Some("insufficient: 30 of 662")));
    assert_eq!((users, ttft_p50_ms, tok_s_all, trusted), (Some(10), Some(120.5), Some(400.0), false));
    let FoundGoodput { passes_per_s, first_missed, .. } = loads[0].found[0].clone();
    assert_eq!((passes_per_s, first_missed.as_deref()), (Some(11.4), Some("ttft")));
}

#[test]
fn a_public_report_names_no_host_no_user_and_no_label() {
    let mut records = vec![bench_run(1, NOW_US, "gpu7.corp/secret-model")];
    records.extend(probe(1, HOUR_US, |race, attempt| {
        race.user = Some("planted-user".to_owned());
        attempt.provider = "gpu7.corp".to_owned();
    }));
    let (_directory, reader) = stored(records);
    let all = serde_json::to_string(&asked(&reader, "72h", false)).unwrap();
    assert!(all.contains("gpu7.corp") && all.contains("nightly") && !all.contains("planted-user"), "{all}");
    let public = serde_json::to_string(&asked(&reader, "72h", true)).unwrap();
    for hidden in ["gpu7", "corp", "nightly", "planted", "host-of-mine"] {
        assert!(!public.contains(hidden), "{hidden}: {public}");
    }
    assert!(public.contains("server-1/model-") && !public.contains("secret"), "{public}");
}
