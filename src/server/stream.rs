//! Ends an HTTP/2 stream whose client keeps its window closed. Such a stream holds a provider's answer, and the socket
//! shows no sign of it.
//!
//! hyper runs each stream in a separate task and does not poll the body while the window is closed. So body and task
//! share a task-local: the body stores when it handed over a frame, and the task checks that time. Not for HTTP/1.1,
//! where such a client blocks the socket.

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
    /// When the current frame began to wait. None: the stream waits for the provider.
    static UNTAKEN: Cell<Option<Instant>>;
}

/// The executor for hyper's stream tasks.
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

/// Resolves when a frame has waited for [`TAKE_FOR`]. The timer is moved only when it fires.
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

/// A body that stores when it handed over a frame, and that marks its connection as busy.
pub(super) struct WatchedBody {
    body: Body,
    _work: Option<RequestInProgress>,
}

impl WatchedBody {
    /// A complete answer does not keep the connection busy: how fast it is read depends only on the client.
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
        // An error here means HTTP/1.1.
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
