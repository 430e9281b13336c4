//! Races that hold a first token back, over sockets: by its history one upstream begins late and ends early. For
//! reading during a hold, see `held_attempt`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use photofinish_facts::record::{
    AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, Record, StartReason, TokenSource,
};
use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Rows, Setup};
use crate::support::{FakeProvider, Gate, Script};

/// For each upstream.
const REQUESTS: i64 = 150;
const TOKENS: i64 = 100;

/// Each request went to only one upstream, alternating; times to first token and per token in milliseconds.
fn history(upstreams: [(&str, i64, i64); 2]) -> Vec<Record> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let turns = (0..REQUESTS * 2).zip(upstreams.iter().cycle());
    turns.flat_map(|(n, upstream)| request(now_ms - (REQUESTS * 2 - n) * 1_000, *upstream)).collect()
}

fn request(at_ms: i64, (provider, ttft_ms, tpot_ms): (&str, i64, i64)) -> [Record; 2] {
    let race_id = format!("{:08x}-{:04x}-7000-8000-000000000000", at_ms >> 16, at_ms & 0xffff);
    // Real upstreams vary a little.
    let first_us = ttft_ms * (950 + at_ms / 2_000 % 11 * 10);
    let last_us = first_us + tpot_ms * 1_000 * (TOKENS - 1);
    let attempt = AttemptRecord {
        first_token_us: Some(first_us),
        second_token_us: Some(first_us + tpot_ms * 1_000),
        last_token_us: Some(last_us),
        ttft_obs_us: Some(first_us),
        ttft_event: Some(1),
        outcome: AttemptOutcome::Won,
        payload_events: TOKENS,
        chars_total: TOKENS * 4,
        chars_first: 4,
        burst: Some(false),
        output_tokens: Some(TOKENS),
        tok_src: TokenSource::Usage,
        ..AttemptRecord::new(race_id.clone(), 0, (provider.to_owned(), "m".to_owned()), StartReason::First)
    };
    let race = RaceRecord {
        race_id,
        started_at: at_ms * 1_000,
        api: "chat",
        model: "m".to_owned(),
        stream: true,
        policy: Some("fallback"),
        optimise: Some("completion"),
        input_bytes: 400,
        input_tokens_estimate: 100,
        attempts: 1,
        winner: Some(0),
        first_token_sent_us: Some(first_us),
        done_us: Some(last_us),
        outcome: RaceOutcome::Ok,
        http_status: Some(200),
        ..RaceRecord::default()
    };
    [Record::Attempt(Box::new(attempt)), Record::Race(Box::new(race))]
}

/// The race of `a`, which begins at once and decodes slowly, and of `b`, which begins later with `rest`. Returns the
/// client's text, its upstream, and the rows.
async fn raced(settings: &str, rest: impl FnOnce(Script) -> Script) -> (String, String, Rows) {
    let begun = Gate::new();
    let slow = Script::sse().role().token("slow").reached(&begun).delay(Duration::from_millis(500));
    let a = FakeProvider::start(vec![slow.finish("stop").done().end()]).await;
    let b = rest(Script::sse().role().wait(&begun).delay(Duration::from_millis(20)));
    let b = FakeProvider::start(vec![b]).await;
    let setup = Setup::over(&[&a, &b]).race("policy = \"race\"\noptimise = \"completion\"").race(settings);
    let gateway = setup.start_after(&history([("a", 100, 40), ("b", 120, 2)])).await;
    let response = read_response(&mut gateway.streaming().await).await;
    let (said, upstream) = (response.streamed_text(), response.upstream().to_owned());
    assert!(response.is_done());
    (said, upstream, gateway.stop().await)
}

/// The end of a provider's attempt in the last race, and the reasons of its plan.
fn found(rows: &Rows, provider: &str) -> (serde_json::Value, serde_json::Value) {
    let last = rows.races.len() - 1;
    let attempts = rows.of(last);
    let row = attempts.iter().find(|attempt| attempt["provider"] == provider).unwrap();
    (ending(row), rows.races[last]["why"].clone())
}

#[tokio::test]
async fn an_attempt_that_is_predicted_to_end_sooner_is_waited_for_and_wins() {
    let quick = |script: Script| script.tokens(&["qu", "ick"]).finish("stop").done().end();
    let (said, upstream, rows) = raced("", quick).await;
    assert_eq!((said.as_str(), upstream.as_str()), ("quick", "b/m"));
    assert_eq!(found(&rows, "a"), (json!({"outcome": "lost", "ttft_event": 1}), json!("listed held")));
    assert_eq!(found(&rows, "b").0, json!({"outcome": "won", "ttft_event": 1}));
}

#[tokio::test]
async fn the_hold_ends_when_the_awaited_attempt_fails() {
    let (said, upstream, rows) = raced("", Script::close).await;
    assert_eq!((said.as_str(), upstream.as_str()), ("slow", "a/m"), "with all that came meanwhile");
    assert_eq!(found(&rows, "a"), (json!({"outcome": "won", "ttft_event": 1}), json!("listed held")));
    assert_eq!(found(&rows, "b").0, json!({"outcome": "failed", "failure": "closed", "failure_phase": "first_token"}));
}

#[tokio::test]
async fn the_hold_ends_after_hold_max() {
    let (said, upstream, rows) = raced("", Script::until_closed).await;
    assert_eq!((said.as_str(), upstream.as_str()), ("slow", "a/m"));
    assert_eq!(
        found(&rows, "b"),
        (json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}), json!("listed held"))
    );
    let (said, _, rows) = raced("hold_max = \"0s\"", Script::until_closed).await;
    assert_eq!((said.as_str(), found(&rows, "a").1), ("slow", json!("listed")));
}
