//! The command over real files.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::history::{AttemptOutcome, AttemptRecord, sample};
use crate::store::Record;

async fn store_with(batch: Vec<Record>) -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).await.unwrap();
    store.write(&batch).await.unwrap();
    (directory, path, store)
}

async fn output(path: &Path, options: &Options) -> String {
    let mut out = Vec::new();
    run(path, options, &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

fn attempt(record: AttemptRecord) -> Record {
    Record::Attempt(Box::new(record))
}

/// Forty races: `groq` wins all, `cerebras` is cut off in 39 and fails in one, `my-vllm` always fails.
fn forty_races() -> Vec<Record> {
    (0..40)
        .flat_map(|n| {
            let mut won = sample::won(n);
            (won.reasoning_tokens, won.reasoning_events) = (None, 0);
            let mut lost = sample::lost(n, 100_000);
            if n == 7 {
                lost = AttemptRecord { ordinal: 1, provider: "cerebras".into(), ..sample::failed(n) };
            }
            let race = Record::Race(Box::new(sample::race(n)));
            [race, attempt(won), attempt(lost), attempt(sample::failed(n))]
        })
        .collect()
}

#[tokio::test]
async fn the_plain_table() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = output(&path, &Options::default()).await;
    let cells = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(
        cells("groq"),
        "groq/llama-70b|40|40 (100 %)|0|0|0|100 ms|~100 ms|~100 ms|40|20.0|~20.0|40".split('|').collect::<Vec<_>>()
    );
    assert_eq!(
        cells("cerebras"),
        "cerebras/llama-70b|40|0|1 (3 %)|0|39 (98 %)|> 100 ms|> 100 ms|> 100 ms|0|–|–|0".split('|').collect::<Vec<_>>()
    );
    assert_eq!(cells("my-vllm")[6..], ["–", "–", "–", "0", "–", "–", "0"]);
    assert!(text.contains("120 attempts: all races.") && !text.contains('│') && !text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn every_line_fits_the_terminal() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    for width in [40, 80, 120, 160] {
        let text = output(&path, &Options { width: Some(width), ..Options::default() }).await;
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width) && !text.contains('\u{1b}'), "{width}: {text}");
        // No cell is wrapped or cut.
        for cell in ["groq/llama-70b", "cerebras/llama-70b", "40 (100 %)", "> 100 ms", "~100 ms"] {
            assert!(text.contains(cell), "{width}: {text}");
        }
    }
}

#[tokio::test]
async fn a_narrow_terminal_gets_blocks_in_columns() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = output(&path, &Options { width: Some(80), ..Options::default() }).await;
    let blocks = "\
cerebras/llama-70b
  attempts 40  wins 0           failures 1 (3 %)     empty 0  censored 39 (98 %)
  TTFT p50 > 100 ms  p95 > 100 ms  p99 > 100 ms  TTFT n 0
  tok/s p50 –     p5 –      tok/s n 0

groq/llama-70b
  attempts 40  wins 40 (100 %)  failures 0           empty 0  censored 0
  TTFT p50 100 ms    p95 ~100 ms   p99 ~100 ms   TTFT n 40
  tok/s p50 20.0  p5 ~20.0  tok/s n 40

my-vllm/llama-70b
";
    assert!(text.starts_with(blocks), "{text}");
}

#[tokio::test]
async fn json_has_the_names_of_the_contract() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = output(&path, &Options { json: true, ..Options::default() }).await;
    let objects: Vec<Value> = serde_json::from_str(&text).unwrap();
    let lost = json!({
        "upstream": "cerebras/llama-70b", "attempts": 40, "wins": 0, "failures": 1, "empty": 0, "censored": 39,
        "ttft_p50_ms": null, "ttft_p50_over_ms": 100.0, "ttft_p95_ms": null, "ttft_p95_over_ms": 100.0,
        "ttft_p99_ms": null, "ttft_p99_over_ms": 100.0, "ttft_samples": 0, "tok_s_p50": null, "tok_s_p5": null,
        "tpot_p95_ms": null, "tok_s_samples": 0
    });
    let won = json!({
        "upstream": "groq/llama-70b", "attempts": 40, "wins": 40, "failures": 0, "empty": 0, "censored": 0,
        "ttft_p50_ms": 100.0, "ttft_p95_ms": 100.0, "ttft_p99_ms": 100.0, "ttft_samples": 40, "tok_s_p50": 20.0,
        "tok_s_p5": 20.0, "tpot_p95_ms": 50.0, "tok_s_samples": 40
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
    let text = output(&path, &Options::default()).await;
    assert!(text.contains("Left out: 1 attempt with a"), "{text}");
    let object = output(&path, &Options { json: true, ..Options::default() }).await;
    let objects: Vec<Value> = serde_json::from_str(&object).unwrap();
    assert_eq!(
        ["attempts", "wins", "failures", "empty", "censored"].map(|name| objects[0][name].as_u64().unwrap()),
        [3, 1, 1, 1, 0]
    );
}

#[tokio::test]
async fn nothing_recorded_and_nothing_there() {
    let (directory, path, _store) = store_with(Vec::new()).await;
    assert!(output(&path, &Options::default()).await.contains("Send a request to `photofinish serve`"));
    let narrow =
        Options { since: Some(Duration::from_secs(3_600)), provider: Some("groq".into()), ..Options::default() };
    let text = output(&path, &narrow).await;
    assert!(text.contains("races begun since 20") && text.contains("provider groq"), "{text}");
    assert_eq!(output(&path, &Options { json: true, ..narrow }).await, "[]\n");

    let absent = directory.path().join("absent.db");
    let error = run(&absent, &Options::default(), &mut Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains(absent.to_str().unwrap()) && error.contains("photofinish serve"), "{error}");
}
