//! Assembles a whole Responses answer from a stream.
//!
//! The last event has the whole answer. If its output is missing, the finished items before it are the output.

use serde_json::Value;

use super::SseEvent;
use super::wire::ResponsesWire;
use crate::protocol::assemble::{Assemble, ITEMS_MAX, Whole, says};
use crate::protocol::event_reader::{EventData, data_of};
use crate::protocol::surrogates::lenient;
use crate::protocol::values::json;

/// Takes in the events of one stream.
#[derive(Debug, Default)]
pub struct ResponseAssembly {
    /// The response object of the last event that had one.
    response: Value,
    /// Finished items, by `output_index`.
    items: Vec<(u64, Value)>,
    /// Audio was received. No item contains it.
    sounds: bool,
}

impl Assemble for ResponseAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        let EventData::Json { data, name } = data_of(event) else { return true };
        // Deltas are not parsed, so their content need not be valid.
        let Some(wire) = std::str::from_utf8(&data).ok().and_then(|text| ResponsesWire::read(text, name).ok()) else {
            return false;
        };
        let value = |text: Option<&str>| text.map(|text| lenient(text.as_bytes()).ok_or(())).transpose();
        match wire.kind {
            "response.output_item.done" => {
                let Ok(item) = value(wire.item) else { return false };
                let index = wire.output_index.unwrap_or(self.items.len() as u64);
                self.items.extend(item.map(|item| (index, item)));
                return self.items.len() <= ITEMS_MAX;
            }
            "response.audio.delta" | "response.output_audio.delta" => self.sounds = true,
            _ => match value(wire.response) {
                Ok(response) => self.response = response.unwrap_or(std::mem::take(&mut self.response)),
                Err(_) => return false,
            },
        }
        true
    }

    /// Deltas are not kept.
    fn add_text(&mut self, _text: &str) -> bool {
        true
    }

    fn finish(&mut self) -> Option<Whole> {
        let ResponseAssembly { mut response, mut items, sounds } = std::mem::take(self);
        if !response.is_object() {
            response = json!({ "object": "response" });
        }
        if response["output"].as_array().is_none_or(Vec::is_empty) {
            items.sort_by_key(|(index, _)| *index);
            response["output"] = items.into_iter().map(|(_, item)| item).collect();
        }
        let says_nothing = !sounds && !response["output"].as_array().into_iter().flatten().any(item_says);
        Some(Whole::new(&response, says_nothing))
    }
}

/// All items but messages and reasoning are calls or their results.
fn item_says(item: &Value) -> bool {
    match item["type"].as_str() {
        Some("reasoning") => false,
        Some("message") => item["content"].as_array().into_iter().flatten().any(part_says),
        _ => true,
    }
}

fn part_says(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("output_text") => says(&part["text"]),
        Some("refusal") => says(&part["refusal"]),
        _ => true,
    }
}
