//! The body for one upstream of the request's own dialect: with its model, and as it is asked to answer.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::members::{Member, with_usage};
use super::{ApiRequest, SetMembers};
use crate::dialect::AnswerForm;

impl ApiRequest {
    /// The body for an upstream: with its model name, and, if the surface has them, with streaming and a request for
    /// usage as `form` says. All other members keep their bytes.
    pub fn body_for(&self, model: &str, form: AnswerForm) -> Bytes {
        let mut body = Vec::with_capacity(self.body.len() + model.len() + 64);
        let mut position = 0;
        let mut seen = [false; 3];
        for (set, member) in &self.edits {
            let value = self.value_of(*set, member, model, form);
            // Vendors refuse `stream_options` in a request that does not stream.
            let cut = if value.is_none() { self.with_comma(&member.whole) } else { member.value.clone() };
            body.extend_from_slice(&self.body[position..cut.start.max(position)]);
            body.extend_from_slice(value.unwrap_or_default().as_bytes());
            position = cut.end;
            seen[*set as usize] = true;
        }
        body.extend_from_slice(&self.body[position..self.end]);
        let mut separator = if self.has_members { "," } else { "" };
        let missing = |set: SetMembers| !seen[set as usize] && set.is_of(self.surface);
        let mut add = |member: &str| {
            body.extend_from_slice(separator.as_bytes());
            body.extend_from_slice(member.as_bytes());
            separator = ",";
        };
        // Only a translated request may lack it.
        if missing(SetMembers::Model) {
            add(&format!("\"model\":{}", serde_json::Value::from(model)));
        }
        if missing(SetMembers::Stream) && (form != AnswerForm::Plain || self.stream) {
            add(&format!("\"stream\":{}", form != AnswerForm::Plain));
        }
        if form == AnswerForm::WithUsage && missing(SetMembers::StreamOptions) {
            add("\"stream_options\":{\"include_usage\":true}");
        }
        body.extend_from_slice(&self.body[self.end..]);
        Bytes::from(body)
    }

    /// The JSON text of a member that is set. None: it is left out.
    fn value_of(&self, set: SetMembers, member: &Member, model: &str, form: AnswerForm) -> Option<Cow<'_, str>> {
        let own = || std::str::from_utf8(&self.body[member.value.clone()]).ok().map(Cow::Borrowed);
        match (set, form) {
            (SetMembers::Model, _) if self.form.is_some() => Some(Cow::Owned(model.to_owned())),
            (SetMembers::Model, _) => Some(Cow::Owned(serde_json::Value::from(model).to_string())),
            (SetMembers::Stream, AnswerForm::Plain) if self.stream => Some(Cow::Borrowed("false")),
            (SetMembers::Stream, AnswerForm::Plain) => own(),
            (SetMembers::Stream, _) => Some(Cow::Borrowed("true")),
            (SetMembers::StreamOptions, AnswerForm::WithUsage) => {
                Some(Cow::Owned(with_usage(&self.body[member.value.clone()])))
            }
            (SetMembers::StreamOptions, _) => None,
        }
    }

    /// The range of a member and one adjacent comma, so that the rest is valid JSON.
    fn with_comma(&self, whole: &Range<usize>) -> Range<usize> {
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let after = whole.end + self.body[whole.end..].iter().take_while(|byte| blank(byte)).count();
        if self.body.get(after) == Some(&b',') {
            return whole.start..after + 1;
        }
        let before = whole.start - self.body[..whole.start].iter().rev().take_while(|byte| blank(byte)).count();
        if before > 0 && self.body[before - 1] == b',' { before - 1..whole.end } else { whole.clone() }
    }
}
