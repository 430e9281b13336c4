//! Checks a Responses request, in OpenAI's words. Quotes no values except names of types and roles.

use serde_json::{Map, Value};

use super::Invalid;
use crate::translate::parameter::{
    self, ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING, TypeRule, check_types, kind_of, kind_of_text, missing,
};

/// Types of top-level members. Null counts as absent, but not for `model`.
const TYPES: [TypeRule; 8] = [
    (
        &["model", "instructions", "previous_response_id", "safety_identifier", "service_tier", "user"],
        "a string",
        STRING,
    ),
    (&["input"], "one of a string or array of objects", &["a string", "an array"]),
    (&["background", "parallel_tool_calls", "store", "stream"], "a boolean", BOOLEAN),
    (&["frequency_penalty", "presence_penalty", "temperature", "top_p"], "a decimal", NUMBER),
    (&["max_output_tokens", "top_logprobs"], "an integer", INTEGER),
    (&["include"], "an array of strings", ARRAY),
    (&["tools"], "an array of objects", ARRAY),
    (&["metadata", "reasoning", "text"], "an object", OBJECT),
];

/// Each upstream of a race would begin a job of its own, and a later question for its result might go to another one.
const BACKGROUND: &str = "Unsupported parameter: 'background'. This gateway waits for every answer, and cannot ask for the \
    result of a background response later: send the request without it, or with 'background': false.";
/// Members that can replace `input`.
const INPUTS: [&str; 4] = ["input", "previous_response_id", "prompt", "conversation"];

/// Checks the top level of a request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    check_kinds(&|name| member(name).map(kind_of_text))?;
    if member("background") == Some("true") {
        return Err(Invalid { message: BACKGROUND.to_owned(), param: Some("background".to_owned()) });
    }
    Ok(())
}

/// The same for a parsed request.
pub(super) fn check_members(body: &Map<String, Value>) -> Result<(), Invalid> {
    check_kinds(&|name| body.get(name).map(kind_of))
}

fn check_kinds(kind_of: &dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid> {
    match kind_of("model") {
        None => return Err(missing("model")),
        Some("null") => return Err(parameter::wrong_type("model", "a string", "null")),
        Some(_) => {}
    }
    if !INPUTS.iter().any(|name| kind_of(name).is_some_and(|kind| kind != "null")) {
        return Err(missing("input"));
    }
    check_types(&TYPES, kind_of)
}

pub(super) fn wrong_type(param: &str, expected: &str, value: &Value) -> Invalid {
    parameter::wrong_type(param, expected, kind_of(value))
}

/// A required string.
pub(super) fn required<'a>(object: &'a Value, path: &str, name: &str) -> Result<&'a str, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(text),
        Value::Null => Err(missing(&format!("{path}.{name}"))),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// The members of an object.
pub(super) fn members_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// An optional string.
pub(super) fn optional(object: &Value, path: &str, name: &str) -> Result<Option<String>, Invalid> {
    match &object[name] {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a string", other)),
    }
}

/// An optional boolean.
pub(super) fn optional_bool(object: &Value, path: &str, name: &str) -> Result<Option<bool>, Invalid> {
    match &object[name] {
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::Null => Ok(None),
        other => Err(wrong_type(&format!("{path}.{name}"), "a boolean", other)),
    }
}
