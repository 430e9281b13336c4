//! Writes a conversation as a Converse request, and reports what Bedrock or the model does not accept.

use serde_json::{Map, Value};

use super::content::ContentWriter;
use super::model::{BedrockModel, Family};
use crate::dialect::TranslationOptions;
use crate::dialects::claude::{schema, thinking};
use crate::json::values::{PutMember, json};
use crate::quirks::{Quirks, SamplingForm, ThinkingForm, ThinkingOff};
use crate::translate::outgoing::{
    called_names, lose_choices, lose_penalties, lose_tier, lose_verbosity, object_schema,
};
use crate::translate::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};

/// Limits of `requestMetadata`.
const METADATA_MAX: usize = 16;
const METADATA_LENGTH_MAX: usize = 256;

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let mut content = ContentWriter::new(BedrockModel::of(options), losses);
    let model = content.model;
    let mut system = Vec::new();
    content.system(&conversation.system, &mut system);
    let messages = content.messages(&conversation.turns, &mut system);
    let mut writer =
        BedrockRequestWriter { model, body: Map::new(), fields: Map::new(), thinks: false, unsampled: false };
    let tools = tools(conversation, &mut content);
    let begun = thinking::is_begun(&messages);
    writer.body.put("messages", Some(messages));
    writer.body.put("system", (!system.is_empty()).then_some(system));
    if let Some(reasoning) = &conversation.reasoning {
        writer.reasoning(reasoning, conversation, begun, losses);
    }
    writer.tool_config(conversation, tools, losses);
    writer.sampling(&conversation.sampling, losses);
    writer.format(conversation.format.as_ref(), losses);
    writer.metadata(conversation.metadata.as_ref(), losses);
    rest(conversation, losses);
    writer.body.put("additionalModelRequestFields", (!writer.fields.is_empty()).then_some(writer.fields));
    Value::Object(writer.body)
}

/// Options that Bedrock has no member for.
fn rest(conversation: &Conversation, losses: &mut Losses) {
    lose_penalties(&conversation.sampling, losses);
    lose_choices(&conversation.sampling, losses);
    let one_at_a_time = conversation.parallel_tool_calls == Some(false) && !conversation.tools.is_empty();
    losses.lose_if(one_at_a_time, "parallel_tool_calls");
    lose_verbosity(conversation, losses);
    losses.lose_if(conversation.user.is_some(), conversation.user_member());
    lose_tier(conversation, losses);
}

/// The offered tools. A request with calls in its history must declare tools. If none is offered, it declares those of
/// the history.
fn tools(conversation: &Conversation, content: &mut ContentWriter<'_>) -> Vec<Value> {
    let offered = conversation.tool_choice != Some(ToolChoice::None);
    if conversation.tools.is_empty() && content.has_tools {
        content.losses.lose("tools");
        return named_in_history(conversation);
    }
    if !offered && !content.has_tools {
        return Vec::new();
    }
    content.losses.lose_if(!offered, "tool_choice");
    let mut specs = Vec::new();
    for (number, tool) in conversation.tools.iter().enumerate() {
        if tool.custom {
            content.losses.content(&tool.name);
            continue;
        }
        let mut strict = tool.strict == Some(true) && content.model.takes_schemas;
        content.losses.lose_if(tool.strict == Some(true) && !strict, &format!("tools[{number}].strict"));
        let mut schema = object_schema(tool);
        if strict && content.model.family == Family::Claude {
            let closed = schema::closed_tool(&schema, number, content.losses);
            strict = closed.is_some();
            schema = closed.unwrap_or(schema);
        }
        specs.push(spec(tool, schema, strict));
        match &tool.cache {
            Some(hint) if content.model.caches_tools() => specs.push(content.cache_point(hint)),
            Some(_) => content.losses.lose("cache_control"),
            None => {}
        }
    }
    specs
}

fn spec(tool: &Tool, schema: Value, strict: bool) -> Value {
    let mut spec = json!({ "name": tool.name, "inputSchema": { "json": schema } });
    spec.put("description", tool.description.as_deref().filter(|description| !description.is_empty()));
    spec.put("strict", strict.then_some(true));
    json!({ "toolSpec": spec })
}

fn named_in_history(conversation: &Conversation) -> Vec<Value> {
    let described = |name: &str| Tool {
        name: name.to_owned(),
        description: Some("Not available any more.".to_owned()),
        ..Tool::default()
    };
    let spec = |tool: Tool| spec(&tool, object_schema(&tool), false);
    called_names(conversation).into_iter().map(|name| spec(described(name))).collect()
}

/// Writes all members but the messages.
struct BedrockRequestWriter {
    model: BedrockModel,
    body: Map<String, Value>,
    /// `additionalModelRequestFields`: options that only models of this maker support.
    fields: Map<String, Value>,
    /// A Claude with thinking enabled.
    thinks: bool,
    /// Thinks at the highest level, which excludes all other options.
    unsampled: bool,
}

impl BedrockRequestWriter {
    fn is_claude(&self) -> bool {
        self.model.family == Family::Claude
    }

    fn tool_config(&mut self, conversation: &Conversation, tools: Vec<Value>, losses: &mut Losses) {
        if tools.is_empty() {
            return;
        }
        let mut config = json!({ "tools": tools });
        let choice = match &conversation.tool_choice {
            _ if conversation.tools.is_empty() => None,
            None | Some(ToolChoice::Auto | ToolChoice::None) => None,
            // A thinking Claude cannot be forced either.
            Some(_) if !self.model.can_be_forced || self.thinks => {
                losses.lose("tool_choice");
                None
            }
            Some(ToolChoice::Required) => Some(json!({ "any": {} })),
            Some(ToolChoice::Named(name)) => Some(json!({ "tool": { "name": name } })),
        };
        config.put("toolChoice", choice);
        self.body.put("toolConfig", Some(config));
    }

    /// `begun`: the caller wrote the first words of the answer.
    fn reasoning(&mut self, reasoning: &Reasoning, conversation: &Conversation, begun: bool, losses: &mut Losses) {
        let off =
            reasoning.enabled == Some(false) || reasoning.effort == Some(Effort::None) || reasoning.budget == Some(0);
        let on = reasoning.enabled == Some(true) || reasoning.effort.is_some() || reasoning.budget.is_some();
        match self.model.family {
            _ if !off && !on => {}
            Family::Claude if off => match self.model.quirks.thinking_off {
                ThinkingOff::Never => losses.lose("reasoning"),
                // The others do not think unasked.
                off if self.model.quirks.thinking == ThinkingForm::Effort => {
                    self.fields.put("thinking", Some(json!({ "type": off.as_str() })));
                }
                ThinkingOff::Disabled | ThinkingOff::BetweenTools => {}
            },
            Family::Claude if begun || self.model.quirks.thinking == ThinkingForm::Off => {
                losses.lose("reasoning_effort");
            }
            Family::Claude => self.claude_thinks(reasoning, conversation, losses),
            // These models do not think by default.
            Family::Nova(_) | Family::Other | Family::Unknown if off => {}
            Family::Nova(generation) if generation >= 2 => {
                let level = three_levels(effort(reasoning));
                let config = json!({ "type": "enabled", "maxReasoningEffort": level });
                self.fields.put("reasoningConfig", Some(config));
                self.unsampled = level == "high";
            }
            Family::GptOss if !off => {
                self.fields.put("reasoning_effort", Some(three_levels(effort(reasoning))));
            }
            Family::Qwen if !off => {
                let level = if effort(reasoning) <= Effort::Low { "low" } else { "high" };
                self.fields.put("reasoning_config", Some(level));
            }
            _ => losses.lose("reasoning"),
        }
    }

    fn claude_thinks(&mut self, reasoning: &Reasoning, conversation: &Conversation, losses: &mut Losses) {
        let Quirks { thinking: form, max_output, .. } = self.model.quirks;
        let wants_budget = match form {
            ThinkingForm::Effort => false,
            ThinkingForm::Either => reasoning.budget.is_some(),
            ThinkingForm::Budget | ThinkingForm::Off => true,
        };
        let thinking = if wants_budget {
            let budget = thinking::budget(reasoning, conversation.sampling.max_tokens, max_output);
            let Some(budget) = budget.filter(|_| !thinking::continues_without_thoughts(conversation)) else {
                losses.lose("reasoning_effort");
                return;
            };
            json!({ "type": "enabled", "budget_tokens": budget })
        } else {
            if reasoning.effort.is_some() || reasoning.budget.is_some() {
                let effort = match effort(reasoning) {
                    Effort::Max => "max",
                    other => three_levels(other),
                };
                self.fields.put("output_config", Some(json!({ "effort": effort })));
            }
            let mut thinking = json!({ "type": "adaptive" });
            let show = reasoning.show.filter(|_| form == ThinkingForm::Effort);
            thinking.put("display", show.map(|show| if show { "summarized" } else { "omitted" }));
            thinking
        };
        self.thinks = true;
        self.fields.put("thinking", Some(thinking));
    }

    fn sampling(&mut self, sampling: &Sampling, losses: &mut Losses) {
        let (mut temperature, mut top_p, mut top_k) = (sampling.temperature, sampling.top_p, sampling.top_k);
        let mut max_tokens = sampling.max_tokens;
        if self.unsampled {
            refuse(&mut temperature, "temperature", |_| false, losses);
            refuse(&mut top_p, "top_p", |_| false, losses);
            refuse(&mut max_tokens, "max_tokens", |_| false, losses);
        }
        if self.is_claude() {
            let is_refused = self.model.quirks.sampling == SamplingForm::Refused;
            if is_refused || self.thinks {
                // Such a model accepts only temperature 1, and with thinking only a high `top_p`.
                refuse(&mut temperature, "temperature", |temperature| temperature == 1.0, losses);
                let least = if is_refused { 1.0 } else { 0.95 };
                let kept = top_p.filter(|top_p| *top_p >= least && *top_p < 1.0);
                refuse(&mut top_p, "top_p", |top_p| top_p >= least, losses);
                top_p = kept;
                refuse(&mut top_k, "top_k", |_| false, losses);
            }
            if temperature.is_some_and(|temperature| temperature > 1.0) {
                refuse(&mut temperature, "temperature", |_| false, losses);
            }
            if self.model.quirks.sampling != SamplingForm::Free && temperature.is_some() {
                refuse(&mut top_p, "top_p", |top_p| top_p == 1.0, losses);
            }
        }
        let mut config = Map::new();
        config.put("maxTokens", self.model.quirks.limit(max_tokens, losses));
        config.put("temperature", temperature);
        config.put("topP", top_p);
        let stop: Vec<&str> = sampling.stop.iter().map(String::as_str).filter(|stop| !stop.trim().is_empty()).collect();
        losses.lose_if(stop.len() < sampling.stop.len(), "stop");
        // Asks for the stop sequence that matched. Models without that field ignore this.
        let paths = (!stop.is_empty()).then(|| json!(["/stop_sequence"]));
        config.put("stopSequences", (!stop.is_empty()).then_some(stop));
        self.body.put("inferenceConfig", (!config.is_empty()).then_some(config));
        self.body.put("additionalModelResponseFieldPaths", paths);
        match self.model.family {
            Family::Claude => self.fields.put("top_k", top_k),
            Family::Nova(_) => self.fields.put("inferenceConfig", top_k.map(|top_k| json!({ "topK": top_k }))),
            _ => losses.lose_if(top_k.is_some(), "top_k"),
        }
    }

    fn format(&mut self, format: Option<&Format>, losses: &mut Losses) {
        match format {
            None | Some(Format::Text) => {}
            Some(Format::Schema { name, description, schema, .. }) if self.model.takes_schemas => {
                let schema = match self.is_claude() {
                    true => schema::closed(schema, losses).to_string(),
                    false => schema.to_string(),
                };
                let mut definition = json!({ "schema": schema });
                for (member, value) in [("name", name), ("description", description)] {
                    definition.put(member, value.as_deref().filter(|value| !value.is_empty()));
                }
                let format = json!({ "type": "json_schema", "structure": { "jsonSchema": definition } });
                self.body.put("outputConfig", Some(json!({ "textFormat": format })));
            }
            Some(format) => losses.lose(format.member()),
        }
    }

    /// Only a few short texts are accepted.
    fn metadata(&mut self, metadata: Option<&Map<String, Value>>, losses: &mut Losses) {
        let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) else { return };
        let plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == ' ' || ":_@$#=/+,-.".contains(c);
            text.len() <= METADATA_LENGTH_MAX && text.chars().all(allowed)
        };
        let fits =
            |(name, value): (&String, &Value)| !name.is_empty() && plain(name) && value.as_str().is_some_and(plain);
        let fits = metadata.len() <= METADATA_MAX && metadata.iter().all(fits);
        losses.lose_if(!fits, "metadata");
        self.body.put("requestMetadata", fits.then(|| metadata.clone()));
    }
}

/// Removes an option that the model refuses. It is lost, unless `says_nothing` is true: then it changes nothing.
fn refuse<T: Copy>(option: &mut Option<T>, name: &str, says_nothing: impl Fn(T) -> bool, losses: &mut Losses) {
    if option.take().is_some_and(|value| !says_nothing(value)) {
        losses.lose(name);
    }
}

/// The wanted effort, however it was given.
fn effort(reasoning: &Reasoning) -> Effort {
    reasoning.effort.or(reasoning.budget.map(Effort::of_budget)).unwrap_or(Effort::Medium)
}

fn three_levels(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::XHigh | Effort::Max => "high",
    }
}
