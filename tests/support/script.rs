//! The steps of a fake provider for one request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::dialect::{self, Dialect, Voice, chunk_json};

/// A gate that a test opens, or that a script opens for a test. Once open it stays open. Cheap to clone; all clones
/// share one state.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    pub fn open(&self) {
        self.0.cancel();
    }

    pub fn is_open(&self) -> bool {
        self.0.is_cancelled()
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
    /// Bytes without framing (over TLS the same as a chunk).
    Raw(Bytes),
    /// The end of the body. Without it, a chunked answer, or one over TLS, never ends.
    EndBody,
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Opens the gate: all steps before this one have been performed.
    Reached(Gate),
    /// A real delay, for the few tests that need one.
    Delay(Duration),
    /// Waits until the client leaves.
    UntilClosed,
    /// Closes the connection at once (over TLS, the stream breaks).
    Close,
    /// Resets the connection (over TLS, the stream breaks). Data not yet sent or read may be lost. A gate before this
    /// step prevents that.
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

    /// A script in this dialect instead of OpenAI's.
    pub fn of(dialect: Dialect) -> Script {
        Script { steps: Vec::new(), voice: Voice::new(dialect) }
    }

    /// A whole stream without errors: role, tokens, finish, `[DONE]`.
    pub fn stream(tokens: &[&str]) -> Script {
        Script::new().whole_stream(tokens)
    }

    /// Adds a whole stream in the script's dialect.
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

    /// Everything that a server may send before it has generated anything.
    pub fn nothing(self) -> Script {
        self.says(Voice::nothing)
    }

    /// An error inside a 200: the server is overloaded.
    pub fn error(self) -> Script {
        self.error_saying("The server is overloaded")
    }

    /// The same error with this message.
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

    /// The last chunk of a chat with requested usage; other dialects send usage without a request.
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

    /// Each byte of the body in a separate chunk.
    pub fn byte_by_byte(self) -> Script {
        let single = |step| match step {
            Step::Chunk(bytes) => (0..bytes.len()).map(|at| Step::Chunk(bytes.slice(at..=at))).collect(),
            step => vec![step],
        };
        Script { steps: self.steps.into_iter().flat_map(single).collect(), voice: self.voice }
    }

    /// Replaces line feeds by these line ends.
    pub fn with_line_ends(self, end: &str) -> Script {
        let rewritten = |step| match step {
            Step::Chunk(bytes) => Step::Chunk(Bytes::from(String::from_utf8_lossy(&bytes).replace('\n', end))),
            step => step,
        };
        Script { steps: self.steps.into_iter().map(rewritten).collect(), voice: self.voice }
    }

    /// The steps of another script after these.
    pub fn then(mut self, other: Script) -> Script {
        self.steps.extend(other.steps);
        self
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

    /// Removes the body.
    pub fn head_only(mut self) -> Script {
        self.steps.retain(|step| matches!(step, Step::Head { .. }));
        self
    }

    fn says(mut self, words: impl FnOnce(&mut Voice) -> Vec<Bytes>) -> Script {
        let words = words(&mut self.voice);
        words.into_iter().fold(self, Script::chunk)
    }
}
