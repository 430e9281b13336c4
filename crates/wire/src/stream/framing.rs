//! Cuts an answer into events: server-sent events, lines of JSON, AWS's binary event stream, or one event for all of it.

use bytes::Bytes;

use super::sse::{FrameError, SseEvent, SseScanner};
use super::{binary, lines};

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`
    Sse,
    /// One JSON text per line.
    Lines,
    /// `application/vnd.amazon.eventstream`
    Binary,
    /// Not a stream: the whole body is one event.
    Whole,
}

/// Cuts a byte stream into events. Each event keeps its original bytes.
#[derive(Debug)]
pub enum FrameDecoder {
    Sse(SseScanner),
    Lines(lines::LineScanner),
    Binary(binary::BinaryScanner),
    /// The body, which is pushed at once.
    Whole(Option<Bytes>),
}

impl Framing {
    /// Holds at most `max` bytes.
    pub fn decoder(self, max: usize) -> FrameDecoder {
        match self {
            Framing::Sse => FrameDecoder::Sse(SseScanner::new(max)),
            Framing::Lines => FrameDecoder::Lines(lines::LineScanner::new(max)),
            Framing::Binary => FrameDecoder::Binary(binary::BinaryScanner::new(max)),
            Framing::Whole => FrameDecoder::Whole(None),
        }
    }

    /// The media type of a stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream; charset=utf-8",
            Framing::Lines => "application/x-ndjson",
            Framing::Binary => "application/vnd.amazon.eventstream",
            Framing::Whole => "application/json",
        }
    }

    /// The value of the `accept` header.
    pub fn accept(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream, application/json",
            Framing::Lines => "application/x-ndjson, application/json",
            Framing::Binary => "application/vnd.amazon.eventstream, application/json",
            Framing::Whole => "*/*",
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
            FrameDecoder::Whole(body) => *body = Some(bytes),
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
            FrameDecoder::Whole(body) => Ok(body.take().map(|raw| SseEvent { raw })),
        }
    }

    /// The rest after the end of the stream, if it may count as an event.
    pub fn finish(&mut self) -> Option<SseEvent> {
        match self {
            FrameDecoder::Sse(scanner) => scanner.finish(),
            FrameDecoder::Lines(scanner) => scanner.finish(),
            FrameDecoder::Binary(_) | FrameDecoder::Whole(_) => None,
        }
    }
}
