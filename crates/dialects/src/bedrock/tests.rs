//! The dialect, tested on handwritten frames and conversations.

use bytes::Bytes;
use http::HeaderName;
use serde_json::{Value, json};

use super::*;
use photofinish_base::failure::FailureKind;
use photofinish_wire::PayloadKind;
use photofinish_wire::answer::error::{of_answer, of_body, of_frame};
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::*;
use photofinish_wire::dialect::Dialect;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::binary::sample::{event, exception, frame};
use photofinish_wire::stream::binary::{BinaryScanner, write_event};
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::stream::sse::SseEvent;

mod options;
mod requests;
mod sealed;

fn payload(event: &SseEvent) -> Option<(PayloadKind, u32)> {
    match read(event) {
        Frame::Chunk(chunk) => chunk.payload.map(|Payload { kind, chars }| (kind, chars)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_what_the_model_wrote_is_payload() {
    use PayloadKind::*;
    let table = [
        ("messageStart", r#"{"role":"assistant","p":"abc"}"#, None),
        (
            "contentBlockStart",
            r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"top"}}}"#,
            Some((Tool, 3)),
        ),
        ("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"t","name":""}}}"#, None),
        ("contentBlockStart", r#"{"start":{"image":{"format":"png"}}}"#, None),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"h\u00e9 "},"p":"abc"}"#, Some((Text, 3))),
        ("contentBlockDelta", r#"{"delta":{"text":""}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"text":null}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"{\"a\""}}}"#, Some((Tool, 4))),
        ("contentBlockDelta", r#"{"delta":{"toolUse":{"input":""}}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"reasoningContent":{"text":"hm"}}}"#, Some((Reasoning, 2))),
        ("contentBlockDelta", r#"{"delta":{"reasoningContent":{"signature":"abc"}}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"reasoningContent":{"redactedContent":"abc"}}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"citation":{"title":"text"}}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"toolResult":[{"text":"out"}]}}"#, None),
        ("contentBlockDelta", r#"{"delta":{"image":{"source":{"bytes":"abcd"}}}}"#, Some((Image, 4))),
        ("contentBlockStop", r#"{"contentBlockIndex":0}"#, None),
        ("somethingNew", r#"{"delta":{"text":"x"}}"#, None),
        ("contentBlockDelta", "[]", None),
    ];
    for (name, json, expected) in table {
        assert_eq!(payload(&event(name, json)), expected, "{name} {json}");
    }
}

#[test]
fn finish_and_usage_are_told() {
    let stop = event("messageStop", r#"{"stopReason":"end_turn","p":"ab"}"#);
    let Frame::Chunk(chunk) = read(&stop) else { panic!("no chunk") };
    assert_eq!((chunk.finish_reason.as_deref(), chunk.choices, chunk.finished), (Some("end_turn"), 1, 1));
    let last = event(
        "metadata",
        r#"{"metrics":{"latencyMs":605},"p":"a","trace":{"usage":{"inputTokens":99}},"usage":{"inputTokens":8,"outputTokens":10}}"#,
    );
    let Frame::Done(chunk) = read(&last) else { panic!("not done") };
    assert_eq!(chunk.usage.as_deref(), Some(r#"{"inputTokens":8,"outputTokens":10}"#));
    assert_eq!(chunk.time_info.as_deref(), Some(r#"{"latencyMs":605}"#));
    assert_eq!((chunk.choices, chunk.payload), (0, None));
}

#[test]
fn exceptions_are_errors_of_their_kind() {
    use FailureKind::*;
    let table = [
        ("throttlingException", r#"{"message":"Too many tokens"}"#, RateLimited),
        ("modelStreamErrorException", r#"{"message":"x","originalStatusCode":500,"originalMessage":"y"}"#, ServerError),
        ("internalServerException", r#"{"message":"x"}"#, ServerError),
        ("modelTimeoutException", "", ServerError),
        ("serviceUnavailableException", r#"{"message":"x"}"#, Overloaded),
        ("validationException", r#"{"message":"The toolConfig field must be defined"}"#, BadRequest),
        ("validationException", r#"{"message":"Input is too long for requested model."}"#, ContextLength),
        ("accessDeniedException", r#"{"message":"x"}"#, Forbidden),
        ("neverHeardOfException", r#"{"message":"x"}"#, InStreamError),
    ];
    for (name, json, kind) in table {
        let event = exception(name, json);
        let Frame::Error { data, usage: None } = read(&event) else { panic!("{name}: no error") };
        assert_eq!(of_frame(&data).kind, kind, "{name} {json}");
    }
    let sent = exception("throttlingException", r#"{"message":"Too many tokens"}"#);
    let Frame::Error { data, .. } = read(&sent) else { panic!("no error") };
    assert_eq!(of_frame(&data).message, "Too many tokens");
    let raw = frame(&[(":message-type", "error"), (":error-code", "500"), (":error-message", "broken")], "");
    let event = SseEvent { raw: raw.into() };
    let Frame::Error { data, .. } = read(&event) else { panic!("no error") };
    let facts = of_frame(&data);
    assert_eq!((facts.kind, facts.message.as_str()), (ServerError, "broken"));
}

#[test]
fn error_bodies_are_read_by_type_header_and_status() {
    use FailureKind::*;
    let table: &[(u16, Option<&str>, &str, FailureKind)] = &[
        (400, None, r#"{"message":"The provided model identifier is invalid."}"#, BadRequest),
        (
            400,
            Some("ValidationException:http://internal.amazon.com/"),
            r#"{"message":"prompt is too long"}"#,
            ContextLength,
        ),
        (400, None, r#"{"__type":"com.amazon.coral.service#ThrottlingException","message":"slow"}"#, RateLimited),
        (400, Some("ServiceQuotaExceededException"), r#"{"message":"x"}"#, RateLimited),
        (429, Some("ModelNotReadyException"), r#"{"message":"x"}"#, Overloaded),
        (429, Some("ThrottlingException"), r#"{"message":"Too many requests"}"#, RateLimited),
        (
            403,
            Some("UnrecognizedClientException"),
            r#"{"message":"The security token included in the request is invalid."}"#,
            Unauthorized,
        ),
        (403, Some("ExpiredTokenException"), r#"{"message":"x"}"#, Unauthorized),
        (403, Some("AccessDeniedException"), r#"{"Message":"x"}"#, Forbidden),
        (404, Some("ResourceNotFoundException"), r#"{"message":"x"}"#, NotFound),
        (424, Some("ModelErrorException"), r#"{"message":"x"}"#, ServerError),
        (408, Some("ModelTimeoutException"), r#"{"message":"x"}"#, ServerError),
        (503, Some("ServiceUnavailableException"), r#"{"message":"x"}"#, Overloaded),
    ];
    for (status, name, body, kind) in table {
        let headers = name.iter().map(|name| (HeaderName::from_static("x-amzn-errortype"), name.parse().unwrap()));
        assert_eq!(of_answer(*status, &headers.collect(), body.as_bytes()).kind, *kind, "{status} {name:?} {body}");
    }
    assert_eq!(of_body(403, br#"{"Message":"not you"}"#).message, "not you");
}

#[test]
fn what_is_no_frame_is_malformed() {
    assert_eq!(read(&SseEvent { raw: Bytes::from_static(b"data: {}\n\n") }), Frame::Malformed);
    assert_eq!(read(&SseEvent { raw: Bytes::new() }), Frame::Malformed);
    assert_eq!(read(&event("contentBlockDelta", r#"{"delta":"#)), Frame::Malformed);
    assert_eq!(read(&event("contentBlockDelta", r#"{} x"#)), Frame::Malformed);
    let deep = format!("{{\"delta\":{}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(read(&event("contentBlockDelta", &deep)), Frame::Chunk(Chunk::default()), "valid, if odd");
}

fn pieces(events: &[SseEvent]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (BedrockReader::default(), Vec::new());
    events.iter().for_each(|event| reader.read(event, &mut pieces));
    photofinish_wire::conversation::sample::without_ends(pieces)
}

fn thought(text: &str) -> AnswerPiece {
    AnswerPiece::Thinking { index: 0, block: 0, text: text.to_owned() }
}

fn text(text: &str) -> AnswerPiece {
    AnswerPiece::Text { index: 0, text: text.to_owned() }
}

fn call(call: u32, id: &str, name: &str) -> AnswerPiece {
    AnswerPiece::Call { index: 0, call, id: id.to_owned(), name: name.to_owned(), custom: false, signature: None }
}

fn arguments(call: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Arguments { index: 0, call, text: text.to_owned() }
}

#[test]
fn a_stream_is_read_into_pieces() {
    let delta = |block: u32, delta: Value| {
        event("contentBlockDelta", &json!({ "contentBlockIndex": block, "delta": delta }).to_string())
    };
    let start = |block: u32, id: &str, name: &str| {
        let start = json!({ "contentBlockIndex": block, "start": { "toolUse": { "toolUseId": id, "name": name } } });
        event("contentBlockStart", &start.to_string())
    };
    let read = pieces(&[
        event("messageStart", r#"{"role":"assistant"}"#),
        delta(0, json!({ "reasoningContent": { "text": "hm" } })),
        delta(0, json!({ "reasoningContent": { "signature": "sig" } })),
        delta(1, json!({ "reasoningContent": { "redactedContent": "xyz" } })),
        delta(2, json!({ "text": "a" })),
        delta(2, json!({ "text": "" })),
        start(3, "t1", "f"),
        start(4, "t2", "g"),
        delta(4, json!({ "toolUse": { "input": "{}" } })),
        delta(3, json!({ "toolUse": { "input": "{\"b\":" } })),
        delta(9, json!({ "toolUse": { "input": "of no call" } })),
        event(
            "messageStop",
            r#"{"stopReason":"stop_sequence","additionalModelResponseFields":{"stop_sequence":"END"}}"#,
        ),
        event("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3}}"#),
        exception("throttlingException", "{}"),
    ]);
    let usage =
        Usage { input_tokens: Some(4), cached_input_tokens: Some(3), output_tokens: Some(2), ..Usage::default() };
    let expected = [
        AnswerPiece::Start { id: None, model: None },
        thought("hm"),
        AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.anthropic.sig".to_owned() },
        AnswerPiece::Redacted { index: 0, block: 1, data: "photofinish.anthropic.xyz".to_owned() },
        text("a"),
        call(0, "t1", "f"),
        call(1, "t2", "g"),
        arguments(1, "{}"),
        arguments(0, "{\"b\":"),
        AnswerPiece::Finish { index: 0, finish: FinishReason::StopSequence(Some("END".to_owned())) },
        AnswerPiece::Usage(usage),
    ];
    assert_eq!(read, expected);
}

#[test]
fn stop_reasons_have_their_meaning() {
    let table = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::StopSequence(None)),
        ("tool_use", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("content_filtered", FinishReason::Filtered),
        ("guardrail_intervened", FinishReason::Filtered),
        ("malformed_tool_use", FinishReason::Other("malformed_tool_use".to_owned())),
    ];
    for (reason, finish) in table {
        let stop = event("messageStop", &json!({ "stopReason": reason }).to_string());
        assert_eq!(pieces(&[stop]), [AnswerPiece::Finish { index: 0, finish }]);
    }
}

#[test]
fn input_may_be_an_object() {
    let read = pieces(&[
        event("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":{"a":1}}}}"#),
    ]);
    let call =
        AnswerPiece::Call { index: 0, call: 0, id: "t".into(), name: "f".into(), custom: false, signature: None };
    assert_eq!(read, [call, AnswerPiece::Arguments { index: 0, call: 0, text: r#"{"a":1}"#.to_owned() }]);
}

#[test]
fn a_vendor_s_own_tool_is_told_and_not_called() {
    let read = pieces(&[
        event("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"t","name":"code","type":"server_tool_use"}}}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"{}"}}}"#),
        event("contentBlockStart", r#"{"contentBlockIndex":1,"start":{"toolResult":{"toolUseId":"t"}}}"#),
        event("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolResult":[{"text":"1"}]}}"#),
        event("contentBlockStart", r#"{"contentBlockIndex":2,"start":{"image":{"format":"webp"}}}"#),
        event("contentBlockDelta", r#"{"contentBlockIndex":2,"delta":{"image":{"source":{"bytes":"abcd"}}}}"#),
    ]);
    let other = |name: &str| AnswerPiece::Other(name.to_owned());
    let image = AnswerPiece::Image { index: 0, media_type: "image/webp".to_owned(), data: "abcd".to_owned() };
    assert_eq!(read, [other("server_tool_use"), other("toolResult"), image]);
}

fn cut(bytes: Bytes) -> Vec<SseEvent> {
    let mut scanner = BinaryScanner::new(1 << 20);
    scanner.push(bytes);
    std::iter::from_fn(|| scanner.next_event().unwrap()).collect()
}

#[test]
fn a_whole_answer_reads_as_a_stream() {
    let answer = json!({
        "output": { "message": { "role": "assistant", "content": [
            { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "sig" } } },
            { "text": "hi" },
            { "toolUse": { "toolUseId": "t", "name": "f", "input": { "a": 1 } } },
        ] } },
        "stopReason": "tool_use",
        "usage": { "inputTokens": 1, "outputTokens": 2, "totalTokens": 3 },
        "metrics": { "latencyMs": 7 },
        "serviceTier": { "type": "flex" },
    });
    let events = cut(events_of_whole(answer.to_string().as_bytes()).unwrap());
    let usage = Usage { input_tokens: Some(1), output_tokens: Some(2), total_us: Some(7_000), ..Usage::default() };
    let expected = [
        AnswerPiece::Start { id: None, model: None },
        thought("hm"),
        AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.anthropic.sig".to_owned() },
        text("hi"),
        call(0, "t", "f"),
        arguments(0, r#"{"a":1}"#),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
        AnswerPiece::Usage(usage),
    ];
    assert_eq!(pieces(&events), expected);
    let Frame::Done(last) = read(events.last().unwrap()) else { panic!("{events:?}") };
    assert_eq!(last.tier, Some(ServiceTier::Flex));
    for other in ["", "{}", r#"{"message":"no"}"#, r#"{"output":{"message":{"role":"assistant"}}}"#, "[]"] {
        assert_eq!(events_of_whole(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn ids_of_models_are_encoded_whole() {
    for (model, path) in [
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream",
        ),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/a_b~c",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fa_b~c/converse-stream",
        ),
        ("a?b#c é", "/model/a%3Fb%23c%20%C3%A9/converse-stream"),
    ] {
        assert_eq!(super::path(model, true), path);
    }
}

proptest::proptest! {
    #[test]
    fn never_panics_on_any_json(json in any_json(), name in proptest::sample::select(vec![
        "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "x"])) {
        for event in [event(name, &json), exception(name, &json)] {
            let _ = read(&event);
            let _ = pieces(&[event]);
        }
        let _ = events_of_whole(json.as_bytes());
        let _ = events_of_whole(format!(r#"{{"output":{{"message":{{"content":[{json}]}}}}}}"#).as_bytes());
    }

    /// The race's reader and the translation's reader agree on the payload.
    #[test]
    fn the_walk_and_the_reader_agree(json in any_json(), block in 0u32..3) {
        let started = event("contentBlockStart", &format!(r#"{{"contentBlockIndex":{block},"start":{{"toolUse":{{"toolUseId":"t","name":"f"}}}}}}"#));
        let delta = event("contentBlockDelta", &format!(r#"{{"contentBlockIndex":{block},"delta":{json}}}"#));
        let (mut reader, mut found) = (BedrockReader::default(), Vec::new());
        reader.read(&started, &mut found);
        found.clear();
        reader.read(&delta, &mut found);
        let output = found.iter().any(|piece| !matches!(piece, AnswerPiece::Other(_) | AnswerPiece::Signature { .. } | AnswerPiece::Redacted { .. }));
        let walked = match read(&delta) {
            Frame::Chunk(chunk) => chunk.payload.is_some(),
            Frame::Malformed => false,
            other => panic!("{other:?}"),
        };
        proptest::prop_assert_eq!(walked, output);
    }
}

/// JSON with names that matter here, or other names.
fn any_json() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let name = proptest::sample::select(vec![
        "text",
        "toolUse",
        "input",
        "name",
        "reasoningContent",
        "signature",
        "redactedContent",
        "reasoningText",
        "delta",
        "start",
        "image",
        "source",
        "bytes",
        "citation",
        "toolResult",
        "stopReason",
        "usage",
        "contentBlockIndex",
    ]);
    let leaf =
        prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), "[a-z\"\\\\é]{0,4}".prop_map(Value::from),];
    let value = leaf.prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            // An object with one member, as in the vendor's unions.
            (name.clone(), inner).prop_map(|(name, value)| json!({ name: value })),
        ]
    });
    value.prop_map(|value| value.to_string())
}

#[test]
fn a_frame_is_written_as_it_is_read() {
    let mut out = bytes::BytesMut::new();
    write_event("contentBlockDelta", br#"{"delta":{"text":"a"}}"#, &mut out);
    assert_eq!(payload(&cut(out.freeze())[0]), Some((PayloadKind::Text, 1)));
}

fn ask(model: &str, conversation: &Conversation) -> (Value, Losses) {
    let mut losses = Losses::default();
    let options = TranslationOptions::of_model(Dialect::Bedrock, model);
    let body = request(conversation, &options, &mut losses);
    (body, losses)
}
