//! The text of a streamed answer, event by event, and the message of an error.

use std::io;
use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

/// Reads the events of one answer.
pub struct AnswerReader {
    events: AnswerEvents,
    /// The error that the answer itself reports after its first token.
    pub broke: Option<String>,
}

/// A piece of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PrintedPiece {
    pub text: String,
    /// What the model thinks before it answers.
    pub reasoning: String,
}

impl AnswerReader {
    pub fn new(body: Body) -> AnswerReader {
        AnswerReader { events: AnswerEvents::new(body), broke: None }
    }

    /// What the next event adds; none at the end. It may be dropped while it waits, and nothing is lost.
    ///
    /// # Errors
    /// When the body breaks off.
    pub async fn next(&mut self) -> io::Result<Option<PrintedPiece>> {
        let mut piece = PrintedPiece::default();
        match self.events.next().await {
            None => return Ok(None),
            Some(Err(Unread::Transport(error))) => return Err(error),
            Some(Err(Unread::Broken(why))) => {
                self.broke.get_or_insert(why);
            }
            Some(Ok(data)) => {
                if let Ok(chunk) = serde_json::from_str(&data) {
                    self.take(&chunk, &mut piece);
                }
            }
        }
        Ok(Some(piece))
    }

    fn take(&mut self, chunk: &Value, piece: &mut PrintedPiece) {
        if let Some(message) = chunk["error"]["message"].as_str() {
            self.broke.get_or_insert_with(|| message.to_owned());
        }
        let delta = &chunk["choices"][0]["delta"];
        let text = |names: [&str; 2]| names.map(|name| delta[name].as_str().unwrap_or_default()).concat();
        piece.text += &text(["content", "refusal"]);
        piece.reasoning += &text(["reasoning_content", "reasoning"]);
    }
}

/// An answer that is no stream: the gateway's own, or the most informative one of an upstream.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gateway's own begin with `photofinish_`.
    pub code: String,
    pub message: String,
    /// Each upstream with why it did not answer.
    pub attempts: Vec<String>,
    /// In the words of the last of them.
    last: Option<String>,
}

impl Refusal {
    /// Of any body that came with another status than 200.
    pub fn read(status: u16, body: &[u8]) -> Refusal {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &answer["error"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let message = text(&error["message"]);
        let attempts = error["attempts"].as_array().into_iter().flatten().map(|attempt| {
            let status = attempt["status"].as_u64().map(|status| format!(" ({status})")).unwrap_or_default();
            format!(
                "{}: {}{status}: {}",
                text(&attempt["upstream"]),
                text(&attempt["failure"]),
                text(&attempt["message"])
            )
        });
        Refusal {
            code: text(&error["code"]),
            message: if message.is_empty() { format!("the answer has the status {status}") } else { message },
            attempts: attempts.collect(),
            last: error["attempts"].as_array().and_then(|attempts| attempts.last()).map(|last| text(&last["message"])),
        }
    }

    /// What the last upstream said of itself, or else the gateway.
    pub fn of_the_last(self) -> String {
        self.last.filter(|said| !said.is_empty()).unwrap_or(self.message)
    }

    /// Nothing was tried: what was typed cannot be used.
    pub fn is_wrong_use(&self) -> bool {
        const CODES: [&str; 4] =
            ["photofinish_bad_header", "model_not_found", "photofinish_invalid_request", "photofinish_too_large"];
        CODES.contains(&self.code.as_str())
    }
}

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
    use super::*;

    #[tokio::test]
    async fn text_reasoning_and_errors_are_read_out_of_events() {
        let events = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
                      data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n: ping\n\n\
                      data: {\"choices\":[{\"delta\":{\"content\":\"Grüße\"}}]}\n\n\
                      data: {\"error\":{\"message\":\"it broke\"}}\n\ndata: [DONE]\n\n";
        let (mut answer, mut pieces) = (AnswerReader::new(Body::from(events)), PrintedPiece::default());
        while let Some(piece) = answer.next().await.unwrap() {
            pieces.text += &piece.text;
            pieces.reasoning += &piece.reasoning;
        }
        assert_eq!((pieces.text.as_str(), pieces.reasoning.as_str()), ("Grüße", "hm"));
        assert_eq!(answer.broke.as_deref(), Some("it broke"));
    }

    #[test]
    fn a_refusal_tells_why_of_each_upstream() {
        let body = r#"{"error":{"message":"all failed","code":"photofinish_all_failed","attempts":[
            {"upstream":"a/x","failure":"server_error","status":500,"message":"out of order"},
            {"upstream":"b/x","failure":"connect","status":null,"message":"refused"}]}}"#;
        let refusal = Refusal::read(502, body.as_bytes());
        assert_eq!(refusal.attempts, ["a/x: server_error (500): out of order", "b/x: connect: refused"]);
        assert!(!refusal.is_wrong_use() && refusal.message == "all failed");
        assert_eq!(Refusal::read(500, b"<html>").message, "the answer has the status 500");
        let wrong = r#"{"error":{"message":"header x: y","code":"photofinish_bad_header"}}"#;
        assert!(Refusal::read(400, wrong.as_bytes()).is_wrong_use());
    }
}

#[cfg(test)]
mod events_tests {
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
