//! The events of an answer, by `eventsource-stream` behind a guard. Not for the gateway's own path: see `protocol::sse`.
//!
//! The crate panics on a byte-order mark, copies all it holds once a line, loses what follows invalid UTF-8, and bounds
//! nothing. So the guard hands it whole lines of valid UTF-8, one at a time, and bounds an event.

use std::io;
use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

/// Bytes of one event, as the gateway bounds it too.
const EVENT_MAX: usize = 64 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why an answer cannot be read to its end.
#[derive(Debug)]
pub enum Unread {
    /// The answer itself is broken.
    Broken(String),
    Transport(io::Error),
}

/// Whole lines of valid UTF-8.
type GuardedLines = Pin<Box<dyn Stream<Item = Result<String, Unread>> + Send>>;

/// The data of each event, in order. It ends with the body, or with the first error.
pub struct AnswerEvents {
    events: EventStream<GuardedLines>,
    ended: bool,
}

impl AnswerEvents {
    pub fn new(body: Body) -> AnswerEvents {
        let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), EVENT_MAX);
        let lines = FramedRead::new(StreamReader::new(body.into_data_stream().map_err(io::Error::other)), codec);
        let mut guard = EventGuard::default();
        AnswerEvents { events: EventStream::new(Box::pin(lines.map(move |line| guard.line(line)))), ended: false }
    }

    /// The next event's data. It may be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Option<Result<String, Unread>> {
        let event = if self.ended { None } else { self.events.next().await }?;
        self.ended = event.is_err();
        Some(event.map(|event| event.data).map_err(|error| match error {
            EventStreamError::Transport(error) => error,
            EventStreamError::Utf8(error) => Unread::Broken(error.to_string()),
            EventStreamError::Parser(error) => Unread::Broken(error.to_string()),
        }))
    }
}

#[derive(Default)]
struct EventGuard {
    /// Bytes of the event so far.
    event: usize,
    begun: bool,
}

impl EventGuard {
    /// The line as text, with its line feed.
    fn line(&mut self, line: Result<Bytes, AnyDelimiterCodecError>) -> Result<String, Unread> {
        let too_long = || Unread::Broken(format!("an event of more than {EVENT_MAX} bytes"));
        let line = line.map_err(|error| match error {
            AnyDelimiterCodecError::MaxChunkLengthExceeded => too_long(),
            AnyDelimiterCodecError::Io(error) => Unread::Transport(error),
        })?;
        self.event = if line.trim_ascii_end().is_empty() { 0 } else { self.event + line.len() };
        if self.event > EVENT_MAX {
            return Err(too_long());
        }
        let is_first = !std::mem::replace(&mut self.begun, true);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(&line);
        Ok((String::from_utf8_lossy(line) + "\n").into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

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
        let line = vec![vec![b'x'; 64 << 10]; 1_100];
        let lines = vec![[b"data: ".as_slice(), &[b'x'; 1_000], b"\n"].concat().repeat(10); 7_000];
        for chunks in [line, lines] {
            let (data, error) = read(chunks).await;
            assert!(data.is_empty() && matches!(error, Some(Unread::Broken(why)) if why.contains("more than")));
        }
    }
}
