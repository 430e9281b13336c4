//! What is wrong with a request, in OpenAI's words. Values are never quoted, but for the names of types and roles.

use serde_json::{Map, Value};

use super::Invalid;

/// What a JSON value is, as OpenAI calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonType {
    Null,
    Bool,
    Integer,
    Decimal,
    String,
    Array,
    Object,
}

impl JsonType {
    fn of(value: &Value) -> JsonType {
        match value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Bool,
            Value::Number(number) if number.is_f64() => JsonType::Decimal,
            Value::Number(_) => JsonType::Integer,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn of_text(text: &str) -> JsonType {
        match text.trim_start().bytes().next() {
            Some(b'"') => JsonType::String,
            Some(b'[') => JsonType::Array,
            Some(b'{') => JsonType::Object,
            Some(b't' | b'f') => JsonType::Bool,
            Some(b'n') | None => JsonType::Null,
            Some(_) if text.contains(['.', 'e', 'E']) => JsonType::Decimal,
            Some(_) => JsonType::Integer,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            JsonType::Null => "null",
            JsonType::Bool => "a boolean",
            JsonType::Integer => "an integer",
            JsonType::Decimal => "a decimal",
            JsonType::String => "a string",
            JsonType::Array => "an array",
            JsonType::Object => "an object",
        }
    }
}

/// Top-level members, what they may be, and how that is said. Null stands for none everywhere but in the first two.
const MEMBERS: [(&str, &[JsonType], &str); 22] = [
    ("model", &[JsonType::String], "a string"),
    ("input", &[JsonType::String, JsonType::Array], "one of a string or array of objects"),
    ("background", &[JsonType::Bool], "a boolean"),
    ("frequency_penalty", &[JsonType::Integer, JsonType::Decimal], "a decimal"),
    ("include", &[JsonType::Array], "an array of strings"),
    ("instructions", &[JsonType::String], "a string"),
    ("max_output_tokens", &[JsonType::Integer], "an integer"),
    ("metadata", &[JsonType::Object], "an object"),
    ("parallel_tool_calls", &[JsonType::Bool], "a boolean"),
    ("presence_penalty", &[JsonType::Integer, JsonType::Decimal], "a decimal"),
    ("previous_response_id", &[JsonType::String], "a string"),
    ("reasoning", &[JsonType::Object], "an object"),
    ("safety_identifier", &[JsonType::String], "a string"),
    ("service_tier", &[JsonType::String], "a string"),
    ("store", &[JsonType::Bool], "a boolean"),
    ("stream", &[JsonType::Bool], "a boolean"),
    ("temperature", &[JsonType::Integer, JsonType::Decimal], "a decimal"),
    ("text", &[JsonType::Object], "an object"),
    ("tools", &[JsonType::Array], "an array of objects"),
    ("top_logprobs", &[JsonType::Integer], "an integer"),
    ("top_p", &[JsonType::Integer, JsonType::Decimal], "a decimal"),
    ("user", &[JsonType::String], "a string"),
];

/// What may stand for an `input`.
const INPUTS: [&str; 4] = ["input", "previous_response_id", "prompt", "conversation"];

/// Checks the top level of a request.
///
/// # Errors
/// What is wrong with it, in the words of the vendor.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_kinds(&|name| member(name).map(JsonType::of_text))
}

/// The same for one that was parsed.
pub(super) fn check_members(body: &Map<String, Value>) -> Result<(), Invalid> {
    check_kinds(&|name| body.get(name).map(JsonType::of))
}

fn check_kinds(kind_of: &dyn Fn(&str) -> Option<JsonType>) -> Result<(), Invalid> {
    if kind_of("model").is_none() {
        return Err(missing("model"));
    }
    let given = |name: &&str| kind_of(name).is_some_and(|kind| kind != JsonType::Null);
    if !INPUTS.iter().any(given) {
        return Err(missing("input"));
    }
    for (name, kinds, expected) in MEMBERS {
        match kind_of(name) {
            Some(JsonType::Null) if name != "model" => {}
            Some(kind) if !kinds.contains(&kind) => return Err(wrong_kind(name, expected, kind)),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn missing(param: &str) -> Invalid {
    Invalid { message: format!("Missing required parameter: '{param}'."), param: Some(param.to_owned()) }
}

pub(super) fn wrong_type(param: &str, expected: &str, value: &Value) -> Invalid {
    wrong_kind(param, expected, JsonType::of(value))
}

fn wrong_kind(param: &str, expected: &str, kind: JsonType) -> Invalid {
    Invalid {
        message: format!("Invalid type for '{param}': expected {expected}, but got {} instead.", kind.as_str()),
        param: Some(param.to_owned()),
    }
}

/// A word that is none of those that are known.
pub(super) fn wrong_value(param: &str, value: &str, supported: &[&str]) -> Invalid {
    let quoted: Vec<String> = supported.iter().map(|word| format!("'{word}'")).collect();
    let words = match quoted.as_slice() {
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
        [] => String::new(),
    };
    let value: String = value.chars().filter(|c| c.is_ascii_graphic() && *c != '\'').take(40).collect();
    Invalid {
        message: format!("Invalid value: '{value}'. Supported values are: {words}."),
        param: Some(param.to_owned()),
    }
}

/// A member that has to be there, and has to be a string.
pub(super) fn required<'a>(object: &'a Value, path: &str, name: &str) -> Result<&'a str, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(text),
        Value::Null => Err(missing(&format!("{path}.{name}"))),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// A member that may be there, and then has to be a string.
pub(super) fn optional(object: &Value, path: &str, name: &str) -> Result<Option<String>, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// A member that may be there, and then has to be true or false.
pub(super) fn optional_bool(object: &Value, path: &str, name: &str) -> Result<Option<bool>, Invalid> {
    match &object[name] {
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a boolean", other)),
    }
}
