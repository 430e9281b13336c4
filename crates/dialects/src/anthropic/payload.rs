//! Reads one event of a Messages stream for the race. Builds nothing: it only looks at the emptiness and length of
//! strings.
//!
//! Members may come in any order, `type` last, so the event is walked once and classified at the end.

use std::borrow::Cow;

use photofinish_wire::json::values::says_error;
use photofinish_wire::json::{InvalidJson, Json, characters, unescape};
use photofinish_wire::stream::event_reader::or_foreign;
use photofinish_wire::stream::event_reader::read_sse;
use photofinish_wire::stream::frame::{Chunk, Frame, Payload};
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::{Dialect, PayloadKind};

/// Reads one event.
pub fn read(event: &SseEvent) -> Frame<'_> {
    read_sse(event, |text, _| Ok(AnthropicWire::read(text)?.frame(text)))
}

/// The members of an event that matter.
#[derive(Default)]
struct AnthropicWire<'a> {
    /// The event's `type`.
    name: Option<&'a str>,
    is_error: bool,
    delta: DeltaText<'a>,
    block: DeltaText<'a>,
    model: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    usage: Option<&'a str>,
    /// What a message already has when it starts.
    begun: Option<Payload>,
    begins_call: bool,
}

/// The members of a delta or a block that matter.
#[derive(Default)]
struct DeltaText<'a> {
    kind: Option<&'a str>,
    text: Option<&'a str>,
    thinking: Option<&'a str>,
    partial_json: Option<&'a str>,
    /// A tool's name.
    name: Option<&'a str>,
    /// The input of a tool that was sent whole, as JSON text. None if it is empty.
    input: Option<&'a str>,
    stop_reason: Option<&'a str>,
}

impl<'a> AnthropicWire<'a> {
    fn read(text: &'a str) -> Result<AnthropicWire<'a>, InvalidJson> {
        let mut wire = AnthropicWire::default();
        Json::whole(
            text,
            members!(|json| {
                "type" => wire.name = json.string_or_skip()?,
                "delta" => wire.delta = DeltaText::read(json)?,
                "content_block" => wire.block = DeltaText::read(json)?,
                "message" => wire.message(json)?,
                "usage" => wire.usage = json.some()?.or(wire.usage),
                "error" => wire.is_error |= says_error(json.skip()?),
            }),
        )?;
        Ok(wire)
    }

    fn message(&mut self, json: &mut Json<'a>) -> Result<(), InvalidJson> {
        json.object(members!(|json| {
            "model" => self.model = json.text()?,
            "id" => self.id = json.text()?,
            "usage" => self.usage = json.some()?.or(self.usage),
            "content" => json.list(|json| {
                let block = DeltaText::read(json)?;
                self.begins_call |= block.kind == Some("tool_use");
                self.begun = Payload::merge(self.begun, block.of_block());
                Ok(())
            })?,
        }))
    }

    fn frame(self, text: &'a str) -> Frame<'a> {
        let usage = self.usage.map(Cow::Borrowed);
        if self.is_error || self.name == Some("error") {
            return Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage };
        }
        let mut chunk = Chunk { usage, ..Chunk::default() };
        match self.name {
            Some("ping") => return Frame::KeepAlive,
            Some("message_stop") => return Frame::Done(chunk),
            Some("message_start") => {
                (chunk.model, chunk.id) = (self.model, self.id);
                (chunk.payload, chunk.calls) = (self.begun, self.begins_call);
            }
            Some("content_block_start") => {
                chunk.payload = self.block.of_block();
                chunk.calls = self.block.kind == Some("tool_use");
            }
            Some("content_block_delta") => {
                let found = self.delta.of_delta();
                chunk.text = found.map(|(_, text)| text);
                chunk.payload = found.map(|(kind, text)| Payload { kind, chars: characters(text) });
                chunk.calls = matches!(found, Some((PayloadKind::Tool, _)));
            }
            Some("message_delta") => {
                chunk.finish_reason = self.delta.stop_reason.filter(|reason| !reason.is_empty()).and_then(unescape);
                chunk.finished = u64::from(chunk.finish_reason.is_some());
            }
            Some("content_block_stop") => {}
            _ => return or_foreign(Dialect::Anthropic, text, chunk),
        }
        chunk.choices = 1;
        Frame::Chunk(chunk)
    }
}

impl<'a> DeltaText<'a> {
    fn read(json: &mut Json<'a>) -> Result<DeltaText<'a>, InvalidJson> {
        let mut words = DeltaText::default();
        json.object(|name, json| {
            let place = match name {
                "type" => &mut words.kind,
                "text" => &mut words.text,
                "thinking" => &mut words.thinking,
                "partial_json" => &mut words.partial_json,
                "name" => &mut words.name,
                "stop_reason" => &mut words.stop_reason,
                "input" => {
                    let input = json.some()?;
                    words.input = input.filter(|text| text.starts_with('{') && text.contains('"'));
                    return Ok(());
                }
                _ => return json.skip().map(drop),
            };
            *place = json.string_or_skip()?;
            Ok(())
        })?;
        Ok(words)
    }

    /// The text that a delta adds, if it is generated output. Signatures, citations and compaction are not.
    fn of_delta(&self) -> Option<(PayloadKind, &'a str)> {
        let (kind, text) = match self.kind? {
            "text_delta" => (PayloadKind::Text, self.text),
            "thinking_delta" => (PayloadKind::Reasoning, self.thinking),
            "input_json_delta" => (PayloadKind::Tool, self.partial_json),
            _ => return None,
        };
        text.filter(|text| !text.is_empty()).map(|text| (kind, text))
    }

    /// The initial content of a block: a tool's name, or text that a server puts there. Not the data of redacted
    /// thinking, and not the result of a vendor's tool.
    fn of_block(&self) -> Option<Payload> {
        let count = |text: Option<&str>| text.map_or(0, characters);
        let (kind, chars) = match self.kind? {
            "text" => (PayloadKind::Text, count(self.text)),
            "thinking" => (PayloadKind::Reasoning, count(self.thinking)),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                (PayloadKind::Tool, count(self.name).saturating_add(count(self.input)))
            }
            _ => return None,
        };
        Payload::of_chars(kind, chars)
    }
}
