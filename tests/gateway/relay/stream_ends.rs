//! Streams that end without their last event and are still complete; and refusals, which count before their body is
//! read.

use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{Response, advance_clock_until, ending, read_response};
use crate::harness::gateway::{Rows, Setup};
use crate::support::{FakeProvider, Gate, Script};

/// A streaming and a whole request to one provider, each answered by the same script.
async fn both_ways(script: impl Fn() -> Script) -> ([Response; 2], Rows) {
    let fake = FakeProvider::start(vec![script(), script()]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { idle = \"1s\" }").start().await;
    let (mut streaming, mut whole) = (gateway.streaming().await, gateway.whole().await);
    let streamed = advance_clock_until(read_response(&mut streaming)).await;
    let whole = advance_clock_until(read_response(&mut whole)).await;
    ([streamed, whole], gateway.stop().await)
}

fn assert_served([streamed, whole]: &[Response; 2], rows: &Rows) {
    assert!(streamed.is_done() && streamed.streamed_text() == "hi", "{}", streamed.body);
    assert_eq!(whole.json()["choices"][0]["message"]["content"], "hi", "{}", whole.body);
    for attempt in &rows.attempts {
        assert_eq!(ending(attempt), json!({"outcome": "won", "ttft_event": 1}));
    }
    assert!(rows.races.iter().all(|race| race["outcome"] == "ok"));
}

fn finished() -> Script {
    Script::sse().role().token("hi").finish("stop")
}

#[tokio::test]
async fn silence_after_the_finish_reason_is_a_complete_end() {
    let (response, rows) = both_ways(|| finished().until_closed()).await;
    assert_served(&response, &rows);
}

#[tokio::test]
async fn a_break_after_the_finish_reason_is_a_complete_end() {
    for broken in [Script::close, Script::reset] {
        let finish_seen = Gate::new();
        let fake = FakeProvider::start(vec![broken(finished().wait(&finish_seen))]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let mut client = gateway.streaming().await;
        client.head().await;
        while !client.event().await.unwrap().unwrap().contains("\"stop\"") {}
        finish_seen.open();
        assert_eq!(client.event().await.unwrap().as_deref(), Some("[DONE]"));
        assert!(client.event().await.unwrap().is_none());
        let rows = gateway.stop().await;
        assert_eq!(ending(&rows.attempts[0]), json!({"outcome": "won", "ttft_event": 1}));
    }
}

#[tokio::test]
async fn an_end_without_done_is_a_complete_end() {
    let (response, rows) = both_ways(|| finished().end()).await;
    assert_served(&response, &rows);
}

#[tokio::test]
async fn a_refusal_counts_before_its_body_is_read() {
    let never = Gate::new();
    let slow = Script::new().head(500, &[("content-type", "application/json"), ("content-length", "99")]).wait(&never);
    let refusing = FakeProvider::start(vec![slow]).await;
    let healthy = FakeProvider::start(vec![Script::stream(&["hi"])]).await;
    let gateway = Setup::over(&[&refusing, &healthy])
        .race("policy = \"fallback\"\ntimeouts = { first_token = \"20s\" }")
        .start()
        .await;
    let response =
        tokio::time::timeout(Duration::from_secs(10), read_response(&mut gateway.streaming().await)).await.unwrap();
    assert_eq!((response.upstream(), response.streamed_text().as_str()), ("b/m", "hi"));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "server_error", "failure_phase": "headers"})
    );
}

#[tokio::test]
async fn a_refusal_with_a_cut_body_is_not_censored() {
    let (head_is_out, never) = (Gate::new(), Gate::new());
    let slow = Script::new().head(429, &[("content-length", "99")]).reached(&head_is_out).wait(&never);
    let refusing = FakeProvider::start(vec![slow]).await;
    let winner =
        FakeProvider::start(vec![Script::sse().role().wait(&head_is_out).token("hi").finish("stop").done().end()])
            .await;
    let gateway = Setup::over(&[&refusing, &winner]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!(response.upstream(), "b/m");
    let rows = gateway.stop().await;
    let row = rows.one("a");
    // Either it was cut before its head was read, or it is a refusal; never a censored 429.
    assert!(row["http_status"].is_null() || row["failure"] == "rate_limited", "{row:?}");
}

#[tokio::test]
async fn a_request_error_in_a_200_gets_its_real_status() {
    let frame =
        json!({"error": {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}});
    let ([streamed, whole], rows) = both_ways(|| Script::sse().event(&frame).end()).await;
    for response in [&streamed, &whole] {
        assert_eq!((response.status, response.json()), (400, frame.clone()), "{}", response.body);
    }
    assert!(rows.attempts.iter().all(|attempt| attempt["failure"] == "context_length"));
}

#[tokio::test]
async fn an_error_event_is_in_the_shape_that_sdks_read() {
    let bare = "{\"error\":\"the model crashed\"}\n";
    let fake = FakeProvider::start(vec![Script::sse().role().token("hi").chunk(bare).end()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    let last: serde_json::Value = serde_json::from_str(response.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "photofinish_stream_broken", "{}", response.body);
    assert!(last["error"]["message"].as_str().unwrap().contains("the model crashed"));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "in_stream_error", "failure_phase": "stream"})
    );
}

/// Two of three candidates fail at once while the third is ready: every started attempt has a row.
#[tokio::test]
async fn an_attempt_that_is_cut_before_its_first_poll_has_a_row() {
    for _ in 0..20 {
        let go = Gate::new();
        let failing = FakeProvider::start(vec![Script::new().wait(&go).head(500, &[("content-length", "0")])]).await;
        let winner = FakeProvider::start(vec![Script::sse().wait(&go).token("hi").finish("stop").done().end()]).await;
        let third = FakeProvider::start(vec![Script::stream(&["late"])]).await;
        let gateway = Setup::new()
            .provider("a", &failing, "")
            .provider("b", &winner, "")
            .provider("c", &third, "")
            .model("[models.m]\nupstreams = [\"a/m\", \"b/m\", \"c/m\"]\npolicy = \"hedge\"\nhedge_after = \"1ms\"")
            .start()
            .await;
        let mut client = gateway.streaming().await;
        winner.request(0).await;
        go.open();
        read_response(&mut client).await;
        // `stop` compares rows and attempts.
        gateway.stop().await;
    }
}
