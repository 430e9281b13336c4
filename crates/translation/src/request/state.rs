//! What a request of the Responses API says of earlier answers. Not for the request with their items: see `recalled`.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::InvalidRequest;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::raw_members::members;
use photofinish_wire::json::{InvalidJson, Json};

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
    /// It may ask for a short form of its conversation.
    pub compacts: bool,
    /// Members of a translated answer that differ from those of the request: its earlier state was put into the input.
    pub echo: Map<String, Value>,
}

/// The type of the item with which a client asks for a short form of the conversation.
pub(crate) const TRIGGER: &str = "compaction_trigger";

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
        self.refers = items(input).is_some_and(refers);
        self.compacts = memmem::find(input, format!("\"{TRIGGER}\"").as_bytes()).is_some();
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

/// The items of a list, without its brackets. None for other values.
pub(super) fn items(list: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(list).ok()?.trim_ascii();
    text.strip_prefix('[')?.strip_suffix(']')
}

/// Whether one of these items refers to another one, or may.
fn refers(items: &str) -> bool {
    let mut refers = false;
    let walked = Json::listed(items, |item| {
        refers |= referred(item).is_some();
        Ok(())
    });
    refers || walked.is_err()
}

/// Adds items to a list that has no brackets.
pub fn add(items: &mut Vec<u8>, more: &[u8]) {
    let more = more.trim_ascii();
    if !items.is_empty() && !more.is_empty() {
        items.push(b',');
    }
    items.extend_from_slice(more);
}

/// Items of one answer that are compared with those of a request.
const FOLDED_MAX: usize = 10_000;

/// A list without brackets, without the items that earlier lists have: some clients send the last answer's once more together with
/// `previous_response_id`. None: it has none of them.
pub fn without_repeated<'a>(own: &[u8], earlier: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let walk = |items: &[u8], each: &mut dyn FnMut(&str)| {
        let mut left = FOLDED_MAX;
        Json::listed(std::str::from_utf8(items).map_err(|_| InvalidJson)?, |item| {
            left = left.checked_sub(1).ok_or(InvalidJson)?;
            each(item);
            Ok(())
        })
    };
    let mut known = HashSet::new();
    for items in earlier {
        walk(items, &mut |item| known.extend(name_of(item))).ok()?;
    }
    let (mut kept, mut folds) = (Vec::with_capacity(own.len()), false);
    walk(own, &mut |item| match name_of(item).is_some_and(|name| known.contains(&name)) {
        true => folds = true,
        false => add(&mut kept, item.as_bytes()),
    })
    .ok()?;
    folds.then_some(kept)
}

/// What distinguishes an item of an answer: the call that it makes or answers, or its id.
fn name_of(item: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "type", default)]
        kind: Option<String>,
        call_id: Option<String>,
        id: Option<String>,
    }
    let Named { kind, call_id, id } = serde_json::from_str(item).ok()?;
    let name = call_id.or(id).filter(|name| !name.is_empty())?;
    Some(format!("{} {name}", kind.unwrap_or_default()))
}

/// Whether requests of this surface may name earlier state.
pub(super) fn has_state(surface: Surface) -> bool {
    surface.dialect() == Dialect::Responses
}

#[cfg(test)]
mod repeated_tests {
    use super::*;

    #[test]
    fn items_that_an_earlier_answer_has_are_folded() {
        let call = r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#;
        let output = r#"{"type":"function_call_output","call_id":"c","output":"1"}"#;
        let message = r#"{"type":"message","id":"msg_1","role":"assistant","content":[]}"#;
        let user = r#"{"role":"user","content":"x"}"#;
        let folded = |own: &[&str], earlier: &[&str]| {
            let earlier = earlier.join(",");
            without_repeated(own.join(",").as_bytes(), [earlier.as_bytes()].into_iter())
                .map(|kept| String::from_utf8(kept).unwrap())
        };
        assert_eq!(folded(&[call, output], &[user, message, call]).as_deref(), Some(output));
        assert_eq!(folded(&[message, user], &[message]).as_deref(), Some(user));
        assert_eq!(folded(&[output, user], &[user, call]), None, "two turns may say the same");
        assert_eq!(folded(&[call], &[call]).as_deref(), Some(""));
        assert_eq!(folded(&["{"], &[call]), None);
    }
}
