//! Writes a conversation as a chat request: tools and options, and reports what cannot be written. `turns` writes the
//! messages.
//!
//! `top_k` is sent to all servers but OpenAI: most know it, and others say so. Metadata is not sent: OpenAI accepts it
//! only with `store`.

use serde_json::{Map, Value, json};

use super::turns;
use crate::protocol::dialect::TranslationOptions;
use crate::protocol::neutral::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};
use crate::protocol::outgoing::{effort_of, lose_cache, openai_tier, openai_user, strict_of};

/// Maximum stop sequences that OpenAI accepts.
const STOPS_MAX: usize = 4;
/// Writes a conversation as a chat request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut body = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("model", Some(Value::from(options.model.as_str())));
    set("messages", Some(Value::Array(turns::messages(conversation, options.takes_thoughts, losses))));
    if !conversation.tools.is_empty() {
        set("tools", Some(conversation.tools.iter().map(|tool| tool_of(tool, losses)).collect()));
        set("tool_choice", conversation.tool_choice.as_ref().map(|choice| choice_of(choice, &conversation.tools)));
        set("parallel_tool_calls", conversation.parallel_tool_calls.map(Value::from));
    }
    set("response_format", conversation.format.as_ref().and_then(|format| format_of(format, losses)));
    set("reasoning_effort", conversation.reasoning.as_ref().and_then(|reasoning| effort(reasoning, options, losses)));
    set("verbosity", conversation.verbosity.as_deref().map(Value::from));
    let sampling = taken(&conversation.sampling, options, losses);
    let limit = if options.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    for (name, value) in sampling_of(&sampling, limit) {
        set(name, value);
    }
    set("user", openai_user(conversation, losses).map(Value::from));
    if conversation.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty()) {
        losses.hint("metadata");
    }
    set("service_tier", openai_tier(conversation, losses).map(Value::from));
    Value::Object(body)
}

fn tool_of(tool: &Tool, losses: &mut Losses) -> Value {
    lose_cache(tool.cache.is_some(), losses);
    let mut inner = Map::from_iter([("name".to_owned(), Value::from(tool.name.as_str()))]);
    if let Some(description) = &tool.description {
        inner.insert("description".to_owned(), Value::from(description.as_str()));
    }
    if tool.custom {
        inner.extend(tool.format.as_ref().map(|format| ("format".to_owned(), grammar_of(format))));
        return json!({ "type": "custom", "custom": inner });
    }
    inner.extend(tool.parameters.as_ref().map(|schema| ("parameters".to_owned(), schema.clone())));
    // `strict` is useless without parameters.
    let strict = tool.parameters.as_ref().and_then(|schema| strict_of(tool.strict, schema, losses));
    inner.extend(strict.map(|strict| ("strict".to_owned(), Value::from(strict))));
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
            let mut inner = Map::from_iter([("name".to_owned(), Value::from(name))]);
            inner.extend(description.as_deref().map(|text| ("description".to_owned(), Value::from(text))));
            inner.insert("schema".to_owned(), schema.clone());
            inner.extend(strict_of(*strict, schema, losses).map(|strict| ("strict".to_owned(), Value::from(strict))));
            Some(json!({ "type": "json_schema", "json_schema": inner }))
        }
    }
}

/// Chat has efforts but no budgets, and no switch for showing thoughts.
fn effort(reasoning: &Reasoning, options: &TranslationOptions, losses: &mut Losses) -> Option<Value> {
    if reasoning.encrypted {
        losses.hint("reasoning.encrypted_content");
    }
    if reasoning.show == Some(false) {
        losses.hint("reasoning.exclude");
    }
    if reasoning.effort.is_none() && reasoning.enabled != Some(false) && reasoning.budget.is_some() {
        losses.hint("budget_tokens");
    }
    let effort = effort_of(reasoning).or((reasoning.enabled == Some(true)).then_some(Effort::Medium))?;
    // OpenAI's scale ends here.
    let most = if options.max_completion_tokens { Effort::XHigh } else { Effort::Max };
    Some(Value::from(effort.min(most).as_str()))
}

/// OpenAI itself takes no `top_k` and only a few stop sequences.
fn taken(sampling: &Sampling, options: &TranslationOptions, losses: &mut Losses) -> Sampling {
    let mut taken = sampling.clone();
    if options.max_completion_tokens {
        if taken.top_k.take().is_some() {
            losses.meaning("top_k");
        }
        if taken.stop.len() > STOPS_MAX {
            losses.meaning("stop");
            taken.stop.truncate(STOPS_MAX);
        }
    }
    taken
}

fn sampling_of(sampling: &Sampling, limit: &'static str) -> [(&'static str, Option<Value>); 12] {
    [
        (limit, sampling.max_tokens.map(Value::from)),
        ("temperature", sampling.temperature.map(Value::from)),
        ("top_p", sampling.top_p.map(Value::from)),
        ("top_k", sampling.top_k.map(Value::from)),
        ("presence_penalty", sampling.presence_penalty.map(Value::from)),
        ("frequency_penalty", sampling.frequency_penalty.map(Value::from)),
        ("seed", sampling.seed.map(Value::from)),
        ("n", sampling.n.map(Value::from)),
        ("stop", (!sampling.stop.is_empty()).then(|| Value::from(sampling.stop.clone()))),
        ("logprobs", sampling.logprobs.map(Value::from)),
        ("top_logprobs", sampling.top_logprobs.map(Value::from)),
        ("logit_bias", sampling.logit_bias.clone()),
    ]
}
