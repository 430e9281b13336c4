//! The common part of all dialects when they read one event for the race and the meter: unwrap the JSON text, and
//! classify unreadable text. Not for the members of a dialect.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::IgnoredAny;

use super::bare_error::is_sentence;
use super::frame::{Chunk, Frame};
use super::sse::SseEvent;
use crate::json::InvalidJson;

/// The data of a server-sent event, before its JSON is read.
pub(crate) enum EventData<'a> {
    None,
    /// `[DONE]`. Some servers and proxies write it in dialects that do not have it.
    Done,
    /// `name` is the value of the `event` line, empty if there is none.
    Json {
        data: Cow<'a, [u8]>,
        name: &'a [u8],
    },
    /// A sentence or a web page: what a server or a proxy writes when something is wrong.
    Sentence(Cow<'a, [u8]>),
}

pub(crate) fn data_of(event: &SseEvent) -> EventData<'_> {
    let fields = event.fields();
    let name = fields.name.unwrap_or_default();
    let Some(data) = fields.data else {
        // Some servers write bare JSON into a stream: an error, or an answer that is not streamed.
        return match bare_json(event) {
            Some(data) => EventData::Json { data, name },
            None if says(event.raw.trim_ascii_start()) => EventData::Sentence(Cow::Borrowed(&event.raw)),
            None => EventData::None,
        };
    };
    match data.trim_ascii() {
        b"" => EventData::None,
        b"[DONE]" => EventData::Done,
        // An event with a name may have data of any kind.
        text if matches!(name, b"" | b"message") && says(text) => EventData::Sentence(data),
        _ => EventData::Json { data, name },
    }
}

/// The text of an event without data that may be JSON, whole or damaged. Not the text of a web page.
fn bare_json(event: &SseEvent) -> Option<Cow<'_, [u8]>> {
    let text = event.raw.trim_ascii_start();
    if text.starts_with(b"{") {
        return Some(Cow::Borrowed(&event.raw));
    }
    let is_field = |line: &[u8]| [&b":"[..], b"event:", b"id:", b"retry:"].iter().any(|name| line.starts_with(name));
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_field(line)).peekable();
    let is_page = lines.peek().is_some_and(|line| line.starts_with(b"<"));
    let bare = lines.collect::<Vec<_>>().concat();
    let may_be_json = bare.trim_ascii_start().starts_with(b"{") || memmem::find(&bare, b"{\"").is_some();
    (may_be_json && !is_page).then_some(Cow::Owned(bare))
}

/// Whether a text is a sentence or a web page. Most are JSON and decided by their first byte.
pub(crate) fn says(text: &[u8]) -> bool {
    let is_json = matches!(text.first(), None | Some(b'{' | b'[' | b'"'));
    !is_json && std::str::from_utf8(text).is_ok_and(is_sentence)
}

/// Reads a server-sent event. `read` gets the JSON text and the event's name.
pub(crate) fn read_sse(
    event: &SseEvent,
    read: impl for<'a> Fn(&'a str, &'a [u8]) -> Result<Frame<'a>, InvalidJson>,
) -> Frame<'_> {
    match data_of(event) {
        EventData::None => Frame::KeepAlive,
        EventData::Done => Frame::Done(Chunk::default()),
        EventData::Sentence(data) => Frame::Error { data, usage: None },
        EventData::Json { data, name: b"error" } => Frame::Error { data, usage: None },
        EventData::Json { name: b"ping", .. } => Frame::KeepAlive,
        EventData::Json { data: Cow::Borrowed(data), name } => read_json(data, |text| read(text, name)),
        // A JSON text in several `data` lines. Rare.
        EventData::Json { data: Cow::Owned(data), name } => read_json(&data, |text| read(text, name)).into_owned(),
    }
}

/// Reads a JSON text. A text that `read` cannot walk is malformed, unless it is valid JSON: then it carries nothing, but is
/// passed on.
pub(crate) fn read_json<'a>(data: &'a [u8], read: impl FnOnce(&'a str) -> Result<Frame<'a>, InvalidJson>) -> Frame<'a> {
    let Ok(text) = std::str::from_utf8(data) else { return Frame::Malformed };
    match read(text) {
        Ok(frame) => frame,
        Err(InvalidJson) if serde_json::from_str::<IgnoredAny>(text).is_ok() => Frame::Chunk(Chunk::default()),
        Err(InvalidJson) => Frame::Malformed,
    }
}

/// Whether the value of a member `error` reports a failure. Some servers write an empty one into good events.
pub(crate) fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "\"\"" | "{}" | "[]")
}
