//! Answers that must not be delivered as good ones: tool calls with cut arguments, ends without a reason, only white
//! space or reasoning, another dialect, unreadable events.

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row, assert_rows};
use crate::harness::matrix::{Pair, rules};
use crate::harness::samples::{CUT, call_without_end, calling, reasoning};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    a_tool_call_with_cut_arguments_is_a_failure,
    an_answer_of_nothing_but_reasoning_is_beaten_by_any_other,
}
rules! { over_chat:
    an_end_without_a_finish_reason_is_a_failure,
    a_tool_call_cut_by_the_token_limit_has_finish_reason_length,
    finish_reason_can_be_made_optional_for_a_provider,
}

const FALLBACK: &str = "policy = \"fallback\"";
async fn asked(pair: Pair, gateway: &TestGateway, stream: bool) -> Response {
    read_response(&mut gateway.post(&pair.surface.path_for("m", stream), &pair.surface.body("m", stream)).await).await
}

async fn a_tool_call_with_cut_arguments_is_a_failure(pair: Pair) {
    let cut = || calling(pair.dialect, CUT);
    let a = FakeProvider::start(vec![cut(), cut()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"]), pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let whole = asked(pair, &gateway, false).await;
    assert_eq!((whole.status, whole.upstream()), (200, "b/m"), "{}", whole.body);
    assert_eq!(pair.surface.whole_text(&whole.json()), "whole");
    let streamed = asked(pair, &gateway, true).await;
    if pair.dialect == Dialect::Gemini {
        // A call, its arguments and the end arrive in one event, so nothing was delivered.
        assert_eq!((streamed.upstream(), pair.surface.streamed_text(&streamed).as_str()), ("b/m", "whole"));
    } else {
        let message = pair.surface.assert_broken(&streamed);
        assert!(message.contains("arguments"), "{message}");
    }
    let rows = gateway.stop().await;
    let of_a: Vec<Value> = rows.attempts.iter().filter(|row| row["provider"] == "a").map(ending).collect();
    let failed =
        || json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "malformed", "failure_phase": "stream"});
    assert_eq!(of_a, [failed(), failed()]);
}

async fn an_answer_of_nothing_but_reasoning_is_beaten_by_any_other(pair: Pair) {
    let only = || reasoning(pair.dialect);
    let a = FakeProvider::start(vec![only(), only(), only()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["said"]), only()]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let beaten = asked(pair, &gateway, false).await;
    assert_eq!((beaten.status, beaten.upstream()), (200, "b/m"), "{}", beaten.body);
    assert_eq!(pair.surface.whole_text(&beaten.json()), "said");
    // If no answer has content, the first is passed on unchanged.
    let alone = asked(pair, &gateway, false).await;
    assert_eq!((alone.status, alone.upstream()), (200, "a/m"), "{}", alone.body);
    assert!(alone.body.contains("hm") && alone.header("content-type") == "application/json", "{}", alone.body);
    assert!(
        ["stop", "completed", "end_turn", "STOP"].contains(&pair.surface.whole_finish(&alone.json())),
        "{}",
        alone.body
    );
    // A streaming client already has it.
    let streamed = asked(pair, &gateway, true).await;
    assert_eq!((streamed.status, streamed.upstream()), (200, "a/m"), "{}", streamed.body);
    assert!(streamed.body.contains("hm"), "{}", streamed.body);
    let rows = gateway.stop().await;
    let outcomes: Vec<&Value> = rows.attempts.iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["empty", "won", "empty", "empty", "won"]);
    assert!(rows.attempts.iter().all(|row| row["failure"].is_null() && row["first_kind"] != Value::Null));
}

async fn an_end_without_a_finish_reason_is_a_failure(pair: Pair) {
    let text = || Script::sse().role().tokens(&["ha", "lf"]).done().end();
    let call = || call_without_end(CUT).done().end();
    let a = FakeProvider::start(vec![text(), text(), call(), call()]).await;
    let good = || pair.stream(&["whole"]);
    let b = FakeProvider::start(vec![good(), good()]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).race("breaker = { failures = 0 }").start().await;
    for failure in ["closed", "malformed"] {
        let whole = asked(pair, &gateway, false).await;
        assert_eq!((whole.upstream(), pair.surface.whole_text(&whole.json()).as_str()), ("b/m", "whole"), "{failure}");
        pair.surface.assert_broken(&asked(pair, &gateway, true).await);
    }
    let rows = gateway.stop().await;
    let failures: Vec<&Value> =
        rows.attempts.iter().filter(|row| row["provider"] == "a").map(|row| &row["failure"]).collect();
    assert_eq!(failures, ["closed", "closed", "malformed", "malformed"]);
}

async fn a_tool_call_cut_by_the_token_limit_has_finish_reason_length(pair: Pair) {
    let cut = || call_without_end(CUT).finish("length").done().end();
    let fake = FakeProvider::start(vec![cut(), cut()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let streamed = asked(pair, &gateway, true).await;
    pair.surface.assert_complete(&streamed);
    assert!(streamed.body.contains("/srv/data/ke"), "{}", streamed.body);
    let whole = asked(pair, &gateway, false).await.json();
    let reasons = ["length", "incomplete", "max_tokens"];
    assert!(reasons.contains(&pair.surface.whole_finish(&whole)), "{whole}");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"));
}

async fn finish_reason_can_be_made_optional_for_a_provider(pair: Pair) {
    let without = || Script::sse().role().tokens(&["a", "ll"]).usage(7, 2).done().end();
    let call = || call_without_end(r#"{"x":1}"#).usage(7, 2).done().end();
    let cut = || call_without_end(CUT).usage(7, 2).done().end();
    let fake = FakeProvider::start(vec![without(), without(), call(), cut()]).await;
    let lines = format!("{}\nomits_finish_reason = true", pair.lines());
    let gateway = Setup::new().provider("a", &fake, &lines).start().await;
    let streamed = asked(pair, &gateway, true).await;
    assert_eq!(pair.surface.streamed_text(&streamed), "all");
    if pair.surface != Surface::Chat {
        pair.surface.assert_complete(&streamed);
    }
    let whole = asked(pair, &gateway, false).await.json();
    assert!(["stop", "completed", "end_turn", "STOP"].contains(&pair.surface.whole_finish(&whole)), "{whole}");
    let whole = asked(pair, &gateway, false).await.json();
    assert!(["tool_calls", "completed", "tool_use"].contains(&pair.surface.whole_finish(&whole)), "{whole}");
    assert_eq!(asked(pair, &gateway, false).await.status, 502, "its calls are looked at all the same");
    let rows = gateway.stop().await;
    let ended = |outcome: &str| json!({"outcome": outcome, "output_tokens": 2});
    assert_rows(
        &rows.attempts.iter().collect::<Vec<_>>(),
        &[ended("won"), ended("won"), ended("won"), ended("failed_mid")],
    );
}

#[tokio::test]
async fn a_whole_body_without_a_finish_reason_is_cut() {
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "half"}, "finish_reason": null}]});
    let a = FakeProvider::start(vec![Script::status(200, &[], &body.to_string())]).await;
    let b = FakeProvider::start(vec![Script::stream(&["whole"])]).await;
    let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
    let response = read_response(&mut gateway.whole().await).await;
    let choice = &response.json()["choices"][0];
    assert_eq!(
        (choice["message"]["content"].as_str(), choice["finish_reason"].as_str()),
        (Some("whole"), Some("stop"))
    );
    assert_eq!(gateway.stop().await.one("a")["failure"], "closed");
}

#[tokio::test]
async fn white_space_alone_is_an_empty_whole_answer() {
    let blank = || Script::sse().role().tokens(&[" ", "\n\n"]).finish("stop").done().end();
    let a = FakeProvider::start(vec![blank(), blank(), blank()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["said"]), Script::status(500, &[], "{}")]).await;
    let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
    assert_eq!(read_response(&mut gateway.whole().await).await.upstream(), "b/m");
    // It is better than an error, and shows how it ended.
    let alone = read_response(&mut gateway.whole().await).await;
    assert_eq!((alone.status, alone.upstream()), (200, "a/m"), "{}", alone.body);
    assert_eq!(alone.json()["choices"][0]["message"]["content"], " \n\n");
    assert_eq!(read_response(&mut gateway.streaming().await).await.streamed_text(), " \n\n");
    let rows = gateway.stop().await;
    let outcomes: Vec<&Value> = rows.attempts.iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["empty", "won", "empty", "failed", "won"]);
}

#[tokio::test]
async fn among_whole_answers_one_with_text_beats_an_empty_one() {
    let ended = Gate::new();
    let blank = Script::sse().role().delta(json!({"reasoning_content": "hm"})).finish("length").done().end();
    let a = FakeProvider::start(vec![blank.reached(&ended)]).await;
    let b =
        FakeProvider::start(vec![Script::sse().role().wait(&ended).token("said").finish("stop").done().end()]).await;
    let gateway = Setup::over(&[&a, &b]).race("optimise = \"completion\"").start().await;
    let response = read_response(&mut gateway.whole().await).await;
    assert_eq!(
        (response.upstream(), response.json()["choices"][0]["message"]["content"].as_str()),
        ("b/m", Some("said"))
    );
    let rows = gateway.stop().await;
    assert_eq!(rows.one("a")["outcome"], "empty");
    assert_eq!(rows.one("b")["start_reason"], "first", "it ran on meanwhile");
}

#[tokio::test]
async fn with_first_token_answer_reasoning_does_not_commit() {
    for (setting, winner) in [("", "a/m"), ("first_token = \"answer\"", "b/m")] {
        let (thought, never) = (Gate::new(), Gate::new());
        let thinks = Script::sse().role().delta(json!({"reasoning_content": "hm"})).reached(&thought).wait(&never);
        let a = FakeProvider::start(vec![thinks]).await;
        let both = Script::sse().wait(&thought).role().delta(json!({"reasoning_content": "so"})).token("yes");
        let b = FakeProvider::start(vec![both.finish("stop").done().end()]).await;
        let gateway = Setup::over(&[&a, &b]).race(setting).start().await;
        let mut client = gateway.streaming().await;
        let head = client.head().await;
        assert_eq!(head.header("x-photofinish-upstream"), Some(winner), "{setting}");
        if winner == "b/m" {
            let body = client.body(&head).await.unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains("so") && body.contains("yes"), "what was held back is not lost: {body}");
        }
        drop(client);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn with_first_token_answer_reasoning_alone_is_empty() {
    let pair = Pair { surface: Surface::Chat, dialect: Dialect::OpenAi };
    let a = FakeProvider::start(vec![reasoning(pair.dialect), reasoning(pair.dialect)]).await;
    let b = FakeProvider::start(vec![Script::stream(&["said"]), reasoning(pair.dialect)]).await;
    let gateway = Setup::over(&[&a, &b]).race(FALLBACK).race("first_token = \"answer\"").start().await;
    assert_eq!(asked(pair, &gateway, true).await.upstream(), "b/m");
    let alone = asked(pair, &gateway, true).await;
    assert!(alone.upstream() == "a/m" && alone.body.contains("hm") && alone.is_done(), "{}", alone.body);
    let rows = gateway.stop().await;
    let outcomes: Vec<&Value> = rows.attempts.iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["empty", "won", "empty", "empty"]);
}

#[tokio::test]
async fn reasoning_details_alone_are_payload() {
    let details = |text: &str| json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]});
    let script = Script::sse().role().delta(details("so")).delta(details(" then")).token("yes");
    let fake = FakeProvider::start(vec![script.finish("stop").done().end()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    read_response(&mut gateway.streaming().await).await;
    let rows = gateway.stop().await;
    assert_row!(
        &rows.attempts[0],
        json!({"first_kind": "reasoning", "payload_events": 3, "reasoning_events": 2, "chars_first": 2, "chars_total": 10})
    );
}

#[tokio::test]
async fn an_answer_in_another_dialect_is_malformed_at_once() {
    let never = Gate::new();
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
        for other in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
            if dialect == other {
                continue;
            }
            // The race does not wait for its end.
            let foreign = Script::of(other).open().role().token("x").wait(&never);
            let a = FakeProvider::start(vec![foreign.clone(), foreign]).await;
            let good = || Script::of(dialect).whole_stream(&["good"]);
            let b = FakeProvider::start(vec![good(), good()]).await;
            let pair = Pair { surface: Surface::Messages, dialect };
            let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
            for stream in [true, false] {
                let response = asked(pair, &gateway, stream).await;
                assert_eq!(
                    (response.status, response.upstream()),
                    (200, "b/m"),
                    "{other:?} for {dialect:?}: {}",
                    response.body
                );
                assert!(response.body.contains("good"), "{}", response.body);
            }
            let rows = gateway.stop().await;
            for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
                assert_eq!(
                    ending(row),
                    json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"}),
                    "{other:?} for {dialect:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_whole_body_of_another_dialect_or_a_cut_one_is_malformed() {
    let messages = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"});
    for body in [messages.to_string(), "{\"choices\":[{\"message\":{\"content\":\"ha".to_owned()] {
        let a = FakeProvider::start(vec![Script::status(200, &[], &body)]).await;
        let b = FakeProvider::start(vec![Script::stream(&["good"])]).await;
        let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
        assert_eq!(read_response(&mut gateway.whole().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"}),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_stray_event_of_another_dialect_is_left_out() {
    let stray = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"stray"}}"#;
    let script = Script::sse().role().token("a").event(stray).token("b").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert!(
        response.is_done() && response.streamed_text() == "ab" && !response.body.contains("stray"),
        "{}",
        response.body
    );
    assert_eq!(gateway.stop().await.attempts[0]["outcome"], "won");
}

#[tokio::test]
async fn events_after_the_finish_are_sent_before_done_and_their_cost_is_read() {
    let price = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"cost":0.25}}"#;
    let own = r#"{"vendor":{"note":"n"}}"#;
    let script = move || {
        Script::sse().token("hi").finish("stop").done().event(own).comment("bye").event(price).event("[DONE]").end()
    };
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let response = read_response(&mut gateway.streaming().await).await;
    let events = response.events();
    assert_eq!(events[events.len() - 2..], [own, "[DONE]"], "{}", response.body);
    assert_eq!(response.body.matches("[DONE]").count(), 1, "{}", response.body);
    assert!(response.body.contains(": bye") && !response.body.contains("prompt_tokens"), "{}", response.body);
    let asks = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{}]});
    let found = read_response(&mut gateway.ask(&asks).await).await;
    assert_eq!(found.events()[found.events().len() - 3..], [own, price, "[DONE]"], "{}", found.body);
    let whole = read_response(&mut gateway.whole().await).await.json();
    assert_eq!(whole["usage"]["cost"], 0.25, "{whole}");
    let rows = gateway.stop().await;
    for row in &rows.attempts {
        assert_row!(
            row,
            json!({"output_tokens": 2, "cost_usd_min": 0.25, "cost_usd_max": 0.25, "price_source": "reported"})
        );
    }
}

#[tokio::test]
async fn usage_after_the_finish_is_translated() {
    for surface in [Surface::Messages, Surface::Responses] {
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let script = || Script::sse().token("hi").finish("stop").done().usage(7, 2).end();
        let fake = FakeProvider::answering(move |_| script()).await;
        let gateway = pair.over(&[&fake]).start().await;
        let streamed = asked(pair, &gateway, true).await;
        surface.assert_complete(&streamed);
        assert!(streamed.body.contains("\"output_tokens\":2"), "{}", streamed.body);
        let whole = asked(pair, &gateway, false).await.json();
        assert_eq!(surface.whole_usage(&whole), (7, 2), "{whole}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_stream_without_a_readable_event_is_malformed() {
    for behind in [Script::done as fn(Script) -> Script, |script| script] {
        let a = FakeProvider::start(vec![behind(Script::sse().event("{\"choices\":[").event("nonsense")).end()]).await;
        let b = FakeProvider::start(vec![Script::stream(&["good"])]).await;
        let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
        assert_eq!(read_response(&mut gateway.streaming().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(
            ending(rows.one("a")),
            json!({"outcome": "failed", "failure": "malformed", "failure_phase": "first_token"})
        );
    }
}
