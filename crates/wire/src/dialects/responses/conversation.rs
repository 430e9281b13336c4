//! Reads a Responses request as a conversation. Not for requests that are passed through: see [`super::check()`].

use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::{check_members, members_of, optional, optional_bool, required, wrong_type};
use super::{Invalid, items, namespaces};
use crate::json::numbers::object;
use crate::translate::parameter::{missing, wrong_value};
use crate::translate::{Conversation, Effort, Format, Losses, MessagePart, Reasoning, Tool, ToolChoice};

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
        let names = (name == "tools").then(|| namespaces::names_only(&value)).flatten();
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
        "input" => items::read(value, conversation)?,
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
        let Some((namespace, inner)) = namespaces::tools_of(given) else {
            tools.extend(tool(given, &path, losses)?);
            continue;
        };
        losses.lose_others(members_of(given), &path, &["type", "name", "tools"]);
        for (at, given) in inner.iter().enumerate() {
            let of_namespace = tool(given, &format!("{path}.tools[{at}]"), losses)?;
            tools.extend(of_namespace.map(|tool| Tool { name: namespaces::joined(namespace, &tool.name), ..tool }));
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
