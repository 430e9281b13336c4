//! JSON that grows by deltas: strings get longer, objects get members, lists get items, and an item with an `index`
//! grows the item of that index. Members and items are looked up, not searched for, because a provider decides how many
//! there are.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::calls::lengthen_name;
use crate::json::values::{json, text};

/// Members that name something and so do not grow.
const NAMES: [&str; 8] = ["role", "id", "type", "index", "name", "format", "signature", "mime_type"];
/// Members that are a function with its arguments. Its name may come in pieces.
const CALLED: [&str; 3] = ["function", "custom", "function_call"];

/// A growing value. A value that came once is stored unchanged; joining takes it apart, one level deep.
#[derive(Debug)]
pub(super) enum Grown {
    Plain(Value),
    Object(GrownMembers),
    List(List),
}

/// Members of an object in order of first occurrence.
#[derive(Debug, Default)]
pub(super) struct GrownMembers(IndexMap<String, Grown>);

#[derive(Debug, Default)]
pub(super) struct List {
    items: Vec<Grown>,
    /// The position of the item that grows under an `index`.
    places: HashMap<u64, usize>,
}

impl Default for Grown {
    fn default() -> Grown {
        Grown::Plain(Value::Null)
    }
}

impl Grown {
    /// A first list may already contain several pieces of one item.
    fn new(value: Value) -> Grown {
        match value {
            Value::Array(items) => Grown::List(List::joined(items)),
            other => Grown::Plain(other),
        }
    }

    pub fn join(&mut self, value: Value) {
        self.open();
        match (&mut *self, value) {
            (_, Value::Null) => {}
            (before @ Grown::Plain(Value::Null), value) => *before = Grown::new(value),
            (Grown::Plain(Value::String(before)), Value::String(text)) => before.push_str(&text),
            (Grown::List(before), Value::Array(items)) => items.into_iter().for_each(|item| before.join(item)),
            // Mistral switches from a list of parts to plain text within one stream.
            (Grown::List(parts), Value::String(text)) => parts.join(text_part(text)),
            (Grown::Plain(Value::String(text)), Value::Array(items)) => {
                let first = (!text.is_empty()).then(|| text_part(std::mem::take(text)));
                let mut parts = List { items: first.map(Grown::Plain).into_iter().collect(), ..List::default() };
                items.into_iter().for_each(|item| parts.join(item));
                *self = Grown::List(parts);
            }
            (Grown::Object(before), Value::Object(members)) => before.join(members),
            (before, value) => *before = Grown::Plain(value),
        }
    }

    /// Makes a plain object or list growable.
    fn open(&mut self) {
        match self {
            Grown::Plain(Value::Object(members)) => {
                let members = std::mem::take(members).into_iter();
                *self = Grown::Object(GrownMembers(members.map(|(name, value)| (name, Grown::Plain(value))).collect()));
            }
            Grown::Plain(Value::Array(items)) => {
                let items = std::mem::take(items);
                let mut list = List::default();
                items.into_iter().for_each(|item| list.push(index_of(&item), Grown::Plain(item)));
                *self = Grown::List(list);
            }
            _ => {}
        }
    }

    /// Adds the piece of a name that this value has.
    fn lengthen_name(&mut self, more: &Value) {
        let piece = more.get("name").and_then(Value::as_str).unwrap_or_default();
        self.open();
        let Grown::Object(GrownMembers(members)) = self else { return };
        if let Some(Grown::Plain(Value::String(name))) = members.get_mut("name") {
            lengthen_name(name, piece);
        }
    }

    /// The text of a member.
    fn text(&self, name: &str) -> Option<&str> {
        match self {
            Grown::Plain(value) => value.get(name)?.as_str(),
            Grown::Object(GrownMembers(members)) => match members.get(name)? {
                Grown::Plain(value) => value.as_str(),
                _ => None,
            },
            Grown::List(_) => None,
        }
    }

    pub fn into_value(self) -> Value {
        match self {
            Grown::Plain(value) => value,
            Grown::Object(members) => Value::Object(members.into_map()),
            Grown::List(list) => list.items.into_iter().map(Grown::into_value).collect(),
        }
    }

    fn is_empty_or_null(&self) -> bool {
        matches!(self, Grown::Plain(Value::Null))
            || matches!(self, Grown::Plain(Value::String(text)) if text.is_empty())
    }

    /// The `type` of a content part that grows; none for others.
    fn part_type(&self) -> Option<&str> {
        self.text("type").filter(|kind| is_part(kind))
    }
}

impl GrownMembers {
    pub fn join(&mut self, from: Map<String, Value>) {
        for (name, value) in from {
            match self.0.get_mut(&name) {
                None => {
                    // An empty list of calls in the first delta does not count.
                    if !(name == "tool_calls" && value.as_array().is_some_and(Vec::is_empty)) {
                        self.0.insert(name, Grown::new(value));
                    }
                }
                Some(before) if NAMES.contains(&name.as_str()) => {
                    if before.is_empty_or_null() {
                        *before = Grown::Plain(value);
                    }
                }
                Some(before) => {
                    if CALLED.contains(&name.as_str()) {
                        before.lengthen_name(&value);
                    }
                    before.join(value);
                }
            }
        }
    }

    /// The only one of these members that would grow if they came again, and it is a text.
    pub fn only_text(members: &Map<String, Value>) -> Option<&str> {
        let mut grow = members.iter().filter(|(name, value)| !NAMES.contains(&name.as_str()) && grows(value));
        match (grow.next(), grow.next()) {
            (Some((name, Value::String(_))), None) => Some(name),
            _ => None,
        }
    }

    /// Appends to a text that came before.
    pub fn lengthen(&mut self, name: &str, text: &str) {
        match self.0.get_mut(name) {
            Some(Grown::Plain(Value::String(before))) => before.push_str(text),
            Some(before) => before.join(Value::from(text)),
            None => {}
        }
    }

    /// Items of a list member.
    pub fn len_of(&self, name: &str) -> usize {
        match self.0.get(name) {
            Some(Grown::List(list)) => list.items.len(),
            Some(Grown::Plain(Value::Array(items))) => items.len(),
            _ => 0,
        }
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().map(|(name, value)| (name, value.into_value())).collect()
    }
}

impl List {
    fn joined(items: Vec<Value>) -> List {
        let mut list = List { items: Vec::with_capacity(items.len()), places: HashMap::new() };
        items.into_iter().for_each(|item| list.join(item));
        list
    }

    /// An item with an `index` grows the item of that index. A content part grows the last item if it has the same
    /// type.
    fn join(&mut self, item: Value) {
        let index = index_of(&item);
        let same = match index {
            Some(index) => {
                if self.places.get(&index).is_some_and(|at| is_another_call(&self.items[*at], &item)) {
                    self.places.remove(&index);
                }
                self.places.get(&index).and_then(|at| self.items.get_mut(*at))
            }
            None => {
                let kind = item.get("type").and_then(Value::as_str).filter(|kind| is_part(kind));
                self.items.last_mut().filter(|before| kind.is_some() && before.part_type() == kind)
            }
        };
        match (same, item) {
            (Some(before), Value::Object(members)) => {
                before.open();
                match before {
                    Grown::Object(before) => before.join(members),
                    _ => self.push(index, Grown::new(Value::Object(members))),
                }
            }
            (_, item) => self.push(index, Grown::new(item)),
        }
    }

    fn push(&mut self, index: Option<u64>, item: Grown) {
        if let Some(index) = index {
            self.places.entry(index).or_insert(self.items.len());
        }
        self.items.push(item);
    }
}

/// Whether joining this value a second time changes anything.
fn grows(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Some vendors number every call 0. A name with another id starts a new call.
fn is_another_call(before: &Grown, item: &Value) -> bool {
    let (before, now) = (before.text("id").unwrap_or_default(), text(item, "id").unwrap_or_default());
    let is_named =
        ["function", "custom"].iter().any(|kind| item.get(*kind).is_some_and(|call| text(call, "name").is_some()));
    is_named && !before.is_empty() && !now.is_empty() && before != now
}

fn index_of(item: &Value) -> Option<u64> {
    item.get("index").and_then(Value::as_u64)
}

fn is_part(kind: &str) -> bool {
    matches!(kind, "text" | "thinking")
}

fn text_part(text: String) -> Value {
    json!({ "type": "text", "text": text })
}
