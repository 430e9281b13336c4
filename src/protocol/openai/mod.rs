//! The `openai` dialect: what one event of a chat-completions stream carries.
//!
//! [`read`] looks at an event without building anything: strings stay where they are, only their emptiness and length
//! are taken. It is the one place that knows what counts as payload (the rules: `docs/measurement.md`).

mod assemble;
mod calls;
mod conversation;
mod foreign;
mod grown;
pub(super) mod members;
mod messages;
mod names;
mod parts;
mod payload;
mod reader;
mod request;
mod tools;
mod turns;
mod writer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

pub use crate::protocol::frame::{Chunk, Frame, Payload};
pub use assemble::ChatAssembly;
pub(super) use conversation::check_type;
pub use conversation::{check, conversation};
pub use foreign::without_reasoning;
pub use names::ChunkNames;
pub use reader::OpenAiReader;
pub use request::request;
pub use writer::OpenAiWriter;
pub(super) use writer::usage_json;

use super::client_error::ErrorShape;
use super::dialect::Dialect;
use super::json::{InvalidJson, Json, unescape};
use super::other_dialect;
use super::sse::SseEvent;

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    let fields = event.fields();
    let error_event = fields.name == Some(b"error");
    match fields.data {
        // Some servers write a bare JSON line into a 200 when something is wrong.
        None if event.raw.trim_ascii_start().starts_with(b"{") => read_data(&event.raw),
        None => Frame::KeepAlive,
        Some(data) if data.iter().all(u8::is_ascii_whitespace) => Frame::KeepAlive,
        Some(data) if data.trim_ascii() == b"[DONE]" => Frame::Done(Chunk::default()),
        Some(data) if error_event => Frame::Error { data, usage: None },
        Some(_) if fields.name == Some(b"ping") => Frame::KeepAlive,
        Some(Cow::Borrowed(data)) => read_data(data),
        // Data in several lines is rare: a JSON text that is spread over lines.
        Some(Cow::Owned(data)) => read_data(&data).into_owned(),
    }
}

/// The events that a server would have sent which answered as a whole, in chat or as a legacy completion: one chunk with
/// everything, and `[DONE]`. None if the body is no completion.
pub fn events_of_whole(body: &[u8]) -> Option<Bytes> {
    let mut answer: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    if answer.get("error").is_some_and(|error| !error.is_null()) {
        return None;
    }
    let mut is_legacy = false;
    for choice in answer.get_mut("choices")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let Some(mut message) = choice.shift_remove("message") else {
            is_legacy = true;
            choice.get("text")?;
            continue;
        };
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for (index, call) in calls.into_iter().flatten().filter_map(Value::as_object_mut).enumerate() {
            call.entry("index").or_insert(Value::from(index));
        }
        choice.insert("delta".to_owned(), message);
    }
    if !is_legacy {
        answer.insert("object".to_owned(), Value::from("chat.completion.chunk"));
    }
    Some(Bytes::from(format!("data: {}\n\ndata: [DONE]\n\n", Value::Object(answer))))
}

fn read_data(data: &[u8]) -> Frame<'_> {
    let wire = std::str::from_utf8(data).map_err(|_| InvalidJson).and_then(OpenAiWire::read);
    match wire {
        Err(InvalidJson) => odd(data),
        Ok(wire) if wire.is_error => Frame::Error { data: Cow::Borrowed(data), usage: wire.chunk.usage },
        Ok(wire) => match of_another(&wire, data) {
            Some(other) => Frame::Foreign(other),
            None => Frame::Chunk(wire.chunk),
        },
    }
}

/// The dialect of an event that has nothing of this one.
fn of_another(wire: &OpenAiWire<'_>, data: &[u8]) -> Option<&'static str> {
    let has_own = wire.choices > 0 || wire.chunk.usage.is_some();
    if has_own { None } else { other_dialect::name(Dialect::OpenAi, std::str::from_utf8(data).ok()?) }
}

/// What could not be walked is no JSON, or JSON that is odd beyond reason: it carries nothing, but is passed on.
fn odd(data: &[u8]) -> Frame<'static> {
    match std::str::from_utf8(data).map(serde_json::from_str::<IgnoredAny>) {
        Ok(Ok(_)) => Frame::Chunk(Chunk::default()),
        _ => Frame::Malformed,
    }
}

/// Whether an OpenAI SDK takes this event for an error: its data has a member `error` that says something.
pub fn is_error_event(event: &SseEvent) -> bool {
    let fields = event.fields();
    let text = fields.data.as_deref().and_then(|data| std::str::from_utf8(data).ok()).unwrap_or_default();
    let mut found = false;
    let walked = Json::new(text).object(|name, json| {
        let value = json.skip()?;
        found |= name == "error" && says_error(value);
        Ok(())
    });
    walked.is_ok() && found
}

/// A chunk as it is written, as far as it matters.
#[derive(Default)]
struct OpenAiWire<'a> {
    chunk: Chunk<'a>,
    is_error: bool,
    choices: usize,
    /// Usage from places that count less than the member of that name.
    other_usage: Option<&'a str>,
}

impl<'a> OpenAiWire<'a> {
    fn read(text: &'a str) -> Result<OpenAiWire<'a>, InvalidJson> {
        let mut wire = OpenAiWire::default();
        let mut usage = None;
        let mut json = Json::new(text);
        json.object(|name, json| {
            match name {
                "choices" => json.list(|json| wire.choice(json))?,
                "model" => wire.chunk.model = text_of(json)?,
                "usage" => usage = json.some()?,
                "timings" => wire.chunk.timings = json.some()?.map(Cow::Borrowed),
                "time_info" | "perf_metrics" => wire.chunk.time_info = json.some()?.map(Cow::Borrowed),
                "error" => wire.is_error |= says_error(json.skip()?),
                "object" => wire.is_error |= json.string_or_skip()? == Some("error"),
                "x_groq" => wire.groq(json)?,
                "base_resp" => wire.base_resp(json)?,
                "obfuscation" => wire.chunk.padding = json.string_or_skip()?,
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        if json.peek().is_some() {
            return Err(InvalidJson);
        }
        wire.chunk.usage_only = wire.choices == 0 && usage.is_some();
        wire.chunk.usage = usage.or(wire.other_usage).map(Cow::Borrowed);
        Ok(wire)
    }

    fn choice(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        self.choices += 1;
        let (mut index, mut finished) = (0_u32, false);
        let (mut has_delta, mut legacy) = (false, None);
        json.object(|name, json| {
            match name {
                "index" => index = json.skip()?.parse().unwrap_or(0),
                "delta" => {
                    has_delta = true;
                    self.payload(payload::of_delta(json)?);
                }
                // A legacy completion; some vendors repeat the delta's text here.
                "text" => legacy = Some(payload::of_text(json)?),
                "finish_reason" => {
                    let reason = text_of(json)?;
                    finished |= reason.is_some();
                    // OpenRouter's word for a vendor that failed in the midst of its answer.
                    self.is_error |= reason.as_deref() == Some("error");
                    self.chunk.finish_reason = reason.or(self.chunk.finish_reason.take());
                }
                // Some vendors put usage into the choice.
                "usage" => self.other_usage = json.some()?.or(self.other_usage),
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        if let Some(legacy) = legacy.filter(|_| !has_delta) {
            self.payload(legacy);
        }
        let bit = 1 << u32::min(index, 63);
        self.chunk.choices |= bit;
        self.chunk.finished |= if finished { bit } else { 0 };
        Ok(())
    }

    fn payload(&mut self, delta: payload::DeltaPayload<'a>) {
        self.chunk.text = delta.text.filter(|_| self.chunk.payload.is_none());
        self.chunk.payload = payload::merge(self.chunk.payload, delta.payload);
        self.chunk.calls |= delta.calls;
    }

    /// Groq's own object.
    fn groq(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(|name, json| {
            match name {
                "usage" => self.other_usage = json.some()?.or(self.other_usage),
                "error" => self.is_error |= says_error(json.skip()?),
                _ => drop(json.skip()?),
            }
            Ok(())
        })
    }

    /// MiniMax' own object: any status but 0 is an error.
    fn base_resp(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(|name, json| {
            let value = json.skip()?;
            self.is_error |= name == "status_code" && value != "0" && value != "null";
            Ok(())
        })
    }
}

/// Servers write an `error` that is none into good chunks.
fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "\"\"" | "{}" | "[]")
}

/// A string that is not empty, where one is expected; anything else is none, so that an odd vendor loses no event.
fn text_of<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, InvalidJson> {
    Ok(json.string_or_skip()?.filter(|text| !text.is_empty()).and_then(unescape))
}

/// An error in the vendor's shape.
pub fn error(error: &ErrorShape<'_>) -> Value {
    let mut shape = serde_json::json!({
        "message": error.message, "type": error.kind, "param": error.param, "code": error.code,
    });
    if let Some(attempts) = error.attempts {
        shape["attempts"] = attempts.clone();
    }
    serde_json::json!({ "error": shape })
}
