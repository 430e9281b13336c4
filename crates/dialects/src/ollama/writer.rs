//! Writes pieces as lines of `/api/chat` or `/api/generate`.
//!
//! A call is one object in a line, so its arguments are held back to its end. The last line has counts and times. Times are the gateway's: the upstream may be another vendor's.

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value};

use photofinish_base::clock::Instant;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::{AnswerPiece, FinishReason, PARAGRAPH, WritePieces};
use photofinish_wire::dialect::Surface;
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::{PutMember, json};

/// Which of the two requests is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OllamaForm {
    Chat,
    Generate,
}

impl OllamaForm {
    pub fn of(surface: Surface) -> OllamaForm {
        if surface == Surface::OllamaGenerate { OllamaForm::Generate } else { OllamaForm::Chat }
    }
}

/// Writes one stream.
pub struct OllamaWriter {
    form: OllamaForm,
    model: String,
    began: Instant,
    /// When the first piece of output came.
    first: Option<Instant>,
    /// The open call: its id, its name and its arguments. [`InTurn`](photofinish_wire::conversation::InTurn) gives one at a time.
    open: Option<(String, String, String)>,
    finish: Option<FinishReason>,
    usage: Usage,
}

impl OllamaWriter {
    /// `model` is used until the upstream names its own.
    pub fn new(form: OllamaForm, model: &str) -> OllamaWriter {
        OllamaWriter {
            form,
            model: model.to_owned(),
            began: Instant::now(),
            first: None,
            open: None,
            finish: None,
            usage: Usage::default(),
        }
    }

    /// A line with this output, and these other members.
    fn line(&self, output: Map<String, Value>, rest: Map<String, Value>, out: &mut BytesMut) {
        let mut line = Map::new();
        line.put("model", Some(self.model.as_str()));
        line.put("created_at", Some(now()));
        match self.form {
            OllamaForm::Chat => {
                let mut message = Map::new();
                message.put("role", Some("assistant"));
                message.put("content", Some(""));
                message.extend(output);
                line.put("message", Some(message));
            }
            OllamaForm::Generate => {
                line.put("response", Some(""));
                line.extend(output.into_iter().map(|(name, value)| match name.as_str() {
                    "content" => ("response".to_owned(), value),
                    _ => (name, value),
                }));
            }
        }
        line.put("done", Some(false));
        line.extend(rest);
        out.put_slice(Value::Object(line).to_string().as_bytes());
        out.put_u8(b'\n');
    }

    /// A line with one member of the message.
    fn output(&mut self, name: &str, value: impl Into<Value>, out: &mut BytesMut) {
        self.first.get_or_insert_with(Instant::now);
        self.line(Map::from_iter([(name.to_owned(), value.into())]), Map::new(), out);
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        if !text.is_empty() {
            self.output("content", text, out);
        }
    }

    fn call(&mut self, out: &mut BytesMut) {
        let Some((id, name, arguments)) = self.open.take() else { return };
        // Arguments that are no object end a stream with an error before they are written.
        let arguments = parse(arguments.as_bytes()).unwrap_or_else(|_| json!({}));
        let mut written = Map::new();
        written.put("id", Some(id).filter(|id| !id.is_empty()));
        written.put("function", Some(json!({ "name": name, "arguments": arguments })));
        self.output("tool_calls", vec![Value::Object(written)], out);
    }
}

impl WritePieces for OllamaWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        match piece {
            AnswerPiece::Start { model, .. } => self.model = model.unwrap_or(std::mem::take(&mut self.model)),
            AnswerPiece::Text { index: 0, text } | AnswerPiece::Refusal { index: 0, text } => self.text(&text, out),
            AnswerPiece::NextMessage { index: 0 } => self.text(PARAGRAPH, out),
            AnswerPiece::Audio { index: 0, transcript, .. } => self.text(&transcript, out),
            AnswerPiece::Image { index: 0, media_type, data } => {
                self.text(&format!("![image](data:{media_type};base64,{data})"), out);
            }
            AnswerPiece::Thinking { index: 0, text, .. } if !text.is_empty() => {
                self.output("thinking", text, out);
            }
            AnswerPiece::Call { index: 0, id, name, .. } => self.open = Some((id, name, String::new())),
            AnswerPiece::Arguments { index: 0, text, .. } => {
                self.open.iter_mut().for_each(|(.., arguments)| arguments.push_str(&text));
            }
            AnswerPiece::CallEnd { index: 0, .. } => self.call(out),
            AnswerPiece::Finish { index: 0, finish } => self.finish = Some(finish),
            AnswerPiece::Usage(usage) => self.usage = usage.or(self.usage),
            _ => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        let reason = match &self.finish {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::Filtered | FinishReason::Refusal) => "content_filter",
            Some(FinishReason::Other(other)) => other,
            Some(
                FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls | FinishReason::Pause,
            )
            | None => "stop",
        };
        let (end, first) = (Instant::now(), self.first.unwrap_or(self.began));
        // Clients divide by the times.
        let nanos = |from: Instant, to: Instant| {
            u64::try_from(to.saturating_duration_since(from).as_nanos().max(1)).unwrap_or(u64::MAX)
        };
        let mut last = Map::new();
        last.put("done", Some(true));
        last.put("done_reason", Some(reason));
        last.put("total_duration", Some(nanos(self.began, end)));
        last.put("load_duration", Some(0));
        last.put("prompt_eval_count", self.usage.input_tokens);
        last.put("prompt_eval_duration", Some(nanos(self.began, first)));
        last.put("eval_count", self.usage.output_tokens);
        last.put("eval_duration", Some(nanos(first, end)));
        self.line(Map::new(), last, out);
    }
}

/// The time of a line: RFC 3339 with microseconds.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
