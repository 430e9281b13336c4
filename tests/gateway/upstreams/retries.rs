//! Retries of the same upstream after a short wait, a reset or an error, before or alongside the next upstream.

use serde_json::json;

use crate::harness::answer::{error_and_close, read_response, stream_after};
use crate::harness::gateway::{Row, Setup, assert_row, assert_rows};
use crate::support::{FakeProvider, Gate, Script};

const LIMITED: &str = r#"{"error":{"message":"slow down"}}"#;

fn limited(wait_ms: &str) -> Script {
    Script::status(429, &[("retry-after-ms", wait_ms)], LIMITED)
}

/// Microseconds from the start of one attempt to that of another.
fn gap_us(from: &Row, to: &Row) -> i64 {
    let at = |row: &Row, column: &str| row[column].as_i64().unwrap();
    at(to, "dispatch_us") - at(from, "dispatch_us")
}

#[tokio::test]
async fn a_short_retry_after_is_waited_out_before_the_next_one_starts() {
    let a = FakeProvider::start(vec![limited("300"), Script::stream(&["hello"])]).await;
    let b = FakeProvider::start(vec![Script::stream(&["other"])]).await;
    let setup = Setup::new().provider("a", &a, "api_key = \"sk-one\"").provider("b", &b, "");
    let gateway = setup.race("policy = \"fallback\"\nretries = 1").start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!((response.streamed_text().as_str(), response.header("x-photofinish-attempts")), ("hello", "2"));
    let rows = gateway.stop().await;
    let attempts = rows.of(0);
    assert_rows(
        &attempts,
        &[
            json!({"provider": "a", "start_reason": "first", "outcome": "failed"}),
            json!({"provider": "a", "start_reason": "retry", "outcome": "won"}),
        ],
    );
    assert!(gap_us(attempts[0], attempts[1]) >= 300_000, "its wait is over");
    assert_eq!((a.requests().len(), b.requests().len()), (2, 0));
}

#[tokio::test]
async fn a_wait_over_the_limit_starts_the_next_upstream_at_once() {
    let a = FakeProvider::start(vec![limited("1001")]).await;
    let b = FakeProvider::start(vec![Script::stream(&["other"])]).await;
    let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nretries = 3\nretry_wait = \"1s\"");
    let gateway = setup.start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "other");
    let rows = gateway.stop().await;
    assert_rows(
        &rows.of(0),
        &[
            json!({"provider": "a", "start_reason": "first", "outcome": "failed"}),
            json!({"provider": "b", "start_reason": "fallback", "outcome": "won"}),
        ],
    );
}

#[tokio::test]
async fn without_retries_nothing_is_retried() {
    let a = FakeProvider::start(vec![error_and_close(500, "{}")]).await;
    let gateway = Setup::over(&[&a]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert_eq!(gateway.stop().await.of(0).len(), 1);
}

#[tokio::test]
async fn a_reset_an_error_and_a_broken_answer_are_retried() {
    let broken = || Script::sse().role().token("half").reset();
    for first in [Script::new().reset(), error_and_close(500, "{}"), Script::status(503, &[], "{}"), broken()] {
        let a = FakeProvider::start(vec![first, Script::stream(&["hello"])]).await;
        let b = FakeProvider::start(vec![Script::stream(&["other"])]).await;
        let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nretries = 1").start().await;
        let response = read_response(&mut gateway.whole().await).await;
        assert_eq!(response.json()["choices"][0]["message"]["content"], "hello");
        let rows = gateway.stop().await;
        assert_row!(rows.of(0)[1], json!({"provider": "a", "start_reason": "retry", "outcome": "won"}));
        assert_eq!(b.requests().len(), 0);
    }
}

#[tokio::test]
async fn after_its_retries_the_next_upstream_is_asked() {
    let a = FakeProvider::answering(|_| error_and_close(500, "{}")).await;
    let b = FakeProvider::start(vec![Script::stream(&["other"])]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nretries = 2").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "other");
    assert_eq!(gateway.stop().await.of(0).len(), 4);
    assert_eq!(a.requests().len(), 3);
    let gateway = Setup::over(&[&a]).race("policy = \"fallback\"\nretries = 9\nmax_attempts = 3").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502, "a retry is an attempt");
    assert_eq!(gateway.stop().await.of(0).len(), 3);
}

#[tokio::test]
async fn in_a_race_a_retry_runs_beside_the_other_attempts() {
    let may = Gate::new();
    let held = may.clone();
    let a = FakeProvider::start(vec![limited("50"), Script::stream(&["hello"])]).await;
    let b = FakeProvider::answering(move |_| stream_after(&held, &["other"])).await;
    let gateway = Setup::over(&[&a, &b]).race("retries = 1").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    may.open();
    let rows = gateway.stop().await;
    let expected = [
        json!({"provider": "a", "start_reason": "first", "outcome": "failed"}),
        json!({"provider": "b", "start_reason": "first", "outcome": "lost"}),
        json!({"provider": "a", "start_reason": "retry", "outcome": "won"}),
    ];
    assert_rows(&rows.of(0), &expected);
}

#[tokio::test]
async fn a_bad_request_is_not_retried() {
    let policy = r#"{"error":{"code":"content_filter","message":"no"}}"#;
    for (status, body) in [(400, "{}"), (401, "{}"), (404, "{}"), (413, "{}"), (400, policy)] {
        let a = FakeProvider::answering(move |_| Script::status(status, &[], body)).await;
        let gateway = Setup::over(&[&a]).race("retries = 3").start().await;
        assert!(read_response(&mut gateway.streaming().await).await.status >= 400);
        assert_eq!(gateway.stop().await.of(0).len(), 1, "{status} {body}");
    }
}

#[tokio::test]
async fn another_key_is_used_before_waiting() {
    let key = "api_key = [\"sk-one\", \"sk-two\"]";
    let a = FakeProvider::start(vec![limited("60000"), Script::stream(&["hello"])]).await;
    let gateway = Setup::new().provider("a", &a, key).race("retries = 1").start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), "hello");
    gateway.stop().await;
    let sent = a.requests();
    assert_ne!(sent[0].header("authorization"), sent[1].header("authorization"));
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_wait() {
    let a = FakeProvider::start(vec![limited("60000")]).await;
    let gateway = Setup::over(&[&a]).race("retries = 1\nretry_wait = \"2m\"").start().await;
    let client = gateway.streaming().await;
    a.answered(0).await;
    client.close();
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), a.requests().len()), (1, 1));
}
