//! Reads and writes members of JSON values, for code off the hot path.

use serde_json::{Map, Value};

use super::surrogates::lenient;

/// Writes optional members.
pub trait PutMember {
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
pub fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// The arguments of a call, or a piece of them: a text. Some servers give an object, whose text it is then.
pub fn arguments(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list member. An object is a list of it alone: some servers leave the brackets out. Other values have none.
pub fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = match value.get(name) {
        Some(Value::Array(items)) => items.as_slice(),
        Some(item @ Value::Object(_)) => std::slice::from_ref(item),
        _ => &[],
    };
    items.iter()
}

/// A whole answer. None if it is not an object, or has an error.
pub fn answer(body: &[u8]) -> Option<Map<String, Value>> {
    let Value::Object(answer) = lenient(body)? else { return None };
    (!has_error(answer.get("error"))).then_some(answer)
}

/// Whether a member `error` reports a failure.
pub fn has_error(error: Option<&Value>) -> bool {
    error.is_some_and(|error| says_error(&error.to_string()))
}

/// Whether the text of a member `error` reports a failure. Some servers write an empty one into good answers.
pub fn says_error(error: &str) -> bool {
    !matches!(error, "null" | "false" | "0" | "\"\"" | "{}" | "[]")
}

/// A value of `json!`.
pub trait ToJson {
    fn to_json(&self) -> Value;
}

impl<T: Clone + Into<Value>> ToJson for T {
    fn to_json(&self) -> Value {
        self.clone().into()
    }
}

/// As serde_json's macro of this name, which serializes each value and so rewrites its numbers: this copies values. A name
/// that is more than one token is written in parentheses.
#[macro_export]
macro_rules! json {
    // Found through any number of references.
    (@value $value:expr) => {{
        use $crate::json::values::ToJson as _;
        $value.to_json()
    }};
    (@members $members:ident) => {};
    (@members $members:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $members.insert($name.to_owned(), serde_json::Value::Null);
        $crate::json::values::json!(@members $members $($($rest)*)?);
    };
    (@members $members:ident $name:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $members.insert($name.to_owned(), $crate::json::values::json!({ $($inner)* }));
        $crate::json::values::json!(@members $members $($($rest)*)?);
    };
    (@members $members:ident $name:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $members.insert($name.to_owned(), $crate::json::values::json!([ $($inner)* ]));
        $crate::json::values::json!(@members $members $($($rest)*)?);
    };
    (@members $members:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $members.insert($name.to_owned(), $crate::json::values::json!(@value $value));
        $crate::json::values::json!(@members $members $($($rest)*)?);
    };
    (@items $items:ident) => {};
    (@items $items:ident { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $items.extend([$crate::json::values::json!({ $($inner)* })]);
        $crate::json::values::json!(@items $items $($($rest)*)?);
    };
    (@items $items:ident [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $items.extend([$crate::json::values::json!([ $($inner)* ])]);
        $crate::json::values::json!(@items $items $($($rest)*)?);
    };
    (@items $items:ident $value:expr $(, $($rest:tt)*)?) => {
        $items.extend([$crate::json::values::json!(@value $value)]);
        $crate::json::values::json!(@items $items $($($rest)*)?);
    };
    ({}) => {
        serde_json::Value::Object(serde_json::Map::new())
    };
    ({ $($members:tt)* }) => {{
        let mut members = serde_json::Map::<String, serde_json::Value>::new();
        $crate::json::values::json!(@members members $($members)*);
        serde_json::Value::Object(members)
    }};
    ([]) => {
        serde_json::Value::Array(Vec::new())
    };
    ([ $($items:tt)* ]) => {{
        let mut items = Vec::new();
        $crate::json::values::json!(@items items $($items)*);
        serde_json::Value::Array(items)
    }};
    ($value:expr) => {
        $crate::json::values::json!(@value $value)
    };
}
pub use json;
