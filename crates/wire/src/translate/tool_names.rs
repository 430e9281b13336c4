//! Names of tools that a vendor takes, for those of a request that are too long for it or have other characters, and back. Not for
//! which vendor takes which: see `quirks`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::call_ids::{fitted, suffixed};
use super::outgoing::called_names;
use super::{Conversation, MessagePart, ToolChoice};

/// The names of one request that go up as others. Which name becomes which depends on nothing but the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    sent: HashMap<String, String>,
    asked: HashMap<String, String>,
}

/// Whether a vendor that takes names of so many bytes takes this one.
pub(crate) fn fits(name: &str, most: usize) -> bool {
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

    /// Bytes of an answer in JSON, with the client's names of its tools.
    pub fn restored(&self, text: &Bytes) -> Bytes {
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

/// Where the texts of members called `name` stand in JSON, between their quotes. Within a text its quotes would be escaped.
fn names_in(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const NAME: &[u8] = b"\"name\"";
    memchr::memmem::find_iter(text, NAME).filter_map(|at| {
        let start = skip(text, skip(text, at + NAME.len(), b" \t\r\n"), b":");
        let start = skip(text, start, b" \t\r\n");
        let start = (text.get(start) == Some(&b'"')).then_some(start + 1)?;
        Some(start..start + memchr::memchr(b'"', &text[start..])?)
    })
}

fn skip(text: &[u8], at: usize, these: &[u8]) -> usize {
    at + text[at..].iter().take_while(|byte| these.contains(byte)).count()
}

/// Whether the text of a request may have a name that does not fit.
pub(crate) fn may_exceed(body: &[u8], most: usize) -> bool {
    names_in(body).any(|range| !fits(&String::from_utf8_lossy(&body[range]), most))
}

/// What holds texts, schemas and arguments of others.
pub(crate) const OPAQUE: [&str; 10] = [
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
pub(crate) fn each_name(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_name(item, each)),
        Value::Object(members) => {
            // Others who speak have names too.
            let speaks = members.get("role").is_some_and(|role| role != "tool" && role != "function");
            for (member, value) in members {
                match (member.as_str(), value) {
                    ("name", Value::String(_)) if speaks => {}
                    ("name" | "tool_name", Value::String(name)) => each(name),
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
pub(crate) const PLACES: [&str; 8] =
    ["tools", "functions", "tool_choice", "function_call", "toolConfig", "messages", "input", "contents"];
