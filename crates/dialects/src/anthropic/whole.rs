//! Turns a whole Messages answer into stream events, for servers that ignore `stream`, and a stream into a whole answer.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::anthropic::writer::emit;
use photofinish_wire::answer::growing::{
    GrowingForm, GrownAnswer, GrownMembers, ITEMS_MAX, MemberPlace, Rule, Whole, members, objects, says,
};
use photofinish_wire::json::Json;
use photofinish_wire::json::SERDE_DEPTH_MAX;
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::lenient;
use photofinish_wire::json::values::{answer, json};

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

// The whole answer from its stream, as the official clients put it together. Unknown members are kept.

/// How the answer grows: its members come with the start and the end of the message, and blocks by their `index`.
pub struct MessageWhole;

impl GrowingForm for MessageWhole {
    fn add(&mut self, text: &str, _name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        let event = members(text)?;
        let member = |wanted: &str| event.iter().rfind(|(name, _)| name == wanted).map(|(_, raw)| *raw);
        let object = |wanted: &str| member(wanted).filter(|raw| raw.starts_with('{')).unwrap_or("{}");
        let index = member("index").and_then(|index| index.parse().ok()).unwrap_or(0);
        match member("type").unwrap_or_default() {
            // A repeated start is ignored. A start of another message means that the server started again: the earlier
            // content is discarded.
            "\"message_start\"" => {
                let mut started = GrownAnswer::default();
                started.grow_all(MemberPlace::Answer, object("message"), |_| Rule::Last)?;
                if answer.members.is_empty() || answer.members.raw("id") != started.members.raw("id") {
                    // The blocks that it begins with are the first ones.
                    let message = Json::nested(object("message"), SERDE_DEPTH_MAX);
                    let content = { message }.member("content", Json::some).ok()?;
                    for (index, block) in (0..).zip(objects(content.unwrap_or("[]"))?) {
                        let at = started.part(index, ITEMS_MAX)?;
                        started.grow_all(MemberPlace::Part(at), block, |_| Rule::Last)?;
                    }
                    *answer = started;
                }
                Some(())
            }
            "\"content_block_start\"" => {
                let (at, block) = (answer.part(index, ITEMS_MAX)?, object("content_block"));
                answer.parts[at].members = GrownMembers::default();
                // The vendor switched to another model.
                let model =
                    Json::nested(block, SERDE_DEPTH_MAX).member("to", |json| json.member("model", Json::some)).ok()?;
                model.map_or(Some(()), |model| answer.grow(MemberPlace::Answer, "model", model, Rule::Last))?;
                answer.grow_all(MemberPlace::Part(at), block, |_| Rule::Last)
            }
            "\"content_block_delta\"" => match answer.places.get(&index) {
                Some(at) => add_delta(object("delta"), MemberPlace::Part(*at), answer),
                None => Some(()),
            },
            "\"message_delta\"" => {
                answer.grow_all(MemberPlace::Answer, object("delta"), |_| Rule::Last)?;
                // Counts are totals: each replaces the one before it.
                answer.grow(MemberPlace::Answer, "usage", "{}", Rule::First)?;
                answer.grow(MemberPlace::Answer, "usage", object("usage"), Rule::Pieces)?;
                let mut rest = event.iter().filter(|(name, _)| !["type", "delta", "usage"].contains(&name.as_ref()));
                rest.try_for_each(|(name, raw)| answer.grow(MemberPlace::Answer, name, raw, Rule::Last))
            }
            _ => Some(()),
        }
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        let reason = answer.members.raw("stop_reason").unwrap_or_default();
        let is_cut = matches!(reason, "\"max_tokens\"" | "\"model_context_window_exceeded\"");
        let blocks = answer.lay_out(|_, block| block_of(block.members.into_map(), is_cut))?;
        let says_nothing = !blocks.iter().any(block_says);
        let mut message = answer.members.into_map();
        for (name, value) in [("type", json!("message")), ("role", json!("assistant"))] {
            message.entry(name).or_insert(value);
        }
        for name in ["content", "stop_reason", "stop_sequence"] {
            message.entry(name).or_insert(Value::Null);
        }
        message.insert("content".to_owned(), blocks.into());
        Some(Whole::new(&message.into(), says_nothing))
    }
}

fn add_delta(delta: &str, at: MemberPlace, answer: &mut GrownAnswer) -> Option<()> {
    let mut members = members(delta)?.into_iter().filter(|(name, raw)| name != "type" && *raw != "null");
    members.try_for_each(|(name, raw)| match &*name {
        "citation" => answer.grow(at, "citations", &format!("[{raw}]"), Rule::Extend),
        "signature" => answer.grow(at, &name, raw, Rule::Last),
        name => answer.grow(at, name, raw, Rule::Text),
    })
}

/// A block with its input, whose JSON text came in pieces. None if it cannot be parsed. `is_cut`: a token limit cut the
/// answer.
fn block_of(mut block: Map<String, Value>, is_cut: bool) -> Option<Value> {
    if let Some(Value::String(text)) = block.shift_remove("partial_json").filter(says) {
        let whole = lenient(text.as_bytes());
        let input = if is_cut { whole.unwrap_or_else(|| cut_input(&text)) } else { whole? };
        block.insert("input".to_owned(), input);
    }
    Some(Value::Object(block))
}

fn block_says(block: &Value) -> bool {
    match block["type"].as_str() {
        Some("text") => says(&block["text"]),
        Some("thinking" | "redacted_thinking") => false,
        _ => true,
    }
}

/// A tool input that was cut: the members that are complete, as the vendor itself returns them.
fn cut_input(text: &str) -> Value {
    // The brackets that are open, and the last place where the text can be cut, with those that are open there.
    let (mut open, mut safe) = (String::new(), (0, String::new()));
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            // No reader takes more.
            '{' | '[' if open.len() == 128 => break,
            '{' | '[' => {
                open.push(if c == '{' { '}' } else { ']' });
                safe = (at + 1, open.clone());
            }
            '}' | ']' => drop(open.pop()),
            ',' => safe = (at, open.clone()),
            _ => {}
        }
    }
    let closed = |end: usize, open: &str| {
        let text: String = text[..end].chars().chain(open.chars().rev()).collect();
        parse(text.as_bytes()).ok()
    };
    closed(text.len(), &open).or_else(|| closed(safe.0, &safe.1)).unwrap_or_else(|| json!({}))
}
