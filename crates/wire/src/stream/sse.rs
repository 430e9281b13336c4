//! A bounded decoder for server-sent events: cuts bytes into events and keeps the original bytes.
//!
//! Only finds the borders of events, for any split over reads: LF, CRLF or CR, a byte-order mark, comments, data in
//! several lines. An event within one read is not copied. Not a validator: [`SseEvent::fields`] and the dialect read the
//! event.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

/// Bytes of an event with many values. A larger one may have only [`SIGNS_MAX`] signs: one long text, such as an image,
/// takes the memory of its bytes when it is read, and millions of values many times that.
const VALUES_MAX: usize = 8 << 20;
/// Bytes of a larger event that are neither letters nor digits nor the signs of base64.
const SIGNS_MAX: usize = 1 << 20;
/// Bytes of an event of a stream. Who reads larger ones has bounded them already.
const STREAMED_MAX: usize = 64 << 20;

/// An event, or an unterminated line, exceeds a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventTooLong {
    #[error("an event of more than {max} bytes")]
    Bytes { max: usize },
    #[error("an event of more than {VALUES_MAX} bytes that is not one long text, such as an image")]
    Values,
}

/// Why a stream cannot be decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    TooLong(#[from] EventTooLong),
    #[error("damaged frame of the event stream: {0}")]
    Damaged(&'static str),
}

/// One event with its original bytes, closing blank line included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    pub raw: Bytes,
}

/// The fields of an event that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The value of `data`, with lines joined by LF. None without such a line.
    pub data: Option<Cow<'a, [u8]>>,
    /// The value of the last `event` line.
    pub name: Option<&'a [u8]>,
}

/// The bytes of a stream from which a scanner cuts events. Holds at most `max` bytes of an incomplete event, fewer unless it is one
/// long text.
#[derive(Debug)]
pub struct EventBuffer {
    /// Bytes received and not examined yet.
    pub chunk: Bytes,
    /// The examined beginning of an incomplete event.
    pub carry: BytesMut,
    pub max: usize,
    /// Signs of an event that is longer than [`VALUES_MAX`].
    signs: usize,
}

impl EventBuffer {
    pub fn new(max: usize) -> EventBuffer {
        EventBuffer { chunk: Bytes::new(), carry: BytesMut::new(), max, signs: 0 }
    }

    /// Adds the next read. All events of the previous read must have been taken.
    #[inline]
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut joined = BytesMut::from(std::mem::take(&mut self.chunk));
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// Takes the event that ends at `end` in the chunk. Without an end, keeps the chunk as the beginning of the event.
    #[inline]
    pub fn take(&mut self, end: Option<usize>) -> Result<Option<SseEvent>, EventTooLong> {
        let len = end.unwrap_or(self.chunk.len());
        let total = self.carry.len() + len;
        if total > self.max {
            return Err(EventTooLong::Bytes { max: self.max });
        }
        if total > VALUES_MAX && self.max <= STREAMED_MAX {
            self.count_signs(len)?;
        }
        if self.carry.is_empty() && end.is_some() {
            return Ok(Some(SseEvent { raw: self.chunk.split_to(len) }));
        }
        self.carry.extend_from_slice(&self.chunk[..len]);
        self.chunk.advance(len);
        Ok(end.map(|_| SseEvent { raw: self.carry.split().freeze() }))
    }

    /// Counts the signs of a long event: once of all that came before, and then of each further part.
    #[cold]
    fn count_signs(&mut self, len: usize) -> Result<(), EventTooLong> {
        let is_sign =
            |byte: &&u8| !(byte.is_ascii_alphanumeric() || matches!(**byte, b'+' | b'/' | b'=' | b'-' | b'_'));
        let signs = |bytes: &[u8]| bytes.iter().filter(is_sign).count();
        if self.carry.len() <= VALUES_MAX {
            self.signs = signs(&self.carry);
        }
        self.signs += signs(&self.chunk[..len]);
        if self.signs > SIGNS_MAX { Err(EventTooLong::Values) } else { Ok(()) }
    }

    /// The rest after the end of the stream.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let raw = self.carry.split().freeze();
        (!raw.is_empty()).then_some(SseEvent { raw })
    }
}

/// Cuts a byte stream into events.
#[derive(Debug)]
pub struct SseScanner {
    buffer: EventBuffer,
    /// Bytes of the current line so far.
    line_len: usize,
    /// The last byte was a CR that ended a line. An LF after it belongs to the same line end.
    after_cr: bool,
}

impl SseScanner {
    /// A scanner that fails on an event of more than `max` bytes.
    pub fn new(max: usize) -> SseScanner {
        SseScanner { buffer: EventBuffer::new(max), line_len: 0, after_cr: false }
    }

    /// Adds the next read. All events of the previous read must have been taken with [`SseScanner::next_event`].
    pub fn push(&mut self, chunk: Bytes) {
        self.buffer.push(chunk);
    }

    /// The next complete event, or none until more is pushed.
    ///
    /// # Errors
    /// [`EventTooLong`] if an event exceeds the bound. The scanner is then unusable.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        if self.buffer.chunk.is_empty() {
            return Ok(None);
        }
        let end = self.find_end();
        self.buffer.take(end)
    }

    /// The rest after the end of the stream: an event without its blank line. Some servers omit it.
    pub fn finish(&mut self) -> Option<SseEvent> {
        self.buffer.finish()
    }

    /// The end of the current event in the chunk, after its blank line.
    fn find_end(&mut self) -> Option<usize> {
        let bytes = &self.buffer.chunk[..];
        let mut position = 0;
        if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
            position = 1;
        }
        while let Some(offset) = memchr2(b'\n', b'\r', &bytes[position..]) {
            let line_end = position + offset;
            position = line_end + 1;
            if bytes[line_end] == b'\r' {
                match bytes.get(position) {
                    Some(b'\n') => position += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if std::mem::take(&mut self.line_len) + offset == 0 {
                return Some(position);
            }
        }
        self.line_len += bytes.len() - position;
        None
    }
}

impl SseEvent {
    /// Reads the fields. Borrows if the data is in one line, the usual case.
    pub fn fields(&self) -> Fields<'_> {
        let mut fields = Fields::default();
        let mut rest = self.raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.raw);
        while !rest.is_empty() {
            let (line, after) = split_line(rest);
            rest = after;
            if let Some(value) = field(line, b"data") {
                fields.data = Some(match fields.data.take() {
                    None => Cow::Borrowed(value),
                    Some(before) => {
                        // Copied only once, with the second line.
                        let mut joined = before.into_owned();
                        joined.push(b'\n');
                        joined.extend_from_slice(value);
                        Cow::Owned(joined)
                    }
                });
            } else if let Some(value) = field(line, b"event") {
                fields.name = Some(value);
            }
        }
        fields
    }
}

/// The first line without its line end, and the rest. Reads no byte after the line, because an event may have many
/// lines.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some(end) = memchr2(b'\n', b'\r', bytes) else { return (bytes, &[]) };
    let (line, rest) = bytes.split_at(end);
    (line, rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]))
}

/// The value of `line` if its field name is `name`. One space after the colon is dropped.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    fn scan(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut scanner = SseScanner::new(MAX);
        let (mut datas, mut raw) = (Vec::new(), Vec::new());
        let mut take = |event: SseEvent| {
            raw.extend_from_slice(&event.raw);
            if let Some(data) = event.fields().data {
                datas.push(data.into_owned());
            }
        };
        for chunk in chunks {
            scanner.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = scanner.next_event().unwrap() {
                take(event);
            }
        }
        if let Some(event) = scanner.finish() {
            take(event);
        }
        (datas, raw)
    }

    const STREAM: &[u8] =
        b"\xEF\xBB\xBFdata: {\"a\":1}\n\n: comment\n\ndata:no space\r\n\r\nevent: x\rdata: one\rdata:\rdata:  two\r\r\
        id: 7\nretry: 5\n\nevent: error\ndata: \xC3\xA9\xF0\x9F\x98\x80\n\ndata: [DONE]\n\n";

    fn expected() -> Vec<Vec<u8>> {
        ["{\"a\":1}", "no space", "one\n\n two", "\u{e9}\u{1F600}", "[DONE]"]
            .map(|text| text.as_bytes().to_vec())
            .into()
    }

    #[test]
    fn finds_the_same_events_however_the_bytes_are_split() {
        assert_eq!(scan(&[STREAM]), (expected(), STREAM.to_vec()));
        let single: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(scan(&single), (expected(), STREAM.to_vec()), "byte by byte");
        for first in 0..=STREAM.len() {
            let (a, rest) = STREAM.split_at(first);
            assert_eq!(scan(&[a, rest]), (expected(), STREAM.to_vec()), "split at {first}");
            for second in (first..=STREAM.len()).step_by(7) {
                let (b, c) = STREAM.split_at(second);
                let b = &b[first..];
                assert_eq!(scan(&[a, b, c]), (expected(), STREAM.to_vec()), "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn an_event_without_its_blank_line_is_kept_for_the_end() {
        assert_eq!(scan(&[b"data: a\n\ndata: b"]).0, [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(scan(&[b"data: a\r\n\r", b"\n"]).0, [b"a".to_vec()]);
    }

    #[test]
    fn an_event_in_one_read_is_not_copied() {
        let chunk = Bytes::from_static(b"data: a\n\ndata: b\n\n");
        let mut scanner = SseScanner::new(MAX);
        scanner.push(chunk.clone());
        let event = scanner.next_event().unwrap().unwrap();
        assert_eq!(event.raw.as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn an_endless_line_is_an_error_at_the_bound() {
        let mut scanner = SseScanner::new(1000);
        let mut seen = 0;
        let error = loop {
            scanner.push(Bytes::from_static(&[b'x'; 64]));
            seen += 64;
            match scanner.next_event() {
                Ok(event) => assert_eq!(event, None),
                Err(error) => break error,
            }
        };
        assert_eq!(error, EventTooLong::Bytes { max: 1000 });
        assert!(seen <= 1064, "{seen} bytes were held");
    }

    /// Reads an event with this inner text, in reads of 64 KiB. The bytes of the event or the error.
    fn long(inner: &[u8], max: usize) -> Result<usize, EventTooLong> {
        let whole = [&b"data: {\"data\":\""[..], inner, b"\"}\n\n"].concat();
        let mut scanner = SseScanner::new(max);
        for part in whole.chunks(64 << 10) {
            scanner.push(Bytes::copy_from_slice(part));
            if let Some(event) = scanner.next_event()? {
                assert_eq!(event.raw, whole);
                return Ok(event.raw.len());
            }
        }
        panic!("it has no end")
    }

    #[test]
    fn one_long_text_may_be_longer_than_many_values() {
        let (mib, text, values) = (1 << 20, b"iVBORw0KGgo+/=".as_slice(), b"[1,2.5],".as_slice());
        let of = |part: &[u8], bytes: usize| part.repeat(bytes / part.len());
        for size in [7 * mib, 12 * mib, 40 * mib, 63 * mib] {
            assert!(long(&of(text, size), 64 * mib).is_ok(), "{size}");
        }
        assert_eq!(long(&of(text, 65 * mib), 64 * mib), Err(EventTooLong::Bytes { max: 64 * mib }));
        assert_eq!(long(&of(text, 12 * mib), 8 * mib), Err(EventTooLong::Bytes { max: 8 * mib }));
        assert!(long(&of(values, 7 * mib), 64 * mib).is_ok());
        assert_eq!(long(&of(values, 9 * mib), 64 * mib), Err(EventTooLong::Values));
        let both = [of(text, 30 * mib), of(values, 3 * mib)].concat();
        assert_eq!(long(&both, 64 * mib), Err(EventTooLong::Values));
        assert!(long(&of(values, 20 * mib), 128 * mib).is_ok(), "of an answer that is whole already");
    }

    #[test]
    fn each_long_event_is_counted_by_itself() {
        let event = [&b"data: "[..], &b"abc,".repeat(1 << 18).repeat(2), &vec![b'a'; 9 << 20], b"\n\n"].concat();
        let mut scanner = SseScanner::new(64 << 20);
        for _ in 0..3 {
            scanner.push(Bytes::copy_from_slice(&event));
            assert_eq!(scanner.next_event().unwrap().unwrap().raw.len(), event.len());
        }
    }

    proptest::proptest! {
        /// The oracle is `eventsource-stream`. Its known faults (BOM, unterminated lines, CR at the end) are excluded.
        #[test]
        fn agrees_with_the_oracle(lines in proptest::collection::vec("(data: ?[a-z{}é ]{0,9}|:[a-z ]{0,5}|event: ?[a-z]{0,3}|[a-z]{0,4}: x|)", 0..40),
                                  crlf: bool, cuts in proptest::collection::vec(1usize..9, 1..20)) {
            use futures_util::{FutureExt, StreamExt};
            let mut text = lines.join(if crlf { "\r\n" } else { "\n" });
            text.push_str(if crlf { "\r\n\r\n" } else { "\n\n" });
            let mut chunks: Vec<&[u8]> = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let stream = eventsource_stream::EventStream::new(futures_util::stream::iter(
                chunks.iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)))));
            let oracle: Vec<Vec<u8>> = stream.map(|event| event.unwrap().data.into_bytes()).collect::<Vec<_>>().now_or_never().unwrap();
            let ours: Vec<Vec<u8>> = scan(&chunks).0.into_iter().filter(|data| !data.is_empty()).collect();
            let oracle: Vec<Vec<u8>> = oracle.into_iter().filter(|data| !data.is_empty()).collect();
            proptest::prop_assert_eq!(ours, oracle);
        }

        #[test]
        fn never_panics_and_passes_every_byte(chunks in proptest::collection::vec(proptest::collection::vec(proptest::sample::select(b"\r\n:d at{\xEF\xBB\xBF".to_vec()), 0..30), 0..20)) {
            let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            proptest::prop_assert_eq!(scan(&slices).1, chunks.concat());
        }
    }
}
