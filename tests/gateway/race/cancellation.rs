//! Clients that leave or stop reading, and what happens to the upstreams then; and losers that are audited.

use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{ending, first_text, read_response, silent};
use crate::harness::gateway::{Rows, Setup, assert_row};
use crate::support::{FakeProvider, Gate, Script};

fn assert_client_gone(rows: &Rows) {
    assert_eq!(rows.races[0]["outcome"], "client_gone");
    for attempt in &rows.attempts {
        assert_eq!(ending(attempt), json!({"outcome": "client_gone", "ttft_event": 0, "censor_cause": "client_gone"}));
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_token_stops_everything() {
    for stream in [true, false] {
        let a = FakeProvider::start(vec![silent()]).await;
        let b = FakeProvider::start(vec![Script::sse().until_closed()]).await;
        let c = FakeProvider::start(vec![Script::sse().role().until_closed()]).await;
        let gateway = Setup::over(&[&a, &b, &c]).start().await;
        let client = gateway.ask(&json!({"model": "m", "stream": stream, "messages": [{}]})).await;
        for fake in [&a, &b, &c] {
            fake.request(0).await;
        }
        client.close();
        for fake in [&a, &b, &c] {
            fake.closed(0).await;
        }
        let rows = gateway.stop().await;
        assert_eq!(rows.attempts.len(), 3);
        assert_client_gone(&rows);
        assert_row!(&rows.races[0], json!({"http_status": null, "winner": null}));
    }
}

#[tokio::test]
async fn a_client_that_resets_is_noticed_too() {
    let a = FakeProvider::start(vec![silent()]).await;
    let gateway = Setup::over(&[&a]).start().await;
    let client = gateway.streaming().await;
    a.request(0).await;
    client.reset();
    a.closed(0).await;
    assert_client_gone(&gateway.stop().await);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_stops_the_winner() {
    let a = FakeProvider::start(vec![Script::sse().role().token("x").until_closed()]).await;
    let b = FakeProvider::start(vec![silent()]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "x");
    b.closed(0).await;
    client.close();
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"outcome": "client_gone", "winner": 0, "http_status": 200}));
    assert_eq!(ending(rows.one("a")), json!({"outcome": "client_gone", "ttft_event": 1}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
}

#[tokio::test]
async fn a_client_that_leaves_during_assembly_stops_the_winner() {
    let sent = Gate::new();
    let a = FakeProvider::start(vec![Script::sse().role().token("x").until_closed()]).await;
    let b = FakeProvider::start(vec![Script::new().reached(&sent).until_closed()]).await;
    let gateway = Setup::over(&[&a, &b]).start().await;
    let client = gateway.whole().await;
    // The loser is closed once there is a winner.
    b.closed(0).await;
    client.close();
    a.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(rows.races[0]["outcome"], "client_gone");
    assert_eq!(ending(rows.one("a")), json!({"outcome": "client_gone", "ttft_event": 1}));
    assert_eq!(ending(rows.one("b")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
}

#[tokio::test]
async fn a_slow_client_is_not_an_idle_provider() {
    const TOKENS: usize = 64;
    // More than all sockets on the way hold.
    let token = "x".repeat(1 << 19);
    let began = Gate::new();
    let tokens =
        (0..TOKENS).fold(Script::sse().role().token("first").reached(&began), |script, _| script.token(&token));
    let fake = FakeProvider::start(vec![tokens.finish("stop").done().end()]).await;
    // A provider that only lets the time of several idle timeouts pass.
    let clock = FakeProvider::start(vec![Script::new().delay(Duration::from_secs(2)).head(200, &[]).end()]).await;
    let setup = Setup::over(&[&fake]).race("timeouts = { idle = \"500ms\" }");
    let gateway = setup.provider("clock", &clock, "").model("[models.m]\nupstreams = [\"a/m\"]").start().await;
    let mut slow = gateway.streaming().await;
    began.passed().await;
    let head = slow.head().await;
    read_response(&mut gateway.ask(&json!({"model": "clock/m", "messages": [{}]})).await).await;
    assert!(fake.exchanges()[0].answered.is_none(), "it is held up by the client that does not read");
    let body = slow.body(&head).await.unwrap();
    assert!(body.len() > TOKENS << 19 && body.ends_with(b"data: [DONE]\n\n"));
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "won", "ttft_event": 1}));
    assert_eq!(rows.one("a")["client_stalled"], 1);
}

#[tokio::test]
async fn an_audited_loser_runs_on_to_its_first_token() {
    let late_may = Gate::new();
    let loser_script = Script::sse().wait(&late_may).role().token("late").until_closed();
    let loser = FakeProvider::start(vec![loser_script]).await;
    let winner = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&loser, &winner]).race("audit = 1.0").start().await;
    let mut client = gateway.streaming().await;
    loser.request(0).await;
    let response = read_response(&mut client).await;
    assert!(response.upstream() == "b/m" && response.is_done(), "the client does not wait for the audit");
    assert!(loser.exchanges()[0].closed.is_none());
    late_may.open();
    loser.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 1}));
    assert_row!(rows.one("a"), json!({"audited": 1, "p_audit": 1.0, "first_kind": "text"}));
    assert_row!(rows.one("b"), json!({"audited": 0, "outcome": "won"}));
}

#[tokio::test]
async fn an_audit_that_fails_is_a_failure_and_no_loss() {
    let fall = Gate::new();
    let broken = Script::sse().wait(&fall).role().event(r#"{"error":{"message":"boom"}}"#).until_closed();
    let loser = FakeProvider::start(vec![broken]).await;
    let winner = FakeProvider::start(vec![Script::stream(&["hello"])]).await;
    let gateway = Setup::over(&[&loser, &winner]).race("audit = 1.0").start().await;
    let mut client = gateway.streaming().await;
    loser.request(0).await;
    assert!(read_response(&mut client).await.is_done());
    fall.open();
    loser.closed(0).await;
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed", "failure": "in_stream_error", "failure_phase": "first_token"})
    );
}

#[tokio::test]
async fn a_client_that_pipelined_a_request_and_leaves_is_noticed() {
    // The second is more than hyper reads at once, and no more than the system buffers.
    for next in ["", &" ".repeat(1 << 15)] {
        let a = FakeProvider::start(vec![Script::sse().role().token("x").until_closed()]).await;
        let b = FakeProvider::start(vec![silent()]).await;
        let gateway = Setup::over(&[&a, &b]).start().await;
        let mut client = gateway.streaming().await;
        client.request("GET", "/healthz", &[], next).await;
        client.head().await;
        assert_eq!(first_text(&mut client).await, "x");
        b.closed(0).await;
        client.close();
        a.closed(0).await;
        assert_eq!(gateway.stop().await.races[0]["outcome"], "client_gone");
    }
}
