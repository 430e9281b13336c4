//! Turns a whole Responses answer into stream events, for servers that ignore `stream`, and a stream into a whole answer.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::responses::read::ResponsesWire;
use crate::responses::writer::{Numbered, sound_part};
use photofinish_wire::answer::growing::{Growing, GrowingForm, GrownAnswer, ITEMS_MAX, MemberPlace, Rule, Whole, says};
use photofinish_wire::json::values::{answer, json};

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
        Some("failed" | "cancelled" | "queued" | "in_progress") => return None,
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

// The whole answer from its stream. The last event has it. If its output is missing, the finished items before it are the
// output.

/// How the answer grows.
pub struct ResponseWhole;

/// Events with a delta of audio data, and of its transcript. The items of some servers do not contain them.
const SOUNDS: [(&str, [&str; 2]); 2] = [
    ("data", ["response.audio.delta", "response.output_audio.delta"]),
    ("transcript", ["response.audio.transcript.delta", "response.output_audio_transcript.delta"]),
];

impl GrowingForm for ResponseWhole {
    fn add(&mut self, text: &str, name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        // Deltas of texts are not parsed, so their content need not be valid.
        let wire = ResponsesWire::read(text, name).ok()?;
        let sound = SOUNDS.iter().find(|(_, kinds)| kinds.contains(&wire.kind));
        match (sound, wire.kind, wire.item, wire.response) {
            (Some((name, _)), ..) => {
                answer.grow(MemberPlace::Answer, name, &format!("\"{}\"", wire.delta.unwrap_or_default()), Rule::Text)
            }
            (_, "response.output_item.done", Some(item), _) => {
                let next = answer.parts.len() as u64;
                let at = answer.part(next, ITEMS_MAX)?;
                answer.parts[at].index = wire.output_index.unwrap_or(next);
                answer.grow(MemberPlace::Part(at), "item", item, Rule::Last)
            }
            (.., Some(response)) => answer.grow(MemberPlace::Answer, "response", response, Rule::Last),
            _ => {
                answer.growing = Growing::LeftOut;
                Some(())
            }
        }
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        let items = answer.lay_out(|_, part| part.members.into_map().shift_remove("item"))?;
        let mut members = Value::Object(answer.members.into_map());
        let mut response = members["response"].take();
        if !response.is_object() {
            response = json!({ "object": "response" });
        }
        if response["output"].as_array().is_none_or(Vec::is_empty) {
            response["output"] = items.into();
        }
        let text = |name: &str| members[name].as_str().unwrap_or_default();
        let (data, transcript) = (text("data"), text("transcript"));
        let output = response["output"].as_array_mut()?;
        if !(data.is_empty() && transcript.is_empty() || output.iter().any(has_sound)) {
            output.push(json!({
                "id": "msg_audio", "type": "message", "status": "completed", "role": "assistant",
                "content": [(sound_part(data, transcript))],
            }));
        }
        let says_nothing = !output.iter().any(item_says);
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
        // Some servers write the text itself.
        Some("message") => says(&item["content"]) || item["content"].as_array().into_iter().flatten().any(part_says),
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
