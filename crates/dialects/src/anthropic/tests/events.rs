//! Which events carry payload, which carry nothing, and the events of a whole answer.

use crate::SurfaceFormat as _;
use std::borrow::Cow;

use super::*;
use photofinish_wire::PayloadKind;
use photofinish_wire::PayloadKind::*;
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::template::Template;

fn read_text(data: &str) -> Frame<'static> {
    read(Box::leak(Box::new(event(data))))
}

fn chunk(data: &str) -> Chunk<'static> {
    match read_text(data) {
        Frame::Chunk(chunk) => chunk,
        other => panic!("{data}: {other:?}"),
    }
}

#[test]
fn payload_is_generated_output_and_nothing_else() {
    let delta = |delta: &str| format!(r#"{{"type":"content_block_delta","index":1,"delta":{delta}}}"#);
    let start = |block: &str| format!(r#"{{"type":"content_block_start","index":1,"content_block":{block}}}"#);
    let table: &[(String, Option<(PayloadKind, u32)>)] = &[
        (delta(r#"{"type":"text_delta","text":"h\u00e9\n"}"#), Some((Text, 3))),
        (delta(r#"{"text":" ","type":"text_delta"}"#), Some((Text, 1))),
        (delta(r#"{"type":"text_delta","text":""}"#), None),
        (delta(r#"{"type":"text_delta"}"#), None),
        (delta(r#"{"type":"thinking_delta","thinking":"hm"}"#), Some((Reasoning, 2))),
        (delta(r#"{"type":"thinking_delta","thinking":""}"#), None),
        (delta(r#"{"type":"input_json_delta","partial_json":"{\"a\""}"#), Some((Tool, 4))),
        (delta(r#"{"type":"input_json_delta","partial_json":""}"#), None),
        (delta(r#"{"type":"signature_delta","signature":"EqQB"}"#), None),
        (delta(r#"{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}"#), None),
        (delta(r#"{"type":"compaction_delta","content":"so far"}"#), None),
        (delta(r#"{"type":"a_new_delta","text":"x"}"#), None),
        (delta("null"), None),
        (start(r#"{"type":"text","text":""}"#), None),
        (start(r#"{"type":"text","text":"ab"}"#), Some((Text, 2))),
        (start(r#"{"type":"thinking","thinking":"","signature":""}"#), None),
        (start(r#"{"type":"thinking","thinking":"abc","signature":"x"}"#), Some((Reasoning, 3))),
        (start(r#"{"type":"redacted_thinking","data":"EqkE"}"#), None),
        (start(r#"{"type":"tool_use","id":"toolu_1","name":"get","input":{}}"#), Some((Tool, 3))),
        (start(r#"{"input":{"a":1},"name":"get","id":"toolu_1","type":"tool_use"}"#), Some((Tool, 10))),
        (start(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#), Some((Tool, 10))),
        (start(r#"{"type":"mcp_tool_use","id":"m","name":"ask","input":{},"server_name":"d"}"#), Some((Tool, 3))),
        (start(r#"{"type":"tool_use","id":"toolu_1","name":"","input":{}}"#), None),
        (start(r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"x","text":"y"}]}"#), None),
        (start(r#"{"type":"compaction","content":null}"#), None),
        (r#"{"type":"content_block_stop","index":1}"#.to_owned(), None),
        (r#"{"type":"message_start","message":{"content":[],"usage":{"output_tokens":1}}}"#.to_owned(), None),
        (r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#.to_owned(), None),
        (r#"{"type":"a_new_event","delta":{"type":"text_delta","text":"x"}}"#.to_owned(), None),
        ("[1]".to_owned(), None),
        ("7".to_owned(), None),
    ];
    for (data, expected) in table {
        let payload = chunk(data).payload.map(|payload| (payload.kind, payload.chars));
        assert_eq!(payload, *expected, "{data}");
    }
}

#[test]
fn finish_model_and_usage_are_read() {
    let start = chunk(
        r#"{"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":9}}}"#,
    );
    assert_eq!(start.model.as_deref(), Some("claude-x"));
    assert_eq!(start.usage.as_deref(), Some(r#"{"input_tokens":9}"#));
    assert_eq!((start.choices, start.finished, start.finish_reason), (1, 0, None));
    let end = chunk(
        r#"{"usage":{"output_tokens":5},"type":"message_delta","delta":{"stop_sequence":"END","stop_reason":"stop_sequence"}}"#,
    );
    assert_eq!((end.choices, end.finished, end.finish_reason.as_deref()), (1, 1, Some("stop_sequence")));
    assert_eq!(end.usage.as_deref(), Some(r#"{"output_tokens":5}"#));
    assert_eq!(chunk(r#"{"type":"message_delta","delta":{"stop_reason":null}}"#).finished, 0);
    for reason in ["refusal", "pause_turn", "tool_use", "max_tokens", "model_context_window_exceeded"] {
        let data = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        assert_eq!(chunk(&data).finish_reason.as_deref(), Some(reason));
    }
}

#[test]
fn what_is_no_chunk_is_told_apart() {
    let raw = |raw: &'static str| read(Box::leak(Box::new(SseEvent { raw: Bytes::from_static(raw.as_bytes()) })));
    assert_eq!(raw(": hello\n\n"), Frame::KeepAlive);
    assert_eq!(raw("event: ping\ndata: {\"type\": \"ping\"}\n\n"), Frame::KeepAlive);
    assert_eq!(raw("data: {\"type\": \"ping\"}\n\n"), Frame::KeepAlive);
    assert_eq!(raw("event: content_block_stop\ndata:\n\n"), Frame::KeepAlive);
    assert_eq!(raw("data: {\"type\":\"message_stop\"   }\n\n"), Frame::Done(Chunk::default()));
    assert_eq!(raw("data: [DONE]\n\n"), Frame::Done(Chunk::default()));
    assert_eq!(raw("data: {\"type\":\n\n"), Frame::Malformed);
    assert_eq!(raw("data: {} {}\n\n"), Frame::Malformed);
    assert!(matches!(
        raw("data: {\"type\":\"message_stop\",\"usage\":{\"input_tokens\":1}}\n\n"),
        Frame::Done(Chunk { usage: Some(_), .. })
    ));
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for bytes in [format!("event: error\ndata: {overloaded}\n\n"), format!("data: {overloaded}\n\n")] {
        let event = SseEvent { raw: Bytes::from(bytes) };
        let Frame::Error { data, usage: None } = read(&event) else { panic!("no error") };
        assert_eq!(
            photofinish_wire::answer::error::of_frame(&data).kind,
            photofinish_base::failure::FailureKind::Overloaded
        );
    }
    assert!(matches!(raw("{\"error\":{\"message\":\"model gone\"}}\n"), Frame::Error { .. }));
    assert!(matches!(raw("{\"error\":\"x\",\"usage\":{\"output_tokens\":2}}"), Frame::Error { usage: Some(_), .. }));
    assert!(matches!(raw("data: {\"error\":null,\"type\":\"content_block_stop\"}\n\n"), Frame::Chunk(_)));
    let split =
        "data: {\"type\":\"content_block_delta\",\ndata: \"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n";
    assert!(matches!(raw(split), Frame::Chunk(Chunk { payload: Some(_), .. })));
}

#[test]
fn an_error_is_known_to_the_official_client_by_its_name() {
    assert!(is_error_event(&event(r#"{"type":"error","error":{}}"#)));
    assert!(!is_error_event(&SseEvent { raw: Bytes::from_static(b"data: {\"type\":\"error\",\"error\":{}}\n\n") }));
}

#[test]
fn a_delta_that_differs_in_its_text_needs_no_reading() {
    for (kind, member, expected) in [
        ("text_delta", "text", Text),
        ("thinking_delta", "thinking", Reasoning),
        ("input_json_delta", "partial_json", Tool),
    ] {
        let delta = |index: u32, text: &str| {
            event(&format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":"{text}"}}}}"#
            ))
        };
        let first = delta(0, "one");
        let Frame::Chunk(chunk) = read(&first) else { panic!("no chunk") };
        assert_eq!(chunk.text, Some("one"));
        let template = Template::learn(&first, &chunk).unwrap();
        let second = delta(0, "caf\\u00e9");
        let more = template.fits(&second).unwrap();
        assert_eq!((more.payload, more.calls), (Payload { kind: expected, chars: 4 }, expected == Tool));
        assert_eq!(&second.raw[more.at], b"caf\\u00e9");
        assert_eq!(template.fits(&delta(1, "two")), None);
        assert_eq!(template.fits(&delta(0, "")), None);
    }
}

proptest::proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let event = SseEvent { raw: Bytes::from(bytes) };
        read(&event);
        pieces(std::slice::from_ref(&event));
        Surface::Messages.growing().add(&event);
        events_of_whole(&event.raw);
    }

    /// The order of members does not matter. Servers and proxies change it.
    #[test]
    fn the_order_of_members_does_not_matter(text in "\\PC{1,20}", kind in 0usize..3, flip: bool) {
        let (kind, member) = [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")][kind];
        let text = json!(text).to_string();
        let delta = format!(r#""delta":{{"{member}":{text},"type":"{kind}"}}"#);
        let rest = r#""type":"content_block_delta","index":0"#;
        let data = if flip { format!("{{{delta},{rest}}}") } else { format!("{{{rest},{delta}}}") };
        let event = event(&data);
        let Frame::Chunk(chunk) = read(&event) else { panic!("no chunk") };
        proptest::prop_assert!(chunk.payload.is_some());
        proptest::prop_assert_eq!(chunk.text.map(Cow::Borrowed), Some(Cow::Borrowed(&text[1..text.len() - 1])));
    }
}
