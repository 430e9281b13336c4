//! Checks the top level of a Messages request as the vendor does: required members exist and have the right type.
//!
//! Not for ranges: servers of this dialect differ in them. Complaints have the vendor's form (place, colon, complaint)
//! and never quote a value.

use super::members::invalid;
use crate::client_error::Invalid;
use crate::json::Json;

/// Checks the top level of a request. `answers`: it asks for an answer, not for a token count.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>, answers: bool) -> Result<(), Invalid> {
    let found = |name: &str| member(name).map(str::trim);
    let given = |name: &str| found(name).filter(|value| *value != "null");
    let required = |name: &str| found(name).ok_or_else(|| invalid(name, "Field required"));
    let model = required("model")?;
    if !model.starts_with('"') {
        return Err(invalid("model", "Input should be a valid string"));
    }
    if model == "\"\"" {
        return Err(invalid("model", "String should have at least 1 character"));
    }
    messages(required("messages")?)?;
    if answers {
        whole(required("max_tokens")?, "max_tokens", 1)?;
    }
    if let Some(system) = given("system").filter(|system| !system.starts_with(['"', '['])) {
        let complaint =
            if system.starts_with('{') { "Input should be a valid list" } else { "Input should be a valid string" };
        return Err(invalid("system", complaint));
    }
    let lists = ["tools", "stop_sequences", "mcp_servers"];
    let objects = ["tool_choice", "thinking", "metadata", "output_config", "output_format"];
    let words = ["service_tier", "inference_geo"];
    let typed = [
        (lists.as_slice(), '[', "Input should be a valid list"),
        (objects.as_slice(), '{', "Input should be an object"),
        (words.as_slice(), '"', "Input should be a valid string"),
    ];
    for (names, first, complaint) in typed {
        if let Some(name) = names.iter().find(|name| given(name).is_some_and(|value| !value.starts_with(first))) {
            return Err(invalid(name, complaint));
        }
    }
    if given("stream").is_some_and(|value| !matches!(value, "true" | "false")) {
        return Err(invalid("stream", "Input should be a valid boolean"));
    }
    for name in ["temperature", "top_p"] {
        given(name).map_or(Ok(()), |value| number(value, name))?;
    }
    given("top_k").map_or(Ok(()), |value| whole(value, "top_k", 0))
}

fn messages(value: &str) -> Result<(), Invalid> {
    if !value.starts_with('[') {
        return Err(invalid("messages", "Input should be a valid list"));
    }
    if Json::new(&value[1..]).peek() == Some(b']') {
        return Err(invalid("messages", "at least one message is required"));
    }
    Ok(())
}

fn whole(value: &str, name: &str, least: i32) -> Result<(), Invalid> {
    let number = value.parse::<f64>().ok().filter(|number| number.fract() == 0.0);
    match number {
        Some(number) if number >= f64::from(least) => Ok(()),
        Some(_) => Err(invalid(name, &format!("Input should be greater than or equal to {least}"))),
        None => Err(invalid(name, "Input should be a valid integer")),
    }
}

fn number(value: &str, name: &str) -> Result<(), Invalid> {
    if value.parse::<f64>().is_ok() { Ok(()) } else { Err(invalid(name, "Input should be a valid number")) }
}
