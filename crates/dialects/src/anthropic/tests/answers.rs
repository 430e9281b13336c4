//! Answers: streams read into pieces, pieces written as streams, streams assembled into whole answers.

use super::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::{FinishReason, MessagePart};

fn call(call: u32, id: &str, name: &str) -> AnswerPiece {
    AnswerPiece::Call { index: 0, call, id: id.to_owned(), name: name.to_owned(), custom: false, signature: None }
}

fn arguments(call: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Arguments { index: 0, call, text: text.to_owned() }
}

fn text(text: &str) -> AnswerPiece {
    AnswerPiece::Text { index: 0, text: text.to_owned() }
}

fn thinking(block: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Thinking { index: 0, block, text: text.to_owned() }
}

fn signature(block: u32, signature: &str) -> AnswerPiece {
    AnswerPiece::Signature { index: 0, block, signature: signature.to_owned() }
}

fn usage(input: i64, cached: i64, output: i64) -> AnswerPiece {
    AnswerPiece::Usage(Usage {
        input_tokens: Some(input),
        cached_input_tokens: Some(cached),
        output_tokens: Some(output),
        ..Usage::default()
    })
}

#[test]
fn what_went_into_a_cache_is_counted_apart() {
    let counts = Usage { cache_creation_tokens: Some(100), ..Usage::default() };
    let whole = assembled(&events(&written(&[usage(125, 20, 7), AnswerPiece::Usage(counts)])));
    let expected = json!({
        "input_tokens": 5, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 7,
    });
    assert_eq!(whole["usage"], expected);
}

#[test]
fn ids_that_might_come_again_are_made_anew() {
    let made = |ids: &[&str]| -> Vec<String> {
        let calls: Vec<AnswerPiece> = (0..).zip(ids).map(|(at, id)| call(at, id, "f")).collect();
        let whole = assembled(&events(&written(&calls)));
        whole["content"].as_array().unwrap().iter().map(|block| block["id"].as_str().unwrap().to_owned()).collect()
    };
    let kept = ["toolu_01", "call_abc", "call_1234567", "abcDEF123"];
    assert_eq!(made(&kept), kept);
    for ids in [&["", ""][..], &["call_0", "call_0"], &["call_17"], &["0"], &["functions.get:0"], &["call_é123"]] {
        let made = made(ids);
        assert!(made.iter().all(|id| id.starts_with("toolu_")), "{made:?}");
    }
    let twice = made(&["call_abc", "call_abc"]);
    assert_eq!((twice[0].as_str(), twice[1].starts_with("toolu_")), ("call_abc", true));
}

fn finish(finish: FinishReason) -> AnswerPiece {
    AnswerPiece::Finish { index: 0, finish }
}

#[test]
fn arguments_may_be_an_object() {
    let read = pieces(&[
        event(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
        ),
        event(r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{"a":1}}}"#),
        event(r#"{"type":"content_block_stop","index":0}"#),
    ]);
    assert_eq!(read, [call(0, "t", "f"), arguments(0, r#"{"a":1}"#)]);
}

#[test]
fn a_stream_is_read_into_pieces() {
    let stream: Vec<SseEvent> = [
        r#"{"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":20,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EtgB"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":{}}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"get","input":{}}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
        r#"{"type":"content_block_stop","index":4}"#,
        r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"put","input":{"b":2}}}"#,
        r#"{"type":"content_block_stop","index":5}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":30}}"#,
        r#"{"type":"message_stop"}"#,
    ]
    .map(event)
    .into();
    let counts =
        Usage { input_tokens: Some(25), cached_input_tokens: Some(20), output_tokens: Some(1), ..Usage::default() };
    let start = AnswerPiece::Start { id: Some("msg_1".to_owned()), model: Some("claude-x".to_owned()) };
    let expected = [
        start,
        AnswerPiece::Usage(counts),
        thinking(0, "hm"),
        signature(0, "photofinish.anthropic.EqQB"),
        AnswerPiece::Redacted { index: 0, block: 1, data: "photofinish.anthropic.EtgB".to_owned() },
        AnswerPiece::Other("server_tool_use".to_owned()),
        text("Hi"),
        AnswerPiece::Other("citations".to_owned()),
        call(0, "toolu_1", "get"),
        arguments(0, "{\"a\":1}"),
        call(1, "toolu_2", "put"),
        arguments(1, "{\"b\":2}"),
        AnswerPiece::Usage(Usage { output_tokens: Some(30), ..counts }),
        finish(FinishReason::ToolCalls),
    ];
    assert_eq!(pieces(&stream), expected);
}

#[test]
fn stop_reasons_mean_the_same_both_ways() {
    let table = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::StopSequence(Some("END".to_owned()))),
        ("max_tokens", FinishReason::Length),
        ("refusal", FinishReason::Refusal),
        ("pause_turn", FinishReason::Pause),
    ];
    for (reason, meaning) in table {
        let delta = json!({ "stop_reason": reason, "stop_sequence": (reason == "stop_sequence").then_some("END") });
        let event = event(&json!({ "type": "message_delta", "delta": delta }).to_string());
        assert_eq!(pieces(&[event]), [finish(meaning.clone())]);
        let written = data(&written(&[text("x"), finish(meaning)]));
        assert_eq!(written[written.len() - 2]["delta"], delta);
    }
    let reason = |pieces: &[AnswerPiece]| {
        let written = data(&written(pieces));
        written[written.len() - 2]["delta"]["stop_reason"].clone()
    };
    assert_eq!(reason(&[text("x"), finish(FinishReason::Filtered)]), "refusal");
    assert_eq!(reason(&[text("x"), finish(FinishReason::Other("odd".to_owned()))]), "max_tokens");
    assert_eq!(reason(&[call(0, "a", "f"), finish(FinishReason::Stop)]), "tool_use");
    assert_eq!(reason(&[call(0, "a", "f"), finish(FinishReason::ToolCalls)]), "tool_use");
    assert_eq!(reason(&[text("x"), finish(FinishReason::ToolCalls)]), "end_turn", "no call came");
    let tool_use = event(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#);
    assert_eq!(pieces(&[tool_use]), [finish(FinishReason::ToolCalls)]);
    assert_eq!(
        reason(&[AnswerPiece::Refusal { index: 0, text: "no".to_owned() }, finish(FinishReason::Stop)]),
        "refusal"
    );
    assert_eq!(reason(&[text("x")]), "end_turn");
    let window = event(r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}"#);
    assert_eq!(pieces(&[window]), [finish(FinishReason::Length)]);
}

#[test]
fn pieces_are_written_as_blocks_one_behind_another() {
    let out = written(&[
        AnswerPiece::Start { id: Some("chatcmpl-1".to_owned()), model: Some("upstream".to_owned()) },
        AnswerPiece::Usage(Usage { input_tokens: Some(25), cached_input_tokens: Some(20), ..Usage::default() }),
        thinking(0, "hm"),
        signature(0, "photofinish.anthropic.EqQB"),
        text("Hi"),
        text(""),
        text(" there"),
        call(0, "call_a", "get"),
        arguments(0, "{\"a\":"),
        arguments(0, "1}"),
        call(1, "", "now"),
        finish(FinishReason::ToolCalls),
        usage(25, 20, 7),
    ]);
    let mut spoken = data(&out);
    let id = spoken[0]["message"]["id"].take();
    assert!(id.as_str().is_some_and(|id| id.starts_with("msg_")));
    let made = spoken[13]["content_block"]["id"].take();
    assert!(made.as_str().is_some_and(|id| id.starts_with("toolu_")));
    let delta = |index: u32, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let start =
        |index: u32, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let stop = |index: u32| json!({ "type": "content_block_stop", "index": index });
    let expected = [
        json!({ "type": "message_start", "message": {
            "id": null, "type": "message", "role": "assistant", "model": "upstream", "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20, "output_tokens": 0 },
        } }),
        start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        delta(0, json!({ "type": "signature_delta", "signature": "EqQB" })),
        stop(0),
        start(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "Hi" })),
        delta(1, json!({ "type": "text_delta", "text": " there" })),
        stop(1),
        start(2, json!({ "type": "tool_use", "id": "call_a", "name": "get", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"a\":" })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "1}" })),
        stop(2),
        start(3, json!({ "type": "tool_use", "id": null, "name": "now", "input": {} })),
        stop(3),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use", "stop_sequence": null },
            "usage": { "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20, "output_tokens": 7 } }),
        json!({ "type": "message_stop" }),
    ];
    assert_eq!(spoken, expected);
}

#[test]
fn calls_that_come_at_once_wait_for_each_other() {
    let out = written(&[
        call(0, "a", "f"),
        call(1, "b", "g"),
        call(2, "c", "h"),
        arguments(1, "{\"y\":"),
        arguments(0, "{\"x\":\"}\\\"\""),
        arguments(2, "{}"),
        arguments(0, "}"),
        arguments(1, "2}"),
        finish(FinishReason::ToolCalls),
    ]);
    let order: Vec<Value> = data(&out).iter().filter_map(|event| event.get("index").cloned()).collect();
    assert!(order.is_sorted_by_key(|index| index.as_u64()), "{order:?}");
    let whole = assembled(&events(&out));
    let inputs: Vec<&Value> = whole["content"].as_array().unwrap().iter().map(|block| &block["input"]).collect();
    assert_eq!(inputs, [&json!({ "x": "}\"" }), &json!({ "y": 2 }), &json!({})]);
}

#[test]
fn an_answer_without_anything_is_a_message_all_the_same() {
    let kinds: Vec<Value> = data(&written(&[])).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["message_start", "message_delta", "message_stop"]);
    let other_choice = AnswerPiece::Text { index: 1, text: "x".to_owned() };
    assert_eq!(data(&written(&[other_choice])).len(), 3);
}

#[test]
fn what_messages_has_no_blocks_for_is_text() {
    let out = written(&[
        AnswerPiece::Audio { index: 0, id: None, data: "AAAA".to_owned(), transcript: "Hi ".to_owned() },
        AnswerPiece::Image { index: 0, media_type: "image/png".to_owned(), data: "iVBO".to_owned() },
        AnswerPiece::Other("web_search_call".to_owned()),
    ]);
    let content = &assembled(&events(&out))["content"];
    assert_eq!(*content, json!([{ "type": "text", "text": "Hi ![image](data:image/png;base64,iVBO)" }]));
}

#[test]
fn what_anthropic_did_not_sign_is_known_when_it_comes_back() {
    let gemini = AnswerPiece::Call {
        index: 0,
        call: 0,
        id: "call_a".to_owned(),
        name: "f".to_owned(),
        custom: false,
        signature: Some("photofinish.gemini.CiQB".to_owned()),
    };
    let out = written(&[
        thinking(0, "unsigned"),
        thinking(1, "other"),
        signature(1, "photofinish.responses.gAAAAAB"),
        thinking(2, "own"),
        signature(2, "photofinish.anthropic.EqQB"),
        AnswerPiece::Redacted { index: 0, block: 3, data: "photofinish.responses.gAAAAAC".to_owned() },
        gemini,
        arguments(0, "{}"),
    ]);
    let content = assembled(&events(&out))["content"].take();
    let signature_of = |block: &Value| Some(block.get("signature").or(block.get("data"))?.as_str()?.to_owned());
    let signatures: Vec<String> = content.as_array().unwrap().iter().filter_map(signature_of).collect();
    let marked = [
        "photofinish.unsigned",
        "photofinish.responses.gAAAAAB",
        "EqQB",
        "photofinish.responses.gAAAAAC",
        "photofinish.gemini.call.CiQB",
    ];
    assert_eq!(signatures, marked);
    let body = json!({
        "model": "m", "max_tokens": 9,
        "messages": [{ "role": "user", "content": "x" }, { "role": "assistant", "content": content }],
    });
    // Another vendor gets back what it signed.
    let read = conversation_of(&body).unwrap();
    let back: Vec<String> = read.turns[1]
        .parts
        .iter()
        .map(|part| match part {
            MessagePart::Thinking(thought) => {
                format!("{}|{}", thought.text, thought.signature.as_deref().unwrap_or("-"))
            }
            MessagePart::Call(call) => format!("call {}", call.signature.as_deref().unwrap_or("-")),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        back,
        [
            "unsigned|-",
            "other|photofinish.responses.gAAAAAB",
            "own|photofinish.anthropic.EqQB",
            "|photofinish.responses.gAAAAAC",
            "call photofinish.gemini.CiQB",
        ]
    );
    // Anthropic gets back only its own, translated or not.
    let (request, _, _) = request_for("claude-opus-4-6", &read);
    let bare: Value =
        serde_json::from_slice(&without_reasoning(body.to_string().as_bytes(), RemovedReasoning::Foreign).unwrap())
            .unwrap();
    let own = json!([
        { "type": "thinking", "thinking": "own", "signature": "EqQB" },
        { "type": "tool_use", "id": "call_a", "name": "f", "input": {} },
    ]);
    assert_eq!((&request["messages"][1]["content"], &bare["messages"][1]["content"]), (&own, &own));
    assert_eq!(without_reasoning(bare.to_string().as_bytes(), RemovedReasoning::Foreign), None);
}

#[test]
fn a_mark_in_a_text_is_no_mark_and_an_empty_turn_is_left_out() {
    let quoted = json!({ "messages": [{ "role": "user", "content": "photofinish.unsigned: what is it?" }] });
    assert_eq!(without_reasoning(quoted.to_string().as_bytes(), RemovedReasoning::Foreign), None);
    let alone = json!({ "messages": [{ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "x", "signature": "photofinish.unsigned" }] }, { "role": "user", "content": "y" }] });
    let bare: Value =
        serde_json::from_slice(&without_reasoning(alone.to_string().as_bytes(), RemovedReasoning::Foreign).unwrap())
            .unwrap();
    assert_eq!(bare, json!({ "messages": [{ "role": "user", "content": "y" }] }));
}

fn any_piece() -> impl proptest::strategy::Strategy<Value = AnswerPiece> {
    use proptest::prelude::*;
    prop_oneof![
        4 => "\\PC{1,8}".prop_map(|t| text(&t)),
        2 => (0u32..2, "\\PC{1,8}").prop_map(|(block, t)| thinking(block, &t)),
        1 => (0u32..2, "photofinish\\.anthropic\\.[A-Za-z0-9]{4}").prop_map(|(block, t)| signature(block, &t)),
        1 => "photofinish\\.anthropic\\.[A-Z]{4}".prop_map(|data| AnswerPiece::Redacted { index: 0, block: 5, data }),
        1 => (1i64..100, 1i64..100).prop_map(|(input, output)| usage(input + 50, 50, output)),
    ]
}

/// The content of pieces, however they are split.
fn said(pieces: &[AnswerPiece]) -> (String, String, String, Vec<(String, String)>) {
    let mut said = (String::new(), String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            AnswerPiece::Text { text, .. } => said.0.push_str(text),
            AnswerPiece::Thinking { text, .. } => said.1.push_str(text),
            AnswerPiece::Signature { signature, .. } => said.2.push_str(signature),
            AnswerPiece::Redacted { data, .. } => said.2.push_str(data),
            AnswerPiece::Call { name, signature, .. } => {
                said.3.push((format!("{name} {}", signature.as_deref().unwrap_or_default()), String::new()));
            }
            AnswerPiece::Arguments { call, text, .. } => said.3[*call as usize].1.push_str(text),
            _ => {}
        }
    }
    said
}

proptest::proptest! {
    /// A written stream reads back as the same, and so does its whole answer.
    #[test]
    fn what_is_written_is_read_again(
        before in proptest::collection::vec(any_piece(), 0..12),
        inputs in proptest::collection::vec("[a-z\"}{\\\\,]{0,6}", 0..4),
        cuts in proptest::collection::vec(0usize..100, 0..8),
    ) {
        let mut spoken = before;
        let arguments_of: Vec<String> = inputs.iter().map(|text| json!({ "k": text }).to_string()).collect();
        (0..).zip(&arguments_of).for_each(|(at, _)| {
            let signature = (at % 2 == 1).then(|| "photofinish.gemini.s".to_owned());
            spoken.push(AnswerPiece::Call { index: 0, call: at, id: format!("c{at}"), name: format!("f{at}"), custom: false, signature });
        });
        // Arguments arrive in pieces, of one call and then of another.
        let mut rest: Vec<&str> = arguments_of.iter().map(String::as_str).collect();
        for cut in cuts.iter().filter(|_| !inputs.is_empty()) {
            let at = cut % rest.len();
            let (head, tail) = rest[at].split_at(rest[at].floor_char_boundary(cut % (rest[at].len() + 1)));
            spoken.push(arguments(at as u32, head));
            rest[at] = tail;
        }
        (0..).zip(&rest).for_each(|(at, tail)| spoken.push(arguments(at, tail)));
        let out = written(&spoken);
        let again = pieces(&events(&out));
        proptest::prop_assert_eq!(said(&again), said(&spoken));
        let whole = assembled(&events(&out));
        let found: Vec<String> = whole["content"].as_array().unwrap().iter().filter_map(|block| block.get("input")).map(Value::to_string).collect();
        proptest::prop_assert_eq!(found, arguments_of);
        let stream = events_of_whole(whole.to_string().as_bytes()).unwrap();
        proptest::prop_assert_eq!(assembled(&events(&stream)), whole);
    }
}
