//! The events of an answer, by `eventsource-stream` behind a guard. Not for the gateway's own path: see `protocol::sse`.
//!
//! The crate panics on a byte-order mark, copies all it holds once a line, loses what follows invalid UTF-8, and bounds
//! nothing. So the guard hands it whole lines of valid UTF-8, one at a time, and bounds an event.

use std::pin::Pin;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;

/// Bytes of one event, as the gateway bounds it too.
const EVENT_MAX: usize = 8 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why an answer cannot be read to its end.
#[derive(Debug)]
pub enum Unread {
    /// The answer itself is broken.
    Broken(String),
    Transport(axum::Error),
}

/// Whole lines of valid UTF-8.
type GuardedLines = Pin<Box<dyn Stream<Item = Result<String, Unread>> + Send>>;

/// The data of each event, in order. It ends with the body, or with the first error.
pub struct AnswerEvents(EventStream<GuardedLines>);

impl AnswerEvents {
    pub fn new(body: Body) -> AnswerEvents {
        AnswerEvents(EventStream::new(Box::pin(stream::unfold(Lines::new(body), Lines::next))))
    }

    /// The next event's data. It may be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Option<Result<String, Unread>> {
        let event = self.0.next().await?;
        Some(event.map(|event| event.data).map_err(|error| match error {
            EventStreamError::Transport(error) => error,
            EventStreamError::Utf8(error) => Unread::Broken(error.to_string()),
            EventStreamError::Parser(error) => Unread::Broken(error.to_string()),
        }))
    }
}

/// Cuts a body into lines.
struct Lines {
    body: Body,
    /// What was read and not yet handed out.
    held: BytesMut,
    /// How much of it has no line feed in it.
    searched: usize,
    /// Bytes of the event so far.
    event: usize,
    at_start: bool,
    ended: bool,
}

impl Lines {
    fn new(body: Body) -> Lines {
        Lines { body, held: BytesMut::new(), searched: 0, event: 0, at_start: true, ended: false }
    }

    /// The next line with its line feed; at the end of the body whatever is left.
    async fn next(mut self) -> Option<(Result<String, Unread>, Lines)> {
        loop {
            let found = memchr::memchr(b'\n', &self.held[self.searched..]);
            if let Some(place) = found {
                let length = self.searched + place + 1;
                return self.line(length);
            }
            self.searched = self.held.len();
            if self.event + self.held.len() > EVENT_MAX {
                return self.end(Unread::Broken(format!("an event of more than {EVENT_MAX} bytes")));
            }
            if self.ended {
                let length = self.held.len();
                return if length == 0 { None } else { self.line(length) };
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.held.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return self.end(Unread::Transport(error)),
                None => self.ended = true,
            }
        }
    }

    fn line(mut self, length: usize) -> Option<(Result<String, Unread>, Lines)> {
        let line: Bytes = self.held.split_to(length).freeze();
        self.searched = 0;
        self.event = if line.trim_ascii_end().is_empty() { 0 } else { self.event + length };
        if self.event > EVENT_MAX {
            return self.end(Unread::Broken(format!("an event of more than {EVENT_MAX} bytes")));
        }
        let is_first = std::mem::replace(&mut self.at_start, false);
        let line = if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        let line = String::from_utf8_lossy(line).into_owned();
        Some((Ok(line), self))
    }

    /// Nothing comes after an error.
    fn end(mut self, error: Unread) -> Option<(Result<String, Unread>, Lines)> {
        (self.ended, self.searched) = (true, 0);
        self.held.clear();
        self.event = 0;
        Some((Err(error), self))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn read(chunks: Vec<Vec<u8>>) -> (Vec<String>, Option<Unread>) {
        let chunks = chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
        let mut events = AnswerEvents::new(Body::from_stream(stream::iter(chunks)));
        let mut data = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => data.push(event),
                Err(error) => return (data, Some(error)),
            }
        }
        (data, None)
    }

    #[tokio::test]
    async fn events_are_the_same_for_any_split() {
        let text = "\u{feff}data: Grüße\n\n: ping\n\ndata: a\r\ndata: b\r\n\r\ndata: last\n\ndata: unfinished";
        for split in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(split);
            let (data, error) = read(vec![a.to_vec(), b.to_vec()]).await;
            assert_eq!((data, error.is_none()), (vec!["Grüße".into(), "a\nb".into(), "last".into()], true), "{split}");
        }
    }

    #[tokio::test]
    async fn invalid_bytes_cost_their_own_characters_only() {
        let (data, error) = read(vec![b"data: a\xFFb\n\ndata: c\n\n".to_vec()]).await;
        assert_eq!((data, error.is_none()), (vec!["a\u{fffd}b".to_owned(), "c".to_owned()], true));
    }

    #[tokio::test]
    async fn an_event_without_end_is_an_error_and_costs_linear_time() {
        let line = vec![vec![b'x'; 64 << 10]; 200];
        let lines = vec![b"data: x\n".repeat(1_000); 2_000];
        for chunks in [line, lines] {
            let (data, error) = read(chunks).await;
            assert!(data.is_empty() && matches!(error, Some(Unread::Broken(why)) if why.contains("more than")));
        }
    }
}
