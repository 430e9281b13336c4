//! Reads a Gemini stream into pieces.

use std::borrow::Cow;

use serde_json::Value;

use super::frame::reason_of_number;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::outgoing::new_call_id;
use photofinish_wire::conversation::signature::{SignatureOwner, tag};
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, Citation, FinishReason, Fragment, ReadPieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::HalfCharacters;
use photofinish_wire::json::values::{has_error, list, text};
use photofinish_wire::stream::sse::SseEvent;

/// Candidates of Gemini that are read. A request asks for one.
const CANDIDATES_MAX: usize = 64;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct GeminiReader {
    started: bool,
    usage: Usage,
    /// By `index`.
    candidates: Vec<(u32, CandidateReader)>,
    calls: AnswerCalls,
    halves: HalfCharacters,
}

/// The state of one candidate.
#[derive(Debug, Default)]
struct CandidateReader {
    /// The open block of reasoning, or the next one.
    block: u32,
    /// The last part was a thought.
    thinking: bool,
    has_calls: bool,
    /// Addresses that were cited.
    cited: Vec<Citation>,
}

impl ReadPieces for GeminiReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let fields = event.fields();
        let data = fields.data.unwrap_or(Cow::Borrowed(&event.raw));
        let Ok(chunk) = parse(&self.halves.joined(&data)) else { return };
        if !chunk.is_object() || has_error(chunk.get("error")) {
            return;
        }
        self.start(&chunk, pieces);
        // First, because some surfaces report the prompt's size at the start.
        self.usage(&chunk, pieces);
        for candidate in list(&chunk, "candidates") {
            let index = candidate.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok());
            let index = index.unwrap_or(0);
            if let Some(at) = self.candidate(index) {
                self.candidates[at].1.read(index, candidate, &mut self.calls, pieces);
            }
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

impl GeminiReader {
    fn start(&mut self, chunk: &Value, pieces: &mut Vec<AnswerPiece>) {
        let (id, model) = (text(chunk, "responseId"), text(chunk, "modelVersion"));
        if !self.started && (id.is_some() || model.is_some()) {
            self.started = true;
            pieces.push(AnswerPiece::Start { id: id.map(str::to_owned), model: model.map(str::to_owned) });
        }
    }

    fn usage(&mut self, chunk: &Value, pieces: &mut Vec<AnswerPiece>) {
        let Some(metadata) = chunk.get("usageMetadata") else { return };
        let before = self.usage;
        self.usage.add(&metadata.to_string());
        if self.usage != before {
            pieces.push(AnswerPiece::Usage(self.usage));
        }
    }

    fn candidate(&mut self, index: u32) -> Option<usize> {
        let position = self.candidates.iter().position(|(at, _)| *at == index);
        if position.is_none() && self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push((index, CandidateReader::default()));
            return Some(self.candidates.len() - 1);
        }
        position
    }
}

impl CandidateReader {
    fn read(&mut self, index: u32, candidate: &Value, calls: &mut AnswerCalls, pieces: &mut Vec<AnswerPiece>) {
        for part in candidate.get("content").into_iter().flat_map(|content| list(content, "parts")) {
            self.part(index, part, calls, pieces);
        }
        self.citations(index, candidate, pieces);
        let name = "urlContextMetadata";
        if candidate.get(name).and_then(Value::as_object).is_some_and(|members| !members.is_empty()) {
            pieces.push(AnswerPiece::Other(name.to_owned()));
        }
        if let Some(finish) = self.finish(candidate.get("finishReason")) {
            calls.finish(index, &finish, pieces);
            pieces.push(AnswerPiece::Finish { index, finish });
        }
    }

    /// Sources, and the places that rely on them. Both may come again with every chunk.
    fn citations(&mut self, index: u32, candidate: &Value, pieces: &mut Vec<AnswerPiece>) {
        let grounding = candidate.get("groundingMetadata").unwrap_or(&Value::Null);
        let sources: Vec<&Value> = list(grounding, "groundingChunks").filter_map(|chunk| chunk.get("web")).collect();
        let cited = |source: &Value, uri: &str| {
            let title = text(source, "title").map(str::to_owned);
            Some(Citation { url: text(source, uri)?.to_owned(), title, ..Citation::default() })
        };
        // Vertex AI has another name for the list.
        let metadata = candidate.get("citationMetadata").unwrap_or(&Value::Null);
        let places = list(metadata, "citationSources").chain(list(metadata, "citations"));
        let found = sources.into_iter().filter_map(|source| cited(source, "uri"));
        for citation in found.chain(places.filter_map(|source| cited(source, "uri"))) {
            if self.cited.len() < CITED_MAX && !self.cited.contains(&citation) {
                self.cited.push(citation.clone());
                pieces.push(AnswerPiece::Citation { index, citation });
            }
        }
    }

    fn part(&mut self, index: u32, part: &Value, calls: &mut AnswerCalls, pieces: &mut Vec<AnswerPiece>) {
        let thought = part.get("thought") == Some(&Value::Bool(true));
        let signature = text(part, "thoughtSignature");
        if let Some(call) = part.get("functionCall") {
            return self.call(index, call, signature, calls, pieces);
        }
        if let Some(data) = part.get("inlineData").filter(|_| !thought) {
            self.end_block();
            pieces.push(generated(index, data));
        } else if let Some(name) = OTHERS.into_iter().find(|name| part.get(*name).is_some()) {
            // Its signature is useless without the part.
            self.end_block();
            pieces.push(AnswerPiece::Other(name.to_owned()));
            return;
        }
        if let Some(text) = text(part, "text").map(str::to_owned) {
            if thought {
                self.thinking = true;
                pieces.push(AnswerPiece::Thinking { index, block: self.block, text });
            } else {
                self.end_block();
                pieces.push(AnswerPiece::Text { index, text });
            }
        }
        if let Some(signature) = signature {
            // A signature without a thought becomes a block without text.
            if !thought {
                self.end_block();
            }
            let signature = tag(SignatureOwner::Gemini, signature);
            pieces.push(AnswerPiece::Signature { index, block: self.block, signature });
            self.thinking = true;
            self.end_block();
        }
    }

    /// Calls come whole. Older models and Vertex AI send no id.
    fn call(
        &mut self,
        index: u32,
        call: &Value,
        signature: Option<&str>,
        calls: &mut AnswerCalls,
        pieces: &mut Vec<AnswerPiece>,
    ) {
        let name = text(call, "name").unwrap_or_default().to_owned();
        if name.is_empty() && call.get("args").is_none() {
            return;
        }
        self.end_block();
        self.has_calls = true;
        let id = text(call, "id").map_or_else(new_call_id, str::to_owned);
        let arguments = call.get("args").filter(|args| !args.is_null()).map_or("{}".to_owned(), Value::to_string);
        let signature = signature.map(|signature| tag(SignatureOwner::Gemini, signature));
        calls.add_whole(index, Fragment { id, name, arguments, signature, ..Fragment::default() }, pieces);
    }

    fn finish(&self, reason: Option<&Value>) -> Option<FinishReason> {
        let number;
        let reason = match reason? {
            Value::String(name) => name.as_str(),
            Value::Number(value) => {
                number = value.to_string();
                reason_of_number(&number)
            }
            _ => return None,
        };
        Some(match FinishReason::of(reason) {
            _ if matches!(reason, "" | "0" | "FINISH_REASON_UNSPECIFIED") => return None,
            FinishReason::Stop if self.has_calls => FinishReason::ToolCalls,
            finish => finish,
        })
    }

    fn end_block(&mut self) {
        self.block += u32::from(std::mem::take(&mut self.thinking));
    }
}

/// Sources of a candidate that are kept apart.
const CITED_MAX: usize = 256;

/// Parts of Google's own tools, and parts that an answer has no place for.
const OTHERS: [&str; 6] =
    ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "fileData", "inlineData"];

fn generated(index: u32, data: &Value) -> AnswerPiece {
    let media_type = text(data, "mimeType").unwrap_or_default().to_owned();
    let data = text(data, "data").unwrap_or_default().to_owned();
    match media_type.split('/').next() {
        Some("audio") => AnswerPiece::Audio { index, id: None, data, transcript: String::new() },
        Some("image") => AnswerPiece::Image { index, media_type, data },
        _ => AnswerPiece::Other("inlineData".to_owned()),
    }
}
