//! Reads the top level of a Messages request as a conversation. `content` reads the blocks.
//!
//! Features that only this vendor has (its own tools, servers, files, context editing) are reported as lost by name.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::check::check;
use super::content;
use super::members::{invalid, object, some, string};
use crate::client_error::Invalid;
use crate::json::numbers::parse;
use crate::json::values::json;
use crate::translate::{
    Conversation, ConversationTurn, Effort, Format, Losses, Reasoning, Role, Sampling, Tool, ToolChoice,
};

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
    if let Some(system) = some(&body, "system") {
        read.system = content::system(system, &mut losses)?;
    }
    if let Some(Value::Array(messages)) = body.get("messages") {
        read.turns = messages
            .iter()
            .enumerate()
            .map(|(at, message)| turn(message, at, at + 1 == messages.len(), &mut losses))
            .collect::<Result<_, _>>()?;
    }
    content::name_results(&mut read.turns);
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
    Ok(ConversationTurn { role, parts: content::parts(content, role, at, losses)? })
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
        cache: content::cache(tool),
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
