//! The `bedrock` dialect: AWS's ConverseStream, for any model behind it. Reads its frames and errors, and writes its
//! requests. Not for cutting streams into frames (see [`photofinish_wire::stream`]) or for signing requests (see `photofinish_transport`).

mod format;
mod reader;
mod request;
mod whole;

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub use format::BedrockFormat;
pub use reader::BedrockReader;
pub use request::request;
pub use whole::events_of_whole;

use photofinish_wire::PayloadKind;
use photofinish_wire::json::values::{PutMember, json};
use photofinish_wire::json::{InvalidJson, Json};
use photofinish_wire::stream::binary::{BinaryKind, BinaryMessage, message};
use photofinish_wire::stream::event_reader::read_json;
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::stream::sse::SseEvent;

/// Characters to encode in a path segment: all except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path of a request in a model's own format.
pub fn invoke_path(model: &str) -> String {
    format!("/model/{}/invoke", utf8_percent_encode(model, RESERVED))
}

/// The path of a request for a model. The id may be an ARN with colons and slashes.
pub fn path(model: &str, streams: bool) -> String {
    let call = if streams { "converse-stream" } else { "converse" };
    format!("/model/{}/{call}", utf8_percent_encode(model, RESERVED))
}

// Names of AWS errors: in an exception frame, in `__type` of an error body, and in the header `x-amzn-errortype`.

/// An error frame as JSON text for `answer::error`.
fn data(message: &BinaryMessage<'_>) -> Vec<u8> {
    let payload: Value = serde_json::from_slice(message.payload).unwrap_or_default();
    let said = ["message", "Message", "originalMessage"].iter().find_map(|name| payload.get(name)?.as_str());
    let mut error = json!({
        "type": message.name,
        "message": said.or(message.error).unwrap_or("The provider names no reason."),
    });
    error.put("status_code", payload.get("originalStatusCode").and_then(Value::as_u64));
    json!({ "error": error }).to_string().into_bytes()
}

// Reads one frame of a stream for the race. Builds nothing: it only looks at the emptiness and length of strings.

/// The last frame of a stream: usage and timings, after the stop reason.
const LAST: &str = "metadata";

/// Reads one frame.
pub fn read(event: &SseEvent) -> Frame<'_> {
    let Some(message) = message(&event.raw) else { return Frame::Malformed };
    if message.kind != BinaryKind::Event {
        return Frame::Error { data: Cow::Owned(data(&message)), usage: None };
    }
    match read_json(message.payload, |text| chunk(message.name, text).map(Frame::Chunk)) {
        Frame::Chunk(chunk) if message.name == LAST => Frame::Done(chunk),
        frame => frame,
    }
}

/// Never sets `text` of the chunk: every frame contains its length and checksums, so the template shortcut could never
/// apply.
fn chunk<'a>(event: &str, text: &'a str) -> Result<Chunk<'a>, InvalidJson> {
    let mut chunk = Chunk { choices: u64::from(event != LAST), ..Chunk::default() };
    Json::whole(text, |name, json| {
        match (event, name) {
            ("contentBlockStart", "start") => chunk.payload = start(json)?,
            ("contentBlockDelta", "delta") => chunk.payload = delta(json)?,
            ("messageStop", "stopReason") => {
                chunk.finish_reason = json.text()?;
                chunk.finished = u64::from(chunk.finish_reason.is_some());
            }
            (LAST, "usage") => chunk.usage = json.some()?.map(Cow::Borrowed),
            (LAST, "serviceTier") => chunk.tier = json.member("type", Json::string_or_skip)?.map(ServiceTier::of_name),
            (LAST, "metrics") => chunk.time_info = json.some()?.map(Cow::Borrowed),
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    Ok(chunk)
}

/// A tool's name is output of the model. Its ids are not.
fn start(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    json.member("toolUse", |json| string(json, "name", PayloadKind::Tool))
}

/// Signatures, encrypted reasoning, citations and results of server tools are not output of the model.
fn delta(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut payload = None;
    json.object(|name, json| {
        payload = match name {
            "text" => json.string_or_skip()?.and_then(|text| Payload::of_text(PayloadKind::Text, text)),
            "toolUse" => string(json, "input", PayloadKind::Tool)?,
            "reasoningContent" => string(json, "text", PayloadKind::Reasoning)?,
            "image" => json.member("source", |json| string(json, "bytes", PayloadKind::Image))?,
            _ => return json.skip().map(drop),
        }
        .or(payload);
        Ok(())
    })?;
    Ok(payload)
}

/// Takes an object and reads one string member.
fn string(json: &mut Json<'_>, member: &str, kind: PayloadKind) -> Result<Option<Payload>, InvalidJson> {
    Ok(json.member(member, Json::string_or_skip)?.and_then(|text| Payload::of_text(kind, text)))
}

#[cfg(test)]
mod tests;
