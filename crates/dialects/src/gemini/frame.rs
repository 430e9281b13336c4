//! Reads one event of a Gemini stream for the race. Strings are borrowed from the event.

use std::borrow::Cow;

use photofinish_wire::json::values::says_error;
use photofinish_wire::json::{InvalidJson, Json, characters};
use photofinish_wire::stream::event_reader::or_foreign;
use photofinish_wire::stream::event_reader::read_sse;
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::{Dialect, PayloadKind};

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    read_sse(event, |text, _| {
        let wire = GeminiWire::read(text)?;
        let is_blocked = wire.blocked && wire.chunk.choices == 0;
        let has_own = wire.chunk.choices > 0 || wire.chunk.usage.is_some();
        Ok(match wire.chunk {
            chunk if wire.is_error || is_blocked => {
                Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage: chunk.usage }
            }
            chunk if has_own => Frame::Chunk(chunk),
            chunk => or_foreign(Dialect::Gemini, text, chunk),
        })
    })
}

/// The members of a chunk that matter.
#[derive(Default)]
struct GeminiWire<'a> {
    chunk: Chunk<'a>,
    is_error: bool,
    /// The prompt was blocked, so there is no answer.
    blocked: bool,
    /// Parts with payload.
    parts: usize,
}

impl<'a> GeminiWire<'a> {
    fn read(text: &'a str) -> Result<GeminiWire<'a>, InvalidJson> {
        let mut wire = GeminiWire::default();
        Json::whole(
            text,
            members!(|json| {
                "candidates" => json.list(|json| wire.candidate(json))?,
                // Vertex sends this object without counts until the end. Then it is ignored.
                "usageMetadata" => {
                    let usage = json.some()?.filter(|usage| usage.contains("TokenCount"));
                    wire.chunk.usage = usage.map(Cow::Borrowed);
                },
                "modelVersion" => wire.chunk.model = json.text()?,
                "responseId" => wire.chunk.id = json.text()?,
                "promptFeedback" => wire.blocked |= json.member("blockReason", Json::some)?.is_some(),
                "error" => wire.is_error |= says_error(json.skip()?),
            }),
        )?;
        wire.chunk.text = wire.chunk.text.filter(|_| wire.parts == 1);
        wire.chunk.usage_only = wire.chunk.choices == 0 && wire.chunk.usage.is_some();
        Ok(wire)
    }

    fn candidate(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        let (mut index, mut reason) = (0_u32, None);
        json.object(members!(|json| {
            "index" => index = json.skip()?.parse().unwrap_or(0),
            "content" => json.object(|name, json| match name {
                "parts" => json.items(|json| self.part(json)),
                _ => json.skip().map(drop),
            })?,
            "finishReason" => reason = finish_reason(json)?,
        }))?;
        let bit = 1 << u32::min(index, 63);
        self.chunk.choices |= bit;
        self.chunk.finished |= if reason.is_some() { bit } else { 0 };
        self.chunk.finish_reason = reason.or(self.chunk.finish_reason.take());
        Ok(())
    }

    fn part(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        let (mut thought, mut text, mut other) = (false, None, None);
        json.object(members!(|json| {
            "thought" => thought = json.skip()? == "true",
            "text" => text = json.string_or_skip()?.filter(|text| !text.is_empty()),
            "functionCall" => {
                self.chunk.calls = true;
                other = call(json)?;
            },
            "inlineData" => other = data(json)?,
            // The model wrote the code. Its result is not payload.
            "executableCode" => other = code(json)?,
        }))?;
        let text_payload = text.and_then(|text| Payload::of_text(PayloadKind::Text, text));
        let Some(mut payload) = text_payload.or(other) else { return Ok(()) };
        if thought {
            payload.kind = PayloadKind::Reasoning;
        }
        self.parts += 1;
        self.chunk.text = text;
        self.chunk.payload = Payload::merge(self.chunk.payload, Some(payload));
        Ok(())
    }
}

/// Counts the characters of a call's name and arguments.
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
    Ok(Payload::of_chars(PayloadKind::Tool, chars))
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
    Ok(Payload::of_chars(kind, chars))
}

fn code(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    Ok(json.member("code", Json::string_or_skip)?.and_then(|code| Payload::of_text(PayloadKind::Text, code)))
}

/// A name, or its number if a client of Google's wire format asked for numbers.
fn finish_reason<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, InvalidJson> {
    if json.peek() == Some(b'"') {
        return Ok(json.text()?.filter(|reason| reason != "FINISH_REASON_UNSPECIFIED"));
    }
    Ok(match json.some()? {
        None | Some("0") => None,
        Some(number) => Some(Cow::Borrowed(reason_of_number(number))),
    })
}

/// Names of the numbers that both of Google's APIs share. Others are returned unchanged.
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
