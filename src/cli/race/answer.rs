//! The text of a streamed answer, event by event, and the message of an error.

use std::io;

use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::Value;

use photofinish_wire::stream::sse::SseScanner;

/// Bytes of one event, as the gateway bounds it too.
const EVENT_MAX: usize = 64 << 20;

/// Reads the events of one answer.
pub struct AnswerReader {
    body: Body,
    events: SseScanner,
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
        AnswerReader { body, events: SseScanner::new(EVENT_MAX), broke: None }
    }

    /// What the next event adds; none at the end. It may be dropped while it waits, and nothing is lost.
    ///
    /// # Errors
    /// When the body breaks off.
    pub async fn next(&mut self) -> io::Result<Option<PrintedPiece>> {
        loop {
            match self.events.next_event() {
                Ok(Some(event)) => {
                    let mut piece = PrintedPiece::default();
                    let data = event.fields().data.unwrap_or_default();
                    if let Ok(chunk) = serde_json::from_str(&String::from_utf8_lossy(&data)) {
                        self.take(&chunk, &mut piece);
                    }
                    return Ok(Some(piece));
                }
                Ok(None) => {}
                Err(_) => {
                    self.broke.get_or_insert_with(|| format!("an event of more than {EVENT_MAX} bytes"));
                    return Ok(None);
                }
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                self.events.push(data);
            }
        }
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

/// An answer that is no stream: the gateway's own, or the most telling one of an upstream.
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

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

    async fn read(chunks: Vec<Vec<u8>>) -> (String, Option<String>) {
        let chunks = chunks.into_iter().map(|chunk| Ok::<_, std::convert::Infallible>(Bytes::from(chunk)));
        let mut answer = AnswerReader::new(Body::from_stream(futures_util::stream::iter(chunks)));
        let mut text = String::new();
        while let Some(piece) = answer.next().await.unwrap() {
            text += &piece.text;
        }
        (text, answer.broke)
    }

    #[tokio::test]
    async fn invalid_bytes_cost_their_own_characters_only() {
        let answer = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xFFb\"}}]}\n\n".to_vec();
        assert_eq!(read(vec![answer]).await, ("a\u{fffd}b".to_owned(), None));
    }

    #[tokio::test]
    async fn an_event_without_end_is_an_error_and_costs_linear_time() {
        let line = vec![vec![b'x'; 64 << 10]; 1_100];
        let lines = vec![[b"data: ".as_slice(), &[b'x'; 1_000], b"\n"].concat().repeat(10); 7_000];
        for chunks in [line, lines] {
            let (text, broke) = read(chunks).await;
            assert!(text.is_empty() && broke.is_some_and(|why| why.contains("more than")));
        }
    }
}
