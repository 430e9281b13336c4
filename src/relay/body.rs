//! The body of a streamed answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{error_event, without_usage};
use crate::attempt::{EventStream, Item, Kind};
use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::sse::Event;
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
    shutdown: Shutdown,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who is woken by `cancelled`.
    waker: Option<Waker>,
    state: State,
    /// When the last frame was handed over; none while waiting for the upstream.
    handed_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The last event went out; the rest is only read.
    Done,
    Ended,
}

impl<W: Watch> RelayBody<W> {
    /// Begins with `prelude`, which ends with the first payload.
    pub fn new(
        stream: EventStream,
        prelude: Bytes,
        include_usage: bool,
        shutdown: &Shutdown,
        watch: W,
    ) -> RelayBody<W> {
        let prelude = if stream.usage_in_prelude && !include_usage { without_usage(prelude) } else { prelude };
        RelayBody {
            stream,
            watch,
            prelude: Some(prelude),
            include_usage,
            shutdown: shutdown.clone(),
            cancelled: Box::pin(shutdown.cancelled()),
            waker: None,
            state: State::Open,
            handed_at: None,
        }
    }

    /// The bytes for one event, if any go out.
    fn pass(&mut self, item: Item) -> Option<Bytes> {
        match item.kind {
            Kind::Other | Kind::Heartbeat | Kind::Payload => Some(item.raw),
            Kind::UsageOnly => self.include_usage.then_some(item.raw),
            Kind::Malformed => None,
            Kind::Done => {
                self.complete();
                Some(with_its_line_end(item.raw))
            }
            Kind::Error { facts, .. } => {
                let failure = self.stream.fail_with(facts);
                let event = self.broken(&failure);
                let seen = self.stream.surface().is_error_event(&Event { raw: item.raw.clone() });
                Some(if seen { item.raw } else { event })
            }
        }
    }

    /// There is nothing more: complete, or not.
    fn upstream_ended(&mut self) -> Option<Bytes> {
        let open = self.state == State::Open;
        if open && !self.stream.is_complete() {
            let failure = self.stream.ended_too_early();
            return Some(self.broken(&failure));
        }
        self.complete();
        self.state = State::Ended;
        open.then(|| self.stream.ending())
    }

    /// It ends here, with the event that says so.
    fn broken(&mut self, failure: &Failure) -> Bytes {
        self.watch.ended(Some(failure));
        self.state = State::Ended;
        error_event(&mut self.stream, failure)
    }

    fn complete(&mut self) {
        if self.state == State::Open {
            self.stream.won();
            self.watch.ended(None);
            self.state = State::Done;
        }
    }

    /// Called on entry: a long time since the last frame was handed over means that the client was slow.
    fn notice_stall(&mut self) {
        if self.handed_at.take().is_some_and(|handed_at| handed_at.elapsed() > STALL) {
            self.stream.stalled();
        }
    }

    /// The upstream has nothing: is the gateway ending?
    fn poll_cancelled(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let waker = context.waker();
        // All streams share one token and its lock, so it is asked only when it would not wake us by itself.
        let registered = self.waker.as_ref().is_some_and(|before| before.will_wake(waker));
        if !self.shutdown.is_cancelled() {
            if registered {
                return Poll::Pending;
            }
            self.waker = Some(waker.clone());
            if self.cancelled.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        if self.state != State::Open || self.stream.is_complete() {
            return Poll::Ready(self.upstream_ended());
        }
        // Recorded as a shutdown by the guard, which sees the same.
        let failure = Failure::new(FailureKind::Closed, Phase::Stream, "the gateway is shutting down");
        Poll::Ready(Some(self.broken(&failure)))
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.notice_stall();
        if let Some(prelude) = self.prelude.take() {
            self.watch.first_token();
            if !prelude.is_empty() {
                return Poll::Ready(Some(prelude));
            }
        }
        while self.state != State::Ended {
            let bytes = match self.stream.poll_served(context) {
                Poll::Pending => match self.poll_cancelled(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(bytes) => bytes,
                },
                // Behind [DONE] nothing more is passed on.
                Poll::Ready(Some(Ok(_))) if self.state == State::Done => None,
                Poll::Ready(Some(Ok(item))) => self.pass(item),
                Poll::Ready(Some(Err(failure))) => Some(self.broken(&failure)),
                Poll::Ready(None) => self.upstream_ended(),
            };
            // A translation may have nothing to say yet.
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                return Poll::Ready(Some(bytes));
            }
        }
        Poll::Ready(None)
    }
}

/// The LF of a last CRLF may still be on its way, and behind `[DONE]` nothing more is passed on.
fn with_its_line_end(raw: Bytes) -> Bytes {
    if raw.ends_with(b"\r\n\r") { Bytes::from([&raw, &b"\n"[..]].concat()) } else { raw }
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
