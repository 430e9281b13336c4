//! Why an attempt did not win by its own fault. A failure is data: what it *means* (try next, stop, cool down) is
//! decided in `race::verdict`, and turned into an HTTP answer in `proxy::rejection`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

/// What went wrong, by the names that are stored in the `failure` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    Dns,
    Connect,
    Tls,
    /// The peer reset a connection or a stream.
    Reset,
    /// The peer closed before the answer was complete.
    Closed,
    /// A connect or first-token timeout, or the total deadline.
    Timeout,
    /// No byte for the idle timeout, after the first token.
    IdleTimeout,
    RateLimited,
    /// 498, 503, 529, or an error frame that says so.
    Overloaded,
    ServerError,
    Unauthorized,
    Forbidden,
    NotFound,
    BadRequest,
    ContextLength,
    ContentPolicy,
    TooLarge,
    /// An error frame in a 200 that names nothing more telling.
    InStreamError,
    /// Not an answer of its dialect: an endless line, a prelude without end, JSON that is none.
    Malformed,
    /// The peer broke HTTP.
    Protocol,
    /// Not started: its key or upstream cools down.
    CoolingDown,
    /// The gateway itself had no descriptor or no memory for it: nobody else's fault.
    GatewayLimit,
    /// A 200 that finished without generating anything. Stored as outcome `empty`, with no failure.
    Empty,
}

impl FailureKind {
    /// Every one, in the order of its declaration.
    pub const ALL: [FailureKind; 23] = [
        FailureKind::Dns,
        FailureKind::Connect,
        FailureKind::Tls,
        FailureKind::Reset,
        FailureKind::Closed,
        FailureKind::Timeout,
        FailureKind::IdleTimeout,
        FailureKind::RateLimited,
        FailureKind::Overloaded,
        FailureKind::ServerError,
        FailureKind::Unauthorized,
        FailureKind::Forbidden,
        FailureKind::NotFound,
        FailureKind::BadRequest,
        FailureKind::ContextLength,
        FailureKind::ContentPolicy,
        FailureKind::TooLarge,
        FailureKind::InStreamError,
        FailureKind::Malformed,
        FailureKind::Protocol,
        FailureKind::CoolingDown,
        FailureKind::GatewayLimit,
        FailureKind::Empty,
    ];

    /// The kind with this stored name; none for one that is not known here.
    pub fn from_name(name: &str) -> Option<FailureKind> {
        FailureKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Dns => "dns",
            FailureKind::Connect => "connect",
            FailureKind::Tls => "tls",
            FailureKind::Reset => "reset",
            FailureKind::Closed => "closed",
            FailureKind::Timeout => "timeout",
            FailureKind::IdleTimeout => "idle_timeout",
            FailureKind::RateLimited => "rate_limited",
            FailureKind::Overloaded => "overloaded",
            FailureKind::ServerError => "server_error",
            FailureKind::Unauthorized => "unauthorized",
            FailureKind::Forbidden => "forbidden",
            FailureKind::NotFound => "not_found",
            FailureKind::BadRequest => "bad_request",
            FailureKind::ContextLength => "context_length",
            FailureKind::ContentPolicy => "content_policy",
            FailureKind::TooLarge => "too_large",
            FailureKind::InStreamError => "in_stream_error",
            FailureKind::Malformed => "malformed",
            FailureKind::Protocol => "protocol",
            FailureKind::CoolingDown => "cooling_down",
            FailureKind::GatewayLimit => "gateway_limit",
            FailureKind::Empty => "empty",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in its life an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Name look-up, TCP, TLS.
    Connect,
    /// From the request's first byte to the answer's headers.
    Headers,
    /// From the headers to the first token.
    FirstToken,
    /// After the first token.
    Stream,
}

impl Phase {
    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Connect => "connect",
            Phase::Headers => "headers",
            Phase::FirstToken => "first_token",
            Phase::Stream => "stream",
        }
    }
}

/// An answer of a provider that may have to be passed on as it came: an error body, or an empty stream.
#[derive(Clone, PartialEq, Eq)]
pub struct RawAnswer {
    pub status: u16,
    /// As the upstream sent them, without the key; which of them go down to the client is the proxy's to say. Boxed, for a failure is the
    /// rare side of many results.
    pub headers: Box<HeaderMap>,
    /// At most the bound that the reader had; cut off beyond it.
    pub body: Bytes,
    /// Of a 200: the body is a whole answer in the caller's dialect, and not the events of one.
    pub whole: bool,
}

impl fmt::Debug for RawAnswer {
    /// The length only: an answer may quote the prompt, and its headers a session.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}

/// One failed attempt.
#[derive(Clone)]
pub struct Failure {
    pub kind: FailureKind,
    pub phase: Phase,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// Of a refused key, model or account: the provider's words leave no doubt that it is not the request.
    pub certain: bool,
    /// Of a rate limit: it is the whole account's, and not only this model's.
    pub whole_account: bool,
    /// How long the provider asks to be left alone.
    pub retry_after: Option<Duration>,
    /// For the client's eyes: without secrets, but it may quote the prompt, so it is never logged.
    pub message: String,
    pub answer: Option<RawAnswer>,
    /// A connection out of the pool died before a byte of an answer came: that says little of the upstream, which may be
    /// asked again over a new one.
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
