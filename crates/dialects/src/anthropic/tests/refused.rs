//! Requests that the vendor would refuse, in its words, and errors in its shape.

use super::*;
use crate::SurfaceFormat as _;
use photofinish_wire::Surface;
use photofinish_wire::client_error::ErrorShape;

/// Each body, and the message it is refused with.
fn refuses(table: &[(Value, &str)]) {
    for (body, message) in table {
        let found = conversation_of(body).map(drop).map_err(|invalid| invalid.message);
        assert_eq!(found, Err((*message).to_owned()), "{body}");
    }
}

#[test]
fn a_bad_top_level_is_refused_in_the_vendor_s_words() {
    refuses(&[
        (json!({ "max_tokens": 1, "messages": [] }), "model: Field required"),
        (body(json!({ "model": 7 })), "model: Input should be a valid string"),
        (body(json!({ "model": "" })), "model: String should have at least 1 character"),
        (json!({ "model": "m", "max_tokens": 1 }), "messages: Field required"),
        (body(json!({ "messages": {} })), "messages: Input should be a valid list"),
        (body(json!({ "messages": [ ] })), "messages: at least one message is required"),
        (json!({ "model": "m", "messages": [{}] }), "max_tokens: Field required"),
        (body(json!({ "max_tokens": "9" })), "max_tokens: Input should be a valid integer"),
        (body(json!({ "max_tokens": null })), "max_tokens: Input should be a valid integer"),
        (body(json!({ "max_tokens": 1.5 })), "max_tokens: Input should be a valid integer"),
        (body(json!({ "max_tokens": 0 })), "max_tokens: Input should be greater than or equal to 1"),
        (body(json!({ "system": 7 })), "system: Input should be a valid string"),
        (body(json!({ "system": {} })), "system: Input should be a valid list"),
        (body(json!({ "tools": {} })), "tools: Input should be a valid list"),
        (body(json!({ "tool_choice": "auto" })), "tool_choice: Input should be an object"),
        (body(json!({ "stream": "yes" })), "stream: Input should be a valid boolean"),
        (body(json!({ "temperature": "hot" })), "temperature: Input should be a valid number"),
        (body(json!({ "top_k": 0.5 })), "top_k: Input should be a valid integer"),
        (body(json!({ "stop_sequences": "END" })), "stop_sequences: Input should be a valid list"),
        (body(json!({ "stop_sequences": ["a", 1] })), "stop_sequences.1: Input should be a valid string"),
        (body(json!({ "stop_sequences": [" "] })), "stop_sequences.0: each stop sequence must contain non-whitespace"),
        (
            body(json!({ "system": [{ "type": "image" }] })),
            "system.0.type: Input tag does not match any of the expected tags",
        ),
    ]);
}

#[test]
fn bad_messages_are_refused_in_the_vendor_s_words() {
    refuses(&[
        (body(json!({ "messages": [7] })), "messages.0: Input should be an object"),
        (body(json!({ "messages": [{ "content": "x" }] })), "messages.0.role: Field required"),
        (
            body(json!({ "messages": [{ "role": "tool", "content": "x" }] })),
            "messages.0.role: Input should be 'user', 'assistant' or 'system'",
        ),
        (content("user", json!("")), "messages.0: user messages must have non-empty content"),
        (content("user", json!([])), "messages.0: user messages must have non-empty content"),
        (body(json!({ "messages": [{ "role": "user" }] })), "messages.0.content: Field required"),
        (content("user", json!(7)), "messages.0.content: Input should be a valid string or a valid list"),
        (
            content("user", json!([{ "type": "text", "text": "x" }, { "text": "x" }])),
            "messages.0.content.1.type: Field required",
        ),
        (content("user", json!([{ "type": 7 }])), "messages.0.content.0.type: Input should be a valid string"),
        (content("user", json!(["x"])), "messages.0.content.0: Input should be an object"),
        (content("user", json!([{ "type": "text" }])), "messages.0.content.0.text.text: Field required"),
        (content("user", json!([{ "type": "image" }])), "messages.0.content.0.image.source: Field required"),
        (
            content("user", json!([{ "type": "image", "source": { "type": "base64", "data": "x" } }])),
            "messages.0.content.0.image.source.base64.media_type: Field required",
        ),
        (
            content("user", json!([{ "type": "image", "source": { "type": "text", "data": "x" } }])),
            "messages.0.content.0.image.source.type: Input tag does not match any of the expected tags",
        ),
        (
            content("user", json!([{ "type": "document", "source": { "type": "odd" } }])),
            "messages.0.content.0.document.source.type: Input tag does not match any of the expected tags",
        ),
        (
            content("user", json!([{ "type": "tool_result", "content": "x" }])),
            "messages.0.content.0.tool_result.tool_use_id: Field required",
        ),
        (
            content("user", json!([{ "type": "tool_use", "id": "a", "name": "f", "input": {} }])),
            "messages.0: `tool_use` blocks can only be in `assistant` messages",
        ),
        (
            content("assistant", json!([{ "type": "tool_result", "tool_use_id": "a" }])),
            "messages.0: `tool_result` blocks can only be in `user` messages",
        ),
        (
            content("assistant", json!([{ "type": "tool_use", "id": "a", "name": "f" }])),
            "messages.0.content.0.tool_use.input: Field required",
        ),
        (
            content("assistant", json!([{ "type": "tool_use", "id": "a", "name": "f", "input": "{}" }])),
            "messages.0.content.0.tool_use.input: Input should be an object",
        ),
        (
            content("assistant", json!([{ "type": "thinking", "thinking": "x" }])),
            "messages.0.content.0.thinking.signature: Field required",
        ),
    ]);
}

#[test]
fn bad_options_are_refused_in_the_vendor_s_words() {
    refuses(&[
        (body(json!({ "tools": [{ "name": "f" }] })), "tools.0.custom.input_schema: Field required"),
        (body(json!({ "tools": [{ "input_schema": {} }] })), "tools.0.custom.name: Field required"),
        (
            body(json!({ "tools": [{ "name": "", "input_schema": {} }] })),
            "tools.0.custom.name: String should have at least 1 character",
        ),
        (body(json!({ "tool_choice": {} })), "tool_choice.type: Field required"),
        (body(json!({ "tool_choice": { "type": "tool" } })), "tool_choice.tool.name: Field required"),
        (
            body(json!({ "tool_choice": { "type": "some" } })),
            "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'",
        ),
        (body(json!({ "thinking": { "type": "enabled" } })), "thinking.enabled.budget_tokens: Field required"),
        (
            body(json!({ "thinking": { "type": "enabled", "budget_tokens": -1 } })),
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            body(json!({ "thinking": { "type": "enabled", "budget_tokens": 2048 } })),
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        ),
        (
            body(json!({ "thinking": { "type": "on" } })),
            "thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'",
        ),
        (
            body(json!({ "output_config": { "effort": "none" } })),
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
        ),
        (
            body(json!({ "output_config": { "format": { "type": "json_schema" } } })),
            "output_config.format.schema: Field required",
        ),
        (body(json!({ "output_format": { "type": "grammar" } })), "output_format.type: Input should be 'json_schema'"),
    ]);
}

#[test]
fn what_is_no_object_is_refused_without_quoting_it() {
    for no_object in ["", "[]", "7", "{", "\"secret\""] {
        let message = conversation(no_object.as_bytes()).unwrap_err().message;
        assert!(message.starts_with("The request body is not a valid JSON object") && !message.contains("secret"));
    }
}

#[test]
fn a_request_that_goes_up_as_it_is_is_checked_at_its_top() {
    let checked = |surface: Surface, body: &Value| {
        let texts: Vec<(String, String)> =
            body.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        surface.check(&|name| texts.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str()))
    };
    let count = json!({ "model": "m", "messages": [{}] });
    assert_eq!(checked(Surface::CountTokens, &count), Ok(()));
    let missing = checked(Surface::Messages, &count).unwrap_err();
    assert_eq!(
        (missing.message.as_str(), missing.param.as_deref()),
        ("max_tokens: Field required", Some("max_tokens"))
    );
    // Not checked by the gateway: ranges, unknown members, nulls.
    let odd =
        body(json!({ "temperature": 1.5, "top_k": null, "system": null, "tools": [7], "new": {}, "max_tokens": 9.0 }));
    assert_eq!(checked(Surface::Messages, &odd), Ok(()));
}

#[test]
fn errors_have_the_vendor_s_shape() {
    let attempts = json!([{ "upstream": "a/b" }]);
    let shape = |status| ErrorShape {
        status,
        kind: "invalid_request_error",
        code: "photofinish_timeout",
        message: "no",
        param: (status == 400).then_some("seed"),
        attempts: (status == 502).then_some(&attempts),
    };
    let table = [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ];
    for (status, name) in table {
        assert_eq!(error(&shape(status))["error"]["type"], name, "{status}");
    }
    let inner =
        json!({ "type": "invalid_request_error", "message": "no", "code": "photofinish_timeout", "param": "seed" });
    assert_eq!(error(&shape(400)), json!({ "type": "error", "error": inner }));
    assert_eq!(error(&shape(502))["error"]["attempts"], attempts);
    let event = SseEvent { raw: Surface::Messages.error_event(&shape(500)) };
    assert!(is_error_event(&event) && matches!(read(&event), photofinish_wire::stream::frame::Frame::Error { .. }));
}
