//! Chat streams, read into pieces (`reading`) and written from them (`writing`).

mod reading;
mod writing;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::super::{Reader, Writer};
use crate::protocol::Surface;
use crate::protocol::neutral::*;
use crate::protocol::sse::{Event, Scanner};

fn event(data: &str) -> Event {
    Event { raw: Bytes::from(format!("data: {data}\n\n")) }
}

fn pieces(chunks: &[Value]) -> Vec<Piece> {
    let (mut reader, mut pieces) = (Reader::default(), Vec::new());
    chunks.iter().for_each(|chunk| reader.read(&event(&chunk.to_string()), &mut pieces));
    pieces
}

/// The pieces of one choice's deltas.
fn of_deltas(deltas: &[Value]) -> Vec<Piece> {
    let chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({ "choices": [{ "delta": delta, "index": 0 }] })).collect();
    pieces(&chunks)
}

fn events(bytes: &[u8]) -> Vec<Event> {
    let mut scanner = Scanner::new(1 << 20);
    scanner.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| scanner.next_event().unwrap()).collect()
}

fn written(pieces: &[Piece], include_usage: bool) -> BytesMut {
    let mut writer = Writer::new("asked-for", include_usage);
    let mut out = BytesMut::new();
    pieces.iter().for_each(|piece| writer.write(piece.clone(), &mut out));
    writer.end(&mut out);
    out
}

fn whole(bytes: &[u8]) -> Value {
    let mut assembly = Surface::Chat.assembly();
    assert!(events(bytes).iter().all(|event| assembly.add(event)));
    serde_json::from_slice(&assembly.finish().unwrap().body).unwrap()
}

fn text(text: &str) -> Piece {
    Piece::Text { index: 0, text: text.into() }
}

fn thinking(block: u32, text: &str) -> Piece {
    Piece::Thinking { index: 0, block, text: text.into() }
}

fn signature(block: u32, signature: &str) -> Piece {
    Piece::Signature { index: 0, block, signature: signature.into() }
}

fn call(call: u32, id: &str, name: &str) -> Piece {
    Piece::Call { index: 0, call, id: id.into(), name: name.into(), custom: false, signature: None }
}

fn arguments(call: u32, text: &str) -> Piece {
    Piece::Arguments { index: 0, call, text: text.into() }
}

fn finish(finish: Finish) -> Piece {
    Piece::Finish { index: 0, finish }
}
