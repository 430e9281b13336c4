//! The body of an answer on its way to the client, and the end of an HTTP/2 stream whose client keeps its window closed.
//! Such a stream holds an answer, and the socket shows no sign of it.
//!
//! hyper runs each stream in a separate task and does not poll the body while the window is closed. So body and task
//! share a task-local: the body stores when it handed over a frame, and the task checks that time. Not for HTTP/1.1,
//! where such a client blocks the socket.

use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures_util::FutureExt as _;
use http_body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;

use super::connection_place::{ConnectionPlace, RequestInProgress, TAKE_FOR, TAKE_WHOLE_FOR};
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

tokio::task_local! {
    static UNTAKEN: Untaken;
}

/// Maximum unread bytes of each answer on an HTTP/2 connection, so that 1,024 answers hold 16 MiB together.
pub(super) const STREAM_BUFFER_MAX: usize = 16 * 1024;

/// What body and task of a stream share.
#[derive(Default)]
struct Untaken {
    /// When the current frame began to wait, and how long it may. None: the stream waits for the provider.
    waits: Cell<Option<(Instant, Duration)>>,
    /// None: the answer is streamed, or is a single frame.
    taken: OnceCell<Arc<LastTaken>>,
}

/// When the client last took a byte of an answer of several frames.
struct LastTaken {
    connection: Arc<ConnectionPlace>,
    /// Milliseconds after the beginning of the connection.
    at: AtomicU64,
}

impl Untaken {
    /// When the current frame has waited for as long as it may.
    fn due(&self, now: Instant) -> Instant {
        let Some((since, limit)) = self.waits.get() else { return now + TAKE_WHOLE_FOR };
        self.taken.get().map_or(since, |taken| since.max(taken.at())) + limit
    }
}

impl LastTaken {
    fn at(&self) -> Instant {
        self.connection.since() + Duration::from_millis(self.at.load(Ordering::Relaxed))
    }

    fn taken(&self) {
        self.at.store(self.connection.moved(), Ordering::Relaxed);
    }
}

/// The executor for the stream tasks of one connection.
#[derive(Clone)]
pub(super) struct Streams {
    pub shutdown: Shutdown,
    pub connection: Arc<ConnectionPlace>,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        // hyper calls this right after the service. A refusal is complete at once; a task for each would hold far more
        // memory than what it refuses, until it runs.
        if self.connection.takes_refusal() {
            stream.now_or_never();
            return;
        }
        let until_untaken = async {
            tokio::select! {
                biased;
                _ = stream => {}
                () = untaken() => {}
            }
        };
        self.shutdown.spawn(UNTAKEN.scope(Untaken::default(), until_untaken));
    }
}

/// Resolves when a frame has waited for as long as it may. The timer is moved only when it fires.
async fn untaken() {
    let mut due = Instant::now() + TAKE_WHOLE_FOR;
    loop {
        tokio::time::sleep_until(due).await;
        let now = Instant::now();
        due = UNTAKEN.with(|untaken| untaken.due(now));
        if due <= now {
            return;
        }
    }
}

/// A body that holds what its request counts until its last byte has left.
///
/// Over HTTP/2 it stores when it handed over a frame, and its frames have at most [`STREAM_BUFFER_MAX`] bytes: hyper
/// takes a whole frame as soon as the window has room for one byte, and then the task has no more part in it.
pub(super) struct WatchedBody {
    body: Body,
    is_whole: bool,
    is_stream: bool,
    /// Bytes that were handed over.
    handed: usize,
    /// The rest of a frame that was too long.
    rest: Bytes,
    /// Of a whole answer over HTTP/2 that is longer than one frame.
    taken: Option<Arc<LastTaken>>,
    /// None: the last part has it.
    request: Option<RequestInProgress>,
}

/// A part of an answer. The last one holds the request until it was written.
pub(super) struct AnswerPart {
    bytes: Bytes,
    taken: Option<Arc<LastTaken>>,
    request: Option<RequestInProgress>,
}

impl WatchedBody {
    pub(super) fn new(body: Body, mut request: RequestInProgress) -> WatchedBody {
        let length = body.size_hint().exact();
        request.answers(length);
        let (is_whole, is_stream) = (length.is_some(), request.is_stream());
        let taken = length.filter(|length| is_stream && *length > STREAM_BUFFER_MAX as u64);
        let taken = taken.map(|_| Arc::new(LastTaken { connection: request.connection(), at: AtomicU64::new(0) }));
        WatchedBody { body, is_whole, is_stream, handed: 0, rest: Bytes::new(), taken, request: Some(request) }
    }

    /// The next frame for HTTP/2. The last one ends the stream, if need be without data, so that it takes the request
    /// along.
    fn poll_stream_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<AnswerPart>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)?).map(Frame::into_data) {
                Some(Ok(data)) => self.rest = data,
                Some(Err(trailers)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers.into_trailers().unwrap_or_default()))));
                }
                None if self.request.is_none() => return Poll::Ready(None),
                None => return Poll::Ready(Some(Ok(self.last(Bytes::new())))),
            }
        }
        let bytes = self.rest.split_to(self.rest.len().min(STREAM_BUFFER_MAX));
        self.handed = self.handed.saturating_add(bytes.len());
        if self.rest.is_empty() && self.body.is_end_stream() {
            return Poll::Ready(Some(Ok(self.last(bytes))));
        }
        Poll::Ready(Some(Ok(Frame::data(AnswerPart { bytes, taken: self.taken.clone(), request: None }))))
    }

    fn last(&mut self, bytes: Bytes) -> Frame<AnswerPart> {
        let mut request = self.request.take();
        if let Some(request) = request.as_mut().filter(|_| !self.is_whole) {
            // hyper may hold a full buffer and one more part.
            request.grow(self.handed.min(2 * STREAM_BUFFER_MAX));
        }
        Frame::data(AnswerPart { bytes, taken: self.taken.clone(), request })
    }
}

impl http_body::Body for WatchedBody {
    type Data = AnswerPart;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerPart>, axum::Error>>> {
        if self.is_stream {
            let frame = self.poll_stream_frame(context);
            let limit = if self.is_whole { TAKE_WHOLE_FOR } else { TAKE_FOR };
            let waits = matches!(frame, Poll::Ready(Some(_))).then(|| (Instant::now(), limit));
            // An error here means that no task watches the stream.
            let _ = UNTAKEN.try_with(|untaken| {
                untaken.waits.set(waits);
                if let Some(taken) = &self.taken {
                    untaken.taken.get_or_init(|| taken.clone());
                }
            });
            return frame;
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| {
            let is_last = self.body.is_end_stream();
            let mut held = || self.request.take_if(|request| is_last && request.holds());
            frame.map_data(|bytes| AnswerPart { bytes, taken: None, request: held() })
        })
    }

    fn is_end_stream(&self) -> bool {
        if self.is_stream { self.request.is_none() } else { self.body.is_end_stream() }
    }

    fn size_hint(&self) -> SizeHint {
        // Without a body there is no length to announce, only the end.
        if self.is_stream && self.body.is_end_stream() { SizeHint::default() } else { self.body.size_hint() }
    }
}

impl Buf for AnswerPart {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(taken) = &self.taken {
            taken.taken();
        }
        if let Some(request) = &mut self.request {
            request.leaves();
        }
    }
}

#[cfg(test)]
mod tests;
