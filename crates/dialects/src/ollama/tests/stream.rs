//! Payload, ends of streams, and pieces.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::ollama::{OllamaReader, events_of_whole, read};
use photofinish_wire::PayloadKind;
use photofinish_wire::PayloadKind::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::{AnswerPiece, FinishReason, ReadPieces};
use photofinish_wire::stream::frame::{Chunk, Frame};
use photofinish_wire::stream::sse::SseEvent;

fn event(line: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("{line}\n")) }
}

fn pieces(lines: &[Value]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (OllamaReader::default(), Vec::new());
    lines.iter().for_each(|line| reader.read(&event(&line.to_string()), &mut pieces));
    photofinish_wire::conversation::sample::without_ends(pieces)
}

#[test]
fn payload_is_generated_output_and_nothing_else() {
    let table: &[(&str, Option<(PayloadKind, u32)>)] = &[
        (r#""message":{"role":"assistant","content":""}"#, None),
        (r#""message":{"role":"assistant","content":"hé"}"#, Some((Text, 2))),
        (r#""message":{"role":"assistant","content":"","thinking":"hm"}"#, Some((Reasoning, 2))),
        (r#""message":{"content":"a","thinking":"hm"}"#, Some((Text, 3))),
        (
            r#""message":{"content":"","tool_calls":[{"id":"c","function":{"index":0,"name":"get","arguments":{"a":1}}}]}"#,
            Some((Tool, 10)),
        ),
        (r#""message":{"thinking":"h","tool_calls":[{"function":{"name":"get"}}]}"#, Some((Tool, 4))),
        (r#""message":{"tool_calls":[{"function":{"name":"","arguments":null}}]}"#, None),
        (r#""message":null"#, None),
        (r#""response":"A""#, Some((Text, 1))),
        (r#""response":"","thinking":"hm""#, Some((Reasoning, 2))),
        (r#""status":"loading""#, None),
    ];
    for (members, expected) in table {
        let event = event(&format!(r#"{{"model":"m","created_at":"t",{members},"done":false}}"#));
        let Frame::Chunk(chunk) = read(&event) else { panic!("{members}") };
        assert_eq!(chunk.payload.map(|payload| (payload.kind, payload.chars)), *expected, "{members}");
        assert_eq!((chunk.model.as_deref(), chunk.choices, chunk.finished), (Some("m"), 1, 0));
        assert_eq!((chunk.usage, chunk.finish_reason), (None, None));
    }
}

#[test]
fn the_last_line_is_the_end_and_the_usage() {
    let line = r#"{"model":"m","message":{"content":""},"done":true,"done_reason":"length","prompt_eval_count":3,"eval_count":5}"#;
    let event = event(line);
    let Frame::Done(chunk) = read(&event) else { panic!("not done") };
    assert_eq!((chunk.finish_reason.as_deref(), chunk.choices, chunk.finished), (Some("length"), 1, 1));
    let mut usage = Usage::default();
    usage.add(chunk.usage.as_deref().unwrap());
    assert_eq!(usage, Usage { input_tokens: Some(3), output_tokens: Some(5), ..Usage::default() });
    let old = super::stream::event(r#"{"response":"x","done":true}"#);
    let Frame::Done(chunk) = read(&old) else { panic!("not done") };
    assert_eq!((chunk.finish_reason.as_deref(), chunk.usage), (Some("stop"), None));
    assert_eq!(chunk.payload.map(|payload| payload.chars), Some(1));
}

#[test]
fn what_is_no_chunk_is_told_apart() {
    let frame = |raw: &'static str| read(&SseEvent { raw: Bytes::from_static(raw.as_bytes()) }).into_owned();
    assert_eq!(frame("\n"), Frame::KeepAlive);
    assert_eq!(frame("\r\n"), Frame::KeepAlive);
    assert_eq!(frame("{\"done\":\n"), Frame::Malformed);
    assert_eq!(frame("data: {}\n"), Frame::Malformed);
    assert!(matches!(frame("\u{feff}{\"response\":\"x\"}\r\n"), Frame::Chunk(Chunk { payload: Some(_), .. })));
    let error = "{\"error\":\"model runner has stopped\"}";
    assert_eq!(
        frame("{\"error\":\"model runner has stopped\"}\r\n"),
        Frame::Error { data: Cow::Borrowed(error.as_bytes()), usage: None }
    );
    for fine in ["{\"error\":\"\"}", "{\"error\":null}", "[]", "7"] {
        assert!(matches!(frame(fine), Frame::Chunk(Chunk { payload: None, .. })), "{fine}");
    }
}

#[test]
fn a_stream_becomes_pieces() {
    let line = |message: Value| json!({ "model": "qwen3", "created_at": "t", "message": message, "done": false });
    let pieces = pieces(&[
        line(json!({ "role": "assistant", "content": "", "thinking": "hm" })),
        line(json!({ "role": "assistant", "content": "", "thinking": "m" })),
        line(json!({ "role": "assistant", "content": "Let me" })),
        line(json!({ "role": "assistant", "content": "", "thinking": "so" })),
        line(json!({ "role": "assistant", "content": "", "tool_calls": [
            { "id": "c1", "function": { "index": 0, "name": "get", "arguments": { "b": 1, "a": 2 } } },
            { "id": "c2", "function": { "index": 1, "name": "put", "arguments": "{\"x\":1}" } },
            { "id": "c3", "function": { "name": "nop" } },
            { "id": "c4", "function": {} }, {}] })),
        json!({ "model": "qwen3", "message": { "content": "" }, "done": true, "done_reason": "stop", "eval_count": 9 }),
    ]);
    let thinking = |block, text: &str| AnswerPiece::Thinking { index: 0, block, text: text.to_owned() };
    let call = |call, id: &str, name: &str| AnswerPiece::Call {
        index: 0,
        call,
        id: id.to_owned(),
        name: name.to_owned(),
        custom: false,
        signature: None,
    };
    let arguments = |call, text: &str| AnswerPiece::Arguments { index: 0, call, text: text.to_owned() };
    let expected = [
        AnswerPiece::Start { id: None, model: Some("qwen3".to_owned()) },
        thinking(0, "hm"),
        thinking(0, "m"),
        AnswerPiece::Text { index: 0, text: "Let me".to_owned() },
        thinking(1, "so"),
        call(0, "c1", "get"),
        arguments(0, r#"{"b":1,"a":2}"#),
        call(1, "c2", "put"),
        arguments(1, r#"{"x":1}"#),
        call(2, "c3", "nop"),
        arguments(2, "{}"),
        AnswerPiece::Usage(Usage { output_tokens: Some(9), ..Usage::default() }),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
    ];
    assert_eq!(pieces, expected);
}

#[test]
fn calls_without_an_id_get_one_and_errors_carry_nothing() {
    let call = json!({ "function": { "name": "f", "arguments": {} } });
    let found = pieces(&[json!({ "message": { "tool_calls": [call, call] } })]);
    let ids: Vec<&str> = found
        .iter()
        .filter_map(|piece| match piece {
            AnswerPiece::Call { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("call_")), "{ids:?}");
    assert_eq!(pieces(&[json!({ "error": "x", "response": "y" }), json!([]), json!("x")]), []);
}

#[test]
fn every_end_has_a_name() {
    for (reason, expected) in [
        (json!("stop"), FinishReason::Stop),
        (Value::Null, FinishReason::Stop),
        (json!("length"), FinishReason::Length),
        (json!("load"), FinishReason::Stop),
        (json!("odd"), FinishReason::Other("odd".to_owned())),
    ] {
        let found = pieces(&[json!({ "response": "", "done": true, "done_reason": reason })]);
        assert_eq!(found, [AnswerPiece::Finish { index: 0, finish: expected }], "{reason}");
    }
}

#[test]
fn a_whole_answer_is_one_line() {
    let body = b"{\n  \"message\": { \"content\": \"hi\" },\n  \"done\": true\n}\n";
    let line = events_of_whole(body).unwrap();
    assert_eq!(line, "{\"message\":{\"content\":\"hi\"},\"done\":true}\n");
    assert!(matches!(read(&SseEvent { raw: line }), Frame::Done(Chunk { payload: Some(_), .. })));
    for none in ["{}", "[]", "", "{\"error\":\"x\"}", "{\"message\":{},\"error\":\"x\"}"] {
        assert_eq!(events_of_whole(none.as_bytes()), None, "{none}");
    }
}

/// Known members with arbitrary values.
fn arbitrary() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let names = [
        "message",
        "content",
        "thinking",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "response",
        "model",
        "done",
        "done_reason",
        "error",
        "eval_count",
        "total_duration",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 50, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(names.to_vec()).prop_map(str::to_owned), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn never_panics_on_json(lines in proptest::collection::vec(arbitrary(), 0..4)) {
        for line in &lines {
            read(&event(&line.to_string()));
            events_of_whole(line.to_string().as_bytes());
        }
        pieces(&lines);
    }

    #[test]
    fn never_panics_on_bytes(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        events_of_whole(&bytes);
        let event = SseEvent { raw: Bytes::from(bytes) };
        read(&event);
        OllamaReader::default().read(&event, &mut Vec::new());
    }
}
