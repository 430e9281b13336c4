//! The answer of an upstream. At its end the body returns an HTTP/1.1 connection to the pool. If it is dropped before,
//! it closes the connection, or resets the stream of an HTTP/2 connection.

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
use super::http1::Http1Connection;
use super::http2::Stream;
use super::pool::{Pool, PooledConnection};
use crate::failure::{Failure, Phase};
use crate::pace::YieldPace;

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
    /// Limits frames without data, which no reader sees.
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
        let (head, incoming) = response.into_parts();
        let body = ResponseBody { incoming, connection, pace: YieldPace::default() };
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

impl ResponseBody {
    /// The next read. None: the body has ended. Trailers are skipped.
    ///
    /// # Errors
    /// A failure of phase stream; the caller sets the phase more precisely.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
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
