//! The command over real files: the picture and the words below it.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::cli::screen::PIPED;
use photofinish_facts::record::table::Table as _;
use photofinish_facts::record::{AttemptRecord, RaceRecord, Record, sample};
use photofinish_history::store::Store;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: HistoryOptions,
}

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    store.write(&batch).unwrap();
    (directory, path, store)
}

fn shown(path: &Path, line: &str, screen: ScreenSettings) -> String {
    let options = Line::try_parse_from(["history"].into_iter().chain(line.split_whitespace())).unwrap().options;
    let mut out = Vec::new();
    run(&path.into(), &options, screen, &mut out, &mut Vec::new()).unwrap();
    String::from_utf8(out).unwrap()
}

const WINDOW: &str = "--since 2026-01-02T03:00:00Z --until 2026-01-02T04:00:00Z";

/// A race each two minutes from 03:04 to 03:42, that `groq` wins, `cerebras` loses and `my-vllm` fails in; its first token
/// comes a little later each time.
fn twenty_races() -> Vec<Record> {
    let races = (0..20).flat_map(|number| {
        let n = number * 120_000;
        let mut won = sample::won(n);
        let first_us = Some(100_000 + number * 10_000);
        (won.first_token_us, won.first_answer_us, won.ttft_obs_us) = (first_us, first_us, first_us);
        won.in_flight_upstream = number / 5;
        let attempts = [won, sample::lost(n, 90_000), sample::failed(n)];
        let attempts = attempts.map(|attempt| Record::Attempt(Box::new(attempt)));
        [Record::Race(Box::new(sample::race(n)))].into_iter().chain(attempts)
    });
    races.collect()
}

#[tokio::test]
async fn the_piped_picture() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    let screen = ScreenSettings { width: 60, height: 12, ..PIPED };
    let text = shown(&path, &format!("{WINDOW} --every 10m --explain"), screen);
    let expected = "\
TTFT p50 by upstream, every 10m
300 ms │·       ·       ·       ·       ·      ⢀⣀b      ·
       │                           ⢀⣀⣀⠤⠤⠤⠒⠒⠒⠊⠉⠉⠁
200 ms │·       ·       ·⣀⣀⡠b⠤⠒⠒⠊⠉⠉⠁    ·       ·       ·
       │^    ⢀⣀⣀⣀⠤^⠤⠒⠒⠊⠉⠉   ^          ^         ^
100 ms │a⠒⠉⠉⠉⠁  · a     ·   a   ·      a·       ·a      ·
       │
     0 │·       ·       ·       ·       ·       ·       ·
       └┬─────────┬─────────┬──────────┬─────────┬─────────┬
      03:00     03:10     03:20      03:30     03:40   03:50
             2026-01-02 03:00 to 2026-01-02 03:50, UTC
a cerebras/llama-70b   b groq/llama-70b
c my-vllm/llama-70b (no data)   ^ somewhere above

60 attempts: races begun since 2026-01-02T03:00:00Z and
before 2026-01-02T04:00:00Z.
Each point is at the start of its step of 10m, UTC. A step
without attempts is a gap; the window cuts the first and the
last step.
TTFT p50: First token − the attempt's own dispatch,
estimated (Kaplan–Meier) with the censored attempts, which
were cut off before their first token. ^: cut off too often
to say more than \"above this\".
Thin: 5 of 5 points, from fewer than 20 effective samples
each; a longer --every makes fewer of them.
";
    assert_eq!(text, expected, "{text}");
}

#[tokio::test]
async fn without_explain_three_lines_are_enough() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    for line in ["--every 10m", "--by model", "--metric cost", "--by concurrency"] {
        let text = shown(&path, &format!("{WINDOW} {line}"), ScreenSettings { width: 80, ..PIPED });
        let (_, notes) = text.rsplit_once("\n\n").unwrap();
        assert!(notes.lines().count() <= 3 && notes.ends_with("more: --explain\n"), "{line}: {notes}");
    }
    let text = shown(&path, &format!("{WINDOW} --every 10m"), PIPED);
    assert!(text.contains("60 attempts; 5 of 5 points from few samples: try a longer --every.\n"), "{text}");
    assert!(text.contains("2026-01-02 03:00 to 2026-01-02 03:50, UTC"), "no empty time: {text}");
}

#[tokio::test]
async fn every_line_fits_and_colour_is_asked_for() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    for (width, height) in [(40, 8), (80, 20), (160, 20)] {
        for by in ["", "--by model", "--by concurrency --metric tok_s", "--metric cost --every 5m"] {
            let screen = ScreenSettings { width, height, colour: false, piped: false };
            let text = shown(&path, &format!("{WINDOW} {by}"), screen);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert!(!text.contains('\u{1b}') && text.contains("60 attempts"), "{text}");
            assert!(
                shown(&path, &format!("{WINDOW} {by}"), ScreenSettings { colour: true, ..screen }).contains('\u{1b}')
            );
        }
    }
}

#[tokio::test]
async fn the_words_say_what_the_picture_is() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    let words = |line: &str| shown(&path, &format!("{WINDOW} {line} --explain"), PIPED).replace('\n', " ");
    for (line, all) in [
        ("--every 20m", &["its step of 20m, UTC", "Kaplan–Meier", "^ somewhere above", "Thin: 3 of 3 points"][..]),
        (
            "--by model --quantile p95",
            &["TTFT p95 by model, every 30s", "pools the attempts", "fewer than 200 effective"],
        ),
        ("--metric client_ttft", &["clients that asked to stream"]),
        ("--metric tok_s --quantile 0.05", &["tok/s p5 by upstream", "is the slow end"]),
        ("--metric goodput --slo ttft=1s", &["per second of the step: client TTFT ≤ 1s."]),
        ("--metric failures", &["failed midway", "100 %"]),
        ("--metric cost --every 1h", &["all attempts and of shadows", "not known and not drawn (no prices): 2."]),
        ("--by concurrency", &["attempts in flight at the upstream", "busy hours are busy for others too"]),
    ] {
        let text = words(line);
        assert!(all.iter().all(|word| text.contains(word)), "{line}: {text}");
    }
    let failures = words("--metric failures --every 1h");
    assert!(!failures.contains("Thin") && !failures.contains("Points that are"), "{failures}");
    // The classes end with the largest that there is.
    let curve = words("--by concurrency");
    assert!(curve.contains(" 5-8 ") && !curve.contains("9-16"), "{curve}");
}

#[tokio::test]
async fn programs_get_one_point_a_line() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    let line = format!("{WINDOW} --metric failures --every 1h");
    let points: Vec<Value> = serde_json::from_str(&shown(&path, &format!("{line} --json"), PIPED)).unwrap();
    assert_eq!(
        points.iter().map(|point| point["failure_share"].as_f64().unwrap()).collect::<Vec<_>>(),
        [0.0, 0.0, 1.0]
    );
    let csv = "upstream,start,span_s,failure_share,samples,firm\r\n\
               cerebras/llama-70b,2026-01-02T03:00:00Z,3600,0.0,20,true\r\n\
               groq/llama-70b,2026-01-02T03:00:00Z,3600,0.0,20,true\r\n\
               my-vllm/llama-70b,2026-01-02T03:00:00Z,3600,1.0,20,true\r\n";
    assert_eq!(shown(&path, &format!("{line} --csv"), PIPED), csv);
}

#[tokio::test]
async fn programs_are_told_of_what_is_left_out_elsewhere() {
    let attempt = |n: i64| {
        let won = photofinish_facts::record::AttemptRecord { provider: format!("p{n:02}"), ..sample::won(n) };
        [Record::Race(Box::new(sample::race(n))), Record::Attempt(Box::new(won))]
    };
    let (_directory, path, _store) = store_with((0..64).flat_map(attempt).collect()).await;
    for (line, written) in [("--json", true), ("--csv", true), ("", false), ("--json --provider p01", false)] {
        let line = format!("{WINDOW} {line}");
        let options = Line::try_parse_from(["history"].into_iter().chain(line.split_whitespace())).unwrap().options;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        run(&(&path).into(), &options, PIPED, &mut out, &mut err).unwrap();
        let err = String::from_utf8(err).unwrap();
        let words = "Left out: 2 more series of 2 attempts; the 62 with most are there.\n";
        assert_eq!(err, if written { words } else { "" }, "{line}");
    }
}

#[tokio::test]
async fn an_unknown_figure_is_words_and_no_empty_picture() {
    let unpriced = AttemptRecord { cost_usd_min: None, cost_usd_max: None, ..sample::lost(0, 90_000) };
    let batch = vec![Record::Race(Box::new(sample::race(0))), Record::Attempt(Box::new(unpriced))];
    let (_directory, path, _store) = store_with(batch).await;
    let text = shown(&path, &format!("{WINDOW} --metric cost"), PIPED);
    assert!(
        text.starts_with("Nothing to draw: cost is not known for any of 1 attempt") && !text.contains('│'),
        "{text}"
    );
    assert!(text.contains("input_price"), "{text}");
    assert_ne!(shown(&path, &format!("{WINDOW} --metric cost --json"), PIPED), "[]\n");
}

#[tokio::test]
async fn nothing_recorded_and_nothing_there() {
    let (directory, path, _store) = store_with(Vec::new()).await;
    assert!(shown(&path, "", PIPED).contains("Send a request to `photofinish serve`"));
    assert!(shown(&path, "--since 1h --every 10m", PIPED).contains("a longer --since"));
    assert_eq!(shown(&path, "--json", PIPED), "[]\n");
    assert_eq!(
        shown(&path, "--csv --by user", PIPED),
        "user,start,span_s,quantile,ttft_ms,ttft_over_ms,samples,firm\r\n"
    );
    let absent = directory.path().join("absent.db");
    let options = Line::try_parse_from(["history"]).unwrap().options;
    let error = run(&absent.into(), &options, PIPED, &mut Vec::new(), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("photofinish serve"), "{error}");
}

#[derive(clap::Parser)]
struct ExportLine {
    #[command(flatten)]
    options: HistoryOptions,
}

/// The output of this command line.
fn exported(path: &Path, line: &str) -> String {
    let options = ExportLine::try_parse_from(["history", "export"].into_iter().chain(line.split_whitespace()));
    let mut out = Vec::new();
    run(&path.into(), &options.unwrap().options, PIPED, &mut out, &mut Vec::new()).unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn an_export_has_every_declared_column() {
    let (_directory, path, _store) = store_with(twenty_races()).await;
    let text = exported(&path, "");
    let (names, rows) = text.split_once("\r\n").unwrap();
    assert!(names.split(',').eq(AttemptRecord::COLUMNS.iter().map(|column| column.name)));
    assert_eq!(rows.lines().count(), 60);
    assert_eq!(exported(&path, "--provider groq").lines().count(), 21);
    assert_eq!(exported(&path, "--table race --provider groq").lines().count(), 21);
    assert_eq!(exported(&path, "--model other --json"), "");
    let text = exported(&path, "--table race --json --until 2026-01-02T03:05:00Z");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(names.into_iter().eq(RaceRecord::COLUMNS.iter().map(|column| column.name)));
    assert_eq!((&rows[0]["model"], &rows[0]["winner"]), (&Value::from("llama-3.3-70b"), &Value::from(0)));
}
