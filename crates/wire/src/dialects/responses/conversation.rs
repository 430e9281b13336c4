//! Reads a Responses request as a conversation. Not for requests that are passed through: see [`super::check()`].

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::dialects::responses::Invalid;
use crate::json::numbers::object;
use crate::json::values::json;
use crate::translate::members::{
    ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING, TypeRule, check_types, kind_of, kind_of_text, missing, wrong_value,
};
use crate::translate::outgoing::lose_cache;
use crate::translate::signature::{SignatureOwner, SignatureUse, held, own};
use crate::translate::{
    Audio, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Source, Tool, ToolCall, ToolChoice, ToolResult, members,
};

/// Maximum bytes of the request that an answer repeats: twice before its first token, and once after its last.
const ECHO_MAX: usize = 256 << 10;
/// Members that an answer repeats.
const ECHOED: [&str; 17] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
const CHOICES: [&str; 3] = ["none", "auto", "required"];

/// Reads a request for translation.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    let no_json = || Invalid { message: "We could not parse the JSON body of your request.".to_owned(), param: None };
    let body = object(body).ok_or_else(no_json)?;
    check_members(&body)?;
    let mut conversation = Conversation::default();
    // It precedes every system message of the input.
    if let Some(Value::String(text)) = body.get("instructions") {
        conversation.system.push(MessagePart::Text { text: text.clone(), cache: None });
    }
    for (name, value) in &body {
        if !value.is_null() {
            member(name, value, &mut conversation)?;
        }
    }
    conversation.echo = Arc::new(echo_of(body));
    Ok(conversation)
}

/// Members that the answer repeats, as far as they fit.
fn echo_of(body: Map<String, Value>) -> Map<String, Value> {
    let mut left = ECHO_MAX;
    let mut fits = |value: &Value| {
        let rest = left.checked_sub(value.to_string().len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let echoed = body.into_iter().filter(|(name, value)| ECHOED.contains(&name.as_str()) && !value.is_null());
    let fitting = echoed.filter_map(|(name, value)| {
        if fits(&value) {
            return Some((name, value));
        }
        // Calls of a namespace's tools are written with its name.
        let names = (name == "tools").then(|| names_only(&value)).flatten();
        names.filter(&mut fits).map(|names| (name, names))
    });
    fitting.collect()
}

fn member(name: &str, value: &Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    let sampling = &mut conversation.sampling;
    let text = || value.as_str().map(str::to_owned);
    match name {
        "model" | "stream" | "instructions" => {}
        // A translated answer is never padded.
        "stream_options" => {
            conversation.losses.lose_others(members_of(value), name, &["include_obfuscation"]);
        }
        "input" => read_items(value, conversation)?,
        "tools" => conversation.tools = tools(value, &mut conversation.losses)?,
        "tool_choice" => conversation.tool_choice = tool_choice(value, &mut conversation.losses)?,
        // Every vendor allows parallel calls by default.
        "parallel_tool_calls" => conversation.parallel_tool_calls = value.as_bool().filter(|parallel| !*parallel),
        "text" => read_text(value, conversation)?,
        "reasoning" => read_reasoning(value, conversation)?,
        "include" => read_include(value, conversation),
        "max_output_tokens" => {
            let tokens = value.as_u64().filter(|tokens| *tokens > 0);
            sampling.max_tokens = Some(tokens.ok_or_else(|| Invalid {
                message: "Invalid 'max_output_tokens': integer below minimum value.".to_owned(),
                param: Some(name.to_owned()),
            })?);
        }
        "temperature" => sampling.temperature = value.as_f64(),
        "top_p" => sampling.top_p = value.as_f64(),
        "presence_penalty" => sampling.presence_penalty = value.as_f64().filter(|penalty| *penalty != 0.0),
        "frequency_penalty" => sampling.frequency_penalty = value.as_f64().filter(|penalty| *penalty != 0.0),
        "top_logprobs" => {
            sampling.top_logprobs = value.as_u64().filter(|count| *count > 0);
            sampling.logprobs = sampling.top_logprobs.map(|_| true);
        }
        "safety_identifier" => {
            conversation.user = text();
            conversation.user_is_identifier = true;
        }
        // The former name of the same member.
        "user" if !conversation.user_is_identifier => conversation.user = text(),
        "user" => {}
        "metadata" => {
            conversation.metadata = value.as_object().filter(|metadata| !metadata.is_empty()).cloned();
        }
        "service_tier" => conversation.service_tier = text().filter(|tier| tier != "auto"),
        // A translated answer is never stored.
        "store" if value == false => {}
        "background" if value == false => {}
        "truncation" if value == "disabled" => {}
        // Also `previous_response_id`, `conversation` and `prompt`, and unknown members.
        _ => conversation.losses.lose_value(name, value),
    }
    Ok(())
}

fn tools(value: &Value, losses: &mut Losses) -> Result<Vec<Tool>, Invalid> {
    let mut tools = Vec::new();
    let is_own = |tool: &Value| tool["type"] == "function" || tool["type"] == "custom";
    let is_beside = value.as_array().into_iter().flatten().any(is_own);
    for (at, given) in value.as_array().into_iter().flatten().enumerate() {
        // Codex offers it beside its own tools in every request, and works without it.
        let kind = given["type"].as_str().unwrap_or_default();
        if is_beside && kind.starts_with("web_search") {
            losses.lose(kind);
            continue;
        }
        let path = format!("tools[{at}]");
        let Some((namespace, inner)) = tools_of(given) else {
            tools.extend(tool(given, &path, losses)?);
            continue;
        };
        losses.lose_others(members_of(given), &path, &["type", "name", "tools"]);
        for (at, given) in inner.iter().enumerate() {
            let of_namespace = tool(given, &format!("{path}.tools[{at}]"), losses)?;
            tools.extend(of_namespace.map(|tool| Tool { name: joined(namespace, &tool.name), ..tool }));
        }
    }
    Ok(tools)
}

/// None: the vendor runs it, and others have no such tool.
fn tool(tool: &Value, path: &str, losses: &mut Losses) -> Result<Option<Tool>, Invalid> {
    if !tool.is_object() {
        return Err(wrong_type(path, "an object", tool));
    }
    let kind = required(tool, path, "type")?;
    let custom = kind == "custom";
    if !custom && kind != "function" {
        losses.content(kind);
        return Ok(None);
    }
    let known: &[&str] = if custom {
        &["type", "name", "description", "format"]
    } else {
        &["type", "name", "description", "parameters", "strict"]
    };
    losses.lose_others(members_of(tool), path, known);
    let object = |name: &str| match &tool[name] {
        Value::Null => Ok(None),
        value @ Value::Object(_) => Ok(Some(value.clone())),
        other => Err(wrong_type(&format!("{path}.{name}"), "an object", other)),
    };
    Ok(Some(Tool {
        name: required(tool, path, "name")?.to_owned(),
        description: optional(tool, path, "description")?,
        parameters: if custom { None } else { object("parameters")? },
        strict: if custom { None } else { optional_bool(tool, path, "strict")? },
        custom,
        format: if custom { object("format")?.filter(|format| format["type"] != "text") } else { None },
        cache: None,
    }))
}

fn tool_choice(value: &Value, losses: &mut Losses) -> Result<Option<ToolChoice>, Invalid> {
    Ok(match value {
        Value::String(choice) => Some(match choice.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            other => return Err(wrong_value("tool_choice", other, &CHOICES)),
        }),
        Value::Object(_) => match required(value, "tool_choice", "type")? {
            "function" | "custom" => {
                losses.lose_others(members_of(value), "tool_choice", &["type", "name"]);
                Some(ToolChoice::Named(required(value, "tool_choice", "name")?.to_owned()))
            }
            // A tool that the vendor runs, or a choice among some tools.
            kind => {
                losses.content(kind);
                None
            }
        },
        other => return Err(wrong_type("tool_choice", "one of a string or object", other)),
    })
}

fn read_text(value: &Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "format" => conversation.format = format(value, &mut conversation.losses)?,
            "verbosity" => conversation.verbosity = value.as_str().filter(|word| *word != "medium").map(str::to_owned),
            _ => conversation.losses.lose(format!("text.{name}")),
        }
    }
    Ok(())
}

fn format(value: &Value, losses: &mut Losses) -> Result<Option<Format>, Invalid> {
    let path = "text.format";
    if !value.is_object() {
        return Err(wrong_type(path, "an object", value));
    }
    losses.lose_others(members_of(value), path, &["type", "name", "description", "schema", "strict"]);
    match required(value, path, "type")? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Json)),
        "json_schema" => {
            let schema = match &value["schema"] {
                Value::Null => return Err(missing("text.format.schema")),
                schema @ Value::Object(_) => schema.clone(),
                other => return Err(wrong_type("text.format.schema", "an object", other)),
            };
            Ok(Some(Format::Schema {
                name: Some(required(value, path, "name")?.to_owned()),
                description: optional(value, path, "description")?,
                schema,
                strict: optional_bool(value, path, "strict")?,
            }))
        }
        other => Err(wrong_value("text.format.type", other, &["json_object", "json_schema", "text"])),
    }
}

fn read_reasoning(value: &Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let path = format!("reasoning.{name}");
        let word = || value.as_str().ok_or_else(|| wrong_type(&path, "a string", value));
        match name.as_str() {
            "effort" => {
                let word = word()?;
                let effort = Effort::from_name(word).ok_or_else(|| wrong_value(&path, word, &EFFORTS))?;
                let reasoning = conversation.reasoning.get_or_insert_with(Reasoning::default);
                reasoning.effort = Some(effort);
                reasoning.enabled = (effort == Effort::None).then_some(false);
            }
            "summary" | "generate_summary" => {
                let word = word()?;
                // Others show thoughts or do not; how long a summary is, they decide themselves.
                conversation.losses.lose_if(matches!(word, "concise" | "detailed"), "reasoning.summary");
                conversation.reasoning.get_or_insert_with(Reasoning::default).show = Some(word != "none");
            }
            _ => conversation.losses.lose(path),
        }
    }
    Ok(())
}

fn read_include(value: &Value, conversation: &mut Conversation) {
    for (at, entry) in value.as_array().into_iter().flatten().enumerate() {
        if entry == "reasoning.encrypted_content" {
            conversation.reasoning.get_or_insert_with(Reasoning::default).encrypted = true;
        } else {
            conversation.losses.lose(format!("include[{at}]"));
        }
    }
}

// Reads input items into turns. Consecutive items of the assistant become one turn.

const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];

/// Known members of items, apart from `type`, `id` and `status`.
const KNOWN: [(&str, &[&str]); 6] = [
    ("message", &["role", "content", "phase"]),
    ("function_call", &["call_id", "name", "namespace", "arguments", "parsed_arguments"]),
    ("custom_tool_call", &["call_id", "name", "namespace", "input"]),
    ("function_call_output", &["call_id", "output"]),
    ("custom_tool_call_output", &["call_id", "output"]),
    ("reasoning", &["summary", "content", "encrypted_content"]),
];
/// Known members of their parts.
const KNOWN_OF_PARTS: [(&str, &[&str]); 6] = [
    ("input_text", &["text"]),
    ("output_text", &["text", "parsed"]),
    ("refusal", &["refusal"]),
    ("input_image", &["image_url", "file_id", "detail"]),
    ("input_file", &["filename", "file_data", "file_url", "file_id"]),
    ("input_audio", &["input_audio"]),
];

fn tell(object: &Value, path: &str, known: &[&str], losses: &mut Losses) {
    let others = members_of(object).filter(|(name, _)| !matches!(name.as_str(), "type" | "id" | "status"));
    losses.lose_others(others, path, known);
}

/// Adds the turns of `input`.
pub(super) fn read_items(input: &Value, conversation: &mut Conversation) -> Result<(), Invalid> {
    let items = match input {
        Value::String(text) => {
            let parts = vec![MessagePart::Text { text: text.clone(), cache: None }];
            conversation.turns.push(ConversationTurn { role: Role::User, parts });
            return Ok(());
        }
        Value::Array(items) => items,
        _ => return Ok(()),
    };
    let mut reader = ItemReader { conversation, names: HashMap::new(), signature: None };
    items.iter().enumerate().try_for_each(|(at, item)| reader.item(item, &format!("input[{at}]")))
}

struct ItemReader<'a> {
    conversation: &'a mut Conversation,
    /// Function names, by call id.
    names: HashMap<String, String>,
    /// The signature of the next call.
    signature: Option<String>,
}

impl ItemReader<'_> {
    fn item(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        if !item.is_object() {
            return Err(wrong_type(path, "an object", item));
        }
        let kind = optional(item, path, "type")?;
        // A bare id refers to an item that the vendor stored.
        let kind = match kind.as_deref() {
            None if item["role"].is_null() && item["id"].is_string() => "item_reference",
            None => "message",
            Some(kind) => kind,
        };
        self.tell_unknown(item, kind, path);
        match kind {
            "message" => self.message(item, path),
            "function_call" => self.call(item, path, "arguments"),
            "custom_tool_call" => self.call(item, path, "input"),
            "function_call_output" => self.output(item, path, false),
            "custom_tool_call_output" => self.output(item, path, true),
            "reasoning" => self.reasoning(item, path),
            // Items that the vendor runs or stores itself.
            _ => {
                self.conversation.losses.content(kind);
                Ok(())
            }
        }
    }

    /// Reports members that are not read here, but not those that repeat an earlier answer.
    fn tell_unknown(&mut self, item: &Value, kind: &str, path: &str) {
        let Some((_, known)) = KNOWN.iter().find(|(name, _)| *name == kind) else { return };
        tell(item, path, known, &mut self.conversation.losses);
        for list in ["content", "output"] {
            for (at, part) in item[list].as_array().into_iter().flatten().enumerate() {
                let found = KNOWN_OF_PARTS.iter().find(|(name, _)| part["type"] == *name);
                if let Some((_, known)) = found.filter(|_| kind != "reasoning") {
                    let (path, losses) = (format!("{path}.{list}[{at}]"), &mut self.conversation.losses);
                    tell(part, &path, known, losses);
                    let sound = members_of(&part["input_audio"]);
                    losses.lose_others(sound, &format!("{path}.input_audio"), &["data", "format"]);
                }
            }
        }
    }

    fn message(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        let role = match required(item, path, "role")? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" | "developer" => Role::System,
            other => return Err(wrong_value(&format!("{path}.role"), other, &ROLES)),
        };
        let parts = read_content(&item["content"], &format!("{path}.content"), role == Role::Assistant)?;
        match role {
            Role::User => self.conversation.turns.push(ConversationTurn { role, parts }),
            Role::Assistant => self.add(role, parts),
            Role::System => {
                let (texts, others): (Vec<MessagePart>, Vec<MessagePart>) =
                    parts.into_iter().partition(|part| matches!(part, MessagePart::Text { .. }));
                self.conversation.losses.lose_if(!others.is_empty(), &format!("{path}.content"));
                self.conversation.add_system(texts);
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &Value, path: &str, arguments: &str) -> Result<(), Invalid> {
        let text = |name: &str| required(item, path, name).map(str::to_owned);
        let (id, name, arguments, custom) = (text("call_id")?, text("name")?, text(arguments)?, arguments == "input");
        let name = item["namespace"].as_str().map_or(name.clone(), |namespace| joined(namespace, &name));
        self.names.insert(id.clone(), name.clone());
        let call = ToolCall { id, name, arguments, custom, signature: self.signature.take(), cache: None };
        self.add(Role::Assistant, vec![MessagePart::Call(call)]);
        Ok(())
    }

    fn output(&mut self, item: &Value, path: &str, custom: bool) -> Result<(), Invalid> {
        let call_id = required(item, path, "call_id")?.to_owned();
        let parts = read_content(&item["output"], &format!("{path}.output"), false)?;
        let name = self.names.get(&call_id).cloned();
        self.conversation.add_result(ToolResult { call_id, name, parts, custom, ..ToolResult::default() });
        Ok(())
    }

    fn reasoning(&mut self, item: &Value, path: &str) -> Result<(), Invalid> {
        let encrypted = optional(item, path, "encrypted_content")?;
        let id = optional(item, path, "id")?;
        let mut thinking = ReasoningPart { text: thoughts(item), ..ReasoningPart::default() };
        match held(SignatureOwner::Responses, &encrypted.unwrap_or_default()) {
            SignatureUse::Thought(signature) => {
                if own(SignatureOwner::Responses, &signature).is_some() {
                    thinking.redacted = thinking.text.is_empty();
                    thinking.id = id;
                }
                thinking.signature = Some(signature);
            }
            SignatureUse::Redacted(data) => {
                thinking.signature = Some(data);
                thinking.redacted = true;
            }
            SignatureUse::Call(signature) => self.signature = Some(signature),
            SignatureUse::Unsigned => {}
        }
        if !thinking.text.is_empty() || thinking.signature.is_some() {
            self.add(Role::Assistant, vec![MessagePart::Thinking(thinking)]);
        }
        Ok(())
    }

    /// Adds to the last turn if it is of this role, else begins one.
    fn add(&mut self, role: Role, parts: Vec<MessagePart>) {
        match self.conversation.turns.last_mut() {
            Some(turn) if turn.role == role => turn.parts.extend(parts),
            _ => self.conversation.turns.push(ConversationTurn { role, parts }),
        }
    }
}

// Reads and writes content parts of input items: text, images, files and audio.

const OF_USER: [&str; 4] = ["input_text", "input_image", "input_file", "input_audio"];
const OF_ASSISTANT: [&str; 2] = ["output_text", "refusal"];

/// The reasoning text of an item: its thoughts if shown, else their summary.
pub(super) fn thoughts(item: &Value) -> String {
    let texts = |name: &str| -> Vec<&str> {
        let parts = item[name].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty()).collect()
    };
    let content = texts("content");
    // Parts are paragraphs, as in a stream.
    if content.is_empty() { texts("summary").join("\n\n") } else { content.join("\n\n") }
}

/// Reads a string or a list of parts. `path` is its place in the request.
pub(super) fn read_content(content: &Value, path: &str, assistant: bool) -> Result<Vec<MessagePart>, Invalid> {
    match content {
        Value::String(text) => Ok(vec![MessagePart::Text { text: text.clone(), cache: None }]),
        Value::Array(parts) => {
            parts.iter().enumerate().map(|(at, part)| read_part(part, &format!("{path}[{at}]"), assistant)).collect()
        }
        Value::Null => Err(missing(path)),
        other => Err(wrong_type(path, "one of a string or array of objects", other)),
    }
}

fn read_part(part: &Value, path: &str, assistant: bool) -> Result<MessagePart, Invalid> {
    if !part.is_object() {
        return Err(wrong_type(path, "an object", part));
    }
    let kind = required(part, path, "type")?;
    match kind {
        "input_text" | "output_text" if assistant == (kind == "output_text") => {
            Ok(MessagePart::Text { text: required(part, path, "text")?.to_owned(), cache: None })
        }
        "refusal" if assistant => Ok(MessagePart::Refusal(required(part, path, "refusal")?.to_owned())),
        "input_image" if !assistant => image(part, path),
        "input_file" if !assistant => file(part, path),
        "input_audio" if !assistant => {
            let (audio, path) = (&part["input_audio"], format!("{path}.input_audio"));
            if audio.is_null() {
                return Err(missing(&path));
            }
            let text = |name: &str| required(audio, &path, name).map(str::to_owned);
            Ok(MessagePart::Audio(Audio { format: text("format")?, data: text("data")? }))
        }
        other => {
            let supported: &[&str] = if assistant { &OF_ASSISTANT } else { &OF_USER };
            Err(wrong_value(&format!("{path}.type"), other, supported))
        }
    }
}

fn image(part: &Value, path: &str) -> Result<MessagePart, Invalid> {
    let detail = optional(part, path, "detail")?.filter(|detail| detail != "auto");
    let at = format!("{path}.image_url");
    let source = match (optional(part, path, "image_url")?, optional(part, path, "file_id")?) {
        (Some(url), _) => source(&url).ok_or_else(|| no_url(&at, "image", "image/png"))?,
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(missing(&at)),
    };
    Ok(MessagePart::Image(Image { source, detail, cache: None }))
}

fn file(part: &Value, path: &str) -> Result<MessagePart, Invalid> {
    let name = optional(part, path, "filename")?;
    let text = |name: &str| optional(part, path, name);
    let source = match (text("file_data")?, text("file_url")?, text("file_id")?) {
        (Some(data), _, _) => {
            data_url(&data).ok_or_else(|| no_url(&format!("{path}.file_data"), "supported", "application/pdf"))?
        }
        (None, Some(url), _) => Source::Url(url),
        (None, None, Some(id)) => Source::File(id),
        (None, None, None) => return Err(missing(&format!("{path}.file_id"))),
    };
    Ok(MessagePart::Document(Document { source, name, cache: None }))
}

fn no_url(param: &str, what: &str, media_type: &str) -> Invalid {
    Invalid {
        message: format!(
            "Invalid '{param}'. Expected a valid URL or a base64-encoded data URL with a {what} MIME type (e.g. 'data:{media_type};base64,aW1n')."
        ),
        param: Some(param.to_owned()),
    }
}

fn source(url: &str) -> Option<Source> {
    let web = url.starts_with("https://") || url.starts_with("http://");
    if web { Some(Source::Url(url.to_owned())) } else { data_url(url) }
}

fn data_url(url: &str) -> Option<Source> {
    Source::of_data_url(url)
        .filter(|source| !matches!(source, Source::Base64 { media_type, .. } if media_type.is_empty()))
}

/// Writes a part of a user message or a tool result. None if the dialect does not support the part; that is reported to
/// `losses`.
pub(super) fn write(part: &MessagePart, losses: &mut Losses) -> Option<Value> {
    lose_cache(part.cache(), losses);
    match part {
        MessagePart::Text { text, .. } | MessagePart::Refusal(text) => {
            Some(json!({ "type": "input_text", "text": text }))
        }
        MessagePart::Image(image) => {
            let detail = image.detail.as_deref().unwrap_or("auto");
            let url = url_of(&image.source, losses)?;
            Some(json!({ "type": "input_image", "image_url": url, "detail": detail }))
        }
        MessagePart::Document(document) => write_document(document, losses),
        MessagePart::Audio(audio) => Some(json!({
            "type": "input_audio", "input_audio": { "data": audio.data, "format": audio.format },
        })),
        // These are separate items.
        MessagePart::Thinking(_) | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

fn write_document(document: &Document, losses: &mut Losses) -> Option<Value> {
    match &document.source {
        Source::Text(text) => {
            let name = document.name.iter().map(|name| format!("{name}\n\n"));
            Some(json!({ "type": "input_text", "text": name.chain([text.clone()]).collect::<String>() }))
        }
        Source::Url(url) => Some(json!({ "type": "input_file", "file_url": url })),
        source => {
            let name = document.name.as_deref().unwrap_or(match source {
                Source::Base64 { media_type, .. } if media_type == "application/pdf" => "document.pdf",
                _ => "document",
            });
            let data = url_of(source, losses)?;
            Some(json!({ "type": "input_file", "filename": name, "file_data": data }))
        }
    }
}

/// A URL of the bytes. None if they are in one vendor's file store.
fn url_of(source: &Source, losses: &mut Losses) -> Option<String> {
    source.url().or_else(|| losses.part("file_id"))
}

// Checks a Responses request, in OpenAI's words. Quotes no values except names of types and roles.

/// Types of top-level members. Null counts as absent, but not for `model`.
const TYPES: [TypeRule; 8] = [
    (
        &["model", "instructions", "previous_response_id", "safety_identifier", "service_tier", "user"],
        "a string",
        STRING,
    ),
    (&["input"], "one of a string or array of objects", &["a string", "an array"]),
    (&["background", "parallel_tool_calls", "store", "stream"], "a boolean", BOOLEAN),
    (&["frequency_penalty", "presence_penalty", "temperature", "top_p"], "a decimal", NUMBER),
    (&["max_output_tokens", "top_logprobs"], "an integer", INTEGER),
    (&["include"], "an array of strings", ARRAY),
    (&["tools"], "an array of objects", ARRAY),
    (&["metadata", "reasoning", "text"], "an object", OBJECT),
];

/// Each upstream of a race would begin a job of its own, and a later question for its result might go to another one.
const BACKGROUND: &str = "Unsupported parameter: 'background'. This gateway waits for every answer, and cannot ask for the \
    result of a background response later: send the request without it, or with 'background': false.";
/// Members that can replace `input`.
const INPUTS: [&str; 4] = ["input", "previous_response_id", "prompt", "conversation"];

/// Checks the top level of a request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_kinds(&|name| member(name).map(kind_of_text))?;
    if member("background") == Some("true") {
        return Err(Invalid { message: BACKGROUND.to_owned(), param: Some("background".to_owned()) });
    }
    Ok(())
}

/// The same for a parsed request.
pub(super) fn check_members(body: &Map<String, Value>) -> Result<(), Invalid> {
    check_kinds(&|name| body.get(name).map(kind_of))
}

fn check_kinds(kind_of: &dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid> {
    match kind_of("model") {
        None => return Err(missing("model")),
        Some("null") => return Err(members::wrong_type("model", "a string", "null")),
        Some(_) => {}
    }
    if !INPUTS.iter().any(|name| kind_of(name).is_some_and(|kind| kind != "null")) {
        return Err(missing("input"));
    }
    check_types(&TYPES, kind_of)
}

pub(super) fn wrong_type(param: &str, expected: &str, value: &Value) -> Invalid {
    members::wrong_type(param, expected, kind_of(value))
}

/// A required string.
pub(super) fn required<'a>(object: &'a Value, path: &str, name: &str) -> Result<&'a str, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(text),
        Value::Null => Err(missing(&format!("{path}.{name}"))),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// The members of an object.
pub(super) fn members_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// An optional string.
pub(super) fn optional(object: &Value, path: &str, name: &str) -> Result<Option<String>, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// An optional boolean.
pub(super) fn optional_bool(object: &Value, path: &str, name: &str) -> Result<Option<bool>, Invalid> {
    match &object[name] {
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a boolean", other)),
    }
}

// Tools of a namespace (Codex: those of an MCP server), which only Responses has. For other dialects both names are
// joined into one; the call of such a tool gets its own names back.

/// Between the names.
const BETWEEN: &str = "__";
/// Maximum bytes of a tool's name: OpenAI's limit, the lowest of all vendors.
const NAME_MAX: usize = 64;

/// One name for a tool of a namespace. A long name ends in a checksum instead.
pub(super) fn joined(namespace: &str, name: &str) -> String {
    let whole = format!("{namespace}{BETWEEN}{name}");
    if whole.len() <= NAME_MAX {
        return whole;
    }
    let checksum = format!("_{:08x}", crc32fast::hash(whole.as_bytes()));
    whole[..whole.floor_char_boundary(NAME_MAX - checksum.len())].to_owned() + &checksum
}

/// The namespaces of a request with nothing but the names of their tools. None: it has none.
pub(super) fn names_only(tools: &Value) -> Option<Value> {
    let namespaces = tools.as_array()?.iter().filter_map(tools_of).map(|(namespace, tools)| {
        let named = tools.iter().map(|tool| json!({ "type": tool["type"], "name": tool["name"] }));
        json!({ "type": "namespace", "name": namespace, "tools": named.collect::<Vec<_>>() })
    });
    let namespaces: Vec<Value> = namespaces.collect();
    (!namespaces.is_empty()).then_some(Value::Array(namespaces))
}

/// The name and the tools, if this is a namespace.
pub(super) fn tools_of(tool: &Value) -> Option<(&str, &[Value])> {
    let is_namespace = tool["type"] == "namespace";
    is_namespace.then_some((tool["name"].as_str()?, tool["tools"].as_array()?.as_slice()))
}

/// The namespace and the name of each tool, by its joined name.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<String, (String, String)>);

impl Namespaces {
    /// From the members of the request that an answer repeats.
    pub fn of(echo: &Map<String, Value>) -> Namespaces {
        let tools = echo.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(tools_of);
        let named = tools.flat_map(|(namespace, tools)| {
            let names = tools.iter().filter_map(|tool| tool["name"].as_str());
            names.map(move |name| (joined(namespace, name), (namespace.to_owned(), name.to_owned())))
        });
        Namespaces(named.collect())
    }

    /// The namespace and the name of a called tool.
    pub fn split(&self, name: String) -> (Option<String>, String) {
        match self.0.get(&name) {
            Some((namespace, own)) => (Some(namespace.clone()), own.clone()),
            None => (None, name),
        }
    }
}
