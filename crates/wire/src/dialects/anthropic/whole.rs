//! Turns a whole Messages answer into stream events, for servers that ignore `stream`.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::answer::assemble::{Assemble, ITEMS_MAX, Whole, says};
use crate::dialects::anthropic::writer::emit;
use crate::json::Json;
use crate::json::numbers::{object, parse};
use crate::json::surrogates::{HalfCharacters, lenient};
use crate::json::values::{answer, json};
use crate::stream::sse::SseEvent;
use crate::translate::bounds::DEPTH_MAX;

/// The events of a whole answer. None if the body is not a message.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let mut message = answer(body).filter(|message| message.get("type").is_none_or(|kind| kind == "message"))?;
    let Some(Value::Array(blocks)) = message.insert("content".to_owned(), json!([])) else { return None };
    // The official clients look for final members in the delta.
    let mut delta = Map::new();
    for name in ["stop_reason", "stop_sequence", "stop_details", "container"] {
        if name == "stop_reason" || name == "stop_sequence" {
            message.entry(name).or_insert(Value::Null);
        }
        if let Some(value) = message.get_mut(name) {
            delta.insert(name.to_owned(), value.take());
        }
    }
    let usage = message.get("usage").cloned().unwrap_or_else(|| json!({}));
    let mut out = BytesMut::with_capacity(body.len() * 2);
    emit(&mut out, &json!({ "type": "message_start", "message": message }));
    for (index, block) in blocks.into_iter().enumerate() {
        let Value::Object(block) = block else { return None };
        write_block(&mut out, index, block);
    }
    emit(&mut out, &json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    emit(&mut out, &json!({ "type": "message_stop" }));
    Some(out.freeze())
}

/// A block that is normally streamed starts empty and its content follows as deltas. Other blocks are complete in their
/// start.
fn write_block(out: &mut BytesMut, index: usize, mut block: Map<String, Value>) {
    let mut deltas = Vec::new();
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "text" => take(&mut block, "text", "text_delta", &mut deltas),
        "thinking" => {
            take(&mut block, "thinking", "thinking_delta", &mut deltas);
            take(&mut block, "signature", "signature_delta", &mut deltas);
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let input = block.insert("input".to_owned(), json!({})).unwrap_or_default();
            if !input.is_null() && input.as_object().is_none_or(|input| !input.is_empty()) {
                deltas.push(json!({ "type": "input_json_delta", "partial_json": input.to_string() }));
            }
        }
        _ => {}
    }
    emit(out, &json!({ "type": "content_block_start", "index": index, "content_block": block }));
    for delta in deltas {
        emit(out, &json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    }
    emit(out, &json!({ "type": "content_block_stop", "index": index }));
}

fn take(block: &mut Map<String, Value>, member: &str, kind: &str, deltas: &mut Vec<Value>) {
    let Some(Value::String(text)) = block.get_mut(member) else { return };
    let text = std::mem::take(text);
    if !text.is_empty() {
        deltas.push(json!({ "type": kind, member: text }));
    }
}

// Assembles a whole Messages answer from its stream, as the official clients do. Unknown members are kept.
//
// Not on the hot path: builds JSON values.

/// Collects the events of one stream.
#[derive(Debug, Default)]
pub struct MessageAssembly {
    /// From `message_start`, with the changes of `message_delta`.
    message: Map<String, Value>,
    /// By `index`.
    blocks: BTreeMap<u64, AssembledBlock>,
    /// The block of the last event, if it was a delta.
    last: Option<u64>,
    halves: HalfCharacters,
}

#[derive(Debug, Default)]
struct AssembledBlock {
    content: Map<String, Value>,
    /// The JSON text of a tool's input so far.
    input: String,
    /// What the last delta made longer, if it was one text.
    text: Option<GrowingText>,
}

/// A text that grows by deltas.
#[derive(Debug)]
enum GrowingText {
    Input,
    /// This member of the content.
    Member(String),
}

impl Assemble for MessageAssembly {
    fn add(&mut self, event: &SseEvent) -> bool {
        let Some(data) = event.fields().data.filter(|data| !data.trim_ascii().is_empty()) else { return true };
        let data = self.halves.joined(&data);
        let Ok(text) = std::str::from_utf8(&data) else { return false };
        self.last = None;
        if let Some(taken) = self.add_delta(text) {
            return taken;
        }
        match parse(text.as_bytes()) {
            Ok(Value::Object(event)) => {
                self.add_event(event);
                return self.blocks.len() <= ITEMS_MAX;
            }
            Ok(_) => {}
            Err(_) => return data.trim_ascii() == b"[DONE]",
        }
        true
    }

    fn add_text(&mut self, text: &str) -> bool {
        let last = self.last.filter(|_| !self.halves.are_waiting());
        let block = last.and_then(|index| self.blocks.get_mut(&index));
        block.is_some_and(|block| block.add_text(text))
    }

    fn finish(&mut self) -> Option<Whole> {
        let MessageAssembly { mut message, blocks, .. } = std::mem::take(self);
        let reason = message.get("stop_reason").and_then(Value::as_str).unwrap_or_default();
        let is_cut = matches!(reason, "max_tokens" | "model_context_window_exceeded");
        let blocks: Vec<Value> = blocks.into_values().map(|block| block.finish(is_cut)).collect::<Option<_>>()?;
        let says_nothing = !blocks.iter().any(block_says);
        for (name, value) in [("type", json!("message")), ("role", json!("assistant"))] {
            message.entry(name).or_insert(value);
        }
        for name in ["content", "stop_reason", "stop_sequence"] {
            message.entry(name).or_insert(Value::Null);
        }
        message.insert("content".to_owned(), Value::Array(blocks));
        Some(Whole::new(&Value::Object(message), says_nothing))
    }
}

fn block_says(block: &Value) -> bool {
    match block["type"].as_str() {
        Some("text") => says(&block["text"]),
        Some("thinking" | "redacted_thinking") => false,
        _ => true,
    }
}

impl MessageAssembly {
    /// Adds a delta, and says whether it can be read. None if the event is another. Most events are deltas, so only
    /// the object in it becomes a tree.
    fn add_delta(&mut self, text: &str) -> Option<bool> {
        let (mut is_delta, mut index, mut delta) = (false, 0, None);
        let walked = Json::nested(text, DEPTH_MAX).to_end(members!(|json| {
            "type" => is_delta = json.string_or_skip()? == Some("content_block_delta"),
            "index" => index = json.skip()?.parse().unwrap_or(0),
            "delta" => delta = Some(json.skip()?).filter(|delta| delta.starts_with('{')),
        }));
        walked.ok().filter(|()| is_delta)?;
        self.last = Some(index);
        let Some(delta) = object(delta.unwrap_or("{}").as_bytes()) else { return Some(false) };
        if let Some(block) = self.blocks.get_mut(&index) {
            block.add(delta);
        }
        Some(true)
    }

    fn add_event(&mut self, mut event: Map<String, Value>) {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match kind.as_str() {
            "message_start" => self.start(take_object(&mut event, "message")),
            "content_block_start" => {
                let content = take_object(&mut event, "content_block");
                // The vendor switched to another model.
                if let Some(model) = content.get("to").and_then(|to| to.get("model")) {
                    self.message.insert("model".to_owned(), model.clone());
                }
                self.blocks.insert(index, AssembledBlock { content, ..AssembledBlock::default() });
            }
            "message_delta" => self.end(event),
            _ => {}
        }
    }

    /// A repeated start of the same message is ignored. A start of another message means that the server started again:
    /// the earlier content is discarded.
    fn start(&mut self, message: Map<String, Value>) {
        if self.message.is_empty() || self.message.get("id") != message.get("id") {
            self.message = message;
            self.blocks.clear();
        }
    }

    fn end(&mut self, mut event: Map<String, Value>) {
        self.message.extend(take_object(&mut event, "delta"));
        // Counts are totals: each replaces the one before it.
        let usage = take_object(&mut event, "usage").into_iter().filter(|(_, value)| !value.is_null());
        match self.message.get_mut("usage") {
            Some(Value::Object(before)) => before.extend(usage),
            _ => drop(self.message.insert("usage".to_owned(), Value::Object(usage.collect()))),
        }
        let rest = event.into_iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "delta" | "usage"));
        self.message.extend(rest);
    }
}

impl AssembledBlock {
    fn add(&mut self, delta: Map<String, Value>) {
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.text = only_text(&kind, &delta);
        for (name, value) in delta {
            match (kind.as_str(), name.as_str(), value) {
                (_, "type", _) | (_, _, Value::Null) => {}
                ("input_json_delta", "partial_json", Value::String(text)) => self.input.push_str(&text),
                ("signature_delta", _, value) => drop(self.content.insert(name, value)),
                ("citations_delta", "citation", citation) => match self.content.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => drop(self.content.insert("citations".to_owned(), json!([citation]))),
                },
                (_, _, Value::String(text)) => match self.content.get_mut(&name) {
                    Some(Value::String(before)) => before.push_str(&text),
                    _ => drop(self.content.insert(name, Value::String(text))),
                },
                (_, _, value) => drop(self.content.insert(name, value)),
            }
        }
    }

    /// Continues the text of the last delta. False if it did not have just one.
    fn add_text(&mut self, text: &str) -> bool {
        let before = match &self.text {
            Some(GrowingText::Input) => Some(&mut self.input),
            Some(GrowingText::Member(name)) => match self.content.get_mut(name) {
                Some(Value::String(before)) => Some(before),
                _ => None,
            },
            None => None,
        };
        before.map(|before| before.push_str(text)).is_some()
    }

    /// None if the input cannot be parsed. `is_cut`: a token limit cut the answer.
    fn finish(mut self, is_cut: bool) -> Option<Value> {
        if !self.input.trim().is_empty() {
            let whole = lenient(self.input.as_bytes());
            let input = if is_cut { whole.unwrap_or_else(|| cut_input(&self.input)) } else { whole? };
            self.content.insert("input".to_owned(), input);
        }
        Some(Value::Object(self.content))
    }
}

/// The only text of this delta, if nothing else in it would grow if it came again.
fn only_text(kind: &str, delta: &Map<String, Value>) -> Option<GrowingText> {
    let mut texts =
        delta.iter().filter(|(name, value)| *name != "type" && value.as_str().is_some_and(|text| !text.is_empty()));
    match (texts.next(), texts.next(), kind) {
        (Some((name, _)), None, "input_json_delta") if name == "partial_json" => Some(GrowingText::Input),
        (Some((name, _)), None, "text_delta" | "thinking_delta") => Some(GrowingText::Member(name.clone())),
        _ => None,
    }
}

/// A tool input that was cut: the members that are complete, as the vendor itself returns them.
fn cut_input(text: &str) -> Value {
    let (open, safe) = open_at(text);
    let closed_at =
        |open: Option<Vec<char>>| closed(text, &open?).or_else(|| closed(&text[..safe], &open_at(&text[..safe]).0?));
    closed_at(open).unwrap_or_else(|| json!({}))
}

/// The brackets that are open at the end of a text, and the last place where it can be cut and closed. None if it is
/// nested too deeply.
fn open_at(text: &str) -> (Option<Vec<char>>, usize) {
    let (mut closers, mut safe) = (Vec::new(), 0);
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' | '[' if closers.len() == 128 => return (None, safe),
            '{' | '[' => {
                closers.push(if c == '{' { '}' } else { ']' });
                safe = at + 1;
            }
            '}' | ']' => drop(closers.pop()),
            ',' => safe = at,
            _ => {}
        }
    }
    (Some(closers), safe)
}

fn closed(text: &str, closers: &[char]) -> Option<Value> {
    let text: String = text.chars().chain(closers.iter().rev().copied()).collect();
    parse(text.as_bytes()).ok()
}

fn take_object(from: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match from.get_mut(name).map(Value::take) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
