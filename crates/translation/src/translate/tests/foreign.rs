//! The parts that are removed from a passed-through request, and those that are kept.

use photofinish_dialects::SurfaceFormat as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::matrix::{follow_up, through};
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::dialect::{Dialect, Surface};

fn cleaned(surface: Surface, body: &Value) -> Option<Value> {
    let cleaned = surface.without_reasoning(body.to_string().as_bytes(), RemovedReasoning::Foreign)?;
    Some(serde_json::from_slice(&cleaned).unwrap())
}

#[test]
fn thoughts_that_nobody_signed_are_known_when_they_come_back() {
    let answer = json!({ "id": "1", "object": "chat.completion", "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "reasoning_content": "hm", "content": "So.",
        "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }],
    } }] });
    for (surface, place) in [(Surface::Messages, "messages"), (Surface::Responses, "input")] {
        let body = follow_up(surface, &through(Dialect::OpenAi, surface, &answer));
        let read = surface.conversation(body.to_string().as_bytes()).unwrap();
        let thought = photofinish_wire::conversation::ReasoningPart { text: "hm".to_owned(), ..Default::default() };
        assert_eq!(
            read.turns[1].parts[0],
            photofinish_wire::conversation::MessagePart::Thinking(thought),
            "{surface:?}"
        );
        let left = cleaned(surface, &body).unwrap();
        assert!(!left[place].to_string().contains("hm") && left.to_string().contains("So."), "{left}");
    }
    // Chat has no place for a signature there.
    let body = follow_up(Surface::Chat, &through(Dialect::OpenAi, Surface::Chat, &answer));
    assert_eq!(cleaned(Surface::Chat, &body), None);
}

#[test]
fn only_what_is_marked_is_taken_out() {
    let mark = "photofinish.gemini.s";
    let call = |extra: Value| {
        let mut call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": mark } });
        call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "messages": [{ "role": "assistant", "content": mark, "tool_calls": [call] }] })
    };
    let message = |members: Value| json!({ "messages": [members] });
    let own = json!({ "type": "reasoning.text", "signature": "s" });
    let table = [
        (Surface::Chat, call(json!({})), None),
        (Surface::Chat, call(json!({ "extra_content": { "google": { "thought_signature": "s" } } })), None),
        (
            Surface::Chat,
            call(json!({ "extra_content": { "google": { "thought_signature": mark } } })),
            Some(call(json!({}))),
        ),
        (
            Surface::Chat,
            call(json!({ "provider_specific_fields": { "thought_signature": mark, "a": 1 } })),
            Some(call(json!({ "provider_specific_fields": { "a": 1 } }))),
        ),
        (
            Surface::Chat,
            message(json!({ "reasoning_details": [own, { "type": "reasoning.encrypted", "data": mark }] })),
            Some(message(json!({ "reasoning_details": [own] }))),
        ),
        (
            Surface::Chat,
            message(json!({ "thinking_blocks": [{ "type": "thinking", "signature": mark }], "content": [] })),
            Some(message(json!({ "content": [] }))),
        ),
        (
            Surface::Chat,
            message(json!({ "content": [{ "type": "thinking", "signature": mark }] })),
            Some(message(json!({ "content": "" }))),
        ),
        (Surface::Chat, message(json!({ "content": [{ "type": "text", "text": mark, "signature": mark }] })), None),
        (Surface::Responses, json!({ "input": mark }), None),
        (Surface::Responses, json!({ "input": [{ "type": "message", "encrypted_content": mark }] }), None),
        (
            Surface::Responses,
            json!({ "input": [{ "type": "reasoning", "encrypted_content": mark }, 1] }),
            Some(json!({ "input": [1] })),
        ),
        (Surface::Completions, json!({ "prompt": mark }), None),
        (Surface::Embeddings, json!({ "input": mark }), None),
        (
            Surface::CountTokens,
            message(json!({ "content": [{ "type": "redacted_thinking", "data": mark }, 1] })),
            Some(message(json!({ "content": [1] }))),
        ),
    ];
    for (surface, body, left) in table {
        assert_eq!(cleaned(surface, &body), left, "{surface:?} {body}");
    }
}

/// With a budget, Anthropic requires a thought before the call of a turn.
#[test]
fn a_call_without_its_thought_ends_the_thinking() {
    let marked = json!({ "type": "thinking", "thinking": "hm", "signature": "photofinish.gemini.s" });
    let own = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let call = json!({ "type": "tool_use", "id": "c", "name": "f", "input": {} });
    let text = json!({ "type": "text", "text": "So." });
    let budget = json!({ "type": "enabled", "budget_tokens": 2_000 });
    let adaptive = json!({ "type": "adaptive" });
    for (blocks, thinking, stays) in [
        (json!([marked, call]), &budget, false),
        (json!([marked, text, call]), &budget, false),
        (json!([marked, own, call]), &budget, true),
        (json!([marked, text]), &budget, true),
        (json!([marked, call]), &adaptive, true),
    ] {
        let edits = json!([{ "type": "clear_tool_uses_20250919" }, { "type": "clear_thinking_20251015" }]);
        let body = json!({ "thinking": thinking, "context_management": { "edits": edits }, "messages": [
            { "role": "user", "content": "Hi" }, { "role": "assistant", "content": blocks }, { "role": "user", "content": "." },
        ] });
        let left = cleaned(Surface::Messages, &body).unwrap();
        let edits = left["context_management"]["edits"].as_array().unwrap().len();
        assert_eq!((left.get("thinking").is_some(), edits), (stays, 1 + usize::from(stays)), "{body}");
    }
}

/// Arbitrary JSON with the names that matter here.
fn any_json() -> impl Strategy<Value = Value> {
    let words =
        ["thinking", "redacted_thinking", "reasoning", "tool_use", "assistant", "enabled", "photofinish.gemini.s"];
    let words = words.into_iter().chain(["photofinish.unsigned", "photofinish.", "s", ""]).collect::<Vec<_>>();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
    ];
    let names = ["messages", "input", "content", "type", "role", "signature", "data", "encrypted_content", "thinking"];
    let more = ["reasoning_details", "thinking_blocks", "tool_calls", "extra_content", "google", "thought_signature"];
    let names = names.into_iter().chain(more).collect::<Vec<_>>();
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.clone()), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    /// No JSON makes it panic, and a cleaned request is clean.
    #[test]
    fn once_is_enough(list in prop::collection::vec(any_json(), 0..4), body in any_json()) {
        for surface in Surface::ALL {
            for body in [&body, &json!({ "messages": list, "input": list }), &json!({ "messages": [{ "content": list, "tool_calls": list }] })] {
                if let Some(left) = cleaned(surface, body) {
                    prop_assert_eq!(cleaned(surface, &left), None);
                    prop_assert_ne!(&left, body);
                }
            }
        }
    }
}
