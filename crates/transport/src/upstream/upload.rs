//! The body of a request: bytes that are there, or an [`Upload`] that is sent as it comes. Not for limits of what comes: its
//! maker has them.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Either};
use photofinish_base::parts::BodyParts;

/// An error of a body.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What a connection sends.
pub(super) type RequestBody = Either<Held, Upload>;

/// A body that notifies when the connection has taken all of it.
pub(super) struct SentBody {
    body: RequestBody,
    is_taken: Arc<AtomicBool>,
}

impl SentBody {
    pub fn new(body: RequestBody) -> (SentBody, Arc<AtomicBool>) {
        let is_taken = Arc::new(AtomicBool::new(body.is_end_stream()));
        (SentBody { body, is_taken: is_taken.clone() }, is_taken)
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        let is_last = matches!(next, Poll::Ready(None)) || self.body.is_end_stream();
        self.is_taken.fetch_or(is_last, Ordering::Relaxed);
        next.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes that are there.
pub(super) struct Held(pub BodyParts);

impl Body for Held {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.0.next_part().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// A body that is sent as it comes. Cheap to clone: all clones are one body, so that a request can be made again as long as nothing of it was
/// taken.
#[derive(Clone)]
pub struct Upload(Arc<Mutex<UploadState>>);

struct UploadState {
    /// None: it has ended, or was given up.
    body: Option<UnsyncBoxBody<Bytes, BodyError>>,
    begun: bool,
}

impl Upload {
    pub fn new(body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static) -> Upload {
        Upload(Arc::new(Mutex::new(UploadState { body: Some(body.boxed_unsync()), begun: false })))
    }

    /// Whether the request can be made again: nothing of the body was taken, or it has none.
    pub fn is_whole(&self) -> bool {
        let state = self.state();
        !state.begun || state.body.as_ref().is_some_and(Body::is_end_stream)
    }

    /// Drops what is left of it: a connection that still sends it ends.
    pub fn give_up(&self) {
        self.state().body = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, UploadState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.state();
        let next = match &mut state.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(Some(Err("the request was given up".into()))),
        };
        state.begun |= next.is_ready();
        next
    }

    fn is_end_stream(&self) -> bool {
        self.state().body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.state().body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
