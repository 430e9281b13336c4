//! Reads members of a Messages request, and writes errors in the vendor's words.

use serde_json::{Map, Value};

use crate::client_error::Invalid;

/// A member that is there and not null.
pub(super) fn some<'a>(from: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    from.get(name).filter(|value| !value.is_null())
}

/// A required string.
pub(super) fn string<'a>(from: &'a Map<String, Value>, name: &str, place: &str) -> Result<&'a str, Invalid> {
    match from.get(name) {
        None => Err(invalid(&format!("{place}.{name}"), "Field required")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid(&format!("{place}.{name}"), "Input should be a valid string")),
    }
}

/// A required object.
pub(super) fn object<'a>(
    from: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<&'a Map<String, Value>, Invalid> {
    match from.get(name) {
        None => Err(invalid(&format!("{place}.{name}"), "Field required")),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(invalid(&format!("{place}.{name}"), "Input should be an object")),
    }
}

/// A complaint about a member, such as `messages.0.content`.
pub(super) fn invalid(place: &str, complaint: &str) -> Invalid {
    Invalid { message: format!("{place}: {complaint}"), param: Some(place.to_owned()) }
}
