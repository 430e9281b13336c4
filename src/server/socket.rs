//! The client's socket, as hyper reads and writes it, and what hyper does not say about it.
//!
//! hyper learns that a client left only by reading, and it does not read while bytes of a next request lie in its
//! buffer, nor while it cannot write. [`ClientPresence::left`] hears it from the system instead. A client that takes nothing fails
//! its writes after [`TAKE_FOR`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A client that takes nothing for so long, while something waits for it, is gone.
pub(super) const TAKE_FOR: Duration = Duration::from_secs(300);
/// A connection with nothing on it is probed after so long, …
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// … and then again and again, until the system gives up (on Linux after nine without an answer).
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// What a client sent before it left is read by then, or never.
const READ_REST_FOR: Duration = Duration::from_millis(100);

/// The two views of one socket. Options that only TCP has fail for a socket file, which does not need them.
pub(super) fn share(stream: TcpStream) -> (Socket, ClientPresence) {
    // Without it small events wait for the client's delayed acknowledgement. An error is a client that left already.
    let _ = stream.set_nodelay(true);
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    let shared = Arc::new(SocketState { stream, reads: AtomicUsize::new(0) });
    (Socket { shared: Arc::clone(&shared), untaken: None }, ClientPresence(shared))
}

/// What hyper reads and writes.
pub(super) struct Socket {
    shared: Arc<SocketState>,
    /// Runs while a write waits.
    untaken: Option<Pin<Box<Sleep>>>,
}

/// Knows whether the client is still there.
pub(super) struct ClientPresence(Arc<SocketState>);

struct SocketState {
    stream: TcpStream,
    /// Reads that gave something, wrapping.
    reads: AtomicUsize,
}

impl ClientPresence {
    /// The client's first byte, without reading it. None: the client left.
    pub(super) async fn first_byte(&self) -> Option<u8> {
        let mut first = [0];
        let peeked = self.0.stream.peek(&mut first).await;
        matches!(peeked, Ok(1)).then_some(first[0])
    }

    /// Resolves when the client sends no more, and hyper does not read what it sent before. As everywhere in hyper, half
    /// a close is a close. Behind more than the system's receive buffer holds nothing can be heard; the next write then tells.
    pub(super) async fn left(&self) {
        self.sends_no_more().await;
        loop {
            let reads = self.0.reads.load(Ordering::Relaxed);
            // The rest may still be the body of a request.
            if !matches!(self.0.stream.peek(&mut [0]).await, Ok(1..)) {
                return;
            }
            tokio::time::sleep(READ_REST_FOR).await;
            if reads == self.0.reads.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Of urgent data, which nobody sends, tokio is not told: this interest wakes at the end alone, and not at every byte.
    #[cfg(target_os = "linux")]
    async fn sends_no_more(&self) {
        while !self.0.stream.ready(tokio::io::Interest::PRIORITY).await.is_ok_and(|ready| ready.is_read_closed()) {
            tokio::time::sleep(READ_REST_FOR).await;
        }
    }

    /// Elsewhere there is no such interest, and what hyper notices has to do.
    #[cfg(not(target_os = "linux"))]
    async fn sends_no_more(&self) {
        std::future::pending().await
    }
}

impl Socket {
    #[cfg(test)]
    pub(super) fn is_probed(&self) -> bool {
        SockRef::from(&self.shared.stream).keepalive().is_ok_and(|on| on)
    }

    /// Tries until the system has no room, and then for [`TAKE_FOR`].
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while self.shared.stream.poll_write_ready(context)?.is_ready() {
            match send(&self.shared.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    self.untaken = None;
                    return Poll::Ready(sent);
                }
            }
        }
        let untaken = self.untaken.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKE_FOR)));
        ready!(untaken.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let SocketState { stream, reads } = &*self.shared;
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    reads.fetch_add(1, Ordering::Relaxed);
                    return Poll::Ready(read.map(|_| ()));
                }
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.shared.stream).shutdown(std::net::Shutdown::Write))
    }
}
