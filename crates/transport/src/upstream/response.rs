//! The answer of an upstream. At its end the body returns an HTTP/1.1 connection to the pool. If it is dropped before,
//! it closes the connection, or resets the stream of an HTTP/2 connection. A compressed body is decoded.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::Full;
use hyper::body::Incoming;

use super::connection_error::{SendError, failure_of, of_http1};
use super::decoding::Decoding;
use super::head::{self, HEADERS_MAX};
use super::http1::Http1Connection;
use super::http2::Stream;
use super::pool::{Pool, PooledConnection};
use photofinish_base::budget::Budget;
use photofinish_base::failure::{Failure, Phase};
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
    Http1(Http1Connection, Arc<Pool>),
    Http2(Stream),
    Ended,
}

impl PooledConnection {
    /// Sends the request and waits for the head of the answer. The body returns the connection at its end.
    pub(super) async fn send(self, request: Request<Full<Bytes>>, pool: &Arc<Pool>) -> Result<Response, SendError> {
        let (response, connection) = match self {
            PooledConnection::Http1 { mut line, .. } => match line.send(request).await {
                Ok(response) => (response, HeldConnection::Http1(line, pool.clone())),
                Err((error, unsent)) => return Err(of_http1(&error, unsent, line.heard())),
            },
            PooledConnection::Http2 { mut stream, .. } => (stream.send(request).await?, HeldConnection::Http2(stream)),
        };
        let (mut head, incoming) = response.into_parts();
        if head.headers.len() > HEADERS_MAX {
            return Err(SendError { failure: head::too_large(), unsent: false, died: false, wants_http1: false });
        }
        let decoding = Decoding::of(&mut head.headers);
        let body = ResponseBody { incoming, connection, decoding, pace: YieldPace::default() };
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

impl ResponseBody {
    /// Counts the memory that decoding takes.
    pub fn count_in(&mut self, budget: &Budget) {
        if let Some(decoding) = &mut self.decoding {
            decoding.count_in(budget.lease());
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
            HeldConnection::Http1(line, _) => line.poll_frame(&mut self.incoming, context),
            HeldConnection::Http2(_) | HeldConnection::Ended => Pin::new(&mut self.incoming).poll_frame(context),
        }
    }

    fn give_back(&mut self) {
        match std::mem::replace(&mut self.connection, HeldConnection::Ended) {
            HeldConnection::Http1(line, pool) => pool.put_back_http1(line),
            HeldConnection::Http2(mut stream) => stream.ended = true,
            HeldConnection::Ended => {}
        }
    }
}
