//! One event of a Responses stream as it is written, as far as it matters: members stay where they stand in its text.

use std::borrow::Cow;

use super::SseEvent;
use crate::protocol::json::{InvalidJson, Json};

/// The members of one event. Strings are what stands between the quotes.
#[derive(Default)]
pub(super) struct ResponsesWire<'a> {
    /// `type`, or the name of the event where it has none.
    pub kind: &'a str,
    pub delta: Option<&'a str>,
    pub number: Option<&'a str>,
    pub padding: Option<&'a str>,
    /// Objects, as text.
    pub item: Option<&'a str>,
    pub response: Option<&'a str>,
    pub error: Option<&'a str>,
    pub annotation: Option<&'a str>,
    pub partial_image: Option<&'a str>,
    pub output_index: Option<u64>,
    /// Of content or of a summary.
    pub part_index: Option<u64>,
}

impl<'a> ResponsesWire<'a> {
    pub fn read(text: &'a str) -> Result<ResponsesWire<'a>, InvalidJson> {
        let mut wire = ResponsesWire::default();
        let mut json = Json::new(text);
        json.object(|name, json| {
            match name {
                "type" => wire.kind = json.string_or_skip()?.unwrap_or_default(),
                "delta" => wire.delta = json.string_or_skip()?.filter(|delta| !delta.is_empty()),
                "sequence_number" => wire.number = json.some()?,
                "obfuscation" => wire.padding = json.string_or_skip()?,
                "item" => wire.item = json.some()?,
                "response" => wire.response = json.some()?,
                "error" => wire.error = Some(json.skip()?).filter(|error| says_error(error)),
                "annotation" => wire.annotation = json.some()?,
                "partial_image_b64" => wire.partial_image = json.string_or_skip()?.filter(|image| !image.is_empty()),
                "output_index" => wire.output_index = json.skip()?.parse().ok(),
                "content_index" | "summary_index" => wire.part_index = json.skip()?.parse().ok(),
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        if json.peek().is_some() { Err(InvalidJson) } else { Ok(wire) }
    }
}

/// What an event's bytes are before their JSON is looked at.
pub(super) enum EventData<'a> {
    None,
    Done,
    Json { data: Cow<'a, [u8]>, name: &'a str },
}

pub(super) fn data_of(event: &SseEvent) -> EventData<'_> {
    let fields = event.fields();
    let name = fields.name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    match fields.data {
        // Some servers write a bare JSON line into a 200 when something is wrong.
        None if event.raw.trim_ascii_start().starts_with(b"{") => {
            EventData::Json { data: Cow::Borrowed(&event.raw), name: "" }
        }
        None => EventData::None,
        Some(data) if data.trim_ascii().is_empty() => EventData::None,
        Some(data) if data.trim_ascii() == b"[DONE]" => EventData::Done,
        Some(data) => EventData::Json { data, name },
    }
}

/// True unless the value is one that says nothing: some servers write an `error` that is none.
fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "\"\"" | "{}" | "[]")
}
