//! The answer to a streaming client whose race takes long: its head goes out before anybody has a token, and its body says from
//! time to time that it is alive while the race runs on inside it. What the race comes to follows in the same body: the winner's
//! stream, or an error event where there would have been a status.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use tokio::time::Sleep;

use super::race_guard::RaceGuard;
use super::rejection::Rejection;
use super::{Racing, ServedAnswer, answer};
use crate::clock::Instant;
use crate::protocol::Surface;
use crate::relay::RESCUED;

/// What only a winner tells, and so no early head can: these follow as a comment in front of its first event, and once more as
/// trailers behind its last, where the client takes any.
const TOLD_LATE: [&str; 5] = [
    "x-photofinish-upstream",
    "x-photofinish-ttft-ms",
    "server-timing",
    "x-photofinish-dropped",
    "x-photofinish-left-out",
];

/// What an early head says. Taken before the race has its guard.
pub struct EarlyHead {
    surface: Surface,
    race_id: String,
    attempts: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl EarlyHead {
    pub fn new(guard: &RaceGuard) -> EarlyHead {
        EarlyHead { surface: guard.surface(), race_id: guard.race_id().to_owned(), attempts: guard.attempts() }
    }

    pub fn response(self, body: EarlyBody) -> Response<Body> {
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        answer::event_stream(headers);
        let started = self.attempts.load(std::sync::atomic::Ordering::Relaxed);
        answer::name(headers, self.surface, &self.race_id, started);
        if let Ok(names) = HeaderValue::try_from(format!("{}, {RESCUED}", TOLD_LATE.join(", "))) {
            headers.insert(http::header::TRAILER, names);
        }
        response
    }
}

/// Runs a race, and then gives out what it came to. Dropping it drops the race.
pub struct EarlyBody {
    stage: EarlyStage,
    surface: Surface,
    /// The pause between two heartbeats.
    every: Duration,
    /// When the next one is due.
    timer: Pin<Box<Sleep>>,
}

enum EarlyStage {
    Racing(Racing),
    /// The winner's stream, and the trailers behind it.
    Relaying(Body, HeaderMap),
    Ended,
}

impl EarlyBody {
    /// Begins with a heartbeat.
    pub fn new(racing: Racing, surface: Surface, every: Duration) -> EarlyBody {
        let timer = Box::pin(tokio::time::sleep_until(Instant::now()));
        EarlyBody { stage: EarlyStage::Racing(racing), surface, every, timer }
    }

    /// The first bytes of what the race came to. All of them, unless somebody won.
    fn settled(&mut self, served: Result<ServedAnswer, Rejection>, mut guard: RaceGuard) -> Bytes {
        guard.head_was_sent();
        match served {
            Ok(ServedAnswer::Streaming(relay, head)) => {
                let told: HeaderMap = TOLD_LATE
                    .iter()
                    .filter_map(|name| Some((http::HeaderName::from_static(name), head.headers().get(*name)?.clone())))
                    .collect();
                let comment = comment(&told);
                self.stage = EarlyStage::Relaying(relay(guard), told);
                comment
            }
            Ok(ServedAnswer::Whole(response)) => {
                guard.answered(response.status());
                let (parts, body) = response.into_parts();
                // An empty answer is one too, and is written as a stream.
                if parts.status.is_success() { body } else { self.surface.error_event_of(parts.status.as_u16(), &body) }
            }
            Err(rejection) => {
                guard.rejected(&rejection);
                rejection.event(self.surface)
            }
        }
    }
}

impl http_body::Body for EarlyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = &mut *self;
        match &mut body.stage {
            EarlyStage::Racing(racing) => {
                if let Poll::Ready((served, guard)) = racing.as_mut().poll(context) {
                    body.stage = EarlyStage::Ended;
                    return Poll::Ready(Some(Ok(Frame::data(body.settled(served, guard)))));
                }
                ready!(body.timer.as_mut().poll(context));
                body.timer.as_mut().reset(Instant::now() + body.every);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(body.surface.heartbeat())))))
            }
            EarlyStage::Relaying(relay, known) => {
                let mut told = match ready!(Pin::new(relay).poll_frame(context)) {
                    Some(Ok(frame)) => match frame.into_trailers() {
                        Err(frame) => return Poll::Ready(Some(Ok(frame))),
                        Ok(more) => more,
                    },
                    // A body of our own has no errors.
                    Some(Err(_)) | None => HeaderMap::new(),
                };
                told.extend(std::mem::take(known));
                body.stage = EarlyStage::Ended;
                Poll::Ready(Some(Ok(Frame::trailers(told))))
            }
            EarlyStage::Ended => Poll::Ready(None),
        }
    }
}

/// Each header on a line of its own: `: x-photofinish-upstream: a/m`.
fn comment(headers: &HeaderMap) -> Bytes {
    let mut comment = BytesMut::new();
    for (name, value) in headers {
        comment.put_slice(b": ");
        comment.put_slice(name.as_str().as_bytes());
        comment.put_slice(b": ");
        comment.put_slice(value.as_bytes());
        comment.put_u8(b'\n');
    }
    comment.put_u8(b'\n');
    comment.freeze()
}
