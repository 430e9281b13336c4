//! Reads one event of a Responses stream for the race. Strings are borrowed from the event.

use std::borrow::Cow;

use super::conversation::COMPACTIONS;
use crate::responses::SseEvent;
use photofinish_wire::json::values::says_error;
use photofinish_wire::json::{InvalidJson, Json, characters};
use photofinish_wire::stream::event_reader::{or_foreign, read_sse};
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::{Dialect, PayloadKind};

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    read_sse(event, |text, name| frame_of(&ResponsesWire::read(text, name)?, text))
}

fn frame_of<'a>(wire: &ResponsesWire<'a>, text: &'a str) -> Result<Frame<'a>, InvalidJson> {
    let facts = wire.response.map(response).transpose()?.unwrap_or_default();
    match wire.kind {
        "keepalive" | "ping" => return Ok(Frame::KeepAlive),
        kind if wire.error.is_some() || matches!(kind, "error" | "response.failed" | "response.cancelled") => {
            let usage = facts.usage.map(Cow::Borrowed);
            return Ok(Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage });
        }
        _ => {}
    }
    let mut chunk =
        Chunk { model: facts.model, id: facts.id, number: wire.number, padding: wire.padding, ..Chunk::default() };
    match wire.kind {
        "response.completed" | "response.incomplete" | "response.done" => {
            chunk.payload = facts.payload;
            chunk.repeated = facts.payload.is_some();
            chunk.usage = facts.usage.map(Cow::Borrowed);
            chunk.tier = facts.tier;
            chunk.finish_reason = Some(facts.reason.unwrap_or(Cow::Borrowed(end_word(wire.kind, facts.status))));
            (chunk.choices, chunk.finished) = (1, 1);
            return Ok(Frame::Done(chunk));
        }
        "response.output_item.added" => {
            let payload = wire.item.map(item).transpose()?.flatten();
            // Only a call's name is new here. All other content of a new item is sent again later.
            chunk.payload = payload.filter(|payload| payload.kind == PayloadKind::Tool);
            chunk.calls = chunk.payload.is_some();
        }
        "response.output_item.done" => {
            chunk.payload = wire.item.map(item).transpose()?.flatten();
            // No delta contains the whole image, but parts of it may have been sent.
            chunk.repeated = chunk.payload.is_some_and(|payload| payload.kind != PayloadKind::Image);
            chunk.calls = chunk.payload.is_some_and(|payload| payload.kind == PayloadKind::Tool);
        }
        "response.image_generation_call.partial_image" => {
            chunk.payload = wire.partial_image.and_then(|image| Payload::of_text(PayloadKind::Image, image));
        }
        kind if !kind.starts_with("response.") => return Ok(or_foreign(Dialect::Responses, text, chunk)),
        kind => {
            let of_delta = wire.delta.and_then(|delta| Some((delta, kind_of_delta(kind)?)));
            chunk.payload = of_delta.and_then(|(delta, kind)| Payload::of_text(kind, delta));
            chunk.text = of_delta.map(|(delta, _)| delta);
            chunk.calls = kind == "response.function_call_arguments.delta";
        }
    }
    chunk.choices = u64::from(chunk.payload.is_some());
    Ok(Frame::Chunk(chunk))
}

/// The payload of an event's deltas.
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

/// The members of a response object that matter.
#[derive(Default)]
struct ResponseFacts<'a> {
    model: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    usage: Option<&'a str>,
    tier: Option<ServiceTier>,
    /// `incomplete_details.reason`
    reason: Option<Cow<'a, str>>,
    status: Option<&'a str>,
    payload: Option<Payload>,
}

fn response(text: &str) -> Result<ResponseFacts<'_>, InvalidJson> {
    let mut facts = ResponseFacts::default();
    Json::new(text).object(members!(|json| {
        "model" => facts.model = json.text()?,
        "id" => facts.id = json.text()?,
        "usage" => facts.usage = json.some()?,
        "status" => facts.status = json.string_or_skip()?,
        "service_tier" => facts.tier = json.string_or_skip()?.map(ServiceTier::of_name),
        "incomplete_details" => facts.reason = json.member("reason", Json::text)?,
        "output" => json.list(|json| {
            facts.payload = Payload::merge(facts.payload, item(json.skip()?)?);
            Ok(())
        })?,
    }))?;
    Ok(facts)
}

/// The end of a response without a reason. Some servers say `response.completed` whatever the status is.
pub(super) fn end_word<'a>(kind: &str, status: Option<&'a str>) -> &'a str {
    match status {
        _ if kind == "response.incomplete" => "incomplete",
        Some(status @ ("incomplete" | "failed" | "cancelled")) => status,
        _ => "completed",
    }
}

/// The generated output in an item.
fn item(text: &str) -> Result<Option<Payload>, InvalidJson> {
    let (mut kind, mut called, mut result, mut is_own) = ("", 0_u32, None, false);
    let mut parts = [None; 2];
    Json::new(text).object(members!(|json| {
        "type" => kind = json.string_or_skip()?.unwrap_or_default(),
        "name" | "arguments" | "input" | "code" => {
            called = called.saturating_add(json.string_or_skip()?.map_or(0, characters));
        },
        // The vendor runs it by itself: the client need not answer it.
        "execution" => is_own = json.string_or_skip()? == Some("server"),
        "result" | "encrypted_content" => result = json.string_or_skip()?.filter(|result| !result.is_empty()),
        "content" => parts[0] = content(json)?,
        "summary" => parts[1] = content(json)?,
    }))?;
    let [content, summary] = parts;
    let payload = match kind {
        "message" => content,
        "reasoning" => Payload::merge(content, summary).map(|all| Payload { kind: PayloadKind::Reasoning, ..all }),
        "function_call" | "custom_tool_call" | "mcp_call" | "code_interpreter_call" => {
            Payload::of_chars(PayloadKind::Tool, called)
        }
        "tool_search_call" if is_own => None,
        // Their arguments are no text.
        "tool_search_call" | "local_shell_call" | "shell_call" | "apply_patch_call" | "computer_call" => {
            Payload::of_chars(PayloadKind::Tool, called.max(1))
        }
        // Sealed: how much it is, only its vendor knows.
        kind if COMPACTIONS.contains(&kind) && result.is_some() => Payload::of_chars(PayloadKind::Text, 1),
        "image_generation_call" => result.and_then(|image| Payload::of_text(PayloadKind::Image, image)),
        _ => None,
    };
    Ok(payload)
}

/// The text of an item's parts. Some servers write the text itself.
fn content(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut all = None;
    if json.peek() == Some(b'"') {
        return Ok(json.string_or_skip()?.and_then(|text| Payload::of_text(PayloadKind::Text, text)));
    }
    json.objects(|name, json| {
        let kind = match name {
            "text" => PayloadKind::Text,
            "refusal" => PayloadKind::Refusal,
            _ => return json.skip().map(drop),
        };
        let text = json.string_or_skip()?;
        all = Payload::merge(all, text.and_then(|text| Payload::of_text(kind, text)));
        Ok(())
    })?;
    Ok(all)
}

// The raw members of one event of a Responses stream, borrowed from its text.

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
    pub item_id: Option<&'a str>,
    /// Index of a content part or a summary part.
    pub part_index: Option<u64>,
}

impl<'a> ResponsesWire<'a> {
    /// Reads one event. `name` is the value of its `event` line.
    pub fn read(text: &'a str, name: &'a [u8]) -> Result<ResponsesWire<'a>, InvalidJson> {
        let mut wire = ResponsesWire::default();
        Json::whole(
            text,
            members!(|json| {
                "type" => wire.kind = json.string_or_skip()?.unwrap_or_default(),
                "delta" => wire.delta = json.string_or_skip()?.filter(|delta| !delta.is_empty()),
                "sequence_number" => wire.number = json.some()?,
                "obfuscation" => wire.padding = json.string_or_skip()?,
                "item" => wire.item = json.some()?,
                "response" => wire.response = json.some()?,
                "error" => wire.error = Some(json.skip()?).filter(|error| says_error(error)),
                "annotation" => wire.annotation = json.some()?,
                "partial_image_b64" => wire.partial_image = json.string_or_skip()?.filter(|image| !image.is_empty()),
                "item_id" => wire.item_id = json.string_or_skip()?,
                "output_index" => wire.output_index = json.skip()?.parse().ok(),
                "content_index" | "summary_index" => wire.part_index = json.skip()?.parse().ok(),
            }),
        )?;
        if wire.kind.is_empty() {
            wire.kind = std::str::from_utf8(name).unwrap_or_default();
        }
        Ok(wire)
    }
}
