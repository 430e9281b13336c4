//! Removes reasoning that OpenAI did not encrypt from a Responses request that is otherwise passed through. OpenAI
//! would refuse it.

use serde_json::Value;

use crate::translate::signature::{RemovedReasoning, cleaned};

/// The request without other vendors' reasoning, or without any. None: it contained none.
pub fn without_reasoning(body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
    cleaned(body, taken, |request| {
        let Some(items) = request.get_mut("input").and_then(Value::as_array_mut) else { return false };
        let before = items.len();
        items.retain(|item| !is_reasoning(item) || !taken.takes(item, &["encrypted_content"]));
        let found = items.len() < before;
        if found && taken == RemovedReasoning::All {
            items.iter_mut().for_each(unname);
        }
        found
    })
}

fn is_reasoning(item: &Value) -> bool {
    let is_reference =
        || item["type"] == "item_reference" && item["id"].as_str().is_some_and(|id| id.starts_with("rs_"));
    item["type"] == "reasoning" || is_reference()
}

/// Removes the item's id: with it, the vendor would notice that the reasoning before it is missing.
fn unname(item: &mut Value) {
    if let Some(members) = item.as_object_mut()
        && members
            .get("type")
            .is_some_and(|kind| kind == "message" || kind == "function_call" || kind == "custom_tool_call")
    {
        members.shift_remove("id");
    }
}
