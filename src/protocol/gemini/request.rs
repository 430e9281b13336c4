//! Writes a conversation as a `streamGenerateContent` request.

use serde_json::{Map, Value, json};

use super::contents::{contents, texts};
use super::model::GeminiModel;
use crate::protocol::dialect::TranslationOptions;
use crate::protocol::neutral::{Conversation, Format, Losses, Sampling, Tool, ToolChoice};
use crate::protocol::outgoing::{function, lose_choices, lose_extras};

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
        body.insert("systemInstruction".to_owned(), json!({ "parts": system }));
    }
    body.insert("contents".to_owned(), Value::Array(contents));
    let tools = tools(conversation, losses);
    if !tools.is_empty() {
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": &tools }]));
        if let Some(choice) = conversation.tool_choice.as_ref().and_then(choice) {
            body.insert("toolConfig".to_owned(), json!({ "functionCallingConfig": choice }));
        }
    }
    let mut config = sampling(&conversation.sampling, losses);
    if let Some(format) = &conversation.format {
        if tools.is_empty() || !model.is_before_3() || *format == Format::Text {
            output(format, &mut config);
        } else {
            // These models refuse functions together with an answer format.
            losses.meaning("response_format");
        }
    }
    if let Some(thinking) = conversation.reasoning.as_ref().and_then(|reasoning| model.thinking(reasoning, losses)) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(config));
    }
    lose_extras(conversation, losses);
    Value::Object(body)
}

fn tools(conversation: &Conversation, losses: &mut Losses) -> Vec<Value> {
    let may_call = !conversation.tools.is_empty() && conversation.tool_choice != Some(ToolChoice::None);
    if may_call && conversation.parallel_tool_calls == Some(false) {
        losses.meaning("parallel_tool_calls");
    }
    conversation.tools.iter().enumerate().filter_map(|(at, tool)| declaration(at, tool, losses)).collect()
}

fn declaration(at: usize, tool: &Tool, losses: &mut Losses) -> Option<Value> {
    let mut function = function(at, tool, losses)?;
    if let Some(schema) = tool.parameters.as_ref().filter(|schema| takes_something(schema)) {
        function.insert("parametersJsonSchema".to_owned(), schema.clone());
    }
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
    config.insert("responseMimeType".to_owned(), Value::from("application/json"));
    if let Format::Schema { name, description, schema, .. } = format {
        let mut schema = schema.clone();
        if let Value::Object(members) = &mut schema {
            for (member, text) in [("title", name), ("description", description)] {
                if let Some(text) = text {
                    members.entry(member).or_insert_with(|| Value::from(text.as_str()));
                }
            }
        }
        config.insert("responseJsonSchema".to_owned(), schema);
    }
}

fn sampling(sampling: &Sampling, losses: &mut Losses) -> Map<String, Value> {
    let seed = sampling.seed.filter(|seed| i32::try_from(*seed).is_ok());
    let stops: Vec<&str> = sampling.stop.iter().take(STOPS_MAX).map(String::as_str).collect();
    // Models without penalties refuse even zero.
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0).map(Value::from);
    let members = [
        ("maxOutputTokens", sampling.max_tokens.map(Value::from)),
        ("temperature", sampling.temperature.map(Value::from)),
        ("topP", sampling.top_p.map(Value::from)),
        ("topK", sampling.top_k.filter(|top_k| *top_k > 0).map(Value::from)),
        ("presencePenalty", penalty(sampling.presence_penalty)),
        ("frequencyPenalty", penalty(sampling.frequency_penalty)),
        ("seed", seed.map(Value::from)),
        ("stopSequences", (!stops.is_empty()).then(|| Value::from(stops))),
    ];
    if sampling.seed != seed {
        losses.meaning("seed");
    }
    if sampling.stop.len() > STOPS_MAX {
        losses.meaning("stop");
    }
    // `candidateCount` and `logprobs` exist, but not for streams, or the answer could not carry them.
    lose_choices(sampling, losses);
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
