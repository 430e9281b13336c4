//! The command over real files.

mod costs;
mod layout;

use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::cli::screen::PIPED;
use crate::cli::text::joined;
use photofinish_config::parse;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, Record, sample};
use photofinish_history::store::{Roller, RollupStep, Store};

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    store.write(&batch).unwrap();
    (directory, path, store)
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: StatsOptions,
}

fn options(line: &str) -> StatsOptions {
    Line::try_parse_from(["stats"].into_iter().chain(line.split_whitespace())).unwrap().options
}

pub(super) fn config(path: &Path) -> Config {
    let text = format!("providers.groq.base_url = \"http://h/v1\"\nstore.url = \"sqlite:{}\"", path.display());
    parse(&text, Path::new("x"), &|_| None).unwrap()
}

/// Columns of a terminal that holds every table.
const WIDE: Option<u16> = Some(400);

/// Of the command with this line, piped.
async fn output(path: &Path, line: &str) -> String {
    shown(path, line, None).await
}

async fn shown(path: &Path, line: &str, width: Option<u16>) -> String {
    let terminal = |width| ScreenSettings { width, height: 20, colour: false, piped: false };
    let mut out = Vec::new();
    run(&config(path), &options(line), width.map_or(PIPED, terminal), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn attempt(record: AttemptRecord) -> Record {
    Record::Attempt(Box::new(record))
}

/// In which all races of these tests began.
const FORTY_SECONDS: &str = "--since 2026-01-02T03:04:00Z --until 2026-01-02T03:04:40Z";

/// Forty races: `groq` wins all, `cerebras` is cut off in 39 and fails in one, `my-vllm` always fails.
fn forty_races() -> Vec<Record> {
    (0..40)
        .flat_map(|n| {
            let mut won = sample::won(n);
            (won.reasoning_tokens, won.reasoning_events) = (None, 0);
            (won.cost_usd_min, won.cost_usd_max) = (Some(0.0125), Some(0.0125));
            let mut lost = sample::lost(n, 100_000);
            if n == 7 {
                lost = AttemptRecord { ordinal: 1, provider: "cerebras".into(), ..sample::failed(n) };
            }
            let race = Record::Race(Box::new(RaceRecord { rescued_by: None, ..sample::race(n) }));
            [race, attempt(won), attempt(lost), attempt(sample::failed(n))]
        })
        .collect()
}

#[tokio::test]
async fn the_wide_table() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = shown(&path, &format!("--wide {FORTY_SECONDS}"), WIDE).await;
    let cells = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(
        cells("groq"),
        "groq/llama-70b|40|40 (100 %)|0|0|0|100 ms|~100 ms|~100 ms|40|20.0|~20.0|~50 ms|40|40|1.00/s|100 %|$0.50|$0|500-2k (100 %)|0.0 % (0.0–8.8)"
            .split('|')
            .collect::<Vec<_>>()
    );
    assert_eq!(
        cells("cerebras"),
        "cerebras/llama-70b|40|0|1 (3 %)|0|39 (98 %)|> 100 ms|> 100 ms|> 100 ms|0|–|–|–|0|0|–|–|unknown|unknown|500-2k (100 %)|–"
            .split('|')
            .collect::<Vec<_>>()
    );
    let failed = ["–", "–", "–", "0", "–", "–", "–", "0", "0", "–", "–", "unknown", "unknown", "500-2k (100 %)", "–"];
    assert_eq!(cells("my-vllm")[6..], failed);
    assert!(
        text.contains("120 attempts, 2026-01-02T03:04:00Z to 2026-01-02T03:04:40Z. Goodput: client TTFT ≤ 1s")
            && !text.contains('│')
            && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[tokio::test]
async fn a_comparison_as_csv_has_a_line_for_each_upstream() {
    let looks = (0..20).flat_map(|n| {
        let mut race = sample::race(n);
        (race.p_look, race.look, race.look_out) = (Some(0.5), Some("groq/llama-70b".into()), None);
        [Record::Race(Box::new(race)), attempt(sample::won(n))]
    });
    let (_directory, path, _store) = store_with(looks.collect()).await;
    let csv = output(&path, &format!("--compare --csv {FORTY_SECONDS}")).await;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("model,upstream,looks,failed,failed_share,out,away,cut,ttft_p50_ms,"), "{csv}");
    assert!(lines[0].contains(",mix_cost_usd,best_upstream,clients,") && lines[0].ends_with(",verdict_p95"), "{csv}");
    assert!(lines[1].starts_with("llama-3.3-70b,groq/llama-70b,20,0,0.0,0,false,0,100.0,"), "{csv}");
    assert!(lines[1].ends_with(",unknown") && lines.len() == 2, "{csv}");
}

#[tokio::test]
async fn json_has_the_names_of_the_contract() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = output(&path, &format!("--json {FORTY_SECONDS}")).await;
    let objects: Vec<Value> = serde_json::from_str(&text).unwrap();
    let lost = json!({
        "upstream": "cerebras/llama-70b", "attempts": 40, "wins": 0, "win_share": 0.0, "failures": 1,
        "failure_share": 0.025, "failures_by_kind": { "connect": 1 }, "empty": 0, "censored": 39,
        "ttft_p50_ms": null, "ttft_p50_over_ms": 100.0, "ttft_p95_ms": null, "ttft_p95_over_ms": 100.0,
        "ttft_p99_ms": null, "ttft_p99_over_ms": 100.0, "ttft_samples": 0, "ttft_effective": 0.0, "tok_s_p50": null,
        "tok_s_p5": null, "tpot_p95_ms": null, "tok_s_samples": 0, "requests": 0, "goodput": null, "attainment": null,
        "cost_usd_min": null, "cost_usd_max": null, "extra_cost_usd_min": null, "extra_cost_usd_max": null,
        "common_input": "500-2k", "common_input_share": 1.0, "aggregate_tok_s": 0.0, "aggregate_tok_s_with_losers": 0.0, "client_ttft_p50_ms": null,
        "client_ttft_p95_ms": null, "client_ttft_samples": 0
    });
    // The sample breaks off behind its answer.
    let won = json!({
        "upstream": "groq/llama-70b", "attempts": 40, "wins": 40, "win_share": 1.0, "failures": 0,
        "failure_share": 0.0, "failures_by_kind": { "reset": 40 }, "empty": 0, "censored": 0, "ttft_p50_ms": 100.0,
        "ttft_p95_ms": 100.0, "ttft_p99_ms": 100.0, "ttft_samples": 40, "ttft_effective": 40.0, "tok_s_p50": 20.0,
        "tok_s_p5": 20.0, "tpot_p95_ms": 50.0, "tok_s_samples": 40, "requests": 40, "goodput": 1.0, "attainment": 1.0,
        "cost_usd_min": 0.5, "cost_usd_max": 0.5, "extra_cost_usd_min": 0.0, "extra_cost_usd_max": 0.0,
        "common_input": "500-2k", "common_input_share": 1.0, "judged": 40, "broken": 0, "broken_share": 0.0, "broken_share_min": 0.0,
        "broken_share_max": 0.08762453925039232, "aggregate_tok_s": 41.0, "aggregate_tok_s_with_losers": 41.0, "client_ttft_p50_ms": 101.5,
        "client_ttft_p95_ms": 101.5, "client_ttft_samples": 40
    });
    assert_eq!(objects[..2], [lost, won]);
}

#[tokio::test]
async fn what_was_left_out_is_counted() {
    let mut burst = sample::won(0);
    burst.burst = Some(true);
    let mut midway = sample::won(1);
    midway.outcome = AttemptOutcome::FailedMid;
    let mut empty = sample::failed(2);
    (empty.outcome, empty.provider) = (AttemptOutcome::Empty, "groq".into());
    let (_directory, path, _store) = store_with([burst, midway, empty].map(attempt).to_vec()).await;
    let text = output(&path, "--wide").await;
    assert!(text.contains("Left out: 1 attempt without a usable tok/s"), "{text}");
    let object = output(&path, "--json").await;
    let objects: Vec<Value> = serde_json::from_str(&object).unwrap();
    assert_eq!(
        ["attempts", "wins", "failures", "empty", "censored"].map(|name| objects[0][name].as_u64().unwrap()),
        [3, 1, 1, 1, 0]
    );
}

#[tokio::test]
async fn nothing_recorded_and_nothing_there() {
    let (directory, path, _store) = store_with(Vec::new()).await;
    assert!(output(&path, "").await.contains("Send a request to `photofinish serve`"));
    let text = output(&path, "--since 1h --provider groq").await;
    assert!(joined(&text).contains("races begun since 20") && text.contains("provider groq"), "{text}");
    assert_eq!(output(&path, "--since 1h --provider groq --json").await, "[]\n");

    for line in ["", "--since 1h --provider a-very-long-name --until 0s --user somebody"] {
        let text = shown(&path, line, Some(40)).await;
        assert!(text.lines().all(|line| line.chars().count() <= 40) && text.contains("No attempts in"), "{text}");
    }
    let absent = directory.path().join("absent.db");
    let error = run(&config(&absent), &options(""), PIPED, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains(absent.to_str().unwrap()) && error.contains("photofinish serve"), "{error}");
}

#[tokio::test]
async fn what_is_there_and_not_told_is_named() {
    let (_directory, path, store) = store_with(forty_races()).await;
    let mut roller = Roller::new(&path, || false);
    while roller.step(wall_micros(), Some(wall_micros())).unwrap() != RollupStep::Nothing {}
    let text = output(&path, "--since 2026-01-02T03:10:00Z --until 2026-01-02T03:20:00Z").await;
    assert!(joined(&text).contains("--since 2026-01-02T03:00:00Z --until 2026-01-02T04:00:00Z"), "{text}");
    // A loser of just now, whose race has not ended.
    let now = (wall_micros() - sample::STARTED_AT) / 1_000;
    store.write(&[attempt(sample::lost(now, 90_000))]).unwrap();
    let text = output(&path, "--since 10m --wide").await;
    assert!(text.contains("1 attempt of races that still run"), "{text}");
}

/// Of the command with this line: the objects of `--json`.
async fn objects(path: &Path, line: &str) -> Vec<Value> {
    serde_json::from_str(&output(path, &format!("--json {FORTY_SECONDS} {line}")).await).unwrap()
}

fn columns<'a>(objects: &'a [Value], names: &[&str]) -> Vec<Vec<&'a Value>> {
    objects.iter().map(|object| names.iter().map(|name| &object[name]).collect()).collect()
}

#[tokio::test]
async fn groups_by_every_dimension() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    for (by, value) in [
        ("model", json!("llama-3.3-70b")),
        ("hour", json!(3)),
        ("weekday", json!("Fri")),
        ("input", json!("500-2k")),
        ("concurrency", json!("5-8")),
        ("user", json!("alice")),
    ] {
        let found = objects(&path, &format!("--by {by}")).await;
        assert_eq!(columns(&found, &[by, "attempts", "requests"]), [[&value, &json!(120), &json!(40)]], "{by}");
        let found = objects(&path, &format!("--by {by},upstream")).await;
        assert_eq!(found.len(), 3);
        assert_eq!((&found[1][by], &found[1]["upstream"]), (&value, &json!("groq/llama-70b")));
    }
    let everything = "--by upstream,model,hour,weekday,input,concurrency,user";
    for width in [40, 80, 120, 160] {
        for more in ["", "--wide"] {
            let text = shown(&path, &format!("{everything} {more}"), Some(width)).await;
            let fits = |line: &str| line.chars().count() <= usize::from(width);
            assert!(width < 80 || text.lines().all(fits), "{width}: {text}");
        }
    }
}

#[tokio::test]
async fn one_line_of_text_a_group_for_spreadsheets() {
    let mut race = sample::race(0);
    race.model = "a \"b\",\u{1b}c".into();
    let (_directory, path, _store) = store_with(vec![Record::Race(Box::new(race)), attempt(sample::won(0))]).await;
    let text = output(&path, &format!("--csv --by model,hour {FORTY_SECONDS}")).await;
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines[0].starts_with(
        "model,hour,attempts,wins,win_share,failures,failure_share,failures_by_kind,empty,censored,ttft_p50_ms,"
    ));
    assert!(lines[0].ends_with(",client_ttft_p50_ms,client_ttft_p95_ms,client_ttft_samples") && lines[2].is_empty());
    assert!(lines[1].starts_with("\"a \"\"b\"\",\u{1b}c\",3,1,1,1.0,0,0.0,reset=1,0,0,100.0,,"), "{}", lines[1]);
    // No name steers the terminal.
    assert!(!output(&path, "--by model").await.contains('\u{1b}'));
}

#[tokio::test]
async fn requests_are_judged_once() {
    let ended = |n: i64, outcome, winner| {
        let mut race = sample::race(n);
        (race.outcome, race.winner) = (outcome, winner);
        if winner.is_none() {
            race.first_token_sent_us = None;
        }
        Record::Race(Box::new(race))
    };
    let mut once = sample::won(1);
    (once.output_tokens, once.last_token_us, once.payload_events) = (Some(1), once.first_token_us, 1);
    let mut burst = sample::won(2);
    burst.burst = Some(true);
    let mut again = sample::failed(3);
    again.ordinal = 1;
    let mut late = sample::race(5);
    late.first_token_sent_us = Some(1_000_001);
    let batch = vec![
        ended(0, RaceOutcome::Ok, Some(0)),
        attempt(sample::won(0)),
        attempt(sample::lost(0, 90_000)),
        ended(1, RaceOutcome::Ok, Some(0)),
        attempt(once),
        ended(2, RaceOutcome::Ok, Some(0)),
        attempt(burst),
        ended(3, RaceOutcome::Error, None),
        attempt(again),
        attempt(sample::failed(3)),
        ended(4, RaceOutcome::ClientGone, Some(0)),
        attempt(AttemptRecord { outcome: AttemptOutcome::ClientGone, ..sample::won(4) }),
        Record::Race(Box::new(late)),
        attempt(sample::won(5)),
        Record::Race(Box::new(sample::bare_race(6))),
    ];
    let (_directory, path, _store) = store_with(batch).await;
    let names = ["upstream", "requests", "attainment", "goodput"];
    let found = objects(&path, "").await;
    let (null, zero) = (Value::Null, json!(0.0));
    assert_eq!(
        columns(&found, &names),
        [
            [&json!("cerebras/llama-70b"), &json!(0), &null, &null],
            // One of them is of unknown speed.
            [&json!("groq/llama-70b"), &json!(4), &json!(2.0 / 3.0), &json!(0.05)],
            [&json!("my-vllm/llama-70b"), &json!(1), &zero, &zero],
        ]
    );
    assert_eq!(columns(&objects(&path, "--by model").await, &names[1..]), [[&json!(5), &json!(0.5), &json!(0.05)]]);
    let found = objects(&path, "--by model --slo ttft=2s").await;
    assert_eq!(columns(&found, &names[1..3]), [[&json!(5), &json!(0.8)]]);
    // Of 3 o'clock all of the window is; of no other hour any.
    assert_eq!(objects(&path, "--by hour").await[0]["goodput"], json!(0.05));
    let text = output(&path, "--explain").await;
    let text = text.replace('\n', " ");
    assert!(
        text.contains("Left out: 1 request without an attempt;") && text.contains("; 1 request without a TPOT"),
        "{text}"
    );
}

#[tokio::test]
async fn only_what_was_asked_for() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    assert_eq!(objects(&path, "--user bob").await.len(), 0);
    assert_eq!(objects(&path, "--user alice").await.len(), 3);
    let until = output(&path, "--json --until 2026-01-02T03:04:05.010Z").await;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&until).unwrap()[0]["attempts"], 10);
    assert_eq!(output(&path, "--json --until 2026-01-02").await.trim(), "[]");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (line, word) in [
        ("--since 1h --until 2h", "--since must be before --until"),
        ("--since 1h --until 1h", "before --until"),
        ("--since 2200-01-01", "2200-01-01T00:00:00Z"),
        ("--since 2026-01-03 --until 2026-01-02", "2026-01-03T00:00:00Z"),
        ("--by hour,user,hour", "--by has hour twice"),
    ] {
        assert!(options(line).question.problem(wall_micros()).is_some_and(|problem| problem.contains(word)), "{line}");
    }
    assert_eq!(options("--since 2h --until 1h --by hour,user").question.problem(wall_micros()), None);
    for line in ["--by moon", "--by ", "--since soon", "--slo e2e=1s", "--json --csv"] {
        assert!(Line::try_parse_from(["stats"].into_iter().chain(line.split(' '))).is_err(), "{line}");
    }
    for (line, words) in [
        ("--since -1h", ["'-1h' for '--since <TIME>'", "at most 365d"]),
        ("--until 2026-11-20T09:00:00", ["--until <TIME>", "with Z or an offset"]),
    ] {
        let error =
            Line::try_parse_from(["stats"].into_iter().chain(line.split(' '))).map(drop).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{line}: {error}");
    }
}
