//! Reads a number of stream events and does nothing else: for counting instructions and allocations with valgrind.
//!
//! `events COUNT event|16k scan|read|follow|translate`: the number of events; one event or 16 KiB per read; and the
//! work. `scan` only splits. `read` parses each event in full. `follow` works as for a stream: it parses an event in
//! full unless it is like the previous one. `translate` follows and translates, here to chat itself, so that only
//! reading and writing of the parts count. Subtract two runs with different counts, so that the start of the process
//! does not count (`docs/benchmarks.md`).

#[path = "../benches/sample/mod.rs"]
mod sample;

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::hint::black_box;
use std::io::{self, Write};

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use photofinish_dialects::openai;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::sse::SseScanner;
use photofinish_wire::stream::template::Template;
use photofinish_wire::{Dialect, Surface};

/// Text events of one stream: a usual answer.
const TOKENS: usize = 400;
const EVENT_MAX: usize = 1 << 20;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, cut, depth] = arguments.as_slice() else {
        return Err(io::Error::other("wanted: COUNT event|16k scan|read|follow|translate"));
    };
    let count: usize = count.parse().map_err(io::Error::other)?;
    let events = sample::stream(TOKENS);
    let reads = if cut == "16k" { sample::reads(&events, 16 << 10) } else { events };
    let (mut seen, mut payloads) = (0, 0);
    while seen < count {
        let (events, with_payload) = read_stream(&reads, depth);
        seen += events;
        payloads += with_payload;
    }
    writeln!(io::stdout(), "{seen} events, {payloads} with payload")
}

fn read_stream(reads: &[Bytes], depth: &str) -> (usize, usize) {
    let mut template: Option<Template> = None;
    let mut scanner = SseScanner::new(EVENT_MAX);
    let (mut reader, mut writer) =
        (Dialect::OpenAi.reader(), Surface::Chat.writer("model", true, false, false, &Arc::default()));
    let (mut pieces, mut out) = (Vec::new(), BytesMut::new());
    let (translates, scans) = (depth == "translate", depth == "scan");
    let follows = translates || depth == "follow";
    let (mut events, mut payloads) = (0, 0);
    for read in reads {
        scanner.push(read.clone());
        while let Ok(Some(event)) = scanner.next_event() {
            events += 1;
            if translates {
                reader.read(&event, &mut pieces);
                pieces.drain(..).for_each(|piece| writer.write(piece, &mut out));
                out.clear();
            }
            if follows && template.as_ref().is_some_and(|template| template.fits(&event).is_some()) {
                payloads += 1;
            } else if !scans
                && let Frame::Chunk(chunk) = openai::read(&event)
                && chunk.payload.is_some()
            {
                template = Template::learn(&event, &chunk);
                payloads += 1;
            }
            black_box(event);
        }
    }
    (events, payloads)
}
