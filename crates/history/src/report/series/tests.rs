//! Series over real files, compared with `stats` for the same stretches.

use std::path::PathBuf;

use clap::{Args, Parser as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CHOSEN_STEPS, *};
use crate::report::dimension::GroupValue;
use crate::report::figures::GroupFigures;
use crate::report::question::time;
use crate::report::stats;
use crate::store::{Roller, RollupStep, SourceFilter, Store};
use photofinish_base::clock::SECOND_US;
use photofinish_facts::estimate::survival::Estimate;
use photofinish_facts::record::sample::{self, STARTED_AT};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceOutcome, Record};

#[derive(clap::Parser)]
struct Line<Q: Args> {
    #[command(flatten)]
    question: Q,
}

fn question<Q: Args>(line: &str) -> Q {
    Line::try_parse_from(["history"].into_iter().chain(line.split_whitespace())).unwrap().question
}

/// Of the day after all races of these tests.
const NOW: i64 = STARTED_AT + 2 * DAY_US;
/// 2026-01-02T03:00:00Z
const THREE: i64 = STARTED_AT.div_euclid(HOUR_US) * HOUR_US;
const MINUTE_MS: i64 = 60_000;

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    for batch in batch.chunks(900) {
        store.write(batch).unwrap();
    }
    (directory, path, store)
}

fn answered(path: &std::path::Path, line: &str) -> SeriesReport {
    ask(&StoreReader::open(path).unwrap(), &question(line), NOW).unwrap()
}

fn attempt(record: AttemptRecord) -> Record {
    Record::Attempt(Box::new(record))
}

/// A race each minute for two hours and a half, but none from 04:00 to 04:30: times, speeds, loads, costs and ends of all
/// kinds, drawn with a seed.
fn races() -> Vec<Record> {
    let mut draws = fastrand::Rng::with_seed(6);
    let mut records = Vec::new();
    for n in (0..150).map(|minute| minute * MINUTE_MS).filter(|n| !(56..86).contains(&(n / MINUTE_MS))) {
        let first_us = draws.i64(50_000..150_000);
        let (mut race, mut won) = (sample::race(n), sample::won(n));
        let model = *draws.choice(["small", "large"].iter()).unwrap();
        (race.model, race.user) = (model.into(), draws.bool().then(|| "alice".into()));
        race.stream = draws.f64() < 0.8;
        race.first_token_sent_us = Some(first_us + draws.i64(0..1_800_000));
        (won.first_token_us, won.first_answer_us, won.ttft_obs_us) = (Some(first_us), Some(first_us), Some(first_us));
        (won.last_token_us, won.in_flight_upstream) = (Some(first_us + draws.i64(500_000..4_000_000)), draws.i64(0..9));
        (won.reasoning_tokens, won.reasoning_events) = (None, 0);
        let mut other = sample::lost(n, first_us);
        match draws.u8(0..6) {
            0 => {
                let AttemptRecord { outcome, ttft_event, ttft_obs_us, .. } = sample::failed(n);
                (other.outcome, other.ttft_event, other.ttft_obs_us) = (outcome, ttft_event, ttft_obs_us);
                other.censor_cause = None;
            }
            1 => {
                // No answer.
                (race.outcome, race.winner, race.first_token_sent_us) = (RaceOutcome::Error, None, None);
                won = AttemptRecord { ordinal: 0, provider: "groq".into(), ..sample::failed(n) };
                other = AttemptRecord { ordinal: 1, provider: "cerebras".into(), ..sample::failed(n) };
            }
            _ => {}
        }
        records.extend([Record::Race(Box::new(race)), attempt(won), attempt(other)]);
    }
    records
}

/// The figure of a group of `stats` as a point has it: value, and what it is over.
fn figure(metric: Metric, tail: bool, figures: &GroupFigures) -> (Option<f64>, Option<f64>, u64) {
    let place = usize::from(tail);
    match metric {
        Metric::Ttft => {
            let (value, over) = match figures.ttft.at[place] {
                None => (None, None),
                Some(Estimate::Reached(us)) => (Some(us as f64 / 1e3), None),
                Some(Estimate::NotReached { over_us }) => (None, Some(over_us as f64 / 1e3)),
            };
            (value, over, figures.ttft.samples)
        }
        Metric::ClientTtft => (figures.client_ttft_ms[place], None, figures.client_ttft_samples),
        Metric::TokS => (figures.tok_s[place], None, figures.tok_s_samples),
        Metric::Goodput => (figures.goodput, None, figures.requests),
        Metric::Failures => (Some(figures.failures as f64 / figures.attempts as f64), None, figures.attempts),
        Metric::Cost => (figures.cost.min_usd(), None, figures.attempts),
        Metric::Requests | Metric::InputTokens | Metric::OutputTokens => panic!("stats has no such figure"),
    }
}

/// Each point of the series is the group of `stats` over its step; returns how many there were.
fn agree(path: &std::path::Path, metric: Metric, by: &str, tail: bool) -> usize {
    let share = match (metric, tail) {
        (Metric::TokS, true) => "--quantile p5",
        (_, true) => "--quantile 0.95",
        _ => "",
    };
    let window = "--since 2026-01-02T03:00:00Z --until 2026-01-02T06:00:00Z";
    let every = if by == "concurrency" { "" } else { "--every 10m" };
    let line = format!("{window} --metric {} --by {by} {share} {every}", metric.as_str());
    let series = answered(path, &line);
    let reader = StoreReader::open(path).unwrap();
    let mut compared = 0;
    for (line, point) in series.lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point))) {
        let (keys, window, by) = match point.place {
            PointPlace::Time { start_us, span_us } => {
                assert_eq!(span_us, 600 * SECOND_US);
                (
                    vec![line.name.clone()],
                    format!("--since {} --until {}", time(start_us), time(start_us + span_us)),
                    by,
                )
            }
            PointPlace::Class(class) => {
                (vec![line.name.clone(), GroupValue::Concurrency(class)], window.to_owned(), "upstream,concurrency")
            }
        };
        let question: stats::StatsQuestion = question(&format!("{window} --by {by}"));
        let stats = stats::ask(&reader, &question, NOW).unwrap();
        let group = stats.groups.iter().find(|group| group.keys == keys).unwrap();
        assert_eq!((point.value, point.over, point.samples), figure(metric, tail, group), "{metric:?} {keys:?}");
        assert_eq!(point.cost, (metric == Metric::Cost).then_some(group.cost.cost()));
        compared += 1;
    }
    compared
}

#[tokio::test]
async fn every_point_is_what_stats_says() {
    let (_directory, path, _store) = store_with(races()).await;
    for metric in [Metric::Ttft, Metric::ClientTtft, Metric::TokS, Metric::Goodput, Metric::Failures, Metric::Cost] {
        // From 03:04 to 05:34 there are 16 steps, 3 of which have no races.
        assert_eq!(agree(&path, metric, "upstream", false), 2 * 13, "{metric:?}");
        assert!(agree(&path, metric, "concurrency", false) >= 5, "{metric:?}");
    }
    for metric in [Metric::Ttft, Metric::Goodput, Metric::Cost] {
        assert!(agree(&path, metric, "model", false) > 20 && agree(&path, metric, "user", false) > 20);
    }
    for metric in [Metric::Ttft, Metric::ClientTtft, Metric::TokS] {
        assert_eq!(agree(&path, metric, "upstream", true), 2 * 13, "{metric:?}");
    }
}

/// As rows and as roll-ups: what the rows of the window add up to.
#[tokio::test]
async fn requests_and_tokens_add_up_to_those_of_the_rows() {
    let rows = races();
    let (mut requests, mut tokens) = (0.0, [0.0; 2]);
    for row in &rows {
        match row {
            Record::Race(race) => {
                requests += f64::from(u8::from(race.outcome != RaceOutcome::ClientGone && race.attempts > 0))
            }
            Record::Attempt(attempt) => {
                tokens[0] += attempt.input_tokens.unwrap_or(0) as f64;
                tokens[1] += attempt.output_tokens.unwrap_or(0) as f64;
            }
            _ => {}
        }
    }
    assert!(requests > 100.0 && tokens.iter().all(|tokens| *tokens > 1_000.0), "{requests} {tokens:?}");
    let (_directory, path, _store) = store_with(rows).await;
    for (metric, expected) in [("requests", requests), ("input_tokens", tokens[0]), ("output_tokens", tokens[1])] {
        for every in ["10m", "1h"] {
            let series = answered(&path, &format!("--metric {metric} --by model --every {every}"));
            let sum: f64 = series.lines.iter().flat_map(|line| &line.points).filter_map(|point| point.value).sum();
            assert_eq!(sum, expected, "{metric} {every}");
        }
    }
}

#[tokio::test]
async fn a_point_that_is_not_reached_and_a_step_without_attempts() {
    let (_directory, path, _store) = store_with(races()).await;
    let series = answered(&path, "--every 30m");
    let names: Vec<String> = series.lines.iter().map(|line| line.name.text()).collect();
    assert_eq!(names, ["cerebras/llama-70b", "groq/llama-70b"]);
    let starts = |line: usize| -> Vec<i64> {
        let minutes = series.lines[line].points.iter().map(|point| match point.place {
            PointPlace::Time { start_us, .. } => (start_us - THREE) / (60 * SECOND_US),
            PointPlace::Class(_) => -1,
        });
        minutes.collect()
    };
    assert_eq!((starts(0), starts(1)), (vec![0, 30, 90, 120, 150], vec![0, 30, 90, 120, 150]));
    // The loser never had a first token.
    assert!(
        series.lines[0].points.iter().all(|point| point.value.is_none() && point.over > Some(100.0) && !point.firm)
    );
    assert!(series.lines[1].points.iter().all(|point| point.value.is_some() && point.over.is_none()));
    assert_eq!(series.span_us, (STARTED_AT, NOW));
}

#[tokio::test]
async fn thin_points_are_told_from_firm_ones() {
    let (_directory, path, _store) = store_with(races()).await;
    let firm = |line: &str| answered(&path, line).lines[1].points.iter().map(|point| point.firm).collect::<Vec<_>>();
    // 26 in the first half hour, more or less one in six of them failed.
    assert_eq!(firm("--metric failures --every 30m"), [true, true, true, true, false]);
    assert_eq!(firm("--metric tok_s --every 6h"), [true]);
    assert_eq!(firm("--metric tok_s --every 6h --quantile p5"), [false]);
    assert_eq!(firm("--metric ttft --every 6h --quantile p99"), [false]);
    assert!(firm("--metric goodput --every 10m").iter().all(|firm| *firm));
}

#[tokio::test]
async fn where_rows_are_gone_hours_are_points() {
    let (_directory, path, _store) = store_with(races()).await;
    let lines = ["--metric goodput --every 10m", "--metric goodput --every 1h", "--every 1h"];
    let before = lines.map(|line| answered(&path, line));
    let mut roller = Roller::new(&path, || false);
    // Two whole hours go; the last half hour stays.
    while roller.step(NOW, Some(THREE + 2 * HOUR_US)).unwrap() != RollupStep::Nothing {}
    let after = lines.map(|line| answered(&path, line));

    let spans: Vec<(i64, i64)> = after[0].lines[1].points.iter().filter_map(place).collect();
    let minutes = |minutes: i64| minutes * 60 * SECOND_US;
    let expected: [(i64, i64); 6] = [(0, 60), (60, 60), (120, 10), (130, 10), (140, 10), (150, 10)];
    assert_eq!(spans, expected.map(|(start, span)| (THREE + minutes(start), minutes(span))));
    // Those of both upstreams; their rates are by the second of the hour.
    assert_eq!((after[0].whole_hours, after[0].coverage.rolled_until), (4, Some(THREE + 2 * HOUR_US)));
    let rates =
        |series: &SeriesReport| series.lines[1].points.iter().map(|point| point.value.unwrap()).collect::<Vec<_>>();
    let (of_steps, of_hours) = (rates(&after[0]), rates(&after[1]));
    // The window begins with the oldest that is known of: now the hour itself.
    assert!(of_steps[..2] == of_hours[..2] && (of_hours[1] / rates(&before[1])[1] - 1.0).abs() < 0.05, "{of_hours:?}");

    let ends =
        |series: &SeriesReport| series.lines.iter().flat_map(|line| line.points.clone()).collect::<Vec<SeriesPoint>>();
    let (exact, coarse) = (ends(&before[2]), ends(&after[2]));
    assert_eq!((exact.len(), coarse.len(), after[2].whole_hours), (6, 6, 0));
    for (exact, coarse) in exact.iter().zip(&coarse) {
        // What loses is never reached.
        let [exact_ms, coarse_ms] = [exact, coarse].map(|point| point.value.or(point.over).unwrap());
        assert!((coarse_ms / exact_ms - 1.0).abs() < 0.016, "{exact:?} {coarse:?}");
        assert_eq!(coarse.over.is_some(), exact.over.is_some());
        let start = |point: &SeriesPoint| place(point).map(|(start_us, _)| start_us);
        assert_eq!((start(coarse), coarse.samples), (start(exact), exact.samples));
    }
    let cost = answered(&path, "--metric cost --every 1d").lines[1].points[0].clone();
    assert_eq!(cost.samples, 120);
    // Nothing is left before the hour that was rolled up, and that is known without its rows.
    assert_eq!(StoreReader::open(&path).unwrap().oldest(SourceFilter::Client).unwrap(), Some(THREE));
}

fn place(point: &SeriesPoint) -> Option<(i64, i64)> {
    match point.place {
        PointPlace::Time { start_us, span_us } => Some((start_us, span_us)),
        PointPlace::Class(_) => None,
    }
}

#[tokio::test]
async fn the_smallest_series_are_left_out() {
    let batch = (0..70).flat_map(|n| {
        let won = |n: i64| attempt(AttemptRecord { provider: format!("p{:02}", n % 70), ..sample::won(n) });
        // The last six have one attempt, the others two.
        let again = (n < 62).then(|| [Record::Race(Box::new(sample::race(n + 70))), won(n + 70)]);
        [Record::Race(Box::new(sample::race(n))), won(n)].into_iter().chain(again.into_iter().flatten())
    });
    let (_directory, path, _store) = store_with(batch.collect()).await;
    let series = answered(&path, "--metric cost");
    assert_eq!((series.lines.len(), series.left_out, series.attempts), (62, (8, 8), 132));
    assert_eq!(
        (series.lines[0].name.text(), series.lines[61].name.text()),
        ("p00/llama-70b".into(), "p61/llama-70b".into())
    );
}

#[tokio::test]
async fn steps_are_round_and_bounded() {
    for (span_s, step_s) in [(60, 10), (3_600, 30), (86_400, 900), (7 * 86_400, 7_200), (365 * 86_400, 345_600)] {
        assert_eq!(chosen_step(span_s * SECOND_US), step_s * SECOND_US, "{span_s}");
    }
    let mut span_us = 48 * 10 * SECOND_US;
    while span_us < 400 * 365 * DAY_US {
        let step_us = chosen_step(span_us);
        assert!((47..=CHOSEN_STEPS).contains(&(span_us / step_us)), "{span_us} {step_us}");
        assert!(HOUR_US % step_us == 0 || step_us % HOUR_US == 0, "{span_us} {step_us}");
        span_us += span_us / 10;
    }
    // The races are two days old, and only the file knows that.
    let (_directory, path, _store) = store_with(races()).await;
    let reader = StoreReader::open(&path).unwrap();
    let error = ask(&reader, &question("--every 1m"), NOW).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, SeriesError::Steps(_)) && text.contains("2881 steps") && text.contains("such as 30m"),
        "{text}"
    );
    assert!(ask(&reader, &question("--every 2m"), NOW).is_ok());
    assert_eq!(answered(&path, "").every_us, Some(1_800 * SECOND_US));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let refused =
        |line: &str| Line::<SeriesQuestion>::try_parse_from(["history"].into_iter().chain(line.split(' '))).is_err();
    for share in ["0", "1", "95", "p0", "p100", "-0.5", "nan", "inf", "p", "median"] {
        assert!(refused(&format!("--quantile={share}")), "{share}");
    }
    for step in ["0s", "7m", "90m", "1.5s", "soon", "-1h", "400d", "500ms"] {
        assert!(refused(&format!("--every={step}")), "{step}");
    }
    assert!(
        refused("--metric moon") && refused("--by hour") && refused("--by upstream,model") && refused("--slo e2e=1s")
    );
    for (line, words) in [
        ("--since 1h --until 2h", "--since must be before --until"),
        ("--since 1h --every 2h", "every 2h is longer than the whole window"),
        ("--since 30d --every 1m", "every 1m makes 43201 steps"),
        ("--metric cost --quantile p5", "--quantile does not go with cost"),
        ("--metric cost --slo ttft=1s", "--slo does not go with cost"),
        ("--slo ttft=1s,tpot=50ms", "--slo does not go with ttft"),
        ("--by concurrency --every 1h", "--by concurrency exclude"),
    ] {
        let problem = question::<SeriesQuestion>(line).problem(NOW);
        assert!(problem.as_deref().is_some_and(|problem| problem.contains(words)), "{line}: {problem:?}");
    }
    for line in ["--since 1h --every 1h", "--since 1d --every 1m", "--every 1d", "--metric tok_s --quantile p99.9"] {
        assert_eq!(question::<SeriesQuestion>(line).problem(NOW), None, "{line}");
    }
    assert_eq!(question::<SeriesQuestion>("--quantile p99.9").quantile(), Some(0.999));
    assert_eq!(
        (question::<SeriesQuestion>("").quantile(), question::<SeriesQuestion>("--metric cost").quantile()),
        (Some(0.5), None)
    );
}

#[tokio::test]
async fn points_have_the_names_of_the_contract() {
    let mut empty = sample::failed(1);
    (empty.outcome, empty.provider) = (AttemptOutcome::Empty, "groq".into());
    let race = Record::Race(Box::new(sample::race(0)));
    let (_directory, path, _store) =
        store_with(vec![race, attempt(sample::won(0)), attempt(sample::lost(0, 90_000)), attempt(empty)]).await;
    let asked = |line: &str| {
        let question = question(line);
        let series = ask(&StoreReader::open(&path).unwrap(), &question, NOW).unwrap();
        let names = names(&question);
        let objects = objects(&question, &series);
        // The members of an object are in the order of the columns.
        for object in &objects {
            let there: Vec<&str> = names.iter().copied().filter(|name| object.contains_key(*name)).collect();
            assert_eq!(object.keys().collect::<Vec<_>>(), there);
        }
        (names.join(","), json!(objects))
    };
    let start = "2026-01-02T03:00:00Z";
    let (names, points) = asked("--every 1h --quantile p95");
    assert_eq!(names, "upstream,start,span_s,quantile,ttft_ms,ttft_over_ms,samples,firm");
    let lost = json!({ "upstream": "cerebras/llama-70b", "start": start, "span_s": 3_355, "quantile": 0.95,
        "ttft_ms": null, "ttft_over_ms": 90.0, "samples": 0, "firm": false });
    let won = json!({ "upstream": "groq/llama-70b", "start": start, "span_s": 3_355, "quantile": 0.95,
        "ttft_ms": 100.0, "samples": 1, "firm": false });
    assert_eq!(points, json!([lost, won]));
    let (names, points) = asked("--every 1h --metric cost --by user");
    assert_eq!(names, "user,start,span_s,cost_usd_min,cost_usd_max,samples,firm");
    let alice = json!({ "user": "alice", "start": start, "span_s": 3_355, "cost_usd_min": 0.0125,
        "cost_usd_max": null, "samples": 2, "firm": true });
    assert_eq!(points[1], alice);
    assert_eq!(points[0]["user"], Value::Null);
    let (names, points) = asked("--metric failures --by concurrency");
    assert_eq!(names, "upstream,concurrency,failure_share,samples,firm");
    let of_class = json!({ "upstream": "groq/llama-70b", "concurrency": "5-8", "failure_share": 0.0, "samples": 2,
        "firm": false });
    assert_eq!(points[1], of_class);
    for (metric, field) in [("client_ttft", "client_ttft_ms"), ("tok_s", "tok_s"), ("goodput", "goodput")] {
        let (names, points) = asked(&format!("--by model --metric {metric}"));
        assert!(names.contains(field) && points[1][field].is_number(), "{points}");
    }
}
