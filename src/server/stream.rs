//! Ends an HTTP/2 stream whose client keeps its window shut: it holds a provider's answer, and the socket never tells.
//!
//! hyper runs each stream as a task of its own and does not poll the body while the window is shut. So body and task
//! meet in a task-local: the body notes when it handed over, the task looks at that. Not for HTTP/1.1, where such a client
//! stops the socket.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;

use super::connection_slots::RequestInProgress;
use super::socket::TAKE_FOR;
use crate::clock::Instant;
use crate::shutdown::Shutdown;

tokio::task_local! {
    /// Since when a frame waits to be taken; none while the provider is waited for.
    static UNTAKEN: Cell<Option<Instant>>;
}

/// Runs hyper's tasks of streams.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Shutdown);

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let until_untaken = async {
            tokio::select! {
                biased;
                _ = stream => {}
                () = untaken() => {}
            }
        };
        self.0.spawn(UNTAKEN.scope(Cell::new(None), until_untaken));
    }
}

/// Resolves when a frame was not taken for [`TAKE_FOR`]. The timer is moved only when it fires.
async fn untaken() {
    let mut due = Instant::now() + TAKE_FOR;
    loop {
        tokio::time::sleep_until(due).await;
        let now = Instant::now();
        due = UNTAKEN.with(Cell::get).unwrap_or(now) + TAKE_FOR;
        if due <= now {
            return;
        }
    }
}

/// A body that notes when it handed over a frame, and that its connection is at work.
pub(super) struct WatchedBody {
    body: Body,
    _work: Option<RequestInProgress>,
}

impl WatchedBody {
    /// An answer that is whole is no more work: whether its client takes it is up to the client.
    pub(super) fn new(body: Body, work: RequestInProgress) -> WatchedBody {
        let is_whole = http_body::Body::size_hint(&body).exact().is_some();
        WatchedBody { body, _work: (!is_whole).then_some(work) }
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // An error here is HTTP/1.1.
        let _ = UNTAKEN.try_with(|untaken| untaken.set(matches!(frame, Poll::Ready(Some(_))).then(Instant::now)));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
