//! Writes a conversation as a `streamGenerateContent` request.

use serde_json::{Map, Value};

use super::contents::{contents, texts};
use super::model::GeminiModel;
use crate::dialect::TranslationOptions;
use crate::json::values::{PutMember, json};
use crate::translate::outgoing::{function, lose_choices, lose_extras};
use crate::translate::{Conversation, Format, Losses, Sampling, Tool, ToolChoice};

/// Maximum stop sequences.
const STOPS_MAX: usize = 5;

/// Writes a conversation as a request.
pub fn request(conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
    let model = GeminiModel::new(&options.model);
    let mut body = Map::new();
    let system = texts(&conversation.system, losses);
    let mut contents = contents(conversation, model, losses);
    if contents.is_empty() && !system.is_empty() {
        // A system prompt alone is not a valid request.
        contents.push(json!({ "role": "user", "parts": system }));
    } else if !system.is_empty() {
        body.put("systemInstruction", Some(json!({ "parts": system })));
    }
    body.put("contents", Some(contents));
    let tools = tools(conversation, losses);
    if !tools.is_empty() {
        body.put("tools", Some(json!([{ "functionDeclarations": &tools }])));
        let choice = conversation.tool_choice.as_ref().and_then(choice);
        body.put("toolConfig", choice.map(|choice| json!({ "functionCallingConfig": choice })));
    }
    let mut config = sampling(&conversation.sampling, losses);
    if let Some(format) = &conversation.format {
        if tools.is_empty() || !model.is_before_3() || *format == Format::Text {
            output(format, &mut config);
        } else {
            // These models refuse functions together with an answer format.
            losses.lose(format.member());
        }
    }
    let thinking = conversation.reasoning.as_ref().and_then(|reasoning| model.thinking(reasoning, losses));
    config.put("thinkingConfig", thinking);
    body.put("generationConfig", (!config.is_empty()).then_some(config));
    lose_extras(conversation, losses);
    Value::Object(body)
}

fn tools(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let may_call = !conversation.tools.is_empty() && conversation.tool_choice != Some(ToolChoice::None);
    losses.lose_if(may_call && conversation.parallel_tool_calls == Some(false), "parallel_tool_calls");
    conversation.tools.iter().enumerate().filter_map(|(at, tool)| declaration(at, tool, losses)).collect()
}

fn declaration(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Value> {
    let mut function = function(at, tool, losses)?;
    function.put("parametersJsonSchema", tool.parameters.clone().filter(takes_something));
    Some(Value::Object(function))
}

/// False for the schema of an object without members. Some models refuse it, and none needs it.
fn takes_something(schema: &Value) -> bool {
    let is_empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| match name.as_str() {
            "type" => value != "object",
            "properties" | "required" => !is_empty(value),
            "additionalProperties" => value != &Value::Bool(false),
            "$schema" | "title" | "description" => false,
            _ => true,
        }),
        _ => !schema.is_null(),
    }
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({ "mode": "NONE" })),
        ToolChoice::Required => Some(json!({ "mode": "ANY" })),
        ToolChoice::Named(name) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
    }
}

fn output(format: &Format, config: &mut Map<String, Value>) {
    let (Format::Json | Format::Schema { .. }) = format else { return };
    config.put("responseMimeType", Some("application/json"));
    if let Format::Schema { name, description, schema, .. } = format {
        let mut schema = schema.clone();
        if let Value::Object(members) = &mut schema {
            for (member, text) in [("title", name), ("description", description)] {
                if let Some(text) = text {
                    members.entry(member).or_insert_with(|| Value::from(text.as_str()));
                }
            }
        }
        config.put("responseJsonSchema", Some(schema));
    }
}

fn sampling(sampling: &Sampling, losses: &mut Losses) -> Map<String, Value> {
    let seed = sampling.seed.filter(|seed| i32::try_from(*seed).is_ok());
    let stops: Vec<&str> = sampling.stop.iter().take(STOPS_MAX).map(String::as_str).collect();
    // Models without penalties refuse even zero.
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0);
    let mut config = Map::new();
    config.put("maxOutputTokens", sampling.max_tokens);
    config.put("temperature", sampling.temperature);
    config.put("topP", sampling.top_p);
    config.put("topK", sampling.top_k.filter(|top_k| *top_k > 0));
    config.put("presencePenalty", penalty(sampling.presence_penalty));
    config.put("frequencyPenalty", penalty(sampling.frequency_penalty));
    config.put("seed", seed);
    config.put("stopSequences", (!stops.is_empty()).then_some(stops));
    losses.lose_if(sampling.seed != seed, "seed");
    losses.lose_if(sampling.stop.len() > STOPS_MAX, "stop");
    // `candidateCount` and `logprobs` exist, but not for streams, or the answer could not carry them.
    lose_choices(sampling, losses);
    config
}
