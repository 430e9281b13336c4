//! A socket, plain or with TLS, that counts and bounds the bytes an HTTP connection reads.
//!
//! hyper skips any number of informational answers (1xx), and continues to read within one poll while there are bytes.
//! Both are bounded here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes read before other tasks have their turn.
const TURN_MAX: usize = 256 * 1024;
/// Heads of answers, including informational ones and trailers, that may arrive over an HTTP/2 connection between two requests.
/// Normal streams have two each.
const HEADS_MAX: i64 = 1_000;
/// The head of an HTTP/2 frame: its length, its type, and parts that are not read.
const FRAME_HEAD: usize = 9;
/// The type of a frame that begins the head of an answer.
const HEADERS: u8 = 1;

/// Shared between the stream and the sender of requests.
#[derive(Debug)]
pub(super) struct StreamCount {
    /// Bytes that were read since the connection was opened.
    read: AtomicU64,
    /// After this many bytes a further read is an error.
    read_max: AtomicU64,
    /// Heads that may still arrive; HTTP/2 only.
    heads_left: AtomicI64,
}

impl StreamCount {
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Limits the connection to this many further bytes: after them, no read begins.
    pub fn bound(&self, bytes: u64) {
        self.read_max.store(self.read().saturating_add(bytes), Ordering::Relaxed);
    }

    pub fn unbound(&self) {
        self.read_max.store(u64::MAX, Ordering::Relaxed);
    }

    /// Counts a request that is sent over HTTP/2.
    pub fn asked(&self) {
        self.heads_left.store(HEADS_MAX, Ordering::Relaxed);
    }
}

pub(super) struct CountedStream<S> {
    stream: S,
    count: Arc<StreamCount>,
    /// Bytes of this turn.
    turn: usize,
    /// None for HTTP/1.1.
    frames: Option<Frames>,
}

/// The reader's position in the frames of an HTTP/2 connection.
#[derive(Default)]
struct Frames {
    head: [u8; FRAME_HEAD],
    /// Bytes of `head` so far.
    filled: usize,
    /// Bytes of the frame that are not read yet.
    rest: usize,
}

impl<S> CountedStream<S> {
    /// Without a bound.
    pub fn http1(stream: S) -> (CountedStream<S>, Arc<StreamCount>) {
        CountedStream::new(stream, None)
    }

    /// With the bound on heads.
    pub fn http2(stream: S) -> (CountedStream<S>, Arc<StreamCount>) {
        CountedStream::new(stream, Some(Frames::default()))
    }

    fn new(stream: S, frames: Option<Frames>) -> (CountedStream<S>, Arc<StreamCount>) {
        let (read, read_max) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let count = Arc::new(StreamCount { read, read_max, heads_left: AtomicI64::new(HEADS_MAX) });
        (CountedStream { stream, count: count.clone(), turn: 0, frames }, count)
    }
}

impl Frames {
    /// The number of heads that begin in these bytes.
    fn heads_in(&mut self, mut bytes: &[u8]) -> i64 {
        let mut heads = 0;
        while !bytes.is_empty() {
            let passed = self.rest.min(bytes.len());
            self.rest -= passed;
            bytes = &bytes[passed..];
            let taken = (FRAME_HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == FRAME_HEAD {
                let [a, b, c, kind, ..] = self.head;
                self.rest = u32::from_be_bytes([0, a, b, c]) as usize;
                self.filled = 0;
                heads += i64::from(kind == HEADERS);
            }
        }
        heads
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.count.read() >= self.count.read_max.load(Ordering::Relaxed) {
            return Poll::Ready(Err(endless("bytes before the head of an answer")));
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
        let heads = self.frames.as_mut().map_or(0, |frames| frames.heads_in(&buffer.filled()[before..]));
        if heads > 0 && self.count.heads_left.fetch_sub(heads, Ordering::Relaxed) < heads {
            return Poll::Ready(Err(endless("informational answers")));
        }
        result
    }
}

fn endless(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("too many {what}: nothing more is read"))
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
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
        let (mut near, count) = CountedStream::http1(near);
        let mut bytes = [0; 8];
        count.bound(8);
        far.write_all(&[1; 20]).await.unwrap();
        assert_eq!(near.read(&mut bytes).await.unwrap(), 8);
        assert_eq!(near.read(&mut bytes).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        count.unbound();
        assert_eq!(near.read(&mut bytes).await.unwrap(), 8);
        assert_eq!(count.read(), 16);
    }

    #[test]
    fn heads_are_counted_wherever_reads_are_cut() {
        let frame = |length: u8, kind: u8| {
            [&[0, 0, length, kind, 4, 0, 0, 0, 1], vec![HEADERS; length.into()].as_slice()].concat()
        };
        let bytes = [frame(0, 4), frame(5, HEADERS), frame(200, 0), frame(0, HEADERS), frame(9, HEADERS)].concat();
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            assert_eq!(bytes.chunks(size).map(|chunk| frames.heads_in(chunk)).sum::<i64>(), 3, "{size}");
        }
    }

    #[tokio::test]
    async fn heads_have_a_bound_between_requests() {
        let head = [0, 0, 0, HEADERS, 4, 0, 0, 0, 1];
        let (mut near, count) = CountedStream::http2(std::io::Cursor::new(head.repeat(3 * HEADS_MAX as usize)));
        let mut bytes = vec![0; head.len() * HEADS_MAX as usize];
        near.read_exact(&mut bytes).await.unwrap();
        count.asked();
        near.read_exact(&mut bytes).await.unwrap();
        assert_eq!(near.read(&mut bytes).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_long_read_lets_others_have_their_turn() {
        let (mut near, _count) = CountedStream::http1(tokio::io::repeat(7));
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
