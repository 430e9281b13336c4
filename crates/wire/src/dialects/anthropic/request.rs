//! Writes a conversation as a Messages request, except the turns (see `blocks`).
//!
//! `max_tokens` is required here, so a default is written. Anthropic's temperature ends at 1, so a higher one is lost.
//! Newer models accept an effort, older ones a thinking budget. If thinking and a forced tool exclude each other, the
//! tool wins.

use serde_json::{Map, Value};

use super::blocks;
use crate::dialect::TranslationOptions;
use crate::dialects::claude::{schema, thinking};
use crate::json::values::{PutMember, json};
use crate::quirks::{Quirks, SamplingForm, ThinkingForm, ThinkingOff};
use crate::translate::outgoing::{
    called_names, lose_choices, lose_metadata, lose_penalties, lose_schema_names, lose_verbosity, object_schema,
};
use crate::translate::{Conversation, Effort, Format, Losses, Sampling, Tool, ToolChoice};

/// Answer tokens if neither the caller nor the model sets a limit, without thinking.
const MAX_TOKENS: u64 = 8_192;

/// Writes a conversation as a Messages request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let quirks = options.quirks;
    let mut body = Map::new();
    let mut blocks = blocks::BlockWriter::new(quirks, losses);
    let (system, messages) = (blocks.system(&conversation.system), blocks.messages(&conversation.turns));
    let thinking = ThinkingRequest::of(conversation, thinking::is_begun(&messages), &quirks, losses);
    body.put("max_tokens", Some(thinking.max_tokens(&conversation.sampling, &quirks, losses)));
    body.put("system", (!system.is_null()).then_some(system));
    body.put("messages", Some(messages));
    let tools = tools(conversation, &quirks, losses);
    if !tools.is_empty() {
        body.put("tool_choice", choice(conversation, &quirks, losses));
        body.put("tools", Some(tools));
    }
    body.put("thinking", thinking.value());
    let config = output_config(conversation, &thinking, &quirks, losses);
    body.put("output_config", (!config.is_empty()).then_some(config));
    sampling(&conversation.sampling, &thinking, &quirks, &mut body, losses);
    accounting(conversation, &mut body, losses);
    Value::Object(body)
}

/// How thinking is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ThinkingRequest {
    mode: Mode,
    effort: Option<Effort>,
    /// The caller does not want to see the thoughts.
    hidden: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    /// Nothing is written.
    #[default]
    Unset,
    Disabled,
    BetweenTools,
    Budget(u64),
    Adaptive,
}

impl ThinkingRequest {
    /// `begun`: the caller wrote the first words of the answer.
    fn of(conversation: &Conversation, begun: bool, quirks: &Quirks, losses: &mut Losses) -> ThinkingRequest {
        let Some(asked) = &conversation.reasoning else { return ThinkingRequest::default() };
        if asked.enabled == Some(false) || asked.effort == Some(Effort::None) {
            let mode = match quirks.thinking_off {
                _ if quirks.thinking == ThinkingForm::Off => Mode::Unset,
                ThinkingOff::Disabled => Mode::Disabled,
                ThinkingOff::BetweenTools => Mode::BetweenTools,
                ThinkingOff::Never => {
                    losses.lose("reasoning_effort");
                    Mode::Unset
                }
            };
            return ThinkingRequest { mode, ..ThinkingRequest::default() };
        }
        let hidden = asked.show == Some(false);
        let wanted = asked.enabled == Some(true) || asked.effort.is_some() || asked.budget.is_some();
        if !wanted {
            return ThinkingRequest::default();
        }
        let adaptive = match quirks.thinking {
            ThinkingForm::Effort => true,
            ThinkingForm::Either => asked.budget.is_none(),
            ThinkingForm::Budget | ThinkingForm::Off => false,
        };
        let thinking = match (adaptive, thinking::budget(asked, conversation.sampling.max_tokens, quirks.max_output)) {
            (true, _) => {
                let effort = asked.effort.or(asked.budget.map(Effort::of_budget));
                ThinkingRequest { mode: Mode::Adaptive, effort, hidden }
            }
            (false, Some(budget)) => ThinkingRequest { mode: Mode::Budget(budget), effort: None, hidden },
            (false, None) => ThinkingRequest::default(),
        };
        let forced = quirks.forced_tools
            && matches!(conversation.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
        let bare = matches!(thinking.mode, Mode::Budget(_)) && thinking::continues_without_thoughts(conversation);
        if thinking.mode == Mode::Unset || quirks.thinking == ThinkingForm::Off || forced || bare || begun {
            losses.lose("reasoning_effort");
            return ThinkingRequest::default();
        }
        thinking
    }

    /// The caller's limit, else the model's, so that no default cuts an answer.
    fn max_tokens(&self, sampling: &Sampling, quirks: &Quirks, losses: &mut Losses) -> u64 {
        let budget = match self.mode {
            Mode::Budget(budget) => budget,
            Mode::Unset | Mode::Disabled | Mode::BetweenTools | Mode::Adaptive => 0,
        };
        let limit = quirks.limit(sampling.max_tokens, losses).or(quirks.max_output);
        limit.unwrap_or_else(|| budget.saturating_add(MAX_TOKENS))
    }

    fn value(&self) -> Option<Value> {
        let mut value = match self.mode {
            Mode::Unset => return None,
            Mode::Disabled => return Some(json!({ "type": "disabled" })),
            Mode::BetweenTools => return Some(json!({ "type": "between_tools" })),
            Mode::Budget(budget) => json!({ "type": "enabled", "budget_tokens": budget }),
            Mode::Adaptive => json!({ "type": "adaptive" }),
        };
        // Newer models omit thoughts by default.
        if self.hidden || self.mode == Mode::Adaptive {
            value["display"] = Value::from(if self.hidden { "omitted" } else { "summarized" });
        }
        Some(value)
    }

    fn is_on(&self) -> bool {
        matches!(self.mode, Mode::Budget(_) | Mode::Adaptive)
    }
}

fn tools(conversation: &Conversation, quirks: &Quirks, losses: &mut Losses) -> Vec<Value> {
    let mut tools = Vec::new();
    for (index, tool) in conversation.tools.iter().enumerate() {
        if tool.custom {
            losses.content(&tool.name);
            continue;
        }
        let lost = tool.strict == Some(true) && !quirks.schemas;
        losses.lose_if(lost, &format!("tools[{index}].function.strict"));
        tools.push(one_tool(tool, index, quirks, losses));
    }
    // A history with calls but without tools is refused. So the called functions are declared, and may not be called.
    if conversation.tools.is_empty() {
        let schema = json!({ "type": "object" });
        tools
            .extend(called_names(conversation).into_iter().map(|name| json!({ "name": name, "input_schema": schema })));
    }
    tools
}

fn one_tool(tool: &Tool, index: usize, quirks: &Quirks, losses: &mut Losses) -> Value {
    let mut value = json!({ "name": tool.name });
    value.put("description", tool.description.as_deref().filter(|text| !text.is_empty()));
    let mut schema = object_schema(tool);
    if tool.strict == Some(true) && quirks.schemas {
        let closed = schema::closed_tool(&schema, index, losses);
        value.put("strict", closed.is_some().then_some(true));
        schema = closed.unwrap_or(schema);
    }
    value["input_schema"] = schema;
    value.put("cache_control", tool.cache.as_ref().map(blocks::cache_control));
    value
}

fn choice(conversation: &Conversation, quirks: &Quirks, losses: &mut Losses) -> Option<Value> {
    if conversation.tools.is_empty() {
        return Some(json!({ "type": "none" }));
    }
    let one_at_a_time = conversation.parallel_calls() == Some(false);
    let asked = conversation.tool_choice.as_ref().map(|choice| quirks.choice(choice, losses));
    let mut choice = match &asked {
        None if one_at_a_time => json!({ "type": "auto" }),
        None => return None,
        Some(ToolChoice::Auto) => json!({ "type": "auto" }),
        Some(ToolChoice::None) => return Some(json!({ "type": "none" })),
        Some(ToolChoice::Required) => json!({ "type": "any" }),
        Some(ToolChoice::Named(name)) => json!({ "type": "tool", "name": name }),
    };
    choice.put("disable_parallel_tool_use", one_at_a_time.then_some(true));
    Some(choice)
}

fn output_config(
    conversation: &Conversation,
    thinking: &ThinkingRequest,
    quirks: &Quirks,
    losses: &mut Losses,
) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(effort) = thinking.effort {
        let name = match effort {
            Effort::None | Effort::Minimal | Effort::Low => "low",
            // Models that also take budgets have no level between high and max.
            Effort::XHigh if quirks.thinking != ThinkingForm::Effort => "high",
            other => other.as_str(),
        };
        config.insert("effort".to_owned(), Value::from(name));
    }
    match &conversation.format {
        None | Some(Format::Text) => {}
        Some(Format::Schema { name, description, schema, .. }) if quirks.schemas => {
            lose_schema_names(name, description, losses);
            let schema = schema::closed(schema, losses);
            config.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
        }
        // There is no free JSON mode, and older models accept no schemas.
        Some(format) => losses.lose(format.member()),
    }
    config
}

fn sampling(
    sampling: &Sampling,
    thinking: &ThinkingRequest,
    quirks: &Quirks,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let is_taken = quirks.sampling != SamplingForm::Refused;
    let free = !thinking.is_on() && is_taken;
    let heated = free && sampling.temperature.is_some_and(|temperature| temperature != 1.0);
    if let Some(temperature) = sampling.temperature.filter(|temperature| *temperature != 1.0) {
        losses.lose_if(!free || !(0.0..=1.0).contains(&temperature), "temperature");
        body.put("temperature", free.then(|| temperature.clamp(0.0, 1.0)));
    }
    if let Some(top_p) = sampling.top_p.filter(|top_p| *top_p != 1.0) {
        // With thinking, the vendor accepts only a high `top_p`. Newer models accept either `temperature` or `top_p`.
        let alone = !(heated && quirks.sampling == SamplingForm::One);
        let fits = alone && (free || (is_taken && top_p >= 0.95));
        losses.lose_if(!fits, "top_p");
        body.put("top_p", fits.then_some(top_p));
    }
    losses.lose_if(!free && sampling.top_k.is_some(), "top_k");
    body.put("top_k", sampling.top_k.filter(|_| free));
    let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).filter(|stop| !stop.trim().is_empty()).collect();
    losses.lose_if(stop.len() < sampling.stop.len(), "stop");
    body.put("stop_sequences", (!stop.is_empty()).then_some(stop));
    lose_penalties(sampling, losses);
    lose_choices(sampling, losses);
}

/// The end user, and the service tier.
fn accounting(conversation: &Conversation, body: &mut Map<String, Value>, losses: &mut Losses) {
    let user = conversation.user.as_ref().filter(|user| !user.is_empty());
    body.put("metadata", user.map(|user| json!({ "user_id": user })));
    lose_metadata(conversation, losses);
    match conversation.service_tier.as_deref() {
        None => {}
        Some("auto") => body.put("service_tier", Some("auto")),
        Some("default" | "standard_only") => body.put("service_tier", Some("standard_only")),
        Some(_) => losses.lose("service_tier"),
    }
    lose_verbosity(conversation, losses);
}
