//! The members of an object as JSON text, in order and with duplicates: what is not looked at keeps its bytes. Not for the members
//! of a request that the gateway knows: see `request`.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in order, with duplicates.
pub(crate) struct RequestMembers<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RequestMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = RequestMembers<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestMembers<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((MemberName(name), value)) = map.next_entry::<MemberName<'de>, &'de RawValue>()? {
                    members.push((name, value));
                }
                Ok(RequestMembers(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Members in their order, as JSON text.
pub(crate) type RawMembers<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The members of an object. None if it is not an object.
pub(crate) fn raw_members(body: &[u8]) -> Option<RawMembers<'_>> {
    let RequestMembers(members) = serde_json::from_slice(body).ok()?;
    Some(members.into_iter().map(|(name, value)| (name, Cow::Borrowed(value.get()))).collect())
}

/// The object with these members.
pub(crate) fn written(members: &RawMembers<'_>) -> String {
    let length = members.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + 2;
    let mut text = String::with_capacity(length);
    text.push('{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(name.as_ref()).to_string());
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}

/// Borrowed if it has no escapes. Transparent: serde_json shows a long number as an object whose name is no newtype.
#[derive(Deserialize)]
#[serde(transparent)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);
