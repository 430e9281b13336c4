//! Errors about a parameter of a request in OpenAI's words: shared by chat, completions, embeddings and Responses.
//! Never quotes a value of the prompt.

use serde_json::Value;

use crate::client_error::Invalid;

/// Names of top-level members, the vendor's words for the expected type, and the accepted types.
pub(crate) type TypeRule = (&'static [&'static str], &'static str, &'static [&'static str]);

pub(crate) const STRING: &[&str] = &["a string"];
pub(crate) const ARRAY: &[&str] = &["an array"];
pub(crate) const OBJECT: &[&str] = &["an object"];
pub(crate) const BOOLEAN: &[&str] = &["a boolean"];
pub(crate) const INTEGER: &[&str] = &["an integer"];
pub(crate) const NUMBER: &[&str] = &["an integer", "a decimal number"];

/// Checks the types of members. `kind_of` returns the type of a member. Null counts as absent.
pub(crate) fn check_types(rules: &[TypeRule], kind_of: &dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid> {
    for (names, expected, good) in rules {
        for name in *names {
            match kind_of(name) {
                Some(kind) if kind != "null" && !good.contains(&kind) => return Err(wrong_type(name, expected, kind)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The JSON text of a required member.
pub(crate) fn required<'a>(name: &str, member: &dyn Fn(&str) -> Option<&'a str>) -> Result<&'a str, Invalid> {
    member(name).filter(|text| text.trim() != "null").ok_or_else(|| missing(name))
}

/// Whether a JSON text is an empty list.
pub fn is_empty_list(text: &str) -> bool {
    text.trim().strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with(']'))
}

pub(crate) fn missing(path: &str) -> Invalid {
    Invalid { message: format!("Missing required parameter: '{path}'."), param: Some(path.to_owned()) }
}

pub(crate) fn wrong_type(path: &str, expected: &str, got: &str) -> Invalid {
    let message = format!("Invalid type for '{path}': expected {expected}, but got {got} instead.");
    Invalid { message, param: Some(path.to_owned()) }
}

pub(crate) fn empty_list(path: &str) -> Invalid {
    let message = format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    );
    Invalid { message, param: Some(path.to_owned()) }
}

/// Repeats the value only if it looks like a name. Otherwise it might be part of the prompt.
pub(crate) fn wrong_value(path: &str, value: &str, supported: &[&str]) -> Invalid {
    let is_name = value.len() <= 40 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let got = if is_name { format!(": '{value}'") } else { String::new() };
    let names: Vec<String> = supported.iter().map(|name| format!("'{name}'")).collect();
    let names = match names.as_slice() {
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [others @ .., last] => format!("{}, and {last}", others.join(", ")),
        [] => String::new(),
    };
    Invalid { message: format!("Invalid value{got}. Supported values are: {names}."), param: Some(path.to_owned()) }
}

/// The vendor's name for the type of a value.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The vendor's name for the type of a JSON text.
pub(crate) fn kind_of_text(text: &str) -> &'static str {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ if text.contains(['.', 'e', 'E']) => "a decimal number",
        _ => "an integer",
    }
}
