//! The `ollama` dialect: Ollama's own `/api/chat` and `/api/generate`, lines of JSON; and their surfaces.
//!
//! Other dialects' requests are written for `/api/chat`.

mod conversation;
mod format;
mod reader;
mod request;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

pub use conversation::{chat, check_chat, check_generate, generate};
pub use format::OllamaFormat;
pub use reader::OllamaReader;
pub use request::request;
pub use whole::OllamaWhole;
pub use writer::{OllamaForm, OllamaWriter};

use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::json::values::{PutMember, answer, says_error};
use photofinish_wire::json::{InvalidJson, Json, characters};
use photofinish_wire::stream::event_reader::or_foreign;
use photofinish_wire::stream::event_reader::{read_json, says};
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::{Dialect, PayloadKind};

/// Reads one line.
pub fn read(event: &SseEvent) -> Frame<'_> {
    match data(event) {
        b"" => Frame::KeepAlive,
        data if says(data) => Frame::Error { data: Cow::Borrowed(data), usage: None },
        data => read_json(data, |text| {
            let wire = OllamaWire::read(text)?;
            let has_own = wire.chunk.payload.is_some() || wire.counts;
            Ok(match wire.chunk {
                _ if wire.is_error => Frame::Error { data: Cow::Borrowed(data), usage: None },
                chunk if wire.done => Frame::Done(chunk),
                chunk if has_own => Frame::Chunk(chunk),
                chunk => or_foreign(Dialect::Ollama, text, chunk),
            })
        }),
    }
}

/// A server that ignores `stream` sends one line. None if the body is not an answer.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let answer = answer(body)?;
    let is_answer = answer.contains_key("message") || answer.contains_key("response");
    is_answer.then(|| Bytes::from(format!("{}\n", Value::Object(answer))))
}

/// Whether a client treats this line as an error.
pub fn is_error_line(event: &SseEvent) -> bool {
    let text = std::str::from_utf8(data(event)).unwrap_or_default();
    matches!(Json::new(text).member("error", Json::some), Ok(Some(error)) if says_error(error))
}

/// An error in the vendor's shape: a text, so it names the member that is wrong itself. The other members are the gateway's own.
pub fn error(error: &ErrorShape<'_>) -> Value {
    let message = match error.param {
        Some(param) if !error.message.contains(param) => format!("{param}: {}", error.message),
        _ => error.message.to_owned(),
    };
    let mut shape = json!({ "error": message, "type": error.kind, "code": error.code });
    shape.put("attempts", error.attempts.cloned());
    shape
}

/// The JSON text of a line.
fn data(event: &SseEvent) -> &[u8] {
    event.raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&event.raw).trim_ascii()
}

/// The members of a line that matter.
#[derive(Default)]
struct OllamaWire<'a> {
    chunk: Chunk<'a>,
    is_error: bool,
    done: bool,
    counts: bool,
    answer: u32,
    reasoning: u32,
    tool: u32,
}

impl<'a> OllamaWire<'a> {
    fn read(text: &'a str) -> Result<OllamaWire<'a>, InvalidJson> {
        let mut wire = OllamaWire::default();
        let mut reason = None;
        Json::whole(
            text,
            members!(|json| {
                "message" => wire.message(json)?,
                "response" => wire.answer = wire.answer.saturating_add(chars(json)?),
                "thinking" => wire.reasoning = wire.reasoning.saturating_add(chars(json)?),
                "model" => wire.chunk.model = json.text()?,
                "done" => wire.done = json.skip()? == "true",
                "done_reason" => reason = json.text()?,
                "error" => wire.is_error |= says_error(json.skip()?),
                "eval_count" | "prompt_eval_count" | "total_duration" => wire.counts |= json.some()?.is_some(),
            }),
        )?;
        // Gives no position of its text: every line has a new time stamp, so the template shortcut could not apply.
        wire.chunk.payload = wire.payload();
        wire.chunk.calls = wire.tool > 0;
        wire.chunk.choices = 1;
        if wire.done {
            wire.chunk.finished = 1;
            // Early versions send no reason.
            wire.chunk.finish_reason = reason.or(Some(Cow::Borrowed("stop")));
        }
        // The counts are top-level members, so the whole line is the usage object.
        wire.chunk.usage = wire.counts.then_some(Cow::Borrowed(text));
        Ok(wire)
    }

    fn message(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(members!(|json| {
            "content" => self.answer = self.answer.saturating_add(chars(json)?),
            "thinking" => self.reasoning = self.reasoning.saturating_add(chars(json)?),
            "tool_calls" => json.items(|json| self.call(json))?,
        }))
    }

    fn call(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(|name, json| match name {
            "function" => json.object(|name, json| {
                let more = match name {
                    "name" => chars(json)?,
                    "arguments" => length(json.some()?),
                    _ => json.skip().map(|_| 0)?,
                };
                self.tool = self.tool.saturating_add(more);
                Ok(())
            }),
            _ => json.skip().map(drop),
        })
    }

    fn payload(&self) -> Option<Payload> {
        let chars = self.answer.saturating_add(self.tool).saturating_add(self.reasoning);
        let kind = match (self.answer, self.tool) {
            (1.., _) => PayloadKind::Text,
            (_, 1..) => PayloadKind::Tool,
            _ => PayloadKind::Reasoning,
        };
        Payload::of_chars(kind, chars)
    }
}

/// Characters of a string; 0 for other values.
fn chars(json: &mut Json<'_>) -> Result<u32, InvalidJson> {
    Ok(json.string_or_skip()?.map_or(0, characters))
}

fn length(text: Option<&str>) -> u32 {
    text.map_or(0, |text| u32::try_from(text.len()).unwrap_or(u32::MAX))
}
