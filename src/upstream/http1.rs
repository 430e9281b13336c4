//! One HTTP/1.1 connection. The reader of its answer drives it; it has no task.
//!
//! So all bytes of one read are passed on before the task sleeps, a token costs one wake-up instead of two, and dropping the
//! connection closes it at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::counted_stream::StreamCount;

/// Bytes of the head of an answer, including informational answers (1xx) before it.
pub(super) const HEAD_MAX: u64 = 256 * 1024;

/// Reads and writes the socket; ready when the connection has ended.
type ConnectionDriver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub(super) struct Http1Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Counts the bytes read.
    count: Arc<StreamCount>,
    /// Bytes that had been read when the latest request was sent.
    read_before: u64,
    /// None once it ended. Its error reaches the request that it breaks.
    driver: Option<ConnectionDriver>,
}

impl Http1Connection {
    /// `count` is that of the stream that `driver` reads.
    pub fn new(sender: SendRequest<Full<Bytes>>, driver: ConnectionDriver, count: Arc<StreamCount>) -> Http1Connection {
        Http1Connection { sender, count, read_before: 0, driver: Some(driver) }
    }

    /// Whether a byte has arrived since the latest request was sent.
    pub fn heard(&self) -> bool {
        self.count.read() != self.read_before
    }

    /// Whether a request can be sent now. Checks the socket, so it sees that the peer has closed it.
    pub fn is_usable(&mut self) -> bool {
        // Twice: the first poll may only finish the last answer.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// The error of the connection, and whether it came before a byte of the request was written.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, (hyper::Error, bool)> {
        self.read_before = self.count.read();
        self.count.bound(HEAD_MAX);
        let sending = self.sender.try_send_request(request);
        let mut sending = std::pin::pin!(sending);
        let driver = &mut self.driver;
        let answer = std::future::poll_fn(|context| {
            if let Poll::Ready(answer) = sending.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            drive(driver, context);
            sending.as_mut().poll(context)
        });
        let answer = answer.await.map_err(|mut error| {
            let unsent = error.take_message().is_some();
            (error.into_error(), unsent)
        });
        self.count.unbound();
        answer
    }

    /// Moves bytes between the socket and the reader of the answer.
    pub fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, context);
    }
}

fn drive(driver: &mut Option<ConnectionDriver>, context: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|running| running.as_mut().poll(context).is_ready()) {
        *driver = None;
    }
}
