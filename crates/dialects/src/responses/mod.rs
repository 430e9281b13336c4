//! The `responses` dialect: OpenAI's Responses API, for upstreams and for apps.
//!
//! [`read()`] is for the race. [`ResponsesReader`] and [`request()`] translate for upstreams, [`conversation()`] and [`ResponsesWriter`]
//! for apps.

mod conversation;
mod format;
pub mod frames;
mod read;
mod reader;
mod request;
pub mod stored;
mod whole;
mod writer;

use serde_json::Value;

use conversation::{COMPACTIONS, remembered};
pub use conversation::{check, conversation, own_names};
pub use format::ResponsesFormat;
pub use read::read;
pub use reader::ResponsesReader;
pub use request::request;
pub use whole::{ResponseWhole, events_of_whole};
pub use writer::{OpenMessage, ResponsesWriter, error_event, error_event_behind};

use photofinish_wire::client_error::{ErrorShape, Invalid};
use photofinish_wire::conversation::signature::{RemovedReasoning, cleaned};
use photofinish_wire::json::values::json;
use photofinish_wire::stream::event_reader::{EventData, data_of};
use photofinish_wire::stream::sse::SseEvent;

/// Whether every official client treats this event as an error and stops. The SDKs raise at `error`, which Codex
/// ignores; all support `response.failed`.
pub fn is_error_event(event: &SseEvent) -> bool {
    const FAILED: &str = "response.failed";
    let kind_is_failed = |data: &[u8]| {
        let wire = std::str::from_utf8(data).ok().and_then(|text| read::ResponsesWire::read(text, b"").ok());
        wire.is_some_and(|wire| wire.kind == FAILED)
    };
    event.fields().name == Some(FAILED.as_bytes())
        || matches!(data_of(event), EventData::Json { data, .. } if kind_is_failed(&data))
}

// Removes reasoning that OpenAI did not encrypt from a Responses request that is otherwise passed through. OpenAI
// would refuse it.

/// The request without other vendors' reasoning, or without any. None: it contained none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    cleaned(body, taken, |request| {
        let Some(items) = request.get_mut("input").and_then(Value::as_array_mut) else { return false };
        let remembers = items.iter_mut().map(remember).filter(|said| *said).count() > 0;
        let before = items.len();
        items.retain(|item| !is_reasoning(item) || !taken.takes(item, &["encrypted_content"]));
        let found = items.len() < before;
        if found && taken == RemovedReasoning::All {
            items.iter_mut().for_each(unname);
        }
        found || remembers && taken == RemovedReasoning::Foreign
    })
}

/// A short form that the gateway had made becomes what a user says: the vendor cannot open it.
fn remember(item: &mut Value) -> bool {
    let is_compaction = COMPACTIONS.iter().any(|kind| item["type"] == *kind);
    let text = item["encrypted_content"].as_str().filter(|_| is_compaction).and_then(remembered);
    let said = text.map(|text| json!({ "type": "message", "role": "user", "content": text }));
    said.map(|said| *item = said).is_some()
}

fn is_reasoning(item: &Value) -> bool {
    let is_reference =
        || item["type"] == "item_reference" && item["id"].as_str().is_some_and(|id| id.starts_with("rs_"));
    item["type"] == "reasoning" || is_reference()
}

/// Removes the item's id: with it, the vendor would notice that the reasoning before it is missing.
fn unname(item: &mut Value) {
    if let Some(members) = item.as_object_mut()
        && members.get("type").is_some_and(|kind| {
            ["message", "function_call", "custom_tool_call", "tool_search_call"].iter().any(|known| kind == known)
        })
    {
        members.shift_remove("id");
    }
}

#[cfg(test)]
mod tests;
