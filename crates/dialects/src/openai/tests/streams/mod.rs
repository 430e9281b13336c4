//! Chat streams: `reading` into pieces and `writing` from pieces.

mod reading;
mod writing;

use crate::SurfaceFormat as _;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::super::{OpenAiReader, OpenAiWriter};
use photofinish_wire::Surface;
use photofinish_wire::conversation::*;
use photofinish_wire::stream::sse::{SseEvent, SseScanner};

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
}

fn pieces(chunks: &[Value]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (OpenAiReader::default(), Vec::new());
    chunks.iter().for_each(|chunk| reader.read(&event(&chunk.to_string()), &mut pieces));
    reader.read(&event("[DONE]"), &mut pieces);
    photofinish_wire::conversation::sample::without_ends(pieces)
}

/// The pieces of one choice's deltas.
fn of_deltas(deltas: &[Value]) -> Vec<AnswerPiece> {
    let chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({ "choices": [{ "delta": delta, "index": 0 }] })).collect();
    pieces(&chunks)
}

fn events(bytes: &[u8]) -> Vec<SseEvent> {
    let mut scanner = SseScanner::new(1 << 20);
    scanner.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| scanner.next_event().unwrap()).collect()
}

fn written(pieces: &[AnswerPiece], include_usage: bool) -> BytesMut {
    let mut writer = OpenAiWriter::new("asked-for", include_usage, false);
    let mut out = BytesMut::new();
    photofinish_wire::conversation::sample::with_ends(pieces)
        .into_iter()
        .for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    out
}

fn whole(bytes: &[u8]) -> Value {
    let mut growing = Surface::Chat.growing();
    assert!(events(bytes).iter().all(|event| growing.add(event)));
    serde_json::from_slice(&growing.finish().unwrap().body).unwrap()
}

fn text(text: &str) -> AnswerPiece {
    AnswerPiece::Text { index: 0, text: text.into() }
}

fn thinking(block: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Thinking { index: 0, block, text: text.into() }
}

fn signature(block: u32, signature: &str) -> AnswerPiece {
    AnswerPiece::Signature { index: 0, block, signature: signature.into() }
}

fn call(call: u32, id: &str, name: &str) -> AnswerPiece {
    AnswerPiece::Call { index: 0, call, id: id.into(), name: name.into(), custom: false, signature: None }
}

/// A call like [`call`], with its distinguishing members.
fn marked_call(custom: bool, signature: Option<&str>) -> AnswerPiece {
    let (id, name) = ("a".into(), "f".into());
    AnswerPiece::Call { index: 0, call: 0, id, name, custom, signature: signature.map(Into::into) }
}

fn arguments(call: u32, text: &str) -> AnswerPiece {
    AnswerPiece::Arguments { index: 0, call, text: text.into() }
}

fn finish(finish: FinishReason) -> AnswerPiece {
    AnswerPiece::Finish { index: 0, finish }
}
