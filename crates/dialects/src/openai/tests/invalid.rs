//! Invalid chat requests, in the vendor's words. Nothing panics.

use serde_json::{Value, json};

use super::super::{check, conversation};
use super::requests::with;

/// Each body, the wrong member, and the message.
fn says(table: &[(Value, &str, &str)]) {
    for (body, param, message) in table {
        let invalid = conversation(body.to_string().as_bytes()).unwrap_err();
        assert_eq!((invalid.message.as_str(), invalid.param.as_deref()), (*message, Some(*param)), "{body}");
    }
}

fn with_message(message: Value) -> Value {
    json!({ "messages": [message] })
}

fn after_call(message: Value) -> Value {
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "" } });
    json!({ "messages": [{ "role": "assistant", "tool_calls": [call] }, message] })
}

#[test]
fn messages_must_be_a_list_of_messages() {
    says(&[
        (json!({}), "messages", "Missing required parameter: 'messages'."),
        (
            json!({ "messages": "hi" }),
            "messages",
            "Invalid type for 'messages': expected an array of objects, but got a string instead.",
        ),
        (
            json!({ "messages": [] }),
            "messages",
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        ),
        (
            json!({ "messages": ["x"] }),
            "messages[0]",
            "Invalid type for 'messages[0]': expected an object, but got a string instead.",
        ),
    ]);
    for body in ["", "[]", "7", "{\"messages\":"] {
        assert_eq!(conversation(body.as_bytes()).unwrap_err().param, None, "{body}");
    }
}

#[test]
fn roles_are_checked() {
    says(&[
        (
            with_message(json!({ "content": "x" })),
            "messages[0].role",
            "Missing required parameter: 'messages[0].role'.",
        ),
        (
            with_message(json!({ "role": "bot", "content": "x" })),
            "messages[0].role",
            "Invalid value: 'bot'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        ),
        (
            with_message(json!({ "role": "my secret, is long", "content": "x" })),
            "messages[0].role",
            "Invalid value. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        ),
        (
            after_call(json!({ "role": "tool", "tool_call_id": "b", "content": "x" })),
            "messages.[1].tool_call_id",
            "Invalid parameter: 'tool_call_id' not found in 'tool_calls' of previous message.",
        ),
        (
            after_call(json!({ "role": "user", "content": "x" })),
            "messages.[1].role",
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a",
        ),
    ]);
}

#[test]
fn content_is_checked() {
    says(&[
        (
            with_message(json!({ "role": "user" })),
            "messages.[0].content",
            "Invalid value for 'content': expected a string, got null.",
        ),
        (
            with_message(json!({ "role": "user", "content": 7 })),
            "messages[0].content",
            "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
        ),
        (
            with_message(json!({ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "video" }] })),
            "messages[0].content[1].type",
            "Invalid value: 'video'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'.",
        ),
        (
            with_message(json!({ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] })),
            "messages[0].content[0].image_url.url",
            "Missing required parameter: 'messages[0].content[0].image_url.url'.",
        ),
        (
            with_message(json!({ "role": "assistant" })),
            "messages.[0].content",
            "Invalid value for 'content': expected a string, got null.",
        ),
        (
            with_message(json!({ "role": "tool", "tool_call_id": "a", "content": "x" })),
            "messages.[0].role",
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
        ),
    ]);
}

#[test]
fn options_are_checked() {
    says(&[
        (
            with(&json!({ "temperature": "hot" })),
            "temperature",
            "Invalid type for 'temperature': expected a decimal number, but got a string instead.",
        ),
        (
            with(&json!({ "temperature": 3 })),
            "temperature",
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
        ),
        (
            with(&json!({ "max_tokens": 0 })),
            "max_tokens",
            "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        ),
        (
            with(&json!({ "n": 1.5 })),
            "n",
            "Invalid type for 'n': expected an integer, but got a decimal number instead.",
        ),
        (
            with(&json!({ "stop": 7 })),
            "stop",
            "Invalid type for 'stop': expected one of a string or array of strings, but got an integer instead.",
        ),
        (
            with(&json!({ "verbosity": "loud" })),
            "verbosity",
            "Invalid value: 'loud'. Supported values are: 'low', 'medium', and 'high'.",
        ),
        (
            with(&json!({ "response_format": { "type": "json_schema" } })),
            "response_format.json_schema",
            "Missing required parameter: 'response_format.json_schema'.",
        ),
        (
            with(&json!({ "tools": [{ "type": "function" }] })),
            "tools[0].function",
            "Missing required parameter: 'tools[0].function'.",
        ),
        (
            with(&json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": 1 } }] })),
            "tools[0].function.parameters",
            "Invalid type for 'tools[0].function.parameters': expected an object, but got an integer instead.",
        ),
        (
            with(&json!({ "tool_choice": "required" })),
            "tool_choice",
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
        ),
    ]);
}

#[test]
fn the_top_level_is_checked_without_reading_it() {
    let check = |body: Value| {
        let members: Vec<(String, String)> =
            body.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let find = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, text)| text.as_str());
        check(&find).err().map(|invalid| invalid.message)
    };
    let is = |message: &str| Some(message.to_owned());
    assert_eq!(check(json!({})), is("Missing required parameter: 'messages'."));
    assert_eq!(check(json!({ "messages": null })), is("Missing required parameter: 'messages'."));
    assert_eq!(
        check(json!({ "messages": {} })),
        is("Invalid type for 'messages': expected an array of objects, but got an object instead.")
    );
    assert_eq!(
        check(json!({ "messages": [] })),
        is("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
    );
    assert_eq!(
        check(json!({ "messages": [{}], "n": 2.5 })),
        is("Invalid type for 'n': expected an integer, but got a decimal number instead.")
    );
    assert_eq!(
        check(json!({ "messages": [{}], "tools": {} })),
        is("Invalid type for 'tools': expected an array of objects, but got an object instead.")
    );
    assert_eq!(
        check(
            json!({ "messages": [{}], "temperature": 1, "stop": "x", "tool_choice": "auto", "seed": null, "odd": 7 })
        ),
        None
    );
}

proptest::proptest! {
    /// Arbitrary JSON instead of any member.
    #[test]
    fn never_panics(value in super::any_json(), name in proptest::sample::select(vec![
        "messages", "tools", "tool_choice", "functions", "function_call", "stop", "response_format", "reasoning", "thinking",
        "metadata", "temperature", "max_tokens", "logit_bias", "modalities", "n"]), bytes in "[\\[\\]{}\":,a-z0-9]{0,40}") {
        conversation(with(&json!({ name: value })).to_string().as_bytes()).ok();
        conversation(bytes.as_bytes()).ok();
        for member in ["content", "tool_calls", "function_call", "reasoning_details", "thinking_blocks", "images", "cache_control"] {
            let message = json!({ "role": "assistant", "content": "x", member: value });
            conversation(json!({ "messages": [message] }).to_string().as_bytes()).ok();
            let message = json!({ "role": "user", "content": [{ "type": "text", "text": "x", "image_url": value, "file": value }], member: value });
            conversation(json!({ "messages": [message] }).to_string().as_bytes()).ok();
        }
        check(&|_| Some(Box::leak(value.to_string().into_boxed_str()))).ok();
    }
}
