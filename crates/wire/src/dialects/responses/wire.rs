//! The raw members of one event of a Responses stream, borrowed from its text.

use crate::json::{InvalidJson, Json};
use crate::stream::event_reader::says_error;

/// The members of one event. Strings are the text between the quotes.
#[derive(Default)]
pub(super) struct ResponsesWire<'a> {
    /// `type`, or the event's name if it has none.
    pub kind: &'a str,
    pub delta: Option<&'a str>,
    pub number: Option<&'a str>,
    pub padding: Option<&'a str>,
    /// Objects, as JSON text.
    pub item: Option<&'a str>,
    pub response: Option<&'a str>,
    pub error: Option<&'a str>,
    pub annotation: Option<&'a str>,
    pub partial_image: Option<&'a str>,
    pub output_index: Option<u64>,
    /// Index of a content part or a summary part.
    pub part_index: Option<u64>,
}

impl<'a> ResponsesWire<'a> {
    /// Reads one event. `name` is the value of its `event` line.
    pub fn read(text: &'a str, name: &'a [u8]) -> Result<ResponsesWire<'a>, InvalidJson> {
        let mut wire = ResponsesWire::default();
        Json::whole(text, |name, json| {
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
        if wire.kind.is_empty() {
            wire.kind = std::str::from_utf8(name).unwrap_or_default();
        }
        Ok(wire)
    }
}
