//! Writes pieces as events of `streamGenerateContent`. Each is a complete response object; the last has the finish reasons and
//! the usage.

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value};

use crate::gemini::signature::write_signature;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::of_redacted;
use photofinish_wire::conversation::{AnswerPiece, Citation, FinishReason, PARAGRAPH, WritePieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::{PutMember, json};

/// Writes one stream.
pub struct GeminiWriter {
    id: Option<String>,
    model: String,
    /// The open call of a candidate. [`InTurn`](photofinish_wire::conversation::InTurn) gives one at a time.
    open: Option<OpenCall>,
    /// Citations, by candidate.
    cited: Vec<(u32, Citation)>,
    finished: Vec<(u32, FinishReason)>,
    usage: Usage,
}

struct OpenCall {
    id: Option<String>,
    name: String,
    arguments: String,
    signature: Option<String>,
}

impl GeminiWriter {
    /// `model` is used until the upstream names its own.
    pub fn new(model: &str) -> GeminiWriter {
        GeminiWriter::behind(None, model)
    }

    /// Continues an answer that was begun under these names.
    pub fn behind(id: Option<String>, model: &str) -> GeminiWriter {
        GeminiWriter {
            id,
            model: model.to_owned(),
            open: None,
            cited: Vec::new(),
            finished: Vec::new(),
            usage: Usage::default(),
        }
    }

    fn event(&mut self, candidates: Vec<Value>, usage: Option<Value>, out: &mut BytesMut) {
        let id = self.id.get_or_insert_with(|| uuid::Uuid::now_v7().simple().to_string()).clone();
        let mut event = Map::new();
        event.put("candidates", Some(candidates));
        event.put("usageMetadata", usage);
        event.put("modelVersion", Some(self.model.as_str()));
        event.put("responseId", Some(id));
        out.put_slice(b"data: ");
        out.put_slice(Value::Object(event).to_string().as_bytes());
        out.put_slice(b"\n\n");
    }

    fn parts(&mut self, index: u32, parts: Vec<Value>, out: &mut BytesMut) {
        let candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": index });
        self.event(vec![candidate], None, out);
    }

    fn text(&mut self, index: u32, text: &str, out: &mut BytesMut) {
        if !text.is_empty() {
            self.parts(index, vec![json!({ "text": text })], out);
        }
    }

    fn signature(&mut self, index: u32, signature: &str, out: &mut BytesMut) {
        let part = json!({ "text": "", "thought": true, "thoughtSignature": write_signature(signature) });
        self.parts(index, vec![part], out);
    }

    fn call(&mut self, index: u32, out: &mut BytesMut) {
        let Some(OpenCall { id, name, arguments, signature }) = self.open.take() else { return };
        let mut written = Map::new();
        written.put("id", id);
        written.put("name", Some(name));
        // Arguments that are no object end a stream with an error before they are written.
        written.put("args", Some(parse(arguments.as_bytes()).unwrap_or_else(|_| json!({}))));
        let mut part = json!({ "functionCall": written });
        part.put("thoughtSignature", signature.as_deref().map(write_signature));
        self.parts(index, vec![part], out);
    }

    /// The sources of a candidate.
    fn grounding(&mut self, index: u32) -> Option<Value> {
        let of_index = self.cited.extract_if(.., |(of, _)| *of == index);
        let chunk = |(_, Citation { url, title, .. })| {
            let mut web = json!({ "uri": url });
            web.put("title", title);
            json!({ "web": web })
        };
        let chunks: Vec<Value> = of_index.map(chunk).collect();
        (!chunks.is_empty()).then(|| json!({ "groundingChunks": chunks }))
    }
}

impl WritePieces for GeminiWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        match piece {
            AnswerPiece::Start { id, model } => {
                self.id = self.id.take().or(id);
                self.model = model.unwrap_or(std::mem::take(&mut self.model));
            }
            AnswerPiece::Text { index, text } | AnswerPiece::Refusal { index, text } => self.text(index, &text, out),
            AnswerPiece::NextMessage { index } => self.text(index, PARAGRAPH, out),
            AnswerPiece::Audio { index, transcript, .. } => self.text(index, &transcript, out),
            AnswerPiece::Image { index, media_type, data } => {
                self.parts(index, vec![json!({ "inlineData": { "mimeType": media_type, "data": data } })], out);
            }
            AnswerPiece::Thinking { index, text, .. } if !text.is_empty() => {
                self.parts(index, vec![json!({ "text": text, "thought": true })], out);
            }
            AnswerPiece::Signature { index, signature, .. } => self.signature(index, &signature, out),
            AnswerPiece::Redacted { index, data, .. } => self.signature(index, &of_redacted(&data), out),
            AnswerPiece::Call { id, name, signature, .. } => {
                let id = Some(id).filter(|id| !id.is_empty());
                self.open = Some(OpenCall { id, name, arguments: String::new(), signature });
            }
            AnswerPiece::Arguments { text, .. } => {
                self.open.iter_mut().for_each(|call| call.arguments.push_str(&text));
            }
            AnswerPiece::CallEnd { index, .. } => self.call(index, out),
            AnswerPiece::Citation { index, citation } => self.cited.push((index, citation)),
            AnswerPiece::Finish { index, finish } => self.finished.push((index, finish)),
            AnswerPiece::Usage(usage) => self.usage = usage.or(self.usage),
            AnswerPiece::Thinking { .. } | AnswerPiece::Other(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        if self.finished.is_empty() {
            self.finished.push((0, FinishReason::Stop));
        }
        let finished = std::mem::take(&mut self.finished);
        let candidate = |(index, finish): (u32, FinishReason)| {
            let content = json!({ "parts": [{ "text": "" }], "role": "model" });
            let mut written = json!({ "content": content, "finishReason": reason(&finish), "index": index });
            written.put("groundingMetadata", self.grounding(index));
            written
        };
        let candidates = finished.into_iter().map(candidate).collect();
        let usage = (self.usage != Usage::default()).then(|| metadata(&self.usage));
        self.event(candidates, usage, out);
    }
}

fn reason(finish: &FinishReason) -> &'static str {
    match finish {
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::Filtered | FinishReason::Refusal => "SAFETY",
        FinishReason::Other(_) => "OTHER",
        FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls | FinishReason::Pause => "STOP",
    }
}

/// Thoughts are counted apart from the answer.
fn metadata(usage: &Usage) -> Value {
    let mut metadata = Map::new();
    metadata.put("promptTokenCount", usage.input_tokens);
    metadata.put("cachedContentTokenCount", usage.cached_input_tokens);
    let thoughts = usage.reasoning_tokens.unwrap_or(0);
    metadata.put("candidatesTokenCount", usage.output_tokens.map(|tokens| (tokens - thoughts).max(0)));
    metadata.put("thoughtsTokenCount", usage.reasoning_tokens.filter(|tokens| *tokens > 0));
    let total = usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0);
    metadata.put("totalTokenCount", Some(total));
    Value::Object(metadata)
}
