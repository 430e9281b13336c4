//! Every owner's signatures, calls and answers through every surface.

mod alike;
mod arrives;
mod echo;
mod foreign;
mod interleaved;
mod json_in_words;
mod kept;
mod matrix;
mod namespaces;
mod usage;

use bytes::Bytes;
use photofinish_dialects::responses;
use photofinish_wire::SseEvent;
use photofinish_wire::conversation::Conversation;
use photofinish_wire::stream::sse::SseScanner;
use serde_json::Value;

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
}

/// The data of each event.
fn datas(stream: &[u8]) -> Vec<Value> {
    let mut scanner = SseScanner::new(1 << 20);
    scanner.push(Bytes::copy_from_slice(stream));
    let events = std::iter::from_fn(|| scanner.next_event().unwrap());
    events.map(|event| serde_json::from_slice(&event.fields().data.unwrap()).unwrap()).collect()
}

/// The conversation of a request of the Responses API.
fn conversation_of(body: &Value) -> Conversation {
    responses::conversation(body.to_string().as_bytes()).unwrap()
}
