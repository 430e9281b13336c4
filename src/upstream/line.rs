//! One HTTP/1.1 connection. Whoever waits for its answer drives it: there is no task beside.
//!
//! So everything that one read brought is handed on before anybody sleeps, a token costs one wake-up and not two, and to
//! drop the connection closes it at once.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What reads and writes the socket; ready when the connection has ended.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// Bytes that were read off the socket since it was opened.
    read: Arc<AtomicU64>,
    read_before: u64,
    /// None once it ended. Its error reaches the request that it breaks.
    driver: Option<Driver>,
}

impl Line {
    /// `read` is the counter of the [`Counted`] stream that `driver` reads.
    pub fn new(sender: SendRequest<Full<Bytes>>, driver: Driver, read: Arc<AtomicU64>) -> Line {
        Line { sender, read, read_before: 0, driver: Some(driver) }
    }

    /// Whether a byte has come since the latest request was sent.
    pub fn heard(&self) -> bool {
        self.read.load(Ordering::Relaxed) != self.read_before
    }

    /// Whether a request can be sent over it right now. Looks at the socket: a peer that closed it meanwhile is seen here.
    pub fn is_usable(&mut self) -> bool {
        // Twice: the first look may only finish the bookkeeping of the last answer.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.read_before = self.read.load(Ordering::Relaxed);
        let sending = self.sender.send_request(request);
        let mut sending = std::pin::pin!(sending);
        let driver = &mut self.driver;
        std::future::poll_fn(|context| {
            if let Poll::Ready(answer) = sending.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            drive(driver, context);
            sending.as_mut().poll(context)
        })
        .await
    }

    /// Moves bytes between the socket and whoever reads the answer.
    pub fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, context);
    }
}

fn drive(driver: &mut Option<Driver>, context: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|running| running.as_mut().poll(context).is_ready()) {
        *driver = None;
    }
}

/// A stream that counts what is read of it.
pub(super) struct Counted<S> {
    stream: S,
    read: Arc<AtomicU64>,
}

impl<S> Counted<S> {
    pub fn new(stream: S) -> (Counted<S>, Arc<AtomicU64>) {
        let read = Arc::new(AtomicU64::new(0));
        (Counted { stream, read: read.clone() }, read)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
