//! Payload, ends of streams, and pieces.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::gemini::{GeminiReader, events_of_whole, path, read};
use photofinish_wire::PayloadKind;
use photofinish_wire::PayloadKind::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::{AnswerPiece, Citation, FinishReason, ReadPieces};
use photofinish_wire::stream::frame::{Chunk, Frame};
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::stream::template::Template;

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\r\n\r\n")) }
}

fn chunk(data: &str) -> Chunk<'static> {
    match read(&event(data)).into_owned() {
        Frame::Chunk(chunk) => chunk,
        other => panic!("{data}: {other:?}"),
    }
}

fn payload_of(part: &str) -> Option<(PayloadKind, u32)> {
    let data = format!(r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}},"index":0}}]}}"#);
    chunk(&data).payload.map(|payload| (payload.kind, payload.chars))
}

fn pieces(events: &[Value]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (GeminiReader::default(), Vec::new());
    events.iter().for_each(|data| reader.read(&event(&data.to_string()), &mut pieces));
    photofinish_wire::conversation::sample::without_ends(pieces)
}

fn of_parts(parts: Value) -> Vec<AnswerPiece> {
    pieces(&[json!({ "candidates": [{ "content": { "parts": parts } }] })])
}

#[test]
fn payload_is_generated_output_and_nothing_else() {
    let table: &[(&str, Option<(PayloadKind, u32)>)] = &[
        (r#"{"text":"hé"}"#, Some((Text, 2))),
        (r#"{"text":" "}"#, Some((Text, 1))),
        (r#"{"text":""}"#, None),
        (r#"{"text":"","thoughtSignature":"AAAA"}"#, None),
        (r#"{"thoughtSignature":"AAAA"}"#, None),
        (r#"{"text":"hm","thought":true}"#, Some((Reasoning, 2))),
        (r#"{"thought":true,"text":"hm"}"#, Some((Reasoning, 2))),
        (r#"{"thought":false,"text":"hm"}"#, Some((Text, 2))),
        (r#"{"text":"hm","thought":true},{"text":"a"}"#, Some((Text, 3))),
        (r#"{"functionCall":{"name":"get","args":{"a":1}},"thoughtSignature":"A"}"#, Some((Tool, 10))),
        (r#"{"functionCall":{"name":"get"}}"#, Some((Tool, 3))),
        (r#"{"functionCall":{"id":"x","args":null}}"#, None),
        (r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#, Some((Image, 4))),
        (r#"{"inlineData":{"data":"AAAA","mimeType":"audio/pcm;rate=24000"}}"#, Some((Audio, 4))),
        (r#"{"inlineData":{"mimeType":"image/png","data":""}}"#, None),
        (r#"{"executableCode":{"language":"PYTHON","code":"1+1"}}"#, Some((Text, 3))),
        (r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}"#, None),
        (r#"{"toolCall":{"toolType":"FILE_SEARCH","id":"x"},"thoughtSignature":"A"}"#, None),
        (r#"{}"#, None),
        (r#"null,7,[]"#, None),
    ];
    for (part, expected) in table {
        assert_eq!(payload_of(part), *expected, "{part}");
    }
    assert_eq!(chunk(r#"{"candidates":[{"content":{}}]}"#).payload, None);
    assert_eq!(chunk(r#"{"candidates":{}}"#), Chunk::default());
}

#[test]
fn a_chunk_tells_its_model_its_usage_and_its_end() {
    let last = chunk(
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":3},"modelVersion":"gemini-2.5-flash"}"#,
    );
    assert_eq!((last.finish_reason.as_deref(), last.model.as_deref()), (Some("MAX_TOKENS"), Some("gemini-2.5-flash")));
    assert_eq!((last.choices, last.finished, last.usage_only), (1, 1, false));
    assert_eq!(last.usage.as_deref(), Some(r#"{"promptTokenCount":3}"#));
    let second = chunk(r#"{"candidates":[{"index":2,"content":{"parts":[{"text":"x"}]}}]}"#);
    assert_eq!((second.choices, second.finished), (4, 0));
    assert!(chunk(r#"{"usageMetadata":{"totalTokenCount":3}}"#).usage_only);
    for (reason, expected) in [
        ("1", Some("STOP")),
        ("2", Some("MAX_TOKENS")),
        ("77", Some("77")),
        ("0", None),
        ("null", None),
        ("\"FINISH_REASON_UNSPECIFIED\"", None),
    ] {
        let chunk = chunk(&format!(r#"{{"candidates":[{{"finishReason":{reason}}}]}}"#));
        assert_eq!(chunk.finish_reason.as_deref(), expected, "{reason}");
        assert_eq!(chunk.finished, u64::from(expected.is_some()), "{reason}");
    }
}

#[test]
fn what_is_no_chunk_is_told_apart() {
    let frame = |raw: &'static str| read(&SseEvent { raw: Bytes::from_static(raw.as_bytes()) }).into_owned();
    assert_eq!(frame(": ping\n\n"), Frame::KeepAlive);
    assert_eq!(frame("data: \n\n"), Frame::KeepAlive);
    assert_eq!(frame("data: [DONE]\n\n"), Frame::Done(Chunk::default()));
    assert_eq!(frame("data: {\"candidates\":[\n\n"), Frame::Malformed);
    assert_eq!(frame("data: {} {}\n\n"), Frame::Malformed);
    assert!(matches!(frame("data: {\"candidates\":\ndata: [{}]}\n\n"), Frame::Chunk(Chunk { choices: 1, .. })));
    let error = r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#;
    for raw in [format!("data: {error}\n\n"), format!("{error}\n")] {
        let event = SseEvent { raw: Bytes::from(raw) };
        let Frame::Error { data, usage } = read(&event) else { panic!("{event:?}") };
        assert_eq!((data.trim_ascii(), usage), (error.as_bytes(), None));
    }
    assert_eq!(chunk(r#"{"error":null}"#), Chunk::default());
}

#[test]
fn a_blocked_prompt_is_an_error() {
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}"#;
    let usage = Some(Cow::Borrowed(r#"{"promptTokenCount":4}"#));
    assert_eq!(read(&event(blocked)), Frame::Error { data: Cow::Borrowed(blocked.as_bytes()), usage });
    let fine = chunk(r#"{"promptFeedback":{"safetyRatings":[]},"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#);
    assert!(fine.payload.is_some());
}

#[test]
fn chunks_that_differ_in_their_text_only_are_a_template() {
    let vertex = |text: &str| {
        event(&format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}}}}],"usageMetadata":{{"trafficType":"ON_DEMAND"}},"responseId":"r"}}"#
        ))
    };
    let first = vertex("one");
    let Frame::Chunk(chunk) = read(&first) else { panic!("no chunk") };
    let template = Template::learn(&first, &chunk).unwrap();
    assert_eq!(template.fits(&vertex("two!")).map(|more| more.payload.chars), Some(4));
    let two = event(r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}]}}]}"#);
    let Frame::Chunk(chunk) = read(&two) else { panic!("no chunk") };
    assert_eq!(chunk.text, None);
}

#[test]
fn a_stream_becomes_pieces() {
    let chunk = |parts: Value, usage: Value| {
        json!({ "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }], "usageMetadata": usage,
                "modelVersion": "gemini-3-flash", "responseId": "r1" })
    };
    let mut last = chunk(json!([{ "text": "" }]), json!({ "promptTokenCount": 5, "candidatesTokenCount": 2 }));
    last["candidates"][0]["finishReason"] = json!("STOP");
    let pieces = pieces(&[
        chunk(json!([{ "text": "hm", "thought": true }]), json!({ "promptTokenCount": 5 })),
        chunk(json!([{ "text": "m", "thought": true }, { "text": "Let me " }]), json!({ "promptTokenCount": 5 })),
        chunk(
            json!([{ "functionCall": { "id": "c1", "name": "get", "args": { "b": 1, "a": [] } }, "thoughtSignature": "sig" },
                   { "functionCall": { "id": "c2", "name": "put" } }]),
            json!({ "promptTokenCount": 5, "candidatesTokenCount": 2 }),
        ),
        last,
    ]);
    let usage = |output_tokens| AnswerPiece::Usage(Usage { input_tokens: Some(5), output_tokens, ..Usage::default() });
    let thinking = |text: &str| AnswerPiece::Thinking { index: 0, block: 0, text: text.to_owned() };
    let call = |call, id: &str, name: &str, signature: Option<&str>| AnswerPiece::Call {
        index: 0,
        call,
        id: id.to_owned(),
        name: name.to_owned(),
        custom: false,
        signature: signature.map(|signature| format!("photofinish.gemini.{signature}")),
    };
    let arguments = |call, text: &str| AnswerPiece::Arguments { index: 0, call, text: text.to_owned() };
    let expected = [
        AnswerPiece::Start { id: Some("r1".to_owned()), model: Some("gemini-3-flash".to_owned()) },
        usage(None),
        thinking("hm"),
        thinking("m"),
        AnswerPiece::Text { index: 0, text: "Let me ".to_owned() },
        usage(Some(2)),
        call(0, "c1", "get", Some("sig")),
        arguments(0, r#"{"b":1,"a":[]}"#),
        call(1, "c2", "put", None),
        arguments(1, "{}"),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
    ];
    assert_eq!(pieces, expected);
}

#[test]
fn a_signature_has_a_block_of_its_own_unless_it_is_a_thought_s() {
    let signature = |block, signature: &str| AnswerPiece::Signature {
        index: 0,
        block,
        signature: format!("photofinish.gemini.{signature}"),
    };
    let thinking = |block, text: &str| AnswerPiece::Thinking { index: 0, block, text: text.to_owned() };
    let text = |text: &str| AnswerPiece::Text { index: 0, text: text.to_owned() };
    let pieces = of_parts(json!([
        { "text": "a", "thought": true, "thoughtSignature": "s0" },
        { "text": "b", "thought": true },
        { "text": "c", "thoughtSignature": "s2" },
        { "thoughtSignature": "s3" },
        { "text": "d", "thought": true },
    ]));
    let expected = [
        thinking(0, "a"),
        signature(0, "s0"),
        thinking(1, "b"),
        text("c"),
        signature(2, "s2"),
        signature(3, "s3"),
        thinking(4, "d"),
    ];
    assert_eq!(pieces, expected);
}

#[test]
fn what_google_s_own_tools_do_is_told_and_media_are_kept() {
    let other = |name: &str| AnswerPiece::Other(name.to_owned());
    let pieces = of_parts(json!([
        { "toolCall": { "toolType": "FILE_SEARCH" }, "thoughtSignature": "s" },
        { "executableCode": { "code": "1" } },
        { "codeExecutionResult": { "output": "1" } },
        { "inlineData": { "mimeType": "image/png", "data": "AA" } },
        { "inlineData": { "mimeType": "audio/pcm", "data": "BB" } },
        { "inlineData": { "mimeType": "video/mp4", "data": "CC" } },
        { "inlineData": { "mimeType": "image/png", "data": "DD" }, "thought": true },
        { "functionCall": {} },
        7,
    ]));
    let expected = [
        other("toolCall"),
        other("executableCode"),
        other("codeExecutionResult"),
        AnswerPiece::Image { index: 0, media_type: "image/png".to_owned(), data: "AA".to_owned() },
        AnswerPiece::Audio { index: 0, id: None, data: "BB".to_owned(), transcript: String::new() },
        other("inlineData"),
        other("inlineData"),
    ];
    assert_eq!(pieces, expected);
    let grounded = json!({ "candidates": [{
        "groundingMetadata": { "groundingChunks": [{ "web": { "uri": "u", "title": "t" } }] },
        "citationMetadata": { "citationSources": [{ "uri": "v" }, { "license": "x" }] },
    }] });
    let cited = |url: &str, title: Option<&str>| {
        let (url, title) = (url.to_owned(), title.map(str::to_owned));
        AnswerPiece::Citation { index: 0, citation: Citation { url, title, ..Citation::default() } }
    };
    let expected = [cited("u", Some("t")), cited("v", None)];
    assert_eq!(super::stream::pieces(&[grounded.clone(), grounded]), expected, "each once");
}

#[test]
fn every_end_has_a_name() {
    let finish = |reason: Value| match super::stream::pieces(&[json!({ "candidates": [{ "finishReason": reason }] })])[..]
    {
        [AnswerPiece::Finish { ref finish, .. }] => Some(finish.clone()),
        [] => None,
        ref other => panic!("{other:?}"),
    };
    for (reason, expected) in [
        (json!("STOP"), Some(FinishReason::Stop)),
        (json!(1), Some(FinishReason::Stop)),
        (json!("MAX_TOKENS"), Some(FinishReason::Length)),
        (json!("SAFETY"), Some(FinishReason::Filtered)),
        (json!("RECITATION"), Some(FinishReason::Filtered)),
        (json!("PROHIBITED_CONTENT"), Some(FinishReason::Filtered)),
        (json!("BLOCKLIST"), Some(FinishReason::Filtered)),
        (json!("SPII"), Some(FinishReason::Filtered)),
        (json!("IMAGE_SAFETY"), Some(FinishReason::Filtered)),
        (json!("MALFORMED_FUNCTION_CALL"), Some(FinishReason::Other("MALFORMED_FUNCTION_CALL".to_owned()))),
        (json!("FINISH_REASON_UNSPECIFIED"), None),
        (json!(0), None),
        (json!(null), None),
        (json!({}), None),
    ] {
        assert_eq!(finish(reason.clone()), expected, "{reason}");
    }
}

#[test]
fn calls_without_an_id_get_one_and_errors_carry_nothing() {
    let pieces = of_parts(json!([{ "functionCall": { "name": "f", "args": 7 } }, { "functionCall": { "name": "f" } }]));
    let ids: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            AnswerPiece::Call { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    assert!(ids.iter().all(|id| id.starts_with("call_") && id.len() <= 40), "{ids:?}");
    assert_eq!(super::stream::pieces(&[json!({ "error": { "code": 500 } }), json!([]), json!(7)]), []);
}

#[test]
fn a_whole_answer_becomes_a_stream() {
    let chunk = |text: &str| json!({ "candidates": [{ "content": { "parts": [{ "text": text }] } }] });
    let events = |body: Value| events_of_whole(body.to_string().as_bytes()).map(|events| events.to_vec());
    let one = format!("data: {}\n\n", chunk("a"));
    assert_eq!(events(chunk("a")), Some(one.clone().into_bytes()));
    assert_eq!(
        events(json!([chunk("a"), chunk("b"), { "error": { "code": 500 } }])),
        Some(format!("{one}data: {}\n\ndata: {{\"error\":{{\"code\":500}}}}\n\n", chunk("b")).into_bytes())
    );
    for none in [json!([]), json!({}), json!([{ "error": { "code": 400 } }]), json!({ "promptFeedback": {} }), json!(7)]
    {
        assert_eq!(events(none.clone()), None, "{none}");
    }
    assert_eq!(events_of_whole(b"{"), None);
}

#[test]
fn a_model_s_name_becomes_a_path() {
    for (model, expected) in [
        ("gemini-2.5-flash", "/models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "/models/gemini-2.5-flash"),
        ("tunedModels/my-1", "/tunedModels/my-1"),
        ("publishers/google/models/gemini-2.5-pro@001", "/publishers/google/models/gemini-2.5-pro@001"),
        ("projects/p/locations/l/endpoints/7", "/projects/p/locations/l/endpoints/7"),
        ("a/b c?d#e", "/models/a%2Fb%20c%3Fd%23e"),
        ("é:x", "/models/%C3%A9%3Ax"),
        ("models/../secret", "/models/models%2F..%2Fsecret"),
        ("models/", "/models/models%2F"),
        ("models", "/models/models"),
        ("..", "/models/.."),
    ] {
        assert_eq!(path(model, true), format!("{expected}:streamGenerateContent?alt=sse"), "{model}");
        assert_eq!(path(model, false), format!("{expected}:generateContent"));
    }
}

/// Known members with arbitrary values.
fn arbitrary() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let names = [
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "args",
        "id",
        "inlineData",
        "mimeType",
        "data",
        "index",
        "finishReason",
        "usageMetadata",
        "promptTokenCount",
        "modelVersion",
        "promptFeedback",
        "blockReason",
        "error",
        "responseId",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("STOP")),
    ];
    leaf.prop_recursive(7, 60, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(names.to_vec()).prop_map(str::to_owned), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn never_panics_on_json(events in proptest::collection::vec(arbitrary(), 0..4)) {
        for data in &events {
            read(&event(&data.to_string()));
            events_of_whole(data.to_string().as_bytes());
        }
        pieces(&events);
    }

    #[test]
    fn never_panics_on_bytes(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        events_of_whole(&bytes);
        let event = SseEvent { raw: Bytes::from(bytes) };
        read(&event);
        GeminiReader::default().read(&event, &mut Vec::new());
    }

    /// The race counts exactly the text that the client gets.
    #[test]
    fn payload_and_pieces_agree(parts in proptest::collection::vec(("\\PC{0,6}", proptest::prelude::any::<bool>()), 0..5)) {
        let parts: Vec<Value> = parts.iter().map(|(text, thought)| json!({ "text": text, "thought": thought })).collect();
        let data = json!({ "candidates": [{ "content": { "parts": parts } }] });
        let chars: usize = pieces(std::slice::from_ref(&data)).iter().map(|piece| match piece {
            AnswerPiece::Text { text, .. } | AnswerPiece::Thinking { text, .. } => text.chars().count(),
            other => panic!("{other:?}"),
        }).sum();
        let counted = chunk(&data.to_string()).payload.map_or(0, |payload| payload.chars as usize);
        proptest::prop_assert_eq!(counted, chars);
    }
}
