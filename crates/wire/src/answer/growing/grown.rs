//! JSON that grows member by member. Not for what the members mean: a dialect gives each its [`Rule`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::json::numbers::parse;
use crate::json::values::json;

/// Maximum calls of a choice, and blocks or items of an answer. No model makes a tenth of this. In memory an item takes
/// a hundred times its size on the wire, so this bounds a hostile provider.
pub const ITEMS_MAX: usize = 4_096;

/// How a member grows when it comes again. Null adds nothing to what is joined.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// It is left out.
    Drop,
    /// The first one counts that is not empty.
    First,
    /// The last one counts.
    Last,
    /// Texts are joined.
    Text,
    /// Deltas are joined, as the OpenAI SDKs do: texts and lists get longer, objects grow by their members, and an item
    /// with an `index` grows the item of that index.
    Deep,
    /// Lists get longer, also those in an object. Of other values the last one counts.
    Extend,
    /// The same, but a list with objects or lists comes whole.
    Pieces,
    /// A list of calls or parts gets longer: [`ITEMS_MAX`]. The function says whether it took an item into the last one.
    Items(fn(Option<&mut Value>, &Value) -> bool),
}

/// What would grow if the same member came once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    Nothing,
    Text,
    Other,
}

/// Members of an object in order of first occurrence.
#[derive(Debug, Default)]
pub struct GrownMembers {
    members: IndexMap<String, GrownMember>,
    places: ItemPlaces,
}

/// The positions of items with an `index`, by list and index: they are looked up, not searched for, because a provider
/// decides how many there are.
type ItemPlaces = HashMap<u64, usize>;

#[derive(Debug, Default)]
struct GrownMember {
    /// A JSON text, if it is not joined. Nearly all members of an answer come again with every chunk, so none of these is
    /// parsed before the end.
    raw: String,
    value: Value,
}

impl GrownMembers {
    /// Adds a member. None if it is not JSON, or too long.
    pub fn grow(&mut self, name: &str, raw: &str, rule: Rule) -> Option<Growth> {
        if matches!(rule, Rule::Drop) {
            return Some(Growth::Nothing);
        }
        let member = match self.members.get_mut(name) {
            Some(member) => member,
            None => self.members.entry(name.to_owned()).or_default(),
        };
        match rule {
            Rule::First if !member.is_empty() => {}
            Rule::First | Rule::Last => raw.clone_into(&mut member.raw),
            _ => {
                let value = parse(raw.as_bytes()).ok()?;
                let growth = growth(rule, &value);
                rule.join(member.value(), value, inside(0, name), &mut self.places);
                let is_too_long = |list: &Vec<Value>| matches!(rule, Rule::Items(_)) && list.len() > ITEMS_MAX;
                return Some(growth).filter(|_| !member.value.as_array().is_some_and(is_too_long));
            }
        }
        Some(Growth::Nothing)
    }

    /// Appends to a text that came before.
    pub fn lengthen(&mut self, name: &str, text: &str) {
        match self.members.get_mut(name).map(GrownMember::value) {
            Some(Value::String(before)) => before.push_str(text),
            Some(before) => Rule::Deep.join(before, text.into(), inside(0, name), &mut self.places),
            None => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The JSON text of a member that is not joined.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(|member| &*member.raw)
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.members.into_iter().map(|(name, mut member)| (name, member.value().take())).collect()
    }
}

impl GrownMember {
    fn value(&mut self) -> &mut Value {
        if !self.raw.is_empty() {
            self.value = parse(std::mem::take(&mut self.raw).as_bytes()).unwrap_or_default();
        }
        &mut self.value
    }

    fn is_empty(&self) -> bool {
        matches!(&*self.raw, "" | "null" | "\"\"") && is_empty(&self.value)
    }
}

/// How the members of a delta grow: names do not.
pub fn delta_rule(name: &str) -> Rule {
    match name {
        "role" | "id" | "type" | "index" | "name" | "format" | "signature" | "mime_type" => Rule::First,
        _ => Rule::Deep,
    }
}

fn growth(rule: Rule, value: &Value) -> Growth {
    match (rule, value) {
        (Rule::Text | Rule::Deep, Value::String(text)) if !text.is_empty() => Growth::Text,
        (Rule::Deep | Rule::Extend | Rule::Items(_), Value::Object(members)) if !members.is_empty() => Growth::Other,
        (_, Value::Array(items)) if !items.is_empty() => Growth::Other,
        _ => Growth::Nothing,
    }
}

impl Rule {
    /// Joins a value to the one before it. `path` is where it is.
    fn join(self, before: &mut Value, value: Value, path: u64, places: &mut ItemPlaces) {
        match (self, before, value) {
            (_, _, Value::Null) => {}
            (Rule::Text | Rule::Deep, Value::String(before), Value::String(text)) => before.push_str(&text),
            // Some servers leave the brackets out.
            (Rule::Items(take), before, mut items @ (Value::Array(_) | Value::Object(_))) => {
                let mut list = taken_list(before);
                for item in taken_items(&mut items) {
                    if !take(list.last_mut(), &item) {
                        list.push(item);
                    }
                }
                *before = list.into();
            }
            (Rule::Deep, before, Value::Array(items)) => {
                // Mistral switches between lists of parts and plain text within one stream.
                let text = before.as_str().filter(|text| !text.is_empty()).map(text_part);
                let mut list = taken_list(before);
                text.into_iter().chain(items).for_each(|item| join_item(&mut list, item, path, places));
                *before = list.into();
            }
            (Rule::Deep, Value::Array(list), Value::String(text)) => join_item(list, text_part(&text), path, places),
            (Rule::Extend, Value::Array(before), Value::Array(more)) => before.extend(more),
            (Rule::Pieces, Value::Array(before), Value::Array(more)) if more.iter().all(is_plain) => {
                before.extend(more)
            }
            (Rule::Deep | Rule::Extend | Rule::Pieces, Value::Object(before), Value::Object(members)) => {
                let is_kept = |value: &Value| !(value.is_null() && matches!(self, Rule::Pieces));
                for (name, value) in members.into_iter().filter(|(_, value)| is_kept(value)) {
                    let path = inside(path, &name);
                    let is_name = matches!((self, delta_rule(&name)), (Rule::Deep, Rule::First));
                    let member = before.entry(name).or_insert(Value::Null);
                    if !is_name || is_empty(member) {
                        self.join(member, value, path, places);
                    }
                }
            }
            // What is no text takes no text away.
            (Rule::Text, Value::String(_), _) | (Rule::Items(_), ..) => {}
            (_, before, value) => *before = value,
        }
    }
}

/// An item with an `index` grows the item of that index. A content part grows the last item if it has the same type.
fn join_item(list: &mut Vec<Value>, item: Value, path: u64, places: &mut ItemPlaces) {
    let index_of = |item: &Value| item.get("index").and_then(Value::as_u64);
    if list.is_empty() {
        places.insert(path, 0);
    }
    // A list that came in one piece.
    if places.insert(path, 0).is_none() {
        for (at, index) in list.iter().map(index_of).enumerate().filter_map(|(at, index)| Some((at, index?))) {
            places.entry(inside(path, index)).or_insert(at);
        }
    }
    let (index, next) = (index_of(&item), list.len());
    let at = match index {
        Some(index) => *places.entry(inside(path, index)).or_insert(next),
        None if part_type(&item).is_some() && list.last().and_then(part_type) == part_type(&item) => next - 1,
        None => next,
    };
    match list.get_mut(at) {
        Some(before) => Rule::Deep.join(before, item, inside(path, (at, "item")), places),
        None => list.push(item),
    }
}

fn taken_list(value: &mut Value) -> Vec<Value> {
    match value.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

fn taken_items(value: &mut Value) -> Vec<Value> {
    if value.is_object() { vec![value.take()] } else { taken_list(value) }
}

fn inside(path: u64, step: impl Hash) -> u64 {
    let mut inner = DefaultHasher::new();
    (path, step).hash(&mut inner);
    inner.finish()
}

/// Null, or a text without characters.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value == ""
}

fn is_plain(item: &Value) -> bool {
    !item.is_object() && !item.is_array()
}

fn part_type(item: &Value) -> Option<&str> {
    item.get("type").and_then(Value::as_str).filter(|kind| matches!(*kind, "text" | "thinking"))
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
