//! A socket, plain or with TLS, that counts and bounds the bytes an HTTP connection reads.
//!
//! hyper skips any number of informational answers (1xx), answers any number of PING and SETTINGS frames, also on an idle
//! connection, and continues to read within one poll while there are bytes. All of it is bounded here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes read before other tasks have their turn.
const TURN_MAX: usize = 256 * 1024;
/// Heads of answers, including informational ones and trailers, that may arrive over an HTTP/2 connection between two requests.
/// Normal streams have two each.
const HEADS_MAX: i64 = 1_000;
/// Frames without data that an HTTP/2 connection may receive more than it receives frames with data, and more than it sends
/// KiB, between two requests. A peer that pings every second for an hour keeps to it, and so does one that reports every
/// 4 KiB of a body that it reads.
const FRAMES_MAX: i64 = 10_000;
/// The head of an HTTP/2 frame: its length, its type, and parts that are not read.
const FRAME_HEAD: usize = 9;
/// The type of a frame with a part of an answer.
const DATA: u8 = 0;
/// The type of a frame that begins the head of an answer.
const HEADERS: u8 = 1;

/// Shared between the stream and the sender of requests.
#[derive(Debug)]
pub(super) struct StreamCount {
    /// Bytes that were read since the connection was opened.
    read: AtomicU64,
    /// After this many bytes a further read is an error.
    read_max: AtomicU64,
    /// The peer takes no more at this moment.
    is_blocked: AtomicBool,
    /// Heads that may still arrive; HTTP/2 only.
    heads_left: AtomicI64,
    /// Frames without data that may still arrive; HTTP/2 only.
    frames_left: AtomicI64,
}

impl StreamCount {
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether bytes wait until the peer takes them.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
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
        self.frames_left.store(FRAMES_MAX, Ordering::Relaxed);
    }

    /// Allows some more frames without data, or fewer. False: too many have arrived.
    fn allow(&self, more: i64) -> bool {
        let before = self.frames_left.load(Ordering::Relaxed);
        let left = before.saturating_add(more).min(FRAMES_MAX);
        if left != before {
            // Only the connection itself changes it, and a request, which allows the maximum.
            self.frames_left.store(left, Ordering::Relaxed);
        }
        left >= 0
    }
}

pub(super) struct CountedStream<S> {
    stream: S,
    count: Arc<StreamCount>,
    /// Bytes of this turn.
    turn: usize,
    /// Bytes that were sent, below one KiB.
    sent: usize,
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

/// The frames that begin in a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FrameCounts {
    heads: i64,
    with_data: i64,
    /// Heads included.
    without_data: i64,
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
        let (heads_left, frames_left) = (AtomicI64::new(HEADS_MAX), AtomicI64::new(FRAMES_MAX));
        let is_blocked = AtomicBool::new(false);
        let count = Arc::new(StreamCount { read, read_max, is_blocked, heads_left, frames_left });
        (CountedStream { stream, count: count.clone(), turn: 0, sent: 0, frames }, count)
    }

    fn has_sent(&mut self, sent: &Poll<io::Result<usize>>) {
        self.count.is_blocked.store(sent.is_pending(), Ordering::Relaxed);
        if let (Some(_), Poll::Ready(Ok(sent))) = (&self.frames, sent) {
            self.sent += sent;
            if self.sent >= 1024 {
                self.count.allow(i64::try_from(self.sent / 1024).unwrap_or(i64::MAX));
                self.sent %= 1024;
            }
        }
    }
}

impl Frames {
    /// The frames that begin in these bytes.
    fn counts_in(&mut self, mut bytes: &[u8]) -> FrameCounts {
        let mut counts = FrameCounts::default();
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
                let has_data = kind == DATA && self.rest > 0;
                counts.heads += i64::from(kind == HEADERS);
                counts.with_data += i64::from(has_data);
                counts.without_data += i64::from(!has_data);
            }
        }
        counts
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
        let Some(frames) = &mut self.frames else { return result };
        let FrameCounts { heads, with_data, without_data } = frames.counts_in(&buffer.filled()[before..]);
        if heads > 0 && self.count.heads_left.fetch_sub(heads, Ordering::Relaxed) < heads {
            return Poll::Ready(Err(endless("informational answers")));
        }
        if !self.count.allow(with_data - without_data) {
            return Poll::Ready(Err(endless("frames without data")));
        }
        result
    }
}

fn endless(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("too many {what}: nothing more is read"))
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.has_sent(&sent);
        sent
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.has_sent(&sent);
        sent
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.count.is_blocked.store(flushed.is_pending(), Ordering::Relaxed);
        flushed
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
        let kinds = [(0, 4), (5, HEADERS), (200, DATA), (0, HEADERS), (9, HEADERS), (0, DATA), (1, DATA)];
        let bytes = kinds.map(|(length, kind)| frame(length, kind)).concat();
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut sum = FrameCounts::default();
            for counts in bytes.chunks(size).map(|chunk| frames.counts_in(chunk)) {
                sum.heads += counts.heads;
                sum.with_data += counts.with_data;
                sum.without_data += counts.without_data;
            }
            assert_eq!(sum, FrameCounts { heads: 3, with_data: 2, without_data: 5 }, "{size}");
        }
    }

    /// Frames of 17 bytes: PING, or another type.
    fn frames(kind: u8, number: i64) -> Vec<u8> {
        [&[0, 0, 8, kind, 0, 0, 0, 0, 0][..], b"12345678"].concat().repeat(number.try_into().unwrap())
    }

    /// Reads everything; returns the number of whole frames before an error.
    async fn read_frames(near: &mut CountedStream<std::io::Cursor<Vec<u8>>>) -> usize {
        let (mut bytes, mut read) = ([0; 17], 0);
        while near.read_exact(&mut bytes).await.is_ok() {
            read += 1;
        }
        read
    }

    #[tokio::test]
    async fn frames_without_data_have_a_bound_on_an_idle_connection() {
        let most = usize::try_from(FRAMES_MAX).unwrap();
        // PING, SETTINGS, PRIORITY, WINDOW_UPDATE, and an unknown type.
        for kind in [6, 4, 2, 8, 0xee] {
            let (mut near, count) = CountedStream::http2(std::io::Cursor::new(frames(kind, 2 * FRAMES_MAX + 2)));
            assert_eq!(read_frames(&mut near).await, most, "{kind}");
            count.asked();
            assert_eq!(read_frames(&mut near).await, most, "{kind}: the frame that was too many is lost");
        }
        let empty = [0, 0, 0, DATA, 0, 0, 0, 0, 1].repeat(2 * most);
        let (mut near, _count) = CountedStream::http2(std::io::Cursor::new(empty));
        let mut bytes = vec![0; 9 * (most + 1)];
        assert!(near.read_exact(&mut bytes).await.is_err());
        let (mut near, _count) = CountedStream::http1(std::io::Cursor::new(frames(6, 2 * FRAMES_MAX)));
        assert_eq!(read_frames(&mut near).await, 2 * most, "HTTP/1.1 has no frames");
    }

    #[tokio::test]
    async fn data_and_what_is_sent_allow_more_frames() {
        let mixed = [frames(DATA, 1), frames(6, 1)].concat().repeat(3 * usize::try_from(FRAMES_MAX).unwrap());
        let (mut near, _count) = CountedStream::http2(std::io::Cursor::new(mixed.clone()));
        assert_eq!(read_frames(&mut near).await, mixed.len() / 17);
        let (mut far, near) = tokio::io::duplex(1 << 20);
        let (mut near, count) = CountedStream::http2(near);
        assert!(count.allow(-FRAMES_MAX) && !count.allow(-1));
        for _ in 0..3 {
            near.write_all(&[0; 700]).await.unwrap();
        }
        assert!(count.allow(-1) && !count.allow(-1), "2,100 bytes, and one frame too many before");
        far.read_exact(&mut [0; 2_100]).await.unwrap();
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
