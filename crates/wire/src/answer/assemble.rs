//! Assembles a whole answer from a stream, for a client that did not ask to stream. Each surface has its own way.

use std::collections::BTreeMap;

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::json::numbers::parse;
use crate::json::surrogates::{HalfCharacters, words};
use crate::json::values::PutMember;
use crate::json::{InvalidJson, Json};
use crate::stream::sse::SseEvent;
use crate::translate::bounds::DEPTH_MAX;

/// Maximum choices of an assembled answer, as OpenAI limits `n`.
pub const CHOICES_MAX: usize = 128;
/// Maximum calls of a choice, and blocks or items of an answer. No model makes a tenth of this. In memory an item takes
/// a hundred times its size on the wire, so this bounds a hostile provider.
pub const ITEMS_MAX: usize = 4_096;

/// An answer being assembled. One for each stream.
pub trait Assemble: Send {
    /// Adds one event of the surface's own dialect. False if it cannot be read or exceeds a bound: then no whole answer
    /// can be made.
    fn add(&mut self, event: &SseEvent) -> bool;

    /// Adds an event that differs from the last one in the text of its payload alone, by this text. False, and nothing
    /// is added, if not only this text would grow: then the event must be added.
    fn add_text(&mut self, _text: &str) -> bool {
        false
    }

    /// The answer in the surface's form without `stream`. None if the arguments of a call cannot be parsed. Called
    /// once.
    fn finish(&mut self) -> Option<Whole>;
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// A JSON text.
    pub body: Bytes,
    /// The answer has no text, call, refusal or media: it is empty, white space, or only reasoning.
    pub says_nothing: bool,
}

impl Whole {
    pub fn new(answer: &Value, says_nothing: bool) -> Whole {
        // Writing bytes costs half of formatting a text. No value here can fail.
        Whole { body: Bytes::from(serde_json::to_vec(answer).unwrap_or_default()), says_nothing }
    }
}

/// Whether a text exists and is more than white space.
pub fn says(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// The value of a member whose text is kept.
pub(crate) fn read(text: &str) -> Option<Value> {
    parse(text.as_bytes()).ok()
}

/// Sets a member that no dialect knows. A list of numbers or texts comes in pieces; everything else comes whole.
pub(crate) fn grow_member(members: &mut Map<String, Value>, name: String, value: Value) {
    let is_plain = |item: &Value| !item.is_object() && !item.is_array();
    match (members.get_mut(&name), value) {
        (Some(Value::Array(before)), Value::Array(more)) if more.iter().all(is_plain) => before.extend(more),
        (_, value) => drop(members.insert(name, value)),
    }
}

/// Assembles chunks with choices, as OpenAI's chat and completions stream them.
#[derive(Debug, Default)]
pub struct ByChoice<C> {
    /// Top-level members without `choices`, in order of first occurrence, as JSON texts. Nearly all come again with every
    /// chunk, so none is parsed before the end.
    members: IndexMap<String, String>,
    /// By `index`.
    choices: BTreeMap<u64, C>,
    /// The choice of the last event, if it had one.
    last: Option<u64>,
    halves: HalfCharacters,
}

/// A choice being assembled.
pub trait AssembledChoice: Default {
    /// The `object` of the whole answer.
    const OBJECT: &str;

    /// Adds a choice of one chunk: its members as JSON texts, without those that are null. False if it cannot be read or
    /// exceeds a bound.
    fn add(&mut self, members: &[(&str, &str)]) -> bool;

    /// See [`Assemble::add_text`].
    fn add_text(&mut self, _text: &str) -> bool {
        false
    }

    fn finish(self, index: u64) -> Value;

    /// Whether a finished choice has content.
    fn says(choice: &Value) -> bool;
}

impl<C: AssembledChoice + Send> Assemble for ByChoice<C> {
    fn add(&mut self, event: &SseEvent) -> bool {
        match event.fields().data {
            Some(data) if data.trim_ascii() != b"[DONE]" && !data.trim_ascii().is_empty() => self.add_data(&data),
            _ => true,
        }
    }

    fn add_text(&mut self, text: &str) -> bool {
        let last = self.last.filter(|_| !self.halves.are_waiting());
        let choice = last.and_then(|index| self.choices.get_mut(&index));
        choice.is_some_and(|choice| choice.add_text(text))
    }

    fn finish(&mut self) -> Option<Whole> {
        let answer = std::mem::take(self).answer();
        let choices = answer.get("choices").and_then(Value::as_array);
        let says_nothing = !choices.into_iter().flatten().any(C::says);
        Some(Whole::new(&answer, says_nothing))
    }
}

impl<C: AssembledChoice> ByChoice<C> {
    /// Adds the data of one event. False if it cannot be read.
    pub(crate) fn add_data(&mut self, data: &[u8]) -> bool {
        let data = self.halves.joined(data);
        let Ok(text) = std::str::from_utf8(&data) else { return false };
        let (mut taken, mut choices) = (true, 0);
        self.last = None;
        let walked = Json::nested(text, DEPTH_MAX).to_end(|name, json| {
            if name == "choices" {
                return json.list(|json| {
                    choices += 1;
                    taken &= self.add_choice(json)?;
                    Ok(())
                });
            }
            if let Some(value) = json.some()? {
                self.add_member(name, value);
            }
            Ok(())
        });
        self.last = self.last.filter(|_| choices == 1);
        taken && walked.is_ok()
    }

    pub(crate) fn answer(mut self) -> Value {
        let mut member = |name: &str| self.members.shift_remove(name).and_then(|value| read(&value));
        let mut answer = Map::new();
        answer.put("id", member("id"));
        answer.put("object", Some(C::OBJECT));
        answer.put("created", member("created"));
        answer.put("model", member("model"));
        let usage = member("usage");
        let choices: Value = self.choices.into_iter().map(|(index, choice)| choice.finish(index)).collect();
        answer.put("choices", Some(choices));
        answer.put("usage", usage);
        for (name, value) in self.members {
            answer.put(&words(&name), read(&value));
        }
        Value::Object(answer)
    }

    fn add_member(&mut self, name: &str, value: &str) {
        match (name, self.members.get_mut(name)) {
            // Padding fills an event, not an answer.
            ("object" | "obfuscation", _) => {}
            // Some vendors give every chunk its own id. The first one names the answer.
            ("id" | "created" | "model", Some(_)) => {}
            (_, Some(before)) if before == value => {}
            (_, Some(before)) => value.clone_into(before),
            (_, None) => drop(self.members.insert(name.to_owned(), value.to_owned())),
        }
    }

    /// Adds a choice of one chunk. False if it cannot be taken.
    fn add_choice(&mut self, json: &mut Json<'_>) -> Result<bool, InvalidJson> {
        if json.peek() != Some(b'{') {
            return json.skip().map(|_| true);
        }
        let (mut index, mut members) = (0, Vec::with_capacity(4));
        json.object(|name, json| {
            match (name, json.some()?) {
                ("index", value) => index = value.and_then(|value| value.parse().ok()).unwrap_or(0),
                (_, Some(value)) => members.push((name, value)),
                (_, None) => {}
            }
            Ok(())
        })?;
        if self.choices.len() >= CHOICES_MAX && !self.choices.contains_key(&index) {
            return Ok(false);
        }
        self.last = Some(index);
        Ok(self.choices.entry(index).or_default().add(&members))
    }
}
