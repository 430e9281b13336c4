//! Every declared quirk is heeded in requests that are not translated, in each dialect that its declaration names at its end, or the
//! declaration says why not. A new quirk is covered without a line here, if some body below has what it is about.

use serde_json::{Value, from_value, json};

use super::rewritten;
use photofinish_wire::quirks::*;
use photofinish_wire::{Dialect, Surface, each_form, each_quirk};

macro_rules! declared {
    ($($(#[doc = $about:literal])* $key:ident: $type:ty $(= $usual:expr)?;)+) => {
        /// The name of each quirk, and what is said of it.
        const DECLARED: &[(&str, &str)] = &[$((stringify!($key), concat!($($about),+))),+];
    };
}

each_quirk!(declared);

macro_rules! named_values {
    ($($name:ident),+) => { [$($name::ALL.map(|value| json!(value.as_str())).to_vec()),+].concat() };
}

/// Each value that one of the types takes.
fn values() -> Vec<Value> {
    let plain = vec![json!(true), json!(false), json!(3), json!(9_000), json!(["low"])];
    [plain, each_form!(named_values)].concat()
}

fn bodies(surface: Surface) -> Vec<Value> {
    let (long, schema) = ("a".repeat(40), json!({ "type": "object" }));
    let mut bodies = match surface {
        Surface::Chat => {
            let picture = json!([{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } }]);
            let calls =
                json!([{ "id": "call_0", "type": "function", "function": { "name": long, "arguments": "{}" } }]);
            vec![json!({
                "stream_options": { "include_usage": true }, "max_tokens": 1_000_000, "reasoning_effort": "high",
                "tools": [{ "type": "function", "function": { "name": long } }], "tool_choice": "required",
                "messages": [
                    { "role": "developer", "content": "d" }, { "role": "user", "content": "u" },
                    { "role": "assistant", "tool_calls": calls, "reasoning_content": "r" },
                    { "role": "tool", "tool_call_id": "call_0", "content": picture },
                    { "role": "user", "content": "u" }, { "role": "system", "content": "s" }, { "role": "user", "content": "u" },
                ],
            })]
        }
        Surface::Responses => vec![json!({
            "tools": [{ "type": "custom", "name": long }], "tool_choice": "required", "input": "u",
        })],
        Surface::Messages => {
            let marked =
                |text: &str| json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }]);
            let system: Value =
                ["1", "2", "3", "4"].iter().flat_map(|text| marked(text).as_array().unwrap().clone()).collect();
            let with = |thinking: Value| {
                json!({
                    "max_tokens": 1_000_000, "temperature": 0.5, "top_p": 0.9, "thinking": thinking, "system": system,
                    "output_config": { "effort": "max", "format": { "type": "json_schema", "schema": schema } },
                    "tools": [{ "name": long, "strict": true, "input_schema": schema }], "tool_choice": { "type": "any" },
                    "metadata": { "user_id": "a@b" }, "context_management": {},
                    "messages": [
                        { "role": "user", "content": marked("u") },
                        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": long, "input": {} }] },
                        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "1" }] },
                        { "role": "system", "content": "s" },
                    ],
                })
            };
            vec![with(json!({ "type": "enabled", "budget_tokens": 2_048 })), with(json!({ "type": "disabled" }))]
        }
        Surface::Gemini => {
            let call = json!({ "functionCall": { "name": long, "args": {} } });
            let with = |thinking: Value| {
                json!({
                    "contents": [{ "role": "user", "parts": [{ "text": "u" }] }, { "role": "model", "parts": [call] }],
                    "tools": [{ "functionDeclarations": [{ "name": long }] }],
                    "generationConfig": {
                        "responseMimeType": "application/json", "responseJsonSchema": schema, "thinkingConfig": thinking,
                    },
                })
            };
            [json!({ "thinkingBudget": 5_000 }), json!({ "thinkingBudget": 0 }), json!({ "thinkingLevel": "HIGH" })]
                .map(with)
                .to_vec()
        }
        _ => vec![json!({ "think": "high", "messages": [{ "role": "user", "content": "u" }] })],
    };
    bodies.iter_mut().for_each(|body| body["model"] = "m".into());
    bodies
}

/// Where such a request goes, and how.
fn sent(surface: Surface, body: &Value, quirks: &Quirks) -> (bool, bool, Option<String>) {
    let text = body.to_string();
    let made = rewritten(surface, text.as_bytes(), quirks, &RequestChanges::default());
    let paths = (quirks.goes_to_responses(true, text.as_bytes()), quirks.goes_to_chat(text.as_bytes()));
    (paths.0, paths.1, made.map(|made| made.text))
}

/// Whether a value of the quirk changes what is sent, alone or besides another one.
fn is_heeded(quirk: &str, surface: Surface) -> bool {
    let set = |set: Value| from_value::<QuirkSet>(set).ok();
    let least = json!({ "thinking_levels": ["low"], "thinking_min": 3 });
    let beside = [json!({}), json!({ "thinking": "effort" }), json!({ "claude": true }), least];
    let beside = beside.into_iter().filter_map(set);
    let sets: Vec<QuirkSet> = values().iter().filter_map(|value| set(json!({ quirk: value }))).collect();
    assert!(!sets.is_empty(), "no value of {quirk}");
    beside.flat_map(|beside| sets.iter().map(move |set| (beside, set.or(beside)))).any(|(before, after)| {
        bodies(surface)
            .iter()
            .any(|body| sent(surface, body, &before.settled()) != sent(surface, body, &after.settled()))
    })
}

#[test]
fn every_quirk_is_heeded_in_requests_that_are_not_translated_or_says_why_not() {
    let mut wrong = Vec::new();
    for (quirk, about) in DECLARED {
        let (_, dialects) = about.rsplit_once('(').unwrap();
        let named: Vec<Dialect> = dialects.split('`').filter_map(Dialect::from_name).collect();
        assert!(!named.is_empty(), "{quirk} names no dialect at the end of: {about}");
        let is_said = ["as it is", "as they are", "is translated"].iter().any(|words| dialects.contains(words));
        for surface in Surface::TRANSLATED.into_iter().filter(|surface| named.contains(&surface.dialect())) {
            if is_heeded(quirk, surface) == is_said {
                wrong.push(format!("{quirk} in requests of {surface:?}: {about}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
