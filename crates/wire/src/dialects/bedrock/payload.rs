//! Reads one frame of a stream for the race. Builds nothing: it only looks at the emptiness and length of strings.

use std::borrow::Cow;

use super::errors;
use crate::PayloadKind;
use crate::answer::service_tier::ServiceTier;
use crate::json::{InvalidJson, Json};
use crate::stream::binary::{BinaryKind, message};
use crate::stream::event_reader::read_json;
use crate::stream::frame::{Chunk, Frame, Payload};
use crate::stream::sse::SseEvent;

/// The last frame of a stream: usage and timings, after the stop reason.
const LAST: &str = "metadata";

/// Reads one frame.
pub fn read(event: &SseEvent) -> Frame<'_> {
    let Some(message) = message(&event.raw) else { return Frame::Malformed };
    if message.kind != BinaryKind::Event {
        return Frame::Error { data: Cow::Owned(errors::data(&message)), usage: None };
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
