//! What a request of the Responses API says of earlier answers. Not for the request with their items: see `recalled`.

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::{Dialect, Surface};

/// The members that name earlier state, and what is to become of the answer.
#[derive(Clone, Default)]
pub struct StateUse {
    /// `previous_response_id`
    pub previous: Option<String>,
    /// The id in `conversation`.
    pub conversation: Option<String>,
    /// The input may name items of earlier answers.
    pub refers: bool,
    /// `store` is false.
    pub unstored: bool,
    pub background: bool,
    /// Members of a translated answer that differ from those of the request: its earlier state was put into the input.
    pub echo: Map<String, Value>,
}

#[derive(Deserialize)]
struct ConversationReference {
    id: String,
}

impl StateUse {
    pub(super) fn take(&mut self, name: &str, value: &str) {
        match name {
            "previous_response_id" => self.previous = serde_json::from_str(value).ok(),
            "conversation" => {
                let of_object = || serde_json::from_str::<ConversationReference>(value).ok().map(|named| named.id);
                self.conversation = serde_json::from_str(value).ok().or_else(of_object);
            }
            "store" => self.unstored = value == "false",
            "background" => self.background = value == "true",
            _ => {}
        }
    }

    pub(super) fn look_at_input(&mut self, input: &[u8]) {
        self.refers = memmem::find(input, br#""item_reference""#).is_some();
    }
}

/// Adds items to a list that has no brackets.
pub fn add(items: &mut Vec<u8>, more: &[u8]) {
    let more = more.trim_ascii();
    if !items.is_empty() && !more.is_empty() {
        items.push(b',');
    }
    items.extend_from_slice(more);
}

/// Whether requests of this surface may name earlier state.
pub(super) fn has_state(surface: Surface) -> bool {
    surface.dialect() == Dialect::Responses
}
