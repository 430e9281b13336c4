//! Writes a conversation as a Responses request.

use serde_json::{Map, Value, json};

use super::{TranslationOptions, content};
use crate::protocol::neutral::signature::{SignatureOwner, own};
use crate::protocol::neutral::{
    Conversation, Effort, Format, Losses, MessagePart, Reasoning, ReasoningPart, Role, Tool, ToolCall, ToolChoice,
    ToolResult,
};
use crate::protocol::outgoing::{
    effort_of, lose_cache, lose_choices, lose_penalties, openai_tier, openai_user, strict_of,
};

/// The vendor's minimum limit, in tokens.
const TOKENS_MIN: u64 = 16;
/// Writes a conversation as a request. The vendor stores nothing, because each request is complete.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("model", Value::from(options.model.as_str()));
    let instructions = texts(&conversation.system, losses);
    if !instructions.is_empty() {
        put("instructions", Value::from(instructions));
    }
    put("input", Value::Array(input(conversation, losses)));
    if !conversation.tools.is_empty() {
        put("tools", conversation.tools.iter().map(|tool| write_tool(tool, losses)).collect());
        // Both are refused without tools.
        if let Some(choice) = &conversation.tool_choice {
            put("tool_choice", write_choice(choice, &conversation.tools));
        }
        if let Some(parallel) = conversation.parallel_tool_calls {
            put("parallel_tool_calls", Value::from(parallel));
        }
    }
    let mut text = Map::new();
    text.extend(
        conversation
            .format
            .as_ref()
            .and_then(|format| write_format(format, losses))
            .map(|format| ("format".to_owned(), format)),
    );
    text.extend(conversation.verbosity.as_ref().map(|word| ("verbosity".to_owned(), Value::from(word.as_str()))));
    if !text.is_empty() {
        put("text", Value::Object(text));
    }
    if let Some(reasoning) = &conversation.reasoning {
        let wanted = write_reasoning(reasoning);
        if !wanted.is_empty() {
            put("reasoning", Value::Object(wanted));
        }
        if thinks(reasoning) {
            put("include", json!(["reasoning.encrypted_content"]));
        }
    }
    sampling(conversation, &mut body, losses);
    about(conversation, &mut body, losses);
    body.insert("store".to_owned(), Value::from(false));
    body.insert("stream".to_owned(), Value::from(true));
    Value::Object(body)
}

fn sampling(conversation: &Conversation, body: &mut Map<String, Value>, losses: &mut Losses) {
    let sampling = &conversation.sampling;
    if let Some(tokens) = sampling.max_tokens {
        if tokens < TOKENS_MIN {
            losses.hint("max_tokens");
        }
        body.insert("max_output_tokens".to_owned(), Value::from(tokens.max(TOKENS_MIN)));
    }
    for (name, value) in [("temperature", sampling.temperature), ("top_p", sampling.top_p)] {
        body.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    }
    if sampling.top_k.is_some() {
        losses.meaning("top_k");
    }
    lose_penalties(sampling, losses);
    if !sampling.stop.is_empty() {
        losses.meaning("stop");
    }
    // The vendor supports log probabilities, but a translated answer does not.
    lose_choices(sampling, losses);
}

/// Writes the end user, the metadata and the service tier.
fn about(conversation: &Conversation, body: &mut Map<String, Value>, losses: &mut Losses) {
    body.extend(openai_user(conversation, losses).map(|user| ("safety_identifier".to_owned(), Value::from(user))));
    match &conversation.metadata {
        Some(metadata) if metadata.len() <= 16 && metadata.values().all(Value::is_string) => {
            body.insert("metadata".to_owned(), Value::Object(metadata.clone()));
        }
        Some(_) => losses.hint("metadata"),
        None => {}
    }
    body.extend(openai_tier(conversation, losses).map(|tier| ("service_tier".to_owned(), Value::from(tier))));
}

/// The texts of system prompts, joined.
fn texts(parts: &[MessagePart], losses: &mut Losses) -> String {
    let mut texts = Vec::new();
    for part in parts {
        match part {
            MessagePart::Text { text, cache } => {
                lose_cache(cache.is_some(), losses);
                texts.push(text.as_str());
            }
            _ => losses.meaning("system"),
        }
    }
    texts.join("\n\n")
}

fn input(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let mut items = Vec::new();
    for turn in &conversation.turns {
        let mut message = Vec::new();
        for part in &turn.parts {
            let item = match part {
                MessagePart::Result(result) => Some(write_result(result, losses)),
                MessagePart::Call(call) => Some(write_call(call, losses)),
                MessagePart::Thinking(thinking) => match write_thinking(thinking) {
                    Some(item) => Some(item),
                    None => {
                        losses.hint("reasoning");
                        continue;
                    }
                },
                _ => None,
            };
            if let Some(item) = item {
                flush(turn.role, &mut message, &mut items);
                items.push(item);
                continue;
            }
            message.extend(match (turn.role, part) {
                (Role::Assistant, _) => write_output(part, losses),
                _ => content::write(part, losses),
            });
        }
        flush(turn.role, &mut message, &mut items);
    }
    items
}

/// Ends a message, unless it is empty.
fn flush(role: Role, message: &mut Vec<Value>, items: &mut Vec<Value>) {
    if message.is_empty() {
        return;
    }
    let role = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    items.push(json!({ "type": "message", "role": role, "content": std::mem::take(message) }));
}

/// A part of an assistant message.
fn write_output(part: &MessagePart, losses: &mut Losses) -> Option<Value> {
    match part {
        MessagePart::Text { text, cache } => {
            lose_cache(cache.is_some(), losses);
            Some(json!({ "type": "output_text", "text": text, "annotations": [] }))
        }
        MessagePart::Refusal(text) => Some(json!({ "type": "refusal", "refusal": text })),
        MessagePart::Image(_) => {
            losses.meaning("image");
            None
        }
        MessagePart::Document(_) => {
            losses.meaning("document");
            None
        }
        MessagePart::Audio(_) => {
            losses.meaning("audio");
            None
        }
        MessagePart::Thinking(_) | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

fn write_call(call: &ToolCall, losses: &mut Losses) -> Value {
    lose_cache(call.cache.is_some(), losses);
    let (id, name) = (&call.id, &call.name);
    if call.custom {
        return json!({ "type": "custom_tool_call", "call_id": id, "name": name, "input": call.arguments });
    }
    let arguments = if call.arguments.is_empty() { "{}" } else { call.arguments.as_str() };
    json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments })
}

fn write_result(result: &ToolResult, losses: &mut Losses) -> Value {
    lose_cache(result.cache.is_some(), losses);
    // There is no such member. The text says what went wrong.
    if result.is_error {
        losses.hint("is_error");
    }
    let kind = if result.custom { "custom_tool_call_output" } else { "function_call_output" };
    let output = match result.parts.as_slice() {
        [] => Value::from(""),
        [MessagePart::Text { text, cache: None }] => Value::from(text.as_str()),
        parts => parts.iter().filter_map(|part| content::write(part, losses)).collect(),
    };
    json!({ "type": kind, "call_id": result.call_id, "output": output })
}

/// Reasoning that the Responses API made itself. None for other reasoning, which it would refuse.
fn write_thinking(thinking: &ReasoningPart) -> Option<Value> {
    let encrypted = thinking.signature.as_deref().and_then(|signature| own(SignatureOwner::Responses, signature))?;
    let summary: Vec<Value> = Some(&thinking.text)
        .filter(|text| !text.is_empty())
        .map(|text| json!({ "type": "summary_text", "text": text }))
        .into_iter()
        .collect();
    let mut item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": encrypted });
    if let Some(id) = thinking.id.as_deref().filter(|id| !id.is_empty()) {
        item["id"] = Value::from(id);
    }
    Some(item)
}

fn write_tool(tool: &Tool, losses: &mut Losses) -> Value {
    lose_cache(tool.cache.is_some(), losses);
    let kind = if tool.custom { "custom" } else { "function" };
    let mut written = json!({ "type": kind, "name": tool.name });
    if let Some(description) = &tool.description {
        written["description"] = Value::from(description.as_str());
    }
    if tool.custom {
        if let Some(format) = &tool.format {
            written["format"] = write_grammar(format);
        }
        return written;
    }
    let none = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let parameters = tool.parameters.clone().unwrap_or_else(none);
    // Only this vendor is strict by default.
    written["strict"] = Value::from(strict_of(tool.strict, &parameters, losses).unwrap_or(false));
    written["parameters"] = parameters;
    written
}

/// Chat nests a grammar in an object.
fn write_grammar(format: &Value) -> Value {
    let mut flat = format.clone();
    if let (Some(grammar), Some(members)) = (format["grammar"].as_object(), flat.as_object_mut()) {
        members.shift_remove("grammar");
        members.extend(grammar.clone());
    }
    flat
}

fn write_choice(choice: &ToolChoice, tools: &[Tool]) -> Value {
    match choice {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) => {
            let custom = tools.iter().any(|tool| tool.name == *name && tool.custom);
            json!({ "type": if custom { "custom" } else { "function" }, "name": name })
        }
    }
}

fn write_format(format: &Format, losses: &mut Losses) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(json!({ "type": "json_object" })),
        Format::Schema { name, description, schema, strict } => {
            let name = name.as_deref().unwrap_or("response");
            let mut written = json!({ "type": "json_schema", "name": name, "schema": schema });
            if let Some(description) = description {
                written["description"] = Value::from(description.as_str());
            }
            if let Some(strict) = strict_of(*strict, schema, losses) {
                written["strict"] = Value::from(strict);
            }
            Some(written)
        }
    }
}

fn write_reasoning(reasoning: &Reasoning) -> Map<String, Value> {
    let mut written = Map::new();
    let effort = effort_of(reasoning);
    if let Some(effort) = effort {
        // The vendor's scale ends here.
        let effort = effort.min(Effort::XHigh);
        written.insert("effort".to_owned(), Value::from(effort.as_str()));
    }
    let show = reasoning.show.unwrap_or(reasoning.enabled == Some(true));
    if show && effort != Some(Effort::None) && reasoning.enabled != Some(false) {
        written.insert("summary".to_owned(), Value::from("auto"));
    }
    written
}

/// Whether the model is asked to think. Then its thoughts are requested, to be sent back with the next turn.
fn thinks(reasoning: &Reasoning) -> bool {
    let asked = reasoning.enabled == Some(true)
        || reasoning.encrypted
        || reasoning.show == Some(true)
        || reasoning.budget.is_some_and(|budget| budget > 0)
        || reasoning.effort.is_some();
    asked && reasoning.enabled != Some(false) && reasoning.effort != Some(Effort::None)
}
