//! Tools whose names the upstream does not take: no such name goes up, and every client gets its own ones back.

use std::sync::Arc;

use serde_json::json;

use super::*;
use photofinish_wire::conversation::tool_names::{each_name, fits};
use photofinish_wire::conversation::{NameRestorer, ToolNames};

const LONG: &str = "mcp__a_server_with_quite_a_long_name__and_a_tool_whose_name_is_as_long_as_its_use/";

fn asked(surface: Surface, names: &[String]) -> Value {
    let tools = |tool: &dyn Fn(&String) -> Value| names.iter().map(tool).collect::<Value>();
    let function = |name: &String| json!({ "type": "function", "function": { "name": name, "parameters": {} } });
    let call = |of: &str, more: Value| {
        let mut call = json!({ "name": names[0] });
        call[of] = more;
        call
    };
    match surface {
        Surface::Responses => json!({
            "model": "m", "tools": tools(&|name| json!({ "type": "function", "name": name, "parameters": {} })),
            "tool_choice": { "type": "function", "name": names[0] },
            "input": [
                { "role": "user", "content": "x" },
                { "type": "function_call", "call_id": "c", "name": names[0], "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c", "output": "y" },
            ],
        }),
        Surface::Gemini => json!({
            "tools": [{ "functionDeclarations": tools(&|name| json!({ "name": name })) }],
            "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": [names[0]] } },
            "contents": [
                { "role": "user", "parts": [{ "text": "x" }] },
                { "role": "model", "parts": [{ "functionCall": call("args", json!({ "name": "x/y" })) }] },
                { "role": "user", "parts": [{ "functionResponse": call("response", json!({ "output": "y" })) }] },
            ],
        }),
        Surface::Messages => json!({
            "model": "m", "max_tokens": 9, "tool_choice": { "type": "tool", "name": names[0] },
            "tools": tools(&|name| json!({ "name": name, "input_schema": { "type": "object" } })),
            "messages": [
                { "role": "user", "content": "x" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": names[0], "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "y" }] },
            ],
        }),
        _ => json!({
            "model": "m", "tools": tools(&function),
            "messages": [
                { "role": "user", "content": "x" },
                { "role": "assistant", "content": "", "tool_calls": [{
                    "id": "c", "type": "function", "function": call("arguments", match surface {
                        Surface::Chat => json!("{}"),
                        _ => json!({}),
                    }),
                }] },
                { "role": "tool", "tool_call_id": "c", "content": "y" },
            ],
        }),
    }
}

/// The names of tools in what goes up.
fn sent(request: &RequestTranslation) -> Vec<String> {
    let body = request.body_for("m", photofinish_wire::AnswerForm::Streamed).joined();
    let (mut body, mut names) = (serde_json::from_slice::<Value>(&body).unwrap(), Vec::new());
    each_name(&mut body, &mut |name| names.push(name.clone()));
    names
}

#[test]
fn every_client_gets_the_names_that_it_asked_for() {
    let mut seen = 0;
    for seed in 0..80 {
        let mut rng = Rng::with_seed(seed);
        let dialect = DIALECTS[usize::try_from(seed % DIALECTS.len() as u64).unwrap()];
        let mut truth = Truth::by_chance(&mut rng, upstream::has_images(dialect));
        truth.calls.iter_mut().for_each(|call| call.name = format!("{LONG}{}", call.name));
        let mut names: Vec<String> = truth.calls.iter().map(|call| call.name.clone()).collect();
        names.extend([format!("{LONG}ü\""), "short".to_owned()]);
        let state = rng.clone();
        for surface in SURFACES {
            let mut options = TranslationOptions::of_model(dialect, "m");
            options.quirks.tool_name_max = Some(64);
            let request = requested(surface, &asked(surface, &names).to_string(), dialect, &options);
            let ups = sent(&request);
            assert!(ups.iter().all(|name| fits(name, 64)) && ups.contains(&"short".to_owned()), "{ups:?}");
            let others: std::collections::BTreeSet<&String> = ups.iter().collect();
            assert_eq!(others.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len(), "{ups:?}");
            let mut with_sent_names = truth.clone();
            with_sent_names.calls.iter_mut().for_each(|call| request.names.send(&mut call.name));
            let mut rng = state.clone();
            let (written, whole) = (
                upstream::stream(dialect, &with_sent_names, true, &mut rng),
                upstream::whole(dialect, &with_sent_names, &mut rng),
            );
            let make = || ResponseTranslation::new(&request, "m", true);
            for (way, got) in answers(surface, dialect, make, &written.bytes, Some(&whole)) {
                if surface.dialect() == dialect && !written.plain {
                    continue;
                }
                let mut got: Vec<String> = got.unwrap().calls.into_iter().map(|(_, name, _)| name).collect();
                let mut expected: Vec<String> = truth.calls.iter().map(|call| call.name.clone()).collect();
                got.sort();
                expected.sort();
                assert_eq!(got, expected, "seed {seed}: {surface:?} over {dialect:?}, {way:?}, {}", written.form);
                seen += expected.len();
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn names_that_are_alike_stay_apart_and_are_the_same_each_time() {
    let (one, two) = (format!("{LONG}a"), format!("{LONG}b"));
    let made = |names: &[&str]| ToolNames::of(names.iter().copied(), 64);
    let names = made(&[&one, "f", &two, &one]).unwrap();
    let up = |names: &ToolNames, name: &str| {
        let mut name = name.to_owned();
        names.send(&mut name);
        name
    };
    assert_eq!([up(&names, "f"), names.asked("f").to_owned()], ["f", "f"]);
    assert_eq!((up(&names, &one).len(), names.asked(&up(&names, &two))), (64, two.as_str()));
    assert_eq!(up(&made(&[&two]).unwrap(), &two), up(&names, &two), "the next request may have fewer tools");
    let taken = up(&names, &one);
    let both = made(&[&taken, &one]).unwrap();
    assert_ne!(up(&both, &one), taken, "another tool has that name");
    assert_eq!(both.asked(&taken), taken);
    assert_eq!((made(&["f", "g-h_9"]), made(&["a.b"]).is_some()), (None, true));
}

/// A name that came in pieces is put back where it is whole, and another one that begins alike is not lost.
#[test]
fn a_name_in_pieces_is_put_back_in_the_client_s_own_dialect() {
    let names = Arc::new(ToolNames::of([LONG, "n"].into_iter(), 64).unwrap());
    let mut sent = LONG.to_owned();
    names.send(&mut sent);
    let chunk = |function: Value, finish: Option<&str>| {
        let calls = json!([{"index": 1, "function": function}]);
        let delta = if function.is_null() { json!({}) } else { json!({"tool_calls": calls}) };
        let chunk = json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let named = |name: &str| json!({"name": name, "arguments": ""});
    let restored_text = |pieces: Vec<Bytes>| {
        let mut restorer = NameRestorer::of(&names).unwrap();
        let events: Vec<Bytes> = pieces.iter().map(|piece| restorer.restored(piece)).collect();
        let mut calls = String::new();
        for event in events {
            let data: Value = serde_json::from_slice(event.strip_prefix(b"data: ").unwrap().trim_ascii()).unwrap();
            for call in data["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
                assert_eq!(call["index"], 1);
                for member in ["name", "arguments"] {
                    calls += call["function"][member].as_str().unwrap_or_default();
                }
            }
        }
        calls
    };
    let arguments = || chunk(json!({"arguments": "{}"}), None);
    let end = || chunk(Value::Null, Some("tool_calls"));
    let (one, two) = sent.split_at(9);
    let (three, four) = two.split_at(30);
    assert_eq!(
        restored_text(vec![chunk(named(one), None), chunk(named(two), None), arguments(), end()]),
        format!("{LONG}{{}}")
    );
    let in_three =
        vec![chunk(named(one), None), chunk(named(three), None), chunk(named(four), None), arguments(), end()];
    assert_eq!(restored_text(in_three), format!("{LONG}{{}}"));
    assert_eq!(
        restored_text(vec![chunk(named("n"), None), arguments(), end()]),
        "n{}",
        "its own name begins the other"
    );
    assert_eq!(restored_text(vec![chunk(named("n"), None), end()]), "n", "and it has no arguments");
    assert_eq!(restored_text(vec![chunk(named(&sent), None), arguments(), end()]), format!("{LONG}{{}}"));
}

#[test]
fn the_name_of_a_namespace_goes_up_and_comes_back_as_another() {
    let body = json!({ "model": "m", "input": [
        { "type": "function_call", "call_id": "c", "namespace": LONG, "name": "f", "arguments": "{}" },
        { "role": "user", "content": "x" },
    ], "tools": [{ "type": "namespace", "name": LONG, "tools": [{ "type": "function", "name": "f" }] }] });
    let mut options = TranslationOptions::of_model(Dialect::Responses, "m");
    options.quirks.tool_name_max = Some(64);
    let request = requested(Surface::Responses, &body.to_string(), Dialect::Responses, &options);
    let sent: Value =
        serde_json::from_slice(&request.body_for("m", photofinish_wire::dialect::AnswerForm::Plain).joined()).unwrap();
    let name = sent["tools"][0]["name"].as_str().unwrap();
    assert!(fits(name, 64) && sent["input"][0]["namespace"] == name, "{sent}");
    let item = |namespace: &str| Bytes::from(json!({ "item": { "name": "f", "namespace": namespace } }).to_string());
    assert_eq!(ResponseTranslation::new(&request, "m", false).named(item(name)), item(LONG));
}
