//! The shortcut of the hot path. Chunks of a stream usually differ only in their text, so a chunk that otherwise equals
//! the last one is not parsed. Other chunks are parsed.

use std::ops::Range;

use bytes::Bytes;

use super::frame::{Chunk, Payload};
use crate::PayloadKind;
use crate::json::{characters, string_end};
use crate::stream::sse::SseEvent;

/// Bytes of an event that is learnt.
const LEARNT_MAX: usize = 64 << 10;

/// A parsed chunk, and the places that may differ in other chunks: the text, OpenAI's padding, the event's number.
#[derive(Debug)]
pub struct Template {
    raw: Bytes,
    /// In order of position.
    holes: Vec<TemplateHole>,
    kind: PayloadKind,
    /// The text is a call's arguments.
    calls: bool,
}

/// An event that differs from its template in the holes alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoreText {
    pub payload: Payload,
    /// The position of the text in the event: the bytes between the quotes.
    pub at: Range<usize>,
    /// The text is a call's arguments.
    pub calls: bool,
}

#[derive(Clone, Debug)]
struct TemplateHole {
    at: Range<usize>,
    holds: HoleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoleKind {
    Text,
    /// A string without meaning.
    Padding,
    /// A whole number without meaning.
    Number,
}

impl Template {
    /// Learns from a chunk whose payload is one plain string, and which has no other varying part.
    pub fn learn(event: &SseEvent, chunk: &Chunk<'_>) -> Option<Template> {
        let other = chunk.finish_reason.is_some()
            || chunk.usage.is_some()
            || chunk.timings.is_some()
            || chunk.time_info.is_some()
            || chunk.cost.is_some()
            || chunk.repeated;
        // A longer text is none of many, and its copy would stay in memory.
        if other || event.raw.len() > LEARNT_MAX {
            return None;
        }
        let parts =
            [(chunk.text, HoleKind::Text), (chunk.padding, HoleKind::Padding), (chunk.number, HoleKind::Number)];
        chunk.text?;
        let mut holes = Vec::with_capacity(parts.len());
        for (part, holds) in parts {
            let Some(part) = part else { continue };
            let at = within(&event.raw, part)?;
            if holds == HoleKind::Number && number_end(&event.raw, at.start) != Some(at.end) {
                return None;
            }
            holes.push(TemplateHole { at, holds });
        }
        holes.sort_by_key(|hole| hole.at.start);
        if holes.windows(2).any(|pair| pair[0].at.end >= pair[1].at.start) {
            return None;
        }
        // A copy, because a slice would keep the whole read in memory.
        Some(Template { raw: Bytes::copy_from_slice(&event.raw), holes, kind: chunk.payload?.kind, calls: chunk.calls })
    }

    /// What is new in an event that differs from the template only in its holes. None for other events.
    pub fn fits(&self, event: &SseEvent) -> Option<MoreText> {
        let raw = &event.raw[..];
        // How far both have been compared.
        let (mut own, mut other) = (0, 0);
        let mut more = None;
        for TemplateHole { at, holds } in &self.holes {
            let fixed = &self.raw[own..at.start];
            if !raw.get(other..)?.starts_with(fixed) {
                return None;
            }
            let start = other + fixed.len();
            let end = match holds {
                HoleKind::Number => number_end(raw, start)?,
                HoleKind::Text | HoleKind::Padding => string_end(raw, start)?,
            };
            if *holds == HoleKind::Text {
                let text = std::str::from_utf8(&raw[start..end]).ok().filter(|text| !text.is_empty())?;
                let payload = Payload { kind: self.kind, chars: characters(text) };
                more = Some(MoreText { payload, at: start..end, calls: self.calls });
            }
            (own, other) = (at.end, end);
        }
        if raw[other..] == self.raw[own..] { more } else { None }
    }
}

/// The end of the whole number that begins at `start`. None if it is not a valid JSON number.
fn number_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start..)?;
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (len == 1 || len > 1 && rest[0] != b'0').then_some(start + len)
}

/// The range of `part` in `whole`, which it was borrowed from. None if it was not.
fn within(whole: &Bytes, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let range = start..start + part.len();
    (whole.get(range.clone()) == Some(part.as_bytes())).then_some(range)
}
