//! What the operator changes in each request to a provider: members that are set, defaulted or dropped, and fixed headers.

use std::borrow::Cow;

use http::HeaderMap;
use serde_json::Value;

use crate::protocol::neutral::Losses;

/// Members of the body, at its top level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestChanges {
    /// In each request, whatever the client says.
    pub set: Vec<(String, Value)>,
    /// Where the request has no such member.
    pub default: Vec<(String, Value)>,
    /// Never sent.
    pub drop: Vec<String>,
    /// Sent with each request, in place of what a client sends.
    pub headers: HeaderMap,
    /// Never sent, because the provider refuses them: a loss like any other.
    pub refused: Vec<String>,
}

/// Members in their order, as JSON text.
pub(super) type RawMembers<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

impl RequestChanges {
    /// Adds other changes, which win.
    pub fn over(&mut self, others: &RequestChanges) {
        for (mine, theirs) in [(&mut self.set, &others.set), (&mut self.default, &others.default)] {
            mine.retain(|(name, _)| theirs.iter().all(|(other, _)| other != name));
            mine.extend(theirs.iter().cloned());
        }
        self.drop.extend(others.drop.iter().cloned());
        self.headers.extend(others.headers.clone());
    }

    /// Whether bodies stay as they are.
    pub fn keeps_bodies(&self) -> bool {
        self.set.is_empty() && self.default.is_empty() && self.drop.is_empty() && self.refused.is_empty()
    }

    /// Changes the members. Returns whether any was changed.
    pub(super) fn apply(&self, members: &mut RawMembers<'_>, losses: &mut Losses) -> bool {
        let mut changed = false;
        for name in &self.drop {
            let before = members.len();
            members.retain(|(member, _)| member != name);
            if members.len() < before {
                losses.form(name);
            }
            changed |= members.len() < before;
        }
        for name in &self.refused {
            let before = members.len();
            members.retain(|(member, _)| member != name);
            losses.lose_if(members.len() < before, name);
            changed |= members.len() < before;
        }
        for (name, value) in &self.set {
            members.retain(|(member, _)| member != name);
            members.push((Cow::Owned(name.clone()), Cow::Owned(value.to_string())));
            changed = true;
        }
        for (name, value) in &self.default {
            let is_there = members.iter().any(|(member, text)| member == name && text != "null");
            if !is_there {
                members.retain(|(member, _)| member != name);
                members.push((Cow::Owned(name.clone()), Cow::Owned(value.to_string())));
                changed = true;
            }
        }
        changed
    }
}

/// The object with these members.
pub(super) fn written(members: &RawMembers<'_>) -> String {
    let length = members.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + 2;
    let mut text = String::with_capacity(length);
    text.push('{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_ref()).to_string());
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}
