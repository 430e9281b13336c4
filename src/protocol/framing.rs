//! How a stream is cut into events: server-sent events, lines of JSON, or the binary event stream of AWS.

use bytes::Bytes;

use super::binary;
use super::lines;
use super::sse::{FrameError, SseEvent, SseScanner};

/// What stands between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`
    Sse,
    /// One JSON text a line.
    Lines,
    /// `application/vnd.amazon.eventstream`
    Binary,
}

/// Cuts a byte stream into events, each with the bytes that it came in.
#[derive(Debug)]
pub enum FrameDecoder {
    Sse(SseScanner),
    Lines(lines::LineScanner),
    Binary(binary::BinaryScanner),
}

impl Framing {
    /// Holds back at most `max` bytes.
    pub fn decoder(self, max: usize) -> FrameDecoder {
        match self {
            Framing::Sse => FrameDecoder::Sse(SseScanner::new(max)),
            Framing::Lines => FrameDecoder::Lines(lines::LineScanner::new(max)),
            Framing::Binary => FrameDecoder::Binary(binary::BinaryScanner::new(max)),
        }
    }

    /// What is asked for in `accept`.
    pub fn accept(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream, application/json",
            Framing::Lines => "application/x-ndjson, application/json",
            Framing::Binary => "application/vnd.amazon.eventstream, application/json",
        }
    }
}

impl FrameDecoder {
    /// Bytes that were read. What was pushed before must have been taken.
    pub fn push(&mut self, bytes: Bytes) {
        match self {
            FrameDecoder::Sse(scanner) => scanner.push(bytes),
            FrameDecoder::Lines(scanner) => scanner.push(bytes),
            FrameDecoder::Binary(scanner) => scanner.push(bytes),
        }
    }

    /// The next whole event, or none until more is pushed.
    ///
    /// # Errors
    /// Once an event exceeds the bound, or is damaged; the cutter is of no use after it.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, FrameError> {
        match self {
            FrameDecoder::Sse(scanner) => Ok(scanner.next_event()?),
            FrameDecoder::Lines(scanner) => Ok(scanner.next_event()?),
            FrameDecoder::Binary(scanner) => scanner.next_event(),
        }
    }

    /// What is left when the stream has ended, if it may count as an event.
    pub fn finish(&mut self) -> Option<SseEvent> {
        match self {
            FrameDecoder::Sse(scanner) => scanner.finish(),
            FrameDecoder::Lines(scanner) => scanner.finish(),
            FrameDecoder::Binary(_) => None,
        }
    }
}
