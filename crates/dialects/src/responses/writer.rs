//! Writes pieces as a Responses stream: every event that the vendor's own clients need, with numbers and ids.
//!
//! Calls stay open to the end, because pieces of several calls may alternate. Messages and reasoning end when something
//! else begins.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::openai::citation_json;
use crate::responses::conversation::{CallForm, Namespaces};
use crate::responses::{ErrorShape, SseEvent};
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{
    SignatureOwner, UNSIGNED, append, of_call, of_redacted, of_summary, own, shown,
};
use photofinish_wire::conversation::{AnswerPiece, Citation, FinishReason, WritePieces};
use photofinish_wire::json::numbers::object;
use photofinish_wire::json::values::{PutMember, json};

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
    /// Citations that wait for a text.
    cited: Vec<Citation>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    /// The message with the audio, once there is any. It stays open to the end.
    sound: Option<OpenSound>,
    /// The short form of the conversation so far. None: it is an answer.
    summary: Option<String>,
}

/// The open item, if it is not a call.
#[derive(Debug)]
enum OpenOutput {
    Nothing,
    Message { index: usize, id: String, content: Vec<Value>, part: Option<(OutputText, String)>, notes: Vec<Value> },
    Reasoning { index: usize, id: String, block: u32, text: String, signature: String },
}

impl WritePieces for ResponsesWriter {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        if let AnswerPiece::Start { model, .. } = &piece {
            if !self.started {
                self.envelope.name(model.as_deref());
            }
            return self.start(out);
        }
        self.start(out);
        if let Some(summary) = &mut self.summary
            && !matches!(piece, AnswerPiece::Finish { .. } | AnswerPiece::Usage(_))
        {
            if let AnswerPiece::Text { index: 0, text } = piece {
                summary.push_str(&text);
            }
            return;
        }
        match piece {
            AnswerPiece::Text { index: 0, text } => self.say(OutputText::Text, &text, out),
            AnswerPiece::Refusal { index: 0, text } => self.say(OutputText::Refusal, &text, out),
            AnswerPiece::NextMessage { index: 0 } => self.close(Status::Completed, out),
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
            AnswerPiece::Citation { index: 0, citation } => self.cite(citation, out),
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
        if let Some(text) = self.summary.take().filter(|text| !text.trim().is_empty()) {
            let (index, id) = self.reserve("cmp");
            let item = json!({ "id": id, "type": "compaction", "encrypted_content": of_summary(text.trim()) });
            self.added(index, item.clone(), out);
            self.done(index, item, out);
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
            cited: Vec::new(),
            usage: None,
            finish: None,
            sound: None,
            summary: None,
        }
    }

    /// The same for an answer that is the short form of its conversation: one item.
    pub fn compacting(self, compacts: bool) -> ResponsesWriter {
        ResponsesWriter { summary: compacts.then(String::new), ..self }
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
            self.open = OpenOutput::Message { index, id, content: Vec::new(), part: None, notes: Vec::new() };
        }
        let other = matches!(&self.open, OpenOutput::Message { part: Some((before, _)), .. } if *before != said);
        if other {
            self.close_part(out);
        }
        let OpenOutput::Message { index, id, content, part, .. } = &mut self.open else { return };
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
        std::mem::take(&mut self.cited).into_iter().for_each(|citation| self.cite(citation, out));
    }

    /// Only a text has citations.
    fn cite(&mut self, citation: Citation, out: &mut BytesMut) {
        let is_text = matches!(&self.open, OpenOutput::Message { part: Some((OutputText::Text, _)), .. });
        let OpenOutput::Message { index, id, content, notes, .. } = &mut self.open else {
            return self.cited.push(citation);
        };
        if !is_text {
            return self.cited.push(citation);
        }
        let mut note = citation_json(&citation);
        note["type"] = Value::from("url_citation");
        let members = json!({
            "item_id": id, "output_index": index, "content_index": content.len(), "annotation_index": notes.len(),
            "annotation": note,
        });
        notes.push(note);
        self.emit("response.output_text.annotation.added", members, out);
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
        let form = self.namespaces.form(&name, custom);
        let (index, id) = self.reserve(match form {
            CallForm::Search => "tsc",
            CallForm::Shell => "lsh",
            CallForm::Custom => "ctc",
            CallForm::Function => "fc",
        });
        let call_id = if call_id.is_empty() { self.envelope.item_id("call", index) } else { call_id };
        let (namespace, name) = self.namespaces.split(name);
        let call = OutputCall { index, id, call_id, namespace, name, arguments: String::new(), form };
        self.added(index, call.item("in_progress"), out);
        self.calls.insert(number, call);
    }

    fn arguments(&mut self, number: u32, text: &str, out: &mut BytesMut) {
        let Some(call) = self.calls.get_mut(&number).filter(|_| !text.is_empty()) else {
            return;
        };
        call.arguments.push_str(text);
        if call.form.is_whole() {
            return;
        }
        let (index, id, custom) = (call.index, call.id.clone(), call.form == CallForm::Custom);
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
        let OpenOutput::Message { index, id, content, part, notes } = &mut self.open else { return };
        let Some((said, text)) = part.take() else { return };
        let at = content.len();
        let mut whole = part_of(said, &text);
        if !notes.is_empty() {
            whole["annotations"] = Value::Array(std::mem::take(notes));
        }
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
        if call.form.is_whole() {
            return self.done(call.index, call.item(status.as_str()), out);
        }
        // Clients parse the arguments, so a call without any gets an empty object.
        let custom = call.form == CallForm::Custom;
        if call.arguments.is_empty() && !custom {
            call.arguments.push_str("{}");
            self.delta("response.function_call_arguments.delta", &call.id, call.index, "", "{}", out);
        }
        let mut members = json!({ "item_id": call.id, "output_index": call.index });
        let kind = if custom {
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

// Makes a writer that continues a response that another upstream began.

/// An open message of another upstream.
#[derive(Debug)]
pub struct OpenMessage {
    /// `output_index`
    pub index: usize,
    pub id: String,
    /// Finished parts.
    pub content: Vec<Value>,
    /// The text of the open part, if any.
    pub part: Option<String>,
}

impl ResponsesWriter {
    /// Continues a response: `response` from its first event, `number` of its last event, and the finished items by
    /// index.
    pub fn behind(
        response: &Map<String, Value>,
        number: u64,
        output: Vec<Value>,
        open: Option<OpenMessage>,
    ) -> ResponsesWriter {
        let open = match open {
            None => OpenOutput::Nothing,
            Some(OpenMessage { index, id, content, part }) => OpenOutput::Message {
                index,
                id,
                content,
                part: part.map(|text| (OutputText::Text, text)),
                notes: Vec::new(),
            },
        };
        ResponsesWriter {
            namespaces: Namespaces::of(response),
            envelope: Envelope::behind(response),
            numbered: Numbered::behind(number),
            started: true,
            output,
            open,
            ..ResponsesWriter::new("", Arc::default())
        }
    }
}

// Writes audio as a part of a message of its own. The vendor's events for audio name no item, so it stays open to the end.

/// The message with the audio.
#[derive(Debug)]
struct OpenSound {
    /// `output_index`
    index: usize,
    /// The item's id.
    id: String,
    /// Base64, so far.
    data: String,
    transcript: String,
}

impl OpenSound {
    /// Writes the begin of the message.
    pub fn open(index: usize, id: String, numbered: &mut Numbered, out: &mut BytesMut) -> OpenSound {
        let sound = OpenSound { index, id, data: String::new(), transcript: String::new() };
        let item =
            json!({ "id": sound.id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] });
        numbered.emit("response.output_item.added", json!({ "output_index": index, "item": item }), out);
        sound.part("response.content_part.added", sound_part("", ""), numbered, out);
        sound
    }

    pub fn more(&mut self, data: &str, transcript: &str, numbered: &mut Numbered, out: &mut BytesMut) {
        for (delta, kind) in [(data, "response.audio.delta"), (transcript, "response.audio.transcript.delta")] {
            if !delta.is_empty() {
                numbered.emit(kind, json!({ "delta": delta }), out);
            }
        }
        self.data.push_str(data);
        self.transcript.push_str(transcript);
    }

    /// Writes the end of the part, and returns the finished message with its `output_index`.
    pub fn close(self, numbered: &mut Numbered, out: &mut BytesMut) -> (usize, Value) {
        let ends = [(&self.data, "response.audio.done"), (&self.transcript, "response.audio.transcript.done")];
        for (_, kind) in ends.into_iter().filter(|(all, _)| !all.is_empty()) {
            numbered.emit(kind, json!({}), out);
        }
        let part = sound_part(&self.data, &self.transcript);
        self.part("response.content_part.done", part.clone(), numbered, out);
        let item = json!({
            "id": self.id, "type": "message", "status": "completed", "role": "assistant", "content": [part],
        });
        (self.index, item)
    }

    fn part(&self, kind: &str, part: Value, numbered: &mut Numbered, out: &mut BytesMut) {
        let place = json!({ "item_id": self.id, "output_index": self.index, "content_index": 0, "part": part });
        numbered.emit(kind, place, out);
    }
}

// The response object around the output, and the error events of a broken stream.

/// The constant parts of one answer.
#[derive(Debug)]
pub(super) struct Envelope {
    pub id: String,
    pub model: String,
    created: u64,
    /// The common part of item ids.
    base: String,
    /// Members of the request that an answer repeats.
    echo: Arc<Map<String, Value>>,
}

/// The state of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    /// Incomplete, with the reason.
    Incomplete(&'static str),
}

impl Status {
    pub fn of(finish: Option<&FinishReason>) -> Status {
        match finish {
            Some(FinishReason::Length) => Status::Incomplete("max_output_tokens"),
            // A refusal of another vendor is its filter, which cut the answer.
            Some(FinishReason::Filtered | FinishReason::Refusal) => Status::Incomplete("content_filter"),
            // The end is unknown, so it must not look good.
            Some(FinishReason::Other(_)) => Status::Incomplete("unknown"),
            Some(
                FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls | FinishReason::Pause,
            )
            | None => Status::Completed,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
            Status::Incomplete(_) => "incomplete",
        }
    }
}

impl Envelope {
    pub fn new(model: &str, echo: Arc<Map<String, Value>>) -> Envelope {
        let base = Uuid::now_v7().simple().to_string();
        Envelope { id: format!("resp_{base}"), model: model.to_owned(), created: now(), base, echo }
    }

    /// The envelope of a response that another upstream began, from one of its events.
    pub fn behind(response: &Map<String, Value>) -> Envelope {
        let text = |name: &str| response.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut echo = response.clone();
        OF_THE_ANSWER.iter().for_each(|name| drop(echo.shift_remove(*name)));
        Envelope {
            id: text("id"),
            model: text("model"),
            created: response.get("created_at").and_then(Value::as_f64).map_or_else(now, |at| at as u64),
            base: Uuid::now_v7().simple().to_string(),
            echo: Arc::new(echo),
        }
    }

    /// Takes the upstream's name of the model. Not its id: some servers give all answers one, and a client continues an answer
    /// by its id.
    pub fn name(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            model.clone_into(&mut self.model);
        }
    }

    /// The id of the item at this index: `msg_...`
    pub fn item_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}{index:04x}", self.base)
    }

    /// The response object. Members that the request did not set have their defaults.
    pub fn response(&self, status: Status, output: Vec<Value>, usage: Option<&Usage>) -> Value {
        let reason = match status {
            Status::Incomplete(reason) => json!({ "reason": reason }),
            _ => Value::Null,
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status.as_str(),
            "background": false, "completed_at": (status == Status::Completed).then(now), "error": null,
            "incomplete_details": reason, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
            "model": self.model, "output": output, "parallel_tool_calls": true, "previous_response_id": null,
            "prompt_cache_key": null, "reasoning": { "effort": null, "summary": null }, "safety_identifier": null,
            "service_tier": "default", "store": false, "temperature": 1.0, "text": { "format": { "type": "text" } },
            "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
            "usage": usage.map(usage_of), "user": null, "metadata": {},
        });
        for (name, value) in self.echo.iter() {
            match (&mut response[name], value) {
                // Members of these that the caller omitted have defaults too.
                (Value::Object(whole), Value::Object(given)) if matches!(name.as_str(), "text" | "reasoning") => {
                    let given = given.iter().filter(|(_, value)| !value.is_null());
                    whole.extend(given.map(|(name, value)| (name.clone(), value.clone())));
                }
                (whole, value) => whole.clone_from(value),
            }
        }
        response
    }
}

/// Members of a response that describe the answer, not the request.
const OF_THE_ANSWER: [&str; 10] =
    ["id", "object", "created_at", "status", "completed_at", "error", "incomplete_details", "model", "output", "usage"];

fn usage_of(usage: &Usage) -> Value {
    let count = |count: Option<i64>| count.unwrap_or(0);
    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
    let (cached, written) = (count(usage.cached_input_tokens), count(usage.cache_creation_tokens));
    json!({
        "input_tokens": input,
        // The SDKs require both.
        "input_tokens_details": { "cached_tokens": cached, "cache_write_tokens": written },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": count(usage.reasoning_tokens) },
        "total_tokens": input.saturating_add(output),
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or(0)
}

/// The error events of a broken stream, if nothing of it is known.
pub fn error_event(error: &ErrorShape<'_>) -> Bytes {
    let mut out = BytesMut::new();
    let response = Envelope::new("", Arc::default()).response(Status::InProgress, Vec::new(), None);
    fail(response, &mut Numbered::default(), error, &mut out);
    out.freeze()
}

/// The error events of a broken stream of the vendor. `first` contains the response, and `last`, the last event with
/// data, the sequence number.
pub fn error_event_behind(first: &SseEvent, last: &SseEvent, error: &ErrorShape<'_>) -> Bytes {
    let member = |event: &SseEvent, name: &str| {
        let mut data = object(event.fields().data.as_deref()?)?;
        data.shift_remove(name)
    };
    let response = member(first, "response").filter(Value::is_object);
    let number = member(last, "sequence_number").and_then(|number| number.as_u64());
    let (Some(response), Some(number)) = (response, number) else { return error_event(error) };
    let mut out = BytesMut::new();
    fail(response, &mut Numbered::behind(number), error, &mut out);
    out.freeze()
}

/// Writes the error events of a broken stream: `error`, whose member of that name the official SDKs raise, and
/// `response.failed`, which Codex reads. The vendor sends both too. `response` must be an object.
pub(super) fn fail(mut response: Value, numbered: &mut Numbered, error: &ErrorShape<'_>, out: &mut BytesMut) {
    let mut said = json!({ "type": error.kind, "code": error.code, "message": error.message, "param": error.param });
    said.put("attempts", error.attempts.cloned());
    let raised = json!({ "code": error.code, "message": error.message, "param": error.param, "error": said });
    numbered.emit("error", raised, out);
    response["status"] = Value::from("failed");
    response["error"] = json!({ "code": code_of(error), "message": error.message });
    numbered.emit("response.failed", json!({ "response": response }), out);
}

/// Error codes that clients distinguish.
const CODES: [&str; 6] = [
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "context_length_exceeded",
    "insufficient_quota",
    "image_content_policy_violation",
];

/// The error as one of the vendor's few codes.
fn code_of<'a>(error: &ErrorShape<'a>) -> &'a str {
    match error.status {
        _ if CODES.contains(&error.code) => error.code,
        429 => "rate_limit_exceeded",
        400 | 413 | 422 => "invalid_prompt",
        _ => "server_error",
    }
}

// Writes the events of a Responses stream with their sequence numbers.

/// Writes events and counts them.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    /// Number of the next event.
    next: u64,
}

impl Numbered {
    /// Continues after an event with this number.
    pub fn behind(number: u64) -> Numbered {
        Numbered { next: number.saturating_add(1) }
    }

    /// Writes one event. `members` follow its type and number.
    pub fn emit(&mut self, kind: &str, members: Value, out: &mut BytesMut) {
        let mut event = json!({ "type": kind, "sequence_number": self.next });
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.next += 1;
        // Writing into memory cannot fail.
        let _ = write!(out, "event: {kind}\ndata: {event}\n\n");
    }

    /// Writes a delta. Written for every token, so it builds no JSON tree. `place` is JSON text of more members.
    pub fn delta(&mut self, kind: &str, id: &str, index: usize, place: &str, text: &str, out: &mut BytesMut) {
        let comma = if place.is_empty() { "" } else { "," };
        let number = self.next;
        self.next += 1;
        let text = Value::from(text);
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},\"item_id\":\"{id}\",\
             \"output_index\":{index},{place}{comma}\"delta\":{text}}}\n\n"
        );
    }
}

// Parts of a response's output: message parts and calls.

/// The kind of a message part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputText {
    Text,
    Refusal,
}

/// An open call.
#[derive(Debug)]
pub(super) struct OutputCall {
    /// `output_index`
    pub index: usize,
    /// The item's id.
    pub id: String,
    pub call_id: String,
    pub namespace: Option<String>,
    pub name: String,
    /// So far. Plain text for a custom tool.
    pub arguments: String,
    pub form: CallForm,
}

impl OutputCall {
    /// The item in its current state.
    pub fn item(&self, status: &str) -> Value {
        if self.form.is_whole() {
            let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_else(|_| json!({}));
            let mut item =
                json!({ "id": self.id, "type": "tool_search_call", "status": status, "call_id": self.call_id });
            if self.form == CallForm::Search {
                item["execution"] = Value::from("client");
                item["arguments"] = arguments;
                return item;
            }
            let mut action = json!({ "type": "exec" });
            if let (Some(action), Value::Object(said)) = (action.as_object_mut(), arguments) {
                action.extend(said.into_iter().filter(|(name, _)| name != "type"));
            }
            item["type"] = Value::from("local_shell_call");
            item["action"] = action;
            return item;
        }
        let (kind, name) =
            if self.form == CallForm::Custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let mut item = json!({
            "id": self.id, "type": kind, "status": status, "call_id": self.call_id, "name": self.name,
        });
        item[name] = Value::from(self.arguments.as_str());
        if let Some(namespace) = &self.namespace {
            item["namespace"] = Value::from(namespace.as_str());
        }
        item
    }
}

/// Generated audio, in Base64.
pub(super) fn sound_part(data: &str, transcript: &str) -> Value {
    json!({ "type": "output_audio", "data": data, "transcript": transcript })
}

pub(super) fn part_of(said: OutputText, text: &str) -> Value {
    match said {
        OutputText::Text => json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text }),
        OutputText::Refusal => json!({ "type": "refusal", "refusal": text }),
    }
}
