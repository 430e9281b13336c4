//! Payload of events, and its kind.

use super::super::read;
use super::*;
use photofinish_wire::PayloadKind;
use photofinish_wire::PayloadKind::*;
use photofinish_wire::stream::frame::{Chunk, Frame};

fn frame(data: &str) -> Frame<'static> {
    read(Box::leak(Box::new(event(data))))
}

fn chunk(data: &str) -> Chunk<'static> {
    match frame(data) {
        Frame::Chunk(chunk) => chunk,
        other => panic!("{data}: {other:?}"),
    }
}

#[test]
fn payload_is_generated_output_and_nothing_else() {
    let table: &[(&str, Option<(PayloadKind, u32)>)] = &[
        (r#"{"type":"response.created","response":{"id":"r","output":[]}}"#, None),
        (r#"{"type":"response.in_progress","response":{"id":"r"}}"#, None),
        (r#"{"type":"response.queued","response":null}"#, None),
        (r#"{"type":"codex.rate_limits","plan_type":"x","delta":"y"}"#, None),
        (r#"{"type":"response.output_text.delta","delta":"caf\u00e9"}"#, Some((Text, 4))),
        (r#"{"delta":"ab","type":"response.output_text.delta"}"#, Some((Text, 2))),
        (r#"{"type":"response.output_text.delta","delta":""}"#, None),
        (r#"{"type":"response.output_text.delta","delta":null}"#, None),
        (r#"{"type":"response.output_text.delta","delta":{"text":"x"}}"#, None),
        (r#"{"type":"response.output_text.done","text":"all of it"}"#, None),
        (r#"{"type":"response.refusal.delta","delta":"no"}"#, Some((Refusal, 2))),
        (r#"{"type":"response.reasoning_text.delta","delta":"hm"}"#, Some((Reasoning, 2))),
        (r#"{"type":"response.reasoning_summary_text.delta","delta":"hm"}"#, Some((Reasoning, 2))),
        (r#"{"type":"response.function_call_arguments.delta","delta":"{\""}"#, Some((Tool, 2))),
        (r#"{"type":"response.custom_tool_call_input.delta","delta":"***"}"#, Some((Tool, 3))),
        (r#"{"type":"response.mcp_call_arguments.delta","delta":"{"}"#, Some((Tool, 1))),
        (r#"{"type":"response.code_interpreter_call_code.delta","delta":"n"}"#, Some((Tool, 1))),
        (r#"{"type":"response.audio.delta","delta":"AAAA"}"#, Some((Audio, 4))),
        (r#"{"type":"response.audio.transcript.delta","delta":"hi"}"#, Some((Audio, 2))),
        (r#"{"type":"response.image_generation_call.partial_image","partial_image_b64":"AA"}"#, Some((Image, 2))),
        (r#"{"type":"response.image_generation_call.generating","item_id":"i"}"#, None),
        (r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#, None),
        (r#"{"type":"response.output_item.added","item":{"type":"reasoning","encrypted_content":"x"}}"#, None),
        (r#"{"type":"response.output_item.added","item":{"type":"web_search_call","id":"w"}}"#, None),
        (r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"","arguments":""}}"#, None),
        (r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"get"}}"#, Some((Tool, 3))),
        (r#"{"type":"response.output_item.added","item":{"name":"x","type":"custom_tool_call"}}"#, Some((Tool, 1))),
        (r#"{"type":"response.content_part.added","part":{"type":"output_text","text":"x"}}"#, None),
        (r#"{"type":"response.output_text.annotation.added","annotation":{"type":"url_citation"}}"#, None),
    ];
    for (data, expected) in table {
        let chunk = chunk(data);
        assert_eq!(chunk.payload.map(|payload| (payload.kind, payload.chars)), *expected, "{data}");
        assert_eq!((chunk.choices == 1, chunk.repeated), (expected.is_some(), false), "{data}");
    }
}

#[test]
fn what_says_again_what_was_streamed_is_marked() {
    let item = r#"{"type":"message","content":[{"type":"output_text","text":"hi"},{"type":"refusal","refusal":"no"}]}"#;
    let done = chunk(&format!(r#"{{"type":"response.output_item.done","item":{item}}}"#));
    assert_eq!((done.payload.map(|payload| (payload.kind, payload.chars)), done.repeated), (Some((Text, 4)), true));
    let reasoning = r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":null}"#;
    let ended = format!(r#"{{"type":"response.completed","response":{{"output":[{reasoning},{item}]}}}}"#);
    let Frame::Done(ended) = frame(&ended) else { panic!("no end") };
    assert_eq!((ended.payload.map(|payload| (payload.kind, payload.chars)), ended.repeated), (Some((Text, 6)), true));
    let image = r#"{"type":"response.output_item.done","item":{"type":"image_generation_call","result":"AAAA"}}"#;
    assert!(chunk(image).payload.is_some() && !chunk(image).repeated);
    let empty = r#"{"type":"response.output_item.done","item":{"type":"message","content":[]}}"#;
    assert!(chunk(empty).payload.is_none() && !chunk(empty).repeated);
}

#[test]
fn the_end_tells_reason_model_and_usage() {
    for (data, reason) in [
        (r#"{"type":"response.completed","response":{"model":"m-1","usage":{"input_tokens":1}}}"#, "completed"),
        (
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"model":"m-1","usage":{"input_tokens":1}}}"#,
            "max_output_tokens",
        ),
        (r#"{"type":"response.incomplete","response":{"model":"m-1","usage":{"input_tokens":1}}}"#, "incomplete"),
    ] {
        let Frame::Done(chunk) = frame(data) else { panic!("{data}") };
        assert_eq!(
            (chunk.finish_reason.as_deref(), chunk.model.as_deref(), chunk.usage.as_deref()),
            (Some(reason), Some("m-1"), Some(r#"{"input_tokens":1}"#))
        );
        assert_eq!((chunk.choices, chunk.finished, chunk.payload), (1, 1, None));
    }
    assert_eq!(frame("[DONE]"), Frame::Done(Chunk::default()));
    assert_eq!(
        chunk(r#"{"type":"response.created","response":{"model":"m-1","usage":null}}"#).model.as_deref(),
        Some("m-1")
    );
}

#[test]
fn what_is_no_chunk_is_told_apart() {
    for error in [
        r#"{"type":"error","code":"x","message":"y","param":null}"#,
        r#"{"type":"error","error":{"message":"y"}}"#,
        r#"{"type":"response.failed","response":{"error":{"message":"y"},"usage":null}}"#,
        r#"{"error":{"message":"y"}}"#,
    ] {
        assert!(matches!(frame(error), Frame::Error { usage: None, .. }), "{error}");
    }
    let failed =
        r#"{"type":"response.failed","response":{"error":{"code":"server_error"},"usage":{"input_tokens":9}}}"#;
    let Frame::Error { usage, data } = frame(failed) else { panic!("no error") };
    assert_eq!((usage.as_deref(), &data[..]), (Some(r#"{"input_tokens":9}"#), failed.as_bytes()));
    let raw = |raw: &'static str| read(Box::leak(Box::new(SseEvent { raw: Bytes::from_static(raw.as_bytes()) })));
    assert_eq!(raw(": OPENROUTER PROCESSING\n\n"), Frame::KeepAlive);
    assert_eq!(frame(r#"{"type":"keepalive","sequence_number":3}"#), Frame::KeepAlive);
    assert!(matches!(raw("{\"error\":\"gone\"}\n"), Frame::Error { .. }));
    assert!(matches!(raw("event: error\ndata: {\"message\":\"x\"}\n\n"), Frame::Error { .. }));
    assert_eq!(frame(r#"{"type":"#), Frame::Malformed);
    assert!(
        matches!(raw("data: {\"type\":\"response.output_text.delta\",\ndata: \"delta\":\"x\"}\n\n"), Frame::Chunk(c) if c.payload.is_some())
    );
    for fine in ["[1]", "{}", r#"{"error":null}"#, "7"] {
        assert_eq!(chunk(fine).payload, None, "{fine}");
    }
}

#[test]
fn text_number_and_padding_are_given_where_they_stand() {
    let chunk = chunk(r#"{"type":"response.output_text.delta","delta":"ab","obfuscation":"xyz","sequence_number":17}"#);
    assert_eq!((chunk.text, chunk.padding, chunk.number), (Some("ab"), Some("xyz"), Some("17")));
}

#[test]
fn what_every_client_stops_at_is_known() {
    assert!(is_error_event(&event(r#"{"type":"response.failed","response":{}}"#)));
    let error = ErrorShape {
        status: 502,
        kind: "server_error",
        code: "closed",
        message: "gone",
        param: None,
        attempts: Some(&json!([1])),
    };
    let bytes = error_event(&error);
    assert!(is_error_event(&SseEvent { raw: bytes.clone() }));
    let [raised, failed] = datas(&bytes).try_into().unwrap();
    assert_eq!((&raised["error"]["message"], &raised["message"]), (&json!("gone"), &json!("gone")));
    assert_eq!((&raised["error"]["attempts"], &raised["type"]), (&json!([1]), &json!("error")));
    assert_eq!(failed["response"]["error"], json!({ "code": "server_error", "message": "gone" }));
    assert!(matches!(read(&events(&bytes)[0]), Frame::Error { .. }));
    for (status, code, said) in [
        (429, "closed", "rate_limit_exceeded"),
        (400, "closed", "invalid_prompt"),
        (400, "context_length_exceeded", "context_length_exceeded"),
    ] {
        let failed = datas(&error_event(&ErrorShape { status, code, ..error.clone() })).remove(1);
        assert_eq!(failed["response"]["error"]["code"], said);
    }
    for unseen in [r#"{"type":"error","error":{"message":"x"}}"#, r#"{"type":"response.completed","response":{}}"#, "x"]
    {
        assert!(!is_error_event(&event(unseen)), "{unseen}");
    }
}
