//! Reads a Messages stream into pieces, for a client of another surface. Not on the hot path: builds JSON values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{SignatureOwner, SignatureUse, held};
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, Citation, FinishReason, Fragment, ReadPieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::HalfCharacters;
use photofinish_wire::json::values::arguments;
use photofinish_wire::stream::sse::SseEvent;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct AnthropicReader {
    /// Open blocks, by the vendor's index.
    open: BTreeMap<u64, BlockKind>,
    /// Thinking blocks so far.
    thoughts: u32,
    calls: AnswerCalls,
    /// The signature of the next call, which another vendor made.
    signature: Option<String>,
    usage: Usage,
    halves: HalfCharacters,
}

#[derive(Debug)]
enum BlockKind {
    Text,
    Thinking(u32),
    /// `whole` is an input that came with the start. Deltas replace it.
    Call {
        whole: Option<String>,
    },
    /// A block that no other dialect has.
    Other,
}

impl ReadPieces for AnthropicReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let Some(data) = event.fields().data else { return };
        let Ok(mut event) = parse(&self.halves.joined(&data)) else { return };
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => self.message_start(&mut event["message"], pieces),
            Some("content_block_start") => self.block_start(index, event["content_block"].take(), pieces),
            Some("content_block_delta") => self.block_delta(index, event["delta"].take(), pieces),
            Some("content_block_stop") => self.block_stop(index, pieces),
            Some("message_delta") => {
                self.usage(&event["usage"], pieces);
                let delta = &event["delta"];
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    let finish = finish(reason, text(delta, "stop_sequence"));
                    self.calls.finish(0, &finish, pieces);
                    pieces.push(AnswerPiece::Finish { index: 0, finish });
                }
            }
            _ => {}
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

impl AnthropicReader {
    /// After a second start in one stream (the server started again) no block is open.
    fn message_start(&mut self, message: &mut Value, pieces: &mut Vec<AnswerPiece>) {
        self.open.clear();
        self.calls.renumber();
        pieces.push(AnswerPiece::Start { id: text(message, "id"), model: text(message, "model") });
        self.usage(&message["usage"], pieces);
        // Some servers begin with whole blocks, which the vendor's clients take as the first ones.
        for (index, block) in (0..).zip(message["content"].as_array_mut().into_iter().flatten()) {
            self.block_start(index, block.take(), pieces);
            self.block_stop(index, pieces);
        }
    }

    fn block_start(&mut self, index: u64, mut content: Value, pieces: &mut Vec<AnswerPiece>) {
        let kind = text(&content, "type").unwrap_or_default();
        let block = match kind.as_str() {
            "text" => {
                push_text(&mut content, pieces);
                BlockKind::Text
            }
            "thinking" => {
                let block = self.next_thought();
                push_thinking(block, &mut content, pieces);
                self.signature(block, &content, pieces);
                BlockKind::Thinking(block)
            }
            "redacted_thinking" => {
                let block = self.next_thought();
                let data = text(&content, "data").unwrap_or_default();
                if let SignatureUse::Thought(data) | SignatureUse::Redacted(data) =
                    held(SignatureOwner::Anthropic, &data)
                {
                    pieces.push(AnswerPiece::Redacted { index: 0, block, data });
                }
                BlockKind::Other
            }
            "tool_use" => self.call_start(index, &content, pieces),
            "fallback" => {
                pieces.push(AnswerPiece::Start { id: None, model: text(&content["to"], "model") });
                BlockKind::Other
            }
            _ => {
                pieces.push(AnswerPiece::Other(kind));
                BlockKind::Other
            }
        };
        self.open.insert(index, block);
    }

    fn call_start(&mut self, index: u64, content: &Value, pieces: &mut Vec<AnswerPiece>) -> BlockKind {
        let fragment = Fragment {
            number: Some(index.into()),
            id: text(content, "id").unwrap_or_default(),
            name: text(content, "name").unwrap_or_default(),
            is_named: true,
            signature: self.signature.take(),
            ..Fragment::default()
        };
        self.calls.add(0, fragment, pieces);
        let empty = |input: &Value| input.is_null() || input.as_object().is_some_and(Map::is_empty);
        let whole = content.get("input").filter(|input| !empty(input));
        BlockKind::Call { whole: whole.map(Value::to_string) }
    }

    fn block_delta(&mut self, index: u64, mut delta: Value, pieces: &mut Vec<AnswerPiece>) {
        let block = self.open.get_mut(&index);
        let kind = text(&delta, "type").unwrap_or_default();
        match (kind.as_str(), block) {
            // Some servers omit the start of a text block.
            ("text_delta", Some(BlockKind::Text) | None) => push_text(&mut delta, pieces),
            ("thinking_delta", Some(BlockKind::Thinking(block))) => push_thinking(*block, &mut delta, pieces),
            ("signature_delta", Some(BlockKind::Thinking(block))) => {
                let block = *block;
                self.signature(block, &delta, pieces);
            }
            ("input_json_delta", Some(BlockKind::Call { whole })) => {
                let text = arguments(&delta["partial_json"]);
                if !text.is_empty() {
                    *whole = None;
                    self.arguments(index, text, pieces);
                }
            }
            ("citations_delta", Some(BlockKind::Text) | None) => self.citation(&delta["citation"], pieces),
            // More of a block that was already reported whole.
            (_, Some(BlockKind::Other)) => {}
            _ => pieces.push(AnswerPiece::Other(kind)),
        }
    }

    fn block_stop(&mut self, index: u64, pieces: &mut Vec<AnswerPiece>) {
        let Some(BlockKind::Call { whole }) = self.open.remove(&index) else { return };
        self.calls.end_of(0, index.into(), whole.unwrap_or_default(), pieces);
    }

    fn arguments(&mut self, index: u64, arguments: String, pieces: &mut Vec<AnswerPiece>) {
        self.calls.add(0, Fragment { number: Some(index.into()), arguments, ..Fragment::default() }, pieces);
    }

    /// Those of search results; those of the client's own documents have no address.
    fn citation(&mut self, found: &Value, pieces: &mut Vec<AnswerPiece>) {
        let Some(url) = text(found, "url").or_else(|| text(found, "source")) else {
            return pieces.push(AnswerPiece::Other("citations".to_owned()));
        };
        let citation = Citation { url, title: text(found, "title"), span: None, quote: text(found, "cited_text") };
        pieces.push(AnswerPiece::Citation { index: 0, citation });
    }

    fn signature(&mut self, block: u32, from: &Value, pieces: &mut Vec<AnswerPiece>) {
        let signature = text(from, "signature").unwrap_or_default();
        match held(SignatureOwner::Anthropic, &signature) {
            SignatureUse::Thought(signature) | SignatureUse::Redacted(signature) => {
                pieces.push(AnswerPiece::Signature { index: 0, block, signature });
            }
            SignatureUse::Call(signature) => self.signature = Some(signature),
            SignatureUse::Unsigned => {}
        }
    }

    /// The end often counts more exactly than the start, or only the answer.
    fn usage(&mut self, usage: &Value, pieces: &mut Vec<AnswerPiece>) {
        if usage.is_object() {
            self.usage.add(&usage.to_string());
            pieces.push(AnswerPiece::Usage(self.usage));
        }
    }

    fn next_thought(&mut self) -> u32 {
        let block = self.thoughts;
        self.thoughts = self.thoughts.saturating_add(1);
        block
    }
}

/// The meaning of a stop reason.
fn finish(reason: &str, sequence: Option<String>) -> FinishReason {
    match FinishReason::of(reason) {
        FinishReason::StopSequence(_) => FinishReason::StopSequence(sequence),
        other => other,
    }
}

fn push_text(from: &mut Value, pieces: &mut Vec<AnswerPiece>) {
    if let Some(text) = take(from, "text") {
        pieces.push(AnswerPiece::Text { index: 0, text });
    }
}

fn push_thinking(block: u32, from: &mut Value, pieces: &mut Vec<AnswerPiece>) {
    if let Some(text) = take(from, "thinking") {
        pieces.push(AnswerPiece::Thinking { index: 0, block, text });
    }
}

/// Takes a string member out, unless it is empty.
fn take(from: &mut Value, member: &str) -> Option<String> {
    match from.get_mut(member) {
        Some(Value::String(text)) if !text.is_empty() => Some(std::mem::take(text)),
        _ => None,
    }
}

fn text(from: &Value, member: &str) -> Option<String> {
    from.get(member).and_then(Value::as_str).map(str::to_owned)
}
