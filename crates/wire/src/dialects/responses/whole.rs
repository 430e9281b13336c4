//! Turns a whole Responses answer into stream events, for servers that ignore `stream`.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::answer::assemble::{Assemble, ITEMS_MAX, Whole, says};
use crate::dialects::responses::SseEvent;
use crate::dialects::responses::read::ResponsesWire;
use crate::dialects::responses::writer::{Numbered, sound_part};
use crate::json::surrogates::{lenient, words};
use crate::json::values::{answer, json};
use crate::stream::event_reader::{EventData, data_of};
use photofinish_base::order::StableSort as _;

/// Creation, each item with its text in one delta, and the end with the original response. None if the body is not a
/// response.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let response = answer(body)?;
    let output = response.get("output")?.as_array()?.clone();
    let mut events = Events::default();
    let mut created = response.clone();
    for (name, value) in [("status", json!("in_progress")), ("output", json!([])), ("usage", Value::Null)] {
        created.insert(name.to_owned(), value);
    }
    events.emit("response.created", json!({ "response": created }));
    for (index, item) in output.iter().enumerate() {
        events.item(index, item);
    }
    let ended = match response.get("status").and_then(Value::as_str) {
        Some("incomplete") => "response.incomplete",
        Some("failed" | "cancelled") => return None,
        _ => "response.completed",
    };
    events.emit(ended, json!({ "response": response }));
    Some(events.out.freeze())
}

#[derive(Default)]
struct Events {
    out: BytesMut,
    numbered: Numbered,
}

impl Events {
    fn emit(&mut self, kind: &str, members: Value) {
        self.numbered.emit(kind, members, &mut self.out);
    }

    fn item(&mut self, index: usize, item: &Value) {
        let kind = item["type"].as_str().unwrap_or_default();
        // The item begins without the content of its deltas.
        let mut begun = item.clone();
        for (name, empty) in [
            ("content", json!([])),
            ("summary", json!([])),
            ("arguments", json!("")),
            ("input", json!("")),
            ("result", Value::Null),
        ] {
            if let Some(value) = begun.get_mut(name).filter(|value| !value.is_object()) {
                *value = empty;
            }
        }
        if begun.get("status").is_some() {
            begun["status"] = Value::from("in_progress");
        }
        self.emit("response.output_item.added", json!({ "output_index": index, "item": begun }));
        let id = item["id"].clone();
        match kind {
            "function_call" => self.text(
                "response.function_call_arguments",
                "arguments",
                &item["arguments"],
                json!({ "item_id": id, "output_index": index, "name": item["name"] }),
            ),
            "custom_tool_call" => self.text(
                "response.custom_tool_call_input",
                "input",
                &item["input"],
                json!({ "item_id": id, "output_index": index }),
            ),
            _ => {
                self.parts(index, &id, &item["summary"], "summary_index");
                self.parts(index, &id, &item["content"], "content_index");
            }
        }
        self.emit("response.output_item.done", json!({ "output_index": index, "item": item }));
    }

    fn parts(&mut self, index: usize, id: &Value, parts: &Value, counter: &str) {
        for (at, part) in parts.as_array().into_iter().flatten().enumerate() {
            let (kind, member) = match part["type"].as_str() {
                Some("output_audio") => {
                    self.sound(part);
                    continue;
                }
                Some("output_text") => ("response.output_text", "text"),
                Some("refusal") => ("response.refusal", "refusal"),
                Some("summary_text") => ("response.reasoning_summary_text", "text"),
                Some("reasoning_text") => ("response.reasoning_text", "text"),
                _ => continue,
            };
            let around = if counter == "summary_index" { "reasoning_summary_part" } else { "content_part" };
            let mut place = json!({ "item_id": id, "output_index": index, counter: at });
            let mut begun = part.clone();
            begun[member] = Value::from("");
            let with = |part: Value| {
                let mut members = place.clone();
                members["part"] = part;
                members
            };
            let (begun, whole) = (with(begun), with(part.clone()));
            self.emit(&format!("response.{around}.added"), begun);
            if kind == "response.output_text" {
                place["logprobs"] = json!([]);
            }
            self.text(kind, member, &part[member], place);
            self.emit(&format!("response.{around}.done"), whole);
        }
    }

    /// The vendor's events for audio name no item.
    fn sound(&mut self, part: &Value) {
        for (member, kind) in [("data", "response.audio"), ("transcript", "response.audio.transcript")] {
            if part[member].as_str().is_some_and(|text| !text.is_empty()) {
                self.emit(&format!("{kind}.delta"), json!({ "delta": part[member] }));
                self.emit(&format!("{kind}.done"), json!({}));
            }
        }
    }

    /// A text in one delta, and its end.
    fn text(&mut self, kind: &str, member: &str, text: &Value, place: Value) {
        let with = |name: &str| {
            let mut members = place.clone();
            members[name] = text.clone();
            members
        };
        if text.as_str().is_some_and(|text| !text.is_empty()) {
            self.emit(&format!("{kind}.delta"), with("delta"));
        }
        self.emit(&format!("{kind}.done"), with(member));
    }
}

// Assembles a whole Responses answer from a stream.
//
// The last event has the whole answer. If its output is missing, the finished items before it are the output.

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
            items.stable_sort_by_key(|(index, _)| *index);
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
