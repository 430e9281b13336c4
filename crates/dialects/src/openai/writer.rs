//! Writes pieces as a chat stream.
//!
//! Reasoning is `reasoning_content`. Signatures and encrypted thoughts are complete entries of `reasoning_details`, so
//! that a client that sends its messages back returns them to their vendor. A call's signature is where Gemini's OpenAI
//! form has it, an image where OpenRouter has it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, BytesMut};
use serde_json::Value;

use crate::openai::ChunkNames;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::outgoing::new_call_id;
use photofinish_wire::conversation::signature::{SignatureOwner, shown};
use photofinish_wire::conversation::{AnswerPiece, Citation, FinishReason, PARAGRAPH, WritePieces};
use photofinish_wire::json::values::{PutMember, json};

/// Writes one stream.
pub struct OpenAiWriter {
    id: Option<String>,
    model: String,
    created: u64,
    include_usage: bool,
    /// The client lists `functions`: a call is the message's `function_call`, and there is only one.
    legacy_functions: bool,
    /// The beginning of every event, up to its choices. Empty until the first event.
    head: String,
    choices: Vec<ChoiceWriter>,
    usage: Option<Usage>,
}

#[derive(Default)]
struct ChoiceWriter {
    index: u32,
    /// Calls by number.
    calls: BTreeMap<u32, WrittenCall>,
    /// Texts of reasoning blocks that may still be signed.
    thoughts: Vec<(u32, String)>,
    details: u32,
    images: u32,
    refused: bool,
    finished: bool,
}

struct WrittenCall {
    custom: bool,
    has_arguments: bool,
}

impl OpenAiWriter {
    /// `model` is used until the upstream names its own.
    pub fn new(model: &str, include_usage: bool, legacy_functions: bool) -> OpenAiWriter {
        OpenAiWriter {
            id: None,
            model: model.to_owned(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            include_usage,
            legacy_functions,
            head: String::new(),
            choices: Vec::new(),
            usage: None,
        }
    }

    /// Continues an answer that was begun under these names.
    pub fn behind(names: ChunkNames, include_usage: bool, legacy_functions: bool) -> OpenAiWriter {
        OpenAiWriter {
            id: Some(names.id),
            created: names.created,
            // The role was already sent.
            choices: vec![ChoiceWriter::default()],
            ..OpenAiWriter::new(&names.model, include_usage, legacy_functions)
        }
    }
}

impl WritePieces for OpenAiWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        match piece {
            AnswerPiece::Start { id, model } => self.start(id, model),
            AnswerPiece::Text { index, text } => self.text(index, "content", &text, out),
            AnswerPiece::NextMessage { index } => self.text(index, "content", PARAGRAPH, out),
            AnswerPiece::Refusal { index, text } => {
                self.text(index, "refusal", &text, out);
                self.choice(index, out).refused = true;
            }
            AnswerPiece::Thinking { index, block, text } => {
                self.text(index, "reasoning_content", &text, out);
                self.choice(index, out).thought(block, &text);
            }
            AnswerPiece::Signature { index, block, signature } => {
                let text = self.choice(index, out).signed(block);
                let signature = shown(SignatureOwner::OpenAi, &signature);
                self.detail(index, json!({ "type": "reasoning.text", "text": text, "signature": signature }), out);
            }
            AnswerPiece::Redacted { index, data, .. } => {
                let data = shown(SignatureOwner::OpenAi, &data);
                self.detail(index, json!({ "type": "reasoning.encrypted", "data": data }), out);
            }
            AnswerPiece::Call { index, call, id, name, custom, signature } => {
                let legacy = self.legacy_functions;
                let calls = &mut self.choice(index, out).calls;
                if legacy && !calls.is_empty() {
                    return;
                }
                calls.insert(call, WrittenCall { custom, has_arguments: false });
                let delta = match legacy {
                    true => json!({ "function_call": { "name": name, "arguments": "" } }),
                    false => call_delta(call, id, &name, custom, signature),
                };
                self.delta(index, &delta, out);
            }
            AnswerPiece::Arguments { index, call, text } => self.arguments(index, call, &text, out),
            AnswerPiece::CallEnd { index, call } => self.call_end(index, call, out),
            AnswerPiece::Citation { index, citation } => {
                let note = json!({ "type": "url_citation", "url_citation": citation_json(&citation) });
                self.delta(index, &json!({ "annotations": [note] }), out);
            }
            AnswerPiece::Audio { index, id, data, transcript } => self.audio(index, id, data, transcript, out),
            AnswerPiece::Image { index, media_type, data } => {
                let choice = self.choice(index, out);
                let number = choice.images;
                choice.images += 1;
                let url = format!("data:{media_type};base64,{data}");
                let image = json!({ "index": number, "type": "image_url", "image_url": { "url": url } });
                self.delta(index, &json!({ "images": [image] }), out);
            }
            AnswerPiece::Finish { index, finish } => self.finish(index, &finish, out),
            AnswerPiece::Usage(usage) => self.usage = Some(usage.or(self.usage.unwrap_or_default())),
            // Chat has no place for a vendor's own tools.
            AnswerPiece::Other(_) => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        // An upstream may end well without a finish reason.
        if self.choices.iter().all(|choice| !choice.finished) {
            let open: Vec<u32> = self.choices.iter().map(|choice| choice.index).collect();
            open.into_iter().for_each(|index| self.finish(index, &FinishReason::Stop, out));
        }
        if let Some(usage) = self.usage.filter(|_| self.include_usage) {
            out.put_slice(self.head().as_bytes());
            out.put_slice(format!("],\"usage\":{}}}\n\n", usage_json(&usage)).as_bytes());
        }
        out.put_slice(b"data: [DONE]\n\n");
    }
}

impl OpenAiWriter {
    /// The id never changes after the first event. The model may become known late.
    fn start(&mut self, id: Option<String>, model: Option<String>) {
        if let Some(id) = id.filter(|id| !id.is_empty() && self.id.is_none()) {
            self.id = Some(if id.starts_with("chatcmpl") { id } else { format!("chatcmpl-{id}") });
        }
        if let Some(model) = model.filter(|model| !model.is_empty() && *model != self.model) {
            self.model = model;
            self.head.clear();
        }
    }

    fn head(&mut self) -> &str {
        if self.head.is_empty() {
            let id = self.id.get_or_insert_with(|| format!("chatcmpl-{}", uuid::Uuid::now_v7().simple()));
            self.head = format!(
                "data: {{\"id\":{},\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{},\"choices\":[",
                Value::from(id.as_str()),
                self.created,
                Value::from(self.model.as_str()),
            );
        }
        &self.head
    }

    /// The choice of this index. A new choice begins with its role.
    fn choice(&mut self, index: u32, out: &mut BytesMut) -> &mut ChoiceWriter {
        let at = match self.choices.iter().position(|choice| choice.index == index) {
            Some(at) => at,
            None => {
                self.choices.push(ChoiceWriter { index, ..ChoiceWriter::default() });
                const ROLE: &[u8] = br#"{"role":"assistant","content":"","refusal":null}"#;
                self.event(index, |out| out.put_slice(ROLE), None, out);
                self.choices.len() - 1
            }
        };
        &mut self.choices[at]
    }

    fn event(
        &mut self,
        index: u32,
        delta: impl FnOnce(&mut BytesMut),
        finish: Option<(&str, Option<&str>)>,
        out: &mut BytesMut,
    ) {
        out.put_slice(self.head().as_bytes());
        out.put_slice(b"{\"index\":");
        out.put_slice(index.to_string().as_bytes());
        out.put_slice(b",\"delta\":");
        delta(out);
        out.put_slice(b",\"logprobs\":null,\"finish_reason\":");
        match finish {
            None => out.put_slice(b"null"),
            Some((reason, native)) => {
                put_string(reason, out);
                if let Some(native) = native {
                    out.put_slice(b",\"native_finish_reason\":");
                    put_string(native, out);
                }
            }
        }
        out.put_slice(if self.include_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" });
    }

    fn delta(&mut self, index: u32, delta: &Value, out: &mut BytesMut) {
        self.choice(index, out);
        self.event(index, |out| out.put_slice(delta.to_string().as_bytes()), None, out);
    }

    /// The most frequent event: a delta of one string.
    fn text(&mut self, index: u32, name: &'static str, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        self.choice(index, out);
        let delta = |out: &mut BytesMut| {
            out.put_slice(b"{\"");
            out.put_slice(name.as_bytes());
            out.put_slice(b"\":");
            put_string(text, out);
            out.put_u8(b'}');
        };
        self.event(index, delta, None, out);
    }

    fn detail(&mut self, index: u32, mut detail: Value, out: &mut BytesMut) {
        let choice = self.choice(index, out);
        detail["index"] = Value::from(choice.details);
        choice.details += 1;
        self.delta(index, &json!({ "reasoning_details": [detail] }), out);
    }

    fn arguments(&mut self, index: u32, call: u32, text: &str, out: &mut BytesMut) {
        // Arguments of a call that never began are dropped.
        let Some(begun) = self.choice(index, out).calls.get_mut(&call).filter(|_| !text.is_empty()) else { return };
        begun.has_arguments = true;
        let (kind, name) = if begun.custom { ("custom", "input") } else { ("function", "arguments") };
        let (head, tail) = match self.legacy_functions {
            true => (r#"{"function_call":{"arguments":"#.to_owned(), "}}"),
            false => (format!(r#"{{"tool_calls":[{{"index":{call},"{kind}":{{"{name}":"#), "}}]}"),
        };
        let delta = |out: &mut BytesMut| {
            out.put_slice(head.as_bytes());
            put_string(text, out);
            out.put_slice(tail.as_bytes());
        };
        self.event(index, delta, None, out);
    }

    /// A call without arguments gets an empty object, because clients parse it.
    fn call_end(&mut self, index: u32, call: u32, out: &mut BytesMut) {
        let written = self.choice(index, out).calls.get(&call);
        if written.is_some_and(|call| !call.has_arguments && !call.custom) {
            self.arguments(index, call, "{}", out);
        }
    }

    fn audio(&mut self, index: u32, id: Option<String>, data: String, transcript: String, out: &mut BytesMut) {
        let mut audio = serde_json::Map::new();
        audio.put("id", id);
        audio.put("data", (!data.is_empty()).then_some(data));
        audio.put("transcript", (!transcript.is_empty()).then_some(transcript));
        self.delta(index, &json!({ "audio": audio }), out);
    }

    fn finish(&mut self, index: u32, finish: &FinishReason, out: &mut BytesMut) {
        let choice = self.choice(index, out);
        if std::mem::replace(&mut choice.finished, true) {
            return;
        }
        let (refused, called) = (choice.refused, !choice.calls.is_empty());
        let of_call = if self.legacy_functions { "function_call" } else { "tool_calls" };
        let (reason, native) = match finish {
            // Some vendors report `stop` for a call.
            FinishReason::Stop if called => (of_call, None),
            FinishReason::ToolCalls if called => (of_call, None),
            // A client would wait for calls that never come.
            FinishReason::ToolCalls => ("stop", None),
            FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::Pause => ("stop", None),
            FinishReason::Length => ("length", None),
            // A refusal with words is an answer. Without words the answer was cut.
            FinishReason::Refusal if refused => ("stop", None),
            FinishReason::Refusal | FinishReason::Filtered => ("content_filter", None),
            // Clients accept only the vendor's own reasons, and this one must not look good.
            FinishReason::Other(name) => ("length", Some(name.as_str())),
        };
        self.event(index, |out| out.put_slice(b"{}"), Some((reason, native)), out);
    }
}

impl ChoiceWriter {
    fn thought(&mut self, block: u32, text: &str) {
        match self.thoughts.iter_mut().find(|(number, _)| *number == block) {
            Some((_, thought)) => thought.push_str(text),
            // Earlier blocks are signed by now, or never will be.
            None => self.thoughts = vec![(block, text.to_owned())],
        }
    }

    /// The text that a signature is for.
    fn signed(&mut self, block: u32) -> String {
        let at = self.thoughts.iter().position(|(number, _)| *number == block);
        at.map(|at| self.thoughts.swap_remove(at).1).unwrap_or_default()
    }
}

fn call_delta(call: u32, id: String, name: &str, custom: bool, signature: Option<String>) -> Value {
    let id = if id.is_empty() { new_call_id() } else { id };
    let mut value = match custom {
        true => json!({ "index": call, "id": id, "type": "custom", "custom": { "name": name, "input": "" } }),
        false => json!({ "index": call, "id": id, "type": "function", "function": { "name": name, "arguments": "" } }),
    };
    let signature = signature.map(|signature| json!({ "google": { "thought_signature": signature } }));
    value.put("extra_content", signature);
    json!({ "tool_calls": [value] })
}

/// OpenAI's `url_citation`. Of a source that belongs to no place of the text, the place is empty.
pub fn citation_json(citation: &Citation) -> Value {
    let (from, to) = citation.span.unwrap_or_default();
    let mut json = json!({ "url": citation.url, "title": citation.title.as_deref().unwrap_or_default() });
    json.put("start_index", Some(from));
    json.put("end_index", Some(to));
    json.put("content", citation.quote.as_deref());
    json
}

/// The `usage` object of chunks and whole answers.
pub fn usage_json(usage: &Usage) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    let mut json = json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
    });
    let (cached, reasoning) = (usage.cached_input_tokens, usage.reasoning_tokens);
    let written = usage.cache_creation_tokens.filter(|written| *written > 0);
    let mut details = serde_json::Map::new();
    details.put("cached_tokens", cached);
    details.put("cache_write_tokens", written);
    json.put("prompt_tokens_details", (!details.is_empty()).then_some(details));
    json.put("completion_tokens_details", reasoning.map(|reasoning| json!({ "reasoning_tokens": reasoning })));
    json.put("cost", usage.cost_usd);
    json
}

fn put_string(text: &str, out: &mut BytesMut) {
    // Cannot fail: a string is valid JSON, and the buffer grows.
    serde_json::to_writer(out.writer(), text).ok();
}
