//! Whole answers: assembled from a stream, and split into one.

use super::*;
use crate::SurfaceFormat as _;
use photofinish_wire::PayloadKind::*;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::stream::frame::Frame;

#[test]
fn a_whole_answer_keeps_what_is_not_known() {
    let stream = [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1,"service_tier":"standard"}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"so "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"far"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"n":1}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"n":2}}}"#,
        r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"lost"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_details":{"k":1}},"context_management":{"e":[]},"usage":{"input_tokens":null,"output_tokens":5,"server_tool_use":{"web_search_requests":1}}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let whole = assembled(&stream.map(event));
    let expected = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{ "type": "compaction", "content": "so far" },
            { "type": "text", "text": "a", "citations": [{ "n": 1 }, { "n": 2 }] }],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 9, "output_tokens": 5, "service_tier": "standard", "server_tool_use": { "web_search_requests": 1 } },
        "stop_details": { "k": 1 }, "context_management": { "e": [] },
    });
    assert_eq!(whole, expected);
    assert!(!Surface::Messages.growing().add(&event("{\"type\":")), "what cannot be read makes nothing whole");
}

#[test]
fn a_delta_as_deep_as_any_json_is_not_lost() {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta = format!(
        r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"a","odd":{deep}}}}}"#
    );
    let whole = assembled(&[event(block), event(&delta)]);
    assert_eq!((&whole["content"][0]["text"], whole["content"][0]["odd"].to_string()), (&json!("a"), deep));
}

#[test]
fn the_model_that_the_vendor_went_over_to_names_the_answer() {
    let start = json!({ "type": "message_start", "message": { "id": "a", "model": "one" } });
    let block = json!({ "type": "fallback", "from": { "model": "one" }, "to": { "model": "two" } });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let events = [event(&start.to_string()), event(&block.to_string())];
    assert_eq!(assembled(&events)["model"], "two");
    let named = |piece: &AnswerPiece| matches!(piece, AnswerPiece::Start { model: Some(model), .. } if model == "two");
    assert!(pieces(&events).last().is_some_and(named));
}

#[test]
fn an_answer_that_began_anew_is_the_second_one() {
    let start = |id: &str| event(&json!({ "type": "message_start", "message": { "id": id } }).to_string());
    let block = |text: &str| {
        event(
            &json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": text } })
                .to_string(),
        )
    };
    let texts = |events: &[SseEvent]| assembled(events)["content"].as_array().unwrap().len();
    assert_eq!(
        assembled(&[start("a"), block("one"), start("b"), block("two")])["content"],
        json!([{ "type": "text", "text": "two" }])
    );
    assert_eq!(texts(&[start("a"), block("one"), start("a")]), 1);
}

#[test]
fn an_input_that_was_cut_keeps_what_is_whole() {
    let table = [
        (r#"{"a":1,"b":[2,{"c":"d"}]}"#, json!({ "a": 1, "b": [2, { "c": "d" }] })),
        (r#"{"a":"x, y","b":"tru"#, json!({ "a": "x, y" })),
        (r#"{"a":1,"b""#, json!({ "a": 1 })),
        (r#"{"a":{"b":[1,"#, json!({ "a": { "b": [1] } })),
        (r#"{"a":{"b":[1"#, json!({ "a": { "b": [1] } })),
        (r#"{"a":"\"#, json!({})),
        ("{", json!({})),
        ("nonsense", json!({})),
        ("", json!({})),
    ];
    let deep = "[".repeat(100_000);
    for (text, expected) in table.into_iter().chain([(deep.as_str(), json!({}))]) {
        let start =
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "input": {} } });
        let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": text } });
        let ended = |reason: &str| {
            let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
            let mut growing = Surface::Messages.growing();
            assert!([&start, &delta, &end].iter().all(|of| growing.add(&event(&of.to_string()))));
            growing.finish().map(|whole| serde_json::from_slice::<Value>(&whole.body).unwrap())
        };
        for cut in ["max_tokens", "model_context_window_exceeded"] {
            assert_eq!(ended(cut).unwrap()["content"][0]["input"], expected, "{text:.40}");
        }
        let is_whole = text.is_empty() || serde_json::from_str::<Value>(text).is_ok();
        assert_eq!(ended("tool_use").is_some(), is_whole, "{text:.40}");
    }
}

#[test]
fn a_whole_answer_becomes_a_stream_and_back() {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "EqQB" },
            { "type": "redacted_thinking", "data": "EtgB" },
            { "type": "text", "text": "See.", "citations": [{ "type": "char_location", "cited_text": "s" }] },
            { "type": "tool_use", "id": "toolu_1", "name": "get", "input": { "a": [1, { "b": null }] } },
            { "type": "tool_use", "id": "toolu_2", "name": "now", "input": {} },
            { "type": "web_search_tool_result", "tool_use_id": "s", "content": [{ "title": "t" }] },
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "stop_details": { "k": 1 }, "container": { "id": "c" },
        "usage": { "input_tokens": 9, "output_tokens": 30, "service_tier": "standard" },
    });
    let stream = events_of_whole(whole.to_string().as_bytes()).unwrap();
    let events = events(&stream);
    assert_eq!(assembled(&events), whole);
    let mut seen = (Vec::new(), Usage::default(), 0, 0);
    for event in &events {
        match read(event) {
            Frame::Chunk(chunk) => {
                seen.0.extend(chunk.payload.map(|payload| (payload.kind, payload.chars)));
                seen.1.add(chunk.usage.as_deref().unwrap_or("{}"));
                seen.2 += chunk.finished;
            }
            Frame::Done(_) => seen.3 += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen.0, [(Reasoning, 2), (Text, 4), (Tool, 3), (Tool, 20), (Tool, 3)]);
    assert_eq!((seen.1.output_tokens, seen.2, seen.3), (Some(30), 1, 1));
    for no_message in [
        r#"{"type":"error","error":{"type":"api_error"}}"#,
        r#"{"content":[],"error":{"message":"x"}}"#,
        r#"{"type":"message","content":"x"}"#,
        r#"{"type":"message","content":["x"]}"#,
        r#"{"input_tokens":3}"#,
        "[]",
        "no",
    ] {
        assert_eq!(events_of_whole(no_message.as_bytes()), None, "{no_message}");
    }
}
