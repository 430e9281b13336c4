//! A socket, or TLS over one, as an HTTP connection reads it: its bytes are counted, and bounded where a bound is set.
//!
//! hyper passes over informational answers (1xx) by itself, however many come, and reads on within one poll for as long as
//! bytes are there. Both end here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read before other tasks have their turn.
const TURN_MAX: usize = 256 * 1024;

/// Shared between the stream and whoever sends requests over it.
#[derive(Debug)]
pub(super) struct Count {
    /// Bytes that were read since the connection was opened.
    read: AtomicU64,
    /// With so many bytes read, a further read is an error.
    read_max: AtomicU64,
}

impl Count {
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// From now on no read begins once so many further bytes have come.
    pub fn bound(&self, bytes: u64) {
        self.read_max.store(self.read().saturating_add(bytes), Ordering::Relaxed);
    }

    pub fn unbound(&self) {
        self.read_max.store(u64::MAX, Ordering::Relaxed);
    }
}

pub(super) struct Counted<S> {
    stream: S,
    count: Arc<Count>,
    /// Bytes of this turn.
    turn: usize,
}

impl<S> Counted<S> {
    /// Without a bound.
    pub fn new(stream: S) -> (Counted<S>, Arc<Count>) {
        let count = Arc::new(Count { read: AtomicU64::new(0), read_max: AtomicU64::new(u64::MAX) });
        (Counted { stream, count: count.clone(), turn: 0 }, count)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.count.read() >= self.count.read_max.load(Ordering::Relaxed) {
            let why = "so many bytes before the head of an answer that nothing more is read";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        if self.turn >= TURN_MAX {
            self.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.turn = if result.is_pending() { 0 } else { self.turn + read };
        self.count.read.fetch_add(read as u64, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn reading_ends_at_its_bound() {
        let (mut far, near) = tokio::io::duplex(64);
        let (mut near, count) = Counted::new(near);
        let mut bytes = [0; 8];
        count.bound(8);
        far.write_all(&[1; 20]).await.unwrap();
        assert_eq!(near.read(&mut bytes).await.unwrap(), 8);
        assert_eq!(near.read(&mut bytes).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        count.unbound();
        assert_eq!(near.read(&mut bytes).await.unwrap(), 8);
        assert_eq!(count.read(), 16);
    }

    #[tokio::test]
    async fn a_long_read_lets_others_have_their_turn() {
        let (mut near, _count) = Counted::new(tokio::io::repeat(7));
        let mut bytes = vec![0; TURN_MAX / 4];
        let turns = std::future::poll_fn(|context| {
            let mut reads = 0;
            while Pin::new(&mut near).poll_read(context, &mut ReadBuf::new(&mut bytes)).is_ready() {
                reads += 1;
            }
            Poll::Ready(reads)
        });
        assert_eq!(turns.await, 4);
    }
}
