//! The `anthropic` dialect, and the Messages surface: reads its events, reads and writes its requests, writes its
//! answers and its errors.
//!
//! Not for choosing the request to an upstream: a Messages request goes to an Anthropic upstream unchanged.

mod assemble;
mod blocks;
mod check;
mod content;
mod conversation;
mod foreign;
mod members;
mod payload;
mod reader;
mod request;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use assemble::MessageAssembly;
pub use check::check;
pub use conversation::conversation;
pub use foreign::without_reasoning;
pub use payload::read;
pub use reader::AnthropicReader;
pub use request::request;
pub use whole::events_of_whole;
pub use writer::AnthropicWriter;

use crate::client_error::ErrorShape;
use crate::json::values::PutMember;
use crate::stream::sse::SseEvent;

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
