//! What a fake provider does with one request, step by step.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::dialect::{self, Dialect, Voice, chunk_json};

/// A door that a test opens, or that a script opens for a test. Once open it stays so. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    pub fn open(&self) {
        self.0.cancel();
    }

    /// Waits until it is open.
    pub async fn passed(&self) {
        self.0.cancelled().await;
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    /// The status line and headers. The body is chunked, unless `content-length`, `transfer-encoding` or
    /// `connection: close` is among them.
    Head { status: u16, headers: Vec<(String, String)> },
    /// One chunk of the body (over HTTP/2, one DATA frame), written at once.
    Chunk(Bytes),
    /// Bytes as they are, without framing (over TLS the same as a chunk).
    Raw(Bytes),
    /// The end of the body. Without it an answer that is chunked, or over TLS, never ends.
    EndBody,
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Opens the gate: all steps before this one have been performed.
    Reached(Gate),
    /// For the few tests that need real time.
    Delay(Duration),
    /// Nothing more, until the client leaves.
    UntilClosed,
    /// Closes the connection at once (over TLS, the stream breaks).
    Close,
    /// Resets the connection (over TLS, the stream breaks). What is not sent or not read by then may be lost: a gate
    /// before this step makes sure.
    Reset,
}

/// After the last step the connection waits for the next request.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub steps: Vec<Step>,
    voice: Voice,
}

impl Script {
    pub fn new() -> Script {
        Script::default()
    }

    /// One whose words are of this dialect, and not of OpenAI's.
    pub fn of(dialect: Dialect) -> Script {
        Script { steps: Vec::new(), voice: Voice::new(dialect) }
    }

    /// A whole, good stream: role, tokens, finish, `[DONE]`.
    pub fn stream(tokens: &[&str]) -> Script {
        Script::new().whole_stream(tokens)
    }

    /// The same in the script's own dialect, behind what it does before.
    pub fn whole_stream(self, tokens: &[&str]) -> Script {
        self.open().role().tokens(tokens).finish("stop").done().end()
    }

    /// An answer of known length.
    pub fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Script {
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        headers.extend([("content-type", "application/json"), ("content-length", &length)]);
        Script::new().head(status, &headers).raw(body).end()
    }

    /// The head of an event stream.
    pub fn sse() -> Script {
        Script::new().open()
    }

    /// The head of a stream.
    pub fn open(self) -> Script {
        let content_type = self.voice.dialect.content_type();
        self.head(200, &[("content-type", content_type)])
    }

    pub fn step(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    pub fn head(self, status: u16, headers: &[(&str, &str)]) -> Script {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.step(Step::Head { status, headers })
    }

    pub fn chunk(self, bytes: impl AsRef<[u8]>) -> Script {
        self.step(Step::Chunk(Bytes::copy_from_slice(bytes.as_ref())))
    }

    pub fn raw(self, bytes: impl AsRef<[u8]>) -> Script {
        self.step(Step::Raw(Bytes::copy_from_slice(bytes.as_ref())))
    }

    /// `data: …` and a blank line, as one chunk.
    pub fn event(self, data: impl std::fmt::Display) -> Script {
        self.chunk(format!("data: {data}\n\n"))
    }

    pub fn comment(self, text: &str) -> Script {
        self.chunk(format!(": {text}\n\n"))
    }

    pub fn role(self) -> Script {
        self.says(Voice::role)
    }

    pub fn token(self, text: &str) -> Script {
        self.says(|voice| voice.token(text))
    }

    pub fn tokens(self, tokens: &[&str]) -> Script {
        tokens.iter().fold(self, |script, token| script.token(token))
    }

    /// What a server may send that has generated nothing.
    pub fn nothing(self) -> Script {
        self.says(Voice::nothing)
    }

    /// An error inside a 200: the server is overloaded.
    pub fn error(self) -> Script {
        self.error_saying("The server is overloaded")
    }

    /// The same in these words.
    pub fn error_saying(self, said: &str) -> Script {
        self.says(|voice| voice.error(said))
    }

    /// A chunk of chat with one choice that has this delta.
    pub fn delta(self, delta: Value) -> Script {
        self.chunk(dialect::delta(delta))
    }

    pub fn finish(self, reason: &str) -> Script {
        self.says(|voice| voice.finish(reason))
    }

    /// The last chunk of a chat whose usage was asked for; other dialects tell theirs unasked.
    pub fn usage(self, prompt_tokens: u64, completion_tokens: u64) -> Script {
        let mut chunk = chunk_json(json!([]));
        chunk["usage"] = json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        });
        self.event(chunk)
    }

    pub fn done(self) -> Script {
        self.says(Voice::done)
    }

    pub fn end(self) -> Script {
        self.step(Step::EndBody)
    }

    pub fn wait(self, gate: &Gate) -> Script {
        self.step(Step::Wait(gate.clone()))
    }

    pub fn reached(self, gate: &Gate) -> Script {
        self.step(Step::Reached(gate.clone()))
    }

    pub fn delay(self, delay: Duration) -> Script {
        self.step(Step::Delay(delay))
    }

    pub fn until_closed(self) -> Script {
        self.step(Step::UntilClosed)
    }

    pub fn close(self) -> Script {
        self.step(Step::Close)
    }

    pub fn reset(self) -> Script {
        self.step(Step::Reset)
    }

    /// Each byte of the body in a chunk of its own.
    pub fn byte_by_byte(self) -> Script {
        let single = |step| match step {
            Step::Chunk(bytes) => (0..bytes.len()).map(|at| Step::Chunk(bytes.slice(at..=at))).collect(),
            step => vec![step],
        };
        Script { steps: self.steps.into_iter().flat_map(single).collect(), voice: self.voice }
    }

    /// Its line feeds as these line ends.
    pub fn with_line_ends(self, end: &str) -> Script {
        let rewritten = |step| match step {
            Step::Chunk(bytes) => Step::Chunk(Bytes::from(String::from_utf8_lossy(&bytes).replace('\n', end))),
            step => step,
        };
        Script { steps: self.steps.into_iter().map(rewritten).collect(), voice: self.voice }
    }

    /// The chunks of the body so far.
    pub fn chunks(&self) -> Vec<Bytes> {
        let chunk = |step: &Step| if let Step::Chunk(bytes) = step { Some(bytes.clone()) } else { None };
        self.steps.iter().filter_map(chunk).collect()
    }

    /// The bytes of the body so far.
    pub fn body(&self) -> Vec<u8> {
        self.chunks().concat()
    }

    /// Without its body.
    pub fn head_only(mut self) -> Script {
        self.steps.retain(|step| matches!(step, Step::Head { .. }));
        self
    }

    fn says(mut self, words: impl FnOnce(&mut Voice) -> Vec<Bytes>) -> Script {
        let words = words(&mut self.voice);
        words.into_iter().fold(self, Script::chunk)
    }
}
