//! Reads and writes members of JSON values, for code off the hot path.

use serde_json::{Map, Value};

/// Writes optional members.
pub(super) trait PutMember {
    /// Sets a member if there is a value for it.
    fn put(&mut self, name: &str, value: Option<impl Into<Value>>);
}

impl PutMember for Map<String, Value> {
    fn put(&mut self, name: &str, value: Option<impl Into<Value>>) {
        self.extend(value.map(|value| (name.to_owned(), value.into())));
    }
}

impl PutMember for Value {
    fn put(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(members) = self.as_object_mut() {
            members.put(name, value);
        }
    }
}

/// A string member that is not empty.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// The items of a list member. No items if it is not a list.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// A whole answer. None if it is not an object, or has an error.
pub(super) fn answer(body: &[u8]) -> Option<Map<String, Value>> {
    let answer: Map<String, Value> = serde_json::from_slice(body).ok()?;
    answer.get("error").is_none_or(Value::is_null).then_some(answer)
}
