//! The common part of all dialects when they read one event for the race and the meter: unwrap the JSON text, and
//! classify unreadable text. Not for the members of a dialect.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::frame::{Chunk, Frame};
use super::json::InvalidJson;
use super::sse::SseEvent;

/// The data of a server-sent event, before its JSON is read.
pub(super) enum EventData<'a> {
    None,
    /// `[DONE]`. Some servers and proxies write it in dialects that do not have it.
    Done,
    /// `name` is the value of the `event` line, empty if there is none.
    Json {
        data: Cow<'a, [u8]>,
        name: &'a [u8],
    },
}

pub(super) fn data_of(event: &SseEvent) -> EventData<'_> {
    let fields = event.fields();
    let name = fields.name.unwrap_or_default();
    let Some(data) = fields.data else {
        // Some servers write a bare JSON line into a 200 response when something is wrong.
        let is_json = event.raw.trim_ascii_start().starts_with(b"{");
        return if is_json { EventData::Json { data: Cow::Borrowed(&event.raw), name: b"" } } else { EventData::None };
    };
    match data.trim_ascii() {
        b"" => EventData::None,
        b"[DONE]" => EventData::Done,
        _ => EventData::Json { data, name },
    }
}

/// Reads a server-sent event. `read` gets the JSON text and the event's name.
pub(super) fn read_sse(
    event: &SseEvent,
    read: impl for<'a> Fn(&'a str, &'a [u8]) -> Result<Frame<'a>, InvalidJson>,
) -> Frame<'_> {
    match data_of(event) {
        EventData::None => Frame::KeepAlive,
        EventData::Done => Frame::Done(Chunk::default()),
        EventData::Json { data, name: b"error" } => Frame::Error { data, usage: None },
        EventData::Json { name: b"ping", .. } => Frame::KeepAlive,
        EventData::Json { data: Cow::Borrowed(data), name } => read_json(data, |text| read(text, name)),
        // A JSON text in several `data` lines. Rare.
        EventData::Json { data: Cow::Owned(data), name } => read_json(&data, |text| read(text, name)).into_owned(),
    }
}

/// Reads a JSON text. A text that `read` cannot walk is malformed, unless it is valid JSON: then it carries nothing, but is
/// passed on.
pub(super) fn read_json<'a>(data: &'a [u8], read: impl FnOnce(&'a str) -> Result<Frame<'a>, InvalidJson>) -> Frame<'a> {
    let Ok(text) = std::str::from_utf8(data) else { return Frame::Malformed };
    match read(text) {
        Ok(frame) => frame,
        Err(InvalidJson) if serde_json::from_str::<IgnoredAny>(text).is_ok() => Frame::Chunk(Chunk::default()),
        Err(InvalidJson) => Frame::Malformed,
    }
}

/// Whether the value of a member `error` reports a failure. Some servers write an empty one into good events.
pub(super) fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "\"\"" | "{}" | "[]")
}
