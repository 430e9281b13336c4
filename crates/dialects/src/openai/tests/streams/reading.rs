//! Chat streams of all vendors, read into pieces.

use serde_json::{Value, json};

use super::*;
use photofinish_wire::answer::usage::Usage;

#[test]
fn content_in_other_forms_is_not_lost() {
    for (content, expected) in [
        (json!("a"), "a"),
        (json!({ "type": "text", "text": "a" }), "a"),
        (json!(["a", { "text": "b" }, null]), "ab"),
        (json!([{ "type": "text", "text": ["a", "b"] }]), "ab"),
        // The JSON of a model, which the server has read.
        (json!({ "a": 1 }), r#"{"a":1}"#),
        (json!(-1.5), "-1.5"),
        (json!(false), ""),
        (json!({}), ""),
    ] {
        let read = of_deltas(&[json!({ "content": content })]);
        let said: String = read
            .iter()
            .map(|piece| match piece {
                AnswerPiece::Text { text, .. } => text.as_str(),
                other => panic!("{content}: {other:?}"),
            })
            .collect();
        assert_eq!(said, expected, "{content}");
    }
    let call = json!({ "id": "a", "function": { "name": "f", "arguments": "{}" } });
    assert_eq!(of_deltas(&[json!({ "tool_calls": call })]), of_deltas(&[json!({ "tool_calls": [call] })]));
}

#[test]
fn a_stream_is_read_in_its_order() {
    let usage = Usage { input_tokens: Some(3), output_tokens: Some(2), ..Usage::default() };
    let read = pieces(&[
        json!({ "id": "c1", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" } }], "model": "m-1" }),
        json!({ "id": "c2", "model": "m-1", "choices": [{ "index": 1, "delta": { "content": "é\n" }, "finish_reason": null }] }),
        json!({ "choices": [{ "delta": { "content": null, "refusal": "no", "reasoning_content": "hm", "reasoning": "hm" }, "index": 0 }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "length" }], "usage": null }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "length" }], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } }),
    ]);
    let expected = [
        AnswerPiece::Start { id: Some("c1".into()), model: Some("m-1".into()) },
        AnswerPiece::Text { index: 1, text: "é\n".into() },
        thinking(0, "hm"),
        AnswerPiece::Refusal { index: 0, text: "no".into() },
        finish(FinishReason::Length),
        AnswerPiece::Usage(usage),
    ];
    assert_eq!(read, expected);
    let mut none = Vec::new();
    for data in ["[DONE]", "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]", "7", ""] {
        OpenAiReader::default().read(&event(data), &mut none);
    }
    assert_eq!(none, []);
}

#[test]
fn calls_are_told_apart_however_a_vendor_numbers_them() {
    let function = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let two = vec![call(0, "a", "f"), arguments(0, "{}"), call(1, "b", "g"), arguments(1, "{\"x\":1}")];
    let table = [
        (
            vec![
                json!({ "tool_calls": [{ "index": 0, "id": "a", "type": "function", "function": function("f", json!("")) }] }),
                json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{}" } }] }),
                json!({ "tool_calls": [{ "index": 1, "id": "b", "function": function("g", json!("{\"x\":1}")) }] }),
            ],
            two.clone(),
        ),
        // Each call whole, without a number.
        (
            vec![
                json!({ "tool_calls": [{ "id": "a", "function": function("f", json!("{}")) }, { "id": "b", "function": function("g", json!({ "x": 1 })) }] }),
            ],
            two.clone(),
        ),
        // Each call whole, all with number 0.
        (
            vec![
                json!({ "tool_calls": [{ "index": 0, "id": "a", "function": function("f", json!("{}")) }] }),
                json!({ "tool_calls": [{ "index": 0, "id": "b", "function": function("g", json!("{\"x\":1}")) }] }),
            ],
            two,
        ),
        // Identified only by id; the name comes late.
        (
            vec![
                json!({ "tool_calls": [{ "id": "a", "function": { "arguments": "{\"y\"" } }] }),
                json!({ "tool_calls": [{ "id": "a", "function": { "name": "f", "arguments": ":2}" } }] }),
            ],
            vec![call(0, "a", "f"), arguments(0, "{\"y\":2}")],
        ),
        (
            vec![
                json!({ "function_call": { "name": "f", "arguments": "" } }),
                json!({ "function_call": { "arguments": "{}" } }),
            ],
            vec![call(0, "", "f"), arguments(0, "{}")],
        ),
        (
            vec![
                json!({ "tool_calls": [{ "index": 0, "id": "a", "type": "function", "function": function("f", json!("")),
                "extra_content": { "google": { "thought_signature": "s" } } }] }),
            ],
            vec![marked_call(false, Some("photofinish.gemini.s"))],
        ),
        (
            vec![
                json!({ "tool_calls": [{ "index": 0, "id": "a", "type": "custom", "custom": { "name": "f", "input": "raw" } }] }),
            ],
            vec![marked_call(true, None), arguments(0, "raw")],
        ),
    ];
    for (deltas, expected) in table {
        assert_eq!(of_deltas(&deltas), expected, "{deltas:?}");
    }
}

#[test]
fn a_name_may_come_in_pieces_and_again() {
    let part = |index: u64, function: Value| json!({ "tool_calls": [{ "index": index, "function": function }] });
    let begun = |index: u64, id: &str, name: &str| json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": name } }] });
    let legacy = |function: Value| json!({ "function_call": function });
    let whole = vec![call(0, "a", "get_weather"), arguments(0, "{}")];
    let table = [
        (vec![begun(0, "a", "get_"), part(0, json!({ "name": "weather", "arguments": "{}" }))], whole.clone()),
        (
            vec![
                begun(0, "a", "get_"),
                part(0, json!({ "name": "weather", "arguments": "" })),
                part(0, json!({ "arguments": "{}" })),
            ],
            whole.clone(),
        ),
        // With every piece of the arguments the whole name.
        (
            vec![
                begun(0, "a", "get_weather"),
                part(0, json!({ "name": "get_weather", "arguments": "{" })),
                part(0, json!({ "name": "get_weather", "arguments": "}" })),
            ],
            vec![call(0, "a", "get_weather"), arguments(0, "{"), arguments(0, "}")],
        ),
        // Another call, a text, the end: the name is complete.
        (
            vec![
                begun(0, "a", "f"),
                part(0, json!({ "name": "g" })),
                begun(1, "b", "h"),
                part(0, json!({ "arguments": "{}" })),
            ],
            vec![call(0, "a", "fg"), arguments(0, "{}"), call(1, "b", "h")],
        ),
        (vec![begun(0, "a", "f"), json!({}), json!({ "content": "x" })], vec![text("x"), call(0, "a", "f")]),
        (
            vec![
                legacy(json!({ "name": "get_" })),
                legacy(json!({ "name": "weather" })),
                legacy(json!({ "arguments": "{}" })),
            ],
            vec![call(0, "", "get_weather"), arguments(0, "{}")],
        ),
    ];
    for (deltas, expected) in table {
        assert_eq!(of_deltas(&deltas), expected, "{deltas:?}");
    }
    let mut chunks = vec![json!({ "choices": [{ "delta": begun(0, "a", "f") }] })];
    chunks.push(json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }));
    assert_eq!(pieces(&chunks), [call(0, "a", "f"), finish(FinishReason::ToolCalls)]);
}

#[test]
fn reasoning_is_read_in_all_its_forms() {
    let table = [
        (vec![json!({ "thinking": "a" }), json!({ "reasoning": "b" })], vec![thinking(0, "a"), thinking(0, "b")]),
        (
            vec![
                json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "a" }] }] }),
                json!({ "content": [{ "type": "text", "text": "x" }, { "type": "reference", "reference_ids": [1] }] }),
            ],
            vec![thinking(0, "a"), text("x"), AnswerPiece::Other("reference".into())],
        ),
        // OpenRouter sends it twice, with a signature.
        (
            vec![
                json!({ "reasoning": "a", "reasoning_details": [{ "type": "reasoning.text", "text": "a", "index": 0 }] }),
                json!({ "reasoning": null, "reasoning_details": [{ "type": "reasoning.text", "signature": "s", "index": 0 }] }),
                json!({ "reasoning": "b", "reasoning_details": [{ "type": "reasoning.text", "text": "b", "index": 1 }] }),
                json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "d", "index": 2 }] }),
            ],
            vec![
                thinking(0, "a"),
                signature(0, "photofinish.openai.s"),
                thinking(1, "b"),
                AnswerPiece::Redacted { index: 0, block: 2, data: "photofinish.openai.d".into() },
            ],
        ),
        (
            vec![
                json!({ "reasoning_details": [{ "type": "reasoning.summary", "summary": "a", "id": "rs_1", "index": 0 }] }),
                json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "d", "id": "rs_1", "index": 1 }] }),
            ],
            vec![thinking(0, "a"), signature(0, "photofinish.openai.d")],
        ),
    ];
    for (deltas, expected) in table {
        assert_eq!(of_deltas(&deltas), expected, "{deltas:?}");
    }
}

#[test]
fn images_audio_and_odd_places_are_read() {
    let url = "data:image/png;base64,QQ==";
    let image = AnswerPiece::Image { index: 0, media_type: "image/png".into(), data: "QQ==".into() };
    assert_eq!(of_deltas(&[json!({ "images": [{ "type": "image_url", "image_url": { "url": url } }] })]), [image]);
    let audio = AnswerPiece::Audio { index: 0, id: Some("a".into()), data: "QQ==".into(), transcript: "hi".into() };
    assert_eq!(of_deltas(&[json!({ "audio": { "id": "a", "data": "QQ==", "transcript": "hi" } })]), [audio]);
    assert_eq!(
        of_deltas(&[json!({ "annotations": [{ "type": "url_citation" }] })]),
        [AnswerPiece::Other("annotations".into())]
    );
    let choice = |choice: Value| pieces(&[json!({ "choices": [choice] })]);
    // The event is turned into deltas before it is read.
    assert_eq!(choice(json!({ "message": { "content": "x" } })), []);
    assert_eq!(choice(json!({ "text": "x", "delta": { "content": "x" } })), [text("x")]);
    assert_eq!(choice(json!({ "text": "x" })), [text("x")]);
}

#[test]
fn finish_reasons_have_one_meaning() {
    for (members, expected) in [
        (json!({ "finish_reason": "stop" }), FinishReason::Stop),
        (json!({ "finish_reason": "eos" }), FinishReason::Stop),
        (json!({ "finish_reason": "stop", "stop_reason": "END" }), FinishReason::StopSequence(Some("END".into()))),
        (json!({ "finish_reason": "stop", "matched_stop": 2 }), FinishReason::Stop),
        (json!({ "finish_reason": "model_length" }), FinishReason::Length),
        (json!({ "finish_reason": "function_call" }), FinishReason::ToolCalls),
        (json!({ "finish_reason": "content_filter" }), FinishReason::Filtered),
        (
            json!({ "finish_reason": "insufficient_system_resource" }),
            FinishReason::Other("insufficient_system_resource".into()),
        ),
    ] {
        assert_eq!(pieces(&[json!({ "choices": [members] })]), [finish(expected)], "{members}");
    }
}

#[test]
fn usage_is_found_in_every_place() {
    let counts = json!({ "prompt_tokens": 3 });
    for chunk in [
        json!({ "choices": [], "usage": counts }),
        json!({ "choices": [{ "delta": {}, "usage": counts }] }),
        json!({ "x_groq": { "usage": counts } }),
        json!({ "timings": { "prompt_n": 3 } }),
    ] {
        let expected = Usage { input_tokens: Some(3), ..Usage::default() };
        assert_eq!(pieces(std::slice::from_ref(&chunk)), [AnswerPiece::Usage(expected)], "{chunk}");
    }
}
