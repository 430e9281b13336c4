//! How a stream begins, and how it ends if it breaks after its first token, for every surface over every dialect.

use serde_json::json;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::assert_row;
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Gate, Script};

rules! { everywhere:
    the_prelude_is_held_back_and_sent_whole,
    a_reset_after_the_commit_is_an_error_event,
    a_close_after_the_commit_is_an_error_event,
    an_end_without_a_finish_reason_is_an_error_event,
    an_error_frame_after_the_commit_is_translated,
    silence_after_the_commit_is_an_error_event,
    a_break_before_the_end_is_rescued_for_a_client_that_does_not_stream,
}
rules! { natively: an_error_frame_after_the_commit_is_passed_on_as_it_came }

async fn the_prelude_is_held_back_and_sent_whole(pair: Pair) {
    let (role_sent, token_may, rest_may) = (Gate::new(), Gate::new(), Gate::new());
    let script = pair.open().role().reached(&role_sent).wait(&token_may).token("one").wait(&rest_may).token("two");
    let fake = FakeProvider::start(vec![script.finish("stop").done().end()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let mut client = pair.streaming(&gateway).await;
    role_sent.passed().await;
    token_may.open();
    client.head().await;
    let first = client.chunk().await.unwrap().unwrap();
    let said: String = crate::support::sse_events(&first).iter().map(|event| pair.surface.text(event)).collect();
    assert_eq!(said, "one", "the first bytes are the prelude with the first token");
    if pair.surface.dialect() == pair.dialect {
        assert_eq!(first, pair.open().role().token("one").body());
    }
    rest_may.open();
    assert_eq!(pair.first_text(&mut client).await, "two");
    while client.event().await.unwrap().is_some() {}
    gateway.stop().await;
}

/// Checks that a stream that breaks after its first token ends with an error event and without its normal end. Returns
/// the event's message.
async fn breaks(pair: Pair, script: Script, race: &str, failure: &str) -> String {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = pair.over(&[&fake]).race(race).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.status, pair.surface.streamed_text(&response).as_str()), (200, "x"));
    let message = pair.surface.assert_broken(&response);
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": failure, "failure_phase": "stream"})
    );
    assert_row!(&rows.races[0], json!({"outcome": "error", "http_status": 200, "winner": 0}));
    message
}

fn begun(pair: Pair) -> Script {
    pair.open().role().token("x")
}

async fn a_reset_after_the_commit_is_an_error_event(pair: Pair) {
    let fallen = Gate::new();
    let fake = FakeProvider::start(vec![begun(pair).wait(&fallen).reset()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let mut client = pair.streaming(&gateway).await;
    client.head().await;
    assert_eq!(pair.first_text(&mut client).await, "x");
    fallen.open();
    let mut found = 0;
    while let Some(event) = client.event().await.unwrap() {
        assert!(event.contains("error"), "{event}");
        found += 1;
    }
    // The clients of Responses disagree about which event it is, so both are sent.
    assert_eq!(found, if pair.surface == Surface::Responses { 2 } else { 1 });
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "reset", "failure_phase": "stream"})
    );
}

async fn a_close_after_the_commit_is_an_error_event(pair: Pair) {
    breaks(pair, begun(pair).close(), "", "closed").await;
}

async fn an_end_without_a_finish_reason_is_an_error_event(pair: Pair) {
    breaks(pair, begun(pair).end(), "", "closed").await;
}

async fn an_error_frame_after_the_commit_is_translated(pair: Pair) {
    let message = breaks(pair, begun(pair).error().until_closed(), "", "overloaded").await;
    assert!(message.contains("The server is overloaded"), "{message}");
}

async fn an_error_frame_after_the_commit_is_passed_on_as_it_came(pair: Pair) {
    let script = begun(pair).error();
    let fake = FakeProvider::start(vec![script.clone().until_closed()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!(response.body.as_bytes(), script.body());
    gateway.stop().await;
}

async fn silence_after_the_commit_is_an_error_event(pair: Pair) {
    breaks(pair, begun(pair).until_closed(), "timeouts = { idle = \"500ms\" }", "idle_timeout").await;
}

async fn a_break_before_the_end_is_rescued_for_a_client_that_does_not_stream(pair: Pair) {
    let a = FakeProvider::start(vec![begun(pair).error().until_closed()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole", " answer"])]).await;
    let gateway = pair.over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!(
        (response.status, response.upstream(), response.header("content-type")),
        (200, "b/m", "application/json")
    );
    let answer = response.json();
    assert_eq!(pair.surface.whole_text(&answer), "whole answer");
    assert!(
        ["stop", "completed", "end_turn", "STOP"].contains(&pair.surface.whole_finish(&answer)),
        "{}",
        response.body
    );
    if pair.dialect != crate::support::Dialect::OpenAi {
        assert_eq!(pair.surface.whole_usage(&answer), (10, 2), "{}", response.body);
    }
    let rows = gateway.stop().await;
    assert_eq!(
        ending(rows.one("a")),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "overloaded", "failure_phase": "stream"})
    );
    assert_row!(rows.one("b"), json!({"outcome": "won", "start_reason": "fallback", "dialect": pair.dialect.name()}));
}
