//! What one frame of a stream carries. Nothing is built: strings stay where they are, only their emptiness and length are taken.

use std::borrow::Cow;

use super::errors;
use crate::protocol::PayloadKind;
use crate::protocol::binary::{BinaryKind, message};
use crate::protocol::event_reader::read_json;
use crate::protocol::frame::{Chunk, Frame, Payload};
use crate::protocol::json::{InvalidJson, Json};
use crate::protocol::sse::SseEvent;

/// The frame that ends a stream: usage and times, behind the stop reason.
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

/// `text` of the chunk is never set: a frame has its length and its checksums in it, so no other is like it but for a text,
/// and there is nothing for the shortcut of the hot path to learn.
fn chunk<'a>(event: &str, text: &'a str) -> Result<Chunk<'a>, InvalidJson> {
    let mut chunk = Chunk { choices: u64::from(event != LAST), ..Chunk::default() };
    let mut json = Json::new(text);
    json.object(|name, json| {
        match (event, name) {
            ("contentBlockStart", "start") => chunk.payload = start(json)?,
            ("contentBlockDelta", "delta") => chunk.payload = delta(json)?,
            ("messageStop", "stopReason") => {
                chunk.finish_reason = json.text()?;
                chunk.finished = u64::from(chunk.finish_reason.is_some());
            }
            (LAST, "usage") => chunk.usage = json.some()?.map(Cow::Borrowed),
            (LAST, "metrics") => chunk.time_info = json.some()?.map(Cow::Borrowed),
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    if json.peek().is_some() { Err(InvalidJson) } else { Ok(chunk) }
}

/// The name of a tool is output of the model; the ids are not.
fn start(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut payload = None;
    json.object(|name, json| {
        match name {
            "toolUse" => payload = string(json, "name", PayloadKind::Tool)?,
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    Ok(payload)
}

/// Signatures, encrypted reasoning, citations and what a server's own tool answered are not output of the model.
fn delta(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut payload = None;
    json.object(|name, json| {
        payload = match name {
            "text" => json.string_or_skip()?.and_then(|text| Payload::of_text(PayloadKind::Text, text)),
            "toolUse" => string(json, "input", PayloadKind::Tool)?,
            "reasoningContent" => string(json, "text", PayloadKind::Reasoning)?,
            "image" => image(json)?,
            _ => return json.skip().map(drop),
        }
        .or(payload);
        Ok(())
    })?;
    Ok(payload)
}

fn image(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut payload = None;
    json.object(|name, json| {
        match name {
            "source" => payload = string(json, "bytes", PayloadKind::Image)?,
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    Ok(payload)
}

/// Takes an object: the string that one of its members is.
fn string(json: &mut Json<'_>, member: &str, kind: PayloadKind) -> Result<Option<Payload>, InvalidJson> {
    let mut payload = None;
    json.object(|name, json| {
        let text = json.string_or_skip()?;
        if name == member {
            payload = text.and_then(|text| Payload::of_text(kind, text));
        }
        Ok(())
    })?;
    Ok(payload)
}
