//! A client that does not stream: its answer is put together, and a winner that dies costs it nothing but time.

use serde_json::json;

use crate::harness::answer::{end, first_text, hear, silent};
use crate::harness::gateway::{Setup, pick};
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
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!((heard.status, heard.header("content-type"), heard.upstream()), (200, "application/json", "a/m"));
    let answer = heard.json();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "ab");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(choice["message"]["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{\"x\":1}"}));
    assert_eq!(answer["usage"]["total_tokens"], 12);
    assert_eq!(fake.requests()[0].json()["stream"], true, "upstream it is streamed all the same");
    let rows = gateway.stop().await;
    assert_eq!(pick(rows.one("a"), &["outcome", "input_tokens", "output_tokens"]), json!(["won", 7, 5]));
    assert_eq!(pick(&rows.races[0], &["stream", "outcome", "http_status"]), json!([0, "ok", 200]));
}

#[tokio::test]
async fn after_a_dead_winner_the_untried_come_first() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["rescued"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!((heard.status, heard.upstream()), (200, "b/m"));
    assert_eq!(heard.json()["choices"][0]["message"]["content"], "rescued");
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["failed_mid", 1, null, "closed", "stream"]));
    assert_eq!(pick(rows.one("b"), &["outcome", "start_reason"]), json!(["won", "fallback"]));
    assert_eq!(pick(&rows.races[0], &["winner", "outcome", "attempts"]), json!([1, "ok", 2]));
}

#[tokio::test]
async fn after_a_dead_winner_the_losers_come_again() {
    let die = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("half").wait(&die).close()]).await;
    let b = FakeProvider::start(vec![silent(), Script::stream(&["rescued"])]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.whole().await;
    b.closed(0).await;
    die.open();
    let heard = hear(&mut client).await;
    assert_eq!((heard.upstream(), heard.header("x-photofinish-attempts")), ("b/m", "3"));
    let rows = gateway.stop().await;
    let columns = ["provider", "start_reason", "outcome", "failure"];
    let attempts: Vec<_> = rows.of(0).into_iter().map(|attempt| pick(attempt, &columns)).collect();
    let expected = [
        json!(["a", "first", "failed_mid", "closed"]),
        json!(["b", "first", "lost", null]),
        json!(["b", "retry", "won", null]),
    ];
    assert_eq!(attempts, expected);
}

#[tokio::test]
async fn a_winner_that_falls_silent_is_replaced_too() {
    let a = FakeProvider::start(vec![Script::sse().role().token("half").until_closed()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["rescued"])]).await;
    let race = "policy = \"fallback\"\ntimeouts = { idle = \"300ms\" }";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!(heard.json()["choices"][0]["message"]["content"], "rescued");
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(end(rows.one("a")), json!(["failed_mid", 1, null, "idle_timeout", "stream"]));
    assert_eq!(rows.one("b")["outcome"], "won");
}

#[tokio::test]
async fn when_every_rescue_fails_each_failure_is_listed() {
    let a = FakeProvider::start(vec![dies()]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], r#"{"error":{"message":"boom"}}"#)]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!((heard.status, heard.error_code().as_str()), (502, "photofinish_all_failed"));
    let attempts = &heard.json()["error"]["attempts"];
    assert_eq!(pick_attempt(attempts, 0), json!(["a/m", "closed", null]));
    assert_eq!(pick_attempt(attempts, 1), json!(["b/m", "server_error", 500]));
    assert_eq!(attempts[1]["message"], "boom");
    let rows = gateway.stop().await;
    assert_eq!(pick(&rows.races[0], &["winner", "outcome", "http_status"]), json!([null, "error", 502]));
}

fn pick_attempt(attempts: &serde_json::Value, index: usize) -> serde_json::Value {
    json!([attempts[index]["upstream"], attempts[index]["failure"], attempts[index]["status"]])
}

#[tokio::test]
async fn a_server_that_does_not_stream_serves_both_ways() {
    let fake = FakeProvider::answering(|_| Script::status(200, &[], WHOLE)).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert_eq!(heard.header("content-type"), "text/event-stream; charset=utf-8");
    assert!(heard.said() == "hello" && heard.is_done(), "{}", heard.body);
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!(heard.json()["choices"][0]["message"]["content"], "hello");
    let rows = gateway.stop().await;
    for attempt in &rows.attempts {
        assert_eq!(end(attempt), json!(["won", 1, null, null, null]));
        assert_eq!(pick(attempt, &["input_tokens", "output_tokens", "finish_reason"]), json!([3, 2, "stop"]));
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
