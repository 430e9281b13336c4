//! Writes a conversation as a request to `/api/chat`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use photofinish_wire::conversation::outgoing::{
    arguments, function, lose_cache, lose_choices, lose_detail, lose_extras, lose_schema_names, results_first,
};
use photofinish_wire::conversation::{
    Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning, Sampling, Source,
    Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::quirks::{Quirks, ThinkingForm, TranslationOptions};

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.put("model", Some(options.model.as_str()));
    body.put("messages", Some(messages(conversation, losses)));
    body.put("stream", Some(true));
    let tools = tools(conversation, losses);
    body.put("tools", (!tools.is_empty()).then_some(tools));
    body.put("format", conversation.format.as_ref().and_then(|wanted| format(wanted, losses)));
    let think = conversation.reasoning.as_ref().and_then(|reasoning| think(reasoning, &options.quirks, losses));
    body.put("think", think);
    let sampling = sampling(&conversation.sampling, losses);
    body.put("options", (!sampling.is_empty()).then_some(sampling));
    lose_extras(conversation, losses);
    Value::Object(body)
}

/// Calls cannot be forced or limited to one at a time. Omitting the tools forbids calls.
fn tools(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    if conversation.tools.is_empty() {
        return Vec::new();
    }
    match conversation.tool_choice {
        Some(ToolChoice::None) => return Vec::new(),
        Some(ToolChoice::Required | ToolChoice::Named(_)) => losses.lose("tool_choice"),
        Some(ToolChoice::Auto) | None => {}
    }
    losses.lose_if(conversation.parallel_tool_calls == Some(false), "parallel_tool_calls");
    conversation.tools.iter().enumerate().filter_map(|(at, tool)| declaration(at, tool, losses)).collect()
}

fn declaration(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Value> {
    let mut function = function(at, tool, losses)?;
    let parameters = tool.parameters.clone().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    function.put("parameters", Some(parameters));
    Some(json!({ "type": "function", "function": function }))
}

fn format(format: &Format, losses: &mut Losses) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(Value::from("json")),
        Format::Schema { name, description, schema, .. } => {
            lose_schema_names(name, description, losses);
            Some(schema.clone())
        }
    }
}

/// Thinking is on or off, but for models that take an effort: these always think.
fn think(reasoning: &Reasoning, quirks: &Quirks, losses: &mut Losses) -> Option<Value> {
    losses.lose_if(reasoning.budget.is_some(), "thinking.budget_tokens");
    let effort = reasoning.effort.or(reasoning.budget.map(Effort::of_budget));
    let off = reasoning.enabled == Some(false) || effort == Some(Effort::None);
    if quirks.thinking != ThinkingForm::Effort {
        return (off || effort.is_some() || reasoning.enabled.is_some()).then_some(Value::Bool(!off));
    }
    let effort = if off { Some(Effort::None) } else { effort };
    effort.map(|effort| Value::from(quirks.thinking_levels.level(effort).as_str()))
}

fn sampling(sampling: &Sampling, losses: &mut Losses) -> Map<String, Value> {
    let mut options = Map::new();
    options.put("num_predict", sampling.max_tokens);
    options.put("temperature", sampling.temperature);
    options.put("top_p", sampling.top_p);
    options.put("top_k", sampling.top_k);
    options.put("seed", sampling.seed);
    options.put("presence_penalty", sampling.presence_penalty);
    options.put("frequency_penalty", sampling.frequency_penalty);
    options.put("stop", (!sampling.stop.is_empty()).then(|| sampling.stop.clone()));
    lose_choices(sampling, losses);
    options
}

// Writes the turns of a conversation as Ollama's messages: each one text with its images, and one message per tool
// result.

/// All messages, the system prompt first.
pub(super) fn messages(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let mut writer = Messages { all: Vec::new(), names: HashMap::new(), losses };
    writer.turn("system", &conversation.system);
    for ConversationTurn { role, parts } in results_first(&conversation.turns) {
        writer.turn(role.as_str(), parts);
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
            lose_cache(part.cache(), self.losses);
            match part {
                MessagePart::Call(call) => {
                    self.losses.lose_if(call.signature.is_some(), "thought_signature");
                    self.names.insert(&call.id, &call.name);
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
            MessagePart::Text { text, .. } | MessagePart::Refusal(text) => message.texts.push(text.clone()),
            MessagePart::Thinking(thinking) if thinking.redacted => self.losses.lose("thinking"),
            MessagePart::Thinking(thinking) => message.thinking.push_str(&thinking.text),
            MessagePart::Image(image) => self.image(image, message),
            MessagePart::Document(document) => self.document(document, message),
            MessagePart::Audio(_) => self.losses.content("input_audio"),
            // These become messages of their own.
            MessagePart::Call(_) | MessagePart::Result(_) => {}
        }
    }

    /// Only images within the request: the server fetches nothing.
    fn image(&mut self, image: &Image, message: &mut OllamaMessage) {
        lose_detail(image, self.losses);
        match &image.source {
            Source::Base64 { data, .. } => message.images.push(Value::from(data.as_str())),
            Source::Url(_) => self.losses.content("image_url"),
            Source::File(_) => self.losses.content("file_id"),
            Source::Text(_) => self.losses.content("image"),
        }
    }

    fn document(&mut self, document: &Document, message: &mut OllamaMessage) {
        match &document.source {
            Source::Text(text) => {
                self.losses.lose_if(document.name.is_some(), "document.title");
                message.texts.push(text.clone());
            }
            Source::File(_) => self.losses.content("file_id"),
            Source::Url(_) | Source::Base64 { .. } => self.losses.content("document"),
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        let mut message = OllamaMessage::default();
        for part in &result.parts {
            lose_cache(part.cache(), self.losses);
            self.part(part, &mut message);
        }
        self.losses.lose_if(result.is_error, "is_error");
        let mut written = json!({ "role": "tool", "content": message.texts.join("\n") });
        let called = || self.names.get(result.call_id.as_str()).copied();
        written.put("tool_name", result.name.as_deref().or_else(called));
        written.put("tool_call_id", Some(result.call_id.as_str()).filter(|id| !id.is_empty()));
        written.put("images", (!message.images.is_empty()).then_some(message.images));
        self.all.push(written);
    }

    /// Adds a message, unless it is empty.
    fn push(&mut self, role: &str, message: OllamaMessage) {
        let OllamaMessage { texts, thinking, images, calls } = message;
        if texts.is_empty() && thinking.is_empty() && images.is_empty() && calls.is_empty() {
            return;
        }
        let mut written = json!({ "role": role, "content": texts.join("\n") });
        written.put("thinking", (!thinking.is_empty()).then_some(thinking));
        written.put("images", (!images.is_empty()).then_some(images));
        written.put("tool_calls", (!calls.is_empty()).then_some(calls));
        self.all.push(written);
    }
}

fn tool_call(call: &ToolCall) -> Value {
    let mut written = json!({ "function": { "name": call.name, "arguments": arguments(call) } });
    written.put("id", Some(call.id.as_str()).filter(|id| !id.is_empty()));
    written
}
