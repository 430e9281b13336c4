//! Assembles the whole answer of `generateContent` from the events of a stream.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::answer::assemble::{Assemble, CHOICES_MAX, ITEMS_MAX, Whole};
use crate::json::numbers::parse;
use crate::json::surrogates::HalfCharacters;
use crate::json::values::PutMember;
use crate::stream::sse::SseEvent;

/// The events so far.
#[derive(Debug, Default)]
pub struct GeminiAssembly {
    /// Top-level members, without the candidates. Of each the last value counts.
    members: Map<String, Value>,
    /// By `index`.
    candidates: BTreeMap<u64, AssembledCandidate>,
    /// Parts of all candidates.
    parts: usize,
    halves: HalfCharacters,
}

#[derive(Debug, Default)]
struct AssembledCandidate {
    parts: Vec<Value>,
    /// All other members.
    rest: Map<String, Value>,
}

impl Assemble for GeminiAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        let fields = event.fields();
        let Some(data) = fields.data.filter(|data| !data.trim_ascii().is_empty()) else { return true };
        let Ok(Value::Object(event)) = parse(&self.halves.joined(&data)) else {
            return data.trim_ascii() == b"[DONE]";
        };
        for (name, value) in event {
            match (name.as_str(), value) {
                ("candidates", Value::Array(candidates)) => {
                    for candidate in candidates {
                        self.candidate(candidate);
                    }
                }
                (_, Value::Null) => {}
                (_, value) => {
                    self.members.insert(name, value);
                }
            }
        }
        self.parts <= ITEMS_MAX && self.candidates.len() <= CHOICES_MAX
    }

    fn finish(&mut self) -> Option<Whole> {
        let candidates = std::mem::take(&mut self.candidates);
        let says_nothing = !candidates.values().flat_map(|candidate| &candidate.parts).any(says);
        let mut answer = Map::new();
        answer.put("candidates", Some(candidates.into_iter().map(AssembledCandidate::finish).collect::<Vec<Value>>()));
        answer.extend(std::mem::take(&mut self.members));
        Some(Whole::new(&Value::Object(answer), says_nothing))
    }
}

impl GeminiAssembly {
    fn candidate(&mut self, candidate: Value) {
        let Value::Object(members) = candidate else { return };
        let index = members.get("index").and_then(Value::as_u64).unwrap_or(0);
        let whole = self.candidates.entry(index).or_default();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("content", Value::Object(mut content)) => {
                    if let Some(Value::Array(parts)) = content.shift_remove("parts") {
                        self.parts += parts.len();
                        parts.into_iter().for_each(|part| whole.part(part));
                    }
                }
                ("content" | "index", _) | (_, Value::Null) => {}
                (_, value) => {
                    whole.rest.insert(name, value);
                }
            }
        }
    }
}

impl AssembledCandidate {
    /// Adds a part. A text continues the text before it if both are thoughts or both are not, and nothing is signed.
    fn part(&mut self, part: Value) {
        let is_plain = |part: &Value| {
            let members = part.as_object();
            members.is_some_and(|members| members.keys().all(|name| ["text", "thought"].contains(&name.as_str())))
        };
        let Some(text) = part.get("text").and_then(Value::as_str).filter(|_| is_plain(&part)) else {
            return self.parts.push(part);
        };
        let before = self.parts.last_mut().filter(|before| is_plain(before) && before["thought"] == part["thought"]);
        match before.and_then(|before| before.get_mut("text")) {
            Some(Value::String(before)) => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(part),
        }
    }

    fn finish((index, candidate): (u64, AssembledCandidate)) -> Value {
        let mut finished = Map::new();
        let mut content = Map::new();
        content.put("parts", Some(candidate.parts));
        content.put("role", Some("model"));
        finished.put("content", Some(content));
        // Some servers send no finish reason. The stream was accepted as complete.
        finished.put("finishReason", Some("STOP"));
        finished.put("index", Some(index));
        finished.extend(candidate.rest);
        Value::Object(finished)
    }
}

/// Text that is no thought, a call, media or code.
fn says(part: &Value) -> bool {
    let has_text = part["text"].as_str().is_some_and(|text| !text.trim().is_empty());
    let has_other = ["functionCall", "inlineData", "fileData", "executableCode", "codeExecutionResult"];
    part["thought"] != true && (has_text || has_other.iter().any(|name| part[*name].is_object()))
}
