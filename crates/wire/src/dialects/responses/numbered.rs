//! Writes the events of a Responses stream with their sequence numbers.

use crate::json::values::json;
use std::fmt::Write;

use bytes::BytesMut;
use serde_json::Value;

/// Writes events and counts them.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    /// Number of the next event.
    next: u64,
}

impl Numbered {
    /// Continues after an event with this number.
    pub fn behind(number: u64) -> Numbered {
        Numbered { next: number.saturating_add(1) }
    }

    /// Writes one event. `members` follow its type and number.
    pub fn emit(&mut self, kind: &str, members: Value, out: &mut BytesMut) {
        let mut event = json!({ "type": kind, "sequence_number": self.next });
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.next += 1;
        // Writing into memory cannot fail.
        let _ = write!(out, "event: {kind}\ndata: {event}\n\n");
    }

    /// Writes a delta. Written for every token, so it builds no JSON tree. `place` is JSON text of more members.
    pub fn delta(&mut self, kind: &str, id: &str, index: usize, place: &str, text: &str, out: &mut BytesMut) {
        let comma = if place.is_empty() { "" } else { "," };
        let number = self.next;
        self.next += 1;
        let text = Value::from(text);
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},\"item_id\":\"{id}\",\
             \"output_index\":{index},{place}{comma}\"delta\":{text}}}\n\n"
        );
    }
}
