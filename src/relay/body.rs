//! The body of a streamed answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
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
    /// The answer broke off, and others are asked to go on with it.
    fn broke(&mut self, _failure: &Failure) {}
    /// One of them does: the attempt of this number, of this candidate.
    fn rescued(&mut self, _candidate: usize, _ordinal: usize) {}
}

/// Streams the winner. Dropping it cancels the winner.
pub struct RelayBody<W> {
    pub(super) stream: EventStream,
    pub(super) watch: W,
    /// Held back until now: everything up to the first payload.
    prelude: Option<Bytes>,
    /// The client asked for the usage chunk itself.
    pub(super) include_usage: bool,
    pub(super) ending: Ending,
    state: State,
    pub(super) handed: Handed,
}

/// What comes next of an answer.
pub(super) enum Next {
    Bytes(Bytes),
    /// It broke. Boxed, for that is rare.
    Broken(Box<Broken>),
    End,
}

/// How an answer broke.
pub(super) struct Broken {
    pub failure: Failure,
    /// The upstream's own error event, where the client takes it for one.
    pub seen: Option<Bytes>,
}

impl Broken {
    pub(super) fn by(failure: Failure) -> Next {
        Next::Broken(Box::new(Broken { failure, seen: None }))
    }
}

/// Tells when the gateway ends.
pub(super) struct Ending {
    shutdown: Shutdown,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who is woken by `cancelled`.
    waker: Option<Waker>,
}

impl Ending {
    fn new(shutdown: &Shutdown) -> Ending {
        Ending { shutdown: shutdown.clone(), cancelled: Box::pin(shutdown.cancelled()), waker: None }
    }

    pub(super) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// The upstream has nothing: is the gateway ending?
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
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
        Poll::Ready(())
    }

    /// Recorded as a shutdown by the guards, which see the same.
    pub(super) fn failure() -> Failure {
        Failure::new(FailureKind::Closed, Phase::Stream, "the gateway is shutting down")
    }
}

/// When the last frame was handed over; none while waiting for the upstream.
#[derive(Default)]
pub(super) struct Handed(Option<Instant>);

impl Handed {
    pub(super) fn now(&mut self) {
        self.0 = Some(Instant::now());
    }

    /// Called on entry: a long time since the last frame was handed over means that the client was slow.
    pub(super) fn notice_stall(&mut self, stream: &mut EventStream) {
        if self.0.take().is_some_and(|handed_at| handed_at.elapsed() > STALL) {
            stream.stalled();
        }
    }
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
            ending: Ending::new(shutdown),
            state: State::Open,
            handed: Handed::default(),
        }
    }

    /// The bytes for one event; empty where none go out.
    fn pass(&mut self, item: Item) -> Next {
        Next::Bytes(match item.kind {
            Kind::Other | Kind::Heartbeat | Kind::Payload => item.raw,
            Kind::UsageOnly if self.include_usage => item.raw,
            Kind::UsageOnly | Kind::Malformed => Bytes::new(),
            Kind::Done => {
                self.complete();
                with_its_line_end(item.raw)
            }
            Kind::Error { facts, .. } => {
                let failure = self.stream.fail_with(facts);
                let seen = self.stream.surface().is_error_event(&Event { raw: item.raw.clone() });
                return Next::Broken(Box::new(Broken { failure, seen: seen.then_some(item.raw) }));
            }
        })
    }

    /// There is nothing more: complete, or not.
    fn upstream_ended(&mut self) -> Next {
        let open = self.state == State::Open;
        if open && !self.stream.is_complete() {
            return Broken::by(self.stream.ended_too_early());
        }
        self.complete();
        self.state = State::Ended;
        if open { Next::Bytes(self.stream.ending()) } else { Next::End }
    }

    /// It ends here, with the event that says so.
    pub(super) fn broken(&mut self, broken: Broken) -> Bytes {
        let Broken { failure, seen } = broken;
        self.watch.ended(Some(&failure));
        self.state = State::Ended;
        seen.unwrap_or_else(|| error_event(&mut self.stream, &failure))
    }

    fn complete(&mut self) {
        if self.state == State::Open {
            self.stream.won();
            self.watch.ended(None);
            self.state = State::Done;
        }
    }

    /// What comes next; behind a break or an end nothing does.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        self.handed.notice_stall(&mut self.stream);
        if let Some(prelude) = self.prelude.take() {
            self.watch.first_token();
            if !prelude.is_empty() {
                return Poll::Ready(Next::Bytes(prelude));
            }
        }
        while self.state != State::Ended {
            let next = match self.stream.poll_served(context) {
                Poll::Pending => {
                    ready!(self.ending.poll(context));
                    match self.state == State::Open && !self.stream.is_complete() {
                        true => Broken::by(Ending::failure()),
                        false => self.upstream_ended(),
                    }
                }
                // Behind [DONE] nothing more is passed on.
                Poll::Ready(Some(Ok(_))) if self.state == State::Done => continue,
                Poll::Ready(Some(Ok(item))) => self.pass(item),
                Poll::Ready(Some(Err(failure))) => Broken::by(failure),
                Poll::Ready(None) => self.upstream_ended(),
            };
            // A translation may have nothing to say yet.
            if !matches!(&next, Next::Bytes(bytes) if bytes.is_empty()) {
                return Poll::Ready(next);
            }
        }
        Poll::Ready(Next::End)
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
        let bytes = match ready!(self.poll_next(context)) {
            Next::Bytes(bytes) => bytes,
            Next::Broken(broken) => self.broken(*broken),
            Next::End => return Poll::Ready(None),
        };
        self.handed.now();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
