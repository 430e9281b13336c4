//! Reads the blocks of a Messages request as parts of a conversation.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::members::{invalid, object, some, string};
use crate::client_error::Invalid;
use crate::translate::signature::{SignatureOwner, SignatureUse, held};
use crate::translate::{
    CacheHint, ConversationTurn, Document, Image, Losses, MessagePart, ReasoningPart, Role, Source, ToolCall,
    ToolResult,
};

/// Known members of blocks, apart from `type` and `cache_control`.
const KNOWN: [(&str, &[&str]); 7] = [
    ("text", &["text", "citations"]),
    ("image", &["source"]),
    ("document", &["source", "title", "context", "citations"]),
    ("tool_use", &["id", "name", "input"]),
    ("tool_result", &["tool_use_id", "content", "is_error"]),
    ("thinking", &["thinking", "signature"]),
    ("redacted_thinking", &["data"]),
];
/// Known members of the sources of images and documents.
const KNOWN_OF_SOURCES: [&str; 6] = ["type", "media_type", "data", "url", "file_id", "content"];

/// The place of a block, in the vendor's notation and in the gateway's.
struct BlockPath {
    dotted: String,
    bracketed: String,
}

impl BlockPath {
    fn at(&self, index: usize) -> BlockPath {
        BlockPath { dotted: format!("{}.{index}", self.dotted), bracketed: format!("{}[{index}]", self.bracketed) }
    }

    fn in_member(&self, kind: &str, name: &str) -> BlockPath {
        BlockPath { dotted: format!("{}.{kind}.{name}", self.dotted), bracketed: format!("{}.{name}", self.bracketed) }
    }

    fn invalid<T>(&self, complaint: &str) -> Result<T, Invalid> {
        Err(invalid(&self.dotted, complaint))
    }
}

/// The system prompt: a string or a list of text blocks.
pub(super) fn system(value: &Value, losses: &mut Losses) -> Result<Vec<MessagePart>, Invalid> {
    let place = BlockPath { dotted: "system".to_owned(), bracketed: "system".to_owned() };
    list(value, &place, losses, &mut |kind, block, place, losses| match kind {
        "text" => text(block, place, losses).map(Some),
        _ => invalid_type(place),
    })
}

/// The content of a message: a string or a list of blocks.
pub(super) fn parts(value: &Value, role: Role, at: usize, losses: &mut Losses) -> Result<Vec<MessagePart>, Invalid> {
    let place = BlockPath { dotted: format!("messages.{at}.content"), bracketed: format!("messages[{at}].content") };
    let mut signature = None;
    list(value, &place, losses, &mut |kind, block, place, losses| {
        let part = match kind {
            "tool_use" if role != Role::Assistant => return misplaced(at, "tool_use", "assistant"),
            "tool_result" if role != Role::User => return misplaced(at, "tool_result", "user"),
            "tool_use" => MessagePart::Call(ToolCall { signature: signature.take(), ..call(block, place)? }),
            "tool_result" => MessagePart::Result(result(block, place, losses)?),
            "thinking" | "redacted_thinking" => match thinking(kind, block, place)? {
                ThinkingBlock::Own(thinking) => MessagePart::Thinking(thinking),
                ThinkingBlock::OfCall(of_call) => {
                    signature = Some(of_call);
                    return Ok(None);
                }
            },
            _ => return common(kind, block, place, losses),
        };
        Ok(Some(part))
    })
}

/// Names the called function in each result.
pub(super) fn name_results(turns: &mut [ConversationTurn]) {
    let mut names: HashMap<String, String> = HashMap::new();
    for part in turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            MessagePart::Call(call) => drop(names.insert(call.id.clone(), call.name.clone())),
            MessagePart::Result(result) => result.name = names.get(&result.call_id).cloned(),
            _ => {}
        }
    }
}

/// Reads `cache_control`, which every block may have.
pub(super) fn cache(block: &Map<String, Value>) -> Option<CacheHint> {
    let hint = some(block, "cache_control")?.as_object()?;
    Some(CacheHint { ttl: hint.get("ttl").and_then(Value::as_str).map(str::to_owned) })
}

type ReadBlock<'a> =
    &'a mut dyn FnMut(&str, &Map<String, Value>, &BlockPath, &mut Losses) -> Result<Option<MessagePart>, Invalid>;

/// A string is one block of text.
fn list(
    value: &Value,
    place: &BlockPath,
    losses: &mut Losses,
    read: ReadBlock<'_>,
) -> Result<Vec<MessagePart>, Invalid> {
    let blocks = match value {
        Value::String(text) => return Ok(vec![MessagePart::Text { text: text.clone(), cache: None }]),
        Value::Array(blocks) => blocks,
        _ => return place.invalid("Input should be a valid string or a valid list"),
    };
    let mut parts = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.iter().enumerate() {
        let place = place.at(index);
        let Value::Object(block) = block else { return place.invalid("Input should be an object") };
        let kind = string(block, "type", &place.dotted)?;
        parts.extend(read(kind, block, &place, losses)?);
        tell_unknown(kind, block, &place, losses);
    }
    Ok(parts)
}

/// Reports members that nobody knows.
fn tell_unknown(kind: &str, block: &Map<String, Value>, place: &BlockPath, losses: &mut Losses) {
    let Some((_, known)) = KNOWN.iter().find(|(name, _)| *name == kind) else { return };
    let is_known = |name: &str| matches!(name, "type" | "cache_control") || known.contains(&name);
    for (name, value) in block.iter().filter(|(name, _)| !is_known(name)) {
        // The vendor's answers say so of every call.
        if !(name == "caller" && value["type"] == "direct") {
            losses.lose_value(&format!("{}.{name}", place.bracketed), value);
        }
    }
    let Some(Value::Object(source)) = block.get("source") else { return };
    let path = format!("{}.source", place.bracketed);
    losses.lose_others(source, &path, &KNOWN_OF_SOURCES);
    let blocks = source.get("content").and_then(Value::as_array);
    for (at, block) in blocks.into_iter().flatten().enumerate() {
        let (path, known) = (format!("{path}.content[{at}]"), ["type", "text", "citations", "cache_control"]);
        losses.lose_others(block.as_object().into_iter().flatten(), &path, &known);
    }
}

/// Blocks that messages and tool results may contain. Blocks that only this vendor knows are lost.
fn common(
    kind: &str,
    block: &Map<String, Value>,
    place: &BlockPath,
    losses: &mut Losses,
) -> Result<Option<MessagePart>, Invalid> {
    match kind {
        "text" => text(block, place, losses).map(Some),
        "image" => image(block, place).map(Some),
        "document" => document(block, place, losses),
        _ => {
            losses.lose(&place.bracketed);
            Ok(None)
        }
    }
}

fn text(block: &Map<String, Value>, place: &BlockPath, losses: &mut Losses) -> Result<MessagePart, Invalid> {
    let text = string(block, "text", &format!("{}.text", place.dotted))?;
    if some(block, "citations").is_some_and(|citations| citations.as_array().is_none_or(|list| !list.is_empty())) {
        losses.lose(format!("{}.citations", place.bracketed));
    }
    Ok(MessagePart::Text { text: text.to_owned(), cache: cache(block) })
}

fn image(block: &Map<String, Value>, place: &BlockPath) -> Result<MessagePart, Invalid> {
    let place = place.in_member("image", "source");
    let source = match source(block, &place)? {
        ("base64" | "url" | "file", source) => source,
        _ => return invalid_type(&place),
    };
    Ok(MessagePart::Image(Image { source, detail: None, cache: cache(block) }))
}

fn document(
    block: &Map<String, Value>,
    place: &BlockPath,
    losses: &mut Losses,
) -> Result<Option<MessagePart>, Invalid> {
    let at = place.in_member("document", "source");
    let (kind, source) = source(block, &at)?;
    if kind == "content" && matches!(&source, Source::Text(text) if text.is_empty()) {
        losses.lose(format!("{}.source.content", place.bracketed));
        return Ok(None);
    }
    if block.get("citations").is_some_and(|citations| citations["enabled"] == true) {
        losses.lose(format!("{}.citations", place.bracketed));
    }
    if some(block, "context").is_some_and(|context| context != "") {
        losses.lose(format!("{}.context", place.bracketed));
    }
    let name = block.get("title").and_then(Value::as_str).map(str::to_owned);
    Ok(Some(MessagePart::Document(Document { source, name, cache: cache(block) })))
}

/// The source of an image or a document. `kind` is the vendor's name for it.
fn source<'a>(block: &'a Map<String, Value>, place: &BlockPath) -> Result<(&'a str, Source), Invalid> {
    let source = match block.get("source") {
        None => return place.invalid("Field required"),
        Some(Value::Object(source)) => source,
        Some(_) => return place.invalid("Input should be an object"),
    };
    let kind = string(source, "type", &place.dotted)?;
    let inner = format!("{}.{kind}", place.dotted);
    let member = |name: &str| string(source, name, &inner).map(str::to_owned);
    let read = match kind {
        "base64" => Source::Base64 { media_type: member("media_type")?, data: member("data")? },
        "url" => Source::Url(member("url")?),
        "text" => Source::Text(member("data")?),
        "file" => Source::File(member("file_id")?),
        "content" => Source::Text(plain(source.get("content")).unwrap_or_default()),
        _ => return invalid_type(place),
    };
    Ok((kind, read))
}

/// The text of content that is only text.
fn plain(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|block| block.get("text")?.as_str()).collect();
            texts.map(|texts| texts.join("\n\n"))
        }
        _ => None,
    }
}

fn call(block: &Map<String, Value>, place: &BlockPath) -> Result<ToolCall, Invalid> {
    let inner = format!("{}.tool_use", place.dotted);
    let arguments = Value::Object(object(block, "input", &inner)?.clone()).to_string();
    Ok(ToolCall {
        id: string(block, "id", &inner)?.to_owned(),
        name: string(block, "name", &inner)?.to_owned(),
        arguments,
        cache: cache(block),
        ..ToolCall::default()
    })
}

fn result(block: &Map<String, Value>, place: &BlockPath, losses: &mut Losses) -> Result<ToolResult, Invalid> {
    let call_id = string(block, "tool_use_id", &format!("{}.tool_result", place.dotted))?.to_owned();
    let parts = match some(block, "content") {
        None => Vec::new(),
        Some(content) => list(content, &place.in_member("tool_result", "content"), losses, &mut common)?,
    };
    let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    Ok(ToolResult { call_id, parts, is_error, cache: cache(block), ..ToolResult::default() })
}

enum ThinkingBlock {
    Own(ReasoningPart),
    /// The signature belongs to the next call.
    OfCall(String),
}

fn thinking(kind: &str, block: &Map<String, Value>, place: &BlockPath) -> Result<ThinkingBlock, Invalid> {
    let inner = format!("{}.{kind}", place.dotted);
    let redacted = kind == "redacted_thinking";
    let signed = string(block, if redacted { "data" } else { "signature" }, &inner)?;
    let text = if redacted { "" } else { string(block, "thinking", &inner)? };
    let signature = match held(SignatureOwner::Anthropic, signed) {
        SignatureUse::Call(of_call) => return Ok(ThinkingBlock::OfCall(of_call)),
        SignatureUse::Thought(signature) | SignatureUse::Redacted(signature) => Some(signature),
        SignatureUse::Unsigned => None,
    };
    Ok(ThinkingBlock::Own(ReasoningPart { text: text.to_owned(), signature, redacted, id: None }))
}

fn invalid_type<T>(place: &BlockPath) -> Result<T, Invalid> {
    Err(invalid(&format!("{}.type", place.dotted), "Input tag does not match any of the expected tags"))
}

fn misplaced(at: usize, kind: &str, role: &str) -> Result<Option<MessagePart>, Invalid> {
    Err(invalid(&format!("messages.{at}"), &format!("`{kind}` blocks can only be in `{role}` messages")))
}
