//! Answers that would be wrong, and must not be handed over as right ones: calls whose arguments are cut, ends without a reason,
//! nothing but white space or reasoning, another dialect, events that cannot be read.

use serde_json::{Value, json};

use crate::harness::answer::{Heard, end, hear};
use crate::harness::gateway::{Setup, TestGateway, pick};
use crate::harness::matrix::{Pair, rules};
use crate::harness::samples::{CUT, called, calling, reasoning};
use crate::harness::surface::Called;
use crate::support::{Dialect, FakeProvider, Gate, Script};

rules! { everywhere:
    a_call_whose_arguments_are_cut_is_no_answer,
    an_answer_of_nothing_but_reasoning_is_beaten_by_any_other,
}
rules! { over_chat:
    an_end_without_a_finish_reason_is_no_end,
    a_call_that_a_limit_cut_is_told_as_that,
    a_provider_may_be_known_to_give_no_finish_reason,
}

const FALLBACK: &str = "policy = \"fallback\"";
async fn asked(pair: Pair, gateway: &TestGateway, stream: bool) -> Heard {
    hear(&mut gateway.post(pair.called.path(), &pair.called.body("m", stream)).await).await
}

async fn a_call_whose_arguments_are_cut_is_no_answer(pair: Pair) {
    let cut = || calling(pair.dialect, CUT);
    let a = FakeProvider::start(vec![cut(), cut()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["whole"]), pair.stream(&["whole"])]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let whole = asked(pair, &gateway, false).await;
    assert_eq!((whole.status, whole.upstream()), (200, "b/m"), "{}", whole.body);
    assert_eq!(pair.called.whole_text(&whole.json()), "whole");
    let streamed = asked(pair, &gateway, true).await;
    if pair.dialect == Dialect::Gemini {
        // A call, its arguments and the end come in one event, so nothing was delivered.
        assert_eq!((streamed.upstream(), pair.called.said(&streamed).as_str()), ("b/m", "whole"));
    } else {
        let message = pair.called.assert_broken(&streamed);
        assert!(message.contains("arguments"), "{message}");
    }
    let rows = gateway.stop().await;
    let of_a: Vec<Value> = rows.attempts.iter().filter(|row| row["provider"] == "a").map(end).collect();
    assert_eq!(of_a.len(), 2);
    for ended in of_a {
        assert_eq!(ended, json!(["failed_mid", 1, null, "malformed", "stream"]));
    }
}

async fn an_answer_of_nothing_but_reasoning_is_beaten_by_any_other(pair: Pair) {
    let only = || reasoning(pair.dialect);
    let a = FakeProvider::start(vec![only(), only(), only()]).await;
    let b = FakeProvider::start(vec![pair.stream(&["said"]), only()]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
    let beaten = asked(pair, &gateway, false).await;
    assert_eq!((beaten.status, beaten.upstream()), (200, "b/m"), "{}", beaten.body);
    assert_eq!(pair.called.whole_text(&beaten.json()), "said");
    // If nobody says more, the first is passed on as it came.
    let alone = asked(pair, &gateway, false).await;
    assert_eq!((alone.status, alone.upstream()), (200, "a/m"), "{}", alone.body);
    assert!(alone.body.contains("hm") && alone.header("content-type") == "application/json", "{}", alone.body);
    assert!(["stop", "completed", "end_turn"].contains(&pair.called.whole_finish(&alone.json())), "{}", alone.body);
    // A client that streams has it already.
    let streamed = asked(pair, &gateway, true).await;
    assert_eq!((streamed.status, streamed.upstream()), (200, "a/m"), "{}", streamed.body);
    assert!(streamed.body.contains("hm"), "{}", streamed.body);
    let rows = gateway.stop().await;
    let outcomes: Vec<&Value> = rows.attempts.iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["empty", "won", "empty", "empty", "won"]);
    assert!(rows.attempts.iter().all(|row| row["failure"].is_null() && row["first_kind"] != Value::Null));
}

async fn an_end_without_a_finish_reason_is_no_end(pair: Pair) {
    let text = || Script::sse().role().tokens(&["ha", "lf"]).done().end();
    let call = || called(CUT).done().end();
    let a = FakeProvider::start(vec![text(), text(), call(), call()]).await;
    let good = || pair.stream(&["whole"]);
    let b = FakeProvider::start(vec![good(), good()]).await;
    let gateway = pair.over(&[&a, &b]).race(FALLBACK).race("breaker = { failures = 0 }").start().await;
    for failure in ["closed", "malformed"] {
        let whole = asked(pair, &gateway, false).await;
        assert_eq!((whole.upstream(), pair.called.whole_text(&whole.json()).as_str()), ("b/m", "whole"), "{failure}");
        pair.called.assert_broken(&asked(pair, &gateway, true).await);
    }
    let rows = gateway.stop().await;
    let failures: Vec<&Value> =
        rows.attempts.iter().filter(|row| row["provider"] == "a").map(|row| &row["failure"]).collect();
    assert_eq!(failures, ["closed", "closed", "malformed", "malformed"]);
}

async fn a_call_that_a_limit_cut_is_told_as_that(pair: Pair) {
    let cut = || called(CUT).finish("length").done().end();
    let fake = FakeProvider::start(vec![cut(), cut()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let streamed = asked(pair, &gateway, true).await;
    pair.called.assert_complete(&streamed);
    assert!(streamed.body.contains("/srv/data/ke"), "{}", streamed.body);
    let whole = asked(pair, &gateway, false).await.json();
    let reasons = ["length", "incomplete", "max_tokens"];
    assert!(reasons.contains(&pair.called.whole_finish(&whole)), "{whole}");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"));
}

async fn a_provider_may_be_known_to_give_no_finish_reason(pair: Pair) {
    let without = || Script::sse().role().tokens(&["a", "ll"]).usage(7, 2).done().end();
    let call = || called(r#"{"x":1}"#).usage(7, 2).done().end();
    let cut = || called(CUT).usage(7, 2).done().end();
    let fake = FakeProvider::start(vec![without(), without(), call(), cut()]).await;
    let lines = format!("{}\nomits_finish_reason = true", pair.lines());
    let gateway = Setup::new().provider("a", &fake, &lines).start().await;
    let streamed = asked(pair, &gateway, true).await;
    assert_eq!(pair.called.said(&streamed), "all");
    if pair.called != Called::Chat {
        pair.called.assert_complete(&streamed);
    }
    let whole = asked(pair, &gateway, false).await.json();
    assert!(["stop", "completed", "end_turn"].contains(&pair.called.whole_finish(&whole)), "{whole}");
    let whole = asked(pair, &gateway, false).await.json();
    assert!(["tool_calls", "completed", "tool_use"].contains(&pair.called.whole_finish(&whole)), "{whole}");
    assert_eq!(asked(pair, &gateway, false).await.status, 502, "its calls are looked at all the same");
    let rows = gateway.stop().await;
    let ended: Vec<Value> = rows.attempts.iter().map(|row| pick(row, &["outcome", "output_tokens"])).collect();
    let won = || json!(["won", 2]);
    assert_eq!(ended, [won(), won(), won(), json!(["failed_mid", 2])]);
}

#[tokio::test]
async fn a_whole_body_without_a_finish_reason_is_cut() {
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "half"}, "finish_reason": null}]});
    let a = FakeProvider::start(vec![Script::status(200, &[], &body.to_string())]).await;
    let b = FakeProvider::start(vec![Script::stream(&["whole"])]).await;
    let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
    let heard = hear(&mut gateway.whole().await).await;
    let choice = &heard.json()["choices"][0];
    assert_eq!(
        (choice["message"]["content"].as_str(), choice["finish_reason"].as_str()),
        (Some("whole"), Some("stop"))
    );
    assert_eq!(gateway.stop().await.one("a")["failure"], "closed");
}

#[tokio::test]
async fn white_space_is_no_answer_to_a_client_that_waits_for_all_of_it() {
    let blank = || Script::sse().role().tokens(&[" ", "\n\n"]).finish("stop").done().end();
    let a = FakeProvider::start(vec![blank(), blank(), blank()]).await;
    let b = FakeProvider::start(vec![Script::stream(&["said"]), Script::status(500, &[], "{}")]).await;
    let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
    assert_eq!(hear(&mut gateway.whole().await).await.upstream(), "b/m");
    // It is better than an error, and tells how it ended.
    let alone = hear(&mut gateway.whole().await).await;
    assert_eq!((alone.status, alone.upstream()), (200, "a/m"), "{}", alone.body);
    assert_eq!(alone.json()["choices"][0]["message"]["content"], " \n\n");
    assert_eq!(hear(&mut gateway.streaming().await).await.said(), " \n\n");
    let rows = gateway.stop().await;
    let outcomes: Vec<&Value> = rows.attempts.iter().map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["empty", "won", "empty", "failed", "won"]);
}

#[tokio::test]
async fn in_a_race_of_whole_answers_one_that_says_something_wins() {
    let ended = Gate::new();
    let blank = Script::sse().role().delta(json!({"reasoning_content": "hm"})).finish("length").done().end();
    let a = FakeProvider::start(vec![blank.reached(&ended)]).await;
    let b =
        FakeProvider::start(vec![Script::sse().role().wait(&ended).token("said").finish("stop").done().end()]).await;
    let gateway = Setup::over(&[&a, &b]).race("optimise = \"completion\"").start().await;
    let heard = hear(&mut gateway.whole().await).await;
    assert_eq!((heard.upstream(), heard.json()["choices"][0]["message"]["content"].as_str()), ("b/m", Some("said")));
    let rows = gateway.stop().await;
    assert_eq!(rows.one("a")["outcome"], "empty");
    assert_eq!(rows.one("b")["start_reason"], "first", "it ran on meanwhile");
}

#[tokio::test]
async fn reasoning_wins_nothing_where_only_the_answer_counts() {
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
async fn an_answer_of_reasoning_alone_is_empty_where_only_the_answer_counts() {
    let pair = Pair { called: Called::Chat, dialect: Dialect::OpenAi };
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
async fn reasoning_that_comes_as_details_alone_is_payload() {
    let details = |text: &str| json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]});
    let script = Script::sse().role().delta(details("so")).delta(details(" then")).token("yes");
    let fake = FakeProvider::start(vec![script.finish("stop").done().end()]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    hear(&mut gateway.streaming().await).await;
    let rows = gateway.stop().await;
    let columns = ["first_kind", "payload_events", "reasoning_events", "chars_first", "chars_total"];
    assert_eq!(pick(&rows.attempts[0], &columns), json!(["reasoning", 3, 2, 2, 10]));
}

#[tokio::test]
async fn an_answer_in_another_dialect_is_malformed_at_once() {
    let never = Gate::new();
    for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
        for other in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
            if dialect == other {
                continue;
            }
            // Nobody waits for its end.
            let foreign = Script::of(other).open().role().token("x").wait(&never);
            let a = FakeProvider::start(vec![foreign.clone(), foreign]).await;
            let good = || Script::of(dialect).whole_stream(&["good"]);
            let b = FakeProvider::start(vec![good(), good()]).await;
            let pair = Pair { called: Called::Messages, dialect };
            let gateway = pair.over(&[&a, &b]).race(FALLBACK).start().await;
            for stream in [true, false] {
                let heard = asked(pair, &gateway, stream).await;
                assert_eq!((heard.status, heard.upstream()), (200, "b/m"), "{other:?} for {dialect:?}: {}", heard.body);
                assert!(heard.body.contains("good"), "{}", heard.body);
            }
            let rows = gateway.stop().await;
            for row in rows.attempts.iter().filter(|row| row["provider"] == "a") {
                assert_eq!(
                    end(row),
                    json!(["failed", null, null, "malformed", "first_token"]),
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
        assert_eq!(hear(&mut gateway.whole().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(end(rows.one("a")), json!(["failed", null, null, "malformed", "first_token"]), "{body}");
    }
}

#[tokio::test]
async fn a_stray_event_of_another_dialect_is_left_out() {
    let stray = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"stray"}}"#;
    let script = Script::sse().role().token("a").event(stray).token("b").finish("stop").done().end();
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert!(heard.is_done() && heard.said() == "ab" && !heard.body.contains("stray"), "{}", heard.body);
    assert_eq!(gateway.stop().await.attempts[0]["outcome"], "won");
}

#[tokio::test]
async fn what_a_vendor_sends_behind_the_end_goes_down_before_it_and_its_price_is_read() {
    let price = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"cost":0.25}}"#;
    let own = r#"{"vendor":{"note":"n"}}"#;
    let script = move || {
        Script::sse().token("hi").finish("stop").done().event(own).comment("bye").event(price).event("[DONE]").end()
    };
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    let events = heard.events();
    assert_eq!(events[events.len() - 2..], [own, "[DONE]"], "{}", heard.body);
    assert_eq!(heard.body.matches("[DONE]").count(), 1, "{}", heard.body);
    assert!(heard.body.contains(": bye") && !heard.body.contains("prompt_tokens"), "{}", heard.body);
    let asks = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{}]});
    let told = hear(&mut gateway.ask(&asks).await).await;
    assert_eq!(told.events()[told.events().len() - 3..], [own, price, "[DONE]"], "{}", told.body);
    let whole = hear(&mut gateway.whole().await).await.json();
    assert_eq!(whole["usage"]["cost"], 0.25, "{whole}");
    let rows = gateway.stop().await;
    for row in &rows.attempts {
        assert_eq!(pick(row, &["output_tokens", "cost_usd", "cost_basis"]), json!([2, 0.25, "reported"]));
    }
}

#[tokio::test]
async fn usage_behind_the_end_is_told_by_a_translation() {
    for called in [Called::Messages, Called::Responses] {
        let pair = Pair { called, dialect: Dialect::OpenAi };
        let script = || Script::sse().token("hi").finish("stop").done().usage(7, 2).end();
        let fake = FakeProvider::answering(move |_| script()).await;
        let gateway = pair.over(&[&fake]).start().await;
        let streamed = asked(pair, &gateway, true).await;
        called.assert_complete(&streamed);
        assert!(streamed.body.contains("\"output_tokens\":2"), "{}", streamed.body);
        let whole = asked(pair, &gateway, false).await.json();
        assert_eq!(called.whole_usage(&whole), (7, 2), "{whole}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn one_event_that_cannot_be_read_costs_only_itself() {
    let half = "{\"choices\":[{\"delta\":{\"content\":\"lo";
    let script = move || Script::sse().role().token("a").event(half).token("b").finish("stop").done().end();
    let fake = FakeProvider::answering(move |_| script()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let heard = hear(&mut gateway.streaming().await).await;
    assert!(heard.is_done() && heard.said() == "ab", "{}", heard.body);
    let whole = hear(&mut gateway.whole().await).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "ab");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|row| row["outcome"] == "won"));
}

#[tokio::test]
async fn a_stream_of_which_no_event_can_be_read_is_malformed() {
    for behind in [Script::done as fn(Script) -> Script, |script| script] {
        let a = FakeProvider::start(vec![behind(Script::sse().event("{\"choices\":[").event("nonsense")).end()]).await;
        let b = FakeProvider::start(vec![Script::stream(&["good"])]).await;
        let gateway = Setup::over(&[&a, &b]).race(FALLBACK).start().await;
        assert_eq!(hear(&mut gateway.streaming().await).await.upstream(), "b/m");
        let rows = gateway.stop().await;
        assert_eq!(end(rows.one("a")), json!(["failed", null, null, "malformed", "first_token"]));
    }
}
