//! The answer of an upstream. At its end the body returns an HTTP/1.1 connection to the pool. If it is dropped before,
//! it closes the connection, or resets the stream of an HTTP/2 connection. A compressed body is decoded.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::connection_error::{HEADERS_MAX, SendError, failure_of, of_http1, too_large_head};
use super::http1::Http1Connection;
use super::http2::Stream;
use super::pool::{Pool, PooledConnection};
use super::upload::RequestBody;
use photofinish_base::coding::{ContentCoding, Decoder, STEP_MAX, Step, Undecodable, UnknownCoding};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::memory::{Lease, Memory, MemoryFull};
use photofinish_base::pace::YieldPace;

/// Head and body.
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ResponseBody,
}

/// The bytes of an answer as they arrive.
pub struct ResponseBody {
    incoming: Incoming,
    connection: HeldConnection,
    /// None for a plain body.
    decoding: Option<Box<Decoding>>,
    /// Limits frames without data and bytes that decode to nothing, which no reader sees.
    pace: YieldPace,
}

enum HeldConnection {
    Http1(Http1Connection, OpenAnswer),
    Http2(Stream),
    Ended,
}

/// An answer over HTTP/1.1. If it is dropped before its end its connection is closed, and the pool replaces it.
struct OpenAnswer {
    pool: Arc<Pool>,
    /// It has ended, or none came.
    is_over: bool,
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        if !self.is_over {
            self.pool.closes_http1();
        }
    }
}

impl PooledConnection {
    /// Sends the request and waits for the head of the answer. The body returns the connection at its end.
    pub(super) async fn send(self, request: Request<RequestBody>, pool: &Arc<Pool>) -> Result<Response, SendError> {
        let (response, connection) = match self {
            PooledConnection::Http1 { mut connection, .. } => {
                let mut open = OpenAnswer { pool: pool.clone(), is_over: false };
                match connection.send(request).await {
                    Ok(response) => (response, HeldConnection::Http1(connection, open)),
                    Err((error, unsent)) => {
                        open.is_over = true;
                        return Err(of_http1(&error, unsent, connection.heard()));
                    }
                }
            }
            PooledConnection::Http2 { mut stream, .. } => (stream.send(request).await?, HeldConnection::Http2(stream)),
        };
        let (mut head, incoming) = response.into_parts();
        if head.headers.len() > HEADERS_MAX {
            return Err(SendError { failure: too_large_head(), unsent: false, died: false, wants_http1: false });
        }
        let decoding = Decoding::of(&mut head.headers);
        let body = ResponseBody { incoming, connection, decoding, pace: YieldPace::default() };
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

impl ResponseBody {
    /// Counts the memory that decoding takes.
    pub fn count_in(&mut self, memory: &Memory) {
        if let Some(decoding) = &mut self.decoding {
            decoding.count_in(memory.lease());
        }
    }

    /// The next read, decoded. None: the body has ended. Trailers are skipped.
    ///
    /// # Errors
    /// A failure of phase stream; the caller sets the phase more precisely.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if self.decoding.is_some() { self.poll_decoded(context) } else { self.poll_read(context) }
    }

    fn poll_decoded(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            let Some(decoding) = &mut self.decoding else { return Poll::Ready(None) };
            if let Some(part) = decoding.next().transpose() {
                return Poll::Ready(Some(part));
            }
            let read = ready!(self.poll_read(context));
            let Some(decoding) = &mut self.decoding else { return Poll::Ready(None) };
            match read {
                Some(Ok(coded)) => {
                    self.pace.bytes(coded.len());
                    decoding.push(coded);
                }
                Some(Err(failure)) => return Poll::Ready(Some(Err(failure))),
                None => return Poll::Ready(decoding.finish().err().map(Err)),
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            ready!(self.pace.poll_proceed(context));
            match self.poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => self.pace.event(0),
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => self.pace.event(0),
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(failure_of(&error, Phase::Stream)))),
                Poll::Ready(None) => {
                    self.give_back();
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// [`ResponseBody::poll_chunk`] as a future.
    pub async fn next_chunk(&mut self) -> Option<Result<Bytes, Failure>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.connection {
            HeldConnection::Http1(connection, _) => connection.poll_frame(&mut self.incoming, context),
            HeldConnection::Http2(_) | HeldConnection::Ended => Pin::new(&mut self.incoming).poll_frame(context),
        }
    }

    fn give_back(&mut self) {
        match std::mem::replace(&mut self.connection, HeldConnection::Ended) {
            HeldConnection::Http1(connection, mut open) if connection.may_go_on() => {
                open.is_over = true;
                open.pool.put_back_http1(connection);
            }
            HeldConnection::Http1(..) => {}
            HeldConnection::Http2(mut stream) => stream.ended = true,
            HeldConnection::Ended => {}
        }
    }
}

/// A longer name of a coding is not shown: it might be anything, the key too.
const NAME_MAX: usize = 16;

/// A body that is being decoded.
pub(super) struct Decoding {
    state: DecodingState,
    /// What has come and is not decoded yet.
    coded: Bytes,
    /// Where each step decodes to. What it holds is copied out, because little of its room is used.
    plain: Vec<u8>,
    /// Bytes decoded so far.
    size: usize,
    /// The memory of the decoder. None: not counted.
    lease: Option<Lease>,
}

enum DecodingState {
    /// No byte has come. A body without any needs no decoding.
    NotBegun(ContentCoding),
    Open(ContentCoding, Box<Decoder>),
    /// Why it cannot be decoded.
    Unknown(Failure),
    Ended,
}

impl Decoding {
    /// Decodes the body of the answer with this head, which is from now on that of a plain answer. None: it is one.
    pub fn of(headers: &mut HeaderMap) -> Option<Box<Decoding>> {
        if !headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        let names = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
        let state = match ContentCoding::of(names) {
            Ok(None) => return None,
            Ok(Some(coding)) => DecodingState::NotBegun(coding),
            Err(unknown) => DecodingState::Unknown(malformed(unknown_coding(&unknown))),
        };
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
        Some(Box::new(Decoding { state, coded: Bytes::new(), plain: Vec::new(), size: 0, lease: None }))
    }

    /// Counts the decoder's memory.
    pub fn count_in(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// Takes bytes that have come. All of the earlier ones must be decoded.
    pub fn push(&mut self, coded: Bytes) {
        self.coded = coded;
    }

    /// What can be decoded now, in parts. None: all of it is taken.
    ///
    /// # Errors
    /// The body cannot be decoded, or there is no memory for it.
    pub fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match &mut self.state {
                DecodingState::NotBegun(_) if self.coded.is_empty() => return Ok(None),
                DecodingState::NotBegun(coding) => {
                    self.state = DecodingState::Open(*coding, Box::new(coding.decoder()));
                }
                DecodingState::Unknown(failure) => return Err(failure.clone()),
                DecodingState::Ended => return Ok(None),
                DecodingState::Open(coding, decoder) => {
                    // A decoder keeps no more than it has decoded, and no more than its window.
                    let held = STEP_MAX + self.size.min(coding.window_max());
                    if self.lease.as_mut().is_some_and(|lease| lease.cover(held) == Err(MemoryFull)) {
                        let message = "the memory for bodies and buffers is in use";
                        return Err(Failure::new(FailureKind::GatewayLimit, Phase::Stream, message));
                    }
                    let mut left = &self.coded[..];
                    let step = decoder.step(&mut left, &mut self.plain);
                    let step = step.map_err(|why| undecodable(*coding, why))?;
                    let taken = self.coded.len() - left.len();
                    drop(self.coded.split_to(taken));
                    if !self.plain.is_empty() {
                        self.size = self.size.saturating_add(self.plain.len());
                        let plain = Bytes::copy_from_slice(&self.plain);
                        self.plain.clear();
                        return Ok(Some(plain));
                    }
                    if step == Step::NeedsInput {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// It is not complete.
    pub fn finish(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.state, DecodingState::Ended) {
            DecodingState::Open(coding, decoder) => decoder.finish().map_err(|why| undecodable(coding, why)),
            DecodingState::Unknown(failure) => Err(failure),
            DecodingState::NotBegun(_) | DecodingState::Ended => Ok(()),
        }
    }
}

fn malformed(message: String) -> Failure {
    Failure::new(FailureKind::Malformed, Phase::Stream, message)
}

fn undecodable(coding: ContentCoding, why: Undecodable) -> Failure {
    let name = coding.as_str();
    malformed(match why {
        Undecodable::Invalid => format!("the answer is not valid {name}, as its content-encoding says"),
        Undecodable::Cut => format!("the answer ends too early: its {name} is not complete"),
    })
}

fn unknown_coding(unknown: &UnknownCoding) -> String {
    let is_word = |name: &str| name.len() <= NAME_MAX && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    match unknown {
        UnknownCoding::Name(name) if is_word(name) => {
            format!("the answer has the content-encoding {name}, which cannot be decoded")
        }
        UnknownCoding::Name(_) => "the answer has a content-encoding that cannot be decoded".to_owned(),
        UnknownCoding::Several => "the answer has more than one content-encoding, which cannot be decoded".to_owned(),
    }
}

#[cfg(test)]
mod decoding_tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use photofinish_base::memory::Memory;

    fn of(values: &[&str]) -> (Option<Box<Decoding>>, HeaderMap) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(9));
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        (Decoding::of(&mut headers), headers)
    }

    /// What one piece decodes to.
    fn taken(decoding: &mut Decoding, coded: impl Into<Bytes>) -> Result<Vec<u8>, Failure> {
        decoding.push(coded.into());
        let mut plain = Vec::new();
        while let Some(part) = decoding.next()? {
            plain.extend_from_slice(&part);
        }
        Ok(plain)
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_head_is_from_then_on_that_of_a_plain_answer() {
        for plain in [&[][..], &["identity"], &[""]] {
            let (decoding, headers) = of(plain);
            assert!(decoding.is_none() && headers.contains_key(CONTENT_LENGTH), "{plain:?}");
        }
        for coded in [&["gzip"][..], &["br"], &["compress"], &["gzip", "br"]] {
            let (decoding, headers) = of(coded);
            assert!(decoding.is_some() && headers.is_empty(), "{coded:?}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_says_why() {
        let whole = gzip(b"data: a\n\n");
        let behind = [&whole[..], b"more than its end"].concat();
        for (values, coded, expected) in [
            (&["gzip"][..], &whole[..], Ok("data: a\n\n")),
            (&["gzip"], b"", Ok("")),
            (&["gzip"], &whole[..whole.len() - 3], Err("the answer ends too early: its gzip is not complete")),
            (
                &["gzip"],
                b"{\"error\": \"plain text\"}",
                Err("the answer is not valid gzip, as its content-encoding says"),
            ),
            (&["gzip"], &behind, Err("the answer is not valid gzip, as its content-encoding says")),
            (&["gzip, br"], &whole, Err("the answer has more than one content-encoding, which cannot be decoded")),
            (&["lzma"], &whole, Err("the answer has the content-encoding lzma, which cannot be decoded")),
            (&["sk-0123456789abcdef"], &whole, Err("the answer has a content-encoding that cannot be decoded")),
        ] {
            let mut decoding = of(values).0.unwrap();
            let mut decoded = taken(&mut decoding, coded.to_vec());
            if decoded.is_ok() {
                decoded = decoding.finish().and(decoded);
            }
            let decoded = decoded.map(|plain| String::from_utf8(plain).unwrap());
            let decoded = decoded.map_err(|failure| (failure.kind, failure.message));
            let expected = expected.map(str::to_owned).map_err(|why| (FailureKind::Malformed, why.to_owned()));
            assert_eq!(decoded, expected, "{values:?}");
        }
    }

    #[test]
    fn what_a_decoder_holds_is_counted() {
        let memory = Memory::new(1 << 20);
        let mut decoding = of(&["zstd"]).0.unwrap();
        decoding.count_in(memory.lease());
        let mut coded = Vec::with_capacity(1 << 20);
        zstd_safe::compress(&mut coded, &vec![0; 4 << 20], 3).unwrap();
        let failure = taken(&mut decoding, coded).unwrap_err();
        assert_eq!(failure.kind, FailureKind::GatewayLimit);
        assert!(memory.used() > (1 << 20) - 2 * STEP_MAX);
        drop(decoding);
        assert_eq!(memory.used(), 0);
    }
}
