//! Writes an answer of another dialect as a Messages stream.
//!
//! Blocks may not overlap: [`InTurn`](photofinish_wire::conversation::InTurn) gives it one call at a time. `message_start` is
//! sent with the first block, so that it can contain usage; `message_delta` waits for the end, because usage often
//! comes after the finish. A refusal is text with stop reason `refusal`; an image is Markdown with a data URL; of audio
//! only the transcript is written.

use std::collections::HashSet;

use bytes::{BufMut, BytesMut};
use serde_json::Value;

use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{SignatureOwner, UNSIGNED, of_call, shown};
use photofinish_wire::conversation::{AnswerPiece, Citation, FinishReason, WritePieces};
use photofinish_wire::json::values::{PutMember, json};

/// Ids up to this length, in bytes, and counters up to this many digits, are not unique to one call.
const SHORT_MAX: usize = 5;
const COUNTED_MAX: usize = 6;

/// Writes one stream.
pub struct AnthropicWriter {
    model: String,
    started: bool,
    /// Index of the next block.
    next: u64,
    open: Option<OpenBlock>,
    /// Citations that wait for a text.
    cited: Vec<Citation>,
    has_calls: bool,
    /// Ids of calls, as the upstream sent them.
    ids: HashSet<String>,
    refused: bool,
    usage: Usage,
    finish: Option<FinishReason>,
}

/// The open block.
enum OpenBlock {
    Text,
    Thinking { block: u32, signed: bool },
    Call,
}

/// Appends an event named by its `type`.
pub(super) fn emit(out: &mut BytesMut, event: &Value) {
    let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
    out.put_slice(format!("event: {name}\ndata: {event}\n\n").as_bytes());
}

impl AnthropicWriter {
    /// `model` is used until the upstream names its own.
    pub fn new(model: &str) -> AnthropicWriter {
        AnthropicWriter {
            model: model.to_owned(),
            started: false,
            next: 0,
            open: None,
            cited: Vec::new(),
            has_calls: false,
            ids: HashSet::new(),
            refused: false,
            usage: Usage::default(),
            finish: None,
        }
    }

    /// Continues a message of which `blocks` blocks were opened. `text_is_open`: the last one is text and still open;
    /// else none is open.
    pub fn behind(blocks: u64, text_is_open: bool) -> AnthropicWriter {
        AnthropicWriter {
            started: true,
            next: blocks,
            open: text_is_open.then_some(OpenBlock::Text),
            ..AnthropicWriter::new("")
        }
    }

    /// Writes `message_start`, once.
    fn start(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let id = format!("msg_{}", uuid::Uuid::now_v7().simple());
        let mut usage = self.usage_so_far();
        usage["output_tokens"] = Value::from(0);
        let message = json!({
            "id": id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        emit(out, &json!({ "type": "message_start", "message": message }));
    }

    fn open_block(&mut self, open: OpenBlock, content: Value, out: &mut BytesMut) {
        self.close(out);
        self.start(out);
        emit(out, &json!({ "type": "content_block_start", "index": self.next, "content_block": content }));
        self.open = Some(open);
        self.next += 1;
    }

    /// Closes the open block, if any.
    fn close(&mut self, out: &mut BytesMut) {
        let Some(open) = self.open.take() else { return };
        if let OpenBlock::Thinking { signed: false, .. } = open {
            // This mark identifies an unsigned block when the client sends it back.
            self.delta("signature_delta", "signature", UNSIGNED, out);
        }
        emit(out, &json!({ "type": "content_block_stop", "index": self.next.saturating_sub(1) }));
    }

    /// A delta of the open block. Written for every token, so it builds no JSON tree.
    fn delta(&self, kind: &str, member: &str, value: impl Into<Value>, out: &mut BytesMut) {
        let (index, text): (u64, Value) = (self.next.saturating_sub(1), value.into());
        let data = format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":{text}}}}}"#
        );
        out.reserve(data.len() + 36);
        out.put_slice(b"event: content_block_delta\ndata: ");
        out.put_slice(data.as_bytes());
        out.put_slice(b"\n\n");
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.open, Some(OpenBlock::Text)) {
            self.open_block(OpenBlock::Text, json!({ "type": "text", "text": "" }), out);
        }
        self.delta("text_delta", "text", text, out);
        std::mem::take(&mut self.cited).into_iter().for_each(|citation| self.cite(citation, out));
    }

    /// Only a text has citations.
    fn cite(&mut self, citation: Citation, out: &mut BytesMut) {
        if !matches!(self.open, Some(OpenBlock::Text)) {
            return self.cited.push(citation);
        }
        let Citation { url, title, quote, .. } = citation;
        let written = json!({
            "type": "web_search_result_location", "url": url, "title": title, "encrypted_index": "",
            "cited_text": quote.unwrap_or_default(),
        });
        self.delta("citations_delta", "citation", written, out);
    }

    /// Opens the thinking block with this number, unless it is open.
    fn think(&mut self, block: u32, out: &mut BytesMut) {
        if !matches!(self.open, Some(OpenBlock::Thinking { block: at, .. }) if at == block) {
            let content = json!({ "type": "thinking", "thinking": "", "signature": "" });
            self.open_block(OpenBlock::Thinking { block, signed: false }, content, out);
        }
    }

    fn sign(&mut self, block: u32, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        self.think(block, out);
        if let Some(OpenBlock::Thinking { signed, .. }) = &mut self.open {
            *signed = true;
        }
        self.delta("signature_delta", "signature", shown(SignatureOwner::Anthropic, text), out);
    }

    fn redacted(&mut self, data: &str, out: &mut BytesMut) {
        let content = json!({ "type": "redacted_thinking", "data": shown(SignatureOwner::Anthropic, data) });
        self.open_block(OpenBlock::Text, content, out);
        self.close(out);
    }

    fn call(&mut self, id: String, name: &str, signature: Option<String>, out: &mut BytesMut) {
        self.has_calls = true;
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            let content = json!({ "type": "thinking", "thinking": "", "signature": "" });
            self.open_block(OpenBlock::Thinking { block: u32::MAX, signed: true }, content, out);
            self.delta("signature_delta", "signature", of_call(&signature), out);
        }
        let id = self.own_id(id);
        let content = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        self.open_block(OpenBlock::Call, content, out);
    }

    /// The upstream's id, if it is unique and Anthropic accepts it. Otherwise a new one: the client sends call and
    /// result back with the same id.
    fn own_id(&mut self, id: String) -> String {
        let taken_back = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let counted = id.strip_prefix("call_").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let counted = counted.is_some_and(|number| number.len() <= COUNTED_MAX);
        if id.len() > SHORT_MAX && taken_back && !counted && self.ids.insert(id.clone()) {
            return id;
        }
        format!("toolu_{}", uuid::Uuid::now_v7().simple())
    }

    /// Usage so far. Messages counts cache reads and writes apart from other input.
    fn usage_so_far(&self) -> Value {
        let cached = self.usage.cached_input_tokens.unwrap_or(0);
        let created = self.usage.cache_creation_tokens.unwrap_or(0);
        let input = self.usage.input_tokens.unwrap_or(0).saturating_sub(cached).saturating_sub(created);
        let mut usage = json!({
            "input_tokens": input.max(0),
            "cache_creation_input_tokens": created,
            "cache_read_input_tokens": cached,
            "output_tokens": self.usage.output_tokens.unwrap_or(0),
        });
        let by_time = self.usage.cache_hour_tokens.map(
            |hour| json!({ "ephemeral_5m_input_tokens": (created - hour).max(0), "ephemeral_1h_input_tokens": hour }),
        );
        usage.put("cache_creation", by_time);
        let thinking = self.usage.reasoning_tokens.map(|thinking| json!({ "thinking_tokens": thinking }));
        usage.put("output_tokens_details", thinking);
        usage
    }

    fn stop_reason(&mut self) -> (String, Option<String>) {
        let reason = match self.finish.take() {
            Some(FinishReason::StopSequence(sequence)) => return ("stop_sequence".to_owned(), sequence),
            Some(FinishReason::Length) => "max_tokens",
            Some(FinishReason::Filtered | FinishReason::Refusal) => "refusal",
            Some(FinishReason::Pause) => "pause_turn",
            // The end is unknown, so it must not look good.
            Some(FinishReason::Other(_)) => "max_tokens",
            _ if self.refused => "refusal",
            // Some vendors report `stop` for a call, others a call that never came.
            _ if self.has_calls => "tool_use",
            Some(FinishReason::Stop | FinishReason::ToolCalls) | None => "end_turn",
        };
        (reason.to_owned(), None)
    }
}

impl WritePieces for AnthropicWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        // Messages has only choice 0.
        match piece {
            AnswerPiece::Start { model: Some(model), .. } if !model.is_empty() => self.model = model,
            AnswerPiece::Text { index: 0, text } => self.text(&text, out),
            AnswerPiece::Refusal { index: 0, text } => {
                self.refused = true;
                self.text(&text, out);
            }
            AnswerPiece::NextMessage { index: 0 } => self.close(out),
            AnswerPiece::Thinking { index: 0, block, text } if !text.is_empty() => {
                self.think(block, out);
                self.delta("thinking_delta", "thinking", text, out);
            }
            AnswerPiece::Signature { index: 0, block, signature } => self.sign(block, &signature, out),
            AnswerPiece::Redacted { index: 0, data, .. } => self.redacted(&data, out),
            AnswerPiece::Call { index: 0, id, name, signature, .. } => self.call(id, &name, signature, out),
            AnswerPiece::Arguments { index: 0, text, .. } => self.delta("input_json_delta", "partial_json", text, out),
            AnswerPiece::CallEnd { index: 0, .. } => self.close(out),
            AnswerPiece::Citation { index: 0, citation } => self.cite(citation, out),
            AnswerPiece::Audio { index: 0, transcript, .. } => self.text(&transcript, out),
            AnswerPiece::Image { index: 0, media_type, data } => {
                self.text(&format!("![image](data:{media_type};base64,{data})"), out);
            }
            AnswerPiece::Finish { index: 0, finish } => self.finish = Some(finish),
            AnswerPiece::Usage(usage) => self.usage = usage.or(self.usage),
            _ => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.start(out);
        self.close(out);
        let (reason, sequence) = self.stop_reason();
        let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
        emit(out, &json!({ "type": "message_delta", "delta": delta, "usage": self.usage_so_far() }));
        emit(out, &json!({ "type": "message_stop" }));
    }
}
