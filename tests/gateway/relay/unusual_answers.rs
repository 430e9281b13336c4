//! Unusual answers of real servers: several choices, bytes after the end, wrong content types, text that is not JSON.

use serde_json::{Value, json};

use crate::harness::answer::{Response, advance_clock_until, ending, read_response};
use crate::harness::gateway::{Rows, Setup, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::samples::call_without_end;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

const HEADERS: [(&str, &str); 1] = [("content-type", "text/event-stream")];

fn ask(stream: bool, more: Value) -> Value {
    let mut body = json!({"model": "m", "stream": stream, "messages": [{}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// One answer of one provider.
async fn answered(script: Script, body: &Value) -> (Response, Rows) {
    let fake = FakeProvider::start(vec![script]).await;
    let gateway = Setup::over(&[&fake]).race("timeouts = { idle = \"15s\" }").start().await;
    let response = read_response(&mut gateway.ask(body).await).await;
    (response, gateway.stop().await)
}

fn choice(index: u32, delta: &Value, finish: Option<&str>) -> String {
    json!({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}).to_string()
}

fn two_choices() -> Script {
    let first = choice(0, &json!({"content": "A"}), None);
    let second = choice(1, &json!({"content": "B"}), None);
    Script::sse().event(first).event(second).event(choice(0, &json!({}), Some("stop")))
}

#[tokio::test]
async fn one_choice_s_finish_is_not_the_end_of_the_others() {
    let (response, rows) = answered(two_choices().end(), &ask(true, json!({"n": 2}))).await;
    assert!(!response.is_done() && response.body.contains("photofinish_stream_broken"), "{}", response.body);
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed_mid", "ttft_event": 1, "failure": "closed", "failure_phase": "stream"})
    );
    // `[DONE]` does not end it either: no finish reason is invented.
    for stream in [true, false] {
        let (response, rows) = answered(two_choices().done().end(), &ask(stream, json!({"n": 2}))).await;
        assert_eq!((response.is_done(), response.status), (false, if stream { 200 } else { 502 }), "{}", response.body);
        assert_eq!(rows.attempts[0]["failure"], "closed");
    }
    // A server that gives fewer choices than asked for ends with `[DONE]`, or its body ends (`transformers serve`).
    let one = || Script::sse().token("A").finish("stop");
    for stream in [true, false] {
        for script in [one().done().end(), one().end()] {
            let (response, rows) = answered(script, &ask(stream, json!({"n": 2}))).await;
            assert_eq!((response.status, response.is_done()), (200, stream), "{}", response.body);
            assert_eq!(rows.attempts[0]["outcome"], "won");
        }
    }
    let (response, _) = answered(one().close(), &ask(true, json!({"n": 2}))).await;
    assert!(response.body.contains("photofinish_stream_broken"), "the body is cut: {}", response.body);
    let whole = two_choices().event(choice(1, &json!({"content": "C"}), Some("stop")));
    let (response, rows) = answered(whole.end(), &ask(true, json!({"n": 2}))).await;
    assert!(response.is_done());
    assert_eq!(rows.attempts[0]["outcome"], "won");
}

#[tokio::test]
async fn pings_after_the_end_do_not_keep_the_stream_open() {
    // Far more pings than two seconds take; the client's end must not wait for them.
    let endless = |script: Script| {
        (0..200).fold(script, |script, _| script.comment("ping").delay(std::time::Duration::from_millis(100)))
    };
    for (script, stream) in [
        (Script::sse().token("hi").finish("stop"), false),
        (Script::sse().token("hi").finish("stop"), true),
        (Script::sse().token("hi").finish("stop").done(), true),
    ] {
        let fake = FakeProvider::start(vec![endless(script)]).await;
        let gateway = Setup::over(&[&fake]).race("timeouts = { idle = \"15s\" }").start().await;
        let mut client = gateway.ask(&ask(stream, json!({}))).await;
        let response = advance_clock_until(read_response(&mut client)).await;
        assert_eq!(response.status, 200);
        assert_eq!(gateway.stop().await.attempts[0]["outcome"], "won", "{}", response.body);
    }
}

#[tokio::test]
async fn bytes_after_done_are_neither_passed_on_nor_counted() {
    let script = Script::sse().token("hi").finish("stop").done().token("more").finish("length").end();
    let (response, rows) = answered(script, &ask(true, json!({}))).await;
    assert_eq!(response.streamed_text(), "hi");
    assert_row!(&rows.attempts[0], json!({"payload_events": 1, "finish_reason": "stop"}));
}

#[tokio::test]
async fn an_early_usage_chunk_goes_only_to_clients_that_asked_for_usage() {
    let script = || Script::sse().role().usage(7, 0).token("hi").finish("stop").usage(7, 1).done().end();
    let (response, rows) = answered(script(), &ask(true, json!({}))).await;
    assert!(!response.body.contains("prompt_tokens"), "{}", response.body);
    assert_row!(&rows.attempts[0], json!({"input_tokens": 7, "output_tokens": 1}));
    let asked = ask(true, json!({"stream_options": {"include_usage": true}}));
    let (response, _) = answered(script(), &asked).await;
    assert_eq!(response.body.matches("prompt_tokens").count(), 2);
}

#[tokio::test]
async fn half_a_character_loses_no_text_of_a_whole_answer() {
    let halves = [
        "{\"choices\":[{\"delta\":{\"content\":\"hey \\ud83d\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"\\ude00 you\"}}]}",
    ];
    let script = Script::sse().event(halves[0]).event(halves[1]).finish("stop").done().end();
    let (response, _) = answered(script, &ask(false, json!({}))).await;
    let content = response.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(content.starts_with("hey ") && content.ends_with(" you"), "{content}");
}

#[tokio::test]
async fn an_empty_error_is_none() {
    for error in [json!(null), json!(""), json!({}), json!([]), json!(false), json!(0)] {
        let mut whole = json!({"object": "chat.completion", "error": error,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
        let (response, rows) = answered(Script::status(200, &[], &whole.to_string()), &ask(false, json!({}))).await;
        assert_eq!((response.status, rows.one("a")["outcome"].as_str()), (200, Some("won")), "{whole}");
        // Calls are read by another path.
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        whole["choices"][0]["message"]["tool_calls"] = json!([call]);
        let (response, _) = answered(Script::status(200, &[], &whole.to_string()), &ask(false, json!({}))).await;
        assert_eq!(response.status, 200, "{whole}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_finished_is_no_whole_answer() {
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]});
    for status in ["in_progress", "queued"] {
        let body = json!({"id": "resp_1", "object": "response", "status": status, "output": [item]});
        for surface in [Surface::Responses, Surface::Chat] {
            let pair = Pair { surface, dialect: Dialect::Responses };
            let a = FakeProvider::start(vec![Script::status(200, &[], &body.to_string())]).await;
            let gateway = pair.over(&[&a]).start().await;
            let response = read_response(&mut pair.whole(&gateway).await).await;
            assert_eq!(response.status, 502, "{}", response.body);
            assert_eq!(gateway.stop().await.one("a")["failure"], "in_stream_error");
        }
    }
}

#[tokio::test]
async fn a_wrong_content_type_loses_no_answer() {
    let stream = |content_type| {
        Script::new().head(200, &[("content-type", content_type)]).role().token("hi").finish("stop").done().end()
    };
    for content_type in ["application/json", "text/plain"] {
        let (response, rows) = answered(stream(content_type), &ask(true, json!({}))).await;
        assert_eq!(
            (response.streamed_text().as_str(), response.is_done()),
            ("hi", true),
            "{content_type}: {}",
            response.body
        );
        assert_eq!(rows.attempts[0]["outcome"], "won");
    }
    let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let length = whole.len().to_string();
    let plain =
        Script::new().head(200, &[("content-type", "text/plain"), ("content-length", &length)]).raw(whole).end();
    let (response, _) = answered(plain, &ask(true, json!({}))).await;
    assert_eq!((response.streamed_text().as_str(), response.is_done()), ("hi", true), "{}", response.body);
}

#[tokio::test]
async fn a_finish_without_a_token_is_empty_although_the_connection_stays_open() {
    let silent = FakeProvider::start(vec![Script::sse().role().finish("stop").until_closed()]).await;
    let healthy = FakeProvider::start(vec![Script::stream(&["hi"])]).await;
    let gateway = Setup::over(&[&silent, &healthy]).race("policy = \"fallback\"").start().await;
    let mut client = gateway.streaming().await;
    let response = advance_clock_until(read_response(&mut client)).await;
    assert_eq!(response.upstream(), "b/m");
    assert_eq!(gateway.stop().await.one("a")["outcome"], "empty");
}

#[tokio::test]
async fn a_retry_after_of_zero_does_not_hold_the_race_at_one_upstream() {
    let limited = || Script::status(429, &[("retry-after", "0")], "{}");
    let first = FakeProvider::start(vec![limited(), limited(), limited(), limited()]).await;
    let second = FakeProvider::start(vec![Script::stream(&["hi"])]).await;
    let gateway = Setup::new()
        .race("policy = \"fallback\"")
        .provider("a", &first, "api_key = \"only-one\"")
        .provider("b", &second, "")
        .model("[models.m]\nupstreams = [\"a/m\", \"b/m\"]")
        .start()
        .await;
    let response = read_response(&mut gateway.streaming().await).await;
    assert_eq!(response.upstream(), "b/m");
    assert_eq!(gateway.stop().await.attempts.len(), 2);
}

#[tokio::test]
async fn half_a_response_head_is_a_failure_and_not_a_dead_pooled_connection() {
    let half = Script::new().raw("HTTP/1.1 200 OK\r\nContent-Ty").close();
    let fake = FakeProvider::start(vec![Script::stream(&["hi"]), half, Script::stream(&["again"])]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 200);
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 502);
    assert_eq!(fake.requests().len(), 2, "it is not sent again");
    gateway.stop().await;
}

#[tokio::test]
async fn a_switch_of_protocols_is_not_passed_on() {
    let (response, rows) = answered(Script::status(101, &HEADERS, ""), &ask(true, json!({}))).await;
    assert_eq!(response.status, 502);
    assert_eq!(rows.attempts[0]["failure"], "protocol");
}

/// One whole answer on each surface over chat, from one script.
async fn whole_on_each(script: Script) -> [(Surface, Response); 3] {
    let ask = async |surface: Surface| {
        let pair = Pair { surface, dialect: Dialect::OpenAi };
        let fake = FakeProvider::start(vec![script.clone()]).await;
        let gateway = pair.over(&[&fake]).start().await;
        let response = read_response(&mut pair.whole(&gateway).await).await;
        gateway.stop().await;
        (surface, response)
    };
    [ask(Surface::Chat).await, ask(Surface::Messages).await, ask(Surface::Responses).await]
}

#[tokio::test]
async fn an_answer_without_a_call_does_not_end_with_calls() {
    for (delta, reason) in [
        (json!({"content": "hi", "tool_calls": null}), "stop"),
        (json!({"content": "hi", "tool_calls": null}), "tool_calls"),
        (json!({"content": "hi", "tool_calls": []}), "tool_calls"),
    ] {
        let script = Script::sse().delta(delta.clone()).finish(reason).done().end();
        for (surface, response) in whole_on_each(script).await {
            let whole = response.json();
            assert_eq!(surface.whole_text(&whole), "hi", "{delta}: {whole}");
            assert!(["stop", "end_turn", "completed"].contains(&surface.whole_finish(&whole)), "{delta}: {whole}");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_passed_on_only_as_a_text() {
    for (surface, response) in whole_on_each(call_without_end("[1, 2]").finish("tool_calls").done().end()).await {
        assert_eq!(response.status, if surface == Surface::Chat { 200 } else { 502 }, "{}", response.body);
        assert_eq!(response.body.contains("[1, 2]"), surface == Surface::Chat);
    }
    let two = call_without_end("{\"a\":1}{\"b\":2}").finish("tool_calls").done().end();
    assert!(whole_on_each(two).await.iter().all(|(_, response)| response.status == 502));
}

#[tokio::test]
async fn audio_is_in_the_output_of_a_response() {
    let audio = |audio: Value| json!({"audio": audio});
    let script = Script::sse()
        .delta(audio(json!({"id": "audio_1", "transcript": "hi"})))
        .delta(audio(json!({"data": "QUI="})))
        .delta(audio(json!({"data": "Qw=="})))
        .finish("stop")
        .done()
        .end();
    let [chat, messages, responses] = whole_on_each(script).await;
    assert_eq!(chat.1.json()["choices"][0]["message"]["audio"]["data"], "QUI=Qw==");
    assert_eq!(messages.1.json()["content"], json!([{"type": "text", "text": "hi"}]));
    let part = json!({"type": "output_audio", "data": "QUI=Qw==", "transcript": "hi"});
    assert_eq!(responses.1.json()["output"][0]["content"], json!([part]), "{}", responses.1.body);
}

#[tokio::test]
async fn a_list_in_a_choice_comes_in_pieces() {
    let chunk = |tokens: &str| {
        format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a"}},"token_ids":{tokens},"finish_reason":null}}]}}"#)
    };
    let script = Script::sse().event(chunk("[58]")).event(chunk("[49, 7]")).event(chunk("[87]"));
    let [(_, chat), ..] = whole_on_each(script.finish("stop").done().end()).await;
    assert_eq!(chat.json()["choices"][0]["token_ids"], json!([58, 49, 7, 87]), "{}", chat.body);
}
