//! Names of tools that a vendor takes, for those of a request that are too long for it or have other characters, and back. Not for
//! which vendor takes which: see `quirks`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::call_ids::{fitted, suffixed};
use super::outgoing::called_names;
use super::{Conversation, MessagePart, ToolChoice};
use crate::json::numbers::parse;
use crate::json::values::json;
use crate::stream::sse::SseEvent;

/// The names of one request that go up as others. Which name becomes which depends on nothing but the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    sent: HashMap<String, String>,
    asked: HashMap<String, String>,
}

/// Whether a vendor that takes names of at most this number of bytes takes this one.
pub fn fits(name: &str, most: usize) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name.len() <= most && name.bytes().all(is_taken)
}

impl ToolNames {
    /// Other names for those that do not fit. None: all fit.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> Option<ToolNames> {
        let (mut taken, mut unfit) = (HashSet::new(), Vec::new());
        for name in names {
            if fits(name, most) {
                taken.insert(name.to_owned());
            } else if !unfit.contains(&name) {
                unfit.push(name);
            }
        }
        let mut made = ToolNames::default();
        for name in unfit {
            let base = fitted(name, most);
            let others = (1..).map(|number| suffixed(&base, number, most));
            let other = std::iter::once(base.clone()).chain(others).find(|other| taken.insert(other.clone()))?;
            made.asked.insert(other.clone(), name.to_owned());
            made.sent.insert(name.to_owned(), other);
        }
        (!made.sent.is_empty()).then_some(made)
    }

    /// The conversation with the names that go up. None: all fit.
    pub fn fit(conversation: &Conversation, most: usize) -> Option<(Conversation, ToolNames)> {
        let declared = conversation.tools.iter().map(|tool| tool.name.as_str());
        let names = ToolNames::of(declared.chain(called_names(conversation)), most)?;
        let mut fitted = conversation.clone();
        let tools = fitted.tools.iter_mut().map(|tool| &mut tool.name);
        let parts = fitted.turns.iter_mut().flat_map(|turn| &mut turn.parts).filter_map(|part| match part {
            MessagePart::Call(call) => Some(&mut call.name),
            MessagePart::Result(result) => result.name.as_mut(),
            _ => None,
        });
        let chosen = fitted.tool_choice.iter_mut().filter_map(|choice| match choice {
            ToolChoice::Named(name) => Some(name),
            _ => None,
        });
        tools.chain(parts).chain(chosen).for_each(|name| names.send(name));
        Some((fitted, names))
    }

    /// A model may call these tools, the second of each pair, by other names too.
    pub fn also(&mut self, others: Vec<(String, String)>) {
        for (other, name) in others {
            self.asked.entry(other).or_insert(name);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The name becomes the one that goes up.
    pub fn send(&self, name: &mut String) {
        if let Some(other) = self.sent.get(name.as_str()) {
            name.clone_from(other);
        }
    }

    /// The client's name of a called tool.
    pub fn asked<'a>(&'a self, name: &'a str) -> &'a str {
        self.asked.get(name).map_or(name, String::as_str)
    }

    /// Whether it is a piece of a name that went up.
    fn begins(&self, piece: &str) -> bool {
        !piece.is_empty() && self.asked.keys().any(|sent| sent.len() > piece.len() && sent.starts_with(piece))
    }

    /// Bytes of an answer in JSON, with the client's names of its tools.
    fn restored(&self, text: &Bytes) -> Bytes {
        let (mut out, mut from) = (BytesMut::new(), 0);
        for range in names_in(text) {
            let name = std::str::from_utf8(&text[range.clone()]).ok().and_then(|name| self.asked.get(name));
            if let Some(name) = name {
                out.extend_from_slice(&text[from..range.start]);
                let quoted = Value::from(name.as_str()).to_string();
                out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
                from = range.end;
            }
        }
        if from == 0 {
            return text.clone();
        }
        out.extend_from_slice(&text[from..]);
        out.freeze()
    }
}

/// Puts the client's names of tools back into one answer, whose chunks may have them in pieces.
#[derive(Debug)]
pub struct NameRestorer {
    names: Arc<ToolNames>,
    /// The names so far, by the numbers of the choice and the call.
    begun: BTreeMap<(u64, u64), String>,
}

impl NameRestorer {
    /// None: no name went up as another.
    pub fn of(names: &Arc<ToolNames>) -> Option<NameRestorer> {
        (!names.is_empty()).then(|| NameRestorer { names: names.clone(), begun: BTreeMap::new() })
    }

    /// An event, or a whole answer.
    pub fn restored(&mut self, text: &Bytes) -> Bytes {
        let is_piece = |range| std::str::from_utf8(&text[range]).is_ok_and(|name| self.names.begins(name));
        if self.begun.is_empty() && !names_in(text).any(is_piece) {
            return self.names.restored(text);
        }
        let event = SseEvent { raw: text.clone() };
        let Some(mut chunk) = event.fields().data.and_then(|data| parse(&data).ok()) else {
            return self.names.restored(text);
        };
        for choice in chunk["choices"].as_array_mut().into_iter().flatten() {
            self.restore(choice);
        }
        format!("data: {chunk}\n\n").into()
    }

    /// A piece of a name is held until the name is whole, or known to be another.
    fn restore(&mut self, choice: &mut Value) {
        let (of, has_ended) = (choice["index"].as_u64().unwrap_or(0), !choice["finish_reason"].is_null());
        for call in choice["delta"]["tool_calls"].as_array_mut().into_iter().flatten() {
            let number = call["index"].as_u64().unwrap_or(0);
            let Some(function) = call["function"].as_object_mut() else { continue };
            let piece = function.get("name").and_then(Value::as_str).unwrap_or_default();
            let name = self.begun.remove(&(of, number)).unwrap_or_default() + piece;
            let says = function.get("arguments").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
            if self.names.begins(&name) && !says && !has_ended {
                function.shift_remove("name");
                self.begun.insert((of, number), name);
            } else if !name.is_empty() {
                function.insert("name".to_owned(), self.names.asked(&name).into());
            }
        }
        let left = self.begun.extract_if((of, 0)..=(of, u64::MAX), |_, _| has_ended);
        let left = left.map(|((_, number), name)| json!({ "index": number, "function": { "name": name } }));
        let left: Vec<Value> = left.collect();
        if !left.is_empty() {
            choice["delta"]["tool_calls"] = left.into();
        }
    }
}

/// Where the texts of members called `name` or `namespace` are in JSON, between their quotes. Within a text its quotes would be
/// escaped.
fn names_in(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const NAME: &[u8] = b"\"name";
    memchr::memmem::find_iter(text, NAME).filter_map(|at| {
        let rest = &text[at + NAME.len()..];
        let quote = if rest.starts_with(b"space") { b"space".len() } else { 0 };
        let behind = (rest.get(quote) == Some(&b'"')).then_some(at + NAME.len() + quote + 1)?;
        let start = skip(text, skip(text, behind, b" \t\r\n"), b":");
        let start = skip(text, start, b" \t\r\n");
        let start = (text.get(start) == Some(&b'"')).then_some(start + 1)?;
        Some(start..start + memchr::memchr(b'"', &text[start..])?)
    })
}

fn skip(text: &[u8], at: usize, these: &[u8]) -> usize {
    at + text[at..].iter().take_while(|byte| these.contains(byte)).count()
}

/// Whether the text of a request may have a name that does not fit.
pub fn may_exceed(body: &[u8], most: usize) -> bool {
    names_in(body).any(|range| !fits(&String::from_utf8_lossy(&body[range]), most))
}

/// What holds texts, schemas and arguments of others.
pub const OPAQUE: [&str; 10] = [
    "parameters",
    "parametersJsonSchema",
    "input_schema",
    "inputSchema",
    "schema",
    "arguments",
    "input",
    "args",
    "response",
    "json_schema",
];

/// Calls `each` with every name of a tool in a request, whatever its dialect.
pub fn each_name(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_name(item, each)),
        Value::Object(members) => {
            // Others who speak have names too.
            let speaks = members.get("role").is_some_and(|role| role != "tool" && role != "function");
            for (member, value) in members {
                match (member.as_str(), value) {
                    ("name", Value::String(_)) if speaks => {}
                    ("name" | "namespace" | "tool_name", Value::String(name)) => each(name),
                    ("allowedFunctionNames", Value::Array(names)) => {
                        let names = names.iter_mut().filter_map(|name| match name {
                            Value::String(name) => Some(name),
                            _ => None,
                        });
                        names.for_each(&mut *each);
                    }
                    (member, value) if !OPAQUE.contains(&member) => each_name(value, each),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The members of requests with names of tools.
pub const PLACES: [&str; 8] =
    ["tools", "functions", "tool_choice", "function_call", "toolConfig", "messages", "input", "contents"];
