//! An HTTP/2 connection that requests share, and a request's place on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Notify;

use super::connection_error::{SendError, of_http2};
use super::counted_stream::StreamCount;
use super::upload::RequestBody;
use photofinish_base::clock::Instant;

/// Assumed maximum streams of a connection before its peer announces it. Not the usual 100, so that a peer that allows
/// 100 is recognised.
pub(super) const NOT_ANNOUNCED: usize = 99;

pub(super) struct Http2 {
    sender: SendRequest<RequestBody>,
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
        sender: SendRequest<RequestBody>,
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
        let announced = self.streams_max.load(Ordering::Relaxed);
        let allowed = if announced == NOT_ANNOUNCED { self.streams_expected } else { announced };
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
    pub async fn send(&mut self, request: Request<RequestBody>) -> Result<Response<Incoming>, SendError> {
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

/// Connections to one origin, including those under way. Connections that the peer is ending are not counted: they take no new
/// streams.
pub(super) const HTTP2_MAX: usize = 16;
/// Streams on one connection before another is opened, even if the peer allows more. A peer should allow at least 100 (RFC 9113, 6.5.2).
pub(super) const STREAMS_MAX: usize = 100;
/// Stream resets after which a connection is worn: a race resets two streams of three, which a server may take for an attack
/// if they all come over one connection.
pub(super) const RESETS_MAX: usize = 200;
/// Age at which a connection is worn.
pub(super) const AGE_MAX: Duration = Duration::from_secs(600);
/// After this time of a dial another one may start.
pub(super) const DIAL_PATIENCE: Duration = Duration::from_secs(1);

/// The input for the choice, for one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLoad {
    pub streams: usize,
    /// Streams that it allows at once.
    pub streams_max: usize,
    /// Used only if there is no other.
    pub worn: bool,
    /// It existed before the request asked for a new one.
    pub passed_over: bool,
}

/// The input for the choice, apart from the connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionQueue {
    /// Requests that wait for a stream, including this one.
    pub waiting: usize,
    /// Streams that a new connection is expected to take.
    pub streams_each: usize,
    /// Dials under way.
    pub dials: usize,
    /// Dials among them that may still succeed soon.
    pub young_dials: usize,
    /// Whether the origin supports HTTP/2 is unknown: one dial decides.
    pub unknown: bool,
    /// A dial has failed just now.
    pub dial_failed: bool,
}

/// The next step of a request that needs a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStep {
    /// Use the connection at this place.
    Use(usize),
    /// Open another connection, and wait.
    Dial,
    Wait,
}

/// Decides. Opens no more connections than the waiting streams fill, and never more than [`HTTP2_MAX`].
pub(super) fn step(seats: impl Iterator<Item = ConnectionLoad> + Clone, queue: ConnectionQueue) -> StreamStep {
    let with_room = seats.clone().enumerate().filter(|(_, seat)| seat.streams < seat.streams_max);
    let good = with_room.clone().filter(|(_, seat)| !seat.worn && !seat.passed_over);
    if let Some((place, _)) = good.min_by_key(|(_, seat)| seat.streams) {
        return StreamStep::Use(place);
    }
    let connections = seats.count();
    if connections + queue.dials >= HTTP2_MAX {
        // The fullest one, so that the others empty and can be replaced.
        let worn = with_room.max_by_key(|(_, seat)| seat.streams);
        return worn.map_or(StreamStep::Wait, |(place, _)| StreamStep::Use(place));
    }
    let wanted = if queue.unknown { 1 } else { queue.waiting.div_ceil(queue.streams_each.max(1)) };
    // If streams will become free, do not keep dialling an origin that accepts no further connection.
    let pause = queue.dial_failed && connections > 0;
    if queue.young_dials < wanted && !pause { StreamStep::Dial } else { StreamStep::Wait }
}

#[cfg(test)]
mod stream_choice_tests {
    use super::*;

    const QUIET: ConnectionQueue =
        ConnectionQueue { waiting: 1, streams_each: 64, dials: 0, young_dials: 0, unknown: false, dial_failed: false };

    fn seat(streams: usize) -> ConnectionLoad {
        ConnectionLoad { streams, streams_max: 64, worn: false, passed_over: false }
    }

    #[test]
    fn the_emptiest_connection_is_used() {
        let table = [
            (vec![seat(5), seat(3), seat(4)], StreamStep::Use(1)),
            (vec![seat(64), seat(63)], StreamStep::Use(1)),
            (vec![seat(64), seat(64)], StreamStep::Dial),
            (vec![ConnectionLoad { worn: true, ..seat(0) }], StreamStep::Dial),
            (vec![ConnectionLoad { worn: true, ..seat(0) }, seat(9)], StreamStep::Use(1)),
            (vec![ConnectionLoad { passed_over: true, ..seat(0) }], StreamStep::Dial),
            (vec![ConnectionLoad { streams_max: 3, ..seat(3) }], StreamStep::Dial),
        ];
        for (seats, expected) in table {
            assert_eq!(step(seats.iter().copied(), QUIET), expected, "{seats:?}");
        }
    }

    #[test]
    fn no_more_is_dialled_than_the_waiting_fill() {
        let step = |waiting, dials, young_dials, unknown| {
            super::step(std::iter::empty(), ConnectionQueue { waiting, dials, young_dials, unknown, ..QUIET })
        };
        assert_eq!(step(1, 0, 0, true), StreamStep::Dial);
        assert_eq!(step(150, 1, 1, true), StreamStep::Wait, "the first dial shows what the origin speaks");
        assert_eq!(step(150, 1, 0, true), StreamStep::Dial, "but not for ever");
        assert_eq!(step(64, 1, 1, false), StreamStep::Wait);
        assert_eq!(step(65, 1, 1, false), StreamStep::Dial);
        assert_eq!(step(150, 3, 3, false), StreamStep::Wait);
        assert_eq!(step(10_000, HTTP2_MAX, 0, false), StreamStep::Wait);
    }

    #[test]
    fn the_bound_is_hard() {
        let full = vec![seat(64); HTTP2_MAX];
        assert_eq!(step(full.iter().copied(), QUIET), StreamStep::Wait);
        let mut worn = vec![ConnectionLoad { worn: true, ..seat(7) }; HTTP2_MAX];
        worn[4].streams = 63;
        worn[5].streams = 64;
        assert_eq!(
            step(worn.iter().copied(), QUIET),
            StreamStep::Use(4),
            "worn ones rather than none, and the fullest"
        );
        let one_dial = ConnectionQueue { dials: 1, young_dials: 1, ..QUIET };
        assert_eq!(step(worn.iter().take(HTTP2_MAX - 1).copied(), one_dial), StreamStep::Use(4));
    }

    #[test]
    fn an_origin_that_takes_no_more_is_left_alone_for_a_moment() {
        let failed = ConnectionQueue { dial_failed: true, ..QUIET };
        assert_eq!(step([seat(64)].into_iter(), failed), StreamStep::Wait);
        assert_eq!(
            step(std::iter::empty(), failed),
            StreamStep::Dial,
            "without a connection there is nothing to wait for"
        );
    }
}
