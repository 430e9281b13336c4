//! Reads the top level of a Messages request as a conversation: options, turns and their blocks.
//!
//! Features that only this vendor has (its own tools, servers, files, context editing) are reported as lost by name.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::signature::{SignatureOwner, SignatureUse, held};
use photofinish_wire::conversation::{
    CacheHint, Conversation, ConversationTurn, Document, Effort, Format, Image, Losses, MessagePart, Reasoning,
    ReasoningPart, Role, Sampling, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use photofinish_wire::json::Json;
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::json;
use photofinish_wire::quirks::{BILLING, reference};

/// Members that are read here, or set later for each upstream.
pub(super) const READ: [&str; 17] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "service_tier",
    "output_config",
    "output_format",
    "cache_control",
];

/// Known members of these.
const KNOWN_WITHIN: [(&str, &[&str]); 2] = [
    ("thinking", &["type", "budget_tokens", "display"]),
    ("tool_choice", &["type", "name", "disable_parallel_tool_use"]),
];

/// Reads a request for translation.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    // Messages of `serde` may quote the request, so only the position is given.
    let unreadable = |error: serde_json::Error| {
        let message =
            format!("The request body is not a valid JSON object: line {} column {}", error.line(), error.column());
        Invalid { message, param: None }
    };
    let raw: HashMap<String, &RawValue> = serde_json::from_slice(body).map_err(unreadable)?;
    check(&|name| raw.get(name).map(|value| value.get()), true)?;
    let body = match parse(body).map_err(unreadable)? {
        Value::Object(body) => body,
        _ => Map::new(),
    };
    let mut read = Conversation { sampling: sampling(&body)?, ..Conversation::default() };
    let mut losses = Losses::default();
    if let Some(given) = some(&body, "system") {
        read.system = system(given, &mut losses)?;
    }
    if let Some(Value::Array(messages)) = body.get("messages") {
        read.turns = messages
            .iter()
            .enumerate()
            .map(|(at, message)| turn(message, at, at + 1 == messages.len(), &mut losses))
            .collect::<Result<_, _>>()?;
    }
    name_results(&mut read.turns);
    if let Some(Value::Array(tools)) = body.get("tools") {
        for (at, value) in tools.iter().enumerate() {
            read.tools.extend(tool(value, at, &mut losses)?);
        }
    }
    tool_choice(&body, &mut read)?;
    read.reasoning = reasoning(&body, read.sampling.max_tokens)?;
    read.format = format(&body, &mut losses)?;
    accounting(&body, &mut read, &mut losses);
    for (name, known) in KNOWN_WITHIN {
        losses.lose_others(body.get(name).and_then(Value::as_object).into_iter().flatten(), name, known);
    }
    for (name, value) in &body {
        match name.as_str() {
            name if READ.contains(&name) || value.is_null() => {}
            "mcp_servers" if value.as_array().is_some_and(Vec::is_empty) => {}
            name => losses.lose_value(name, value),
        }
    }
    read.losses = losses;
    Ok(read)
}

fn sampling(body: &Map<String, Value>) -> Result<Sampling, Invalid> {
    let mut stop = Vec::new();
    if let Some(Value::Array(sequences)) = body.get("stop_sequences") {
        for (at, sequence) in sequences.iter().enumerate() {
            let place = || format!("stop_sequences.{at}");
            let text = sequence.as_str().ok_or_else(|| invalid(&place(), "Input should be a valid string"))?;
            if text.trim().is_empty() {
                return Err(invalid(&place(), "each stop sequence must contain non-whitespace"));
            }
            stop.push(text.to_owned());
        }
    }
    Ok(Sampling {
        max_tokens: body.get("max_tokens").and_then(Value::as_f64).map(|tokens| tokens as u64),
        temperature: body.get("temperature").and_then(Value::as_f64),
        top_p: body.get("top_p").and_then(Value::as_f64),
        top_k: body.get("top_k").and_then(Value::as_i64),
        stop,
        ..Sampling::default()
    })
}

fn turn(message: &Value, at: usize, is_last: bool, losses: &mut Losses) -> Result<ConversationTurn, Invalid> {
    let place = format!("messages.{at}");
    let Value::Object(message) = message else { return Err(invalid(&place, "Input should be an object")) };
    let role = match string(message, "role", &place)? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(invalid(&format!("{place}.role"), "Input should be 'user', 'assistant' or 'system'")),
    };
    for (name, value) in message.iter().filter(|(name, _)| !["role", "content"].contains(&name.as_str())) {
        losses.lose_value(&format!("messages[{at}].{name}"), value);
    }
    let content = message.get("content").ok_or_else(|| invalid(&format!("{place}.content"), "Field required"))?;
    let is_empty = content == "" || content.as_array().is_some_and(Vec::is_empty);
    if is_empty && !(is_last && role == Role::Assistant) {
        let name = if role == Role::Assistant { "assistant" } else { "user" };
        return Err(invalid(&place, &format!("{name} messages must have non-empty content")));
    }
    Ok(ConversationTurn { role, parts: parts(content, role, at, losses)? })
}

/// A tool of the caller; none for a tool that the vendor defines.
fn tool(value: &Value, at: usize, losses: &mut Losses) -> Result<Option<Tool>, Invalid> {
    let place = format!("tools.{at}");
    let Value::Object(tool) = value else { return Err(invalid(&place, "Input should be an object")) };
    match some(tool, "type") {
        None => {}
        Some(Value::String(kind)) if kind == "custom" => {}
        Some(Value::String(kind)) => {
            losses.content(tool.get("name").and_then(Value::as_str).unwrap_or(kind));
            return Ok(None);
        }
        Some(_) => return Err(invalid(&format!("{place}.type"), "Input should be a valid string")),
    }
    let place = format!("{place}.custom");
    let name = string(tool, "name", &place)?;
    if name.is_empty() {
        return Err(invalid(&format!("{place}.name"), "String should have at least 1 character"));
    }
    let schema = object(tool, "input_schema", &place)?;
    for (name, value) in tool.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "type" | "name" | "description" | "input_schema" | "strict" | "cache_control" => {}
            "allowed_callers" if *value == json!(["direct"]) => {}
            _ => losses.lose(format!("tools[{at}].{name}")),
        }
    }
    Ok(Some(Tool {
        name: name.to_owned(),
        description: some(tool, "description")
            .map(|_| string(tool, "description", &place))
            .transpose()?
            .map(str::to_owned),
        parameters: Some(Value::Object(schema.clone())),
        strict: tool.get("strict").and_then(Value::as_bool),
        cache: cache(tool),
        ..Tool::default()
    }))
}

fn tool_choice(body: &Map<String, Value>, read: &mut Conversation) -> Result<(), Invalid> {
    let Some(Value::Object(choice)) = some(body, "tool_choice") else { return Ok(()) };
    read.tool_choice = Some(match string(choice, "type", "tool_choice")? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(string(choice, "name", "tool_choice.tool")?.to_owned()),
        _ => return Err(invalid("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'")),
    });
    read.parallel_tool_calls = choice.get("disable_parallel_tool_use").and_then(Value::as_bool).map(|off| !off);
    Ok(())
}

fn reasoning(body: &Map<String, Value>, max_tokens: Option<u64>) -> Result<Option<Reasoning>, Invalid> {
    let mut reasoning = Reasoning::default();
    if let Some(Value::Object(config)) = some(body, "output_config")
        && some(config, "effort").is_some()
    {
        let effort =
            Effort::from_name(string(config, "effort", "output_config")?).filter(|effort| *effort >= Effort::Low);
        let complaint = "Input should be 'low', 'medium', 'high', 'xhigh' or 'max'";
        reasoning.effort = Some(effort.ok_or_else(|| invalid("output_config.effort", complaint))?);
    }
    if let Some(Value::Object(thinking)) = some(body, "thinking") {
        let kind = string(thinking, "type", "thinking")?;
        let on = match kind {
            "disabled" => false,
            "enabled" | "adaptive" => true,
            _ => return Err(invalid("thinking.type", "Input should be 'enabled', 'disabled' or 'adaptive'")),
        };
        reasoning.enabled = Some(on);
        // A client that sees thoughts sends them back, and their vendor may require the signature then.
        reasoning.encrypted = on;
        reasoning.show = on.then(|| thinking.get("display").is_none_or(|display| display != "omitted"));
        if kind == "enabled" {
            reasoning.budget = Some(budget(thinking, max_tokens)?);
        }
    }
    Ok((reasoning != Reasoning::default()).then_some(reasoning))
}

fn budget(thinking: &Map<String, Value>, max_tokens: Option<u64>) -> Result<u64, Invalid> {
    let place = "thinking.enabled.budget_tokens";
    let budget = thinking.get("budget_tokens").ok_or_else(|| invalid(place, "Field required"))?;
    let budget = budget.as_i64().ok_or_else(|| invalid(place, "Input should be a valid integer"))?;
    match u64::try_from(budget) {
        Ok(budget) if budget >= 1_024 => {
            if max_tokens.is_some_and(|limit| limit <= budget) {
                let message = "`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned();
                return Err(Invalid { message, param: Some("max_tokens".to_owned()) });
            }
            Ok(budget)
        }
        _ => Err(invalid(place, "Input should be greater than or equal to 1024")),
    }
}

/// `output_config.format`, or its former name `output_format`.
fn format(body: &Map<String, Value>, losses: &mut Losses) -> Result<Option<Format>, Invalid> {
    let config = match some(body, "output_config") {
        Some(Value::Object(config)) => Some(config),
        _ => None,
    };
    for name in config.into_iter().flat_map(Map::keys).filter(|name| !["effort", "format"].contains(&name.as_str())) {
        losses.lose(format!("output_config.{name}"));
    }
    let nested = config.and_then(|config| some(config, "format")).map(|format| (format, "output_config.format"));
    let Some((format, place)) = nested.or_else(|| some(body, "output_format").map(|format| (format, "output_format")))
    else {
        return Ok(None);
    };
    let Value::Object(format) = format else { return Err(invalid(place, "Input should be an object")) };
    losses.lose_others(format, place, &["type", "name", "schema"]);
    if string(format, "type", place)? != "json_schema" {
        return Err(invalid(&format!("{place}.type"), "Input should be 'json_schema'"));
    }
    let name = format.get("name").and_then(Value::as_str).map(str::to_owned);
    let schema = Value::Object(object(format, "schema", place)?.clone());
    Ok(Some(Format::Schema { name, description: None, schema, strict: Some(true) }))
}

/// The end user, and the service tier.
fn accounting(body: &Map<String, Value>, read: &mut Conversation, losses: &mut Losses) {
    if let Some(Value::Object(metadata)) = some(body, "metadata") {
        read.user = metadata.get("user_id").and_then(Value::as_str).map(str::to_owned);
        if metadata.keys().any(|name| name != "user_id") {
            losses.lose("metadata");
        }
    }
    match body.get("service_tier").and_then(Value::as_str) {
        None => {}
        Some("standard_only") => read.service_tier = Some("default".to_owned()),
        Some(tier) => read.service_tier = Some(tier.to_owned()),
    }
    // A hint to cache everything. Other vendors do that by default.
    if some(body, "cache_control").is_some() {
        losses.lose("cache_control");
    }
}

// Reads the blocks of a Messages request as parts of a conversation.

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

/// The system prompt: a string or a list of text blocks, without the block that is for Anthropic's accounts alone.
pub(super) fn system(value: &Value, losses: &mut Losses) -> Result<Vec<MessagePart>, Invalid> {
    let place = BlockPath { dotted: "system".to_owned(), bracketed: "system".to_owned() };
    let mut parts = list(value, &place, losses, &mut |kind, block, place, losses| match kind {
        "text" => text(block, place, losses).map(Some),
        _ => invalid_type(place),
    })?;
    parts.retain(|part| !matches!(part, MessagePart::Text { text, .. } if text.starts_with(BILLING)));
    Ok(parts)
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

/// Reports unknown members.
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
        // Its schema is among the tools.
        "tool_reference" if block.contains_key("tool_name") => {
            losses.lose_others(block, &place.bracketed, &["type", "tool_name", "cache_control"]);
            let name = string(block, "tool_name", &format!("{}.tool_reference", place.dotted))?;
            Ok(Some(MessagePart::Text { text: reference(name), cache: cache(block) }))
        }
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

// Checks the top level of a Messages request as the vendor does: required members exist and have the right type.
//
// Not for ranges: servers of this dialect differ in them. Complaints have the vendor's form (place, colon, complaint)
// and never quote a value.

/// Checks the top level of a request. `answers`: it asks for an answer, not for a token count.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>, answers: bool) -> Result<(), Invalid> {
    let found = |name: &str| member(name).map(str::trim);
    let given = |name: &str| found(name).filter(|value| *value != "null");
    let required = |name: &str| found(name).ok_or_else(|| invalid(name, "Field required"));
    let model = required("model")?;
    if !model.starts_with('"') {
        return Err(invalid("model", "Input should be a valid string"));
    }
    if model == "\"\"" {
        return Err(invalid("model", "String should have at least 1 character"));
    }
    messages(required("messages")?)?;
    if answers {
        whole(required("max_tokens")?, "max_tokens", 1)?;
    }
    if let Some(system) = given("system").filter(|system| !system.starts_with(['"', '['])) {
        let complaint =
            if system.starts_with('{') { "Input should be a valid list" } else { "Input should be a valid string" };
        return Err(invalid("system", complaint));
    }
    let lists = ["tools", "stop_sequences", "mcp_servers"];
    let objects = ["tool_choice", "thinking", "metadata", "output_config", "output_format"];
    let words = ["service_tier", "inference_geo"];
    let typed = [
        (lists.as_slice(), '[', "Input should be a valid list"),
        (objects.as_slice(), '{', "Input should be an object"),
        (words.as_slice(), '"', "Input should be a valid string"),
    ];
    for (names, first, complaint) in typed {
        if let Some(name) = names.iter().find(|name| given(name).is_some_and(|value| !value.starts_with(first))) {
            return Err(invalid(name, complaint));
        }
    }
    if given("stream").is_some_and(|value| !matches!(value, "true" | "false")) {
        return Err(invalid("stream", "Input should be a valid boolean"));
    }
    for name in ["temperature", "top_p"] {
        given(name).map_or(Ok(()), |value| number(value, name))?;
    }
    given("top_k").map_or(Ok(()), |value| whole(value, "top_k", 0))
}

fn messages(value: &str) -> Result<(), Invalid> {
    if !value.starts_with('[') {
        return Err(invalid("messages", "Input should be a valid list"));
    }
    if Json::new(&value[1..]).peek() == Some(b']') {
        return Err(invalid("messages", "at least one message is required"));
    }
    Ok(())
}

fn whole(value: &str, name: &str, least: i32) -> Result<(), Invalid> {
    let number = value.parse::<f64>().ok().filter(|number| number.fract() == 0.0);
    match number {
        Some(number) if number >= f64::from(least) => Ok(()),
        Some(_) => Err(invalid(name, &format!("Input should be greater than or equal to {least}"))),
        None => Err(invalid(name, "Input should be a valid integer")),
    }
}

fn number(value: &str, name: &str) -> Result<(), Invalid> {
    if value.parse::<f64>().is_ok() { Ok(()) } else { Err(invalid(name, "Input should be a valid number")) }
}

// Reads members of a Messages request, and writes errors in the vendor's words.

/// A member that is there and not null.
pub(super) fn some<'a>(from: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    from.get(name).filter(|value| !value.is_null())
}

/// A required string.
pub(super) fn string<'a>(from: &'a Map<String, Value>, name: &str, place: &str) -> Result<&'a str, Invalid> {
    match from.get(name) {
        None => Err(invalid(&format!("{place}.{name}"), "Field required")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid(&format!("{place}.{name}"), "Input should be a valid string")),
    }
}

/// A required object.
pub(super) fn object<'a>(
    from: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<&'a Map<String, Value>, Invalid> {
    match from.get(name) {
        None => Err(invalid(&format!("{place}.{name}"), "Field required")),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(invalid(&format!("{place}.{name}"), "Input should be an object")),
    }
}

/// A complaint about a member, such as `messages.0.content`.
pub(super) fn invalid(place: &str, complaint: &str) -> Invalid {
    Invalid { message: format!("{place}: {complaint}"), param: Some(place.to_owned()) }
}
