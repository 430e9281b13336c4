//! An HTTP/2 connection that requests share, and a request's place on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Notify;

use super::connection_error::{SendError, of_http2};
use super::counted_stream::StreamCount;
use super::stream_choice::{AGE_MAX, ConnectionLoad, RESETS_MAX, STREAMS_MAX};
use photofinish_base::clock::Instant;

/// Assumed maximum streams of a connection before its peer announces it. Not the usual 100, so that a peer that allows
/// 100 is recognised.
pub(super) const NOT_ANNOUNCED: usize = 99;

pub(super) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    pub born: Instant,
    streams: AtomicUsize,
    /// Maximum streams of the peer, if it has announced it.
    streams_max: Arc<AtomicUsize>,
    /// The number assumed until then.
    streams_expected: usize,
    resets: AtomicUsize,
    /// Counts the bytes that are read.
    count: Arc<StreamCount>,
    /// Notified when a stream ends.
    changed: Arc<Notify>,
}

/// A stream of a shared connection; returned on drop.
pub(super) struct Stream {
    connection: Arc<Http2>,
    /// It was read to its end, or never used: dropping it resets nothing.
    pub ended: bool,
}

impl Http2 {
    pub fn new(
        sender: SendRequest<Full<Bytes>>,
        streams_max: Arc<AtomicUsize>,
        streams_expected: usize,
        count: Arc<StreamCount>,
        changed: Arc<Notify>,
    ) -> Http2 {
        Http2 {
            sender,
            born: Instant::now(),
            streams: AtomicUsize::new(0),
            streams_max,
            streams_expected,
            resets: AtomicUsize::new(0),
            count,
            changed,
        }
    }

    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// It is worn, and no stream runs over it.
    pub fn is_spent(&self) -> bool {
        self.is_worn() && self.streams.load(Ordering::Relaxed) == 0
    }

    pub fn streams_max(&self) -> usize {
        let told = self.streams_max.load(Ordering::Relaxed);
        let allowed = if told == NOT_ANNOUNCED { self.streams_expected } else { told };
        allowed.clamp(1, STREAMS_MAX)
    }

    pub fn seat(&self, passed_over: bool) -> ConnectionLoad {
        let streams = self.streams.load(Ordering::Relaxed);
        ConnectionLoad { streams, streams_max: self.streams_max(), worn: self.is_worn(), passed_over }
    }

    /// Records that the peer allows no more streams than run now, until it announces another number.
    fn is_full(&self) {
        let others = self.streams.load(Ordering::Relaxed).saturating_sub(1);
        self.streams_max.fetch_min(others, Ordering::Relaxed);
    }

    fn is_worn(&self) -> bool {
        self.resets.load(Ordering::Relaxed) >= RESETS_MAX || self.born.elapsed() >= AGE_MAX
    }
}

impl Stream {
    pub fn open(connection: Arc<Http2>) -> Stream {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        Stream { connection, ended: false }
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendError> {
        let mut sender = self.connection.sender.clone();
        self.connection.count.asked();
        let answer = sender.try_send_request(request).await;
        answer.map_err(|mut error| {
            self.ended = true;
            let returned = error.take_message().is_some();
            let error = of_http2(error.error(), returned);
            if error.unsent {
                self.connection.is_full();
            }
            error
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.resets.fetch_add(1, Ordering::Relaxed);
        }
        self.connection.streams.fetch_sub(1, Ordering::Release);
        self.connection.changed.notify_one();
    }
}
