//! Reads a Bedrock stream into pieces.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::answer::usage::Usage;
use crate::json::numbers::parse;
use crate::json::surrogates::HalfCharacters;
use crate::json::values::text;
use crate::stream::binary::{BinaryKind, message};
use crate::stream::sse::SseEvent;
use crate::translate::signature::{SignatureOwner, tag};
use crate::translate::{AnswerPiece, FinishReason, ReadPieces};

/// Reads one stream.
#[derive(Debug, Default)]
pub struct BedrockReader {
    /// Blocks that are calls, with the numbers of the calls.
    calls: HashMap<u32, u32>,
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
            "contentBlockStart" => pieces.extend(payload.get("start").and_then(|start| self.start(block, start))),
            "contentBlockDelta" => {
                for (kind, delta) in payload.get("delta").and_then(Value::as_object).into_iter().flatten() {
                    match SealedEvent::of(block, kind, delta) {
                        Some(more) => self.seal(more, pieces),
                        None => {
                            self.unseal(pieces);
                            pieces.extend(self.delta(block, kind, delta));
                        }
                    }
                }
            }
            "messageStop" => {
                let finish = payload.get("stopReason").and_then(Value::as_str).map(|reason| finish(reason, &payload));
                pieces.extend(finish.map(|finish| AnswerPiece::Finish { index: 0, finish }));
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
}

impl BedrockReader {
    fn start(&mut self, block: u32, start: &Value) -> Option<AnswerPiece> {
        let (kind, start) = start.as_object()?.iter().next()?;
        let text = |name: &str| start.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            // The caller does not answer a tool that the vendor runs itself.
            "toolUse" if text("type") == "server_tool_use" => Some(AnswerPiece::Other("server_tool_use".to_owned())),
            "toolUse" => {
                let call = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
                let call = *self.calls.entry(block).or_insert(call);
                let (id, name) = (text("toolUseId"), text("name"));
                Some(AnswerPiece::Call { index: 0, call, id, name, custom: false, signature: None })
            }
            "image" => {
                self.image = Some(format!("image/{}", text("format")));
                None
            }
            other => Some(AnswerPiece::Other(other.to_owned())),
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

    fn delta(&mut self, block: u32, kind: &str, delta: &Value) -> Option<AnswerPiece> {
        let index = 0;
        match kind {
            "text" => {
                let text = delta.as_str().filter(|text| !text.is_empty())?.to_owned();
                Some(AnswerPiece::Text { index, text })
            }
            "toolUse" => {
                let call = *self.calls.get(&block)?;
                owned(delta, "input").map(|text| AnswerPiece::Arguments { index, call, text })
            }
            "reasoningContent" => owned(delta, "text").map(|text| AnswerPiece::Thinking { index, block, text }),
            "image" => {
                let data = owned(delta.get("source")?, "bytes")?;
                let media_type = self.image.clone().unwrap_or_else(|| "image/png".to_owned());
                Some(AnswerPiece::Image { index, media_type, data })
            }
            // More of a block that its start already reported.
            "toolResult" => None,
            other => Some(AnswerPiece::Other(other.to_owned())),
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
