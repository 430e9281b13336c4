//! A whole answer that grows from a stream, for a client that did not ask to stream. Each dialect adds its
//! [`GrowingForm`].
//!
//! Not on the hot path: builds JSON values.

mod grown;

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;

pub use grown::{GrownMembers, ITEMS_MAX, Rule, delta_rule};

use crate::json::SERDE_DEPTH_MAX;
use crate::json::surrogates::HalfCharacters;
use crate::json::{InvalidJson, Json, unescape};
use crate::stream::event_reader::{EventData, data_of};
use crate::stream::sse::SseEvent;
use grown::Growth;

/// Maximum choices of a whole answer, as OpenAI limits `n`.
pub const CHOICES_MAX: usize = 128;
/// An answer that grows. One for each stream. By default the answer is one event, and stays as it came.
#[derive(Default)]
pub struct GrowingAnswer {
    form: Option<Box<dyn GrowingForm>>,
    /// An answer without a form.
    body: Bytes,
    grown: GrownAnswer,
    halves: HalfCharacters,
}

/// What a dialect adds: how its events split into members and parts, and how they are laid out at the end.
pub trait GrowingForm: Send {
    /// Adds an event: its JSON text, and its name. None if it cannot be read or exceeds a bound: then no whole answer can
    /// be made.
    fn add(&mut self, text: &str, name: &[u8], answer: &mut GrownAnswer) -> Option<()>;

    /// The answer in the surface's form without `stream`. None if the arguments of a call cannot be parsed.
    fn finish(&mut self, answer: GrownAnswer) -> Option<Whole>;
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// A JSON text.
    pub body: Bytes,
    /// The answer has no text, call, refusal or media: it is empty, white space, or only reasoning.
    pub says_nothing: bool,
}

/// The members of an answer and of its parts so far.
#[derive(Debug, Default)]
pub struct GrownAnswer {
    pub members: GrownMembers,
    pub parts: Vec<GrownPart>,
    /// The place of the part of a number.
    pub places: HashMap<u64, usize>,
    pub growing: Growing,
}

/// A numbered part of an answer: a choice, a candidate, a block, an item.
#[derive(Debug, Default)]
pub struct GrownPart {
    pub index: u64,
    pub members: GrownMembers,
    /// The members of its message or content.
    pub inside: GrownMembers,
}

/// Where a member is.
#[derive(Clone, Copy, Debug)]
pub enum MemberPlace {
    Answer,
    /// The part at this place.
    Part(usize),
    /// The message or content of that part.
    Inside(usize),
}

/// What would grow if the last event came again.
#[derive(Debug, Default)]
pub enum Growing {
    #[default]
    Nothing,
    /// This text alone.
    Text(MemberPlace, String),
    /// Texts that are not kept.
    LeftOut,
    Other,
}

impl GrowingAnswer {
    pub fn new(form: impl GrowingForm + 'static) -> GrowingAnswer {
        GrowingAnswer { form: Some(Box::new(form)), ..GrowingAnswer::default() }
    }

    /// Adds one event of the surface's own dialect. False if it cannot be read or exceeds a bound: then no whole answer
    /// can be made.
    pub fn add(&mut self, event: &SseEvent) -> bool {
        let Some(form) = &mut self.form else {
            // The end of such an answer is an event without bytes.
            if !event.raw.is_empty() {
                self.body = event.raw.clone();
            }
            return true;
        };
        self.grown.growing = Growing::Nothing;
        let (data, name) = match data_of(event) {
            EventData::Json { data, name } => (data, name),
            EventData::None | EventData::Done => return true,
            EventData::Sentence(_) => return false,
        };
        let data = self.halves.joined(data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&data));
        // A list of events is none.
        let text = std::str::from_utf8(&data).ok().filter(|text| !text.trim_ascii_start().starts_with('['));
        text.is_some_and(|text| form.add(text, name, &mut self.grown).is_some())
    }

    /// Adds an event that differs from the last one in the text of its payload alone, by this text. False, and nothing
    /// is added, if not only this text would grow: then the event must be added.
    pub fn add_text(&mut self, text: &str) -> bool {
        let GrownAnswer { members, parts, growing, .. } = &mut self.grown;
        match growing {
            _ if self.halves.are_waiting() => false,
            Growing::Text(place, name) => {
                members_at(*place, members, parts).lengthen(name, text);
                true
            }
            Growing::LeftOut => true,
            Growing::Nothing | Growing::Other => false,
        }
    }

    /// The answer in the surface's form without `stream`. None if the arguments of a call cannot be parsed. Called
    /// once.
    pub fn finish(&mut self) -> Option<Whole> {
        match &mut self.form {
            Some(form) => form.finish(std::mem::take(&mut self.grown)),
            None => Some(Whole { body: std::mem::take(&mut self.body), says_nothing: false }),
        }
    }
}

impl Whole {
    pub fn new(answer: &Value, says_nothing: bool) -> Whole {
        // Writing bytes costs half of formatting a text. No value here can fail.
        Whole { body: Bytes::from(serde_json::to_vec(answer).unwrap_or_default()), says_nothing }
    }
}

impl GrownAnswer {
    /// Adds a member. None if it is not JSON, or too long.
    pub fn grow(&mut self, place: MemberPlace, name: &str, raw: &str, rule: Rule) -> Option<()> {
        let growth = members_at(place, &mut self.members, &mut self.parts).grow(name, raw, rule)?;
        match (growth, &self.growing) {
            (Growth::Nothing, _) => {}
            (Growth::Text, Growing::Nothing) => self.growing = Growing::Text(place, name.to_owned()),
            _ => self.growing = Growing::Other,
        }
        Some(())
    }

    /// Adds each member of an object.
    pub fn grow_all(&mut self, place: MemberPlace, object: &str, rule: impl Fn(&str) -> Rule) -> Option<()> {
        members(object)?.into_iter().try_for_each(|(name, raw)| self.grow(place, &name, raw, rule(&name)))
    }

    /// Adds an event with numbered parts in a list. Members that are null are left out. `add` adds a member of a part.
    pub fn grow_listed(
        &mut self,
        text: &str,
        list: &str,
        rule: impl Fn(&str) -> Rule,
        mut add: impl FnMut(&mut GrownAnswer, usize, &str, &str) -> Option<()>,
    ) -> Option<()> {
        for (name, raw) in members(text)?.into_iter().filter(|(_, raw)| *raw != "null") {
            if name != list {
                self.grow(MemberPlace::Answer, &name, raw, rule(&name))?;
                continue;
            }
            for part in objects(raw)? {
                let members = members(part)?;
                let index = members.iter().rfind(|(name, _)| name == "index");
                let at = self.part(index.and_then(|(_, raw)| raw.parse().ok()).unwrap_or(0), CHOICES_MAX)?;
                let mut others = members.into_iter().filter(|(name, raw)| name != "index" && *raw != "null");
                others.try_for_each(|(name, raw)| add(self, at, &name, raw))?;
            }
        }
        Some(())
    }

    /// The place of the part with this number. None if there are too many.
    pub fn part(&mut self, index: u64, most: usize) -> Option<usize> {
        let next = self.parts.len();
        let at = self.places.get(&index).copied().or_else(|| (next < most).then_some(next))?;
        if at == next {
            self.places.insert(index, at);
            self.parts.push(GrownPart { index, ..GrownPart::default() });
        }
        Some(at)
    }

    /// The parts in the order of their numbers, each laid out with its place.
    pub fn lay_out(&mut self, mut part: impl FnMut(usize, GrownPart) -> Option<Value>) -> Option<Vec<Value>> {
        let mut parts: Vec<_> = std::mem::take(&mut self.parts).into_iter().enumerate().collect();
        parts.sort_by_key(|(_, part)| part.index);
        parts.into_iter().map(|(at, grown)| part(at, grown)).collect()
    }
}

fn members_at<'a>(
    place: MemberPlace,
    members: &'a mut GrownMembers,
    parts: &'a mut [GrownPart],
) -> &'a mut GrownMembers {
    match place {
        MemberPlace::Answer => members,
        MemberPlace::Part(at) => &mut parts[at].members,
        MemberPlace::Inside(at) => &mut parts[at].inside,
    }
}

/// The members of an object as JSON texts; none of another value. None if it is not JSON.
pub fn members(text: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut members = Vec::with_capacity(8);
    let walked = Json::nested(text, SERDE_DEPTH_MAX).to_end(|name, json| {
        members.push((unescape(name).ok_or(InvalidJson)?, json.skip()?));
        Ok(())
    });
    walked.ok().map(|()| members)
}

/// The objects of a list as JSON texts; none of another value. None if it is not JSON.
pub fn objects(text: &str) -> Option<Vec<&str>> {
    let mut objects = Vec::new();
    let walked = Json::nested(text, SERDE_DEPTH_MAX).list(|json| {
        objects.push(json.skip()?);
        Ok(())
    });
    objects.retain(|item| item.starts_with('{'));
    walked.ok().map(|()| objects)
}

/// An object with what came: each member takes the place of its default, or follows them.
pub fn with(mut defaults: Value, came: GrownMembers) -> Value {
    if let Value::Object(members) = &mut defaults {
        members.extend(came.into_map());
    }
    defaults
}

/// Whether a text exists and is more than white space.
pub fn says(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.trim().is_empty())
}
