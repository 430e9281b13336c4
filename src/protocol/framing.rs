//! How a stream is cut into events: server-sent events, lines of JSON, or the binary event stream of AWS.

use bytes::Bytes;

use super::binary;
use super::lines;
use super::sse::{Event, Scanner, Uncut};

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
pub enum Cutter {
    Sse(Scanner),
    Lines(lines::Scanner),
    Binary(binary::Scanner),
}

impl Framing {
    /// Holds back at most `max` bytes.
    pub fn cutter(self, max: usize) -> Cutter {
        match self {
            Framing::Sse => Cutter::Sse(Scanner::new(max)),
            Framing::Lines => Cutter::Lines(lines::Scanner::new(max)),
            Framing::Binary => Cutter::Binary(binary::Scanner::new(max)),
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

impl Cutter {
    /// Bytes that were read. What was pushed before must have been taken.
    pub fn push(&mut self, bytes: Bytes) {
        match self {
            Cutter::Sse(scanner) => scanner.push(bytes),
            Cutter::Lines(scanner) => scanner.push(bytes),
            Cutter::Binary(scanner) => scanner.push(bytes),
        }
    }

    /// The next whole event, or none until more is pushed.
    ///
    /// # Errors
    /// Once an event exceeds the bound, or is damaged; the cutter is of no use after it.
    pub fn next_event(&mut self) -> Result<Option<Event>, Uncut> {
        match self {
            Cutter::Sse(scanner) => Ok(scanner.next_event()?),
            Cutter::Lines(scanner) => Ok(scanner.next_event()?),
            Cutter::Binary(scanner) => scanner.next_event(),
        }
    }

    /// What is left when the stream has ended, if it may count as an event.
    pub fn finish(&mut self) -> Option<Event> {
        match self {
            Cutter::Sse(scanner) => scanner.finish(),
            Cutter::Lines(scanner) => scanner.finish(),
            Cutter::Binary(_) => None,
        }
    }
}
