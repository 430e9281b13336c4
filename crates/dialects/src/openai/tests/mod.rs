//! Tables of payload, and of events that are not chunks.

mod invalid;
mod requests;
mod streams;
mod written;

use super::*;
use PayloadKind::*;
use photofinish_wire::PayloadKind;

fn chunk(data: &str) -> Chunk<'static> {
    let event = SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) };
    match read(Box::leak(Box::new(event))) {
        Frame::Chunk(chunk) => chunk,
        other => panic!("{data}: {other:?}"),
    }
}

fn payload_of(delta: &str) -> Option<(PayloadKind, u32)> {
    let payload = chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)).payload;
    payload.map(|payload| (payload.kind, payload.chars))
}

#[test]
fn payload_is_generated_output_and_nothing_else() {
    let table: &[(&str, Option<(PayloadKind, u32)>)] = &[
        (r#"{"role":"assistant"}"#, None),
        (r#"{"role":"assistant","content":""}"#, None),
        (r#"{"role":"assistant","content":null}"#, None),
        (r#"{"role":"","reasoning_content":""}"#, None),
        (r#"{"content":" "}"#, Some((Text, 1))),
        (r#"{"content":"hello"}"#, Some((Text, 5))),
        (r#"{"content":"h\u00e9\n"}"#, Some((Text, 3))),
        (r#"{"content":"\ud83d\ude00x"}"#, Some((Text, 2))),
        (r#"{"content":"\\\\u"}"#, Some((Text, 3))),
        (r#"{"content":"é😀"}"#, Some((Text, 2))),
        (r#"{"content":[]}"#, None),
        (r#"{"content":[{"type":"text","text":""}]}"#, None),
        (r#"{"content":[{"type":"text","text":"ab"}]}"#, Some((Text, 2))),
        (r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#, Some((Reasoning, 2))),
        (r#"{"content":[{"type":"reference","reference_ids":[1]}]}"#, None),
        (r#"{"reasoning_content":"a"}"#, Some((Reasoning, 1))),
        (r#"{"reasoning":"a","content":""}"#, Some((Reasoning, 1))),
        (r#"{"reasoning":"a","reasoning_content":"a"}"#, Some((Reasoning, 1))),
        (r#"{"thinking":"a"}"#, Some((Reasoning, 1))),
        (r#"{"reasoning":"a","content":"b"}"#, Some((Text, 2))),
        (r#"{"refusal":"no"}"#, Some((Refusal, 2))),
        (r#"{"refusal":null}"#, None),
        (r#"{"tool_calls":[]}"#, None),
        (r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function"}]}"#, None),
        (r#"{"tool_calls":[{"index":0,"function":{"name":"","arguments":""}}]}"#, None),
        (
            r#"{"role":"assistant","tool_calls":[{"index":0,"id":"c","function":{"name":"get","arguments":""}}]}"#,
            Some((Tool, 3)),
        ),
        (r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}"#, Some((Tool, 4))),
        (r#"{"tool_calls":[{"index":0,"custom":{"name":"x","input":"yz"}}]}"#, Some((Tool, 3))),
        (r#"{"function_call":{"name":"f"}}"#, Some((Tool, 1))),
        (r#"{"audio":{"id":"a"}}"#, None),
        (r#"{"audio":{"data":"AAAA"}}"#, Some((Audio, 4))),
        (r#"{"audio":{"transcript":"hi"}}"#, Some((Audio, 2))),
        (r#"{"audio":{"data":"AAAA","transcript":"hi"}}"#, Some((Audio, 6))),
        (r#"{"audio":{"data":"","transcript":"","expires_at":7}}"#, None),
        (r#"{"images":[]}"#, None),
        (r#"{"images":[{"type":"image_url","image_url":{"url":""}}]}"#, None),
        (r#"{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#, Some((Image, 4))),
        (r#"{}"#, None),
        (r#"null"#, None),
        (r#"{"content":7}"#, Some((Text, 1))),
        (r#"{"content":{"a":1}}"#, Some((Text, 7))),
        (r#"{"content":{"type":"text","text":"ab"}}"#, Some((Text, 2))),
        (r#"{"content":["a",{"text":"b"}]}"#, Some((Text, 2))),
        (r#"{"content":false,"reasoning":7,"refusal":false}"#, None),
        (r#"{"tool_calls":{"index":0,"function":{"name":"get"}}}"#, Some((Tool, 3))),
    ];
    for (delta, expected) in table {
        assert_eq!(payload_of(delta), *expected, "{delta}");
    }
}

#[test]
fn what_is_no_chunk_is_told_apart() {
    let frame = |raw: &'static str| {
        let event: &'static SseEvent = Box::leak(Box::new(SseEvent { raw: Bytes::from_static(raw.as_bytes()) }));
        read(event)
    };
    assert_eq!(frame(": OPENROUTER PROCESSING\n\n"), Frame::KeepAlive);
    assert_eq!(frame("event: ping\ndata: {}\n\n"), Frame::KeepAlive);
    assert_eq!(frame("data:\n\n"), Frame::KeepAlive);
    assert_eq!(frame("data: [DONE]\n\n"), Frame::Done(Chunk::default()));
    assert_eq!(frame("data:[DONE] \r\n\r\n"), Frame::Done(Chunk::default()));
    assert_eq!(frame("data: {\"a\":\n\n"), Frame::Malformed);
    assert_eq!(
        read(&SseEvent { raw: Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n") }),
        Frame::Malformed
    );
    for error in [
        r#"{"error":{"message":"x"}}"#,
        r#"{"error":"x","choices":[]}"#,
        r#"{"x_groq":{"error":"x"},"choices":[]}"#,
        r#"{"base_resp":{"status_code":1002,"status_msg":"x"}}"#,
        r#"{"object":"error","message":"x"}"#,
    ] {
        let event = SseEvent { raw: Bytes::from(format!("data: {error}\n\n")) };
        assert_eq!(read(&event), Frame::Error { data: Cow::Borrowed(error.as_bytes()), usage: None }, "{error}");
    }
    let event = SseEvent { raw: Bytes::from("event: error\ndata: {\"message\":\"x\"}\n\n") };
    assert!(matches!(read(&event), Frame::Error { .. }));
    for fine in [
        r#"{"error":null}"#,
        r#"{"error":""}"#,
        r#"{"error":0}"#,
        r#"{"base_resp":{"status_code":"0"}}"#,
        r#"{"base_resp":{"status_code":0}}"#,
        r#"{"choices":{}}"#,
        r#"[1]"#,
    ] {
        assert_eq!(chunk(fine).payload, None, "{fine}");
    }
}

#[test]
fn the_usage_chunk_is_recognised() {
    assert!(chunk(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#).usage_only);
    assert!(!chunk(r#"{"choices":[],"prompt_filter_results":[{}],"usage":null}"#).usage_only);
    assert!(!chunk(r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#).usage_only);
    assert!(
        chunk(r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":1}}}"#)
            .usage
            .is_some()
    );
    assert!(chunk(r#"{"choices":[{"delta":{},"usage":{"prompt_tokens":1}}]}"#).usage.is_some());
}

#[test]
fn an_answer_that_ends_with_an_error_is_one() {
    use photofinish_base::failure::FailureKind::*;
    use serde_json::json;
    for (choice, kind, message) in [
        (
            json!({ "finish_reason": "error", "error": { "code": 502, "message": "provider is down" } }),
            ServerError,
            "provider is down",
        ),
        (
            json!({ "finish_reason": "error", "error": { "code": 429, "message": "slow down" } }),
            RateLimited,
            "slow down",
        ),
    ] {
        let data = json!({ "choices": [choice], "usage": { "prompt_tokens": 1 } }).to_string();
        let event = SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) };
        let Frame::Error { data, usage } = read(&event) else { panic!("{data}") };
        let facts = photofinish_wire::answer::error::of_frame(&data);
        assert_eq!((facts.kind, facts.message.as_str(), usage.is_some()), (kind, message, true));
    }
    let data = r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#;
    assert_eq!(chunk(data).finish_reason.as_deref(), Some("error"));
    for (reason, kind) in [
        ("error", InStreamError),
        ("network_error", InStreamError),
        ("server_error", ServerError),
        ("insufficient_system_resource", Overloaded),
    ] {
        let facts = photofinish_wire::answer::error::of_end(reason, data.replace("error", reason).as_bytes());
        assert_eq!((facts.kind, facts.message), (kind, format!("the answer ended with `{reason}`")));
    }
}

#[test]
fn finish_and_model_are_read_beside_payload() {
    let chunk = chunk(
        r#"{"model":"m-1","choices":[{"delta":{"content":"x"},"finish_reason":null},{"delta":{},"finish_reason":"length"}]}"#,
    );
    assert_eq!((chunk.finish_reason.as_deref(), chunk.model.as_deref()), (Some("length"), Some("m-1")));
    assert_eq!(chunk.payload.map(|payload| payload.kind), Some(Text));
}

#[test]
fn a_whole_answer_becomes_one_chunk() {
    let whole = br#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"a"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    let events = events_of_whole(whole).unwrap();
    let text = std::str::from_utf8(&events).unwrap();
    assert!(
        text.contains(r#""tool_calls":[{"id":"a","index":0}]"#) && text.ends_with("\n\ndata: [DONE]\n\n"),
        "{text}"
    );
    let event = SseEvent { raw: events.slice(..events.len() - 14) };
    assert!(matches!(
        read(&event),
        Frame::Chunk(Chunk { payload: Some(_), finish_reason: Some(_), usage: Some(_), .. })
    ));
    assert_eq!(events_of_whole(br#"{"error":"x"}"#), None);
    assert_eq!(events_of_whole(b"[]"), None);
}

/// The way by text gives what the way by a tree gives, or leaves it to the tree.
#[test]
fn a_whole_answer_becomes_the_same_chunk_by_its_text_as_by_a_tree() {
    let choice = |message: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion","n":1.50,"choices":[{{"index":0,"message":{message},"x":null}}]}}"#
        )
    };
    let by_text = [
        choice(r#"{"role":"assistant","content":"hi","tool_calls":null,"annotations":[]}"#),
        choice("{ \"content\" : \"é\\n\\u00e9\" ,\r\n \"tool_calls\": [ ] }").replace("[ ]", "[]"),
        choice(r#"{}"#).replace("\"n\":1.50", "\"error\": null"),
        "{ \"object\": \"chat.completion\",\n \"choices\": [\n {\"message\": {\"content\": \"a\"} },\n{\"message\":{},\"index\":1}\n] }\n".to_owned(),
    ];
    for body in &by_text {
        let chunk = as_chunk(body.as_bytes()).unwrap_or_else(|| panic!("left to the tree: {body}"));
        let mut expected = answer(body.as_bytes()).unwrap();
        expected["object"] = Value::from("chat.completion.chunk");
        for choice in expected["choices"].as_array_mut().unwrap() {
            let message = choice.as_object_mut().unwrap().remove("message").unwrap();
            choice["delta"] = message;
        }
        assert_eq!(serde_json::from_str::<Value>(&chunk).unwrap(), Value::Object(expected), "{body}");
        assert!(!chunk.contains(['\n', '\r']), "{chunk:?}");
    }
    let by_tree = [
        choice(r#"{"tool_calls":[{"id":"a"}]}"#),
        choice(r#"{"content":"\ud83d"}"#),
        choice(r#""text""#),
        choice(r#"{},"message":{}"#),
        choice(r#"{},"delta":{}"#),
        choice(r#"{}"#).replace("\"n\":1.50", "\"error\":\"x\""),
        choice(r#"{}"#).replace("\"object\"", "\"objekt\""),
        choice(r#"{}"#).replace("1.50", "NaN"),
        choice(r#"{}"#).replace("\"message\"", "\"text\""),
        choice(r#"{}"#) + "x",
        r#"{"object":"chat.completion","choices":[]}"#.to_owned(),
        r#"{"object":"chat.completion","choices":[1]}"#.to_owned(),
        r#"{"object":"chat.completion","choices":[{"message":{}}],"choices":[{"message":{}}]}"#.to_owned(),
    ];
    for body in &by_tree {
        assert_eq!(as_chunk(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn a_bare_json_line_is_read() {
    let event = SseEvent { raw: Bytes::from("{\"error\":\"model gone\"}\n") };
    assert!(matches!(read(&event), Frame::Error { .. }));
}

#[test]
fn data_over_several_lines_is_one_chunk() {
    let event = SseEvent { raw: Bytes::from("data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"x\"}}]}\n\n") };
    assert!(matches!(read(&event), Frame::Chunk(Chunk { payload: Some(_), .. })));
}

proptest::proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        read(&SseEvent { raw: Bytes::from(bytes) });
    }
}

#[test]
fn usage_beside_an_error_is_found() {
    let event = SseEvent {
        raw: Bytes::from("data: {\"error\":{\"code\":400},\"choices\":[],\"usage\":{\"completion_tokens\":10}}\n\n"),
    };
    let Frame::Error { usage, .. } = read(&event) else { panic!("no error") };
    assert_eq!(usage.as_deref(), Some("{\"completion_tokens\":10}"));
}

#[test]
fn an_error_that_an_sdk_would_not_see_is_told_apart() {
    let event = |raw: &'static str| SseEvent { raw: Bytes::from_static(raw.as_bytes()) };
    assert!(is_error_event(&event("event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n")));
    for unseen in [
        "{\"error\":\"x\"}\n",
        "event: error\ndata: {\"message\":\"x\"}\n\n",
        "data: {\"x_groq\":{\"error\":\"x\"}}\n\n",
    ] {
        assert!(!is_error_event(&event(unseen)), "{unseen}");
    }
}

/// Arbitrary JSON with the names of a chat request.
fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let word = proptest::sample::select(vec![
        "type",
        "text",
        "function",
        "name",
        "id",
        "content",
        "role",
        "user",
        "assistant",
        "tool",
        "url",
        "image_url",
        "data:;base64,",
        "arguments",
        "index",
        "thinking",
        "reasoning.text",
        "signature",
        "mode",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}
