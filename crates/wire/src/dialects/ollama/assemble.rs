//! Assembles a whole answer of `/api/chat` or `/api/generate` from its lines, as the vendor gives it with
//! `"stream": false`.

use serde_json::{Map, Value};

use super::data;
use crate::answer::assemble::{Assemble, ITEMS_MAX, Whole, says};
use crate::json::numbers::parse;
use crate::json::surrogates::HalfCharacters;
use crate::stream::sse::SseEvent;

/// The lines so far.
#[derive(Debug, Default)]
pub struct OllamaAssembly {
    /// Top-level members. Texts and lists grow; of others the last value counts.
    line: Map<String, Value>,
    /// Items of lists in it.
    items: usize,
    halves: HalfCharacters,
}

impl Assemble for OllamaAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        let data = data(event);
        if data.is_empty() {
            return true;
        }
        let Ok(Value::Object(line)) = parse(&self.halves.joined(data)) else { return false };
        for (name, value) in line {
            match (name.as_str(), value) {
                ("message", Value::Object(message)) => {
                    let whole = self.line.entry(name).or_insert_with(|| Value::Object(Map::new()));
                    if let Value::Object(whole) = whole {
                        message.into_iter().for_each(|(name, value)| grow(whole, &mut self.items, name, value));
                    }
                }
                (_, value) => grow(&mut self.line, &mut self.items, name, value),
            }
        }
        self.items <= ITEMS_MAX
    }

    fn finish(&mut self) -> Option<Whole> {
        let answer = Value::Object(std::mem::take(&mut self.line));
        // `/api/generate` has these members at the top level.
        let message = answer.get("message").unwrap_or(&answer);
        let has = |name: &str| message[name].as_array().is_some_and(|items| !items.is_empty());
        let says_something = says(&message["content"])
            || says(&message["response"])
            || has("tool_calls")
            || has("images")
            || message["image"].is_string();
        Some(Whole::new(&answer, !says_something))
    }
}

/// Members whose texts continue from line to line.
const TEXTS: [&str; 3] = ["content", "thinking", "response"];

fn grow(whole: &mut Map<String, Value>, items: &mut usize, name: String, value: Value) {
    match (whole.get_mut(&name), value) {
        (Some(Value::String(before)), Value::String(more)) if TEXTS.contains(&name.as_str()) => before.push_str(&more),
        (Some(Value::Array(before)), Value::Array(more)) => {
            *items += more.len();
            before.extend(more);
        }
        (_, value) => {
            *items += value.as_array().map_or(0, Vec::len);
            whole.insert(name, value);
        }
    }
}
