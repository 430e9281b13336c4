//! Answers without end are cut, by their length and in time, and honest ones are not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{advance_clock, ending, first_text, read_response, read_rest};
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Gate, Script};

rules! { everywhere:
    a_stream_without_end_is_cut_and_not_rescued,
    an_answer_without_end_is_an_error_for_a_client_that_does_not_stream,
}

const HOUR: Duration = Duration::from_secs(3_600);
/// `max_tokens` of the requests.
const ASKED: u64 = 16;
/// As long as a token may be that counts in full, so each event is a token.
const WORD: &str = "word after word after word after word   ";

/// Far more than four times what was asked for, and then silence.
fn goes_on(pair: Pair) -> Script {
    pair.open().role().tokens(&[WORD; 100]).until_closed()
}

async fn a_stream_without_end_is_cut_and_not_rescued(pair: Pair) {
    let (a, b) = (FakeProvider::start(vec![goes_on(pair)]).await, FakeProvider::start(vec![]).await);
    let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"\nrescue = \"continue\"").start().await;
    let body = pair.surface.limited("m", true, ASKED);
    let response = read_response(&mut gateway.post(&pair.surface.path_for("m", true), &body).await).await;
    let message = pair.surface.assert_broken(&response);
    assert!(message.contains("without end: more than 4 times its max_tokens, 16"), "{message}");
    assert_eq!(pair.surface.streamed_text(&response), WORD.repeat(64), "four times what was asked for");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "endless", "failure_phase": "stream"})
    );
    assert_row!(&rows.races[0], json!({"outcome": "error", "http_status": 200, "winner": 0, "attempts": 1}));
}

async fn an_answer_without_end_is_an_error_for_a_client_that_does_not_stream(pair: Pair) {
    let a = FakeProvider::answering(move |_| goes_on(pair)).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"\nretries = 1").start().await;
    let ask = |model: &str| (pair.surface.path_for(model, false), pair.surface.limited(model, false, ASKED));
    let (path, body) = ask("a/m");
    let response = read_response(&mut gateway.post(&path, &body).await).await;
    assert_eq!(response.status, 502, "{}", response.body);
    assert!(pair.surface.error(&response).1.contains("a/m endless"), "{}", response.body);
    a.closed(0).await;
    let (path, body) = ask("m");
    let response = read_response(&mut gateway.post(&path, &body).await).await;
    assert_eq!((response.status, pair.surface.whole_text(&response.json()).as_str()), (200, "whole"));
    assert_eq!(a.requests().len(), 2, "it would go on as long a second time");
    let rows = gateway.stop().await;
    for row in rows.of(0).iter().chain(&rows.of(1)).filter(|row| row["provider"] == "a") {
        assert_row!(row, json!({"outcome": "failed_mid", "failure": "endless", "failure_phase": "stream"}));
    }
}

/// Asks for a stream of chat with these members, and returns the answer and the failure in the row.
async fn chat(script: Script, members: Value) -> (crate::harness::answer::Response, Value) {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let mut body = json!({"model": "m", "stream": true, "messages": [{}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let response = read_response(&mut gateway.ask(&body).await).await;
    let failure = gateway.stop().await.one("a")["failure"].clone();
    (response, failure)
}

#[tokio::test]
async fn every_kind_of_output_can_be_without_end() {
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]});
    let more = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let kinds = [
        ("thinking", json!({"reasoning_content": WORD}), 300),
        ("blanks", json!({"content": " ".repeat(40)}), 100),
        ("single blanks", json!({"content": " "}), 65 * 32),
        ("a refusal", json!({"refusal": WORD}), 100),
        ("arguments", more("\\\"word\\\": 1, \\\"word\\\": 2, \\\"word\\\": 3, "), 100),
        ("sound", json!({"audio": {"data": "A".repeat(70_000)}}), 70),
    ];
    for (kind, delta, events) in kinds {
        let mut script = Script::sse().role();
        if kind == "arguments" {
            script = script.delta(call("{"));
        }
        let script = (0..events).fold(script, |script, _| script.delta(delta.clone())).until_closed();
        let (response, failure) = chat(script, json!({"max_tokens": ASKED})).await;
        Surface::Chat.assert_broken(&response);
        assert_eq!(failure, "endless", "{kind}");
    }
}

#[tokio::test]
async fn a_translated_stream_of_empty_events_is_cut_and_not_rescued() {
    let padding = "x".repeat(7 << 20);
    let empty = json!({"choices": [{"index": 0, "delta": {"content": ""}}], "padding": padding});
    let script = (0..10).fold(Script::sse().role().token("a"), |script, _| script.event(empty.clone()));
    let (a, b) = (FakeProvider::start(vec![script.until_closed()]).await, FakeProvider::start(vec![]).await);
    let race = "policy = \"fallback\"\nrescue = \"continue\"";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let body = Surface::Messages.limited("m", true, ASKED);
    let response = read_response(&mut gateway.post(&Surface::Messages.path_for("m", true), &body).await).await;
    let message = Surface::Messages.assert_broken(&response);
    assert!(message.contains("without end"), "{message}");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "failed_mid", "failure": "endless", "failure_phase": "stream"}));
    assert_row!(&rows.races[0], json!({"outcome": "error", "attempts": 1}));
}

#[tokio::test]
async fn each_way_to_bound_an_answer_counts() {
    let endless = || Script::sse().role().tokens(&[WORD; 300]).until_closed();
    for (members, words) in [
        (json!({"max_tokens": 16}), 64),
        (json!({"max_completion_tokens": 20}), 80),
        (json!({"max_tokens": 1, "max_completion_tokens": 20}), 80),
        (json!({"max_completion_tokens": 20, "max_tokens": 1}), 80),
        (json!({"max_tokens": 3}), 64),
        (json!({"max_tokens": 20, "n": 3}), 240),
    ] {
        let (response, failure) = chat(endless(), members.clone()).await;
        assert_eq!(failure, "endless", "{members}");
        assert_eq!(response.streamed_text(), WORD.repeat(words), "{members}");
    }
}

#[tokio::test]
async fn an_honest_answer_is_whole_however_it_is_cut_into_events() {
    // 16 tokens of the longest kind, a character at a time.
    let blanks = (0..ASKED * 128).fold(Script::sse().role(), |script, _| script.token(" "));
    // Its provider does not count thinking in max_tokens: 1,500 tokens of it.
    let thinks = (0..1_500).fold(Script::sse().role(), |script, _| script.delta(json!({"reasoning_content": "then "})));
    let pictured = Script::sse()
        .role()
        .delta(json!({"images": [{"image_url": {"url": format!("data:image/png;base64,{}", "A".repeat(3 << 20))}}]}));
    for script in [blanks, thinks, pictured] {
        let script = script.token("end").finish("stop").done().end();
        let (response, failure) = chat(script, json!({"max_tokens": ASKED})).await;
        assert!(response.is_done() && response.streamed_text().ends_with("end"), "{}", response.body.len());
        assert_eq!(failure, Value::Null);
    }
}

#[tokio::test]
async fn a_prompt_that_the_answer_repeats_is_no_output() {
    let prompt = "word ".repeat(2_000);
    for (echo, failure) in [(true, Value::Null), (false, json!("endless"))] {
        let words = prompt.as_bytes().chunks(5).map(|word| std::str::from_utf8(word).unwrap());
        let event = |script: Script, word: &str| script.event(json!({"choices": [{"index": 0, "text": word}]}));
        let script = words.fold(Script::sse(), event);
        let script =
            script.event(json!({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})).done().end();
        let fake = FakeProvider::start(vec![script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let body = json!({"model": "m", "stream": true, "prompt": prompt, "max_tokens": 1, "echo": echo});
        read_response(&mut gateway.post("/v1/completions", &body).await).await;
        assert_eq!(gateway.stop().await.one("a")["failure"], failure, "echo: {echo}");
    }
}

#[tokio::test]
async fn an_endless_answer_counts_like_a_broken_one() {
    let fake = FakeProvider::answering(|_| Script::sse().role().tokens(&[WORD; 100]).until_closed()).await;
    let breaker = "breaker = { failures = 1, open = \"1h\", open_max = \"1h\" }";
    let gateway = Setup::over(&[&fake]).race(breaker).start().await;
    let body = json!({"model": "m", "stream": true, "messages": [{}], "max_tokens": ASKED});
    read_response(&mut gateway.ask(&body).await).await;
    assert_eq!(gateway.open_breakers().len(), 1, "{:?}", gateway.open_breakers());
    gateway.stop().await;
}

/// What comes after the first token and is no token.
fn signs_of_life() -> [Script; 3] {
    let begun = || Script::sse().role().token("a");
    [
        begun().comment("ping"),
        begun().delta(json!({"content": ""})),
        // Faster than it is read.
        begun().chunk(": ping\n\n".repeat(100_000)),
    ]
}

#[tokio::test]
async fn a_stream_of_pings_ends_after_an_hour_and_may_be_rescued() {
    for script in signs_of_life() {
        let a = FakeProvider::start(vec![script.until_closed()]).await;
        let b = FakeProvider::start(vec![Script::stream(&["a", "b"])]).await;
        let race = "policy = \"fallback\"\nrescue = \"continue\"\ntimeouts = { idle = \"10h\" }";
        let gateway = Setup::over(&[&a, &b]).race(race).start().await;
        let mut client = gateway.streaming().await;
        let head = client.head().await;
        assert_eq!(first_text(&mut client).await, "a");
        advance_clock(HOUR).await;
        let response = read_rest(&mut client, head).await;
        assert!(response.is_done() && response.streamed_text().ends_with('b'), "{}", response.body.len());
        a.closed(0).await;
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "idle_timeout", "failure_phase": "stream"})
        );
    }
}

#[tokio::test]
async fn a_token_within_the_hour_keeps_a_stream_alive() {
    let (first, second) = (Gate::new(), Gate::new());
    let script = Script::sse().role().token("a").wait(&first).token("b").wait(&second).token("c").finish("stop");
    let fake = FakeProvider::start(vec![script.done().end()]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { idle = \"10h\" }").start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    for (gate, text) in [(first, "a"), (second, "b")] {
        assert_eq!(first_text(&mut client).await, text);
        advance_clock(HOUR * 9 / 10).await;
        gate.open();
    }
    assert_eq!(first_text(&mut client).await, "c");
    assert_eq!(gateway.stop().await.one("a")["outcome"], "won");
}

#[tokio::test]
async fn the_total_of_streams_cuts_an_answer_and_blames_nobody() {
    for script in signs_of_life() {
        let a = FakeProvider::start(vec![script.until_closed()]).await;
        let b = FakeProvider::start(vec![]).await;
        let race = "policy = \"fallback\"\nrescue = \"continue\"\ntimeouts = { stream_total = \"5m\", idle = \"10h\" }
            breaker = { failures = 1, open = \"1h\", open_max = \"1h\" }";
        let gateway = Setup::over(&[&a, &b]).race(race).start().await;
        let mut client = gateway.streaming().await;
        let head = client.head().await;
        assert_eq!(first_text(&mut client).await, "a");
        advance_clock(Duration::from_secs(301)).await;
        let message = Surface::Chat.assert_broken(&read_rest(&mut client, head).await);
        assert!(message.contains("the total deadline passed"), "{message}");
        a.closed(0).await;
        assert!(gateway.open_breakers().is_empty(), "a long answer is not its fault");
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "timeout", "failure_phase": "stream"})
        );
        assert_row!(&rows.races[0], json!({"outcome": "error", "attempts": 1}));
    }
}

#[tokio::test]
async fn a_stream_without_end_in_tokens_is_cut_after_a_day() {
    let fake = FakeProvider::start(vec![Script::sse().role().token("a").until_closed()]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { idle = \"10d\" }").start().await;
    let mut client = gateway.streaming().await;
    let head = client.head().await;
    assert_eq!(first_text(&mut client).await, "a");
    advance_clock(24 * HOUR).await;
    Surface::Chat.assert_broken(&read_rest(&mut client, head).await);
    assert_eq!(gateway.stop().await.one("a")["failure"], "timeout");
}

#[tokio::test]
async fn the_total_of_streams_is_not_that_of_whole_answers() {
    let later = Gate::new();
    let script = Script::sse().role().token("a").wait(&later).token("b").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { stream_total = \"2s\", idle = \"1m\" }").start().await;
    let mut client = gateway.whole().await;
    fake.request(0).await;
    advance_clock(Duration::from_secs(3)).await;
    later.open();
    let response = read_response(&mut client).await;
    assert_eq!(response.json()["choices"][0]["message"]["content"], "ab", "{}", response.body);
    gateway.stop().await;
}
