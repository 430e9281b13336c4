//! The answer to a streaming client whose race takes long: its head is sent before any upstream has a token. The race
//! continues inside the body, which sends heartbeats until then, and then the winner's stream or an error event. Not
//! for other answers.

use photofinish_dialects::SurfaceFormat as _;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{HeaderName, TRAILER};
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use tokio::time::Sleep;

use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::run::answer;
use crate::proxy::run::race_guard::RaceGuard;
use crate::proxy::run::running::{Racing, ServedAnswer};
use crate::relay::RESCUED;
use photofinish_base::clock::Instant;
use photofinish_wire::Surface;

/// Headers that need a winner. An early answer sends them as a comment before the first event, if its format has
/// comments, and again as trailers if the client accepts trailers.
const LATE_HEADERS: [&str; 5] = [
    "x-photofinish-upstream",
    "x-photofinish-ttft-ms",
    "server-timing",
    "x-photofinish-dropped",
    "x-photofinish-left-out",
];

/// Runs a race, and then sends its answer. Dropping it drops the race.
pub struct EarlyBody {
    stage: EarlyStage,
    surface: Surface,
    /// The pause between two heartbeats.
    every: Duration,
    /// When the next one is due.
    timer: Pin<Box<Sleep>>,
}

enum EarlyStage {
    /// The order matters: the rows of the attempts are written before that of the race.
    Racing(Racing, Box<RaceGuard>),
    /// The winner's stream, and the trailers after it.
    Relaying(Body, HeaderMap),
    Ended,
}

impl EarlyBody {
    /// Begins with a heartbeat.
    pub fn new(racing: Racing, guard: RaceGuard, every: Duration) -> EarlyBody {
        let (surface, timer) = (guard.surface(), Box::pin(tokio::time::sleep_until(Instant::now())));
        EarlyBody { stage: EarlyStage::Racing(racing, Box::new(guard)), surface, every, timer }
    }

    /// The response with its early head. `rescues`: another upstream may continue the answer, and a trailer then names
    /// it.
    pub fn into_response(self, rescues: bool) -> Response<Body> {
        let mut head = Response::new(());
        answer::event_stream(head.headers_mut(), self.surface);
        if let EarlyStage::Racing(_, guard) = &self.stage {
            answer::name_race(head.headers_mut(), guard);
        }
        let names: Vec<&str> = LATE_HEADERS.into_iter().chain(rescues.then_some(RESCUED)).collect();
        if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
            head.headers_mut().insert(TRAILER, names);
        }
        head.map(|()| Body::new(self))
    }

    /// The first bytes of the race's answer: all of them, unless an attempt won.
    fn settled(&mut self, served: Result<ServedAnswer, Rejection>, mut guard: RaceGuard) -> Bytes {
        guard.head_was_sent();
        match served {
            Ok(ServedAnswer::Streaming(head, stream)) => {
                let late: HeaderMap = LATE_HEADERS
                    .iter()
                    .filter_map(|name| Some((HeaderName::from_static(name), head.headers().get(*name)?.clone())))
                    .collect();
                let comment = if self.surface.has_comments() { comment(&late) } else { Bytes::new() };
                self.stage = EarlyStage::Relaying(stream.into_body(guard), late);
                comment
            }
            Ok(ServedAnswer::Whole(response, win)) => {
                guard.answered(response.status(), win, response.body());
                let (parts, body) = response.into_parts();
                // An empty answer is written as a stream too.
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
            EarlyStage::Racing(racing, _) => {
                if let Poll::Ready(served) = racing.as_mut().poll(context)
                    && let EarlyStage::Racing(_, guard) = std::mem::replace(&mut body.stage, EarlyStage::Ended)
                {
                    return Poll::Ready(Some(Ok(Frame::data(body.settled(served, *guard)))));
                }
                ready!(body.timer.as_mut().poll(context));
                body.timer.as_mut().reset(Instant::now() + body.every);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(body.surface.heartbeat())))))
            }
            EarlyStage::Relaying(relay, known) => {
                let mut trailers = match ready!(Pin::new(relay).poll_frame(context)) {
                    Some(Ok(frame)) => match frame.into_trailers() {
                        Err(frame) => return Poll::Ready(Some(Ok(frame.map_data(unmarked)))),
                        Ok(more) => more,
                    },
                    // A body of the gateway has no errors.
                    Some(Err(_)) | None => HeaderMap::new(),
                };
                trailers.extend(std::mem::take(known));
                body.stage = EarlyStage::Ended;
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            EarlyStage::Ended => Poll::Ready(None),
        }
    }
}

/// Events without the byte-order mark of their stream: behind heartbeats it would be a part of the first line, which clients
/// then cannot read.
fn unmarked(events: Bytes) -> Bytes {
    match events.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => events.slice_ref(rest),
        None => events,
    }
}

/// Each header on a separate line: `: x-photofinish-upstream: a/m`.
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
