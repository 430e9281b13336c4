//! Writes pieces as a Responses stream: every event that the vendor's own clients need, with numbers and ids.
//!
//! Calls stay open to the end, because pieces of several calls may alternate. Messages and reasoning end when something
//! else begins.

mod behind;
mod sound;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use super::ErrorShape;
use super::envelope::{Envelope, Status, fail};
use super::namespaces::Namespaces;
use super::numbered::Numbered;
use super::output::{OutputCall, OutputText, part_of};
use crate::answer::usage::Usage;
use crate::json::values::json;
use crate::translate::signature::{SignatureOwner, UNSIGNED, append, of_call, of_redacted, own, shown};
use crate::translate::{AnswerPiece, FinishReason, WritePieces};

pub use behind::OpenMessage;
use sound::OpenSound;

/// Writes one stream.
#[derive(Debug)]
pub struct ResponsesWriter {
    envelope: Envelope,
    namespaces: Namespaces,
    numbered: Numbered,
    started: bool,
    /// By `output_index`. Null while the item is open.
    output: Vec<Value>,
    open: OpenOutput,
    /// Calls by number.
    calls: BTreeMap<u32, OutputCall>,
    /// Signatures received during a message. They follow it.
    late: Vec<String>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    /// The message with the audio, once there is any. It stays open to the end.
    sound: Option<OpenSound>,
}

/// The open item, if it is not a call.
#[derive(Debug)]
enum OpenOutput {
    Nothing,
    Message { index: usize, id: String, content: Vec<Value>, part: Option<(OutputText, String)> },
    Reasoning { index: usize, id: String, block: u32, text: String, signature: String },
}

impl WritePieces for ResponsesWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        if let AnswerPiece::Start { id, model } = &piece {
            if !self.started {
                self.envelope.name(id.as_deref(), model.as_deref());
            }
            return self.start(out);
        }
        self.start(out);
        match piece {
            AnswerPiece::Text { index: 0, text } => self.say(OutputText::Text, &text, out),
            AnswerPiece::Refusal { index: 0, text } => self.say(OutputText::Refusal, &text, out),
            AnswerPiece::Thinking { index: 0, block, text } => self.think(block, &text, out),
            AnswerPiece::Signature { index: 0, block, signature } => self.sign(block, &signature, out),
            AnswerPiece::Redacted { index: 0, data, .. } => {
                let own = own(SignatureOwner::Responses, &data).map(str::to_owned);
                self.sealed(&own.unwrap_or_else(|| of_redacted(&data)), out);
            }
            AnswerPiece::Call { index: 0, call, id, name, custom, signature } => {
                if let Some(signature) = signature {
                    self.sealed(&of_call(&signature), out);
                }
                self.call(call, id, name, custom, out);
            }
            AnswerPiece::Arguments { index: 0, call, text } => self.arguments(call, &text, out),
            AnswerPiece::Audio { index: 0, data, transcript, .. } => self.sound(&data, &transcript, out),
            AnswerPiece::Image { index: 0, media_type, data } => self.image(&media_type, &data, out),
            AnswerPiece::Finish { index: 0, finish } => self.finish = Some(finish),
            AnswerPiece::Usage(usage) => self.usage = Some(usage.or(self.usage.unwrap_or_default())),
            // There is only choice 0, and no form for output that only another vendor has.
            _ => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.start(out);
        let status = Status::of(self.finish.as_ref());
        self.close(status, out);
        for call in std::mem::take(&mut self.calls).into_values() {
            self.close_call(call, status, out);
        }
        if let Some(sound) = self.sound.take() {
            let (index, item) = sound.close(&mut self.numbered, out);
            self.done(index, item, out);
        }
        let output = std::mem::take(&mut self.output);
        let mut response = self.envelope.response(status, output, self.usage.as_ref());
        if let Some(FinishReason::Other(word)) = &self.finish {
            response["incomplete_details"] = json!({ "reason": word });
        }
        let kind = match status {
            Status::Incomplete(_) => "response.incomplete",
            _ => "response.completed",
        };
        self.emit(kind, json!({ "response": response }), out);
    }

    fn error_event(&mut self, error: &ErrorShape<'_>) -> Option<Bytes> {
        let mut out = BytesMut::new();
        let response = self.envelope.response(Status::InProgress, Vec::new(), self.usage.as_ref());
        fail(response, &mut self.numbered, error, &mut out);
        Some(out.freeze())
    }
}

impl ResponsesWriter {
    /// `model` is used until the upstream names its own. `echo` are members of the request that the answer repeats.
    pub fn new(model: &str, echo: Arc<Map<String, Value>>) -> ResponsesWriter {
        ResponsesWriter {
            namespaces: Namespaces::of(&echo),
            envelope: Envelope::new(model, echo),
            numbered: Numbered::default(),
            started: false,
            output: Vec::new(),
            open: OpenOutput::Nothing,
            calls: BTreeMap::new(),
            late: Vec::new(),
            usage: None,
            finish: None,
            sound: None,
        }
    }

    fn start(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let response = self.envelope.response(Status::InProgress, Vec::new(), None);
        self.emit("response.created", json!({ "response": response.clone() }), out);
        self.emit("response.in_progress", json!({ "response": response }), out);
    }

    fn say(&mut self, said: OutputText, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.open, OpenOutput::Message { .. }) {
            self.close(Status::Completed, out);
            let (index, id) = self.reserve("msg");
            let item =
                json!({ "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] });
            self.added(index, item, out);
            self.open = OpenOutput::Message { index, id, content: Vec::new(), part: None };
        }
        let other = matches!(&self.open, OpenOutput::Message { part: Some((before, _)), .. } if *before != said);
        if other {
            self.close_part(out);
        }
        let OpenOutput::Message { index, id, content, part } = &mut self.open else { return };
        let (index, id, at) = (*index, id.clone(), content.len());
        let begins = part.is_none();
        part.get_or_insert_with(|| (said, String::new())).1.push_str(text);
        if begins {
            let part = part_of(said, "");
            self.emit(
                "response.content_part.added",
                json!({ "item_id": id, "output_index": index, "content_index": at, "part": part }),
                out,
            );
        }
        match said {
            OutputText::Text => {
                let place = format_args!(r#""content_index":{at},"logprobs":[]"#).to_string();
                self.delta("response.output_text.delta", &id, index, &place, text, out);
            }
            OutputText::Refusal => {
                self.delta("response.refusal.delta", &id, index, &format!(r#""content_index":{at}"#), text, out);
            }
        }
    }

    fn think(&mut self, block: u32, text: &str, out: &mut BytesMut) {
        if text.is_empty() {
            return;
        }
        self.open_reasoning(block, out);
        let OpenOutput::Reasoning { index, id, text: so_far, .. } = &mut self.open else { return };
        let (index, id, begins) = (*index, id.clone(), so_far.is_empty());
        so_far.push_str(text);
        if begins {
            let part = json!({ "type": "summary_text", "text": "" });
            self.emit(
                "response.reasoning_summary_part.added",
                json!({ "item_id": id, "output_index": index, "summary_index": 0, "part": part }),
                out,
            );
        }
        self.delta("response.reasoning_summary_text.delta", &id, index, r#""summary_index":0"#, text, out);
    }

    /// A signature after its block becomes a separate item.
    fn sign(&mut self, block: u32, signature: &str, out: &mut BytesMut) {
        match &mut self.open {
            OpenOutput::Reasoning { block: at, signature: so_far, .. } if *at == block => append(so_far, signature),
            OpenOutput::Message { .. } => self.late.push(shown(SignatureOwner::Responses, signature).to_owned()),
            _ => self.sealed(shown(SignatureOwner::Responses, signature), out),
        }
    }

    fn open_reasoning(&mut self, block: u32, out: &mut BytesMut) {
        if matches!(&self.open, OpenOutput::Reasoning { block: at, .. } if *at == block) {
            return;
        }
        self.close(Status::Completed, out);
        let (index, id) = self.reserve("rs");
        self.added(index, json!({ "id": id, "type": "reasoning", "summary": [] }), out);
        self.open = OpenOutput::Reasoning { index, id, block, text: String::new(), signature: String::new() };
    }

    /// Reasoning without readable text.
    fn sealed(&mut self, encrypted: &str, out: &mut BytesMut) {
        self.close(Status::Completed, out);
        self.write_sealed(encrypted, out);
    }

    fn write_sealed(&mut self, encrypted: &str, out: &mut BytesMut) {
        let (index, id) = self.reserve("rs");
        let item = json!({ "id": id, "type": "reasoning", "summary": [], "encrypted_content": encrypted });
        self.added(index, item.clone(), out);
        self.done(index, item, out);
    }

    fn call(&mut self, number: u32, call_id: String, name: String, custom: bool, out: &mut BytesMut) {
        if self.calls.contains_key(&number) {
            return;
        }
        self.close(Status::Completed, out);
        let (index, id) = self.reserve(if custom { "ctc" } else { "fc" });
        let call_id = if call_id.is_empty() { self.envelope.item_id("call", index) } else { call_id };
        let (namespace, name) = self.namespaces.split(name);
        let call = OutputCall { index, id, call_id, namespace, name, arguments: String::new(), custom };
        self.added(index, call.item("in_progress"), out);
        self.calls.insert(number, call);
    }

    fn arguments(&mut self, number: u32, text: &str, out: &mut BytesMut) {
        let Some(call) = self.calls.get_mut(&number).filter(|_| !text.is_empty()) else {
            return;
        };
        call.arguments.push_str(text);
        let (index, id, custom) = (call.index, call.id.clone(), call.custom);
        let kind =
            if custom { "response.custom_tool_call_input.delta" } else { "response.function_call_arguments.delta" };
        self.delta(kind, &id, index, "", text, out);
    }

    fn sound(&mut self, data: &str, transcript: &str, out: &mut BytesMut) {
        if data.is_empty() && transcript.is_empty() {
            return;
        }
        if self.sound.is_none() {
            let (index, id) = self.reserve("msg");
            self.sound = Some(OpenSound::open(index, id, &mut self.numbered, out));
        }
        if let Some(sound) = &mut self.sound {
            sound.more(data, transcript, &mut self.numbered, out);
        }
    }

    fn image(&mut self, media_type: &str, data: &str, out: &mut BytesMut) {
        self.close(Status::Completed, out);
        let (index, id) = self.reserve("ig");
        let mut item = json!({ "id": id, "type": "image_generation_call", "status": "in_progress", "result": null });
        self.added(index, item.clone(), out);
        self.emit("response.image_generation_call.completed", json!({ "item_id": id, "output_index": index }), out);
        item["status"] = Value::from("completed");
        item["output_format"] = Value::from(media_type.strip_prefix("image/").unwrap_or(media_type));
        item["result"] = Value::from(data);
        self.done(index, item, out);
    }

    /// Ends the open item, if it is not a call.
    fn close(&mut self, status: Status, out: &mut BytesMut) {
        self.close_part(out);
        match std::mem::replace(&mut self.open, OpenOutput::Nothing) {
            OpenOutput::Nothing => {}
            OpenOutput::Message { index, id, content, .. } => {
                let item = json!({
                    "id": id, "type": "message", "status": status.as_str(), "role": "assistant", "content": content,
                });
                self.done(index, item, out);
            }
            OpenOutput::Reasoning { index, id, text, signature, .. } => {
                let part = json!({ "type": "summary_text", "text": text });
                let mut item = json!({ "id": id, "type": "reasoning", "summary": [] });
                if !text.is_empty() {
                    let place = json!({ "item_id": id, "output_index": index, "summary_index": 0 });
                    let with = |name: &str, value: Value| {
                        let mut members = place.clone();
                        members[name] = value;
                        members
                    };
                    self.emit("response.reasoning_summary_text.done", with("text", Value::from(text)), out);
                    self.emit("response.reasoning_summary_part.done", with("part", part.clone()), out);
                    item["summary"] = Value::Array(vec![part]);
                }
                // Without a signature the vendor would look up the item by its id.
                let encrypted =
                    if signature.is_empty() { UNSIGNED } else { shown(SignatureOwner::Responses, &signature) };
                item["encrypted_content"] = Value::from(encrypted);
                self.done(index, item, out);
            }
        }
        for encrypted in std::mem::take(&mut self.late) {
            self.write_sealed(&encrypted, out);
        }
    }

    fn close_part(&mut self, out: &mut BytesMut) {
        let OpenOutput::Message { index, id, content, part } = &mut self.open else { return };
        let Some((said, text)) = part.take() else { return };
        let at = content.len();
        let whole = part_of(said, &text);
        content.push(whole.clone());
        let place = json!({ "item_id": id, "output_index": index, "content_index": at });
        let (kind, name) = match said {
            OutputText::Text => ("response.output_text.done", "text"),
            OutputText::Refusal => ("response.refusal.done", "refusal"),
        };
        let mut members = place.clone();
        members[name] = Value::from(text);
        if said == OutputText::Text {
            members["logprobs"] = json!([]);
        }
        self.emit(kind, members, out);
        let mut members = place;
        members["part"] = whole;
        self.emit("response.content_part.done", members, out);
    }

    fn close_call(&mut self, mut call: OutputCall, status: Status, out: &mut BytesMut) {
        // Clients parse the arguments, so a call without any gets an empty object.
        if call.arguments.is_empty() && !call.custom {
            call.arguments.push_str("{}");
            self.delta("response.function_call_arguments.delta", &call.id, call.index, "", "{}", out);
        }
        let mut members = json!({ "item_id": call.id, "output_index": call.index });
        let kind = if call.custom {
            members["input"] = Value::from(call.arguments.as_str());
            "response.custom_tool_call_input.done"
        } else {
            members["name"] = Value::from(call.name.as_str());
            members["arguments"] = Value::from(call.arguments.as_str());
            "response.function_call_arguments.done"
        };
        self.emit(kind, members, out);
        self.done(call.index, call.item(status.as_str()), out);
    }

    /// Reserves an index in the output, and an id for it.
    fn reserve(&mut self, prefix: &str) -> (usize, String) {
        let index = self.output.len();
        self.output.push(Value::Null);
        (index, self.envelope.item_id(prefix, index))
    }

    fn added(&mut self, index: usize, item: Value, out: &mut BytesMut) {
        self.emit("response.output_item.added", json!({ "output_index": index, "item": item }), out);
    }

    fn done(&mut self, index: usize, item: Value, out: &mut BytesMut) {
        self.emit("response.output_item.done", json!({ "output_index": index, "item": item }), out);
        if let Some(place) = self.output.get_mut(index) {
            *place = item;
        }
    }

    fn emit(&mut self, kind: &str, members: Value, out: &mut BytesMut) {
        self.numbered.emit(kind, members, out);
    }

    fn delta(&mut self, kind: &str, id: &str, index: usize, place: &str, text: &str, out: &mut BytesMut) {
        self.numbered.delta(kind, id, index, place, text, out);
    }
}
