//! What one event of a Responses stream is to the race and the meter. Strings stay where they are.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::SseEvent;
use super::wire::{EventData, ResponsesWire, data_of};
use crate::protocol::frame::{Chunk, Frame, Payload};
use crate::protocol::json::{InvalidJson, Json, characters, unescape};
use crate::protocol::{Dialect, PayloadKind, other_dialect};

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    match data_of(event) {
        EventData::None => Frame::KeepAlive,
        // Not the vendor's own, but some servers write it behind the end.
        EventData::Done => Frame::Done(Chunk::default()),
        EventData::Json { data: Cow::Borrowed(data), name } => read_data(data, name),
        // Data in several lines is rare: a JSON text that is spread over lines.
        EventData::Json { data: Cow::Owned(data), name } => read_data(&data, name).into_owned(),
    }
}

fn read_data<'a>(data: &'a [u8], name: &'a str) -> Frame<'a> {
    let frame = std::str::from_utf8(data).map_err(|_| InvalidJson).and_then(|text| {
        let mut wire = ResponsesWire::read(text)?;
        if wire.kind.is_empty() {
            wire.kind = name;
        }
        frame_of(&wire, data)
    });
    frame.unwrap_or_else(|InvalidJson| match std::str::from_utf8(data).map(serde_json::from_str::<IgnoredAny>) {
        // JSON that is odd beyond reason carries nothing, but is passed on.
        Ok(Ok(_)) => Frame::Chunk(Chunk::default()),
        _ => Frame::Malformed,
    })
}

fn frame_of<'a>(wire: &ResponsesWire<'a>, data: &'a [u8]) -> Result<Frame<'a>, InvalidJson> {
    let facts = wire.response.map(response).transpose()?.unwrap_or_default();
    match wire.kind {
        "error" | "response.failed" | "response.cancelled" => {
            return Ok(Frame::Error { data: Cow::Borrowed(data), usage: facts.usage.map(Cow::Borrowed) });
        }
        "keepalive" | "ping" => return Ok(Frame::KeepAlive),
        _ if wire.error.is_some() => {
            return Ok(Frame::Error { data: Cow::Borrowed(data), usage: facts.usage.map(Cow::Borrowed) });
        }
        _ => {}
    }
    let mut chunk = Chunk { model: facts.model, number: wire.number, padding: wire.padding, ..Chunk::default() };
    match wire.kind {
        "response.completed" | "response.incomplete" | "response.done" => {
            chunk.payload = facts.payload;
            chunk.repeated = facts.payload.is_some();
            chunk.usage = facts.usage.map(Cow::Borrowed);
            let word = if wire.kind == "response.incomplete" { "incomplete" } else { "completed" };
            chunk.finish_reason = Some(facts.reason.unwrap_or(Cow::Borrowed(word)));
            (chunk.choices, chunk.finished) = (1, 1);
            return Ok(Frame::Done(chunk));
        }
        "response.output_item.added" => {
            let payload = wire.item.map(item).transpose()?.flatten();
            // Only the name of a call is new here. What else stands in an item that begins comes again.
            chunk.payload = payload.filter(|payload| payload.kind == PayloadKind::Tool);
            chunk.calls = chunk.payload.is_some();
        }
        "response.output_item.done" => {
            chunk.payload = wire.item.map(item).transpose()?.flatten();
            // An image is in no delta; parts of it may have been.
            chunk.repeated = chunk.payload.is_some_and(|payload| payload.kind != PayloadKind::Image);
            chunk.calls = chunk.payload.is_some_and(|payload| payload.kind == PayloadKind::Tool);
        }
        "response.image_generation_call.partial_image" => {
            chunk.payload = wire.partial_image.map(|image| payload(PayloadKind::Image, image));
        }
        kind => {
            if !kind.starts_with("response.")
                && let Some(other) = of_another(data)
            {
                return Ok(Frame::Foreign(other));
            }
            let of_delta = wire.delta.and_then(|delta| Some((delta, kind_of_delta(kind)?)));
            chunk.payload = of_delta.map(|(delta, kind)| payload(kind, delta));
            chunk.text = of_delta.map(|(delta, _)| delta);
            chunk.calls = kind == "response.function_call_arguments.delta";
        }
    }
    chunk.choices = u64::from(chunk.payload.is_some());
    Ok(Frame::Chunk(chunk))
}

/// The dialect of an event that has no name of this one.
fn of_another(data: &[u8]) -> Option<&'static str> {
    other_dialect::name(Dialect::Responses, std::str::from_utf8(data).ok()?)
}

/// What the deltas of an event hold.
fn kind_of_delta(kind: &str) -> Option<PayloadKind> {
    Some(match kind {
        "response.output_text.delta" => PayloadKind::Text,
        "response.refusal.delta" => PayloadKind::Refusal,
        "response.reasoning_text.delta"
        | "response.reasoning_summary_text.delta"
        | "response.reasoning.delta"
        | "response.reasoning_summary.delta" => PayloadKind::Reasoning,
        "response.function_call_arguments.delta"
        | "response.custom_tool_call_input.delta"
        | "response.mcp_call_arguments.delta"
        | "response.mcp_call.arguments_delta"
        | "response.code_interpreter_call_code.delta" => PayloadKind::Tool,
        "response.audio.delta"
        | "response.audio.transcript.delta"
        | "response.output_audio.delta"
        | "response.output_audio_transcript.delta" => PayloadKind::Audio,
        _ => return None,
    })
}

fn payload(kind: PayloadKind, text: &str) -> Payload {
    Payload { kind, chars: characters(text) }
}

/// What matters of a response object.
#[derive(Default)]
struct ResponseFacts<'a> {
    model: Option<Cow<'a, str>>,
    usage: Option<&'a str>,
    /// `incomplete_details.reason`
    reason: Option<Cow<'a, str>>,
    payload: Option<Payload>,
}

fn response(text: &str) -> Result<ResponseFacts<'_>, InvalidJson> {
    let mut facts = ResponseFacts::default();
    Json::new(text).object(|name, json| {
        match name {
            "model" => facts.model = text_of(json)?,
            "usage" => facts.usage = json.some()?,
            "incomplete_details" => json.object(|name, json| {
                match name {
                    "reason" => facts.reason = text_of(json)?,
                    _ => drop(json.skip()?),
                }
                Ok(())
            })?,
            "output" => json.list(|json| {
                facts.payload = merge(facts.payload, item(json.skip()?)?);
                Ok(())
            })?,
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    Ok(facts)
}

fn text_of<'a>(json: &mut Json<'a>) -> Result<Option<Cow<'a, str>>, InvalidJson> {
    Ok(json.string_or_skip()?.filter(|text| !text.is_empty()).and_then(unescape))
}

/// What an output item holds of generated output.
fn item(text: &str) -> Result<Option<Payload>, InvalidJson> {
    let (mut kind, mut called, mut result) = ("", 0_u32, None);
    let mut parts = [None; 2];
    Json::new(text).object(|name, json| {
        match name {
            "type" => kind = json.string_or_skip()?.unwrap_or_default(),
            "name" | "arguments" | "input" | "code" => {
                called = called.saturating_add(json.string_or_skip()?.map_or(0, characters));
            }
            "result" => result = json.string_or_skip()?.filter(|result| !result.is_empty()),
            "content" => parts[0] = content(json)?,
            "summary" => parts[1] = content(json)?,
            _ => drop(json.skip()?),
        }
        Ok(())
    })?;
    let [content, summary] = parts;
    let payload = match kind {
        "message" => content,
        "reasoning" => merge(content, summary).map(|all| Payload { kind: PayloadKind::Reasoning, ..all }),
        "function_call" | "custom_tool_call" | "mcp_call" | "code_interpreter_call" => {
            (called > 0).then_some(Payload { kind: PayloadKind::Tool, chars: called })
        }
        "image_generation_call" => result.map(|image| self::payload(PayloadKind::Image, image)),
        _ => None,
    };
    Ok(payload)
}

/// The text of an item's parts.
fn content(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut all = None;
    json.list(|json| {
        json.object(|name, json| {
            let kind = match name {
                "text" => PayloadKind::Text,
                "refusal" => PayloadKind::Refusal,
                _ => return json.skip().map(drop),
            };
            let text = json.string_or_skip()?.filter(|text| !text.is_empty());
            all = merge(all, text.map(|text| payload(kind, text)));
            Ok(())
        })
    })?;
    Ok(all)
}

/// Several payloads are one: the answer's kind goes before reasoning, else the first.
fn merge(a: Option<Payload>, b: Option<Payload>) -> Option<Payload> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let kind = if a.kind == PayloadKind::Reasoning { b.kind } else { a.kind };
            Some(Payload { kind, chars: a.chars.saturating_add(b.chars) })
        }
        (a, b) => a.or(b),
    }
}
