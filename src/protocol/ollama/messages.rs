//! Writes the turns of a conversation as Ollama's messages: each one text with its images, and one message per tool
//! result.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::protocol::neutral::{
    Conversation, ConversationTurn, Document, Image, Losses, MessagePart, Role, Source, ToolCall, ToolResult,
};
use crate::protocol::outgoing::{arguments, lose_cache, results_first};

/// All messages, the system prompt first.
pub(super) fn messages(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let mut writer = Messages { all: Vec::new(), names: HashMap::new(), losses };
    writer.turn("system", &conversation.system);
    for ConversationTurn { role, parts } in results_first(&conversation.turns) {
        let role = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        writer.turn(role, parts);
    }
    writer.all
}

struct Messages<'a> {
    all: Vec<Value>,
    /// Names of called functions, by call id.
    names: HashMap<&'a str, &'a str>,
    losses: &'a mut Losses,
}

/// A message being written.
#[derive(Default)]
struct OllamaMessage {
    texts: Vec<String>,
    thinking: String,
    images: Vec<Value>,
    calls: Vec<Value>,
}

impl<'a> Messages<'a> {
    fn turn(&mut self, role: &str, parts: &'a [MessagePart]) {
        let mut message = OllamaMessage::default();
        for part in parts {
            match part {
                MessagePart::Call(call) => {
                    self.names.insert(&call.id, &call.name);
                    lose_cache(call.cache.is_some(), self.losses);
                    message.calls.push(tool_call(call));
                }
                MessagePart::Result(result) => {
                    self.push(role, std::mem::take(&mut message));
                    self.result(result);
                }
                other => self.part(other, &mut message),
            }
        }
        self.push(role, message);
    }

    fn part(&mut self, part: &MessagePart, message: &mut OllamaMessage) {
        match part {
            MessagePart::Text { text, cache } => {
                lose_cache(cache.is_some(), self.losses);
                message.texts.push(text.clone());
            }
            MessagePart::Refusal(text) => message.texts.push(text.clone()),
            MessagePart::Thinking(thinking) if thinking.redacted => self.losses.hint("thinking"),
            MessagePart::Thinking(thinking) => message.thinking.push_str(&thinking.text),
            MessagePart::Image(image) => self.image(image, message),
            MessagePart::Document(document) => self.document(document, message),
            MessagePart::Audio(_) => self.losses.meaning("input_audio"),
            // These become messages of their own.
            MessagePart::Call(_) | MessagePart::Result(_) => {}
        }
    }

    /// Only images within the request: the server fetches nothing.
    fn image(&mut self, image: &Image, message: &mut OllamaMessage) {
        lose_cache(image.cache.is_some(), self.losses);
        if image.detail.as_deref().is_some_and(|detail| detail != "auto") {
            self.losses.hint("image_url.detail");
        }
        match &image.source {
            Source::Base64 { data, .. } => message.images.push(Value::from(data.as_str())),
            Source::Url(_) => self.losses.meaning("image_url"),
            Source::File(_) => self.losses.meaning("file_id"),
            Source::Text(_) => self.losses.meaning("image"),
        }
    }

    fn document(&mut self, document: &Document, message: &mut OllamaMessage) {
        lose_cache(document.cache.is_some(), self.losses);
        match &document.source {
            Source::Text(text) => {
                if document.name.is_some() {
                    self.losses.hint("document.title");
                }
                message.texts.push(text.clone());
            }
            Source::File(_) => self.losses.meaning("file_id"),
            Source::Url(_) | Source::Base64 { .. } => self.losses.meaning("document"),
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        let mut message = OllamaMessage::default();
        result.parts.iter().for_each(|part| self.part(part, &mut message));
        lose_cache(result.cache.is_some(), self.losses);
        if result.is_error {
            self.losses.hint("is_error");
        }
        let mut written = json!({ "role": "tool", "content": message.texts.join("\n") });
        if let Some(name) = result.name.as_deref().or_else(|| self.names.get(result.call_id.as_str()).copied()) {
            written["tool_name"] = Value::from(name);
        }
        if !result.call_id.is_empty() {
            written["tool_call_id"] = Value::from(result.call_id.as_str());
        }
        if !message.images.is_empty() {
            written["images"] = Value::Array(message.images);
        }
        self.all.push(written);
    }

    /// Adds a message, unless it is empty.
    fn push(&mut self, role: &str, message: OllamaMessage) {
        let OllamaMessage { texts, thinking, images, calls } = message;
        if texts.is_empty() && thinking.is_empty() && images.is_empty() && calls.is_empty() {
            return;
        }
        let mut written = json!({ "role": role, "content": texts.join("\n") });
        if !thinking.is_empty() {
            written["thinking"] = Value::from(thinking);
        }
        if !images.is_empty() {
            written["images"] = Value::Array(images);
        }
        if !calls.is_empty() {
            written["tool_calls"] = Value::Array(calls);
        }
        self.all.push(written);
    }
}

fn tool_call(call: &ToolCall) -> Value {
    let mut written = json!({ "function": { "name": call.name, "arguments": arguments(call) } });
    if !call.id.is_empty() {
        written["id"] = Value::from(call.id.as_str());
    }
    written
}
