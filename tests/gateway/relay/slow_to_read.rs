//! Provider answers that take long to parse: other requests do not wait, deadlines hold, and shutdown works.

use std::fmt::Write as _;

use serde_json::json;

use crate::harness::answer::{ending, first_text, read_response};
use crate::harness::gateway::{Setup, assert_row};
use crate::support::{FakeProvider, RawClient, Script, soon};

/// Two of these took minutes when each line cost as much as all lines before it, or all after it.
#[tokio::test]
async fn an_event_with_very_many_lines_is_read_in_linear_time() {
    for (line, lines) in [("data:y\n", 200_000), (":\r", 300_000)] {
        let event = line.repeat(lines) + "\n";
        let script = Script::sse().role().token("a").chunk(&event).token("b").finish("stop").done().end();
        let fake = FakeProvider::start(vec![script.clone(), script]).await;
        let gateway = Setup::over(&[&fake]).start().await;
        let mut first = gateway.streaming().await;
        let mut second = gateway.streaming().await;
        let (first, second) =
            soon("both answers", async { tokio::join!(read_response(&mut first), read_response(&mut second)) }).await;
        for response in [&first, &second] {
            assert!(response.is_done(), "{} bytes of {line:?}", response.body.len());
        }
        // Invalid JSON is left out, comments are passed on.
        assert_eq!(first.body.contains(&event), line.starts_with(':'));
        let mut beside = RawClient::connect(gateway.addr()).await;
        beside.request("GET", "/healthz", &[], "").await;
        assert_eq!(read_response(&mut beside).await.status, 200);
        assert_eq!(gateway.stop().await.races.len(), 2);
    }
}

/// Events with one call each and descending indexes.
fn calls(count: usize) -> String {
    (0..count).rev().fold(String::new(), |mut events, at| {
        let call = json!({ "index": at, "id": format!("call_{at}"), "function": { "name": "f", "arguments": "{}" } });
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
        write!(events, "data: {chunk}\n\n").unwrap();
        events
    })
}

#[tokio::test]
async fn too_many_tool_calls_end_a_whole_answer() {
    let flood = Script::sse().role().chunk(calls(6_000)).finish("tool_calls").done().end();
    let fake = FakeProvider::start(vec![flood.clone()]).await;
    let good = FakeProvider::start(vec![Script::stream(&["good"])]).await;
    let gateway = Setup::over(&[&fake, &good]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.status, response.upstream()), (200, "b/m"));
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "endless", "failure_phase": "stream"})
    );
    assert_row!(rows.one("b"), json!({"outcome": "won"}));
}

#[tokio::test]
async fn the_total_deadline_holds_while_an_answer_is_put_together() {
    // Never ends, so only the deadline can end it.
    let details =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_details\":[{\"text\":\"a\"}]}}]}\n\n".repeat(20_000);
    let fake = FakeProvider::start(vec![Script::sse().role().token("a").chunk(details).until_closed()]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { total = \"300ms\" }").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!((response.status, response.error_code().as_str()), (504, "photofinish_timeout"));
    assert_eq!(gateway.stop().await.one("a")["failure"], "timeout");
}

/// An answer that never ends and arrives faster than it is read.
#[tokio::test]
async fn shutdown_ends_a_flood() {
    let flood = ": x\n\n".repeat(200_000);
    let fake = FakeProvider::start(vec![Script::sse().role().token("a").chunk(flood).until_closed()]).await;
    let gateway = Setup::over(&[&fake]).server("drain = \"100ms\"").start().await;
    let mut client = gateway.streaming().await;
    client.head().await;
    assert_eq!(first_text(&mut client).await, "a");
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 1);
}
