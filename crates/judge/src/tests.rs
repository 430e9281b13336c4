//! Answers of each surface against what was asked for.

use bytes::Bytes;
use photofinish_dialects::DialectFormat as _;
use photofinish_wire::conversation::AnswerPiece;
use serde_json::json;

use super::*;

const CALLS: fn(Judgement) -> Option<&'static str> = |judgement| judgement.calls.map(CallsVerdict::as_str);

fn tool(name: &str, parameters: Value) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

fn weather() -> Value {
    tool(
        "weather",
        json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "array", "items": {"type": "integer"}}}}),
    )
}

fn asked(surface: Surface, members: Value) -> Asked {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "input": "x",
        "contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let call = (surface == Surface::Gemini).then(|| photofinish_wire::PathCall {
        surface,
        model: "m".to_owned(),
        stream: false,
        listed: false,
    });
    Asked::new(&ApiRequest::parse_call(surface, Bytes::from(body.to_string()), call.as_ref(), false).unwrap()).unwrap()
}

/// Of a whole answer.
fn judged(asked: &Asked, answer: &[u8]) -> Judgement {
    judged_stream(asked, asked.surface().dialect().events_of_whole(asked.surface(), answer).unwrap())
}

fn judged_stream(asked: &Asked, events: Bytes) -> Judgement {
    let (dialect, mut said) = (asked.surface().dialect(), SaidAnswer::new(asked.has_format()));
    let (mut reader, mut decoder, mut pieces) = (dialect.reader(), dialect.framing().decoder(usize::MAX), Vec::new());
    decoder.push(events);
    while let Some(event) = decoder.next_event().unwrap().or_else(|| decoder.finish()) {
        reader.read(&event, &mut pieces);
    }
    pieces.iter().for_each(|piece| said.add(piece));
    asked.judge(&said)
}

fn chat(calls: Value) -> Vec<u8> {
    let call = |(name, arguments): (String, String)| json!({"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls: Vec<Value> =
        serde_json::from_value::<Vec<(String, String)>>(calls).unwrap().into_iter().map(call).collect();
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": calls}, "finish_reason": "tool_calls"}]})
        .to_string()
        .into_bytes()
}

#[test]
fn the_first_defect_of_a_request_counts() {
    let asked = asked(
        Surface::Chat,
        json!({"tools": [weather(), tool("none", Value::Null), {"type": "custom", "custom": {"name": "free"}}]}),
    );
    for (calls, expected) in [
        (json!([]), "none"),
        (json!([["weather", "{\"city\": \"Rome\", \"unit\": \"c\"}"]]), "valid"),
        (json!([["weather", "{\"city\": \"Rome\""]]), "not_json"),
        (json!([["weather", ""]]), "breaks_schema"),
        (json!([["none", ""], ["none", "{}"]]), "valid"),
        (json!([["wether", "{}"]]), "unknown_name"),
        (json!([["wether", "{"]]), "not_json"),
        (json!([["weather", "{\"unit\": \"c\"}"]]), "breaks_schema"),
        (json!([["weather", "{\"city\": \"Rome\", \"unit\": \"kelvin\"}"]]), "breaks_schema"),
        (json!([["weather", "{\"city\": \"Rome\", \"days\": [1, \"2\"]}"]]), "breaks_schema"),
        (json!([["weather", "{\"city\": \"Rome\"}"], ["wether", "{}"], ["weather", "{"]]), "unknown_name"),
        (json!([["weather", format!("{{\"city\": \"{}\"}}", "x".repeat(70_000))]]), "not_checked"),
    ] {
        assert_eq!(CALLS(judged(&asked, &chat(calls.clone()))), Some(expected), "{calls}");
    }
    let cut = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": "weather", "arguments": "{\"ci"}}]}, "finish_reason": "length"}]});
    assert_eq!(CALLS(judged(&asked, cut.to_string().as_bytes())), Some("not_checked"), "its client cut it");
    let mut partial = SaidAnswer::new(false);
    partial.give_up();
    assert_eq!(CALLS(asked.judge(&partial)), Some("not_checked"));
}

#[test]
fn each_surface_s_own_calls_are_judged() {
    let schema = json!({"type": "object", "required": ["city"]});
    let flat = |name: &str| json!({"type": "function", "name": name, "parameters": schema});
    for (surface, tools, answer) in [
        (
            Surface::Messages,
            json!([{"name": "weather", "input_schema": schema}]),
            json!({"content": [{"type": "text", "text": "so"}, {"type": "tool_use", "name": "NAME", "input": {"KEY": 1}}], "stop_reason": "tool_use"}),
        ),
        (
            Surface::Responses,
            json!([flat("weather")]),
            json!({"status": "completed", "output": [{"type": "function_call", "name": "NAME", "arguments": "{\"KEY\": 1}"}]}),
        ),
        (
            Surface::Gemini,
            json!([{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": schema}]}]),
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "NAME", "args": {"KEY": 1}}}]}, "finishReason": "STOP"}]}),
        ),
        (
            Surface::OllamaChat,
            json!([tool("weather", schema.clone())]),
            json!({"message": {"tool_calls": [{"function": {"name": "NAME", "arguments": {"KEY": 1}}}]}, "done": true}),
        ),
    ] {
        let asked = asked(surface, json!({ "tools": tools }));
        let judged = |name: &str, key: &str| {
            CALLS(judged(&asked, answer.to_string().replace("NAME", name).replace("KEY", key).as_bytes()))
        };
        assert_eq!(judged("weather", "city"), Some("valid"), "{surface:?}");
        assert_eq!(judged("weather", "town"), Some("breaks_schema"), "{surface:?}");
        assert_eq!(judged("wether", "city"), Some("unknown_name"), "{surface:?}");
    }
}

#[test]
fn a_stream_is_judged_as_its_whole_answer() {
    let asked = asked(Surface::Chat, json!({ "tools": [weather()] }));
    let chunk = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let stream = |pieces: &[&str]| {
        let mut events = chunk(
            json!({"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": {"name": "weather", "arguments": ""}}]}),
            Value::Null,
        );
        for piece in pieces {
            events += &chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}), Value::Null);
        }
        Bytes::from(events + &chunk(json!({}), json!("tool_calls")) + "data: [DONE]\n\n")
    };
    assert_eq!(CALLS(judged_stream(&asked, stream(&["{\"ci", "ty\":\"Ro", "me\"}"]))), Some("valid"));
    assert_eq!(CALLS(judged_stream(&asked, stream(&["{\"ci", "ty\":\"Ro", "me\""]))), Some("not_json"));
    assert_eq!(CALLS(judged_stream(&asked, Bytes::new())), Some("none"));
}

#[test]
fn structured_output_follows_its_schema_or_not() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let asked = asked(
        Surface::Chat,
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}),
    );
    let of = |message: Value, finish: &str| {
        let answer = json!({"choices": [{"message": message, "finish_reason": finish}]});
        let judgement = judged(&asked, answer.to_string().as_bytes());
        assert_eq!(judgement.calls, None, "no tools");
        judgement.structured.map(StructuredVerdict::as_str)
    };
    assert_eq!(of(json!({"content": "{\"n\": 1}"}), "stop"), Some("valid"));
    assert_eq!(of(json!({"content": "```json\n{\"n\": 1}\n```"}), "stop"), Some("invalid"));
    assert_eq!(of(json!({"content": "{\"n\": 1.5}"}), "stop"), Some("invalid"));
    assert_eq!(of(json!({"content": "{\"n\": "}), "length"), Some("not_checked"));
    assert_eq!(of(json!({"content": null}), "stop"), Some("not_checked"));
    assert_eq!(of(json!({"content": null, "refusal": "no"}), "stop"), None, "it refused");
}

#[test]
fn what_is_too_large_is_not_checked_and_costs_little() {
    let tools: Vec<Value> = (0..10_000).map(|n| tool(&format!("t{n}"), json!({"type": "object"}))).collect();
    let many = asked(Surface::Chat, json!({ "tools": tools }));
    assert_eq!(CALLS(judged(&many, &chat(json!([["t1", "{}"]])))), Some("not_checked"));
    assert!(many.tools.is_empty(), "it keeps nothing of them");
    let server = asked(Surface::Chat, json!({"tools": [weather(), {"type": "mcp", "server_url": "x"}]}));
    assert_eq!(CALLS(judged(&server, &chat(json!([["of_the_server", "{}"]])))), Some("not_checked"));
    assert_eq!(CALLS(judged(&server, &chat(json!([["weather", "{}"]])))), Some("breaks_schema"));
}

#[test]
fn equal_tools_are_one_class() {
    let one = |members| asked(Surface::Chat, members).class();
    let tools = || json!([weather()]);
    assert_eq!(one(json!({"tools": tools(), "temperature": 1})), one(json!({"temperature": 0, "tools": tools()})));
    assert_ne!(one(json!({"tools": tools()})), one(json!({"tools": [weather(), tool("x", Value::Null)]})));
    let plain = ApiRequest::parse(
        Surface::Chat,
        Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[]}"#),
    )
    .unwrap();
    assert!(Asked::new(&plain).is_none());
}

#[test]
fn prose_is_a_broken_answer() {
    let any_object = json!({"type": "json_object"});
    for (surface, members) in [
        (Surface::Chat, json!({"response_format": any_object})),
        (Surface::Responses, json!({"text": {"format": any_object}})),
        (Surface::Gemini, json!({"generationConfig": {"responseMimeType": "application/json"}})),
        (Surface::OllamaChat, json!({"format": "json"})),
        (Surface::OllamaGenerate, json!({"prompt": "x", "format": "json"})),
    ] {
        let asked = asked(surface, members);
        let list = if surface == Surface::Gemini { StructuredVerdict::Valid } else { StructuredVerdict::Invalid };
        for (text, expected) in [
            ("{\"a\": 1}", StructuredVerdict::Valid),
            ("\n{}\n", StructuredVerdict::Valid),
            ("Here you are: {\"a\": 1}", StructuredVerdict::Invalid),
            ("```json\n{}\n```", StructuredVerdict::Invalid),
            ("{\"a\": 1", StructuredVerdict::Invalid),
            ("[1]", list),
        ] {
            let mut said = SaidAnswer::new(asked.has_format());
            said.add(&AnswerPiece::Text { index: 0, text: text.to_owned() });
            assert_eq!(asked.judge(&said).structured, Some(expected), "{surface:?}: {text}");
        }
    }
}
