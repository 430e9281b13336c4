//! Checks what delimits the requests of an HTTP/1.1 connection, before hyper reads them. hyper takes a bare line feed as
//! the end of a line, other codings before `chunked`, and a length beside it. A proxy in front may read each of these in
//! another way, and then sends, within what it takes for one request, another that it never checked.
//!
//! The bytes pass through. The lines of heads are looked at once, bodies are only counted. A request that is not clear ends
//! in a NUL, which hyper answers with a 400 and the end of the connection. Not for what headers mean: see `host_check`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};

use super::write_through::write_through;

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
        // The colon stands right behind a name.
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
