//! Reads Ollama's lines into pieces.

use serde_json::Value;

use super::data;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::outgoing::new_call_id;
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, FinishReason, Fragment, ReadPieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::HalfCharacters;
use photofinish_wire::json::values::{has_error, list, text};
use photofinish_wire::stream::sse::SseEvent;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct OllamaReader {
    started: bool,
    /// The open block of reasoning, or the next one.
    block: u32,
    /// The last text was reasoning.
    thinking: bool,
    calls: AnswerCalls,
    halves: HalfCharacters,
}

impl ReadPieces for OllamaReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let data = data(event);
        let Ok(line) = parse(&self.halves.joined(data)) else { return };
        if !line.is_object() || has_error(line.get("error")) {
            return;
        }
        if let Some(model) = text(&line, "model").filter(|_| !self.started) {
            self.started = true;
            pieces.push(AnswerPiece::Start { id: None, model: Some(model.to_owned()) });
        }
        // `/api/generate` has these members at the top level.
        let message = line.get("message").unwrap_or(&line);
        self.thinking(message, pieces);
        self.text(text(message, "content").or(text(message, "response")), pieces);
        for call in list(message, "tool_calls") {
            self.call(call, pieces);
        }
        if line.get("done") == Some(&Value::Bool(true)) {
            self.done(&line, data, pieces);
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

impl OllamaReader {
    fn thinking(&mut self, message: &Value, pieces: &mut Vec<AnswerPiece>) {
        if let Some(thinking) = text(message, "thinking") {
            self.thinking = true;
            pieces.push(AnswerPiece::Thinking { index: 0, block: self.block, text: thinking.to_owned() });
        }
    }

    fn text(&mut self, text: Option<&str>, pieces: &mut Vec<AnswerPiece>) {
        if let Some(text) = text {
            self.end_block();
            pieces.push(AnswerPiece::Text { index: 0, text: text.to_owned() });
        }
    }

    /// Calls come whole. Older versions send no id.
    fn call(&mut self, call: &Value, pieces: &mut Vec<AnswerPiece>) {
        let Some(function) = call.get("function") else { return };
        let name = text(function, "name").unwrap_or_default();
        if name.is_empty() && function.get("arguments").is_none() {
            return;
        }
        self.end_block();
        let id = text(call, "id").map_or_else(new_call_id, str::to_owned);
        let arguments = match function.get("arguments") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(arguments) => arguments.to_string(),
        };
        let name = name.to_owned();
        self.calls.add_whole(0, Fragment { id, name, arguments, ..Fragment::default() }, pieces);
    }

    fn done(&mut self, line: &Value, data: &[u8], pieces: &mut Vec<AnswerPiece>) {
        let finish = match FinishReason::of(text(line, "done_reason").unwrap_or("stop")) {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        let usage = Usage::of(std::str::from_utf8(data).unwrap_or_default());
        if usage != Usage::default() {
            pieces.push(AnswerPiece::Usage(usage));
        }
        self.calls.finish(0, &finish, pieces);
        pieces.push(AnswerPiece::Finish { index: 0, finish });
    }

    fn end_block(&mut self) {
        self.block += u32::from(std::mem::take(&mut self.thinking));
    }
}
