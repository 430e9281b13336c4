//! What one event of a Gemini stream carries, read where it stands.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::protocol::frame::{Chunk, Frame, Payload};
use crate::protocol::json::{InvalidJson, Json, characters, unescape};
use crate::protocol::sse::SseEvent;
use crate::protocol::{Dialect, PayloadKind, other_dialect};

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    match event.fields().data {
        // A server that fails may write a bare JSON text into a 200.
        None if event.raw.trim_ascii_start().starts_with(b"{") => read_data(&event.raw),
        None => Frame::KeepAlive,
        Some(data) if data.iter().all(u8::is_ascii_whitespace) => Frame::KeepAlive,
        // Not Google's, but proxies that speak its format add it.
        Some(data) if data.trim_ascii() == b"[DONE]" => Frame::Done(Chunk::default()),
        Some(Cow::Borrowed(data)) => read_data(data),
        Some(Cow::Owned(data)) => read_data(&data).into_owned(),
    }
}

fn read_data(data: &[u8]) -> Frame<'_> {
    match std::str::from_utf8(data).map_err(|_| InvalidJson).and_then(GeminiWire::read) {
        Err(InvalidJson) => odd(data),
        Ok(wire) if wire.is_error || wire.failed || (wire.blocked && wire.chunk.choices == 0) => {
            Frame::Error { data: Cow::Borrowed(data), usage: wire.chunk.usage }
        }
        Ok(wire) => match of_another(&wire, data) {
            Some(other) => Frame::Foreign(other),
            None => Frame::Chunk(wire.chunk),
        },
    }
}

/// The dialect of an event that has nothing of this one.
fn of_another(wire: &GeminiWire<'_>, data: &[u8]) -> Option<&'static str> {
    let has_own = wire.chunk.choices > 0 || wire.chunk.usage.is_some();
    if has_own { None } else { other_dialect::name(Dialect::Gemini, std::str::from_utf8(data).ok()?) }
}

/// What could not be walked is no JSON, or JSON that is odd beyond reason, which carries nothing.
fn odd(data: &[u8]) -> Frame<'static> {
    match std::str::from_utf8(data).map(serde_json::from_str::<IgnoredAny>) {
        Ok(Ok(_)) => Frame::Chunk(Chunk::default()),
        _ => Frame::Malformed,
    }
}

/// Ends of an answer that is broken, whatever was generated: a call above all that nobody could run.
const BROKEN: [&str; 5] = [
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
    "MISSING_THOUGHT_SIGNATURE",
];
/// Ends that tell nothing; without anything said before them in the event, they are failures too.
const UNSAID: [&str; 4] = ["OTHER", "NO_IMAGE", "IMAGE_OTHER", "LANGUAGE"];

/// A chunk as it is written, as far as it matters.
#[derive(Default)]
struct GeminiWire<'a> {
    chunk: Chunk<'a>,
    is_error: bool,
    /// An answer ended with a failure.
    failed: bool,
    /// The prompt was blocked: there is no answer.
    blocked: bool,
    /// Parts that carry payload.
    parts: usize,
}

impl<'a> GeminiWire<'a> {
    fn read(text: &'a str) -> Result<GeminiWire<'a>, InvalidJson> {
        let mut wire = GeminiWire::default();
        let mut json = Json::new(text);
        json.object(|name, json| {
            match name {
                "candidates" => json.list(|json| wire.candidate(json))?,
                // Vertex sends the object without any count until the end: that says nothing, and differs in no chunk.
                "usageMetadata" => {
                    let usage = json.some()?.filter(|usage| usage.contains("TokenCount"));
                    wire.chunk.usage = usage.map(Cow::Borrowed);
                }
                "modelVersion" => wire.chunk.model = text_of(json)?,
                "promptFeedback" => wire.feedback(json)?,
                "error" => wire.is_error |= !matches!(json.skip()?, "null" | "\"\"" | "{}"),
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        if json.peek().is_some() {
            return Err(InvalidJson);
        }
        wire.chunk.text = wire.chunk.text.filter(|_| wire.parts == 1);
        wire.chunk.usage_only = wire.chunk.choices == 0 && wire.chunk.usage.is_some();
        Ok(wire)
    }

    fn candidate(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        let (mut index, mut reason) = (0_u32, None);
        let before = self.parts;
        json.object(|name, json| {
            match name {
                "index" => index = json.skip()?.parse().unwrap_or(0),
                "content" => json.object(|name, json| match name {
                    "parts" => json.list(|json| self.part(json)),
                    _ => json.skip().map(drop),
                })?,
                "finishReason" => reason = finish_reason(json)?,
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        let ended = reason.as_deref().unwrap_or_default();
        self.failed |= BROKEN.contains(&ended) || (UNSAID.contains(&ended) && self.parts == before);
        let bit = 1 << u32::min(index, 63);
        self.chunk.choices |= bit;
        self.chunk.finished |= if reason.is_some() { bit } else { 0 };
        self.chunk.finish_reason = reason.or(self.chunk.finish_reason.take());
        Ok(())
    }

    fn part(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        let (mut thought, mut text, mut other) = (false, None, None);
        json.object(|name, json| {
            match name {
                "thought" => thought = json.skip()? == "true",
                "text" => text = json.string_or_skip()?.filter(|text| !text.is_empty()),
                "functionCall" => other = call(json)?,
                "inlineData" => other = data(json)?,
                // Written by the model. What comes of running it is not.
                "executableCode" => other = code(json)?,
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        let text_payload = text.map(|text| Payload { kind: PayloadKind::Text, chars: characters(text) });
        let Some(mut payload) = text_payload.or(other) else { return Ok(()) };
        if thought {
            payload.kind = PayloadKind::Reasoning;
        }
        self.parts += 1;
        self.chunk.text = text;
        self.chunk.payload = Some(merge(self.chunk.payload, payload));
        Ok(())
    }

    fn feedback(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(|name, json| {
            let value = json.skip()?;
            self.blocked |= name == "blockReason" && value != "null";
            Ok(())
        })
    }
}

/// Two payloads of one chunk are one: the answer's kind goes before reasoning, else the first.
fn merge(before: Option<Payload>, payload: Payload) -> Payload {
    match before {
        None => payload,
        Some(before) => Payload {
            kind: if before.kind == PayloadKind::Reasoning { payload.kind } else { before.kind },
            chars: before.chars.saturating_add(payload.chars),
        },
    }
}

/// Characters of a call's name and arguments.
fn call(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut chars = 0_u32;
    json.object(|name, json| {
        let more = match name {
            "name" => json.string_or_skip()?.map_or(0, characters),
            "args" => json.some()?.map_or(0, |args| u32::try_from(args.len()).unwrap_or(u32::MAX)),
            _ => json.skip().map(|_| 0)?,
        };
        chars = chars.saturating_add(more);
        Ok(())
    })?;
    Ok((chars > 0).then_some(Payload { kind: PayloadKind::Tool, chars }))
}

/// A generated image or sound.
fn data(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let (mut kind, mut chars) = (PayloadKind::Image, 0);
    json.object(|name, json| {
        let value = json.string_or_skip()?.unwrap_or_default();
        match name {
            "mimeType" if value.starts_with("audio") => kind = PayloadKind::Audio,
            "data" => chars = characters(value),
            _ => {}
        }
        Ok(())
    })?;
    Ok((chars > 0).then_some(Payload { kind, chars }))
}

fn code(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut chars = 0;
    json.object(|name, json| {
        let value = json.string_or_skip()?.unwrap_or_default();
        chars = if name == "code" { characters(value) } else { chars };
        Ok(())
    })?;
    Ok((chars > 0).then_some(Payload { kind: PayloadKind::Text, chars }))
}

/// A name, or the number that stands for it where a client of Google's wire format asked for numbers.
fn finish_reason<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, InvalidJson> {
    if json.peek() == Some(b'"') {
        return Ok(text_of(json)?.filter(|reason| reason != "FINISH_REASON_UNSPECIFIED"));
    }
    Ok(match json.some()? {
        None | Some("0") => None,
        Some(number) => Some(Cow::Borrowed(reason_of_number(number))),
    })
}

/// The names of the numbers that both of Google's APIs agree on; others stay as they are.
pub(super) fn reason_of_number(number: &str) -> &str {
    match number {
        "1" => "STOP",
        "2" => "MAX_TOKENS",
        "3" => "SAFETY",
        "4" => "RECITATION",
        "5" => "OTHER",
        other => other,
    }
}

/// A string that is not empty, where one is expected; anything else is none, so that an odd server loses no event.
fn text_of<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, InvalidJson> {
    Ok(json.string_or_skip()?.filter(|text| !text.is_empty()).and_then(unescape))
}
