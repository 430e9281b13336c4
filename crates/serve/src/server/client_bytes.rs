//! What is looked at in the bytes of a client before hyper reads them. All of them pass through.
//!
//! Of HTTP/1.1: what delimits requests. hyper takes a bare line feed as the end of a line, other codings before `chunked`, and
//! a length in addition. A proxy in front may read each of these in another way, and then sends, within what it takes for one
//! request, another that it never checked. A request that is not clear ends in a NUL, which hyper answers with a 400 and the
//! end of the connection.
//!
//! Of HTTP/2: the beginnings of frames, so that few heads come in at once. hyper reads all that has come before it asks whether
//! a request may begin, and makes room for each: a client that sends a thousand heads of 13 bytes would take a megabyte for the
//! length of its connection before any of them is refused.
//!
//! Of both: how large a buffer hyper reads into, which it enlarges for a head that does not end, and keeps. Not for what
//! headers mean (`host_check`), nor for how many requests may run (`connection_slots`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};

use super::connection_place::ConnectionPlace;
use super::socket::PREFACE;

/// Hands all writes on to the field `stream`.
macro_rules! write_through {
    ($wrapper:ident) => {
        impl<S: ::tokio::io::AsyncWrite + Unpin> ::tokio::io::AsyncWrite for $wrapper<S> {
            fn poll_write(
                mut self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
                bytes: &[u8],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                ::std::pin::Pin::new(&mut self.stream).poll_write(context, bytes)
            }

            fn poll_write_vectored(
                mut self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
                slices: &[::std::io::IoSlice<'_>],
            ) -> ::std::task::Poll<::std::io::Result<usize>> {
                ::std::pin::Pin::new(&mut self.stream).poll_write_vectored(context, slices)
            }

            fn is_write_vectored(&self) -> bool {
                self.stream.is_write_vectored()
            }

            fn poll_flush(
                mut self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                ::std::pin::Pin::new(&mut self.stream).poll_flush(context)
            }

            fn poll_shutdown(
                mut self: ::std::pin::Pin<&mut Self>,
                context: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                ::std::pin::Pin::new(&mut self.stream).poll_shutdown(context)
            }
        }
    };
}

/// Bytes of a line that are looked at; a header that delimits a body is shorter.
const LINE_MAX: usize = 64;
/// Digits of a chunk's size.
const DIGITS_MAX: usize = 16;
/// The headers that say where a body ends.
const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";
/// Completes the head that is refused: hyper does not look for a fault in an incomplete one.
const END: &[u8] = b"\r\n\r\n";

/// A client's connection whose requests are checked.
pub(super) struct CheckedStream<S> {
    stream: S,
    check: HeadCheck,
    /// A request was refused: nothing more is read. True until hyper has got [`END`].
    refused: Option<bool>,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S) -> CheckedStream<S> {
        CheckedStream { stream, check: HeadCheck::default(), refused: None }
    }

    /// The stream, for what is no HTTP any more.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(is_open) = &mut this.refused {
            if std::mem::take(is_open) {
                buffer.put_slice(&END[..END.len().min(buffer.remaining())]);
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let read = &mut buffer.filled_mut()[before..];
        if let Some(fault) = this.check.fault(read) {
            read[fault] = 0;
            buffer.set_filled(before + fault + 1);
            this.refused = Some(true);
        }
        Poll::Ready(Ok(()))
    }
}

write_through!(CheckedStream);

/// The position in the requests of a connection.
struct HeadCheck {
    line: LineKind,
    /// Bytes that pass unread before the line: a body, or a chunk.
    skip: u64,
    /// The beginning of a line whose end has not come, and its length.
    kept: [u8; LINE_MAX],
    kept_len: usize,
    /// The last byte of that line.
    last: u8,
    /// What the head so far says of its body.
    length: Option<u64>,
    chunked: bool,
}

/// What the next line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    /// Of the request, or an empty line before it.
    Request,
    Header,
    ChunkSize,
    Trailer,
}

/// A line that is not clear.
struct Unclear;

impl Default for HeadCheck {
    fn default() -> HeadCheck {
        let (kept, line) = ([0; LINE_MAX], LineKind::Request);
        HeadCheck { line, skip: 0, kept, kept_len: 0, last: 0, length: None, chunked: false }
    }
}

impl HeadCheck {
    /// Takes the next bytes. Returns the position of the line feed at the end of the first line that is not clear.
    fn fault(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.skip > 0 {
                let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.skip -= passed as u64;
                at += passed;
                continue;
            }
            let rest = &bytes[at..];
            let Some(end) = memchr(b'\n', rest) else {
                self.keep(rest);
                return None;
            };
            if !self.is_plain(rest, end) && self.end_line(&rest[..end]).is_err() {
                return Some(at + end);
            }
            at += end + 1;
        }
        None
    }

    /// Whether what begins here is a header that says nothing of the body, as most lines are. It ends at `end`.
    fn is_plain(&self, line: &[u8], end: usize) -> bool {
        // The colon follows the name at once.
        let may_delimit = |name: &[u8]| line.get(name.len()) == Some(&b':');
        let is_whole_header = self.line == LineKind::Header && self.kept_len == 0 && end > 1;
        is_whole_header && line[end - 1] == b'\r' && !may_delimit(CONTENT_LENGTH) && !may_delimit(TRANSFER_ENCODING)
    }

    /// A part of a line without its end.
    fn keep(&mut self, part: &[u8]) {
        if let Some(room) = self.kept.get_mut(self.kept_len..) {
            let taken = part.len().min(room.len());
            room[..taken].copy_from_slice(&part[..taken]);
        }
        self.kept_len = self.kept_len.saturating_add(part.len());
        self.last = part.last().copied().unwrap_or(self.last);
    }

    /// The rest of a line, up to its line feed.
    fn end_line(&mut self, rest: &[u8]) -> Result<(), Unclear> {
        if self.kept_len == 0 {
            let line = rest.strip_suffix(b"\r").ok_or(Unclear)?;
            return self.take(&line[..line.len().min(LINE_MAX)], line.len());
        }
        self.keep(rest);
        let (kept, length, last) = (self.kept, std::mem::take(&mut self.kept_len), self.last);
        if last != b'\r' {
            return Err(Unclear);
        }
        self.take(&kept[..(length - 1).min(LINE_MAX)], length - 1)
    }

    /// A line, or the beginning of one of this length.
    fn take(&mut self, line: &[u8], length: usize) -> Result<(), Unclear> {
        self.line = match self.line {
            LineKind::Request if line.is_empty() => LineKind::Request,
            LineKind::Request => LineKind::Header,
            LineKind::Header if line.is_empty() => return self.end_head(),
            LineKind::Header => {
                self.header(line, length)?;
                LineKind::Header
            }
            LineKind::ChunkSize => match chunk_size(line)? {
                0 => LineKind::Trailer,
                size => {
                    // Its own line end behind it.
                    self.skip = size.checked_add(2).ok_or(Unclear)?;
                    LineKind::ChunkSize
                }
            },
            LineKind::Trailer if line.is_empty() => LineKind::Request,
            LineKind::Trailer => LineKind::Trailer,
        };
        Ok(())
    }

    fn end_head(&mut self) -> Result<(), Unclear> {
        let (length, chunked) = (self.length.take(), std::mem::take(&mut self.chunked));
        if length.is_some() && chunked {
            return Err(Unclear);
        }
        self.skip = length.unwrap_or(0);
        self.line = if chunked { LineKind::ChunkSize } else { LineKind::Request };
        Ok(())
    }

    fn header(&mut self, line: &[u8], length: usize) -> Result<(), Unclear> {
        // hyper refuses a line without a colon right behind the name.
        let is = |name: &[u8]| line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
        let (is_length, is_coding) = (is(CONTENT_LENGTH), is(TRANSFER_ENCODING));
        if (is_length || is_coding) && length > LINE_MAX {
            return Err(Unclear);
        }
        if is_length {
            let value = line[CONTENT_LENGTH.len() + 1..].trim_ascii();
            let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let said = digits.and_then(|digits| digits.parse().ok()).ok_or(Unclear)?;
            if self.length.replace(said).is_some_and(|before| before != said) {
                return Err(Unclear);
            }
        } else if is_coding {
            let value = line[TRANSFER_ENCODING.len() + 1..].trim_ascii();
            if std::mem::replace(&mut self.chunked, true) || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Unclear);
            }
        }
        Ok(())
    }
}

/// The size at the beginning of a chunk's line.
fn chunk_size(line: &[u8]) -> Result<u64, Unclear> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > DIGITS_MAX {
        return Err(Unclear);
    }
    let digits = std::str::from_utf8(&line[..digits]).map_err(|_| Unclear)?;
    u64::from_str_radix(digits, 16).map_err(|_| Unclear)
}

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

pub(super) struct CountedReads<S> {
    pub stream: S,
    pub connection: Arc<ConnectionPlace>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.connection.reads_into(buffer.remaining());
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

write_through!(CountedReads);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    /// The position of the fault in `text`, which comes in parts of these lengths, again and again.
    fn fault(text: &[u8], parts: &[usize]) -> Option<usize> {
        let (mut check, mut at) = (HeadCheck::default(), 0);
        for part in parts.iter().cycle() {
            let end = (at + part).min(text.len());
            if let Some(fault) = check.fault(&text[at..end]) {
                return Some(at + fault);
            }
            at = end;
            if at == text.len() {
                return None;
            }
        }
        None
    }

    /// However it comes.
    fn fault_in_any_parts(text: &str) -> Option<usize> {
        let whole = fault(text.as_bytes(), &[text.len().max(1)]);
        assert_eq!(fault(text.as_bytes(), &[1]), whole, "{text:?} byte by byte");
        for split in 1..text.len() {
            assert_eq!(fault(text.as_bytes(), &[split, text.len()]), whole, "{text:?} at {split}");
        }
        whole
    }

    #[test]
    fn what_is_clear_passes_and_what_is_not_ends_at_its_line_feed() {
        let post = |headers: &str, body: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n{body}");
        let chunked = "Transfer-Encoding: chunked\r\n";
        let long = "x".repeat(100);
        for clear in [
            GET.to_owned(),
            format!("\r\n\r\n{GET}{GET}"),
            post("content-length: 5\r\n", "a\nb\n\n") + GET,
            post("Content-Length:  5 \r\ncontent-length: 5\r\n", "\n\n\n\n\n") + GET,
            post("content-length: 0\r\n", "") + GET,
            post("transfer-encoding:\tCHUNKED\r\n", "3\r\na\nb\r\n0\r\n\r\n") + GET,
            post(chunked, "A;name=value\r\n\n\n\n\n\n\n\n\n\n\n\r\n00\r\nx: y\r\n\r\n") + GET,
            post(&format!("content-type: {long}\r\ntraceparent: {long}\r\nx-{long}: content-length: 3\r\n"), "") + GET,
            post("content-lengths: x\r\ntransfer-encodings: x\r\ncookie: a\r\n", "") + GET,
            // hyper refuses these itself.
            post("content-length : 7\r\n", "") + GET,
            post("transfer-encoding\r\n", "") + GET,
        ] {
            assert_eq!(fault_in_any_parts(&clear), None, "{clear:?}");
        }
        for (before, after) in [
            ("\n", "GET / HTTP/1.1\r\n\r\n"),
            ("GET / HTTP/1.1\n", "host: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\n", "\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\r\n\n", ""),
            ("GET / HTTP/1.1\r\nx: a\n", "Content-Length: 9\r\n\r\n"),
            (&format!("{GET}GET / HTTP/1.1\r\nx: y\n"), "\r\n"),
            (&(post("content-length: 2\r\n", "{}") + "GET / HTTP/1.1\n"), "\r\n"),
            (&(post(chunked, "1\r\n\n\r\n0\r\n\r\n") + "GET / HTTP/1.1\n"), "\r\n"),
            (&post(chunked, "1\n"), "a\r\n0\r\n\r\n"),
            (&post(chunked, "2;a\n"), "{}\r\n0\r\n\r\n"),
            (&post(chunked, "0\r\nx: y\n"), "\r\n"),
            (&post(chunked, "\r\n"), "0\r\n\r\n"),
            (&post(chunked, "-1\r\n"), ""),
            (&post(chunked, "ffffffffffffffff\r\n"), ""),
            (&post(chunked, "00000000000000001\r\n"), ""),
            ("POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: Chunked;x=y\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ntransfer-encoding:\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ncontent-length: +2\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ncontent-length: 2, 2\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n", "\r\n"),
            ("POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", "0\r\n\r\n"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", "0\r\n\r\n"),
            (&format!("POST / HTTP/1.1\r\ncontent-length: {}2\r\n", " ".repeat(60)), "\r\n"),
        ] {
            assert_eq!(fault_in_any_parts(&format!("{before}{after}")), Some(before.len() - 1), "{before:?}");
        }
    }

    #[tokio::test]
    async fn after_a_fault_comes_the_end_of_the_head_and_nothing_more() {
        let text = format!("{GET}GET / HTTP/1.1\r\nx: y\nSECRET: z\r\n\r\n{GET}");
        let mut stream = CheckedStream::new(std::io::Cursor::new(text.clone().into_bytes()));
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        let fault = text.find("\nSECRET").unwrap();
        assert_eq!(read, [&text.as_bytes()[..fault], b"\0\r\n\r\n"].concat());
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_parts_are_read_alike(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "\r\n", "\n", "\r", "GET / HTTP/1.1\r\n", "content-length: 3\r\n", "transfer-encoding: chunked\r\n", "3", "0", "abc", ":", ";", " ",
            ]), 0..40),
            parts in proptest::collection::vec(1_usize..30, 1..8),
        ) {
            let text = words.concat();
            prop_assert_eq!(fault(text.as_bytes(), &parts), fault(text.as_bytes(), &[text.len().max(1)]));
        }
    }
}

#[cfg(test)]
mod stream_heads_tests {
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
