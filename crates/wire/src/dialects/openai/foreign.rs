//! Removes other vendors' signatures from a chat request that is otherwise passed through. A server may refuse them.

use serde_json::Value;

use super::parts::CALL_SIGNATURES;
use crate::translate::signature::{RemovedReasoning, cleaned};

/// The request without signatures of other dialects, or without any. None: it contained none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    cleaned(body, taken, |request| {
        let Some(messages) = request.get_mut("messages").and_then(Value::as_array_mut) else { return false };
        messages.iter_mut().fold(false, |found, message| clean(message, taken) | found)
    })
}

fn clean(message: &mut Value, taken: RemovedReasoning) -> bool {
    let mut found = false;
    for name in ["reasoning_details", "thinking_blocks", "content"] {
        let Some(Value::Array(entries)) = message.get_mut(name) else { continue };
        let before = entries.len();
        entries.retain(|entry| !goes(name, entry, taken));
        if entries.len() == before {
            continue;
        }
        found = true;
        // Content is required, and an empty list is refused.
        match message.as_object_mut() {
            Some(members) if members[name] == Value::Array(Vec::new()) => match name {
                "content" => drop(members.insert(name.to_owned(), Value::from(""))),
                _ => drop(members.shift_remove(name)),
            },
            _ => {}
        }
    }
    for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        found |= clean_call(call, taken);
    }
    found
}

fn goes(name: &str, entry: &Value, taken: RemovedReasoning) -> bool {
    let thinks = |entry: &Value| matches!(entry["type"].as_str(), Some("thinking" | "redacted_thinking"));
    (name != "content" || thinks(entry)) && taken.takes(entry, &["signature", "data"])
}

/// A member that contains only the signature is removed too.
fn clean_call(call: &mut Value, taken: RemovedReasoning) -> bool {
    let mut found = false;
    for (member, path) in CALL_SIGNATURES {
        let pointer = format!("/{member}{path}");
        if call.pointer(&pointer).and_then(Value::as_str).is_some_and(|text| taken.takes_signature(text)) {
            found = true;
            remove(call, &pointer);
        }
    }
    found
}

/// Removes a member, and enclosing objects that become empty.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let Some(Value::Object(members)) = value.pointer_mut(parent) else { return };
    members.shift_remove(name);
    if members.is_empty() && !parent.is_empty() {
        remove(value, parent);
    }
}
