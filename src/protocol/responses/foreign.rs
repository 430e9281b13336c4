//! A Responses request that goes to its own vendor untouched, but for the reasoning that the vendor did not encrypt and so
//! would refuse.

use serde_json::Value;

use crate::protocol::neutral::signature::{cleaned, marks};

/// The request without reasoning that others made. None if there is none.
pub fn without_foreign(body: &[u8]) -> Option<Vec<u8>> {
    cleaned(body, |request| {
        let Some(items) = request.get_mut("input").and_then(Value::as_array_mut) else { return false };
        let before = items.len();
        items.retain(|item| item["type"] != "reasoning" || !marks(item, &["encrypted_content"]));
        items.len() < before
    })
}
