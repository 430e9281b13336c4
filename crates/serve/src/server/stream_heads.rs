//! Lets few heads of an HTTP/2 connection in at once. hyper reads all that has come before it asks whether a request may
//! begin, and makes room for each: a client that sends a thousand heads of 13 bytes would take a megabyte for the length
//! of its connection before any of them counts, let alone is refused.
//!
//! The bytes pass through. Only the beginnings of frames are looked at, and bodies are read as before. Not for how many
//! requests may run: see `connection_slots`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::version::PREFACE;
use super::write_through::write_through;

/// Heads that are read before their requests begin. Not fewer: h2 ends a connection of which 20 requests at once are reset
/// before they begin.
const HEADS_MAX: usize = 32;
/// Bytes that are read at once beyond the frame whose length is known. They may hold as many heads more.
const BEYOND_MAX: usize = 512;
/// The bytes before the payload of a frame (RFC 9113, section 4.1).
const FRAME_HEAD: usize = 9;
/// The type of a frame that begins a request.
const HEADERS: u8 = 1;

/// A client's connection that speaks HTTP/2.
pub(super) struct StreamHeads<S> {
    stream: S,
    frames: ClientFrames,
    /// Heads that were read since hyper last heard that there is nothing more to read.
    heads: usize,
    /// Nothing more is read until their requests have begun.
    waits: bool,
    begun: Begun,
}

/// Whether a request has begun since hyper last looked for more to read.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// A request begins.
    pub(super) fn begins(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl<S> StreamHeads<S> {
    pub(super) fn new(stream: S, begun: Begun) -> StreamHeads<S> {
        StreamHeads { stream, frames: ClientFrames::default(), heads: 0, waits: false, begun }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StreamHeads<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.waits {
            // hyper looks for more before each request begins. If none has begun since, all have.
            this.waits = this.begun.take();
            this.heads = 0;
        }
        if this.waits {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let most = this.frames.skip.saturating_add(BEYOND_MAX);
        let read = if buffer.remaining() <= most {
            Pin::new(&mut this.stream).poll_read(context, buffer)
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            let read = Pin::new(&mut this.stream).poll_read(context, &mut part);
            let length = part.filled().len();
            buffer.advance(length);
            read
        };
        this.heads = if read.is_pending() { 0 } else { this.heads + this.frames.heads(&buffer.filled()[before..]) };
        if this.heads >= HEADS_MAX {
            this.waits = true;
            // The next look comes before the first of them begins.
            this.begun.begins();
        }
        read
    }
}

write_through!(StreamHeads);

/// The position in the frames that a client sends.
struct ClientFrames {
    /// Bytes that pass before the next frame begins.
    skip: usize,
    /// The beginning of a frame, as far as it has come, and its length.
    head: [u8; FRAME_HEAD],
    head_len: usize,
}

impl Default for ClientFrames {
    fn default() -> ClientFrames {
        ClientFrames { skip: PREFACE.len(), head: [0; FRAME_HEAD], head_len: 0 }
    }
}

impl ClientFrames {
    /// How many heads of requests begin in the next bytes.
    fn heads(&mut self, mut bytes: &[u8]) -> usize {
        let mut heads = 0;
        loop {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            let part = (FRAME_HEAD - self.head_len).min(bytes.len() - passed);
            if part == 0 {
                return heads;
            }
            self.head[self.head_len..self.head_len + part].copy_from_slice(&bytes[passed..passed + part]);
            self.head_len += part;
            bytes = &bytes[passed + part..];
            if self.head_len == FRAME_HEAD {
                let [a, b, c, kind, ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.head_len = 0;
                heads += usize::from(kind == HEADERS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::task::coop::unconstrained;

    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut frame = u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0, 0, 0, 0, 1]);
        frame.resize(FRAME_HEAD + length, HEADERS);
        frame
    }

    fn sent(frames: &[(u8, usize)]) -> Vec<u8> {
        let frames = frames.iter().flat_map(|(kind, length)| frame(*kind, *length));
        PREFACE.iter().copied().chain(frames).collect()
    }

    #[test]
    fn heads_are_found_however_the_bytes_are_cut() {
        let (settings, data) = (4, 0);
        let bytes = sent(&[(settings, 0), (HEADERS, 4), (data, 70_000), (HEADERS, 0), (HEADERS, 300), (data, 1)]);
        for size in [1, 2, 9, 10, 512, bytes.len()] {
            let mut frames = ClientFrames::default();
            let heads: usize = bytes.chunks(size).map(|part| frames.heads(part)).sum();
            assert_eq!((heads, frames.skip, frames.head_len), (3, 0, 0), "{size}");
        }
    }

    /// What one poll of a connection reads, and how many requests begin in it: like hyper, which reads all that there is
    /// before each request.
    async fn one_poll(
        stream: &mut StreamHeads<impl AsyncRead + Unpin>,
        counted: &mut ClientFrames,
    ) -> (Vec<u8>, Vec<usize>) {
        let (mut read, mut space, mut waiting, mut peaks) = (Vec::new(), [0; 8 << 10], 0, Vec::new());
        unconstrained(poll_fn(|context| {
            loop {
                let mut buffer = ReadBuf::new(&mut space);
                match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                        read.extend_from_slice(buffer.filled());
                        waiting += counted.heads(buffer.filled());
                        peaks.push(waiting);
                    }
                    _ if waiting == 0 => return Poll::Ready(()),
                    _ => {
                        waiting -= 1;
                        stream.begun.begins();
                    }
                }
            }
        }))
        .await;
        (read, peaks)
    }

    #[tokio::test]
    async fn few_heads_are_read_before_their_requests_begin() {
        let bytes = sent(&[(HEADERS, 4); 1_000]);
        let (mut client, server) = duplex(1 << 20);
        client.write_all(&bytes).await.unwrap();
        let mut stream = StreamHeads::new(server, Begun::default());
        let (mut read, mut counted) = (Vec::new(), ClientFrames::default());
        while read.len() < bytes.len() {
            let (part, peaks) = one_poll(&mut stream, &mut counted).await;
            let most = peaks.into_iter().max().unwrap();
            assert!(most < HEADS_MAX + BEYOND_MAX / (FRAME_HEAD + 4) + 1, "{most} heads wait");
            read.extend(part);
        }
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn heads_that_begin_nothing_do_not_stop_the_reading() {
        // The trailers of requests, for example.
        let bytes = sent(&[(HEADERS, 4); 1_000]);
        let (mut client, server) = duplex(1 << 20);
        client.write_all(&bytes).await.unwrap();
        drop(client);
        let (mut stream, mut read) = (StreamHeads::new(server, Begun::default()), Vec::new());
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn a_body_is_read_at_once() {
        let bytes = sent(&[(HEADERS, 200), (0, 16 << 10), (0, 16 << 10), (0, 100)]);
        let (mut client, server) = duplex(1 << 20);
        client.write_all(&bytes).await.unwrap();
        let mut stream = StreamHeads::new(server, Begun::default());
        let (read, peaks) = one_poll(&mut stream, &mut ClientFrames::default()).await;
        assert_eq!(read, bytes);
        assert!(peaks.len() < 8, "read in {} parts", peaks.len());
        drop(client);
        assert_eq!(stream.read(&mut [0; 10]).await.unwrap(), 0, "the end of the connection is passed on");
    }
}
