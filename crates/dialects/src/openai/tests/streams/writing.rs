//! Pieces written as chat streams, and read back.

use crate::SurfaceFormat as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::sample::with_ends;
use photofinish_wire::stream::frame::Frame;

#[test]
fn a_stream_is_written_as_the_vendor_writes_it() {
    let usage = Usage { input_tokens: Some(5), output_tokens: Some(7), reasoning_tokens: Some(2), ..Usage::default() };
    let out = written(
        &[
            AnswerPiece::Start { id: Some("msg_1".into()), model: None },
            AnswerPiece::Usage(Usage { input_tokens: Some(5), cached_input_tokens: Some(4), ..Usage::default() }),
            AnswerPiece::Start { id: Some("msg_2".into()), model: Some("answers".into()) },
            thinking(0, "hm"),
            signature(0, "photofinish.openai.s"),
            text("say \"hi\""),
            call(0, "", "f"),
            call(1, "b", "g"),
            arguments(1, "{\"a\""),
            arguments(7, "of no call"),
            finish(FinishReason::Stop),
            finish(FinishReason::Length),
            AnswerPiece::Usage(usage),
        ],
        true,
    );
    let text = std::str::from_utf8(&out).unwrap();
    assert!(text.ends_with("\n\ndata: [DONE]\n\n"), "{text}");
    let chunks: Vec<Value> =
        text.split("\n\n").filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok()).collect();
    for chunk in &chunks {
        assert_eq!((&chunk["id"], &chunk["model"]), (&json!("chatcmpl-msg_1"), &json!("answers")), "{chunk}");
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(chunk["created"].is_u64() && chunk.get("usage").is_some(), "{chunk}");
    }
    let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    let made = deltas[4]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(made.starts_with("call_") && made.len() > 20, "{made}");
    let expected = json!([
        { "role": "assistant", "content": "", "refusal": null },
        { "reasoning_content": "hm" },
        { "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "s", "index": 0 }] },
        { "content": "say \"hi\"" },
        { "tool_calls": [{ "index": 0, "id": made, "type": "function", "function": { "name": "f", "arguments": "" } }] },
        { "tool_calls": [{ "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "" } }] },
        { "tool_calls": [{ "index": 1, "function": { "arguments": "{\"a\"" } }] },
        { "tool_calls": [{ "index": 0, "function": { "arguments": "{}" } }] },
        {},
        null,
    ]);
    assert_eq!(json!(deltas), expected);
    assert_eq!(chunks[8]["choices"][0]["finish_reason"], "tool_calls");
    let counts = json!({ "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
        "prompt_tokens_details": { "cached_tokens": 4 }, "completion_tokens_details": { "reasoning_tokens": 2 } });
    assert_eq!((&chunks[9]["usage"], &chunks[9]["choices"]), (&counts, &json!([])));
    let without = written(&[super::text("x"), AnswerPiece::Usage(usage)], false);
    assert!(!std::str::from_utf8(&without).unwrap().contains("usage"));
}

#[test]
fn clients_get_reasons_that_they_know() {
    for (end, refused, reason, native) in [
        (FinishReason::StopSequence(Some("x".into())), false, "stop", None),
        (FinishReason::Length, false, "length", None),
        // No call came.
        (FinishReason::ToolCalls, false, "stop", None),
        (FinishReason::Filtered, false, "content_filter", None),
        (FinishReason::Refusal, false, "content_filter", None),
        (FinishReason::Refusal, true, "stop", None),
        (FinishReason::Pause, false, "stop", None),
        (FinishReason::Other("MALFORMED".into()), false, "length", Some("MALFORMED")),
    ] {
        let refusal = refused.then(|| AnswerPiece::Refusal { index: 0, text: "no".into() });
        let stream: Vec<AnswerPiece> = refusal.into_iter().chain([finish(end.clone())]).collect();
        let choice = &whole(&written(&stream, false))["choices"][0];
        assert_eq!(
            (choice["finish_reason"].as_str(), choice["native_finish_reason"].as_str()),
            (Some(reason), native),
            "{end:?}"
        );
    }
}

#[test]
fn clients_that_list_functions_get_one_function_call() {
    let stream = [
        text("look"),
        call(0, "a", "f"),
        arguments(0, "{\"x\":"),
        call(1, "b", "g"),
        arguments(0, "1}"),
        arguments(1, "{}"),
        finish(FinishReason::ToolCalls),
    ];
    let (mut writer, mut out) = (OpenAiWriter::new("m", false, true), BytesMut::new());
    with_ends(&stream).into_iter().for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    let answer = whole(&out);
    let function = json!({ "name": "f", "arguments": "{\"x\":1}" });
    assert_eq!(
        answer["choices"][0]["message"],
        json!({ "role": "assistant", "content": "look", "refusal": null, "function_call": function })
    );
    assert_eq!(answer["choices"][0]["finish_reason"], "function_call");
    assert!(!String::from_utf8_lossy(&out).contains("tool_calls"));
    // A call without arguments has an empty object.
    let (mut writer, mut out) = (OpenAiWriter::new("m", false, true), BytesMut::new());
    with_ends(&[call(0, "", "f"), finish(FinishReason::Stop)])
        .into_iter()
        .for_each(|piece| writer.write(piece, &mut out));
    let message = whole(&out)["choices"][0]["message"].clone();
    assert_eq!(message["function_call"], json!({ "name": "f", "arguments": "{}" }));
}

#[test]
fn what_a_client_sends_back_holds_what_the_vendor_needs() {
    let signed_call = AnswerPiece::Call {
        index: 0,
        call: 0,
        id: "a".into(),
        name: "f".into(),
        custom: false,
        signature: Some("photofinish.gemini.cs".into()),
    };
    let redacted = AnswerPiece::Redacted { index: 0, block: 1, data: "photofinish.anthropic.d".into() };
    let image = AnswerPiece::Image { index: 0, media_type: "image/png".into(), data: "QQ==".into() };
    let stream = [
        thinking(0, "h"),
        thinking(0, "m"),
        signature(0, "photofinish.openai.s"),
        redacted,
        text("x"),
        image,
        signed_call,
        finish(FinishReason::ToolCalls),
    ];
    let answer = whole(&written(&stream, false));
    let body = json!({ "messages": [
        { "role": "user", "content": "hi" }, answer["choices"][0]["message"], { "role": "tool", "tool_call_id": "a", "content": "1" },
    ] });
    let read = Surface::Chat.conversation(body.to_string().as_bytes()).unwrap();
    assert!(read.losses.is_empty(), "{:?}", read.losses);
    let expected = [
        MessagePart::Thinking(ReasoningPart {
            text: "hm".into(),
            signature: Some("photofinish.openai.s".into()),
            ..ReasoningPart::default()
        }),
        MessagePart::Thinking(ReasoningPart {
            signature: Some("photofinish.anthropic.d".into()),
            redacted: true,
            ..ReasoningPart::default()
        }),
        MessagePart::Text { text: "x".into(), cache: None },
        MessagePart::Image(Image {
            source: Source::Base64 { media_type: "image/png".into(), data: "QQ==".into() },
            detail: None,
            cache: None,
        }),
        MessagePart::Call(ToolCall {
            id: "a".into(),
            name: "f".into(),
            arguments: "{}".into(),
            signature: Some("photofinish.gemini.cs".into()),
            ..ToolCall::default()
        }),
    ];
    assert_eq!(read.turns[1].parts, expected);
}

/// Streams with only one form in chat.
fn any_stream() -> impl Strategy<Value = Vec<AnswerPiece>> {
    let words = "\\PC{1,8}";
    let step = prop_oneof![
        3 => (0_u32..2, words).prop_map(|(index, text)| vec![AnswerPiece::Text { index, text }]),
        1 => (0_u32..2, words).prop_map(|(index, text)| vec![AnswerPiece::Refusal { index, text }]),
        1 => words.prop_map(|data| vec![AnswerPiece::Audio { index: 0, id: None, data, transcript: String::new() }]),
        1 => words.prop_map(|text| vec![AnswerPiece::Other(text)]),
        2 => (words, "photofinish\\.(openai|gemini)\\.[a-z]{1,4}")
            .prop_map(|(text, signature)| vec![thinking(0, &text), super::signature(0, &signature)]),
        2 => (words, any::<bool>(), words).prop_map(|(name, custom, text)| vec![
            AnswerPiece::Call { index: 0, call: 0, id: name.clone(), name, custom, signature: None }, arguments(0, &text)]),
    ];
    proptest::collection::vec(step, 1..12).prop_map(|steps| {
        let (mut blocks, mut calls) = (0, 0);
        let mut stream = vec![AnswerPiece::Start { id: Some("chatcmpl-1".into()), model: Some("m".into()) }];
        for mut step in steps {
            for piece in &mut step {
                match piece {
                    AnswerPiece::Thinking { block, .. } | AnswerPiece::Signature { block, .. } => *block = blocks,
                    AnswerPiece::Call { call, id, .. } => {
                        *call = calls;
                        *id = format!("call_{calls}");
                    }
                    AnswerPiece::Arguments { call, .. } => *call = calls,
                    _ => {}
                }
            }
            blocks += u32::from(matches!(step[0], AnswerPiece::Thinking { .. }));
            calls += u32::from(matches!(step[0], AnswerPiece::Call { .. }));
            stream.extend(step);
        }
        let end = if calls > 0 { FinishReason::ToolCalls } else { FinishReason::Length };
        stream.push(finish(end));
        stream
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(stream in any_stream(), include_usage: bool) {
        let out = written(&stream, include_usage);
        let (mut reader, mut read) = (OpenAiReader::default(), Vec::new());
        for event in events(&out) {
            prop_assert!(matches!(crate::openai::read(&event), Frame::Chunk(_) | Frame::Done(_)));
            reader.read(&event, &mut read);
        }
        let sent: Vec<AnswerPiece> = stream.iter().filter(|piece| !matches!(piece, AnswerPiece::Other(_))).cloned().collect();
        prop_assert_eq!(&photofinish_wire::conversation::sample::without_ends(read), &sent);
        // The whole answer has the same content.
        let message = &whole(&out)["choices"][0]["message"];
        let all = |of: fn(&AnswerPiece) -> Option<&str>| stream.iter().filter_map(of).collect::<String>();
        let said = all(|piece| match piece { AnswerPiece::Text { index: 0, text } => Some(text), _ => None });
        let thought = all(|piece| match piece { AnswerPiece::Thinking { text, .. } => Some(text), _ => None });
        prop_assert_eq!(message["content"].as_str().unwrap_or_default(), said);
        prop_assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), thought);
    }

    #[test]
    fn reading_never_panics(value in super::super::any_json(), other in super::super::any_json(), bytes in "[\\[\\]{}\":,a-z0-9]{0,40}") {
        let mut read = of_deltas(&[value.clone(), json!({ "tool_calls": value, "content": other }), json!({ "reasoning_details": value })]);
        let (mut reader, mut more) = (OpenAiReader::default(), Vec::new());
        for data in [value.to_string(), json!({ "choices": value, "usage": other }).to_string(), bytes] {
            reader.read(&event(&data), &mut more);
        }
        read.extend(more);
        for event in events(&written(&read, true)) {
            let data = event.fields().data.unwrap();
            prop_assert!(data.as_ref() == b"[DONE]" || serde_json::from_slice::<Value>(&data).is_ok());
        }
    }
}
