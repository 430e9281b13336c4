//! Streams read into pieces and written from them.

use super::*;
use crate::SurfaceFormat as _;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::FinishReason;

fn stream(datas: &[Value]) -> Vec<u8> {
    datas.iter().flat_map(|data| format!("data: {data}\n\n").into_bytes()).collect()
}

pub(super) fn assembled(stream: &[u8]) -> Value {
    let mut growing = Surface::Responses.growing();
    assert!(events(stream).iter().all(|event| growing.add(event)));
    serde_json::from_slice(&growing.finish().unwrap().body).unwrap()
}

fn said(text: &str) -> AnswerPiece {
    AnswerPiece::Text { index: 0, text: text.to_owned() }
}

fn call(number: u32, id: &str, name: &str) -> AnswerPiece {
    let (id, name) = (id.to_owned(), name.to_owned());
    AnswerPiece::Call { index: 0, call: number, id, name, custom: false, signature: None }
}

fn arguments(number: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Arguments { index: 0, call: number, text: text.to_owned() }
}

#[test]
fn a_stream_is_read_piece_by_piece() {
    let datas = [
        json!({ "type": "response.created", "response": { "id": "resp_1", "model": "m-1" } }),
        json!({ "type": "response.in_progress", "response": { "id": "resp_1", "model": "m-1" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning", "summary": [] } }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a" }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "b" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": { "type": "reasoning", "encrypted_content": "gAAA", "summary": [{ "text": "a" }] } }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "web_search_call" } }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": { "type": "web_search_call" } }),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": { "type": "message", "content": [] } }),
        json!({ "type": "response.output_text.delta", "output_index": 2, "content_index": 0, "delta": "hi" }),
        json!({ "type": "response.output_text.annotation.added", "output_index": 2, "annotation": { "type": "url_citation" } }),
        json!({ "type": "response.refusal.delta", "output_index": 2, "content_index": 1, "delta": "no" }),
        json!({ "type": "response.output_item.done", "output_index": 2, "item": { "type": "message", "content": [{ "type": "output_text", "text": "hi" }] } }),
        json!({ "type": "response.output_item.added", "output_index": 3, "item": { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "" } }),
        json!({ "type": "response.output_item.added", "output_index": 4, "item": { "type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "" } }),
        json!({ "type": "response.custom_tool_call_input.delta", "output_index": 4, "delta": "***" }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{}" }),
        json!({ "type": "response.output_item.done", "output_index": 3, "item": { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" } }),
        json!({ "type": "response.output_item.done", "output_index": 4, "item": { "type": "custom_tool_call", "input": "***" } }),
        json!({ "type": "response.output_item.done", "output_index": 5, "item": { "type": "image_generation_call", "result": "AA", "output_format": "webp" } }),
        json!({ "type": "response.completed", "response": { "id": "resp_1", "output": [{ "type": "message", "content": [{ "type": "output_text", "text": "hi" }] }],
            "usage": { "input_tokens": 9, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 3 } } } }),
    ];
    let thought = |text: &str| AnswerPiece::Thinking { index: 0, block: 0, text: text.to_owned() };
    let custom =
        AnswerPiece::Call { index: 0, call: 1, id: "c2".into(), name: "g".into(), custom: true, signature: None };
    let usage = Usage {
        input_tokens: Some(9),
        cached_input_tokens: Some(4),
        output_tokens: Some(7),
        reasoning_tokens: Some(3),
        ..Usage::default()
    };
    assert_eq!(
        pieces(&stream(&datas)),
        [
            AnswerPiece::Start { id: Some("resp_1".to_owned()), model: Some("m-1".to_owned()) },
            thought("a"),
            thought("\n\nb"),
            AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.responses.gAAA".to_owned() },
            AnswerPiece::Other("web_search_call".to_owned()),
            said("hi"),
            AnswerPiece::Other("url_citation".to_owned()),
            AnswerPiece::Refusal { index: 0, text: "no".to_owned() },
            call(0, "c1", "f"),
            custom,
            arguments(1, "***"),
            arguments(0, "{}"),
            AnswerPiece::Image { index: 0, media_type: "image/webp".to_owned(), data: "AA".to_owned() },
            AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
            AnswerPiece::Usage(usage),
        ]
    );
}

#[test]
fn what_comes_without_deltas_is_read_all_the_same() {
    let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "hi" }] });
    let function = json!({ "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" });
    let hidden = json!({ "type": "reasoning", "summary": [], "encrypted_content": "gAAA" });
    let ended = |output: Value| json!({ "type": "response.completed", "response": { "output": output } });
    let items: Vec<Value> = [&hidden, &message, &function]
        .iter()
        .enumerate()
        .map(|(at, item)| json!({ "type": "response.output_item.done", "output_index": at, "item": item }))
        .chain([ended(json!([]))])
        .collect();
    let wanted = [
        AnswerPiece::Redacted { index: 0, block: 0, data: "photofinish.responses.gAAA".to_owned() },
        said("hi"),
        call(0, "c1", "f"),
        arguments(0, "{}"),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
    ];
    assert_eq!(pieces(&stream(&items)), wanted);
    assert_eq!(pieces(&stream(&[ended(json!([hidden, message, function]))])), wanted);
    // A server that gives every item index 0.
    let alike: Vec<Value> = items
        .iter()
        .map(|data| {
            let mut data = data.clone();
            data.as_object_mut().unwrap().shift_remove("output_index");
            data
        })
        .collect();
    assert_eq!(pieces(&stream(&alike)), wanted);
}

#[test]
fn a_call_that_only_the_end_has_is_not_lost() {
    let call_of = |id: &str, name: &str, arguments: Value| json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments });
    let done =
        json!({ "type": "response.output_item.done", "output_index": 0, "item": call_of("c1", "f", json!("{}")) });
    let ended = |output: Value| json!({ "type": "response.completed", "response": { "output": output } });
    let finish = AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls };
    let one = vec![call(0, "c1", "f"), arguments(0, "{}"), finish];
    let both = [&one[..2], &[call(1, "c2", "g"), arguments(1, r#"{"a":1}"#), one[2].clone()]].concat();
    let with_text = [&one[..2], &[said("hi"), one[2].clone()]].concat();
    let second = call_of("c2", "g", json!(r#"{"a":1}"#));
    let thought = json!({ "type": "reasoning", "summary": [] });
    for (output, wanted) in [
        (json!([call_of("c1", "f", json!("{}")), second]), &both),
        (json!([thought, call_of("c1", "f", json!("{}")), second]), &both),
        (json!([thought, call_of("c1", "f", json!("{}"))]), &one),
        // A server that names its calls anew.
        (json!([thought, call_of("c9", "f", json!("{}"))]), &one),
        (
            json!([{ "type": "message", "content": [{ "type": "output_text", "text": "hi" }] }, call_of("c1", "f", json!("{}"))]),
            &with_text,
        ),
        // Arguments that are no text.
        (json!([call_of("c1", "f", json!({})), call_of("c2", "g", json!({ "a": 1 }))]), &both),
    ] {
        assert_eq!(&pieces(&stream(&[done.clone(), ended(output.clone())])), wanted, "{output}");
    }
}

#[test]
fn how_it_ended_is_read() {
    for (reason, finish) in [
        (json!("max_output_tokens"), FinishReason::Length),
        (json!("content_filter"), FinishReason::Filtered),
        (json!("odd"), FinishReason::Other("odd".to_owned())),
        (Value::Null, FinishReason::Other("incomplete".to_owned())),
    ] {
        let data = json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": reason } } });
        assert_eq!(pieces(&stream(&[data])), [AnswerPiece::Finish { index: 0, finish }]);
    }
}

#[test]
fn half_a_character_does_not_lose_the_text_around_it() {
    let bytes = b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\\ud83d\\n\\ud83d\\ude00\\\\b\"}\n\n";
    assert_eq!(pieces(bytes), [said("a\u{fffd}\n\u{1f600}\\b")]);
}

/// Thoughts, text and two calls, one without arguments.
fn an_answer() -> Bytes {
    written(&[
        AnswerPiece::Start { id: Some("chatcmpl-1".to_owned()), model: Some("m-1".to_owned()) },
        AnswerPiece::Thinking { index: 0, block: 0, text: "hm".to_owned() },
        AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.gemini.sig".to_owned() },
        said("h\"i"),
        said("!"),
        call(0, "c1", "f"),
        arguments(0, "{\"a\""),
        arguments(0, ":1}"),
        call(1, "", "g"),
        AnswerPiece::Other("web_search".to_owned()),
        AnswerPiece::Finish { index: 0, finish: FinishReason::ToolCalls },
        AnswerPiece::Usage(Usage { input_tokens: Some(5), output_tokens: Some(2), ..Usage::default() }),
        AnswerPiece::Usage(Usage { output_tokens: Some(7), cached_input_tokens: Some(3), ..Usage::default() }),
    ])
}

#[test]
fn every_event_that_clients_count_on_is_written() {
    let bytes = an_answer();
    let datas = datas(&bytes);
    let kinds: Vec<&str> =
        datas.iter().map(|data| data["type"].as_str().unwrap().trim_start_matches("response.")).collect();
    assert_eq!(
        kinds,
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "output_item.added",
            "function_call_arguments.done",
            "output_item.done",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    assert!(datas.iter().enumerate().all(|(at, data)| data["sequence_number"] == at));
    let named = events(&bytes).iter().all(|event| {
        let fields = event.fields();
        let data: Value = serde_json::from_slice(&fields.data.unwrap()).unwrap();
        data["type"].as_str().map(str::as_bytes) == fields.name
    });
    assert!(named);
}

#[test]
fn the_end_has_all_that_was_said() {
    let bytes = an_answer();
    let datas = datas(&bytes);
    assert_eq!(datas[10]["delta"], "h\"i");
    assert_eq!((&datas[12]["text"], &datas[12]["logprobs"]), (&json!("h\"i!"), &json!([])));
    let response = &datas[24]["response"];
    assert_eq!(response["model"], "m-1");
    // Two servers may give their answers one id.
    assert_ne!(self::datas(&an_answer())[24]["response"]["id"], response["id"]);
    let output = response["output"].as_array().unwrap();
    assert_eq!(output[0]["encrypted_content"], "photofinish.gemini.sig");
    assert_eq!(output[0]["summary"], json!([{ "type": "summary_text", "text": "hm" }]));
    assert_eq!(output[1]["content"][0]["text"], "h\"i!");
    assert_eq!((&output[2]["arguments"], &output[2]["call_id"]), (&json!("{\"a\":1}"), &json!("c1")));
    assert_eq!((&output[3]["arguments"], output[3]["call_id"].as_str().unwrap().is_empty()), (&json!("{}"), false));
    assert!(output.iter().all(|item| item["type"] == "reasoning" || item["status"] == "completed"));
    // Each item is finished as the output contains it.
    for data in datas.iter().filter(|data| data["type"] == "response.output_item.done") {
        assert_eq!(data["item"], output[usize::try_from(data["output_index"].as_u64().unwrap()).unwrap()]);
    }
    assert_eq!(
        response["usage"],
        json!({
            "input_tokens": 5, "input_tokens_details": { "cached_tokens": 3, "cache_write_tokens": 0 },
            "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 12,
        })
    );
    for name in ["parallel_tool_calls", "tool_choice", "tools", "temperature", "top_p", "text", "error", "metadata"] {
        assert!(response.as_object().unwrap().contains_key(name), "{name}");
    }
    assert_eq!(assembled(&bytes), *response);
}

#[test]
fn a_late_signature_does_not_cut_the_text() {
    let late = AnswerPiece::Signature { index: 0, block: 3, signature: "photofinish.gemini.sig".to_owned() };
    let bytes = written(&[said("a"), late, said("b")]);
    let response = datas(&bytes).pop().unwrap();
    let output = &response["response"]["output"];
    assert_eq!(
        output[0]["content"],
        json!([{ "type": "output_text", "annotations": [], "logprobs": [], "text": "ab" }])
    );
    assert_eq!(
        (&output[1]["encrypted_content"], output.as_array().unwrap().len()),
        (&json!("photofinish.gemini.sig"), 2)
    );
}

#[test]
fn what_was_cut_is_incomplete() {
    for (finish, reason) in [
        (FinishReason::Length, "max_output_tokens"),
        (FinishReason::Filtered, "content_filter"),
        (FinishReason::Refusal, "content_filter"),
    ] {
        let bytes = written(&[
            said("a"),
            AnswerPiece::Refusal { index: 0, text: "b".to_owned() },
            AnswerPiece::Finish { index: 0, finish },
        ]);
        let last = datas(&bytes).pop().unwrap();
        assert_eq!(last["type"], "response.incomplete");
        assert_eq!(last["response"]["incomplete_details"], json!({ "reason": reason }));
        assert_eq!(last["response"]["status"], "incomplete");
        let item = &last["response"]["output"][0];
        assert_eq!((&item["status"], item["content"].as_array().unwrap().len()), (&json!("incomplete"), 2));
        assert_eq!(last["response"]["usage"], Value::Null);
    }
    assert_eq!(datas(&written(&[])).len(), 3, "an answer without anything in it is one");
}

#[test]
fn sound_and_images_have_their_events() {
    let audio = |data: &str, transcript: &str| AnswerPiece::Audio {
        index: 0,
        id: None,
        data: data.into(),
        transcript: transcript.into(),
    };
    let image = AnswerPiece::Image { index: 0, media_type: "image/webp".to_owned(), data: "AA".to_owned() };
    let bytes = written(&[audio("QQ", ""), audio("", "hi"), image.clone()]);
    let datas = datas(&bytes);
    let count = |kind: &str| datas.iter().filter(|data| data["type"] == kind).count();
    for kind in ["delta", "done", "transcript.delta", "transcript.done"] {
        assert_eq!(count(&format!("response.audio.{kind}")), 1, "{kind}");
    }
    assert_eq!(pieces(&bytes)[1..4], [audio("QQ", ""), audio("", "hi"), image]);
    let whole = |bytes: &[u8]| {
        let mut growing = Surface::Responses.growing();
        assert!(events(bytes).iter().all(|event| growing.add(event)));
        let whole: Value = serde_json::from_slice(&growing.finish().unwrap().body).unwrap();
        whole
    };
    let sound = |transcript: &str| json!([{ "type": "output_audio", "data": "QQ", "transcript": transcript }]);
    let answer = whole(&bytes);
    assert_eq!((&answer["output"][0]["content"], &answer["output"][1]["result"]), (&sound("hi"), &json!("AA")));
    // A server whose items do not have it.
    let deltas = [
        json!({ "type": "response.audio.delta", "delta": "Q" }),
        json!({ "type": "response.output_audio.delta", "delta": "Q" }),
        json!({ "type": "response.audio.transcript.delta", "delta": "h\u{e9}" }),
        json!({ "type": "response.completed", "response": { "id": "r", "output": [] } }),
    ];
    let stream: String = deltas.iter().map(|event| format!("data: {event}\n\n")).collect();
    let answer = whole(stream.as_bytes());
    assert_eq!(answer["output"][0]["content"], sound("h\u{e9}"));
    let events = events_of_whole(answer.to_string().as_bytes()).unwrap();
    assert_eq!(pieces(&events)[1..3], [audio("QQ", ""), audio("", "h\u{e9}")]);
}

#[test]
fn a_missing_output_is_made_of_the_items() {
    let item = |text: &str| json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] });
    let done =
        |at: usize, text: &str| json!({ "type": "response.output_item.done", "output_index": at, "item": item(text) });
    let ended = |response: Value| json!({ "type": "response.completed", "response": response });
    for response in
        [json!({ "id": "r", "status": "completed" }), json!({ "id": "r", "output": [] }), json!({ "output": null })]
    {
        let whole = assembled(&stream(&[done(1, "b"), done(0, "a"), ended(response.clone())]));
        assert_eq!(whole["output"], json!([item("a"), item("b")]));
        assert_eq!(whole["id"], response["id"]);
    }
    let whole = assembled(&stream(&[done(0, "a"), ended(json!({ "output": [item("own")] }))]));
    assert_eq!(whole["output"], json!([item("own")]));
    assert!(!Surface::Responses.growing().add(&event("{\"type\":")));
    assert!(Surface::Responses.growing().add(&event("[DONE]")));
}

#[test]
fn a_whole_answer_becomes_a_stream_and_comes_back() {
    let whole = json!({
        "id": "resp_1", "object": "response", "model": "m-1", "status": "incomplete", "error": null,
        "incomplete_details": { "reason": "max_output_tokens" }, "usage": { "input_tokens": 1, "output_tokens": 2 },
        "output": [
            { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "gAAA" },
            { "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                { "type": "output_text", "text": "hi", "annotations": [] }, { "type": "refusal", "refusal": "no" },
            ] },
            { "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed" },
            { "type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "g", "input": "***" },
        ],
    });
    let bytes = events_of_whole(whole.to_string().as_bytes()).unwrap();
    assert_eq!(assembled(&bytes), whole);
    let custom =
        AnswerPiece::Call { index: 0, call: 1, id: "c2".into(), name: "g".into(), custom: true, signature: None };
    assert_eq!(
        pieces(&bytes)[1..9],
        [
            AnswerPiece::Thinking { index: 0, block: 0, text: "hm".to_owned() },
            AnswerPiece::Signature { index: 0, block: 0, signature: "photofinish.responses.gAAA".to_owned() },
            said("hi"),
            AnswerPiece::Refusal { index: 0, text: "no".to_owned() },
            call(0, "c1", "f"),
            arguments(0, "{}"),
            custom,
            arguments(1, "***"),
        ]
    );
    for other in ["[]", "{}", "no", r#"{"error":{"message":"x"},"output":[]}"#, r#"{"status":"failed","output":[]}"#] {
        assert_eq!(events_of_whole(other.as_bytes()), None, "{other}");
    }
}
