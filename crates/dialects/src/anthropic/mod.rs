//! The `anthropic` dialect, and the Messages surface: reads its events, reads and writes its requests, writes its
//! answers and its errors.
//!
//! Not for choosing the request to an upstream: a Messages request goes to an Anthropic upstream unchanged.

mod conversation;
mod format;
mod payload;
mod reader;
mod request;
mod whole;
mod writer;

use serde_json::{Value, json};

pub use conversation::{check, conversation};
pub use format::AnthropicFormat;
pub use payload::read;
pub use reader::AnthropicReader;
pub use request::request;
pub use whole::{MessageWhole, events_of_whole};
pub use writer::AnthropicWriter;

use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::signature::{RemovedReasoning, cleaned};
use photofinish_wire::json::values::PutMember;
use photofinish_wire::stream::sse::SseEvent;

/// Whether the official client treats this event as an error. It goes by the event's name.
pub fn is_error_event(event: &SseEvent) -> bool {
    event.fields().name == Some(b"error")
}

/// An error in the vendor's shape. The status decides its `type`; the gateway's `code` is an extra member.
pub fn error(error: &ErrorShape<'_>) -> Value {
    let mut shape = json!({ "type": error_type(error.status), "message": error.message, "code": error.code });
    shape.put("param", error.param);
    shape.put("attempts", error.attempts.cloned());
    json!({ "type": "error", "error": shape })
}

fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        408 | 504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

// Removes reasoning that Anthropic did not sign from a Messages request that is otherwise passed through. Anthropic
// would refuse it.

/// The request without other vendors' signed reasoning, or without any reasoning. None: it contained none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    cleaned(body, taken, |request| {
        let Some(messages) = request.get_mut("messages").and_then(Value::as_array_mut) else { return false };
        let mut found = false;
        messages.retain_mut(|message| {
            let Some(Value::Array(blocks)) = message.get_mut("content") else { return true };
            let before = blocks.len();
            blocks.retain(|block| !goes(block, taken));
            found |= blocks.len() < before;
            blocks.len() == before || !blocks.is_empty()
        });
        if found && calls_without_thoughts(messages) && has_budget(request) {
            stop_thinking(request);
        }
        found
    })
}

fn goes(block: &Value, taken: RemovedReasoning) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("thinking") => taken.takes(block, &["signature"]),
        Some("redacted_thinking") => taken.takes(block, &["data"]),
        _ => false,
    }
}

/// True if the last assistant turn calls a tool and does not begin with a thought. Anthropic then refuses to continue
/// with a thinking budget.
fn calls_without_thoughts(messages: &[Value]) -> bool {
    let last = messages.iter().rfind(|message| message["role"] == "assistant");
    let Some(blocks) = last.and_then(|message| message["content"].as_array()) else { return false };
    let kind = |block: &Value| block["type"].as_str().unwrap_or_default().to_owned();
    blocks.iter().any(|block| kind(block) == "tool_use")
        && blocks.first().is_some_and(|block| !kind(block).ends_with("thinking"))
}

fn stop_thinking(request: &mut Value) {
    // Rules about thoughts are refused when there are none.
    if let Some(Value::Array(edits)) = request.pointer_mut("/context_management/edits") {
        edits.retain(|edit| !edit["type"].as_str().is_some_and(|kind| kind.starts_with("clear_thinking")));
    }
    if let Some(members) = request.as_object_mut() {
        members.shift_remove("thinking");
    }
}

fn has_budget(request: &Value) -> bool {
    request["thinking"]["type"] == "enabled"
}

#[cfg(test)]
mod tests;
