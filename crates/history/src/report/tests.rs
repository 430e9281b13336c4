//! Questions over real files: what the figures must not be misled by.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::question::from_pairs;
use super::stats::{Stats, ask};
use super::{costs, distribution, usage};
use crate::store::{Roller, RollupStep, Store, StoreReader};
use photofinish_config::Config;
use photofinish_facts::estimate::survival::Estimate;
use photofinish_facts::record::sample::{self, STARTED_AT};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, RaceSource, Record, StartReason};

const HOUR_US: i64 = 3_600_000_000;
/// In ms, as [`sample::race_id`] counts.
const MINUTE: i64 = 60_000;
/// 2026-01-02T03:00:00Z
const THREE: i64 = STARTED_AT.div_euclid(HOUR_US) * HOUR_US;

fn no_providers() -> Config {
    photofinish_config::parse("", "config.toml".as_ref(), &|_| None).unwrap()
}

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    store.write(&batch).unwrap();
    store.close();
    (directory, path)
}

fn asked(path: &Path, pairs: &[(&str, &str)], now_us: i64) -> Stats {
    let pairs: Vec<(String, String)> = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    ask(&StoreReader::open(path).unwrap(), &from_pairs(&pairs).unwrap(), now_us).unwrap()
}

fn race(n: i64, model: &str) -> Record {
    let mut race = sample::race(n);
    race.model = model.into();
    Record::Race(Box::new(race))
}

/// Of the first attempt of race `n`, at this upstream.
fn won(n: i64, provider: &str, ttft_us: i64) -> Record {
    let times = Some(ttft_us);
    Record::Attempt(Box::new(AttemptRecord {
        provider: provider.into(),
        first_token_us: times,
        ttft_obs_us: times,
        first_answer_us: times,
        ..sample::won(n)
    }))
}

fn lost(n: i64, provider: &str, after_us: i64) -> Record {
    Record::Attempt(Box::new(AttemptRecord { provider: provider.into(), ..sample::lost(n, after_us) }))
}

/// A minute's race, for two hours from 03:04:05 on.
async fn two_hours() -> (TempDir, PathBuf) {
    store_with((0..120).flat_map(|n| [race(n * MINUTE, "m"), won(n * MINUTE, "groq", 100_000)]).collect()).await
}

#[tokio::test]
async fn a_race_that_runs_does_not_make_its_losers_slow() {
    // Of thirty races all is there; of seventy only the loser.
    let ended = (0..30).flat_map(|n| [race(n, "m"), won(n, "a", 200_000), lost(n, "b", 200_000)]);
    let running = (30..100).map(|n| lost(n, "a", 300_000));
    let (_directory, path) = store_with(ended.chain(running).collect()).await;
    let soon = asked(&path, &[], STARTED_AT + HOUR_US / 2);
    assert_eq!((soon.attempts, soon.running), (60, 70));
    assert_eq!(soon.groups[0].ttft.at[0], Some(Estimate::Reached(200_000)));
    // After an hour the races are lost, and what is left of them counts.
    let late = asked(&path, &[], STARTED_AT + 2 * HOUR_US);
    assert_eq!((late.attempts, late.running), (130, 0));
}

#[tokio::test]
async fn rates_are_over_the_whole_hours_where_rows_are_gone() {
    let (_directory, path) = two_hours().await;
    let now_us = STARTED_AT + 48 * HOUR_US;
    let mut roller = Roller::new(&path, || false);
    while roller.step(now_us, Some(THREE + 2 * HOUR_US)).unwrap() != RollupStep::Nothing {}
    let window = |since: &str, until: &str| {
        let day = "2026-01-02T";
        asked(
            &path,
            &[("since", &format!("{day}{since}Z")), ("until", &format!("{day}{until}Z")), ("slo", "ttft=2s")],
            now_us,
        )
    };
    let whole = window("04:00:00", "05:00:00");
    assert_eq!((whole.attempts, whole.groups[0].goodput, whole.whole_hours), (60, Some(60.0 / 3_600.0), None));
    let cut = window("03:59:00", "04:01:00");
    assert_eq!((cut.attempts, cut.groups[0].goodput), (60, whole.groups[0].goodput));
    assert_eq!(cut.whole_hours, Some((THREE + HOUR_US, THREE + 2 * HOUR_US)));
    assert_eq!(cut.groups[0].aggregate_tok_s, whole.groups[0].aggregate_tok_s);
    let until = asked(&path, &[("until", "2026-01-02T03:30:00Z"), ("slo", "ttft=2s")], now_us);
    assert_eq!((until.attempts, until.whole_hours), (56, Some((THREE, THREE + HOUR_US))));
    assert_eq!(until.groups[0].goodput, Some(56.0 / 3_600.0));
    let within = window("04:10:00", "04:20:00");
    assert_eq!((within.attempts, within.whole_hours), (0, Some((THREE + HOUR_US, THREE + 2 * HOUR_US))));
}

#[tokio::test]
async fn an_audit_of_a_second_round_counts_from_its_own_loss() {
    // The first winner dies at 100 ms; the race is opened again at 150, and the audited loser of then lost at 250.
    let n = 0;
    let mut dead = sample::won(n);
    (dead.provider, dead.outcome) = ("dead".into(), AttemptOutcome::FailedMid);
    let second = AttemptRecord { ordinal: 1, dispatch_us: 150_000, provider: "second".into(), ..sample::won(n) };
    let mut audited = AttemptRecord { ordinal: 2, dispatch_us: 150_000, provider: "audited".into(), ..sample::won(n) };
    (audited.outcome, audited.audited, audited.p_audit) = (AttemptOutcome::Lost, true, Some(0.25));
    audited.first_token_us = Some(300_000);
    audited.ttft_obs_us = Some(300_000);
    let cut =
        |n: i64| Record::Attempt(Box::new(AttemptRecord { provider: "audited".into(), ..sample::lost(n, 90_000) }));
    let attempts = [dead, second, audited].map(|record| Record::Attempt(Box::new(record)));
    let others = (1..4).flat_map(|n| [race(n, "m"), cut(n), won(n, "audited", 50_000)]);
    let (_directory, path) = store_with([race(n, "m")].into_iter().chain(attempts).chain(others).collect()).await;
    let stats = asked(&path, &[("provider", "audited")], STARTED_AT + 2 * HOUR_US);
    // Three of seven end at 50 ms; three leave at 90; what is left is the audited one, from 100 ms on for four.
    let ttft = |share: f64| stats.groups[0].ttft.at[[0.50, 0.95, 0.99].iter().position(|at| *at == share).unwrap()];
    assert_eq!(ttft(0.50), Some(Estimate::Reached(300_000)));
    assert!((stats.groups[0].ttft.effective - 49.0 / 19.0).abs() < 1e-9, "{}", stats.groups[0].ttft.effective);
}

/// Each in the race of its name, with a winner for 1 USD: what became of a loser for 0.25 USD.
#[tokio::test]
async fn what_losers_were_for_stays_known_when_hours_are_rolled_up() {
    let dollars = |usd, attempt| AttemptRecord { cost_usd_min: Some(usd), cost_usd_max: Some(usd), ..attempt };
    let losers = [
        ("cut", None, sample::lost(0, 90_000)),
        ("late", None, AttemptRecord { start_reason: StartReason::Hedge, ..sample::lost(0, 90_000) }),
        ("late", None, AttemptRecord { start_reason: StartReason::Fallback, ..sample::lost(0, 90_000) }),
        ("looks", Some("cerebras/llama-70b"), AttemptRecord { audited: true, ..sample::lost(0, 90_000) }),
        ("audits", Some("groq/llama-70b"), AttemptRecord { audited: true, ..sample::lost(0, 90_000) }),
        ("drains", None, AttemptRecord { outcome: AttemptOutcome::Drained, ..sample::lost(0, 90_000) }),
    ];
    let mut rows = Vec::new();
    for (n, (kind, look, loser)) in losers.into_iter().enumerate() {
        let race_id = sample::race_id(n as i64);
        let race = RaceRecord {
            model: kind.into(),
            look: look.map(str::to_owned),
            rescued_by: None,
            ..sample::race(n as i64)
        };
        let loser = AttemptRecord { race_id, ..loser };
        let attempts = [dollars(1.0, sample::won(n as i64)), dollars(0.25, loser)];
        rows.push(Record::Race(Box::new(race)));
        rows.extend(attempts.map(|attempt| Record::Attempt(Box::new(attempt))));
    }
    let mut probe = dollars(8.0, sample::won(100));
    probe.race_id = sample::race_id(100);
    rows.extend([Record::Race(Box::new(sample::race_of(RaceSource::Probe, 100))), Record::Attempt(Box::new(probe))]);
    let (_directory, path) = store_with(rows).await;
    let now_us = STARTED_AT + 30 * HOUR_US;
    let spent = |by: &str| {
        let question = from_pairs(&[("by".to_owned(), by.to_owned())]).unwrap();
        costs::ask(&StoreReader::open(&path).unwrap().with_exact_max(0), &question, now_us)
            .unwrap()
            .json(&no_providers())
    };
    let check = || {
        for group in spent("model")["groups"].as_array().unwrap() {
            let kind = group["model"].as_str().unwrap();
            let more = if kind == "late" { 2.0 } else { 1.0 };
            for part in ["answers", "racing", "cut", "late", "looks", "audits", "drains", "failed", "shadows"] {
                let expected = match part {
                    "answers" => 1.0,
                    "racing" => 0.25,
                    part if part == kind => 0.25,
                    _ => 0.0,
                };
                let bounds = [&group[part]["cost_usd_min"], &group[part]["cost_usd_max"]];
                assert_eq!(bounds, [&Value::from(expected * more); 2], "{kind}: {part}");
            }
        }
        let sources = spent("source");
        assert_eq!(sources["groups"][0]["source"], "client");
        assert_eq!(sources["groups"][0]["all"]["cost_usd_min"], 7.5);
        assert_eq!(
            (&sources["groups"][1]["source"], &sources["groups"][1]["all"]["cost_usd_min"]),
            (&"probe".into(), &8.0.into())
        );
    };
    check();
    let mut roller = Roller::new(&path, || false);
    while roller.step(now_us, None).unwrap() != RollupStep::Nothing {}
    check();
}

/// Above `exact_max` attempts it is read from roll-ups.
fn usage_by(path: &Path, pairs: &[(&str, &str)], exact_max: u64, now_us: i64) -> usage::UsageAnswer {
    let pairs: Vec<(String, String)> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let reader = StoreReader::open(path).unwrap().with_exact_max(exact_max);
    usage::ask(&reader, &from_pairs(&pairs).unwrap(), now_us).unwrap()
}

fn roll_up(path: &Path, now_us: i64) {
    let mut roller = Roller::new(path, || false);
    while roller.step(now_us, None).unwrap() != RollupStep::Nothing {}
}

#[tokio::test]
async fn usage_is_the_same_from_rows_and_from_roll_ups() {
    // Winners and losers of three models; every fifth race is one whose winner broke off.
    let of = |n: i64| {
        let broke = AttemptRecord { outcome: AttemptOutcome::FailedMid, ..sample::won(n) };
        let winner = if n % 5 == 0 { Record::Attempt(Box::new(broke)) } else { won(n * MINUTE, "groq", 100_000) };
        let model = ["a", "b", "c"][(n % 3) as usize];
        let winner = match winner {
            Record::Attempt(attempt) => {
                Record::Attempt(Box::new(AttemptRecord { race_id: sample::race_id(n * MINUTE), ..*attempt }))
            }
            other => other,
        };
        [race(n * MINUTE, model), winner, lost(n * MINUTE, "cerebras", 200_000)]
    };
    let (_directory, path) = store_with((0..120).flat_map(of).collect()).await;
    let now_us = THREE + 30 * HOUR_US;
    let usage = |by: &str, exact_max: u64| usage_by(&path, &[("by", by)], exact_max, now_us);
    roll_up(&path, now_us);
    for by in ["user", "model", "user,model"] {
        let (rows, rolled) = (usage(by, u64::MAX), usage(by, 0));
        assert!(rows.coverage.rolled_until.is_none() && rolled.coverage.rolled_until.is_some(), "{by}");
        assert_eq!((&rows.groups, rows.total), (&rolled.groups, rolled.total), "{by}");
        assert_eq!((rows.total.answers, rows.total.attempts), (96, 240));
    }
}

/// Minutes of each race after now; how many attempts are in the figures, and until when a clock was ahead.
#[tokio::test]
async fn what_is_dated_after_now_is_in_no_figure_and_is_said() {
    let ahead = |minutes: i64| Some(STARTED_AT + minutes * 60_000_000);
    for (dates, counted, ahead_until) in [
        (&[-10, 0, 4][..], 3, None),
        (&[-10, 6], 1, ahead(6)),
        (&[-10, -5, 7, 60 * 24 * 400], 2, ahead(60 * 24 * 400)),
        (&[90], 0, ahead(90)),
    ] {
        let rows = dates.iter().flat_map(|at| {
            let attempt = Record::Attempt(Box::new(sample::won(at * MINUTE)));
            [race(at * MINUTE, "m"), attempt]
        });
        let (_directory, path) = store_with(rows.collect()).await;
        for pairs in [&[][..], &[("since", "1h")]] {
            let found = asked(&path, pairs, STARTED_AT);
            assert_eq!((found.attempts, found.coverage.ahead_until), (counted, ahead_until), "{dates:?}");
        }
        let used = usage_by(&path, &[("by", "user")], u64::MAX, STARTED_AT);
        assert_eq!((used.total.attempts, used.coverage.ahead_until), (counted, ahead_until), "{dates:?}");
        // When their date has come they are as others.
        let later = asked(&path, &[], STARTED_AT + 60 * 24 * 401 * 60_000_000);
        assert_eq!((later.attempts, later.coverage.ahead_until), (dates.len() as u64, None));
    }
}

#[tokio::test]
async fn charge_back_is_the_same_from_rows_and_from_roll_ups() {
    let of = |n: i64| {
        let tags = [None, Some("project=a"), Some("job=x project=a"), Some("project=b")][(n % 4) as usize];
        let charged = RaceRecord {
            team: Some(["search", "ads"][(n % 2) as usize].to_owned()),
            caller_key: (n % 3 > 0).then(|| format!("key{}", n % 3)),
            tags: tags.map(str::to_owned),
            ..sample::race(n * MINUTE)
        };
        let attempt = AttemptRecord { race_id: charged.race_id.clone(), ..sample::won(n * MINUTE) };
        [Record::Race(Box::new(charged)), Record::Attempt(Box::new(attempt))]
    };
    let (_directory, path) = store_with((0..120).flat_map(of).collect()).await;
    let now_us = THREE + 30 * HOUR_US;
    let usage = |by: &str, exact_max: u64| usage_by(&path, &[("by", by)], exact_max, now_us);
    roll_up(&path, now_us);
    for by in ["team", "key", "tag", "day", "day,team,key,tag,user,model"] {
        let (rows, rolled) = (usage(by, u64::MAX), usage(by, 0));
        assert!(rows.coverage.rolled_until.is_none() && rolled.coverage.rolled_until.is_some(), "{by}");
        assert_eq!((&rows.groups, rows.total), (&rolled.groups, rolled.total), "{by}");
        assert_eq!(rows.total.attempts, 120, "{by}");
    }
    let of_team = |exact_max: u64| usage_by(&path, &[("by", "user"), ("team", "ads")], exact_max, now_us).total;
    assert_eq!((of_team(u64::MAX), of_team(0).attempts), (of_team(0), 60));
    let tags = usage("tag", 0).groups;
    let of = |tag: Option<&str>| tags.iter().find(|(keys, _)| keys[0].as_deref() == tag).unwrap().1.attempts;
    assert_eq!([of(None), of(Some("project=a")), of(Some("job=x")), of(Some("project=b"))], [30, 60, 30, 30]);
}

#[tokio::test]
async fn curves_and_costs_agree_with_the_figures_from_rows_and_from_roll_ups() {
    let (_directory, path) = two_hours().await;
    let now_us = THREE + 30 * HOUR_US;
    let pairs = [("exact".to_owned(), "true".to_owned())];
    let reader = || StoreReader::open(&path).unwrap().with_exact_max(0);
    let curves = |rows: &[(String, String)]| distribution::ask(&reader(), &from_pairs(rows).unwrap(), now_us).unwrap();
    let spent = |rows: &[(String, String)]| costs::ask(&reader(), &from_pairs(rows).unwrap(), now_us).unwrap();
    let (exact, exact_costs) = (curves(&pairs), spent(&pairs));
    assert_eq!((exact.curves.len(), exact.curves[0].seen, exact.coverage.rolled_until), (1, 120, None));
    assert_eq!(exact.curves[0].points.last().map(|point| (point.time_us, point.waiting)), Some((100_000, 0.0)));
    let mut roller = Roller::new(&path, || false);
    while roller.step(now_us, None).unwrap() != RollupStep::Nothing {}
    let (rolled, rolled_costs) = (curves(&[]), spent(&[]));
    assert!(rolled.coverage.rolled_until.is_some() && rolled_costs.coverage.rolled_until.is_some());
    assert_eq!((rolled.curves.len(), rolled.curves[0].seen), (1, 120));
    let last = rolled.curves[0].points.last().unwrap();
    assert!((last.time_us - 100_000).abs() < 1_700 && last.waiting == 0.0, "{last:?}");
    assert_eq!((exact_costs.total.attempts, exact_costs.total.all), (120, rolled_costs.total.all));
    assert_eq!(exact_costs.total.answers(), rolled_costs.total.answers());
    assert_eq!(exact_costs.total.racing, rolled_costs.total.racing);
}
