//! The body of a streamed answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{DONE, error_event};
use crate::attempt::{EventStream, Item, Kind, READ_OUT_FOR};
use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::shutdown::Shutdown;

/// A pause between two polls that says that the client did not take what was there.
const STALL: Duration = Duration::from_millis(100);

/// Hears how the answer fares; dropped without [`Watch::ended`] when the client left.
pub trait Watch: Send {
    /// The first payload byte was handed over.
    fn first_token(&mut self);
    /// The answer ended: none, or by the failure that broke it.
    fn ended(&mut self, failure: Option<&Failure>);
}

/// Streams the winner. Dropping it cancels the winner.
pub struct RelayBody<W> {
    stream: EventStream,
    watch: W,
    /// Held back until now: everything up to the first payload.
    prelude: Option<Bytes>,
    /// The client asked for the usage chunk itself.
    include_usage: bool,
    idle: Duration,
    /// Fires at the idle timeout after the last byte, or when the grace behind `[DONE]` is over. Moved only when it fires.
    timer: Pin<Box<Sleep>>,
    shutdown: Shutdown,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    state: State,
    /// When the last frame was handed over; none while waiting for the upstream.
    handed_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// `[DONE]` went out; the rest is only read.
    Done,
    Ended,
}

impl<W: Watch> RelayBody<W> {
    /// Begins with `prelude`, which ends with the first payload.
    pub fn new(
        stream: EventStream,
        prelude: Bytes,
        include_usage: bool,
        idle: Duration,
        shutdown: &Shutdown,
        watch: W,
    ) -> RelayBody<W> {
        RelayBody {
            stream,
            watch,
            prelude: Some(prelude),
            include_usage,
            idle,
            timer: Box::pin(tokio::time::sleep(idle)),
            shutdown: shutdown.clone(),
            cancelled: Box::pin(shutdown.cancelled()),
            state: State::Open,
            handed_at: None,
        }
    }

    /// The bytes for one event, if any go out.
    fn pass(&mut self, item: Item) -> Option<Bytes> {
        match item.kind {
            Kind::Other | Kind::Payload => Some(item.raw),
            Kind::UsageOnly => self.include_usage.then_some(item.raw),
            Kind::Malformed => None,
            Kind::Done => {
                self.complete();
                self.state = State::Done;
                self.timer.as_mut().reset(Instant::now() + READ_OUT_FOR);
                Some(item.raw)
            }
            Kind::Error(facts) => {
                let failure = self.stream.fail_with(facts);
                self.end(Some(&failure));
                Some(item.raw)
            }
        }
    }

    /// The upstream's body ended.
    fn upstream_ended(&mut self) -> Option<Bytes> {
        match self.state {
            State::Open if self.stream.is_complete() => {
                self.complete();
                self.state = State::Ended;
                Some(Bytes::from_static(DONE))
            }
            State::Open => {
                let failure = self.stream.fail(FailureKind::Closed, "the provider ended it without a finish reason");
                Some(self.broken(&failure))
            }
            State::Done | State::Ended => {
                self.state = State::Ended;
                None
            }
        }
    }

    /// Something broke. What was complete before stays complete.
    fn broke(&mut self, failure: &Failure) -> Option<Bytes> {
        if self.state == State::Open && self.stream.is_complete() {
            return self.upstream_ended();
        }
        if self.state != State::Open {
            self.state = State::Ended;
            return None;
        }
        Some(self.broken(failure))
    }

    fn broken(&mut self, failure: &Failure) -> Bytes {
        self.end(Some(failure));
        error_event(failure)
    }

    fn complete(&mut self) {
        self.stream.won();
        self.watch.ended(None);
    }

    fn end(&mut self, failure: Option<&Failure>) {
        self.watch.ended(failure);
        self.state = State::Ended;
    }

    /// Called on entry: a long time since the last frame was handed over means that the client was slow. The idle timer
    /// did not run meanwhile.
    fn notice_stall(&mut self) {
        let Some(handed_at) = self.handed_at.take() else { return };
        if self.state == State::Open && handed_at.elapsed() > STALL {
            self.stream.stalled();
            self.timer.as_mut().reset(Instant::now() + self.idle);
        }
    }

    /// The upstream has nothing: is it time to give up?
    fn poll_timers(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.shutdown.is_cancelled() || self.cancelled.as_mut().poll(context).is_ready() {
            // Recorded as a shutdown by the guard, which sees the same.
            let failure = Failure::new(FailureKind::Closed, Phase::Stream, "the gateway is shutting down");
            return Poll::Ready(self.broke(&failure));
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let due = self.stream.read_at() + self.idle;
            if self.state == State::Open && due > Instant::now() {
                self.timer.as_mut().reset(due);
                continue;
            }
            if self.state != State::Open {
                self.state = State::Ended;
                return Poll::Ready(None);
            }
            let failure = self.stream.fail(FailureKind::IdleTimeout, format!("no byte for {:?}", self.idle));
            return Poll::Ready(self.broke(&failure));
        }
        Poll::Pending
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.notice_stall();
        if let Some(prelude) = self.prelude.take() {
            self.watch.first_token();
            return Poll::Ready(Some(prelude));
        }
        while self.state != State::Ended {
            let bytes = match self.stream.poll_item(context) {
                Poll::Pending => return self.poll_timers(context),
                // Behind [DONE] nothing more is passed on.
                Poll::Ready(Some(Ok(_))) if self.state == State::Done => None,
                Poll::Ready(Some(Ok(item))) => self.pass(item),
                Poll::Ready(Some(Err(failure))) => self.broke(&failure),
                Poll::Ready(None) => self.upstream_ended(),
            };
            if let Some(bytes) = bytes {
                return Poll::Ready(Some(bytes));
            }
        }
        Poll::Ready(None)
    }
}

impl<W: Watch + Unpin> Body for RelayBody<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::task::ready!(self.poll_bytes(context));
        self.handed_at = bytes.is_some().then(Instant::now);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
