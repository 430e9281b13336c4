//! The command over real files.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::cli::text::joined;
use photofinish_config as config;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, Record, StartReason, sample};
use photofinish_history::store::Store;
use photofinish_lab::replay::PastRequests;

const CONFIG: &str = "\
[store]
url = \"sqlite:history.db\"
[race]
policy = \"race\"
retries = 0
[providers.groq]
api_key = \"k\"
[providers.cerebras]
api_key = \"k\"
[models.demo]
upstreams = [
  { upstream = \"groq/llama-70b\", input_price = 1.0, output_price = 4.0 },
  { upstream = \"cerebras/llama-70b\", input_price = 2.0, output_price = 8.0 },
  \"my-vllm/x\",
]
aliases = [\"show\"]
[providers.my-vllm]
base_url = \"http://127.0.0.1:9/v1\"
[models.other]
upstreams = [\"groq/other\"]
";

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: ReplayOptions,
}

fn options(line: &str) -> Result<ReplayOptions, clap::Error> {
    Line::try_parse_from(["replay"].into_iter().chain(line.split_whitespace())).map(|line| line.options)
}

fn config_in(directory: &Path) -> config::Config {
    let mut config = config::parse(CONFIG, Path::new("config.toml"), &|_| None).unwrap();
    config.store.address = directory.join("history.db").into();
    config
}

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    Store::open(&path).unwrap().write(&batch).unwrap();
    (directory, path)
}

fn shown(directory: &TempDir, line: &str, width: Option<usize>) -> String {
    let mut out = Vec::new();
    run(&config_in(directory.path()), &options(line).unwrap(), width, &mut out, None).unwrap();
    String::from_utf8(out).unwrap()
}

/// One race of two each second: `groq` takes 100 to 149 ms and wins four of five, `cerebras` takes 120 ms and wins the rest.
fn races(model: &str, from: i64, count: i64) -> Vec<Record> {
    let one = |n: i64| {
        let millis = (from + n) * 1_000;
        let groq_us = 100_000 + n % 50 * 1_000 - i64::from(n % 5 != 0) * 30_000;
        let (groq_wins, best_us) = (groq_us < 120_000, groq_us.min(120_000));
        let race = RaceRecord {
            race_id: sample::race_id(millis),
            started_at: sample::STARTED_AT + millis * 1_000,
            model: model.into(),
            attempts: 2,
            winner: Some(i64::from(!groq_wins)),
            first_token_sent_us: Some(best_us),
            done_us: Some(best_us + 800_000),
            ..sample::race(millis)
        };
        let attempt = |ordinal: i64, provider: &str, wins: bool| {
            let like = if wins { sample::won(millis) } else { sample::lost(millis, best_us) };
            Record::Attempt(Box::new(AttemptRecord {
                race_id: sample::race_id(millis),
                ordinal,
                provider: provider.into(),
                model_sent: "llama-70b".into(),
                start_reason: StartReason::First,
                dispatch_us: 0,
                ttft_obs_us: Some(best_us),
                ttft_event: Some(i64::from(wins)),
                outcome: if wins { AttemptOutcome::Won } else { AttemptOutcome::Lost },
                cost_usd_min: wins.then_some(0.001),
                cost_usd_max: wins.then_some(0.001),
                ..like
            }))
        };
        [Record::Race(Box::new(race)), attempt(0, "groq", groq_wins), attempt(1, "cerebras", !groq_wins)]
    };
    (0..count).flat_map(one).collect()
}

#[tokio::test]
async fn the_whole_text() {
    let (directory, _path) = store_with(races("demo", 0, 400)).await;
    let text = shown(&directory, "--wide --explain --policy fallback --policy race", None);
    let expected = include_str!("golden.txt");
    assert_eq!(text, expected, "{text}");
    let lines = text.lines().map(|line| line.chars().count());
    assert!(lines.max().unwrap() <= 80);
}

#[tokio::test]
async fn a_narrow_terminal_gets_several_tables() {
    let (directory, _path) = store_with(races("demo", 0, 400)).await;
    let text = shown(&directory, "--wide --policy fallback", Some(72));
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 72, "{widest}");
    assert_eq!(text.matches("\n recorded").count(), 3, "{text}");
    for part in ["TTFT p50", "drawn", "never tried"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn the_default_fits_a_laptop() {
    let (directory, _path) = store_with(races("demo", 0, 400)).await;
    let text = shown(&directory, "--policy fallback --policy adaptive", Some(80));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (table, notes) = text.split_once("\n\n").unwrap();
    // The heads, what was recorded, and three policies with their changes.
    assert_eq!(table.lines().count(), 8, "{text}");
    assert!(notes.lines().count() <= 3 && notes.ends_with("more: --wide, --explain\n"), "{text}");
    for words in ["recorded", "fallback", "attempts", " −1.00", "400 requests for demo, "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let wide = shown(&directory, "--policy fallback --wide", Some(120));
    assert!(wide.ends_with("more: --explain\n"), "{wide}");
}

#[tokio::test]
async fn objects_are_the_same_each_time() {
    let (directory, _path) = store_with(races("demo", 0, 400)).await;
    let (once, again) = (shown(&directory, "--json", None), shown(&directory, "--json", None));
    assert_eq!(once, again);
    assert_ne!(once, shown(&directory, "--json --seed 2", None));
    let object: Value = serde_json::from_str(&once).unwrap();
    assert_eq!((&object["model"], &object["requests"], &object["counted"]), (&json!("demo"), &json!(400), &json!(360)));
    let rows: Vec<&str> = object["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(rows, ["recorded", "race, replayed", "adaptive, budget 0.1"]);
    let replayed = &object["rows"][1];
    assert_eq!(replayed["ttft_p50_ms"]["change"], json!(0.0));
    assert_eq!(object["little_known"], json!([{ "upstream": "my-vllm/x", "attempts": 0 }]));
    let seen = object["upstreams"][0]["seen"].as_u64().unwrap() + object["upstreams"][0]["cut"].as_u64().unwrap();
    assert_eq!(seen, 400);
}

#[tokio::test]
async fn a_window_a_model_and_those_that_are_not_there() {
    let mut batch = races("show", 0, 100);
    batch.extend(races("demo", 100, 100));
    batch.extend(races("other", 200, 50));
    let (directory, _path) = store_with(batch).await;
    let object = |line: &str| -> Value { serde_json::from_str(&shown(&directory, line, None)).unwrap() };
    assert_eq!(object("--json")["requests"], json!(200));
    assert_eq!(object("--json --model show")["requests"], json!(200));
    assert_eq!(object("--json --since 2026-01-02T03:05:45Z")["requests"], json!(100));
    assert!(joined(&shown(&directory, "", None)).contains("Other models with requests: other (50)"));
    let nothing = joined(&shown(&directory, "--model other", None));
    assert!(
        nothing.contains("Too little history of other: 50 requests") && nothing.contains("groq/other 0"),
        "{nothing}"
    );
    assert_eq!(object("--json --model other"), json!({"requests": 50, "plain": 0}), "nothing is known of them");
    assert_eq!(object("--json --until 2026-01-01"), json!({"requests": 0, "plain": 0}));
    let none = shown(&directory, "--until 2026-01-01", None);
    assert_eq!(
        none.trim_end().replace('\n', " "),
        format!("No requests in {} begun before 2026-01-01T00:00:00Z.", directory.path().join("history.db").display())
    );
    let unknown =
        run(&config_in(directory.path()), &options("--model dmeo").unwrap(), None, &mut Vec::new(), None).unwrap_err();
    assert!(
        unknown.is::<crate::cli::outcome::WrongUse>() && unknown.to_string().contains("Did you mean demo"),
        "{unknown}"
    );
}

#[tokio::test]
async fn requests_that_went_up_plain_are_left_out_and_counted() {
    let plain = |records: Vec<Record>| -> Vec<Record> {
        let is_plain = |record| match record {
            Record::Attempt(row) => Record::Attempt(Box::new(AttemptRecord { plain: true, ..*row })),
            other => other,
        };
        records.into_iter().map(is_plain).collect()
    };
    let mut batch = races("demo", 0, 400);
    batch.extend(plain(races("demo", 400, 30)));
    batch.extend(plain(races("other", 430, 20)));
    let (directory, _path) = store_with(batch).await;
    let object: Value = serde_json::from_str(&shown(&directory, "--json", None)).unwrap();
    assert_eq!((&object["requests"], &object["plain"]), (&json!(400), &json!(30)));
    let left_out = "Left out: 30 requests that went up plain: they have no first token to play.";
    for line in ["--policy fallback", "--policy fallback --explain"] {
        assert!(shown(&directory, line, None).replace('\n', " ").contains(left_out), "{line}");
    }
    let only_plain = shown(&directory, "--model other", None).replace('\n', " ");
    assert!(only_plain.contains("0 requests") && only_plain.contains("Left out: 20 requests"), "{only_plain}");
    let object: Value = serde_json::from_str(&shown(&directory, "--model other --json", None)).unwrap();
    assert_eq!(object, json!({"requests": 0, "plain": 20}));
}

#[test]
fn what_is_asked_for_is_checked() {
    for (line, expected) in [
        ("--policy fastest", "race, hedge, "),
        ("--budget 11", "a number from 0 to 10"),
        ("--budget nan", "a number from 0 to 10"),
        ("--optimise speed", "auto, ttft, completion, goodput"),
        ("--hedge-after p95", "250ms"),
        ("--slo ttft=0s", "0.001ms"),
        ("--slo e2e=1s", "ttft=1s,tpot=50ms"),
        ("--hold-max 6s", "0s to 5s"),
        ("--seed x", "whole number"),
        ("--since soon", "--since"),
    ] {
        let message = options(line).unwrap_err().to_string();
        assert!(message.contains(expected), "{line}: {message}");
    }
    let now_us = photofinish_base::clock::wall_micros();
    assert!(
        options("--since 1h --until 2h")
            .unwrap()
            .question
            .problem(now_us)
            .unwrap()
            .contains("--since must be before --until")
    );
    let many = "--policy race ".repeat(17);
    assert!(options(&many).unwrap().question.problem(now_us).unwrap().contains("at most 16"));
    assert_eq!(options("--policy hedge --hedge-after 250ms").unwrap().question.problem(now_us), None);
}

#[tokio::test]
async fn settings_that_were_not_asked_for_are_the_models() {
    let (directory, _path) = store_with(Vec::new()).await;
    let config = config_in(directory.path());
    let model = config.model("demo").unwrap();
    let past = PastRequests::new(model);
    let line = "--policy adaptive --policy hedge --budget 0.02 --optimise goodput --slo ttft=300ms --hedge-after 90ms --hold-max 0s";
    let (plans, as_it_was) = options(line).unwrap().question.plans(model, &past);
    assert_eq!(as_it_was, Err("the rows do not show it".to_owned()));
    assert_eq!(
        plans.iter().map(|plan| &*plan.name).collect::<Vec<_>>(),
        ["adaptive for goodput, budget 0.02", "hedge for goodput after 90ms"]
    );
    let settings = &plans[0].settings;
    assert_eq!(settings.slo.ttft.as_millis(), 300);
    assert_eq!((settings.slo.tpot, settings.max_attempts), (model.race.slo.tpot, model.race.max_attempts));
    assert!(settings.hold_max.is_zero());
}
