//! A client that does not stream: its answer is assembled, and a failing winner costs only time.

use serde_json::json;

use crate::harness::answer::{ending, first_text, read_response, silent};
use crate::harness::gateway::{Setup, assert_row, assert_rows};
use crate::support::{FakeProvider, Gate, Script};

const WHOLE: &str = r#"{"id":"w","object":"chat.completion","created":1,"model":"fake","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;

fn dies() -> Script {
    Script::sse().role().token("half").close()
}

#[tokio::test]
async fn an_answer_is_put_together() {
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let script = Script::sse()
        .role()
        .delta(json!({"reasoning_content": "hm"}))
        .tokens(&["a", "b"])
        .delta(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}))
        .delta(call("{\"x\":"))
        .delta(call("1}"))
        .finish("tool_calls")
        .usage(7, 5)
        .done()
        .end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(
        (response.status, response.header("content-type"), response.upstream()),
        (200, "application/json", "a/m")
    );
    let answer = response.json();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "ab");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(choice["message"]["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{\"x\":1}"}));
    assert_eq!(answer["usage"]["total_tokens"], 12);
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "won", "input_tokens": 7, "output_tokens": 5}));
    assert_row!(&rows.races[0], json!({"stream": 0, "outcome": "ok", "http_status": 200}));
}

#[tokio::test]
async fn after_a_dead_winner_untried_upstreams_come_first() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["rescued"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"));
    assert_eq!(response.json()["choices"][0]["message"]["content"], "rescued");
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"})
    );
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback"}));
    assert_row!(&rows.races[0], json!({"winner": 1, "outcome": "ok", "attempts": 2}));
}

#[tokio::test]
async fn after_a_dead_winner_losers_are_asked_again() {
    let die = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("half").wait(&die).close()]).await;
    let b = FakeProvider::start(vec![silent(), Script::stream(&["rescued"])]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.whole().await;
    b.closed(0).await;
    die.open();
    let response = read_response(&mut client).await;
    assert_eq!((response.upstream(), response.header("x-photofinish-attempts")), ("b/m", "3"));
    let rows = gateway.stop().await;
    assert_rows(
        &rows.of(0),
        &[
            json!({"provider": "a", "start_reason": "first", "outcome": "failed_mid", "failure": "closed"}),
            json!({"provider": "b", "start_reason": "first", "outcome": "lost", "failure": null}),
            json!({"provider": "b", "start_reason": "retry", "outcome": "won", "failure": null}),
        ],
    );
}

#[tokio::test]
async fn a_winner_that_falls_silent_is_replaced_too() {
    let a = FakeProvider::start(vec![Script::sse().role().token("half").until_closed()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["rescued"])]).await;
    let race = "policy = \"fallback\"\ntimeouts = { idle = \"300ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(response.json()["choices"][0]["message"]["content"], "rescued");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "idle_timeout", "failure_phase": "stream"})
    );
    assert_eq!(rows.one("b")["outcome"], "won");
}

#[tokio::test]
async fn when_every_rescue_fails_each_failure_is_listed() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], r#"{"error":{"message":"boom"}}"#)]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (502, "photofinish_all_failed"));
    let attempts = &response.json()["error"]["attempts"];
    assert_eq!(pick_attempt(attempts, 0), json!(["a/m", "closed", null]));
    assert_eq!(pick_attempt(attempts, 1), json!(["b/m", "server_error", 500]));
    assert_eq!(attempts[1]["message"], "boom");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"winner": null, "outcome": "error", "http_status": 502}));
}

fn pick_attempt(attempts: &serde_json::Value, index: usize) -> serde_json::Value {
    json!([attempts[index]["upstream"], attempts[index]["failure"], attempts[index]["status"]])
}

#[tokio::test]
async fn a_server_that_does_not_stream_serves_both_ways() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[], WHOLE)).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!(response.header("content-type"), "text/event-stream; charset=utf-8");
    assert!(response.streamed_text() == "hello" && response.is_done(), "{}", response.body);
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(response.json()["choices"][0]["message"]["content"], "hello");
    let rows = gateway.stop().await;
    assert_eq!(ending(&rows.attempts[0]), json!({"outcome": "won", "ttft_event": 1}));
    assert_eq!(ending(&rows.attempts[1]), json!({"outcome": "won"}), "asked for in one piece");
    for attempt in &rows.attempts {
        assert_row!(attempt, json!({"input_tokens": 3, "output_tokens": 2, "finish_reason": "stop"}));
    }
}

#[tokio::test]
async fn a_streaming_client_is_not_rescued() {
    let die = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("half").wait(&die).close()]).await;
    let b = FakeProvider::start(vec![silent(), Script::stream(&["another"])]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "half");
    b.closed(0).await;
    die.open();
    assert!(client.event().await.unwrap().unwrap().contains("photofinish_stream_broken"));
    assert_eq!(client.event().await.unwrap(), None);
    let rows = gateway.stop().await;
    assert_eq!((rows.attempts.len(), b.requests().len()), (2, 1), "the winner never changes silently");
}
