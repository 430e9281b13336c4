//! Events that cannot be read. What can be read leniently is; what may have carried a part of the answer breaks it; a few
//! words are left out.

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Script};

rules! { everywhere:
    an_answer_with_a_hole_never_ends_well,
    an_answer_that_begins_with_a_hole_loses,
    damage_after_the_end_is_no_hole,
    words_that_are_no_json_are_left_out,
}
rules! { over_chat:
    bytes_that_are_no_utf_8_are_unknown_characters,
    a_number_that_json_lacks_is_null_outside_arguments,
    bare_json_is_an_event,
}

const FALLBACK: &str = "policy = \"fallback\"";

async fn asked(pair: Pair, gateway: &TestGateway, stream: bool) -> Response {
    read_response(&mut gateway.post(&pair.surface.path_for("m", stream), &pair.surface.body("m", stream)).await).await
}

async fn an_answer_with_a_hole_never_ends_well(pair: Pair) {
    let holed = move || pair.open().role().token("a").chunk(pair.dialect.damaged()).token("b").finish("stop").done();
    let a = FakeProvider::start(vec![holed().end(), holed().end()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let whole = asked(pair, &gateway, false).await;
    assert_eq!((whole.status, whole.upstream()), (200, "b/m"), "{}", whole.body);
    assert_eq!(pair.surface.whole_text(&whole.json()), "whole");
    let streamed = asked(pair, &gateway, true).await;
    let message = pair.surface.assert_broken(&streamed);
    assert!(message.contains("cannot be read"), "{message}");
    assert_eq!(pair.surface.streamed_text(&streamed), "a");
    let rows = gateway.stop().await;
    for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
        let expected =
            json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "malformed", "failure_phase": "stream"});
        assert_eq!(ending(row), expected);
    }
}

async fn an_answer_that_begins_with_a_hole_loses(pair: Pair) {
    let holed = move || pair.open().role().chunk(pair.dialect.damaged()).token("b").finish("stop").done();
    let a = FakeProvider::start(vec![holed().end(), holed().end()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"]), pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    for stream in [true, false] {
        assert_eq!(asked(pair, &gateway, stream).await.upstream(), "b/m");
    }
    let rows = gateway.stop().await;
    for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
        let expected = json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"});
        assert_eq!(ending(row), expected);
    }
}

async fn damage_after_the_end_is_no_hole(pair: Pair) {
    let script = move || pair.open().role().token("ab").finish("stop").done().chunk(pair.dialect.damaged()).end();
    is_served(pair, script).await;
}

async fn words_that_are_no_json_are_left_out(pair: Pair) {
    let noisy = move |script: Script| pair.dialect.noise().into_iter().fold(script, Script::chunk);
    is_served(pair, move || noisy(noisy(pair.open().role()).token("a")).token("b").finish("stop").done().end()).await;
}

/// The answer `ab` of this script is served well, streamed and whole.
async fn is_served(pair: Pair, script: impl Fn() -> Script + Send + Sync + 'static) {
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = pair.over(&[&fake]).start().await;
    let streamed = asked(pair, &gateway, true).await;
    // A client of the same dialect gets what it can read.
    if !streamed.body.contains("-Infinity") {
        assert_eq!(pair.surface.streamed_text(&streamed), "ab", "{}", streamed.body);
    }
    if pair.surface.dialect() != pair.dialect {
        pair.surface.assert_complete(&streamed);
    }
    let whole = asked(pair, &gateway, false).await;
    assert_eq!(pair.surface.whole_text(&whole.json()), "ab", "{}", whole.body);
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{rows:#?}");
}

async fn bytes_that_are_no_utf_8_are_unknown_characters(pair: Pair) {
    let raw =
        &b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xe9 \"},\"finish_reason\":null}]}\n\n"[..];
    let script = move || Script::sse().role().chunk(raw).token("b").chunk(raw).token("b").finish("stop").done().end();
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = pair.over(&[&fake]).start().await;
    let mut client = pair.streaming(&gateway).await;
    let head = client.head().await;
    let body = client.body(&head).await.unwrap();
    if pair.surface == Surface::Chat {
        assert_eq!(body.windows(raw.len()).filter(|part| part == &raw).count(), 2, "byte for byte");
    } else {
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(body.matches("caf\u{fffd} ").count() % 2, 0, "{body}");
        assert!(body.contains("caf\u{fffd} "), "{body}");
    }
    let whole = asked(pair, &gateway, false).await.json();
    assert_eq!(pair.surface.whole_text(&whole), "caf\u{fffd} bcaf\u{fffd} b");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"), "{rows:#?}");
}

async fn a_number_that_json_lacks_is_null_outside_arguments(pair: Pair) {
    let good = r#"{"choices":[{"index":0,"delta":{"content":"ab"},"logprobs":{"content":[{"token":"ab","logprob":-Infinity}]},"finish_reason":null}]}"#;
    let in_call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":{"x":NaN}}}]},"finish_reason":null}]}"#;
    is_served(pair, move || Script::sse().role().event(good).finish("stop").done().end()).await;
    let a = FakeProvider::start(vec![Script::sse().role().event(in_call).finish("tool_calls").done().end()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    assert_eq!(asked(pair, &gateway, false).await.upstream(), "b/m");
    assert_eq!(gateway.stop().await.one("a")["failure"], "malformed");
}

/// Also over several lines, and next to the fields of an event.
async fn bare_json_is_an_event(pair: Pair) {
    let bare = |text: &str| format!("{{\"choices\":[{{\"index\":0,\n \"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let script = move || Script::sse().role().chunk(bare("a")).chunk(format!("id: 7\n{}", bare("b")));
    is_served(pair, move || script().finish("stop").done().end()).await;
}

#[tokio::test]
async fn a_call_with_a_hole_is_never_run() {
    let more = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "shell", "arguments": ""}}]});
    let script = move || {
        let begun = Script::sse().role().delta(call.clone()).delta(more("{\"cmd\":\"rm -rf /srv/app/"));
        let lost =
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"cache/old"}}]}"#;
        begun.event(lost).delta(more("\"}")).finish("tool_calls").done().end()
    };
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let whole = read_response(&mut gateway.whole().await).await;
    assert_eq!((whole.status, whole.body.contains("rm -rf")), (502, false), "{}", whole.body);
    let streamed = read_response(&mut gateway.streaming().await).await;
    Surface::Chat.assert_broken(&streamed);
    let rows = gateway.stop().await;
    let failures: Vec<&Value> = rows.attempts.iter().map(|row| &row["failure"]).collect();
    assert_eq!(failures, ["malformed", "malformed"]);
}
