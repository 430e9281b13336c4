//! What a request of the Responses API says of earlier answers. Not for the request with their items: see `recalled`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::InvalidRequest;
use crate::dialect::{Dialect, Surface};
use crate::json::Json;
use crate::json::raw_members::members;

/// The members that name earlier state, and what is to become of the answer.
#[derive(Clone, Default)]
pub struct StateUse {
    /// `previous_response_id`
    pub previous: Option<String>,
    /// The id in `conversation`.
    pub conversation: Option<String>,
    /// The input may name items of earlier answers.
    pub refers: bool,
    /// `store` is false.
    pub unstored: bool,
    pub background: bool,
    /// Members of a translated answer that differ from those of the request: its earlier state was put into the input.
    pub echo: Map<String, Value>,
}

#[derive(Deserialize)]
struct ConversationReference {
    id: String,
}

impl StateUse {
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<(), InvalidRequest> {
        match name {
            "previous_response_id" => self.previous = serde_json::from_str(value).ok(),
            "conversation" => {
                let of_object = |_| serde_json::from_str::<ConversationReference>(value).map(|named| Some(named.id));
                let (member, expected) = ("conversation", "an id, or an object with one `id`");
                let named = serde_json::from_str(value).or_else(of_object);
                self.conversation = named.map_err(|_| InvalidRequest::Member { member, expected })?;
            }
            "store" => self.unstored = value == "false",
            "background" => self.background = value == "true",
            _ => {}
        }
        Ok(())
    }

    pub(super) fn look_at_input(&mut self, input: &[u8]) {
        self.refers = items(input).iter().any(|item| referred(item).is_some());
    }
}

/// Members that name what others may have made. Readers differ about which of two counts.
const ONCE: [&str; 3] = ["previous_response_id", "conversation", "input"];

/// # Errors
/// One of [`ONCE`] occurs twice.
pub(super) fn check_once(members: &[(Cow<'_, str>, &str)]) -> Result<(), InvalidRequest> {
    let is_twice = |name: &&str| members.iter().filter(|(member, _)| member == name).count() > 1;
    ONCE.into_iter().find(is_twice).map_or(Ok(()), |name| Err(InvalidRequest::Twice(name)))
}

/// The id of the item that this one refers to. Its `type` may be left out, which only messages do besides, and those have a `role`.
/// Readers differ about names that occur twice or in other letters, so all of them count.
pub(super) fn referred(item: &str) -> Option<String> {
    let members = members(item).ok()?;
    let text = |value: &str| serde_json::from_str::<String>(value).ok();
    let named =
        |name| members.iter().filter(move |(member, value)| member.eq_ignore_ascii_case(name) && *value != "null");
    let refers = named("type").any(|(_, kind)| text(kind).as_deref() == Some("item_reference"));
    let is_another = named("type").chain(named("role")).next().is_some();
    named("id").filter_map(|(_, id)| text(id)).next_back().filter(|_| refers || !is_another)
}

/// The texts of the items of a list. None for other values.
pub(super) fn items(list: &[u8]) -> Vec<&str> {
    let Ok(text) = std::str::from_utf8(list) else { return Vec::new() };
    let (mut items, mut json) = (Vec::new(), Json::new(text));
    let walked =
        if json.peek() == Some(b'[') { json.list(|json| json.skip().map(|item| items.push(item))) } else { Ok(()) };
    match walked {
        Ok(()) => items,
        Err(_) => {
            serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default().into_iter().map(RawValue::get).collect()
        }
    }
}

/// Adds items to a list that has no brackets.
pub fn add(items: &mut Vec<u8>, more: &[u8]) {
    let more = more.trim_ascii();
    if !items.is_empty() && !more.is_empty() {
        items.push(b',');
    }
    items.extend_from_slice(more);
}

/// Whether requests of this surface may name earlier state.
pub(super) fn has_state(surface: Surface) -> bool {
    surface.dialect() == Dialect::Responses
}
