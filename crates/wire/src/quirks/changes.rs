//! What the operator changes in each request to a provider: members that are set, defaulted or dropped, and fixed headers.

use std::borrow::Cow;

use http::HeaderMap;
use serde_json::Value;

use crate::conversation::Losses;
use crate::json::raw_members::RawMembers;

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

impl RequestChanges {
    /// Adds other changes, which win.
    pub fn over(&mut self, others: &RequestChanges) {
        for (mine, theirs) in [(&mut self.set, &others.set), (&mut self.default, &others.default)] {
            mine.retain(|(name, _)| theirs.iter().all(|(other, _)| other != name));
            mine.extend(theirs.iter().cloned());
        }
        // What is dropped for some models is not set for them, and the other way round.
        for mine in [&mut self.set, &mut self.default] {
            mine.retain(|(name, _)| !others.drop.contains(name));
        }
        let is_set = |name: &String| others.set.iter().chain(&others.default).any(|(other, _)| other == name);
        self.drop.retain(|name| !is_set(name));
        self.drop.extend(others.drop.iter().cloned());
        self.headers.extend(others.headers.clone());
    }

    /// Whether bodies stay as they are.
    pub fn keeps_bodies(&self) -> bool {
        self.set.is_empty() && self.default.is_empty() && self.drop.is_empty() && self.refused.is_empty()
    }

    /// Changes the members. Some are added only where the call `generates` something. Returns whether any was changed.
    pub fn apply(&self, generates: bool, members: &mut RawMembers<'_>, losses: &mut Losses) -> bool {
        let mut changed = false;
        for name in &self.drop {
            if remove(members, name) {
                losses.form(name);
                changed = true;
            }
        }
        for name in &self.refused {
            // A member that says nothing is no loss.
            let says = |text: &str| !matches!(text, "null" | "false" | "{}" | "[]");
            losses.lose_if(members.iter().any(|(member, text)| member == name && says(text)), name);
            changed |= remove(members, name);
        }
        if !generates {
            return changed;
        }
        for (name, value) in &self.set {
            remove(members, name);
            members.push((Cow::Owned(name.clone()), Cow::Owned(value.to_string())));
            changed = true;
        }
        for (name, value) in &self.default {
            let is_there = members.iter().any(|(member, text)| member == name && text != "null");
            if !is_there {
                remove(members, name);
                members.push((Cow::Owned(name.clone()), Cow::Owned(value.to_string())));
                changed = true;
            }
        }
        changed
    }
}

/// Removes a member. Returns whether it was there.
pub fn remove(members: &mut RawMembers<'_>, name: &str) -> bool {
    let before = members.len();
    members.retain(|(member, _)| member != name);
    members.len() < before
}

/// Sends a member under another name; where it is there under both, under that one alone. Returns whether it was there.
pub fn rename(members: &mut RawMembers<'_>, from: &str, to: &'static str) -> bool {
    let place = |name: &str| members.iter().rposition(|(member, text)| member == name && text != "null");
    let (Some(at), other) = (place(from), place(to)) else { return false };
    if other.is_none() {
        members[at].0 = Cow::Borrowed(to);
    }
    members.retain(|(member, text)| member != from && (member != to || text != "null"));
    true
}
