//! A bounded decoder for `application/vnd.amazon.eventstream`, AWS's binary event stream: cuts bytes into frames, and
//! parses a frame. Not for payloads: the dialect reads them.
//!
//! A frame is a prelude (frame length, header length, checksum of both), headers, a payload and a checksum of all.
//! Numbers are big-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::sse::{EventBuffer, EventTooLong, FrameError, SseEvent};

/// Two lengths and their checksum, in bytes.
const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// Bytes of a frame of AWS's event stream. AWS sends far smaller ones.
const FRAME_MAX: usize = 8 << 20;
/// Type of a header that is text with a length before it.
const TEXT: u8 = 7;

#[cfg(any(test, feature = "test-support"))]
pub mod sample;
#[cfg(test)]
mod tests;

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct BinaryScanner(EventBuffer);

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    Event,
    /// An exception that the service declares. The payload has details.
    Exception,
    /// Any other error. It has no payload.
    Error,
}

/// A parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryMessage<'a> {
    pub kind: BinaryKind,
    /// `:event-type`, `:exception-type` or `:error-code`.
    pub name: &'a str,
    /// `:error-message`
    pub error: Option<&'a str>,
    pub payload: &'a [u8],
}

impl BinaryScanner {
    /// A scanner that fails on a frame of more than `max` bytes.
    pub fn new(max: usize) -> BinaryScanner {
        BinaryScanner(EventBuffer::new(max.min(FRAME_MAX)))
    }

    /// Adds the next read. All events of the previous read must have been taken with [`BinaryScanner::next_event`].
    pub fn push(&mut self, chunk: Bytes) {
        self.0.push(chunk);
    }

    /// The next complete frame, or none until more is pushed. A frame within one read is not copied.
    ///
    /// # Errors
    /// If a frame exceeds the bound, or a checksum or a length is wrong. The scanner is then unusable.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, FrameError> {
        let EventBuffer { chunk, carry, max, .. } = &mut self.0;
        if carry.is_empty()
            && let Some(length) = frame_length(chunk, *max)?
            && length <= chunk.len()
        {
            return whole(chunk.split_to(length)).map(Some);
        }
        if !self.carry_to(PRELUDE) {
            return Ok(None);
        }
        match frame_length(&self.0.carry, self.0.max)? {
            Some(length) if self.carry_to(length) => whole(self.0.carry.split().freeze()).map(Some),
            _ => Ok(None),
        }
    }

    /// Fills `carry` up to `length` bytes. False if there are not enough yet.
    fn carry_to(&mut self, length: usize) -> bool {
        let EventBuffer { chunk, carry, .. } = &mut self.0;
        let missing = length.saturating_sub(carry.len()).min(chunk.len());
        carry.extend_from_slice(&chunk[..missing]);
        chunk.advance(missing);
        carry.len() >= length
    }
}

/// The length of the frame that begins here. None if its prelude is incomplete.
fn frame_length(bytes: &[u8], max: usize) -> Result<Option<usize>, FrameError> {
    let Some(prelude) = bytes.first_chunk::<PRELUDE>() else { return Ok(None) };
    let [total, headers, checksum] = [0, 4, 8].map(|at| number(prelude, at));
    if crc32fast::hash(&prelude[..8]) != checksum {
        return Err(FrameError::Damaged("the checksum of its prelude is wrong"));
    }
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    if total > max {
        return Err(EventTooLong::Bytes { max }.into());
    }
    let around = PRELUDE + CHECKSUM;
    match total.checked_sub(around) {
        Some(rest) if usize::try_from(headers).is_ok_and(|headers| headers <= rest) => Ok(Some(total)),
        _ => Err(FrameError::Damaged("its lengths do not fit together")),
    }
}

/// A complete frame, once its checksum is verified.
fn whole(raw: Bytes) -> Result<SseEvent, FrameError> {
    match raw.split_last_chunk::<CHECKSUM>() {
        Some((rest, checksum)) if crc32fast::hash(rest) == u32::from_be_bytes(*checksum) => Ok(SseEvent { raw }),
        _ => Err(FrameError::Damaged("its checksum is wrong")),
    }
}

/// The number at `at`; 0 if the bytes end before it.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |four| u32::from_be_bytes(*four))
}

/// Parses a frame of a [`BinaryScanner`]. None if its headers are damaged or do not name its type.
pub fn message(raw: &[u8]) -> Option<BinaryMessage<'_>> {
    let (prelude, rest) = raw.split_at_checked(PRELUDE)?;
    let (rest, _) = rest.split_at_checked(rest.len().checked_sub(CHECKSUM)?)?;
    let (mut headers, payload) = rest.split_at_checked(usize::try_from(number(prelude, 4)).ok()?)?;
    let (mut kind, mut event, mut exception, mut code, mut error) = (None, None, None, None, None);
    while !headers.is_empty() {
        let (name, value) = header(&mut headers)?;
        match name {
            b":message-type" => kind = value,
            b":event-type" => event = value,
            b":exception-type" => exception = value,
            b":error-code" => code = value,
            b":error-message" => error = value,
            _ => {}
        }
    }
    let (kind, name) = match kind? {
        "event" => (BinaryKind::Event, event?),
        "exception" => (BinaryKind::Exception, exception?),
        "error" => (BinaryKind::Error, code.unwrap_or_default()),
        _ => return None,
    };
    Some(BinaryMessage { kind, name, error, payload })
}

/// Takes the next header: its name, and its value if it is text.
fn header<'a>(headers: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a str>)> {
    let length = usize::from(headers.try_get_u8().ok()?);
    let name = take(headers, length)?;
    let kind = headers.try_get_u8().ok()?;
    let length = match kind {
        // True and false.
        0 | 1 => 0,
        // Numbers of one, two, four and eight bytes.
        2 => 1,
        3 => 2,
        4 => 4,
        // Also a timestamp.
        5 | 8 => 8,
        // Bytes and text.
        6 | TEXT => usize::from(headers.try_get_u16().ok()?),
        // A UUID.
        9 => 16,
        _ => return None,
    };
    let value = take(headers, length)?;
    match kind {
        TEXT => Some((name, Some(std::str::from_utf8(value).ok()?))),
        _ => Some((name, None)),
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Appends an event as AWS sends it. Its name must be shorter than 64 KiB and its payload than 4 GiB, or nothing is appended.
pub fn write_event(name: &str, payload: &[u8], out: &mut BytesMut) {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    write(&headers, payload, out);
}

fn write(headers: &[(&str, &str)], payload: &[u8], out: &mut BytesMut) {
    let mut written = BytesMut::new();
    for (name, value) in headers {
        let (Ok(name_length), Ok(value_length)) = (u8::try_from(name.len()), u16::try_from(value.len())) else {
            return;
        };
        written.put_u8(name_length);
        written.put_slice(name.as_bytes());
        written.put_u8(TEXT);
        written.put_u16(value_length);
        written.put_slice(value.as_bytes());
    }
    let total = PRELUDE + written.len() + payload.len() + CHECKSUM;
    let (Ok(total), Ok(length)) = (u32::try_from(total), u32::try_from(written.len())) else { return };
    let start = out.len();
    out.put_u32(total);
    out.put_u32(length);
    out.put_u32(crc32fast::hash(&out[start..]));
    out.put_slice(&written);
    out.put_slice(payload);
    out.put_u32(crc32fast::hash(&out[start..]));
}
