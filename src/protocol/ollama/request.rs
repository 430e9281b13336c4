//! Writes a conversation as a request to `/api/chat`.

use serde_json::{Map, Value, json};

use super::messages::messages;
use crate::protocol::dialect::TranslationOptions;
use crate::protocol::neutral::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};
use crate::protocol::outgoing::{function, lose_choices, lose_extras};

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(options.model.as_str()));
    body.insert("messages".to_owned(), Value::Array(messages(conversation, losses)));
    body.insert("stream".to_owned(), Value::Bool(true));
    let tools = tools(conversation, losses);
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    if let Some(format) = conversation.format.as_ref().and_then(format) {
        body.insert("format".to_owned(), format);
    }
    if let Some(think) = conversation.reasoning.as_ref().and_then(|reasoning| think(reasoning, &options.model, losses))
    {
        body.insert("think".to_owned(), think);
    }
    let sampling = sampling(&conversation.sampling, losses);
    if !sampling.is_empty() {
        body.insert("options".to_owned(), Value::Object(sampling));
    }
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
        Some(ToolChoice::Required | ToolChoice::Named(_)) => losses.meaning("tool_choice"),
        Some(ToolChoice::Auto) | None => {}
    }
    if conversation.parallel_tool_calls == Some(false) {
        losses.meaning("parallel_tool_calls");
    }
    conversation.tools.iter().enumerate().filter_map(|(at, tool)| declaration(at, tool, losses)).collect()
}

fn declaration(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Value> {
    let mut function = function(at, tool, losses)?;
    let parameters = tool.parameters.clone().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    function.insert("parameters".to_owned(), parameters);
    Some(json!({ "type": "function", "function": function }))
}

fn format(format: &Format) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(Value::from("json")),
        Format::Schema { schema, .. } => Some(schema.clone()),
    }
}

/// Only gpt-oss has levels, and it always thinks. For other models thinking is on or off.
fn think(reasoning: &Reasoning, model: &str, losses: &mut Losses) -> Option<Value> {
    if reasoning.budget.is_some() {
        losses.hint("thinking.budget_tokens");
    }
    let effort = reasoning.effort.or(reasoning.budget.map(Effort::of_budget));
    let off = reasoning.enabled == Some(false) || effort == Some(Effort::None);
    if !model.contains("gpt-oss") {
        return (off || effort.is_some() || reasoning.enabled.is_some()).then_some(Value::Bool(!off));
    }
    let level = match effort {
        _ if off => "low",
        Some(Effort::None | Effort::Minimal | Effort::Low) => "low",
        Some(Effort::Medium) => "medium",
        Some(Effort::High | Effort::XHigh | Effort::Max) => "high",
        None => return None,
    };
    Some(Value::from(level))
}

fn sampling(sampling: &Sampling, losses: &mut Losses) -> Map<String, Value> {
    let numbers = [
        ("num_predict", sampling.max_tokens.map(Value::from)),
        ("temperature", sampling.temperature.map(Value::from)),
        ("top_p", sampling.top_p.map(Value::from)),
        ("top_k", sampling.top_k.map(Value::from)),
        ("seed", sampling.seed.map(Value::from)),
        ("presence_penalty", sampling.presence_penalty.map(Value::from)),
        ("frequency_penalty", sampling.frequency_penalty.map(Value::from)),
        ("stop", (!sampling.stop.is_empty()).then(|| Value::from(sampling.stop.clone()))),
    ];
    lose_choices(sampling, losses);
    numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
