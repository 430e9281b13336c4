//! The parts of the request that a translated answer repeats, and the earlier parts that a broken stream repeats.

use bytes::Bytes;
use photofinish_dialects::SurfaceFormat as _;
use photofinish_wire::SseEvent;
use photofinish_wire::client_error::ErrorShape;
use serde_json::{Value, json};

use super::{conversation_of, datas, event};
use crate::request::ApiRequest;
use crate::translate::request::RequestTranslation;
use crate::translate::response::ResponseTranslation;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::quirks::TranslationOptions;

fn response_translation(body: &Value) -> ResponseTranslation {
    let conversation = conversation_of(body);
    let request_translation = RequestTranslation::translated(
        Surface::Responses,
        &conversation,
        Dialect::OpenAi,
        &TranslationOptions::default(),
    )
    .unwrap();
    ResponseTranslation::new(&request_translation, "asked", false)
}

fn chunk(delta: Value) -> SseEvent {
    event(&json!({ "id": "chatcmpl-1", "model": "m-1", "choices": [{ "index": 0, "delta": delta }] }).to_string())
}

fn failure() -> ErrorShape<'static> {
    ErrorShape {
        status: 502,
        kind: "upstream_error",
        code: "stream_broken",
        message: "gone",
        param: None,
        attempts: None,
    }
}

fn numbers(stream: &[u8]) -> Vec<u64> {
    datas(stream).iter().filter_map(|data| data["sequence_number"].as_u64()).collect()
}

#[test]
fn the_answer_repeats_the_request() {
    let tools = json!([{ "type": "function", "name": "f", "parameters": null, "strict": false }]);
    let mut response_translation = response_translation(&json!({
        "model": "m", "input": "hi", "stream": true, "instructions": "be brief", "metadata": { "a": "b" }, "temperature": 0.5,
        "top_p": null, "tools": tools, "tool_choice": "required", "text": { "verbosity": "low" }, "store": true,
        "reasoning": { "effort": "high", "summary": null }, "parallel_tool_calls": false, "max_output_tokens": 99,
    }));
    let mut out = response_translation.pass(chunk(json!({ "content": "a" }))).to_vec();
    out.extend(response_translation.ending());
    let datas = datas(&out);
    for data in datas.iter().filter(|data| data["response"].is_object()) {
        let response = &data["response"];
        assert_eq!(
            (&response["instructions"], &response["metadata"], &response["temperature"], &response["tools"]),
            (&json!("be brief"), &json!({ "a": "b" }), &json!(0.5), &tools)
        );
        assert_eq!(response["text"], json!({ "format": { "type": "text" }, "verbosity": "low" }));
        assert_eq!(response["reasoning"], json!({ "effort": "high", "summary": null }));
        assert_eq!((&response["tool_choice"], &response["top_p"]), (&json!("required"), &json!(1.0)));
        assert_eq!((&response["parallel_tool_calls"], &response["max_output_tokens"]), (&json!(false), &json!(99)));
        assert_eq!((&response["store"], &response["input"]), (&json!(false), &Value::Null), "nothing is stored");
    }
    assert_eq!(datas.iter().filter(|data| data["response"].is_object()).count(), 3);
}

#[test]
fn what_is_too_long_is_not_repeated() {
    let long = "x".repeat(300 << 10);
    let body = json!({ "model": "m", "input": "hi", "instructions": long, "metadata": { "a": "b" } });
    let echo = conversation_of(&body).echo;
    assert_eq!((echo.get("instructions"), echo.get("metadata")), (None, Some(&json!({ "a": "b" }))));
}

#[test]
fn a_broken_stream_goes_on_to_its_end() {
    let mut response_translation =
        response_translation(&json!({ "model": "m", "input": "hi", "metadata": { "a": "b" } }));
    let mut out = response_translation.pass(chunk(json!({ "content": "a" }))).to_vec();
    out.extend(response_translation.error_event(&failure()));
    let datas = datas(&out);
    assert_eq!(numbers(&out), (0..datas.len() as u64).collect::<Vec<_>>());
    let [error, failed] = &datas[datas.len() - 2..] else { panic!("{datas:?}") };
    assert_eq!((&error["type"], &error["error"]["code"]), (&json!("error"), &json!("stream_broken")));
    let (response, created) = (&failed["response"], &datas[0]["response"]);
    for name in ["id", "model", "created_at", "metadata"] {
        assert_eq!(response[name], created[name], "{name}");
    }
    assert_eq!((&response["model"], &response["status"]), (&json!("m-1"), &json!("failed")));
    assert_eq!(response["error"], json!({ "code": "server_error", "message": "gone" }));
}

#[test]
fn so_does_a_stream_that_is_not_translated() {
    let body = Bytes::from_static(br#"{"model":"m","input":"hi"}"#);
    let request = ApiRequest::parse(Surface::Responses, body).unwrap();
    let mut response_translation = ResponseTranslation::new(&RequestTranslation::untouched(request.into()), "m", false);
    assert_eq!(numbers(&response_translation.error_event(&failure())), [0, 1], "nothing came");
    let created =
        json!({ "type": "response.created", "sequence_number": 0, "response": { "id": "resp_1", "tools": [7] } });
    let delta = json!({ "type": "response.output_text.delta", "sequence_number": 4, "delta": "a" });
    for data in [created, delta] {
        let event = event(&data.to_string());
        assert_eq!(response_translation.pass(SseEvent { raw: event.raw.clone() }), event.raw);
    }
    response_translation.pass(SseEvent { raw: Bytes::from_static(b": ping\n\n") });
    let out = response_translation.error_event(&failure());
    assert_eq!(numbers(&out), [5, 6]);
    let failed = &datas(&out)[1]["response"];
    assert_eq!((&failed["id"], &failed["tools"], &failed["status"]), (&json!("resp_1"), &json!([7]), &json!("failed")));
    response_translation.pass(event("{\"sequence_number\":\"x\"}"));
    assert_eq!(numbers(&response_translation.error_event(&failure())), [0, 1], "nothing to go on from");
}

#[test]
fn other_streams_break_as_before() {
    let surface = Surface::Chat;
    let conversation = surface.conversation(br#"{"messages":[{"role":"user","content":"x"}]}"#).unwrap();
    let request_translation =
        RequestTranslation::translated(surface, &conversation, Dialect::Gemini, &TranslationOptions::default())
            .unwrap();
    let mut response_translation = ResponseTranslation::new(&request_translation, "m", false);
    assert_eq!(response_translation.error_event(&failure()), surface.error_event(&failure()));
}

#[test]
fn a_translated_answer_beyond_the_bound_on_bytes_is_overfull() {
    let mut response_translation = response_translation(&json!({ "model": "m", "input": "hi", "stream": true }));
    let text = "x".repeat(16 << 20);
    let written: Vec<bool> =
        (0..4).map(|_| !response_translation.pass(chunk(json!({ "content": text }))).is_empty()).collect();
    assert_eq!((written, response_translation.is_overfull()), (vec![true, true, true, false], true));
}
