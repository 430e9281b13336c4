//! Turns a whole answer (Converse without streaming) into stream frames.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use photofinish_wire::json::surrogates::lenient;
use photofinish_wire::json::values::json;
use photofinish_wire::stream::binary::write_event;

/// The frames of a whole answer. None if the body is not an answer.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let answer = lenient(body)?;
    let message = answer.get("output")?.get("message")?;
    let blocks = message.get("content")?.as_array()?;
    let mut out = BytesMut::new();
    let mut write = |name: &str, payload: &Value| write_event(name, payload.to_string().as_bytes(), &mut out);
    write("messageStart", &json!({ "role": message["role"] }));
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = events_of_block(block);
        if let Some(start) = start {
            write("contentBlockStart", &json!({ "contentBlockIndex": index, "start": start }));
        }
        for delta in deltas {
            write("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta }));
        }
        write("contentBlockStop", &json!({ "contentBlockIndex": index }));
    }
    write("messageStop", &members(&answer, &["stopReason", "additionalModelResponseFields"]));
    write("metadata", &members(&answer, &["usage", "metrics", "serviceTier", "trace"]));
    Some(out.freeze())
}

/// The start of a block, and its deltas.
fn events_of_block(block: &Value) -> (Option<Value>, Vec<Value>) {
    let Some((kind, content)) = block.as_object().and_then(|members| members.iter().next()) else {
        return (None, Vec::new());
    };
    match kind.as_str() {
        "text" => (None, vec![block.clone()]),
        "toolUse" => {
            let arguments =
                content.get("input").filter(|input| !input.is_null()).map_or_else(String::new, Value::to_string);
            let start = members(content, &["toolUseId", "name", "type"]);
            (Some(json!({ "toolUse": start })), vec![json!({ "toolUse": { "input": arguments } })])
        }
        "reasoningContent" => {
            let shown = content.get("reasoningText").unwrap_or(&Value::Null);
            let parts = ["text", "signature"].iter().filter_map(|name| Some((name, shown.get(name)?)));
            let redacted = content.get("redactedContent").map(|data| (&"redactedContent", data));
            let deltas = parts.chain(redacted).map(|(name, part)| json!({ "reasoningContent": { (*name): part } }));
            (None, deltas.collect())
        }
        "citationsContent" => {
            let list = |name: &str| content.get(name).and_then(Value::as_array).into_iter().flatten();
            let citations = list("citations").map(|citation| json!({ "citation": citation }));
            (None, list("content").cloned().chain(citations).collect())
        }
        "image" => {
            let start = json!({ "image": members(content, &["format"]) });
            (Some(start), vec![json!({ "image": members(content, &["source"]) })])
        }
        _ => (Some(json!({ kind: members(content, &["toolUseId", "type", "status"]) })), Vec::new()),
    }
}

/// The listed members that the object has.
fn members(object: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone())));
    Value::Object(found.collect::<Map<_, _>>())
}
