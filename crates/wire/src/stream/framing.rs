//! Cuts an answer into events: server-sent events, lines of JSON, AWS's binary event stream, or one event for all of it.

use bytes::Bytes;
use memchr::memchr;

use crate::stream::binary;
use crate::stream::sse::{EventBuffer, EventTooLong, FrameError, SseEvent, SseScanner};

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
    Lines(LineScanner),
    Binary(binary::BinaryScanner),
    /// The body, which is pushed at once.
    Whole(Option<Bytes>),
}

impl Framing {
    /// Holds at most `max` bytes.
    pub fn decoder(self, max: usize) -> FrameDecoder {
        match self {
            Framing::Sse => FrameDecoder::Sse(SseScanner::new(max)),
            Framing::Lines => FrameDecoder::Lines(LineScanner::new(max)),
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

// A bounded decoder for lines of JSON (NDJSON): cuts bytes into lines and keeps the original bytes, line ends
// included.
//
// A line ends in LF. A CR before it stays: it is white space to JSON. A line within one read is not copied. Not a
// validator: the dialect reads the line.

/// Cuts a byte stream into lines.
#[derive(Debug)]
pub struct LineScanner(EventBuffer);

impl LineScanner {
    /// A scanner that fails on a line of more than `max` bytes.
    pub fn new(max: usize) -> LineScanner {
        LineScanner(EventBuffer::new(max))
    }

    /// Adds the next read. All events of the previous read must have been taken with [`LineScanner::next_event`].
    pub fn push(&mut self, bytes: Bytes) {
        self.0.push(bytes);
    }

    /// The next complete line, or none until more is pushed. A blank line is an event too.
    ///
    /// # Errors
    /// [`EventTooLong`] if a line exceeds the bound. The scanner is then unusable.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        let end = memchr(b'\n', &self.0.chunk).map(|at| at + 1);
        self.0.take(end)
    }

    /// The rest after the end of the stream: a last line without its end.
    pub fn finish(&mut self) -> Option<SseEvent> {
        self.0.finish()
    }
}

#[cfg(test)]
mod lines_tests {
    use super::*;

    const MAX: usize = 1 << 20;

    fn scan(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut scanner = LineScanner::new(MAX);
        let mut lines = Vec::new();
        for chunk in chunks {
            scanner.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = scanner.next_event().unwrap() {
                lines.push(event.raw.to_vec());
            }
        }
        lines.extend(scanner.finish().map(|event| event.raw.to_vec()));
        lines
    }

    #[test]
    fn finds_the_same_lines_however_the_bytes_are_split() {
        let stream = "{\"a\":1}\n\r\n{\"b\":\"\u{e9}\u{1F600}\"}\r\n\n{\"c\":3}".as_bytes();
        let expected: Vec<Vec<u8>> = ["{\"a\":1}\n", "\r\n", "{\"b\":\"\u{e9}\u{1F600}\"}\r\n", "\n", "{\"c\":3}"]
            .map(|line| line.as_bytes().to_vec())
            .into();
        assert_eq!(scan(&[stream]), expected);
        assert_eq!(scan(&stream.chunks(1).collect::<Vec<_>>()), expected, "byte by byte");
        for first in 0..=stream.len() {
            let (a, rest) = stream.split_at(first);
            for second in 0..=rest.len() {
                let (b, c) = rest.split_at(second);
                assert_eq!(scan(&[a, b, c]), expected, "split at {first} and {second} behind it");
            }
        }
    }

    #[test]
    fn a_line_in_one_read_is_not_copied() {
        let chunk = Bytes::from_static(b"{}\n{}\n");
        let mut scanner = LineScanner::new(MAX);
        scanner.push(chunk.clone());
        assert_eq!(scanner.next_event().unwrap().unwrap().raw.as_ptr(), chunk.as_ptr());
        assert!(scanner.next_event().unwrap().is_some());
        assert_eq!((scanner.next_event(), scanner.finish()), (Ok(None), None));
    }

    #[test]
    fn an_endless_line_is_an_error_at_the_bound() {
        let mut scanner = LineScanner::new(1000);
        let mut seen = 0;
        let error = loop {
            scanner.push(Bytes::from_static(&[b'x'; 64]));
            seen += 64;
            match scanner.next_event() {
                Ok(event) => assert_eq!(event, None),
                Err(error) => break error,
            }
        };
        assert_eq!(error, EventTooLong::Bytes { max: 1000 });
        assert!(seen <= 1064, "{seen} bytes were held");
        let mut scanner = LineScanner::new(4);
        scanner.push(Bytes::from_static(b"abc\nabcd\n"));
        assert_eq!(scanner.next_event().unwrap().unwrap().raw, "abc\n");
        assert_eq!(scanner.next_event(), Err(EventTooLong::Bytes { max: 4 }));
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_split_and_passes_every_byte(
            chunks in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(b"\r\n{\"a \xF0".to_vec()), 0..20), 0..20),
        ) {
            let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let whole = chunks.concat();
            let expected: Vec<Vec<u8>> = whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            proptest::prop_assert_eq!(scan(&slices), expected);
        }
    }
}
