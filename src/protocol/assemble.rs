//! Assembles a whole answer from a stream, for a client that did not ask to stream. Each surface has its own way.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::sse::SseEvent;
use super::surrogates::lenient;
use super::values::PutMember;

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
        Whole { body: Bytes::from(answer.to_string()), says_nothing }
    }
}

/// Whether a text exists and is more than white space.
pub fn says(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Assembles chunks with choices, as OpenAI's chat and completions stream them.
#[derive(Debug, Default)]
pub struct ByChoice<C> {
    /// Top-level members in order of first occurrence, without `choices` and `usage`.
    members: Map<String, Value>,
    /// By `index`.
    choices: BTreeMap<u64, C>,
    usage: Option<Value>,
}

/// A choice being assembled.
pub trait AssembledChoice: Default {
    /// The `object` of the whole answer.
    const OBJECT: &str;

    /// Adds the members of a choice of one chunk. False if it exceeds a bound.
    fn add(&mut self, members: Map<String, Value>) -> bool;

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

    fn finish(&mut self) -> Option<Whole> {
        let answer = std::mem::take(self).answer();
        let choices = answer.get("choices").and_then(Value::as_array);
        let says_nothing = !choices.into_iter().flatten().any(C::says);
        Some(Whole::new(&answer, says_nothing))
    }
}

impl<C: AssembledChoice> ByChoice<C> {
    /// Adds the data of one event. False if it cannot be read.
    pub(super) fn add_data(&mut self, data: &[u8]) -> bool {
        let chunk = match lenient(data) {
            Some(Value::Object(chunk)) => chunk,
            Some(_) => return true,
            None => return false,
        };
        let mut taken = true;
        for (name, value) in chunk {
            match (name.as_str(), value) {
                ("choices", Value::Array(choices)) => {
                    for choice in choices {
                        taken &= self.add_choice(choice);
                    }
                }
                ("choices" | "object", _) | (_, Value::Null) => {}
                ("usage", usage) => self.usage = Some(usage),
                // Some vendors give every chunk its own id. The first one names the answer.
                ("id" | "created" | "model", value) => {
                    self.members.entry(name).or_insert(value);
                }
                (_, value) => {
                    self.members.insert(name, value);
                }
            }
        }
        taken
    }

    pub(super) fn answer(mut self) -> Value {
        let mut answer = Map::new();
        answer.put("id", self.members.shift_remove("id"));
        answer.put("object", Some(C::OBJECT));
        answer.put("created", self.members.shift_remove("created"));
        answer.put("model", self.members.shift_remove("model"));
        let choices: Value = self.choices.into_iter().map(|(index, choice)| choice.finish(index)).collect();
        answer.put("choices", Some(choices));
        answer.put("usage", self.usage);
        answer.extend(self.members);
        Value::Object(answer)
    }

    fn add_choice(&mut self, choice: Value) -> bool {
        let Value::Object(members) = choice else { return true };
        let index = members.get("index").and_then(Value::as_u64).unwrap_or(0);
        if self.choices.len() >= CHOICES_MAX && !self.choices.contains_key(&index) {
            return false;
        }
        self.choices.entry(index).or_default().add(members)
    }
}
