//! Writes the turns of a conversation as Messages: alternating user and assistant turns, each a list of blocks.
//!
//! Joins neighbours of one role, moves tool results to the front of their turn, and drops blank text, which the vendor
//! refuses. A system turn keeps its place: as a system turn if the model takes it, else as user text in
//! `<system-reminder>`. A conversation that begins with the assistant gets a first user turn with one full stop.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::Value;

use crate::dialects::claude::thinking::signed;
use crate::json::values::{PutMember, json};
use crate::quirks::{Quirks, reminder};
use crate::translate::call_ids::CallIds;
use crate::translate::outgoing::{arguments, lose_detail};
use crate::translate::{
    CacheHint, ConversationTurn, Document, Image, Losses, MessagePart, ReasoningPart, Role, Source, ToolCall,
    ToolResult,
};

/// Writes the blocks of one request.
pub(super) struct BlockWriter<'a> {
    quirks: Quirks,
    losses: &'a mut Losses,
    ids: CallIds,
}

/// A turn being written.
struct TurnDraft {
    role: Role,
    blocks: Vec<Value>,
}

pub(super) fn cache_control(hint: &CacheHint) -> Value {
    let mut value = json!({ "type": "ephemeral" });
    value.put("ttl", hint.ttl.as_deref());
    value
}

impl<'a> BlockWriter<'a> {
    pub fn new(quirks: Quirks, losses: &'a mut Losses) -> BlockWriter<'a> {
        BlockWriter { quirks, losses, ids: CallIds::new(id, usize::MAX) }
    }

    /// The system prompt: a string if it is one text; null if there is none.
    pub fn system(&mut self, parts: &[MessagePart]) -> Value {
        let blocks = self.blocks(parts);
        if blocks.is_empty() { Value::Null } else { plain(blocks) }
    }

    pub fn messages(&mut self, turns: &[ConversationTurn]) -> Vec<Value> {
        let mut drafts: Vec<TurnDraft> = Vec::new();
        let behind = roles_behind(turns);
        for (at, turn) in turns.iter().enumerate() {
            let (mut role, mut blocks) = (turn.role, self.blocks(&turn.parts));
            if role == Role::System {
                let behind_user = drafts.last().is_some_and(|draft| draft.role != Role::Assistant);
                if !(self.quirks.system_turns == Some(true) && behind_user && behind[at] != Some(Role::User)) {
                    role = Role::User;
                    blocks.iter_mut().for_each(remind);
                    if !blocks.is_empty() {
                        self.losses.lose(format!("messages[{at}].role"));
                    }
                }
            }
            match drafts.last_mut() {
                _ if blocks.is_empty() => {}
                Some(draft) if draft.role == role => draft.blocks.append(&mut blocks),
                _ => drafts.push(TurnDraft { role, blocks }),
            }
        }
        if drafts.first().is_none_or(|draft| draft.role != Role::User) {
            drafts.insert(0, TurnDraft { role: Role::User, blocks: vec![json!({ "type": "text", "text": "." })] });
        }
        end_without_space(&mut drafts);
        drafts.into_iter().map(TurnDraft::finish).collect()
    }

    fn blocks(&mut self, parts: &[MessagePart]) -> Vec<Value> {
        parts.iter().filter_map(|part| self.block(part)).collect()
    }

    /// None if the part is empty or Messages has no block for it.
    fn block(&mut self, part: &MessagePart) -> Option<Value> {
        match part {
            MessagePart::Text { text, cache } => text_block(text, cache.as_ref()),
            MessagePart::Refusal(text) => text_block(text, None),
            MessagePart::Image(image) => self.image(image),
            MessagePart::Document(document) => self.document(document),
            MessagePart::Audio(_) => self.losses.part("input_audio"),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => Some(self.call(call)),
            MessagePart::Result(result) => Some(self.result(result)),
        }
    }

    fn image(&mut self, image: &Image) -> Option<Value> {
        lose_detail(image, self.losses);
        let source = match &image.source {
            Source::Url(url) if is_https(url) => json!({ "type": "url", "url": url }),
            Source::Url(_) => return self.losses.part("image_url"),
            Source::Base64 { media_type, data } => {
                let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
                if !["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&media_type) {
                    return self.losses.part(format!("image_url:{media_type}"));
                }
                json!({ "type": "base64", "media_type": media_type, "data": data })
            }
            Source::Text(_) | Source::File(_) => return self.losses.part("file_id"),
        };
        Some(cached(json!({ "type": "image", "source": source }), image.cache.as_ref()))
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        let source = match &document.source {
            Source::Url(url) if is_https(url) => json!({ "type": "url", "url": url }),
            Source::Url(_) => return self.losses.part("file_url"),
            Source::Text(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
            Source::Base64 { media_type, data } if media_type == "application/pdf" => {
                json!({ "type": "base64", "media_type": media_type, "data": data })
            }
            Source::Base64 { media_type, data } => {
                let is_text = media_type.starts_with("text/") || media_type == "application/json";
                match is_text.then(|| text_of_base64(data)).flatten() {
                    Some(text) => json!({ "type": "text", "media_type": "text/plain", "data": text }),
                    None => return self.losses.part(format!("file:{media_type}")),
                }
            }
            Source::File(_) => return self.losses.part("file_id"),
        };
        let mut block = json!({ "type": "document", "source": source });
        block.put("title", document.name.as_deref().filter(|name| !name.is_empty()));
        Some(cached(block, document.cache.as_ref()))
    }

    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        let Some(signature) = signed(thinking) else {
            self.losses.lose("reasoning_content");
            return None;
        };
        Some(match thinking.redacted {
            true => json!({ "type": "redacted_thinking", "data": signature }),
            false => json!({ "type": "thinking", "thinking": thinking.text, "signature": signature }),
        })
    }

    fn call(&mut self, call: &ToolCall) -> Value {
        self.losses.lose_if(call.signature.is_some(), "thought_signature");
        let block =
            json!({ "type": "tool_use", "id": self.ids.call(&call.id), "name": call.name, "input": arguments(call) });
        cached(block, call.cache.as_ref())
    }

    fn result(&mut self, result: &ToolResult) -> Value {
        let mut block = json!({ "type": "tool_result", "tool_use_id": self.ids.result(&result.call_id) });
        let content = self.blocks(&result.parts);
        block.put("content", (!content.is_empty()).then(|| plain(content)));
        block.put("is_error", result.is_error.then_some(true));
        cached(block, result.cache.as_ref())
    }
}

impl TurnDraft {
    fn finish(mut self) -> Value {
        // The sort is stable: results keep their order, and so does the rest.
        self.blocks.sort_by_key(|block| block["type"] != "tool_result");
        json!({ "role": self.role.as_str(), "content": plain(self.blocks) })
    }
}

/// For each turn, the role of the next turn other than system.
fn roles_behind(turns: &[ConversationTurn]) -> Vec<Option<Role>> {
    let mut next = None;
    let mut behind = vec![None; turns.len()];
    for (behind, turn) in behind.iter_mut().zip(turns).rev() {
        *behind = next;
        next = Some(turn.role).filter(|role| *role != Role::System).or(next);
    }
    behind
}

fn text_block(text: &str, cache: Option<&CacheHint>) -> Option<Value> {
    let block = json!({ "type": "text", "text": text });
    (!text.trim().is_empty()).then(|| cached(block, cache))
}

fn cached(mut block: Value, cache: Option<&CacheHint>) -> Value {
    block.put("cache_control", cache.map(cache_control));
    block
}

/// The vendor fetches HTTPS addresses only.
fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// A single plain text block is written as a string.
fn plain(mut blocks: Vec<Value>) -> Value {
    match blocks.as_mut_slice() {
        [Value::Object(block)] if block.len() == 2 && block.get("type").is_some_and(|kind| kind == "text") => {
            block.remove("text").unwrap_or_default()
        }
        _ => Value::Array(blocks),
    }
}

fn remind(block: &mut Value) {
    if let Some(Value::String(text)) = block.get_mut("text") {
        *text = reminder(text);
    }
}

/// The vendor refuses a last assistant turn that ends in white space.
fn end_without_space(drafts: &mut [TurnDraft]) {
    let Some(TurnDraft { role: Role::Assistant, blocks }) = drafts.last_mut() else { return };
    if let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

/// An id with the characters that the vendor accepts: letters, digits, `_` and `-`.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Decodes base64 in either alphabet, with or without padding. None if the bytes are not text.
fn text_of_base64(data: &str) -> Option<String> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = data.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let in_standard = |byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let standard: Vec<u8> = bytes.map(in_standard).collect();
    String::from_utf8(GeneralPurpose::new(&alphabet::STANDARD, LENIENT).decode(standard).ok()?).ok()
}
