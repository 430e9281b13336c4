//! Cuts a stream into events: server-sent events, lines of JSON, or AWS's binary event stream.

use bytes::Bytes;

use super::binary;
use super::lines;
use super::sse::{FrameError, SseEvent, SseScanner};

/// The format of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`
    Sse,
    /// One JSON text per line.
    Lines,
    /// `application/vnd.amazon.eventstream`
    Binary,
}

/// Cuts a byte stream into events. Each event keeps its original bytes.
#[derive(Debug)]
pub enum FrameDecoder {
    Sse(SseScanner),
    Lines(lines::LineScanner),
    Binary(binary::BinaryScanner),
}

impl Framing {
    /// Holds at most `max` bytes.
    pub fn decoder(self, max: usize) -> FrameDecoder {
        match self {
            Framing::Sse => FrameDecoder::Sse(SseScanner::new(max)),
            Framing::Lines => FrameDecoder::Lines(lines::LineScanner::new(max)),
            Framing::Binary => FrameDecoder::Binary(binary::BinaryScanner::new(max)),
        }
    }

    /// The media type of a stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream; charset=utf-8",
            Framing::Lines => "application/x-ndjson",
            Framing::Binary => "application/vnd.amazon.eventstream",
        }
    }

    /// The value of the `accept` header.
    pub fn accept(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream, application/json",
            Framing::Lines => "application/x-ndjson, application/json",
            Framing::Binary => "application/vnd.amazon.eventstream, application/json",
        }
    }
}

impl FrameDecoder {
    /// Adds received bytes. All events of the previous bytes must have been taken.
    pub fn push(&mut self, bytes: Bytes) {
        match self {
            FrameDecoder::Sse(scanner) => scanner.push(bytes),
            FrameDecoder::Lines(scanner) => scanner.push(bytes),
            FrameDecoder::Binary(scanner) => scanner.push(bytes),
        }
    }

    /// The next complete event, or none until more is pushed.
    ///
    /// # Errors
    /// If an event exceeds the bound or is damaged. The decoder is then unusable.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, FrameError> {
        match self {
            FrameDecoder::Sse(scanner) => Ok(scanner.next_event()?),
            FrameDecoder::Lines(scanner) => Ok(scanner.next_event()?),
            FrameDecoder::Binary(scanner) => scanner.next_event(),
        }
    }

    /// The rest after the end of the stream, if it may count as an event.
    pub fn finish(&mut self) -> Option<SseEvent> {
        match self {
            FrameDecoder::Sse(scanner) => scanner.finish(),
            FrameDecoder::Lines(scanner) => scanner.finish(),
            FrameDecoder::Binary(_) => None,
        }
    }
}
