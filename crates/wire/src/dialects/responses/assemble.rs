//! Assembles a whole Responses answer from a stream.
//!
//! The last event has the whole answer. If its output is missing, the finished items before it are the output.

use serde_json::Value;

use super::SseEvent;
use super::output::sound_part;
use super::wire::ResponsesWire;
use crate::answer::assemble::{Assemble, ITEMS_MAX, Whole, says};
use crate::json::surrogates::{lenient, words};
use crate::json::values::json;
use crate::stream::event_reader::{EventData, data_of};

/// Takes in the events of one stream.
#[derive(Debug, Default)]
pub struct ResponseAssembly {
    /// The response object of the last event that had one.
    response: Value,
    /// Finished items, by `output_index`.
    items: Vec<(u64, Value)>,
    /// Audio data and its transcript. The items of some servers do not contain them.
    sound: [String; 2],
    /// Which of them the last event made longer.
    growing: Option<usize>,
}

/// Events with a delta of audio data, and of its transcript.
const SOUNDS: [[&str; 2]; 2] = [
    ["response.audio.delta", "response.output_audio.delta"],
    ["response.audio.transcript.delta", "response.output_audio_transcript.delta"],
];

impl Assemble for ResponseAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        let EventData::Json { data, name } = data_of(event) else { return true };
        // Deltas of texts are not parsed, so their content need not be valid.
        let Some(wire) = std::str::from_utf8(&data).ok().and_then(|text| ResponsesWire::read(text, name).ok()) else {
            return false;
        };
        self.growing = SOUNDS.iter().position(|kinds| kinds.contains(&wire.kind));
        if self.growing.is_some() {
            return self.add_text(&wire.delta.map(words).unwrap_or_default());
        }
        let value = |text: Option<&str>| text.map(|text| lenient(text.as_bytes()).ok_or(())).transpose();
        match wire.kind {
            "response.output_item.done" => {
                let Ok(item) = value(wire.item) else { return false };
                let index = wire.output_index.unwrap_or(self.items.len() as u64);
                self.items.extend(item.map(|item| (index, item)));
                return self.items.len() <= ITEMS_MAX;
            }
            _ => match value(wire.response) {
                Ok(response) => self.response = response.unwrap_or(std::mem::take(&mut self.response)),
                Err(_) => return false,
            },
        }
        true
    }

    /// Other deltas than those of audio are not kept.
    fn add_text(&mut self, text: &str) -> bool {
        if let Some(sound) = self.growing.and_then(|at| self.sound.get_mut(at)) {
            sound.push_str(text);
        }
        true
    }

    fn finish(&mut self) -> Option<Whole> {
        let ResponseAssembly { mut response, mut items, sound: [data, transcript], .. } = std::mem::take(self);
        if !response.is_object() {
            response = json!({ "object": "response" });
        }
        if response["output"].as_array().is_none_or(Vec::is_empty) {
            items.sort_by_key(|(index, _)| *index);
            response["output"] = items.into_iter().map(|(_, item)| item).collect();
        }
        if let Value::Array(output) = &mut response["output"]
            && !(data.is_empty() && transcript.is_empty() || output.iter().any(has_sound))
        {
            output.push(json!({
                "id": "msg_audio", "type": "message", "status": "completed", "role": "assistant",
                "content": [(sound_part(&data, &transcript))],
            }));
        }
        let says_nothing = !response["output"].as_array().into_iter().flatten().any(item_says);
        Some(Whole::new(&response, says_nothing))
    }
}

fn has_sound(item: &Value) -> bool {
    item["content"].as_array().into_iter().flatten().any(|part| part["type"] == "output_audio")
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
