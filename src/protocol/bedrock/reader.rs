//! An answer of Bedrock's in words of no dialect.

use std::collections::HashMap;

use serde_json::Value;

use super::sealed::Sealed;
use crate::protocol::binary::{Kind, message};
use crate::protocol::neutral::{Finish, Piece, ReadPieces};
use crate::protocol::sse::Event;
use crate::protocol::usage::Usage;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    /// The blocks that are calls, with the calls' numbers.
    calls: HashMap<u32, u32>,
    /// The media type of the image that a block began.
    image: Option<String>,
    /// What is not whole yet.
    sealed: Option<Sealed>,
}

impl ReadPieces for Reader {
    fn read(&mut self, event: &Event, pieces: &mut Vec<Piece>) {
        let Some(message) = message(&event.raw).filter(|message| message.kind == Kind::Event) else { return };
        let Ok(payload) = serde_json::from_slice::<Value>(message.payload) else { return };
        let block = payload.get("contentBlockIndex").and_then(Value::as_u64);
        let block = block.and_then(|block| u32::try_from(block).ok()).unwrap_or(0);
        if message.name != "contentBlockDelta" {
            self.unseal(pieces);
        }
        match message.name {
            "messageStart" => pieces.push(Piece::Start { id: None, model: None }),
            "contentBlockStart" => pieces.extend(payload.get("start").and_then(|start| self.start(block, start))),
            "contentBlockDelta" => {
                for (kind, delta) in payload.get("delta").and_then(Value::as_object).into_iter().flatten() {
                    match Sealed::of(block, kind, delta) {
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
                pieces.extend(finish.map(|finish| Piece::Finish { index: 0, finish }));
            }
            "metadata" => {
                let mut usage = Usage::default();
                payload.get("usage").iter().for_each(|counts| usage.add(&counts.to_string()));
                payload.get("metrics").iter().for_each(|times| usage.add_time_info(&times.to_string()));
                pieces.push(Piece::Usage(usage));
            }
            _ => {}
        }
    }
}

impl Reader {
    fn start(&mut self, block: u32, start: &Value) -> Option<Piece> {
        let (kind, start) = start.as_object()?.iter().next()?;
        let text = |name: &str| start.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            // A tool that the vendor runs itself is not the caller's to answer.
            "toolUse" if text("type") == "server_tool_use" => Some(Piece::Other("server_tool_use".to_owned())),
            "toolUse" => {
                let call = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
                let call = *self.calls.entry(block).or_insert(call);
                let (id, name) = (text("toolUseId"), text("name"));
                Some(Piece::Call { index: 0, call, id, name, custom: false, signature: None })
            }
            "image" => {
                self.image = Some(format!("image/{}", text("format")));
                None
            }
            other => Some(Piece::Other(other.to_owned())),
        }
    }

    fn seal(&mut self, more: Sealed, pieces: &mut Vec<Piece>) {
        match &mut self.sealed {
            Some(sealed) if sealed.takes(&more) => sealed.add(&more),
            _ => {
                self.unseal(pieces);
                self.sealed = Some(more);
            }
        }
    }

    fn unseal(&mut self, pieces: &mut Vec<Piece>) {
        pieces.extend(self.sealed.take().map(Sealed::piece));
    }

    fn delta(&mut self, block: u32, kind: &str, delta: &Value) -> Option<Piece> {
        let index = 0;
        match kind {
            "text" => filled(delta).map(|text| Piece::Text { index, text }),
            "toolUse" => {
                let call = *self.calls.get(&block)?;
                filled(delta.get("input")?).map(|text| Piece::Arguments { index, call, text })
            }
            "reasoningContent" => {
                let (kind, value) = delta.as_object()?.iter().next()?;
                let text = filled(value)?;
                match kind.as_str() {
                    "text" => Some(Piece::Thinking { index, block, text }),
                    _ => None,
                }
            }
            "image" => {
                let data = filled(delta.get("source")?.get("bytes")?)?;
                let media_type = self.image.clone().unwrap_or_else(|| "image/png".to_owned());
                Some(Piece::Image { index, media_type, data })
            }
            // More of what a block's start has told.
            "toolResult" => None,
            other => Some(Piece::Other(other.to_owned())),
        }
    }
}

fn finish(reason: &str, stop: &Value) -> Finish {
    match reason {
        "end_turn" => Finish::Stop,
        "stop_sequence" => {
            let fields = stop.get("additionalModelResponseFields");
            let sequence = fields.and_then(|fields| fields.get("stop_sequence")?.as_str());
            Finish::StopSequence(sequence.map(str::to_owned))
        }
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "content_filtered" | "guardrail_intervened" => Finish::Filtered,
        "refusal" => Finish::Refusal,
        "pause_turn" => Finish::Pause,
        other => Finish::Other(other.to_owned()),
    }
}

/// A string that is not empty.
fn filled(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
