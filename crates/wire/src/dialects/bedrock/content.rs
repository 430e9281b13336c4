//! Writes the turns of a conversation as Converse messages, and reports what cannot be written.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::model::{BedrockModel, Family};
use crate::dialects::claude::thinking::signed;
use crate::json::numbers::object;
use crate::json::values::json;
use crate::translate::call_ids::CallIds;
use crate::translate::outgoing::lose_cache;
use crate::translate::{
    CacheHint, ConversationTurn, Document, Image, Losses, MessagePart, ReasoningPart, Role, Source, ToolCall,
    ToolResult,
};

/// Maximum characters of a tool use's id and of a document's name.
const ID_MAX: usize = 64;
const NAME_MAX: usize = 200;

/// Writes the turns of a conversation.
pub(super) struct ContentWriter<'a> {
    pub model: BedrockModel,
    pub losses: &'a mut Losses,
    /// Used document names, with the number of the next document of that name. Names must be unique.
    names: HashMap<String, u32>,
    ids: CallIds,
    /// The conversation contains calls or tool results.
    pub has_tools: bool,
}

impl<'a> ContentWriter<'a> {
    pub fn new(model: BedrockModel, losses: &'a mut Losses) -> ContentWriter<'a> {
        ContentWriter { model, losses, names: HashMap::new(), ids: CallIds::new(id, ID_MAX), has_tools: false }
    }

    /// Roles must alternate, and the user begins: turns of one role become one message. System turns go into `system`.
    pub fn messages(&mut self, turns: &[ConversationTurn], system: &mut Vec<Value>) -> Vec<Value> {
        let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            let role = match turn.role {
                Role::System => {
                    self.losses.lose(format!("messages[{number}].role"));
                    self.system(&turn.parts, system);
                    continue;
                }
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            if messages.last().is_none_or(|(last, _)| *last != role) {
                messages.push((role, Vec::new()));
            }
            let Some((_, blocks)) = messages.last_mut() else { continue };
            for (place, part) in turn.parts.iter().enumerate() {
                self.part(part, &format!("messages[{number}].content[{place}]"), blocks);
            }
            if blocks.is_empty() {
                messages.pop();
            }
        }
        if messages.first().is_none_or(|(role, _)| *role != "user") {
            messages.insert(0, ("user", vec![json!({ "text": "." })]));
        }
        messages.into_iter().map(|(role, content)| json!({ "role": role, "content": ordered(content) })).collect()
    }

    /// System prompts are texts.
    pub fn system(&mut self, parts: &[MessagePart], out: &mut Vec<Value>) {
        for part in parts {
            match part {
                MessagePart::Text { text, cache } => {
                    out.extend(text_block(text));
                    self.cache(cache.as_ref(), out);
                }
                _ => self.losses.lose("system"),
            }
        }
    }

    fn part(&mut self, part: &MessagePart, name: &str, out: &mut Vec<Value>) {
        out.extend(match part {
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => text_block(text),
            MessagePart::Image(image) => image_block(image).or_else(|| self.losses.part(name)),
            MessagePart::Document(document) => self.document(document).or_else(|| self.losses.part(name)),
            MessagePart::Audio(_) => self.losses.part(name),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => Some(self.call(call, name)),
            MessagePart::Result(result) => Some(self.result(result, name)),
        });
        match part {
            // A cache point may not follow a document.
            MessagePart::Document(document) => lose_cache(document.cache.as_ref(), self.losses),
            _ => self.cache(part.cache(), out),
        }
    }

    /// Only Claude's own signed reasoning is sent back. For other models reasoning is dropped.
    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        match (self.model.family, signed(thinking)) {
            (Family::Claude | Family::Unknown, Some(signature)) => Some(if thinking.redacted {
                json!({ "reasoningContent": { "redactedContent": signature } })
            } else {
                let text = json!({ "text": thinking.text, "signature": signature });
                json!({ "reasoningContent": { "reasoningText": text } })
            }),
            _ => {
                self.losses.lose("thinking");
                None
            }
        }
    }

    fn call(&mut self, call: &ToolCall, name: &str) -> Value {
        self.has_tools = true;
        self.losses.lose_if(call.signature.is_some(), "thought_signature");
        let written = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let arguments = match object(written.as_bytes()) {
            Some(arguments) if !call.custom => Value::Object(arguments),
            // Only an object is accepted, so broken arguments are wrapped in one.
            _ => {
                self.losses.lose_if(call.custom, name);
                json!({ "input": call.arguments })
            }
        };
        json!({ "toolUse": { "toolUseId": self.ids.call(&call.id), "name": call.name, "input": arguments } })
    }

    fn result(&mut self, result: &ToolResult, name: &str) -> Value {
        self.has_tools = true;
        let mut content = Vec::new();
        for part in &result.parts {
            content.extend(match part {
                MessagePart::Text { text, cache } => {
                    lose_cache(cache.as_ref(), self.losses);
                    text_block(text)
                }
                MessagePart::Image(image) => image_block(image).or_else(|| self.losses.part(name)),
                MessagePart::Document(document) => self.document(document).or_else(|| self.losses.part(name)),
                _ => self.losses.part(name),
            });
        }
        let mut block = json!({ "toolUseId": self.ids.result(&result.call_id), "content": content });
        if result.is_error && self.model.takes_status() {
            block["status"] = Value::from("error");
        } else if result.is_error {
            self.losses.lose(format!("{name}.is_error"));
        }
        json!({ "toolResult": block })
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        let (format, source) = match &document.source {
            Source::Base64 { media_type, data } => {
                (document_format(media_type, document.name.as_deref())?, json!({ "bytes": data }))
            }
            Source::Text(text) => ("txt", json!({ "bytes": STANDARD.encode(text) })),
            Source::Url(url) if url.starts_with("s3://") => {
                (document_format("", Some(url))?, json!({ "s3Location": { "uri": url } }))
            }
            Source::Url(_) | Source::File(_) => return None,
        };
        let name = self.document_name(document.name.as_deref());
        Some(json!({ "document": { "format": format, "name": name, "source": source } }))
    }

    /// A unique name in the allowed characters.
    fn document_name(&mut self, wanted: Option<&str>) -> String {
        let wanted = wanted.map_or("", |name| name.rsplit_once('.').map_or(name, |(stem, _)| stem));
        let allowed = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
        let plain: String = wanted.chars().map(allowed).collect();
        let words: Vec<&str> = plain.split_ascii_whitespace().collect();
        let mut base = words.join(" ");
        // Leaves room for a number.
        base.truncate(NAME_MAX - 20);
        let base = if base.trim().is_empty() { "document" } else { base.trim_end() };
        let mut name = base.to_owned();
        // Terminates: each round uses another number.
        while self.names.contains_key(&name) {
            let number = self.names.entry(base.to_owned()).or_insert(2);
            name = format!("{base} ({number})");
            *number += 1;
        }
        self.names.insert(name.clone(), 2);
        name
    }

    /// Adds a cache point after the last block, if the model accepts one there.
    pub fn cache(&mut self, hint: Option<&CacheHint>, out: &mut Vec<Value>) {
        let Some(hint) = hint else { return };
        if !self.model.caches() || out.last().is_none_or(|block| block.get("cachePoint").is_some()) {
            self.losses.lose("cache_control");
            return;
        }
        out.push(self.cache_point(hint));
    }

    pub fn cache_point(&mut self, hint: &CacheHint) -> Value {
        let mut point = json!({ "type": "default" });
        match hint.ttl.as_deref() {
            None | Some("5m") => {}
            Some("1h") if self.model.caches_long() => point["ttl"] = Value::from("1h"),
            Some(_) => self.losses.lose("cache_control.ttl"),
        }
        json!({ "cachePoint": point })
    }
}

/// Orders the blocks of a turn as the vendor requires: tool results first, each followed by its cache point, and never
/// a document without a text.
fn ordered(blocks: Vec<Value>) -> Vec<Value> {
    let is = |block: &Value, kind: &str| block.get(kind).is_some();
    let (mut results, mut rest, mut behind_result) = (Vec::new(), Vec::new(), false);
    let wants_text = blocks.iter().any(|block| is(block, "document")) && !blocks.iter().any(|block| is(block, "text"));
    for block in blocks {
        if !is(&block, "cachePoint") {
            behind_result = is(&block, "toolResult");
        }
        if behind_result { results.push(block) } else { rest.push(block) }
    }
    results.append(&mut rest);
    results.extend(wants_text.then(|| json!({ "text": "." })));
    results
}

/// Blank text is refused, and means nothing.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "text": text }))
}

fn image_block(image: &Image) -> Option<Value> {
    let (format, source) = match &image.source {
        Source::Base64 { media_type, data } => (image_format(media_type)?, json!({ "bytes": data })),
        Source::Url(url) if url.starts_with("s3://") => {
            (image_format(url.rsplit_once('.')?.1)?, json!({ "s3Location": { "uri": url } }))
        }
        _ => return None,
    };
    Some(json!({ "image": { "format": format, "source": source } }))
}

/// By media type, or by file extension.
fn image_format(name: &str) -> Option<&'static str> {
    let name = name.split(';').next().unwrap_or(name).trim().to_ascii_lowercase();
    Some(match name.strip_prefix("image/").unwrap_or(&name) {
        "png" => "png",
        "jpeg" | "jpg" => "jpeg",
        "gif" => "gif",
        "webp" => "webp",
        _ => return None,
    })
}

/// By media type, else by file extension.
fn document_format(media_type: &str, name: Option<&str>) -> Option<&'static str> {
    let media_type = media_type.split(';').next().unwrap_or(media_type).trim().to_ascii_lowercase();
    let ending = || name.and_then(|name| Some(name.rsplit_once('.')?.1.to_ascii_lowercase()));
    Some(match media_type.as_str() {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "text/html" => "html",
        "text/csv" => "csv",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "" | "application/octet-stream" => {
            let ending = ending()?;
            ["pdf", "txt", "md", "html", "csv", "doc", "docx", "xls", "xlsx"]
                .into_iter()
                .find(|known| *known == ending)?
        }
        _ => return None,
    })
}

/// An id that Bedrock accepts, derived from the original. Ids of other vendors may be too long or have other
/// characters.
fn id(id: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if !id.is_empty() && id.len() <= ID_MAX && id.chars().all(allowed) {
        return id.to_owned();
    }
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
    let kept: String = id.chars().filter(|c| allowed(*c)).take(ID_MAX - 17).collect();
    format!("{kept}_{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::TranslationOptions;

    #[test]
    fn ids_are_made_to_fit_and_stay_apart() {
        assert_eq!(id("call_1-a.b:c"), "call_1-a.b:c");
        let (long, other) = (id(&"x".repeat(100)), id(&"x".repeat(101)));
        assert_eq!((long.len(), other.len()), (ID_MAX, ID_MAX));
        assert_ne!(long, other);
        for odd in ["", "a b", "é"] {
            assert_eq!(id(odd), id(odd));
            assert!((1..=ID_MAX).contains(&id(odd).len()), "{odd}");
        }
        assert_ne!(id("a b"), id("a-b"));
    }

    #[test]
    fn documents_have_names_of_their_own() {
        let mut losses = Losses::default();
        let mut content = ContentWriter::new(BedrockModel::of(&TranslationOptions::default()), &mut losses);
        let names = [Some("my_report.v2.pdf"), Some("my report v2.pdf"), None, Some("???"), Some("my report v2")]
            .map(|name| content.document_name(name));
        assert_eq!(names, ["my report v2", "my report v2 (2)", "document", "document (2)", "my report v2 (3)"]);
        assert!(content.document_name(Some(&"x".repeat(1_000))).len() <= NAME_MAX);
    }

    #[test]
    fn formats_go_by_media_type_and_then_by_name() {
        assert_eq!(document_format("text/plain; charset=utf-8", None), Some("txt"));
        assert_eq!(document_format("application/octet-stream", Some("a.b.DOCX")), Some("docx"));
        assert_eq!(document_format("application/zip", Some("a.pdf")), None);
        assert_eq!(document_format("", None), None);
        assert_eq!((image_format("IMAGE/JPG"), image_format("image/tiff")), (Some("jpeg"), None));
    }
}
