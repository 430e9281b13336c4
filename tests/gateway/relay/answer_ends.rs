//! How answers end: with a word for a failure, or with an unknown one.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{TestGateway, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script, frame};

rules! { everywhere:
    a_word_for_a_failure_is_no_end,
    a_word_that_nobody_knows_is_no_good_end,
}
rules! { over_chat: an_answer_that_only_says_that_it_failed_is_beaten }

const FALLBACK: &str = "policy = \"fallback\"";

async fn asked(pair: Pair, gateway: &TestGateway, stream: bool) -> Response {
    read_response(&mut gateway.post(&pair.surface.path_for("m", stream), &pair.surface.body("m", stream)).await).await
}

/// The text `half`, and this end.
fn ended(dialect: Dialect, word: &str) -> Script {
    let script = Script::of(dialect).open().role().token("half");
    match dialect {
        Dialect::OpenAi => script.finish(word).done(),
        Dialect::Ollama => script.finish(word).done(),
        Dialect::Responses => {
            let response = json!({"id": "r", "object": "response", "status": "incomplete", "model": "m", "output": [],
                "incomplete_details": if word == "incomplete" { Value::Null } else { json!({"reason": word}) }});
            script
                .finish("length")
                .event(json!({"type": "response.incomplete", "sequence_number": 9, "response": response}))
        }
        Dialect::Anthropic => {
            let delta = json!({"stop_reason": word, "stop_sequence": null});
            script
                .event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}))
                .event(json!({"type": "message_stop"}))
        }
        Dialect::Gemini => {
            let content = json!({"role": "model", "parts": [{"text": ""}]});
            script.event(json!({"candidates": [{"content": content, "finishReason": word, "index": 0}]}))
        }
        Dialect::Bedrock => script
            .chunk(frame("messageStop", &json!({"stopReason": word})))
            .chunk(frame("metadata", &json!({"usage": {}}))),
    }
    .end()
}

async fn a_word_for_a_failure_is_no_end(pair: Pair) {
    let word = match pair.dialect {
        Dialect::OpenAi => "network_error",
        Dialect::Responses => "incomplete",
        Dialect::Anthropic => "server_error",
        Dialect::Gemini => "OTHER",
        Dialect::Bedrock => "malformed_tool_use",
        Dialect::Ollama => "abort",
    };
    let a = FakeProvider::start(vec![ended(pair.dialect, word), ended(pair.dialect, word)]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let streamed = asked(pair, &gateway, true).await;
    let message = pair.surface.assert_broken(&streamed);
    assert!(message.contains(word), "{message}");
    let whole = asked(pair, &gateway, false).await;
    assert_eq!((whole.upstream(), pair.surface.whole_text(&whole.json()).as_str()), ("b/m", "whole"), "{}", whole.body);
    let rows = gateway.stop().await;
    for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
        let failure = if word == "server_error" { word } else { "in_stream_error" };
        assert_row!(row, json!({"outcome": "failed_mid", "failure": failure, "finish_reason": word}));
    }
}

async fn a_word_that_nobody_knows_is_no_good_end(pair: Pair) {
    let word = "a_new_word";
    let fake = FakeProvider::answering(move |_| ended(pair.dialect, word)).await;
    let gateway = pair.over(&[&fake]).start().await;
    let streamed = asked(pair, &gateway, true).await;
    let whole = asked(pair, &gateway, false).await;
    let found = pair.surface.whole_finish(&whole.json()).to_owned();
    let native = pair.surface.dialect() == pair.dialect;
    let expected = match pair.surface {
        Surface::Responses => "incomplete",
        Surface::Ollama => word,
        _ if native => word,
        Surface::Chat => "length",
        Surface::Messages => "max_tokens",
        Surface::Gemini => "OTHER",
    };
    assert_eq!(found, expected, "{}", whole.body);
    assert!(streamed.body.contains(expected), "{}", streamed.body);
    if !native {
        pair.surface.assert_complete(&streamed);
    }
    if pair.surface == Surface::Responses {
        assert_eq!(whole.json()["incomplete_details"]["reason"], word);
    }
    let rows = gateway.stop().await;
    for row in &rows.attempts {
        assert_row!(row, json!({"outcome": "won", "finish_reason": word}));
    }
}

async fn an_answer_that_only_says_that_it_failed_is_beaten(pair: Pair) {
    let a = FakeProvider::answering(move |_| Script::sse().role().finish("network_error").done().end()).await;
    let b = FakeProvider::answering(move |_| pair.stream(&["whole"])).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    for stream in [true, false] {
        assert_eq!(asked(pair, &gateway, stream).await.upstream(), "b/m");
    }
    let rows = gateway.stop().await;
    for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
        assert_row!(row, json!({"outcome": "failed", "failure": "in_stream_error", "finish_reason": "network_error"}));
    }
}
