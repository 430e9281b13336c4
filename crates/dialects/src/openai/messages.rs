//! Reads the messages of a chat request as turns.

use std::collections::HashMap;

use serde_json::Value;

use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::members::{ObjectMembers, kind_of, missing, objects, wrong_type, wrong_value};
use photofinish_wire::conversation::signature::{SignatureOwner, tag};
use photofinish_wire::conversation::{
    Audio, CacheHint, Conversation, ConversationTurn, Document, Image, Losses, MessagePart, ReasoningPart, Role,
    Source, ToolCall, ToolResult,
};
use photofinish_wire::json::values::text;

const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];
/// The speaker's name. Agent frameworks send it with every message, so it is reported once and not by message.
const SPEAKER_NAME: &str = "messages.name";
/// Maximum ids that an error names.
const IDS_MAX: usize = 8;

/// Reads all messages into the conversation.
///
/// # Errors
/// The problem, in the vendor's words.
pub(super) fn read(list: Vec<ObjectMembers>, conversation: &mut Conversation) -> Result<(), Invalid> {
    let mut reading = MessageReader { conversation, calls: HashMap::new(), ids: Vec::new(), function: None };
    let count = list.len();
    for (at, message) in list.into_iter().enumerate() {
        reading.message(message, at)?;
    }
    reading.all_answered(count)
}

struct MessageReader<'a> {
    conversation: &'a mut Conversation,
    /// Calls of the last assistant message, by id.
    calls: HashMap<String, UnansweredCall>,
    /// Their ids, in order.
    ids: Vec<String>,
    /// Id and name of the last legacy function call.
    function: Option<(String, String)>,
}

/// A call that must be answered.
struct UnansweredCall {
    name: String,
    custom: bool,
    answered: bool,
}

impl MessageReader<'_> {
    fn message(&mut self, mut message: ObjectMembers, at: usize) -> Result<(), Invalid> {
        let role = message.required_string("role")?;
        if role != "tool" && role != "function" {
            self.all_answered(at)?;
        }
        let cache = message.take("cache_control").map(|value| cache_hint(&value));
        match role.as_str() {
            "system" | "developer" => {
                let content = self.content(&mut message, Speaker::System, cache)?;
                self.conversation.add_system(content);
            }
            "user" => {
                let content = self.content(&mut message, Speaker::User, cache)?;
                self.conversation.turns.push(ConversationTurn { role: Role::User, parts: content });
            }
            "assistant" => self.assistant(&mut message, at, cache)?,
            "tool" => self.tool(&mut message, at, cache)?,
            "function" => self.function(&mut message, cache)?,
            other => return Err(wrong_value(&message.path_of("role"), other, &ROLES)),
        }
        self.conversation.losses.lose_if(message.take("name").is_some(), SPEAKER_NAME);
        message.tell_rest(&mut self.conversation.losses);
        Ok(())
    }

    /// Required content.
    fn content(
        &mut self,
        message: &mut ObjectMembers,
        speaker: Speaker,
        cache: Option<CacheHint>,
    ) -> Result<Vec<MessagePart>, Invalid> {
        let path = message.path_of("content");
        let content = message.take("content").ok_or_else(|| no_content(path.replacen('[', ".[", 1)))?;
        let mut content = read_content(content, &path, speaker, &mut self.conversation.losses)?;
        mark(&mut content, cache);
        Ok(content)
    }

    fn assistant(&mut self, message: &mut ObjectMembers, at: usize, cache: Option<CacheHint>) -> Result<(), Invalid> {
        let mut turn = thinking_of(message);
        let path = message.path_of("content");
        let content = match message.take("content") {
            Some(Value::String(text)) if text.is_empty() => Some(Vec::new()),
            Some(content) => Some(read_content(content, &path, Speaker::Assistant, &mut self.conversation.losses)?),
            None => None,
        };
        let empty = content.is_none();
        turn.extend(content.into_iter().flatten());
        let refusal = message.string("refusal")?.filter(|text| !text.is_empty());
        turn.extend(refusal.map(MessagePart::Refusal));
        turn.extend(images_of(message));
        turn.extend(self.calls(message, at)?);
        if turn.is_empty() && empty && !message.has("audio") {
            return Err(no_content(format!("messages.[{at}].content")));
        }
        mark(&mut turn, cache);
        self.conversation.turns.push(ConversationTurn { role: Role::Assistant, parts: turn });
        Ok(())
    }

    fn calls(&mut self, message: &mut ObjectMembers, at: usize) -> Result<Vec<MessagePart>, Invalid> {
        let mut calls = Vec::new();
        for mut call in message.objects("tool_calls")? {
            let read = read_call(&mut call, &mut self.conversation.losses)?;
            let open = UnansweredCall { name: read.name.clone(), custom: read.custom, answered: false };
            if self.calls.insert(read.id.clone(), open).is_none() {
                self.ids.push(read.id.clone());
            }
            calls.push(MessagePart::Call(read));
            call.tell_rest(&mut self.conversation.losses);
        }
        if let Some(mut function) = message.object("function_call")? {
            let name = function.required_string("name")?;
            let arguments = function.string("arguments")?.unwrap_or_default();
            // Legacy calls have no ids. The position makes this one unique.
            let id = format!("call_{at}");
            self.function = Some((id.clone(), name.clone()));
            calls.push(MessagePart::Call(ToolCall { id, name, arguments, ..ToolCall::default() }));
            function.tell_rest(&mut self.conversation.losses);
        }
        Ok(calls)
    }

    fn tool(&mut self, message: &mut ObjectMembers, at: usize, cache: Option<CacheHint>) -> Result<(), Invalid> {
        if self.calls.is_empty() {
            let message = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
                           'tool_calls'.";
            return Err(Invalid::at(format!("messages.[{at}].role"), message));
        }
        let call_id = message.required_string("tool_call_id")?;
        let Some(open) = self.calls.get_mut(&call_id) else {
            let message = "Invalid parameter: 'tool_call_id' not found in 'tool_calls' of previous message.";
            return Err(Invalid::at(format!("messages.[{at}].tool_call_id"), message));
        };
        open.answered = true;
        let (name, custom) = (open.name.clone(), open.custom);
        message.take("name");
        let is_error = message.boolean("is_error")?.unwrap_or(false);
        let parts = self.content(message, Speaker::Tool, None)?;
        self.conversation.add_result(ToolResult { call_id, name: Some(name), parts, is_error, custom, cache });
        Ok(())
    }

    fn function(&mut self, message: &mut ObjectMembers, cache: Option<CacheHint>) -> Result<(), Invalid> {
        let name = message.required_string("name")?;
        let Some((call_id, _)) = self.function.take_if(|(_, called)| *called == name) else {
            let complaint = "Invalid parameter: messages with role 'function' must be a response to a preceding message \
                             with 'function_call'.";
            return Err(Invalid::at(message.path_of("name"), complaint));
        };
        let path = message.path_of("content");
        let parts = match message.take("content") {
            None => Vec::new(),
            Some(content) => read_content(content, &path, Speaker::Tool, &mut self.conversation.losses)?,
        };
        let name = Some(name);
        self.conversation.add_result(ToolResult { call_id, name, parts, cache, ..ToolResult::default() });
        Ok(())
    }

    /// Forgets the calls of the last assistant message.
    fn all_answered(&mut self, at: usize) -> Result<(), Invalid> {
        let calls = std::mem::take(&mut self.calls);
        let open =
            std::mem::take(&mut self.ids).into_iter().filter(|id| calls.get(id).is_some_and(|call| !call.answered));
        let ids: Vec<String> = open.take(IDS_MAX).map(|id| id.chars().take(64).collect()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        Err(Invalid {
            message: format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                ids.join(", ")
            ),
            param: Some(format!("messages.[{at}].role")),
        })
    }
}

fn no_content(param: String) -> Invalid {
    Invalid::at(param, "Invalid value for 'content': expected a string, got null.")
}

fn read_call(call: &mut ObjectMembers, losses: &mut Losses) -> Result<ToolCall, Invalid> {
    let id = call.required_string("id")?;
    call.take("index");
    let signature = call_signature(call);
    let kind = call.string("type")?.unwrap_or_else(|| "function".to_owned());
    let cache = call.take("cache_control").map(|value| cache_hint(&value));
    let custom = match kind.as_str() {
        "function" => false,
        "custom" => true,
        other => return Err(wrong_value(&call.path_of("type"), other, &["function", "custom"])),
    };
    let (member, text) = if custom { ("custom", "input") } else { ("function", "arguments") };
    let mut function = call.required_object(member)?;
    let name = function.required_string("name")?;
    let arguments = match function.take(text) {
        Some(Value::String(arguments)) => arguments,
        // Some clients send the parsed arguments.
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => return Err(wrong_type(&function.path_of(text), "a string", kind_of(&other))),
        None if custom => return Err(missing(&function.path_of(text))),
        None => String::new(),
    };
    function.tell_rest(losses);
    Ok(ToolCall { id, name, arguments, signature, custom, cache })
}

// Reads the content parts of chat messages, and the members that gateways add next to the content: reasoning in
// several forms, images, cache hints.

/// The speaker of the content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

impl Speaker {
    /// The types that the vendor lists in its complaint.
    fn supported(self) -> &'static [&'static str] {
        match self {
            Speaker::System => &["text"],
            Speaker::Assistant => &["text", "refusal"],
            Speaker::User => &["text", "image_url", "input_audio", "refusal", "audio", "file"],
            Speaker::Tool => &["text", "image_url", "file"],
        }
    }
}

/// Reads content: a string, or a list of parts.
///
/// # Errors
/// The problem, in the vendor's words.
pub(super) fn read_content(
    content: Value,
    path: &str,
    speaker: Speaker,
    losses: &mut Losses,
) -> Result<Vec<MessagePart>, Invalid> {
    match content {
        Value::String(text) => Ok(vec![MessagePart::Text { text, cache: None }]),
        Value::Array(_) => {
            let mut parts = Vec::new();
            for mut part in objects(content, path)? {
                parts.extend(read_part(&mut part, speaker, losses)?);
                part.tell_rest(losses);
            }
            Ok(parts)
        }
        other => Err(wrong_type(path, "one of a string or array of objects", kind_of(&other))),
    }
}

/// Moves a message's cache hint to its last part.
pub(super) fn mark(parts: &mut [MessagePart], hint: Option<CacheHint>) {
    let Some(hint) = hint else { return };
    let cache = parts.iter_mut().rev().find_map(|part| match part {
        MessagePart::Text { cache, .. }
        | MessagePart::Image(Image { cache, .. })
        | MessagePart::Document(Document { cache, .. }) => Some(cache),
        MessagePart::Call(call) => Some(&mut call.cache),
        MessagePart::Result(result) => Some(&mut result.cache),
        _ => None,
    });
    if let Some(cache) = cache {
        cache.get_or_insert(hint);
    }
}

/// `{"type":"ephemeral","ttl":"5m"}`
pub(super) fn cache_hint(value: &Value) -> CacheHint {
    CacheHint { ttl: value.get("ttl").and_then(Value::as_str).map(str::to_owned) }
}

/// Reads the assistant's thoughts, from the most informative form: Anthropic's `thinking_blocks`, OpenRouter's
/// `reasoning_details`, or plain text.
pub(super) fn thinking_of(message: &mut ObjectMembers) -> Vec<MessagePart> {
    let blocks = message.take("thinking_blocks");
    let details = message.take("reasoning_details");
    let plain = ["reasoning_content", "reasoning", "thinking"].map(|name| message.take(name));
    let items = |value: Option<Value>| match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let blocks: Vec<ReasoningPart> = items(blocks).iter().filter_map(thinking_block).collect();
    let mut thoughts = if blocks.is_empty() { of_details(&items(details)) } else { blocks };
    if thoughts.is_empty() {
        let text = plain.into_iter().flatten().find_map(|text| match text {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => None,
        });
        thoughts.extend(text.map(|text| ReasoningPart { text, ..ReasoningPart::default() }));
    }
    thoughts.into_iter().map(MessagePart::Thinking).collect()
}

/// Images that the assistant made (OpenRouter).
pub(super) fn images_of(message: &mut ObjectMembers) -> Vec<MessagePart> {
    let Some(Value::Array(images)) = message.take("images") else { return Vec::new() };
    let urls = images.iter().filter_map(|image| image.pointer("/image_url/url")?.as_str());
    let image = |url: &str| Image { source: source(url.to_owned()), detail: None, cache: None };
    urls.map(|url| MessagePart::Image(image(url))).collect()
}

/// Members, with a JSON pointer into them, where Gemini's OpenAI form and a common gateway put a call's signature.
pub(super) const CALL_SIGNATURES: [(&str, &str); 2] =
    [("extra_content", "/google/thought_signature"), ("provider_specific_fields", "/thought_signature")];

/// Gemini's signature of a call.
pub(super) fn call_signature(call: &mut ObjectMembers) -> Option<String> {
    let found = CALL_SIGNATURES.map(|(name, pointer)| {
        let value = call.take(name)?;
        value.pointer(pointer).and_then(Value::as_str).map(|signature| tag(SignatureOwner::Gemini, signature))
    });
    found.into_iter().flatten().next()
}

/// A URL, or the bytes that a data URL holds.
pub(super) fn source(url: String) -> Source {
    match Source::of_data_url(&url) {
        Some(Source::Base64 { media_type, data }) => {
            Source::Base64 { media_type: media_type.to_ascii_lowercase(), data }
        }
        _ => Source::Url(url),
    }
}

fn read_part(part: &mut ObjectMembers, speaker: Speaker, losses: &mut Losses) -> Result<Option<MessagePart>, Invalid> {
    let kind = part.required_string("type")?;
    let cache = part.take("cache_control").map(|value| cache_hint(&value));
    let supported = speaker.supported();
    Ok(Some(match kind.as_str() {
        "text" => MessagePart::Text { text: part.required_string("text")?, cache },
        "thinking" | "redacted_thinking" if speaker == Speaker::Assistant => {
            let mut block = serde_json::Map::new();
            for name in ["thinking", "signature", "data"] {
                block.extend(part.take(name).map(|value| (name.to_owned(), value)));
            }
            block.insert("type".to_owned(), Value::from(kind));
            // Mistral marks whether a thought is finished.
            part.take("closed");
            return Ok(thinking_block(&Value::Object(block)).map(MessagePart::Thinking));
        }
        // Not in the vendor's API, but harmless: an assistant's image in a history.
        "image_url" if speaker != Speaker::System => MessagePart::Image(image(part, cache, losses)?),
        other if !supported.contains(&other) => {
            return Err(wrong_value(&part.path_of("type"), other, supported));
        }
        "refusal" => MessagePart::Refusal(part.required_string("refusal")?),
        "input_audio" => MessagePart::Audio(audio(part, losses)?),
        "file" => MessagePart::Document(file(part, cache, losses)?),
        other => return Err(wrong_value(&part.path_of("type"), other, supported)),
    }))
}

fn image(part: &mut ObjectMembers, cache: Option<CacheHint>, losses: &mut Losses) -> Result<Image, Invalid> {
    let path = part.path_of("image_url");
    let mut image = match part.take("image_url") {
        None => return Err(missing(&path)),
        // Some clients send the bare URL.
        Some(Value::String(url)) => return Ok(Image { source: source(url), detail: None, cache }),
        Some(object) => ObjectMembers::new(object, path)?,
    };
    let url = image.required_string("url")?;
    if url.is_empty() {
        let path = image.path_of("url");
        return Err(Invalid { message: format!("Invalid '{path}': empty string."), param: Some(path) });
    }
    let detail = image.one_of("detail", &["low", "high", "auto", "original"])?.filter(|detail| detail != "auto");
    image.tell_rest(losses);
    Ok(Image { source: source(url), detail, cache })
}

fn audio(part: &mut ObjectMembers, losses: &mut Losses) -> Result<Audio, Invalid> {
    let mut audio = part.required_object("input_audio")?;
    let read_content = Audio { data: audio.required_string("data")?, format: audio.required_string("format")? };
    audio.tell_rest(losses);
    Ok(read_content)
}

fn file(part: &mut ObjectMembers, cache: Option<CacheHint>, losses: &mut Losses) -> Result<Document, Invalid> {
    let mut file = part.required_object("file")?;
    let name = file.string("filename")?;
    let source = match (file.string("file_data")?, file.string("file_id")?) {
        (Some(data), _) if data.starts_with("data:") || data.contains("://") => source(data),
        // Bare base64. The vendor requires a data URL, compatible servers do not.
        (Some(data), _) => Source::Base64 { media_type: "application/pdf".to_owned(), data },
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(missing(&file.path_of("file_id"))),
    };
    file.tell_rest(losses);
    Ok(Document { source, name, cache })
}

/// Anthropic's form, so a bare signature is Anthropic's. Mistral's `thinking` is a list of text parts.
fn thinking_block(block: &Value) -> Option<ReasoningPart> {
    let text = |name| text(block, name).map(str::to_owned);
    let owner = if block.get("thinking").is_some_and(Value::is_array) {
        SignatureOwner::OpenAi
    } else {
        SignatureOwner::Anthropic
    };
    let signed = |name| text(name).map(|signature| tag(owner, &signature));
    if block.get("type").and_then(Value::as_str) == Some("redacted_thinking") {
        return Some(ReasoningPart { signature: Some(signed("data")?), redacted: true, ..ReasoningPart::default() });
    }
    let listed = || {
        let parts = block.get("thinking")?.as_array()?;
        Some(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<String>())
    };
    let thought = text("thinking").or_else(listed).unwrap_or_default();
    let signature = signed("signature");
    (!thought.is_empty() || signature.is_some()).then_some(ReasoningPart {
        text: thought,
        signature,
        ..ReasoningPart::default()
    })
}

/// OpenRouter's form: entries for a text with its signature, a summary, or encrypted data; the last two may share an
/// id. A bare signature may be from any vendor behind the server.
fn of_details(details: &[Value]) -> Vec<ReasoningPart> {
    let mut thoughts: Vec<ReasoningPart> = Vec::new();
    for detail in details {
        let text = |name| text(detail, name).map(str::to_owned);
        let signed = |name| text(name).map(|signature| tag(SignatureOwner::OpenAi, &signature));
        let id = text("id");
        let thought = match detail.get("type").and_then(Value::as_str) {
            Some("reasoning.encrypted") => {
                let Some(data) = signed("data") else { continue };
                let summary = thoughts.last_mut().filter(|last| id.is_some() && last.id == id);
                if let Some(summary) = summary {
                    summary.signature.get_or_insert(data);
                    continue;
                }
                ReasoningPart { signature: Some(data), redacted: true, id, ..ReasoningPart::default() }
            }
            _ => {
                let (words, signature) = (text("text").or_else(|| text("summary")), signed("signature"));
                if words.is_none() && signature.is_none() {
                    continue;
                }
                ReasoningPart { text: words.unwrap_or_default(), signature, redacted: false, id }
            }
        };
        thoughts.push(thought);
    }
    thoughts
}
