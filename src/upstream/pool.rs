//! The connections to one origin: idle HTTP/1.1 ones, and HTTP/2 ones that are shared.
//!
//! Several HTTP/2 connections rather than one: a single one makes every stream wait for the same flow control, and a
//! race resets two streams of three, which servers take for an attack when it all comes over one connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;

use super::connect::Made;
use super::line::Line;
use super::response::{Body, Response};
use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};

/// Idle HTTP/1.1 connections that are kept; a further one is closed.
const IDLE_MAX: usize = 256;
/// Shorter than the keep-alive of common servers, so that a reused connection is rarely dead.
const IDLE_FOR: Duration = Duration::from_secs(50);
/// HTTP/2 connections to one origin; beyond it streams wait for each other.
const HTTP2_MAX: usize = 16;
/// Streams on one HTTP/2 connection before another is opened, even if the peer allows more.
const STREAMS_MAX: usize = 64;
/// Streams that were reset before an HTTP/2 connection is used no more.
const RESETS_MAX: usize = 200;
/// Age at which an HTTP/2 connection is used no more.
const AGE_MAX: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Vec<Arc<Http2>>>,
}

struct Idle {
    line: Line,
    since: Instant,
}

pub(super) struct Http2 {
    sender: http2::SendRequest<Full<Bytes>>,
    born: Instant,
    streams: AtomicUsize,
    streams_max: Arc<AtomicUsize>,
    resets: AtomicUsize,
}

/// One connection for one request.
pub(super) enum Connection {
    Http1 { line: Line, reused: bool },
    Http2 { stream: Stream, reused: bool },
}

/// A place on a shared connection; given back on drop.
pub(super) struct Stream {
    connection: Arc<Http2>,
    /// It was read to its end, or never used: to drop it resets nothing.
    pub ended: bool,
}

/// Why a request could not be sent or answered.
pub(super) struct SendError {
    pub failure: Failure,
    /// The connection was gone before a byte of an answer came.
    pub dead: bool,
}

impl Pool {
    /// A connection that is there already.
    pub fn checkout(&self) -> Option<Connection> {
        if let Some(connection) = self.least_loaded() {
            return Some(Connection::Http2 { stream: Stream::open(connection), reused: true });
        }
        // Taken out first: to look at a connection is not to be done under the lock.
        while let Some(Idle { mut line, since }) = self.newest_idle() {
            if since.elapsed() < IDLE_FOR && line.is_usable() {
                return Some(Connection::Http1 { line, reused: true });
            }
        }
        None
    }

    /// Takes in a connection that was just made, for a first request.
    pub fn adopt(&self, made: Made) -> Connection {
        match made {
            Made::Http1(line) => Connection::Http1 { line, reused: false },
            Made::Http2 { sender, streams_max } => {
                let born = Instant::now();
                let connection = Arc::new(Http2 {
                    sender,
                    born,
                    streams: AtomicUsize::new(0),
                    streams_max,
                    resets: AtomicUsize::new(0),
                });
                lock(&self.shared).push(connection.clone());
                Connection::Http2 { stream: Stream::open(connection), reused: false }
            }
        }
    }

    /// Keeps a connection for a later request.
    pub fn put_back(&self, connection: Connection) {
        match connection {
            Connection::Http1 { line, .. } => self.put_back_http1(line),
            Connection::Http2 { mut stream, .. } => stream.ended = true,
        }
    }

    pub(super) fn put_back_http1(&self, line: Line) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(Idle { line, since: Instant::now() });
        }
    }

    fn newest_idle(&self) -> Option<Idle> {
        lock(&self.idle).pop()
    }

    /// Closes what has been idle for long or is of no use any more.
    pub fn sweep(&self) {
        lock(&self.idle).retain_mut(|idle| idle.since.elapsed() < IDLE_FOR && idle.line.is_usable());
        lock(&self.shared).retain(|connection| connection.is_usable());
    }

    /// The HTTP/2 connection with the fewest streams, if it has room or no further one may be opened.
    fn least_loaded(&self) -> Option<Arc<Http2>> {
        let mut shared = lock(&self.shared);
        shared.retain(|connection| connection.is_usable());
        let least = shared.iter().min_by_key(|connection| connection.streams.load(Ordering::Relaxed))?;
        (least.has_room() || shared.len() >= HTTP2_MAX).then(|| least.clone())
    }
}

impl Http2 {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.resets.load(Ordering::Relaxed) < RESETS_MAX && self.born.elapsed() < AGE_MAX
    }

    fn has_room(&self) -> bool {
        let limit = self.streams_max.load(Ordering::Relaxed).clamp(1, STREAMS_MAX);
        self.streams.load(Ordering::Relaxed) < limit
    }
}

impl Stream {
    fn open(connection: Arc<Http2>) -> Stream {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        Stream { connection, ended: false }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.connection.resets.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Connection {
    pub fn reused(&self) -> bool {
        match self {
            Connection::Http1 { reused, .. } | Connection::Http2 { reused, .. } => *reused,
        }
    }

    pub fn is_http2(&self) -> bool {
        matches!(self, Connection::Http2 { .. })
    }

    /// Sends the request and waits for the head of the answer. The body gives the connection back at its end.
    pub async fn send(self, request: Request<Full<Bytes>>, pool: &Arc<Pool>) -> Result<Response, SendError> {
        match self {
            Connection::Http1 { mut line, .. } => {
                let response = match line.send(request).await {
                    Ok(response) => response,
                    Err(error) => {
                        let SendError { failure, dead } = send_error(&error, false);
                        return Err(SendError { failure, dead: dead && !line.heard() });
                    }
                };
                Ok(split(response, |body| Body::http1(body, line, pool.clone())))
            }
            Connection::Http2 { mut stream, .. } => {
                let mut sender = stream.connection.sender.clone();
                let answer = async {
                    sender.ready().await?;
                    sender.send_request(request).await
                };
                match answer.await {
                    Ok(response) => Ok(split(response, |body| Body::http2(body, stream))),
                    Err(error) => {
                        stream.ended = true;
                        Err(send_error(&error, true))
                    }
                }
            }
        }
    }
}

fn split(response: http::Response<Incoming>, body: impl FnOnce(Incoming) -> Body) -> Response {
    let (head, incoming) = response.into_parts();
    Response { status: head.status, headers: head.headers, body: body(incoming) }
}

fn send_error(error: &hyper::Error, http2: bool) -> SendError {
    let failure = failure_of(error, Phase::Headers);
    let gone =
        error.is_canceled() || error.is_closed() || matches!(failure.kind, FailureKind::Closed | FailureKind::Reset);
    // A reset of one HTTP/2 stream says nothing of its connection, and the request may have been worked on.
    let stream_reset =
        http2 && h2_error(error).is_some_and(|h2| h2.is_reset() && h2.reason() != Some(h2::Reason::REFUSED_STREAM));
    SendError { failure, dead: gone && !stream_reset }
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(h2) = inner.downcast_ref() {
            return Some(h2);
        }
        source = inner.source();
    }
    None
}

/// What an error of the connection means, for a request or for the body of its answer.
pub(super) fn failure_of(error: &hyper::Error, phase: Phase) -> Failure {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut kind = None;
    let mut text = String::new();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            kind = kind.or(match io.kind() {
                std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::BrokenPipe
                | std::io::ErrorKind::ConnectionAborted => Some(FailureKind::Reset),
                std::io::ErrorKind::UnexpectedEof => Some(FailureKind::Closed),
                _ => None,
            });
        }
        if let Some(h2) = inner.downcast_ref::<h2::Error>() {
            kind = kind.or(if h2.is_reset() {
                Some(FailureKind::Reset)
            } else {
                h2.is_go_away().then_some(FailureKind::Closed)
            });
        }
        text = inner.to_string();
        source = inner.source();
    }
    let gone = error.is_canceled() || error.is_closed() || error.is_incomplete_message();
    let kind = kind.unwrap_or(if gone { FailureKind::Closed } else { FailureKind::Protocol });
    Failure::new(kind, phase, format!("the connection broke: {text}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
