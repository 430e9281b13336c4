//! Writes a conversation as a chat request: tools and options, and reports what cannot be written. `turns` writes the
//! messages.
//!
//! `top_k` is sent to all servers except OpenAI: most support it, and others report an error. Metadata is not sent:
//! OpenAI accepts it only with `store`.

use serde_json::{Map, Value};

use super::turns;
use crate::dialect::TranslationOptions;
use crate::json::values::{PutMember, json};
use crate::translate::outgoing::{effort_of, lose_cache, lose_metadata, openai_tier, openai_user, strict_of};
use crate::translate::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};

/// Maximum stop sequences that OpenAI accepts.
const STOPS_MAX: usize = 4;

/// Writes a conversation as a chat request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    body.put("model", Some(options.model.as_str()));
    body.put("messages", Some(turns::messages(conversation, &options.quirks, losses)));
    if !conversation.tools.is_empty() {
        body.put("tools", Some(conversation.tools.iter().map(|tool| tool_of(tool, losses)).collect::<Value>()));
        let asked = conversation.tool_choice.as_ref().map(|choice| options.quirks.choice(choice, losses));
        body.put("tool_choice", asked.map(|choice| choice_of(&choice, &conversation.tools)));
        body.put("parallel_tool_calls", conversation.parallel_calls());
    }
    body.put("response_format", conversation.format.as_ref().and_then(|format| format_of(format, losses)));
    let effort = conversation.reasoning.as_ref().and_then(|reasoning| effort(reasoning, options, losses));
    body.put("reasoning_effort", effort);
    body.put("verbosity", conversation.verbosity.as_deref());
    sampling(&conversation.sampling, options, &mut body, losses);
    body.put("user", openai_user(conversation, losses));
    lose_metadata(conversation, losses);
    body.put("service_tier", openai_tier(conversation, losses));
    Value::Object(body)
}

fn tool_of(tool: &Tool, losses: &mut Losses) -> Value {
    lose_cache(tool.cache.as_ref(), losses);
    let mut inner = json!({ "name": tool.name });
    inner.put("description", tool.description.as_deref());
    if tool.custom {
        inner.put("format", tool.format.as_ref().map(grammar_of));
        return json!({ "type": "custom", "custom": inner });
    }
    inner.put("parameters", tool.parameters.clone());
    // `strict` is useless without parameters.
    inner.put("strict", tool.parameters.as_ref().and_then(|schema| strict_of(tool.strict, schema, losses)));
    json!({ "type": "function", "function": inner })
}

/// Chat nests a grammar in an object.
fn grammar_of(format: &Value) -> Value {
    match (format.get("type").and_then(Value::as_str), format.get("definition")) {
        (Some("grammar"), Some(definition)) => json!({
            "type": "grammar", "grammar": { "definition": definition, "syntax": format.get("syntax") },
        }),
        _ => format.clone(),
    }
}

fn choice_of(choice: &ToolChoice, tools: &[Tool]) -> Value {
    match choice {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) if tools.iter().any(|tool| tool.custom && tool.name == *name) => {
            json!({ "type": "custom", "custom": { "name": name } })
        }
        ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

fn format_of(format: &Format, losses: &mut Losses) -> Option<Value> {
    match format {
        Format::Text => None,
        Format::Json => Some(json!({ "type": "json_object" })),
        Format::Schema { name, description, schema, strict } => {
            let name = name.as_deref().unwrap_or("answer");
            let mut inner = json!({ "name": name });
            inner.put("description", description.as_deref());
            inner.put("schema", Some(schema.clone()));
            inner.put("strict", strict_of(*strict, schema, losses));
            Some(json!({ "type": "json_schema", "json_schema": inner }))
        }
    }
}

/// Chat has efforts but no budgets, and no switch for showing thoughts.
fn effort(reasoning: &Reasoning, options: &TranslationOptions, losses: &mut Losses) -> Option<Value> {
    losses.lose_if(reasoning.encrypted, "reasoning.encrypted_content");
    losses.lose_if(reasoning.show == Some(false), "reasoning.exclude");
    let has_budget = reasoning.effort.is_none() && reasoning.enabled != Some(false) && reasoning.budget.is_some();
    losses.lose_if(has_budget, "budget_tokens");
    losses.lose_if(reasoning.is_off_without_effort(), "reasoning_effort");
    let effort = effort_of(reasoning)?;
    // OpenAI's scale ends here.
    let most = if options.quirks.max_completion_tokens { Effort::XHigh } else { Effort::Max };
    Some(Value::from(effort.min(most).as_str()))
}

/// OpenAI itself accepts no `top_k` and only a few stop sequences.
fn sampling(sampling: &Sampling, options: &TranslationOptions, body: &mut Map<String, Value>, losses: &mut Losses) {
    let is_openai = options.quirks.max_completion_tokens;
    let stops_max = if is_openai { STOPS_MAX } else { usize::MAX };
    losses.lose_if(is_openai && sampling.top_k.is_some(), "top_k");
    losses.lose_if(sampling.stop.len() > stops_max, "stop");
    let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).take(stops_max).collect();
    body.put(if is_openai { "max_completion_tokens" } else { "max_tokens" }, sampling.max_tokens);
    body.put("temperature", sampling.temperature);
    body.put("top_p", sampling.top_p);
    body.put("top_k", sampling.top_k.filter(|_| !is_openai));
    body.put("presence_penalty", sampling.presence_penalty);
    body.put("frequency_penalty", sampling.frequency_penalty);
    body.put("seed", sampling.seed);
    body.put("n", sampling.n);
    body.put("stop", (!stop.is_empty()).then_some(stop));
    body.put("logprobs", sampling.logprobs);
    body.put("top_logprobs", sampling.top_logprobs);
    body.put("logit_bias", sampling.logit_bias.clone());
}
