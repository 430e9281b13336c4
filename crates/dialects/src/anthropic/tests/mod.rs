//! Tables and round trips: events, answers, outgoing requests, incoming requests.

mod answers;
mod events;
mod incoming;
mod options;
mod refused;
mod requests;
mod shared;
mod wholes;

use crate::SurfaceFormat as _;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::*;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::{AnswerPiece, Conversation, InTurn, Losses, ReadPieces, WritePieces};
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::sse::SseScanner;

/// An event with its name, as the vendor sends it.
fn event(data: &str) -> SseEvent {
    let name = serde_json::from_str::<Value>(data).ok();
    let name = name.as_ref().and_then(|data| data["type"].as_str()).unwrap_or("message");
    SseEvent { raw: Bytes::from(format!("event: {name}\ndata: {data}\n\n")) }
}

fn events(stream: &[u8]) -> Vec<SseEvent> {
    let mut scanner = SseScanner::new(1 << 20);
    scanner.push(Bytes::copy_from_slice(stream));
    let mut events = Vec::new();
    while let Some(event) = scanner.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!(scanner.finish(), None, "the last event is closed");
    events
}

/// The data of the events.
fn data(stream: &[u8]) -> Vec<Value> {
    let value = |event: &SseEvent| {
        let fields = event.fields();
        let value: Value = serde_json::from_slice(&fields.data.unwrap()).unwrap();
        assert_eq!(fields.name, value["type"].as_str().map(str::as_bytes), "an event is named by its type");
        value
    };
    events(stream).iter().map(value).collect()
}

fn pieces(events: &[SseEvent]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (AnthropicReader::default(), Vec::new());
    events.iter().for_each(|event| reader.read(event, &mut pieces));
    photofinish_wire::conversation::sample::without_ends(pieces)
}

fn written(pieces: &[AnswerPiece]) -> BytesMut {
    let (mut writer, mut out) = (InTurn::new(AnthropicWriter::new("asked")), BytesMut::new());
    photofinish_wire::conversation::sample::with_ends(pieces)
        .into_iter()
        .for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    out
}

fn assembled(events: &[SseEvent]) -> Value {
    let mut growing = Surface::Messages.growing();
    assert!(events.iter().all(|event| growing.add(event)));
    serde_json::from_slice(&growing.finish().unwrap().body).unwrap()
}

fn conversation_of(body: &Value) -> Result<Conversation, Invalid> {
    conversation(body.to_string().as_bytes())
}

/// The request for a model, and its losses, those of meaning first.
fn request_for(model: &str, conversation: &Conversation) -> (Value, Vec<String>, bool) {
    let mut losses = Losses::default();
    let options = TranslationOptions::of_model(Dialect::Anthropic, model);
    let body = request(conversation, &options, &mut losses);
    (body, losses.names().map(str::to_owned).collect(), losses.keeps_settings())
}

/// A request with these members and the required ones.
fn body(members: Value) -> Value {
    let mut body = json!({ "model": "m", "max_tokens": 100, "messages": [{ "role": "user", "content": "x" }] });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A request with one message.
fn content(role: &str, blocks: Value) -> Value {
    body(json!({ "messages": [{ "role": role, "content": blocks }] }))
}
