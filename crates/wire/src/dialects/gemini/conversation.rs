//! Reads a `generateContent` request as a conversation: its options. `turns` reads the contents. Not for requests that
//! are passed through: see [`check()`].

use serde_json::Value;

use super::turns;
use crate::client_error::Invalid;
use crate::json::numbers::parse;
use crate::translate::members::{ObjectMembers, objects};
use crate::translate::parameter::{
    ARRAY, OBJECT, TypeRule, check_types, is_empty_list, kind_of, kind_of_text, wrong_type, wrong_value,
};
use crate::translate::{Conversation, Effort, Format, Losses, Reasoning, Sampling, Tool, ToolChoice};

const TYPES: [TypeRule; 3] = [
    (&["contents"], "an array of objects", &["an array", "an object"]),
    (&["tools", "safetySettings"], "an array of objects", ARRAY),
    (&["generationConfig", "toolConfig"], "an object", OBJECT),
];
const MODES: [&str; 4] = ["AUTO", "ANY", "NONE", "VALIDATED"];

/// Checks the top level of a request. `counted`: a token count, whose contents may be in `generateContentRequest`.
///
/// # Errors
/// What is wrong, in the vendor's words where it has some.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>, counted: bool) -> Result<(), Invalid> {
    let inner = member("generateContentRequest").filter(|_| counted);
    if inner.is_none() && member("contents").is_none_or(is_empty_list) {
        return Err(without_contents());
    }
    check_types(&TYPES, &|name| member(name).map(kind_of_text))
}

fn without_contents() -> Invalid {
    Invalid {
        message: "* GenerateContentRequest.contents: contents is not specified".to_owned(),
        param: Some("contents".to_owned()),
    }
}

/// Reads a request for translation.
///
/// # Errors
/// What is wrong, with its place.
pub fn conversation(body: &[u8]) -> Result<Conversation, Invalid> {
    let unreadable =
        |_| Invalid { message: "Invalid JSON payload received. The body is not valid JSON".to_owned(), param: None };
    let mut body: Value = parse(body).map_err(unreadable)?;
    to_camel_case(&mut body);
    let mut request = ObjectMembers::new(body, String::new())?;
    request.take("model");
    let mut conversation = Conversation::default();
    turns::system(&mut request, &mut conversation)?;
    let contents = match request.take("contents") {
        None => return Err(without_contents()),
        Some(one @ Value::Object(_)) => Value::Array(vec![one]),
        Some(contents) => contents,
    };
    turns::read(objects(contents, "contents")?, &mut conversation)?;
    for tool in request.objects("tools")? {
        read_tool(tool, &mut conversation)?;
    }
    if let Some(config) = request.object("toolConfig")? {
        conversation.tool_choice = tool_choice(config, &mut conversation.losses)?;
    }
    if let Some(config) = request.object("generationConfig")? {
        generation(config, &mut conversation)?;
    }
    request.tell_rest(&mut conversation.losses);
    Ok(conversation)
}

/// Members whose own members are the caller's words, not the vendor's.
const FREE: [&str; 9] = [
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "responseFormat",
    "labels",
    "schema",
];

/// Google takes names as `maxOutputTokens` and as `max_output_tokens`.
fn to_camel_case(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(to_camel_case),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(name, mut value)| {
                    let name = if name.contains('_') { camel(&name) } else { name };
                    if !FREE.contains(&name.as_str()) {
                        to_camel_case(&mut value);
                    }
                    (name, value)
                })
                .collect();
        }
        _ => {}
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &head.to_uppercase() + rest
    })
}

/// Functions are the caller's. Everything else Google runs itself.
fn read_tool(mut tool: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    for mut function in tool.objects("functionDeclarations")? {
        let path = function.path_of("parameters");
        let parameters = match function.take("parametersJsonSchema").or_else(|| function.take("parameters")) {
            Some(mut schema @ Value::Object(_)) => {
                to_json_schema(&mut schema);
                Some(schema)
            }
            None => None,
            Some(other) => return Err(wrong_type(&path, "an object", kind_of(&other))),
        };
        let (name, description) = (function.required_string("name")?, function.string("description")?);
        function.tell_rest(&mut conversation.losses);
        conversation.tools.push(Tool { name, description, parameters, ..Tool::default() });
    }
    for (name, _) in tool.into_rest() {
        conversation.losses.content(name);
    }
    Ok(())
}

/// Google's schemas have types in capitals, and `nullable`.
fn to_json_schema(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.shift_remove("propertyOrdering");
    if let Some(Value::String(name)) = members.get_mut("type") {
        *name = name.to_ascii_lowercase();
    }
    if members.shift_remove("nullable") == Some(Value::Bool(true))
        && let Some(kind) = members.get_mut("type")
    {
        *kind = Value::from(vec![kind.take(), Value::from("null")]);
    }
    for (name, value) in members {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "defs", Value::Object(members)) => members.values_mut().for_each(to_json_schema),
            ("items" | "additionalProperties", schema) => to_json_schema(schema),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(to_json_schema);
            }
            // Counts are texts in Google's form.
            ("minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties", count) => {
                if let Some(number) = count.as_str().and_then(|text| text.parse::<u64>().ok()) {
                    *count = Value::from(number);
                }
            }
            _ => {}
        }
    }
}

fn tool_choice(mut config: ObjectMembers, losses: &mut Losses) -> Result<Option<ToolChoice>, Invalid> {
    let Some(mut calling) = config.object("functionCallingConfig")? else {
        config.tell_rest(losses);
        return Ok(None);
    };
    let names: Vec<String> = match calling.take("allowedFunctionNames") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let choice = match calling.one_of("mode", &MODES)?.as_deref() {
        Some("ANY") => match names.as_slice() {
            [name] => Some(ToolChoice::Named(name.clone())),
            _ => {
                losses.lose_if(!names.is_empty(), "allowedFunctionNames");
                Some(ToolChoice::Required)
            }
        },
        Some("NONE") => Some(ToolChoice::None),
        _ => None,
    };
    calling.tell_rest(losses);
    config.tell_rest(losses);
    Ok(choice)
}

fn generation(mut config: ObjectMembers, conversation: &mut Conversation) -> Result<(), Invalid> {
    let stop = match config.take("stopSequences") {
        None => Vec::new(),
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(other) => {
            return Err(wrong_type(&config.path_of("stopSequences"), "an array of strings", kind_of(&other)));
        }
    };
    let penalty = |penalty: Option<f64>| penalty.filter(|penalty| *penalty != 0.0);
    conversation.sampling = Sampling {
        max_tokens: config.count("maxOutputTokens", 1)?,
        temperature: config.number("temperature", 0.0, 2.0)?,
        top_p: config.number("topP", 0.0, 1.0)?,
        // A decimal number in older clients.
        top_k: config.integer("topK")?.filter(|top_k| *top_k > 0),
        presence_penalty: penalty(config.number("presencePenalty", -2.0, 2.0)?),
        frequency_penalty: penalty(config.number("frequencyPenalty", -2.0, 2.0)?),
        seed: config.integer("seed")?,
        n: config.count("candidateCount", 1)?.filter(|n| *n > 1),
        stop,
        logprobs: config.boolean("responseLogprobs")?.filter(|wanted| *wanted),
        top_logprobs: config.count("logprobs", 0)?.filter(|count| *count > 0),
        logit_bias: None,
    };
    conversation.format = format(&mut config)?;
    if let Some(thinking) = config.object("thinkingConfig")? {
        conversation.reasoning = reasoning(thinking, &mut conversation.losses)?;
    }
    let only_text = |value: &Value| *value == Value::from(vec!["TEXT"]);
    let modalities = config.take("responseModalities").filter(|value| !only_text(value));
    conversation.losses.lose_if(modalities.is_some(), "generationConfig.responseModalities");
    config.tell_rest(&mut conversation.losses);
    Ok(())
}

fn format(config: &mut ObjectMembers) -> Result<Option<Format>, Invalid> {
    let schema = config.take("responseJsonSchema").or_else(|| config.take("responseSchema"));
    let schema = schema.map(|mut schema| {
        to_json_schema(&mut schema);
        schema
    });
    let path = config.path_of("responseMimeType");
    match (config.string("responseMimeType")?.as_deref(), schema) {
        (None | Some("text/plain"), None) => Ok(None),
        (None | Some("application/json"), Some(schema)) => {
            Ok(Some(Format::Schema { name: None, description: None, schema, strict: None }))
        }
        (Some("application/json"), None) => Ok(Some(Format::Json)),
        (Some(other), _) => Err(wrong_value(&path, other, &["text/plain", "application/json"])),
    }
}

fn reasoning(mut thinking: ObjectMembers, losses: &mut Losses) -> Result<Option<Reasoning>, Invalid> {
    let mut read = Reasoning { show: thinking.boolean("includeThoughts")?, ..Reasoning::default() };
    match thinking.integer("thinkingBudget")? {
        None => {}
        Some(0) => read.enabled = Some(false),
        // The model decides.
        Some(budget) if budget < 0 => read.enabled = Some(true),
        Some(budget) => read.budget = u64::try_from(budget).ok(),
    }
    if let Some(level) = thinking.string("thinkingLevel")? {
        let effort = Effort::from_name(&level.to_ascii_lowercase());
        let known = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];
        read.effort = Some(effort.ok_or_else(|| wrong_value(&thinking.path_of("thinkingLevel"), &level, &known))?);
    }
    thinking.tell_rest(losses);
    Ok((read != Reasoning::default()).then_some(read))
}
