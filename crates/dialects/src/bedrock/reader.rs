//! Reads a Bedrock stream into pieces.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{SignatureOwner, tag};
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, Citation, FinishReason, Fragment, ReadPieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::HalfCharacters;
use photofinish_wire::json::values::{self, text};
use photofinish_wire::stream::binary::{BinaryKind, message};
use photofinish_wire::stream::sse::SseEvent;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct BedrockReader {
    calls: AnswerCalls,
    /// Blocks that are calls of tools that the vendor runs.
    served: Vec<u32>,
    /// The media type of the image in the open block.
    image: Option<String>,
    /// A signature or encrypted reasoning that is not complete yet.
    sealed: Option<SealedEvent>,
    halves: HalfCharacters,
}

impl ReadPieces for BedrockReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let Some(message) = message(&event.raw).filter(|message| message.kind == BinaryKind::Event) else { return };
        let Ok(payload) = parse(&self.halves.joined(message.payload)) else { return };
        let block = payload.get("contentBlockIndex").and_then(Value::as_u64);
        let block = block.and_then(|block| u32::try_from(block).ok()).unwrap_or(0);
        if message.name != "contentBlockDelta" {
            self.unseal(pieces);
        }
        match message.name {
            "messageStart" => pieces.push(AnswerPiece::Start { id: None, model: None }),
            "contentBlockStart" => payload.get("start").iter().for_each(|start| self.start(block, start, pieces)),
            "contentBlockStop" => self.calls.end_of(0, block.into(), String::new(), pieces),
            "contentBlockDelta" => {
                for (kind, delta) in payload.get("delta").and_then(Value::as_object).into_iter().flatten() {
                    match SealedEvent::of(block, kind, delta) {
                        Some(more) => self.seal(more, pieces),
                        None => {
                            self.unseal(pieces);
                            self.delta(block, kind, delta, pieces);
                        }
                    }
                }
            }
            "messageStop" => {
                if let Some(reason) = payload.get("stopReason").and_then(Value::as_str) {
                    let finish = finish(reason, &payload);
                    self.calls.finish(0, &finish, pieces);
                    pieces.push(AnswerPiece::Finish { index: 0, finish });
                }
            }
            "metadata" => {
                let mut usage = Usage::default();
                payload.get("usage").iter().for_each(|counts| usage.add(&counts.to_string()));
                payload.get("metrics").iter().for_each(|times| usage.add_time_info(&times.to_string()));
                pieces.push(AnswerPiece::Usage(usage));
            }
            _ => {}
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

impl BedrockReader {
    fn start(&mut self, block: u32, start: &Value, pieces: &mut Vec<AnswerPiece>) {
        let Some((kind, start)) = start.as_object().and_then(|start| start.iter().next()) else { return };
        let text = |name: &str| start.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            // The caller does not answer a tool that the vendor runs itself.
            "toolUse" if text("type") == "server_tool_use" => {
                self.served.push(block);
                pieces.push(AnswerPiece::Other("server_tool_use".to_owned()));
            }
            "toolUse" => {
                let (number, id, name) = (Some(block.into()), text("toolUseId"), text("name"));
                self.calls.add(0, Fragment { number, id, name, is_named: true, ..Fragment::default() }, pieces);
            }
            "image" => self.image = Some(format!("image/{}", text("format"))),
            other => pieces.push(AnswerPiece::Other(other.to_owned())),
        }
    }

    fn seal(&mut self, more: SealedEvent, pieces: &mut Vec<AnswerPiece>) {
        match &mut self.sealed {
            Some(sealed) if sealed.takes(&more) => sealed.add(&more),
            _ => {
                self.unseal(pieces);
                self.sealed = Some(more);
            }
        }
    }

    fn unseal(&mut self, pieces: &mut Vec<AnswerPiece>) {
        pieces.extend(self.sealed.take().map(SealedEvent::piece));
    }

    fn delta(&mut self, block: u32, kind: &str, delta: &Value, pieces: &mut Vec<AnswerPiece>) {
        let index = 0;
        match kind {
            "text" => {
                let text = delta.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                pieces.extend(text.map(|text| AnswerPiece::Text { index, text }));
            }
            "toolUse" if self.served.contains(&block) => {}
            "toolUse" => {
                let arguments = values::arguments(&delta["input"]);
                self.calls.add(
                    index,
                    Fragment { number: Some(block.into()), arguments, ..Fragment::default() },
                    pieces,
                );
            }
            "reasoningContent" => {
                pieces.extend(owned(delta, "text").map(|text| AnswerPiece::Thinking { index, block, text }));
            }
            "image" => {
                let data = delta.get("source").and_then(|source| owned(source, "bytes"));
                let media_type = self.image.clone().unwrap_or_else(|| "image/png".to_owned());
                pieces.extend(data.map(|data| AnswerPiece::Image { index, media_type, data }));
            }
            "citation" => {
                let web = delta.pointer("/location/web");
                let quote = delta.pointer("/sourceContent/0/text").and_then(Value::as_str).map(str::to_owned);
                let title = owned(delta, "title");
                let citation = web.and_then(|web| Some(Citation { url: owned(web, "url")?, title, span: None, quote }));
                let other = || AnswerPiece::Other("citation".to_owned());
                pieces.push(citation.map_or_else(other, |citation| AnswerPiece::Citation { index, citation }));
            }
            // More of a block that its start already reported.
            "toolResult" => {}
            other => pieces.push(AnswerPiece::Other(other.to_owned())),
        }
    }
}

fn finish(reason: &str, stop: &Value) -> FinishReason {
    match FinishReason::of(reason) {
        FinishReason::StopSequence(_) => {
            let fields = stop.get("additionalModelResponseFields");
            let sequence = fields.and_then(|fields| fields.get("stop_sequence")?.as_str());
            FinishReason::StopSequence(sequence.map(str::to_owned))
        }
        other => other,
    }
}

fn owned(value: &Value, name: &str) -> Option<String> {
    text(value, name).map(str::to_owned)
}

// A signature or encrypted reasoning. It may be split over several deltas and is reported when complete.

/// The part received so far.
#[derive(Debug)]
pub(super) struct SealedEvent {
    block: u32,
    redacted: bool,
    data: String,
}

impl SealedEvent {
    /// The content of a delta. None if the delta is of another kind.
    pub fn of(block: u32, kind: &str, delta: &Value) -> Option<SealedEvent> {
        if kind != "reasoningContent" {
            return None;
        }
        let (kind, data) = delta.as_object()?.iter().next()?;
        let redacted = match kind.as_str() {
            "signature" => false,
            "redactedContent" => true,
            _ => return None,
        };
        let data = data.as_str().filter(|data| !data.is_empty())?.to_owned();
        Some(SealedEvent { block, redacted, data })
    }

    /// Whether `more` continues this one.
    pub fn takes(&self, more: &SealedEvent) -> bool {
        (self.block, self.redacted) == (more.block, more.redacted)
    }

    /// Each part of encrypted reasoning is base64 with its own padding.
    pub fn add(&mut self, more: &SealedEvent) {
        let whole = self.data.len().saturating_sub(4);
        let last = self.data.get(whole..).filter(|last| self.redacted && last.ends_with('='));
        match (last.map(|last| STANDARD.decode(last)), STANDARD.decode(&more.data)) {
            (Some(Ok(last)), Ok(more)) => {
                self.data.truncate(whole);
                self.data.push_str(&STANDARD.encode([last, more].concat()));
            }
            _ => self.data.push_str(&more.data),
        }
    }

    pub fn piece(self) -> AnswerPiece {
        let (block, data) = (self.block, tag(SignatureOwner::Anthropic, &self.data));
        match self.redacted {
            true => AnswerPiece::Redacted { index: 0, block, data },
            false => AnswerPiece::Signature { index: 0, block, signature: data },
        }
    }
}
