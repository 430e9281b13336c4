//! Takes the members of a request's objects one by one, with the vendor's error for missing members and wrong types.
//! The rest can be reported as lost. Not for streams: see [`mod@crate::json`].

use serde_json::{Map, Value};

use crate::client_error::Invalid;
use crate::conversation::{Effort, Losses};

/// An object of a request.
pub struct ObjectMembers {
    /// `messages[0].content[1]`; empty for the request itself.
    path: String,
    map: Map<String, Value>,
}

impl ObjectMembers {
    /// # Errors
    /// If it is not an object.
    pub fn new(value: Value, path: String) -> Result<ObjectMembers, Invalid> {
        match value {
            Value::Object(map) => Ok(ObjectMembers { path, map }),
            other => Err(wrong_type(&path, "an object", kind_of(&other))),
        }
    }

    /// The path of a member.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether the member exists and is not null.
    pub fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Takes a member out. Null counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.get_mut(name).map(Value::take).filter(|value| !value.is_null())
    }

    /// A string member, without taking it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.map.get(name)?.as_str()
    }

    /// Leaves a member out if its value changes nothing.
    pub fn leave_out(&mut self, name: &str, changes_nothing: impl FnOnce(&Value) -> bool) {
        if self.map.get(name).is_some_and(changes_nothing) {
            self.take(name);
        }
    }

    /// # Errors
    /// If it is neither a string nor null.
    pub fn string(&mut self, name: &str) -> Result<Option<String>, Invalid> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(&self.path_of(name), "a string", kind_of(&other))),
        }
    }

    /// A JSON Schema. An empty one counts as absent.
    ///
    /// # Errors
    /// If it is neither an object nor null.
    pub fn schema(&mut self, name: &str) -> Result<Option<Value>, Invalid> {
        Ok(self.plain_object(name)?.filter(|schema| schema.as_object().is_some_and(|schema| !schema.is_empty())))
    }

    /// An object whose members are not read.
    ///
    /// # Errors
    /// If it is neither an object nor null.
    pub fn plain_object(&mut self, name: &str) -> Result<Option<Value>, Invalid> {
        match self.take(name) {
            Some(other) if !other.is_object() => Err(wrong_type(&self.path_of(name), "an object", kind_of(&other))),
            value => Ok(value),
        }
    }

    /// # Errors
    /// If it is absent, or not a string.
    pub fn required_string(&mut self, name: &str) -> Result<String, Invalid> {
        self.string(name)?.ok_or_else(|| missing(&self.path_of(name)))
    }

    /// # Errors
    /// If it is not one of `supported`.
    pub fn one_of(&mut self, name: &str, supported: &[&str]) -> Result<Option<String>, Invalid> {
        match self.string(name)? {
            Some(value) if !supported.contains(&value.as_str()) => {
                Err(wrong_value(&self.path_of(name), &value, supported))
            }
            value => Ok(value),
        }
    }

    /// # Errors
    /// If it is no effort.
    pub fn effort(&mut self, name: &str) -> Result<Option<Effort>, Invalid> {
        let Some(word) = self.string(name)? else { return Ok(None) };
        let supported = ["none", "minimal", "low", "medium", "high", "xhigh"];
        match Effort::from_name(&word) {
            None => Err(wrong_value(&self.path_of(name), &word, &supported)),
            effort => Ok(effort),
        }
    }

    /// Texts: a list of them, or one. `expected`: the vendor's words for both.
    ///
    /// # Errors
    /// If it is neither.
    pub fn texts(&mut self, name: &str, expected: &str) -> Result<Vec<String>, Invalid> {
        let wrong = |value: &Value| wrong_type(&self.path_of(name), expected, kind_of(value));
        let items = match self.map.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => vec![text.clone()],
            Some(list @ Value::Array(items)) => {
                let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| wrong(list));
                items.iter().map(text).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong(other)),
        };
        self.take(name);
        Ok(items)
    }

    /// # Errors
    /// If it is neither a boolean nor null.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, Invalid> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(&self.path_of(name), "a boolean", kind_of(&other))),
        }
    }

    /// # Errors
    /// If it is neither a whole number nor null.
    pub fn integer(&mut self, name: &str) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
        match value.as_i64().or(whole.map(|number| number as i64)) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_type(&self.path_of(name), "an integer", kind_of(&value))),
        }
    }

    /// A count.
    ///
    /// # Errors
    /// If it is not a whole number, or below `min`.
    pub fn count(&mut self, name: &str, min: u64) -> Result<Option<u64>, Invalid> {
        let Some(number) = self.integer(name)? else { return Ok(None) };
        match u64::try_from(number).ok().filter(|number| *number >= min) {
            Some(number) => Ok(Some(number)),
            None => {
                let path = self.path_of(name);
                let message = format!(
                    "Invalid '{path}': integer below minimum value. Expected a value >= {min}, but got {number} instead."
                );
                Err(Invalid::at(path, message))
            }
        }
    }

    /// # Errors
    /// If it is not a number, or outside `min` and `max`.
    pub fn number(&mut self, name: &str, min: f64, max: f64) -> Result<Option<f64>, Invalid> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let path = self.path_of(name);
        let Some(number) = value.as_f64() else { return Err(wrong_type(&path, "a decimal number", kind_of(&value))) };
        let (side, sign, limit) = match number {
            _ if number < min => ("below minimum", ">=", min),
            _ if number > max => ("above maximum", "<=", max),
            _ => return Ok(Some(number)),
        };
        let message = format!(
            "Invalid '{path}': decimal {side} value. Expected a value {sign} {limit}, but got {number} instead."
        );
        Err(Invalid::at(path, message))
    }

    /// # Errors
    /// If it is neither an object nor null.
    pub fn object(&mut self, name: &str) -> Result<Option<ObjectMembers>, Invalid> {
        self.take(name).map(|value| ObjectMembers::new(value, self.path_of(name))).transpose()
    }

    /// # Errors
    /// If it is absent, or not an object.
    pub fn required_object(&mut self, name: &str) -> Result<ObjectMembers, Invalid> {
        self.object(name)?.ok_or_else(|| missing(&self.path_of(name)))
    }

    /// A list of objects.
    ///
    /// # Errors
    /// If it is neither a list nor null, or an item is not an object.
    pub fn objects(&mut self, name: &str) -> Result<Vec<ObjectMembers>, Invalid> {
        let path = self.path_of(name);
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(value) => objects(value, &path),
        }
    }

    /// Reports the rest as lost. Nulls do not count.
    pub fn tell_rest(self, losses: &mut Losses) {
        for (name, value) in &self.map {
            losses.lose_value(&self.path_of(name), value);
        }
    }

    /// Reports the rest as lost, but for these members and those that are false.
    pub fn tell_others(self, quiet: &[&str], losses: &mut Losses) {
        losses.lose_others(&self.map, &self.path, quiet);
    }

    /// The rest, as an object.
    pub fn into_rest(self) -> Map<String, Value> {
        self.map.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }
}

/// The items of a list of objects.
///
/// # Errors
/// If it is not a list, or an item is not an object.
pub fn objects(value: Value, path: &str) -> Result<Vec<ObjectMembers>, Invalid> {
    match value {
        Value::Array(items) => {
            let numbered = items.into_iter().enumerate();
            numbered.map(|(at, item)| ObjectMembers::new(item, format!("{path}[{at}]"))).collect()
        }
        other => Err(wrong_type(path, "an array of objects", kind_of(&other))),
    }
}

// Errors about a parameter of a request in OpenAI's words: shared by chat, completions, embeddings and Responses.
// Never quotes a value of the prompt.

/// Names of top-level members, the vendor's words for the expected type, and the accepted types.
pub type TypeRule = (&'static [&'static str], &'static str, &'static [&'static str]);

pub const STRING: &[&str] = &["a string"];
pub const ARRAY: &[&str] = &["an array"];
pub const OBJECT: &[&str] = &["an object"];
pub const BOOLEAN: &[&str] = &["a boolean"];
pub const INTEGER: &[&str] = &["an integer"];
pub const NUMBER: &[&str] = &["an integer", "a decimal number"];

/// Checks the types of members. `kind_of` returns the type of a member. Null counts as absent.
pub fn check_types(rules: &[TypeRule], kind_of: &dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid> {
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
pub fn required<'a>(name: &str, member: &dyn Fn(&str) -> Option<&'a str>) -> Result<&'a str, Invalid> {
    member(name).filter(|text| text.trim() != "null").ok_or_else(|| missing(name))
}

/// Whether a JSON text is an empty list.
pub fn is_empty_list(text: &str) -> bool {
    text.trim().strip_prefix('[').is_some_and(|inside| inside.trim_start().starts_with(']'))
}

pub fn missing(path: &str) -> Invalid {
    Invalid::at(path, format!("Missing required parameter: '{path}'."))
}

pub fn wrong_type(path: &str, expected: &str, got: &str) -> Invalid {
    let message = format!("Invalid type for '{path}': expected {expected}, but got {got} instead.");
    Invalid::at(path, message)
}

pub fn empty_list(path: &str) -> Invalid {
    let message = format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    );
    Invalid::at(path, message)
}

/// Repeats the value only if it looks like a name. Otherwise it might be part of the prompt.
pub fn wrong_value(path: &str, value: &str, supported: &[&str]) -> Invalid {
    let is_name = value.len() <= 40 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let got = if is_name { format!(": '{value}'") } else { String::new() };
    let names: Vec<String> = supported.iter().map(|name| format!("'{name}'")).collect();
    let names = match names.as_slice() {
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [others @ .., last] => format!("{}, and {last}", others.join(", ")),
        [] => String::new(),
    };
    Invalid::at(path, format!("Invalid value{got}. Supported values are: {names}."))
}

/// The vendor's name for the type of a value.
pub fn kind_of(value: &Value) -> &'static str {
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
pub fn kind_of_text(text: &str) -> &'static str {
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
