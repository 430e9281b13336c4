//! The members of an object as JSON text, in order and with duplicates: what is not looked at keeps its bytes. Not for the members
//! of a request that the gateway knows: see `request`.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{InvalidJson, Json, unescape};

/// The members of an object in order, with duplicates, and the text of each value.
pub type MemberTexts<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Members of one JSON object. Each takes more room than the text of a short one.
const MEMBERS_MAX: usize = 65_536;

/// The members of an object. Walks the text, which costs a quarter of what serde_json takes to skip a long value.
///
/// # Errors
/// What serde_json says of the text, with its place.
pub fn members(text: &str) -> serde_json::Result<MemberTexts<'_>> {
    let mut members = MemberTexts::new();
    let mut json = Json::new(text);
    let walked = match json.peek() {
        Some(b'{') => json.to_end(|name, json| {
            if members.len() == MEMBERS_MAX {
                return Err(InvalidJson);
            }
            members.push((unescape(name).ok_or(InvalidJson)?, json.skip()?));
            Ok(())
        }),
        _ => Err(InvalidJson),
    };
    match walked {
        Ok(()) => Ok(members),
        // It may still be right: nested more deeply than is walked.
        Err(InvalidJson) => serde_json::from_str(text).map(|SlowMembers(members)| members),
    }
}

struct SlowMembers<'a>(MemberTexts<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for SlowMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = SlowMembers<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SlowMembers<'de>, A::Error> {
                let mut members = MemberTexts::new();
                while let Some((MemberName(name), value)) = map.next_entry::<MemberName<'de>, &'de RawValue>()? {
                    if members.len() == MEMBERS_MAX {
                        return Err(serde::de::Error::custom("an object has more than 65,536 members"));
                    }
                    members.push((name, value.get()));
                }
                Ok(SlowMembers(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// MemberTexts in their order, as JSON text.
pub type RawMembers<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The members of an object. None if it is not an object.
pub fn raw_members(body: &[u8]) -> Option<RawMembers<'_>> {
    let members = members(std::str::from_utf8(body).ok()?).ok()?;
    Some(members.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect())
}

/// The object with these members.
pub fn written(members: &RawMembers<'_>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_countless_members_is_refused() {
        let object = |count: usize| format!("{{{}}}", vec!["\"\":0"; count].join(","));
        assert_eq!(members(&object(MEMBERS_MAX)).unwrap().len(), MEMBERS_MAX);
        assert!(members(&object(MEMBERS_MAX + 1)).unwrap_err().to_string().contains("more than 65,536 members"));
    }
}
