//! Why an attempt failed by its own fault. A failure is data: `race::verdict` decides what it means (try next, stop,
//! cool down), and `proxy::rejection` turns it into an HTTP answer.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

/// What went wrong. The names are stored in the `failure` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    Dns,
    Connect,
    Tls,
    /// The peer reset a connection or a stream.
    Reset,
    /// The peer closed before the answer was complete.
    Closed,
    /// A connect or first-token timeout, or a total deadline.
    Timeout,
    /// After the first token: no byte for the idle timeout, or no token for far longer.
    IdleTimeout,
    RateLimited,
    /// 498, 503, 529, or an error frame that reports overload.
    Overloaded,
    ServerError,
    Unauthorized,
    Forbidden,
    NotFound,
    BadRequest,
    ContextLength,
    ContentPolicy,
    TooLarge,
    /// An error frame in a 200 without a more specific error.
    InStreamError,
    /// Not an answer of its dialect: an endless line, a prelude without end, invalid JSON.
    Malformed,
    /// It goes on without end: more tokens than any answer to this request has.
    Endless,
    /// The peer broke HTTP.
    Protocol,
    /// Not started: its key or upstream is in a cool-down.
    CoolingDown,
    /// The gateway itself had no descriptor or no memory for it. The provider is not at fault.
    GatewayLimit,
    /// A 200 that finished without generating anything. Stored as outcome `empty`, with no failure.
    Empty,
}

impl FailureKind {
    /// All kinds, in the order of declaration.
    pub const ALL: [FailureKind; 24] = [
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
        FailureKind::Endless,
        FailureKind::Protocol,
        FailureKind::CoolingDown,
        FailureKind::GatewayLimit,
        FailureKind::Empty,
    ];

    /// The kind with this stored name. None: the name is unknown.
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
            FailureKind::Endless => "endless",
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

/// The phase of an attempt in which it failed.
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
