//! What is wrong with a request, in OpenAI's words. Values are never quoted, but for the names of types and roles.

use serde_json::{Map, Value};

use super::Invalid;

/// What a JSON value is, as OpenAI calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Bool,
    Integer,
    Decimal,
    String,
    Array,
    Object,
}

impl Kind {
    fn of(value: &Value) -> Kind {
        match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Number(number) if number.is_f64() => Kind::Decimal,
            Value::Number(_) => Kind::Integer,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::Array,
            Value::Object(_) => Kind::Object,
        }
    }

    fn of_text(text: &str) -> Kind {
        match text.trim_start().bytes().next() {
            Some(b'"') => Kind::String,
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) if text.contains(['.', 'e', 'E']) => Kind::Decimal,
            Some(_) => Kind::Integer,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Integer => "an integer",
            Kind::Decimal => "a decimal",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

/// Top-level members, what they may be, and how that is said. Null stands for none everywhere but in the first two.
const MEMBERS: [(&str, &[Kind], &str); 22] = [
    ("model", &[Kind::String], "a string"),
    ("input", &[Kind::String, Kind::Array], "one of a string or array of objects"),
    ("background", &[Kind::Bool], "a boolean"),
    ("frequency_penalty", &[Kind::Integer, Kind::Decimal], "a decimal"),
    ("include", &[Kind::Array], "an array of strings"),
    ("instructions", &[Kind::String], "a string"),
    ("max_output_tokens", &[Kind::Integer], "an integer"),
    ("metadata", &[Kind::Object], "an object"),
    ("parallel_tool_calls", &[Kind::Bool], "a boolean"),
    ("presence_penalty", &[Kind::Integer, Kind::Decimal], "a decimal"),
    ("previous_response_id", &[Kind::String], "a string"),
    ("reasoning", &[Kind::Object], "an object"),
    ("safety_identifier", &[Kind::String], "a string"),
    ("service_tier", &[Kind::String], "a string"),
    ("store", &[Kind::Bool], "a boolean"),
    ("stream", &[Kind::Bool], "a boolean"),
    ("temperature", &[Kind::Integer, Kind::Decimal], "a decimal"),
    ("text", &[Kind::Object], "an object"),
    ("tools", &[Kind::Array], "an array of objects"),
    ("top_logprobs", &[Kind::Integer], "an integer"),
    ("top_p", &[Kind::Integer, Kind::Decimal], "a decimal"),
    ("user", &[Kind::String], "a string"),
];

/// What may stand for an `input`.
const INPUTS: [&str; 4] = ["input", "previous_response_id", "prompt", "conversation"];

/// Checks the top level of a request.
///
/// # Errors
/// What is wrong with it, in the words of the vendor.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_kinds(&|name| member(name).map(Kind::of_text))
}

/// The same for one that was parsed.
pub(super) fn check_members(body: &Map<String, Value>) -> Result<(), Invalid> {
    check_kinds(&|name| body.get(name).map(Kind::of))
}

fn check_kinds(kind_of: &dyn Fn(&str) -> Option<Kind>) -> Result<(), Invalid> {
    if kind_of("model").is_none() {
        return Err(missing("model"));
    }
    let given = |name: &&str| kind_of(name).is_some_and(|kind| kind != Kind::Null);
    if !INPUTS.iter().any(given) {
        return Err(missing("input"));
    }
    for (name, kinds, expected) in MEMBERS {
        match kind_of(name) {
            Some(Kind::Null) if name != "model" => {}
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
    wrong_kind(param, expected, Kind::of(value))
}

fn wrong_kind(param: &str, expected: &str, kind: Kind) -> Invalid {
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
