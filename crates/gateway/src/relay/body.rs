//! The body of a streamed answer. Not for continuing a broken one: see `rescued_body`.

use photofinish_dialects::SurfaceFormat as _;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{error_event, without_usage};
use crate::attempt::{EventStream, ItemKind, StreamItem};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::shutdown::Shutdown;
use photofinish_wire::SseEvent;

/// A pause between two polls that counts as a slow client.
const STALL: Duration = Duration::from_millis(100);

/// Bytes from which on a frame takes no further event.
const FRAME_MAX: usize = 16 << 10;

/// Observes an answer. Dropped without [`RelayObserver::ended`]: the client left.
pub trait RelayObserver: Send {
    /// The first payload byte was passed on.
    fn first_token(&mut self);
    /// The answer ended; `failure`: what broke it.
    fn ended(&mut self, failure: Option<&Failure>);
    /// The last events, before they are passed on.
    fn finished(&mut self, _events: &Bytes) {}
    /// The answer broke, and another upstream is started to continue it.
    fn broke(&mut self, _failure: &Failure) {}
    /// This candidate continues it, with this attempt.
    fn rescued(&mut self, _candidate: usize, _ordinal: usize) {}
}

/// Streams the winner. Dropping it cancels the winner.
pub struct RelayBody<W> {
    pub(super) stream: EventStream,
    pub(super) watch: W,
    /// The bytes up to the first payload, held back until now.
    prelude: Option<Bytes>,
    /// The client asked for the usage chunk itself.
    pub(super) include_usage: bool,
    pub(super) ending: ShutdownWatch,
    state: RelayState,
    pub(super) handed: LastHandover,
}

/// The next step of an answer.
pub(super) enum RelayStep {
    Bytes(Bytes),
    /// It broke. Boxed: it is large and rare.
    Broken(Box<BrokenOff>),
    End,
}

/// How an answer broke.
pub(super) struct BrokenOff {
    pub failure: Failure,
    /// The upstream's own error event, if the client understands it.
    pub seen: Option<Bytes>,
}

impl BrokenOff {
    pub(super) fn by(failure: Failure) -> RelayStep {
        RelayStep::Broken(Box::new(BrokenOff { failure, seen: None }))
    }
}

/// Notices the shutdown of the gateway.
pub(super) struct ShutdownWatch {
    shutdown: Shutdown,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The task that `cancelled` wakes.
    waker: Option<Waker>,
}

impl ShutdownWatch {
    fn new(shutdown: &Shutdown) -> ShutdownWatch {
        ShutdownWatch { shutdown: shutdown.clone(), cancelled: Box::pin(shutdown.cancelled()), waker: None }
    }

    pub(super) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Called while the upstream is silent. Ready: the gateway shuts down.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        // All streams share one token and its lock, so poll it only if it would not wake this task.
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

    /// The guards record it as a shutdown.
    pub(super) fn failure() -> Failure {
        Failure::new(FailureKind::Closed, Phase::Stream, "the gateway is shutting down")
    }
}

/// When the last frame was passed on. None while waiting for the upstream.
#[derive(Default)]
pub(super) struct LastHandover(Option<Instant>);

impl LastHandover {
    pub(super) fn now(&mut self) {
        self.0 = Some(Instant::now());
    }

    /// Called on entry: a long time since the last frame means that the client was slow.
    pub(super) fn notice_stall(&mut self, stream: &mut EventStream) {
        if self.0.take().is_some_and(|handed_at| handed_at.elapsed() > STALL) {
            stream.stalled();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayState {
    Open,
    /// The last event was sent; the rest is only read.
    Done,
    Ended,
}

impl<W: RelayObserver> RelayBody<W> {
    /// Begins with `prelude`, which ends with the first payload.
    pub fn new(
        mut stream: EventStream,
        prelude: Bytes,
        include_usage: bool,
        shutdown: &Shutdown,
        watch: W,
    ) -> RelayBody<W> {
        let prelude = if stream.usage_in_prelude && !include_usage { without_usage(prelude) } else { prelude };
        let prelude = if include_usage { prelude } else { stream.join_usage_chunk(prelude) };
        RelayBody {
            stream,
            watch,
            prelude: Some(prelude),
            include_usage,
            ending: ShutdownWatch::new(shutdown),
            state: RelayState::Open,
            handed: LastHandover::default(),
        }
    }

    /// The bytes of one event; may be empty.
    fn pass(&mut self, item: StreamItem) -> RelayStep {
        RelayStep::Bytes(match item.kind {
            ItemKind::Other | ItemKind::Heartbeat | ItemKind::Payload => item.raw,
            ItemKind::UsageOnly if self.include_usage => item.raw,
            ItemKind::UsageOnly | ItemKind::LeftOut => Bytes::new(),
            ItemKind::Done => {
                self.watch.finished(&item.raw);
                self.complete();
                with_its_line_end(item.raw)
            }
            ItemKind::Error { facts, .. } => {
                let failure = self.stream.fail_with(facts);
                let seen = self.stream.surface().sees_error(&SseEvent { raw: item.raw.clone() });
                return RelayStep::Broken(Box::new(BrokenOff { failure, seen: seen.then_some(item.raw) }));
            }
        })
    }

    /// The upstream ended, complete or not.
    fn upstream_ended(&mut self) -> RelayStep {
        let open = self.state == RelayState::Open;
        if open && !self.stream.is_complete() {
            return BrokenOff::by(self.stream.ended_too_early());
        }
        let ending = if open { self.stream.ending() } else { Bytes::new() };
        self.watch.finished(&ending);
        self.complete();
        self.state = RelayState::Ended;
        if open { RelayStep::Bytes(ending) } else { RelayStep::End }
    }

    /// Ends the answer with an error event.
    pub(super) fn broken(&mut self, broken: BrokenOff) -> Bytes {
        let BrokenOff { failure, seen } = broken;
        self.watch.ended(Some(&failure));
        self.state = RelayState::Ended;
        seen.unwrap_or_else(|| error_event(&mut self.stream, &failure))
    }

    /// Its last event was passed on.
    pub(super) fn is_done(&self) -> bool {
        self.state != RelayState::Open
    }

    fn complete(&mut self) {
        if self.state == RelayState::Open {
            self.stream.won();
            self.watch.ended(None);
            self.state = RelayState::Done;
        }
    }

    /// The next step. After a break or an end there is none.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<RelayStep> {
        self.handed.notice_stall(&mut self.stream);
        if let Some(prelude) = self.prelude.take() {
            self.watch.first_token();
            if !prelude.is_empty() {
                return Poll::Ready(RelayStep::Bytes(prelude));
            }
        }
        while self.state != RelayState::Ended {
            let next = match self.stream.poll_served(context) {
                Poll::Pending => {
                    ready!(self.ending.poll(context));
                    match self.state == RelayState::Open && !self.stream.is_complete() {
                        true => BrokenOff::by(ShutdownWatch::failure()),
                        false => self.upstream_ended(),
                    }
                }
                // Nothing is passed on after [DONE].
                Poll::Ready(Some(Ok(_))) if self.state == RelayState::Done => continue,
                Poll::Ready(Some(Ok(item))) => self.pass(item),
                Poll::Ready(Some(Err(failure))) => BrokenOff::by(failure),
                Poll::Ready(None) => self.upstream_ended(),
            };
            // A translation may have no output yet.
            if !matches!(&next, RelayStep::Bytes(bytes) if bytes.is_empty()) {
                return Poll::Ready(next);
            }
        }
        Poll::Ready(RelayStep::End)
    }
}

/// Completes a last CRLF whose LF has not arrived: nothing is passed on after `[DONE]`.
fn with_its_line_end(raw: Bytes) -> Bytes {
    if raw.ends_with(b"\r\n\r") { Bytes::from([&raw, &b"\n"[..]].concat()) } else { raw }
}

impl<W: RelayObserver> RelayBody<W> {
    /// The bytes of one step. None at the end.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(match ready!(self.poll_next(context)) {
            RelayStep::Bytes(bytes) => Some(bytes),
            RelayStep::Broken(broken) => Some(self.broken(*broken)),
            RelayStep::End => None,
        })
    }

    /// `first` with the events that are there already: one frame costs the client's connection as much as one event.
    fn with_ready(&mut self, first: Bytes, context: &mut Context<'_>) -> Bytes {
        let mut joined = BytesMut::new();
        while first.len().max(joined.len()) < FRAME_MAX && !self.stream.is_due_to_rest() {
            let Poll::Ready(Some(bytes)) = self.poll_bytes(context) else { break };
            if joined.is_empty() {
                joined.reserve((first.len() + bytes.len()).max(FRAME_MAX / 2));
                joined.extend_from_slice(&first);
            }
            joined.extend_from_slice(&bytes);
        }
        if joined.is_empty() { first } else { joined.freeze() }
    }
}

impl<W: RelayObserver + Unpin> Body for RelayBody<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(first) = ready!(self.poll_bytes(context)) else { return Poll::Ready(None) };
        let bytes = self.with_ready(first, context);
        self.handed.now();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
