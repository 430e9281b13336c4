//! Writes the turns of a conversation as Gemini's contents: two alternating roles, and parts.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::model::GeminiModel;
use super::signed::NO_SIGNATURE;
use crate::json::values::{PutMember, json};
use crate::translate::outgoing::{arguments, lose_cache, lose_detail, results_first, system_texts};
use crate::translate::signature::{SignatureOwner, own};
use crate::translate::{
    Audio, Conversation, Document, Image, Losses, MessagePart, ReasoningPart, Role, Source, ToolCall, ToolResult,
};

/// Writes the contents. Joins neighbours of one role.
pub(super) fn contents(conversation: &Conversation, model: GeminiModel<'_>, losses: &mut Losses) -> Vec<Value> {
    let mut writer = Contents { all: Vec::new(), calls: HashMap::new(), count: 0, model, losses };
    for turn in results_first(&conversation.turns) {
        // Late system messages become user turns: there is no other place for them.
        let is_model = turn.role == Role::Assistant;
        // An empty turn does not separate its neighbours.
        writer.all.pop_if(|content| content.is_empty());
        if writer.all.last().is_none_or(|content| content.is_model != is_model) {
            writer.all.push(GeminiContent { is_model, ..GeminiContent::default() });
        }
        turn.parts.iter().for_each(|part| writer.part(part));
    }
    writer.all.into_iter().filter_map(GeminiContent::write).collect()
}

/// The texts of a system prompt.
pub(super) fn texts(parts: &[MessagePart], losses: &mut Losses) -> Vec<Value> {
    system_texts(parts, losses).into_iter().filter_map(text_part).collect()
}

struct Contents<'a, 'l> {
    all: Vec<GeminiContent>,
    /// Function and position of a call, by its id.
    calls: HashMap<&'a str, (&'a str, usize)>,
    /// Calls so far.
    count: usize,
    model: GeminiModel<'l>,
    losses: &'l mut Losses,
}

/// A content being written.
#[derive(Default)]
struct GeminiContent {
    is_model: bool,
    /// Results go first, in the order of their calls: without ids, only the order links them.
    results: Vec<(usize, Value)>,
    parts: Vec<Value>,
    /// The content already has a call. Only the first of several has a signature.
    has_call: bool,
}

impl GeminiContent {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.results.is_empty()
    }

    fn write(mut self) -> Option<Value> {
        self.results.sort_by_key(|(at, _)| *at);
        let parts: Vec<Value> = self.results.into_iter().map(|(_, part)| part).chain(self.parts).collect();
        let role = if self.is_model { "model" } else { "user" };
        (!parts.is_empty()).then(|| json!({ "role": role, "parts": parts }))
    }
}

impl<'a> Contents<'a, '_> {
    fn part(&mut self, part: &'a MessagePart) {
        lose_cache(part.cache(), self.losses);
        let written = match part {
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => text_part(text),
            MessagePart::Image(image) => self.image(image),
            MessagePart::Document(document) => self.document(document),
            MessagePart::Audio(audio) => Some(sound(audio)),
            MessagePart::Thinking(thinking) => self.thinking(thinking),
            MessagePart::Call(call) => return self.call(call),
            MessagePart::Result(result) => return self.result(result),
        };
        if let (Some(written), Some(content)) = (written, self.all.last_mut()) {
            content.parts.push(written);
        }
    }

    fn image(&mut self, image: &Image) -> Option<Value> {
        lose_detail(image, self.losses);
        match &image.source {
            Source::Base64 { media_type, data } => Some(inline(media_type, data)),
            Source::Url(url) => self.file(url, "image_url"),
            Source::File(id) => self.file(id, "file_id"),
            Source::Text(text) => text_part(text),
        }
    }

    fn document(&mut self, document: &Document) -> Option<Value> {
        self.losses.lose_if(document.name.is_some(), "document.title");
        match &document.source {
            Source::Base64 { media_type, data } => Some(inline(media_type, data)),
            Source::Text(text) => text_part(text),
            Source::Url(url) => self.file(url, "document.url"),
            Source::File(id) => self.file(id, "file_id"),
        }
    }

    /// Google's own file names are passed on. Newer models fetch public addresses themselves.
    fn file(&mut self, uri: &str, name: &str) -> Option<Value> {
        let own = uri.starts_with("gs://") || uri.starts_with("https://generativelanguage.googleapis.com/");
        let public = uri.starts_with("https://") || uri.starts_with("http://");
        let readable = own || (public && self.model.fetches());
        if !readable {
            return self.losses.part(name);
        }
        let mut file = Map::new();
        file.put("mimeType", media_type_of(uri));
        file.put("fileUri", Some(uri));
        Some(json!({ "fileData": file }))
    }

    /// Thoughts are sent back only with Gemini's own signature. An empty thought is only a signature.
    fn thinking(&mut self, thinking: &ReasoningPart) -> Option<Value> {
        let signature = thinking.signature.as_deref().and_then(|signature| own(SignatureOwner::Gemini, signature));
        let Some(signature) = signature else {
            self.losses.lose("thinking");
            return None;
        };
        let mut part = json!({ "text": thinking.text, "thoughtSignature": signature });
        part.put("thought", (!thinking.text.is_empty()).then_some(true));
        Some(part)
    }

    /// Ids are omitted: Vertex AI rejects them.
    fn call(&mut self, call: &'a ToolCall) {
        self.calls.insert(&call.id, (&call.name, self.count));
        self.count += 1;
        let Some(content) = self.all.last_mut() else { return };
        let mut part = json!({ "functionCall": { "name": call.name, "args": arguments(call) } });
        let needed = (self.model.is_strict() && !content.has_call).then_some(NO_SIGNATURE);
        let signature = call.signature.as_deref().and_then(|signature| own(SignatureOwner::Gemini, signature));
        part.put("thoughtSignature", signature.or(needed));
        content.has_call = true;
        content.parts.push(part);
    }

    fn result(&mut self, result: &'a ToolResult) {
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        for part in &result.parts {
            lose_cache(part.cache(), self.losses);
            match part {
                MessagePart::Text { text, .. } | MessagePart::Document(Document { source: Source::Text(text), .. }) => {
                    texts.push(text.as_str())
                }
                MessagePart::Image(image) => media.extend(self.image(image)),
                MessagePart::Document(document) => media.extend(self.document(document)),
                MessagePart::Audio(audio) => media.push(sound(audio)),
                _ => self.losses.content("tool_result.content"),
            }
        }
        let known = self.calls.get(result.call_id.as_str()).copied();
        let name = result.name.as_deref().or(known.map(|(name, _)| name)).filter(|name| !name.is_empty());
        let key = if result.is_error { "error" } else { "output" };
        let response = json!({
            "functionResponse": { "name": name.unwrap_or("unknown"), "response": { key: texts.join("\n") } },
        });
        if let Some(content) = self.all.last_mut() {
            content.results.push((known.map_or(usize::MAX, |(_, number)| number), response));
            // Parts that are not text follow all results.
            content.parts.extend(media);
        }
    }
}

/// Gemini refuses empty texts.
fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

fn inline(media_type: &str, data: &str) -> Value {
    json!({ "inlineData": { "mimeType": media_type, "data": data } })
}

fn sound(audio: &Audio) -> Value {
    let format = if audio.format == "pcm16" { "pcm" } else { audio.format.as_str() };
    inline(&format!("audio/{format}"), &audio.data)
}

/// The media type of a URL, by its file extension. None if the extension is unknown.
fn media_type_of(uri: &str) -> Option<&'static str> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "mp3" => "audio/mp3",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}
