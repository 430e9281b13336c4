//! Why an attempt failed by its own fault. A failure is data: `verdict` decides what it means (try next, stop,
//! cool down), and `proxy::refusals` turns it into an HTTP answer.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use crate::named;

named! {
    /// What went wrong. The names are stored in the `failure` column.
    #[derive(Hash)]
    pub enum FailureKind {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        /// The peer reset a connection or a stream.
        Reset = "reset",
        /// The peer closed before the answer was complete.
        Closed = "closed",
        /// A connect or first-token timeout, or a total deadline.
        Timeout = "timeout",
        /// After the first token: no byte for the idle timeout, or no token for far longer.
        IdleTimeout = "idle_timeout",
        RateLimited = "rate_limited",
        /// 498, 503, 529, or an error frame that reports overload.
        Overloaded = "overloaded",
        ServerError = "server_error",
        Unauthorized = "unauthorized",
        Forbidden = "forbidden",
        NotFound = "not_found",
        BadRequest = "bad_request",
        ContextLength = "context_length",
        ContentPolicy = "content_policy",
        TooLarge = "too_large",
        /// An error frame in a 200 without a more specific error.
        InStreamError = "in_stream_error",
        /// Not an answer of its dialect: an endless line, a prelude without end, invalid JSON.
        Malformed = "malformed",
        /// It goes on without end: more tokens than any answer to this request has.
        Endless = "endless",
        /// The peer broke HTTP.
        Protocol = "protocol",
        /// Not started: its key or upstream is in a cool-down.
        CoolingDown = "cooling_down",
        /// The gateway itself had no descriptor or no memory for it. The provider is not at fault.
        GatewayLimit = "gateway_limit",
        /// A 200 that finished without generating anything. Stored as outcome `empty`, with no failure.
        Empty = "empty",
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

named! {
    /// The phase of an attempt in which it failed.
    #[derive(Hash)]
    pub enum Phase {
        /// Name look-up, TCP, TLS.
        Connect = "connect",
        /// From the request's first byte to the answer's headers.
        Headers = "headers",
        /// From the headers to the first token.
        FirstToken = "first_token",
        /// After the first token.
        Stream = "stream",
    }
}

/// A provider's answer that may have to be passed on unchanged: an error body, or an empty stream.
#[derive(Clone, PartialEq, Eq)]
pub struct RawAnswer {
    pub status: u16,
    /// The upstream's headers, without the key. The proxy decides which of them the client receives. Boxed, because a
    /// failure is the rare side of many results.
    pub headers: Box<HeaderMap>,
    /// The body, cut off at the reader's limit.
    pub body: Bytes,
    /// For a 200: the body is a whole answer in the caller's dialect, and not its events.
    pub whole: bool,
}

impl fmt::Debug for RawAnswer {
    /// Only the length: an answer may quote the prompt, and its headers may contain a session.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}

/// One failed attempt.
#[derive(Clone)]
pub struct Failure {
    pub kind: FailureKind,
    pub phase: Phase,
    /// The HTTP status. None: no status was received.
    pub status: Option<u16>,
    /// For a refused key, model or account: the provider's message proves that the request is not the cause.
    pub certain: bool,
    /// For a rate limit: it applies to the whole account, not only to this model.
    pub whole_account: bool,
    /// The provider's Retry-After.
    pub retry_after: Option<Duration>,
    /// For the client. It has no secrets, but it may quote the prompt, so it is never logged.
    pub message: String,
    pub answer: Option<RawAnswer>,
    /// A pooled connection died before the first byte of an answer. This says little about the upstream, which may be
    /// asked again over a new connection.
    pub stale: bool,
}

impl Failure {
    pub fn new(kind: FailureKind, phase: Phase, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            phase,
            status: None,
            certain: false,
            whole_account: false,
            retry_after: None,
            message: message.into(),
            answer: None,
            stale: false,
        }
    }
}

impl fmt::Debug for Failure {
    /// Without the message: it may quote the prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.kind)
            .field("phase", &self.phase)
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}
