//! Writes a conversation as a request to `/api/chat`.

use serde_json::{Map, Value};

use super::messages::messages;
use crate::dialect::TranslationOptions;
use crate::json::values::{PutMember, json};
use crate::translate::outgoing::{function, lose_choices, lose_extras, lose_schema_names};
use crate::translate::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.put("model", Some(options.model.as_str()));
    body.put("messages", Some(messages(conversation, losses)));
    body.put("stream", Some(true));
    let tools = tools(conversation, losses);
    body.put("tools", (!tools.is_empty()).then_some(tools));
    body.put("format", conversation.format.as_ref().and_then(|wanted| format(wanted, losses)));
    let think = conversation.reasoning.as_ref().and_then(|reasoning| think(reasoning, &options.model, losses));
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

/// Only gpt-oss has levels, and it always thinks. For other models thinking is on or off.
fn think(reasoning: &Reasoning, model: &str, losses: &mut Losses) -> Option<Value> {
    losses.lose_if(reasoning.budget.is_some(), "thinking.budget_tokens");
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
