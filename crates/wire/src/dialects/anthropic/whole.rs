//! Turns a whole Messages answer into stream events, for servers that ignore `stream`.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use super::writer::emit;
use crate::json::values::{answer, json};

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
