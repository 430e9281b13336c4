//! The body of a streamed answer that another upstream continues if it breaks (`rescue`).
//!
//! Until a break it is a [`RelayBody`] that keeps what it sent. Not for choosing the next upstream: see
//! [`RescueCandidates`]; nor for fitting its answer to the sent part: see [`JoinedAnswer`].

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tokio::time::Sleep;

use super::body::{BrokenOff, LastHandover, RelayBody, RelayObserver, RelayStep, ShutdownWatch};
use super::{broken_off, without_usage};
use crate::attempt::{Attempt, EventStream, ItemKind, ReadyAttempt};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::memory::Lease;
use photofinish_race::CutReason;
use photofinish_routing::verdict::may_be_rescued;
use photofinish_translation::rescue::{DeliveredAnswer, HeldCalls, JoinMethod, JoinedAnswer};

/// While a call is held, and after a break, the client hears something this often, whatever upstreams send.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The trailer that names the upstream that continued the answer.
pub const RESCUED: &str = "x-photofinish-rescued";

/// Finds upstreams that continue an answer, one after the other.
pub trait RescueCandidates: Send {
    /// Starts the next one. `afresh`: the answer has just broken (again). None: no upstream is left.
    fn next(&mut self, delivered: &DeliveredAnswer, afresh: bool) -> Option<Continuation>;
    /// The latest attempt has its first token.
    fn began(&mut self, ready: &ReadyAttempt);
    /// The latest attempt failed before any of it was sent.
    fn failed(&mut self, failure: &Failure);
}

/// An attempt to continue the answer.
pub struct Continuation {
    pub attempt: Attempt,
    pub way: JoinMethod,
    /// `provider/model`
    pub upstream: String,
    pub candidate: usize,
    pub ordinal: usize,
    /// Timeout to its first token.
    pub first_token: Duration,
    pub idle: Duration,
}

/// Streams the winner, and then its replacement. Dropping it cancels both.
pub struct RescuedBody<W> {
    stage: RescueStage<W>,
    /// None once no upstream can continue the delivered part.
    rescue: Option<Box<dyn RescueCandidates>>,
    delivered: DeliveredAnswer,
    /// Calls that the client cannot use yet.
    calls: HeldCalls,
    /// Until the client hears something, where it gets nothing because a call is held or another upstream is asked.
    silent: Option<Pin<Box<Sleep>>>,
    /// Memory for the delivered part, and for what is held.
    lease: Lease,
    /// Sent at the end.
    trailers: Option<HeaderMap>,
}

enum RescueStage<W> {
    Winner(Box<RelayBody<W>>),
    Asking(Box<PendingRescue<W>>),
    Joining(Box<JoinedStreams<W>>),
    Ended,
}

struct PendingRescue<W> {
    asked: Continuation,
    late: Pin<Box<Sleep>>,
    rest: WinnerRest<W>,
}

impl<W: RelayObserver> RescuedBody<W> {
    /// `lease` grows with the delivered part.
    pub fn new(relay: RelayBody<W>, rescue: Box<dyn RescueCandidates>, lease: Lease) -> RescuedBody<W> {
        let surface = relay.stream.surface();
        let delivered = DeliveredAnswer::new(surface, relay.stream.legacy_functions());
        RescuedBody {
            stage: RescueStage::Winner(Box::new(relay)),
            rescue: Some(rescue),
            delivered,
            calls: HeldCalls::new(surface),
            silent: None,
            lease,
            trailers: None,
        }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let (stage, bytes) = match std::mem::replace(&mut self.stage, RescueStage::Ended) {
                RescueStage::Winner(mut relay) => match relay.poll_next(context) {
                    Poll::Pending => {
                        self.stage = RescueStage::Winner(relay);
                        return self.poll_heartbeat(context);
                    }
                    Poll::Ready(next) => self.of_winner(relay, next),
                },
                RescueStage::Asking(mut asking) => match asking.poll(context) {
                    Poll::Pending => {
                        self.stage = RescueStage::Asking(asking);
                        self.keep_alive();
                        return self.poll_heartbeat(context);
                    }
                    Poll::Ready(answered) => self.of_asked(*asking, answered),
                },
                RescueStage::Joining(mut joining) => match joining.poll(context) {
                    Poll::Pending => {
                        self.stage = RescueStage::Joining(joining);
                        return self.poll_heartbeat(context);
                    }
                    Poll::Ready(step) => self.of_joined(joining, step),
                },
                RescueStage::Ended => return Poll::Ready(None),
            };
            self.stage = stage;
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            if bytes.is_some() {
                self.silent = None;
            }
            if self.calls.bytes() > 0 {
                self.keep_alive();
            }
            if bytes.is_some() {
                return Poll::Ready(bytes);
            }
        }
    }

    fn poll_heartbeat(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(silent) = &mut self.silent else { return Poll::Pending };
        ready!(silent.as_mut().poll(context));
        self.silent = None;
        self.keep_alive();
        Poll::Ready(Some(Bytes::from_static(self.delivered.surface().heartbeat())))
    }

    /// From now on the client waits.
    fn keep_alive(&mut self) {
        self.silent.get_or_insert_with(|| Box::pin(tokio::time::sleep(HEARTBEAT)));
    }

    fn of_winner(&mut self, mut relay: Box<RelayBody<W>>, next: RelayStep) -> (RescueStage<W>, Option<Bytes>) {
        match next {
            RelayStep::End => (RescueStage::Ended, Some(self.calls.release())),
            RelayStep::Bytes(bytes) => {
                // What was read leniently would be kept as it came, and so not read.
                if self.rescue.is_some() && relay.stream.is_lenient() {
                    self.delivered.bar();
                }
                let bytes = self.hold(bytes, relay.is_done());
                if !bytes.is_empty() {
                    relay.handed.now();
                }
                (RescueStage::Winner(relay), Some(bytes))
            }
            RelayStep::Broken(broken) => {
                self.calls.forget();
                let ends = relay.ending.shutdown().is_cancelled();
                match if ends || !may_be_rescued(broken.failure.kind) { None } else { self.next(true) } {
                    None => (RescueStage::Ended, Some(relay.broken(*broken))),
                    Some(asked) => {
                        relay.watch.broke(&broken.failure);
                        self.delivered.spent(relay.stream.usage());
                        // Drops the stream of the winner.
                        let RelayBody { watch, ending, include_usage, .. } = *relay;
                        (
                            PendingRescue::stage(asked, WinnerRest { broken: *broken, ending, include_usage, watch }),
                            None,
                        )
                    }
                }
            }
        }
    }

    fn of_asked(
        &mut self,
        asking: PendingRescue<W>,
        answered: Option<Result<ReadyAttempt, Failure>>,
    ) -> (RescueStage<W>, Option<Bytes>) {
        let PendingRescue { mut asked, rest, .. } = asking;
        match answered {
            None => self.give_up(rest, Some(ShutdownWatch::failure())),
            Some(Err(failure)) => {
                if failure.kind == FailureKind::Timeout {
                    asked.attempt.cut(CutReason::Late);
                }
                // Its row is written before the next one's.
                drop(asked);
                self.rescue.iter_mut().for_each(|rescue| rescue.failed(&failure));
                self.ask(rest, false)
            }
            Some(Ok(mut ready)) => {
                self.rescue.iter_mut().for_each(|rescue| rescue.began(&ready));
                ready.stream.serve(asked.idle);
                let Continuation { way, upstream, candidate, ordinal, .. } = asked;
                let joining = JoinedStreams {
                    joined: JoinedAnswer::new(&self.delivered, way, rest.include_usage),
                    prelude: Some(ready.prelude),
                    stream: ready.stream,
                    upstream,
                    candidate,
                    ordinal,
                    began: false,
                    handed: LastHandover::default(),
                    rest,
                };
                (RescueStage::Joining(Box::new(joining)), None)
            }
        }
    }

    /// Names the upstream that continued the answer, in a trailer.
    fn name(&mut self, upstream: &str) {
        if let Ok(value) = HeaderValue::from_str(upstream) {
            self.trailers.get_or_insert_default().insert(HeaderName::from_static(RESCUED), value);
        }
    }

    fn of_joined(&mut self, mut joining: Box<JoinedStreams<W>>, step: RescueStep) -> (RescueStage<W>, Option<Bytes>) {
        match step {
            RescueStep::Heartbeat => {
                let heartbeat = Bytes::from_static(joining.stream.surface().heartbeat());
                joining.handed.now();
                (RescueStage::Joining(joining), Some(heartbeat))
            }
            RescueStep::Bytes(bytes) => {
                let bytes = self.give_out(&mut joining, bytes, false);
                if !bytes.is_empty() {
                    joining.handed.now();
                }
                (RescueStage::Joining(joining), Some(bytes))
            }
            RescueStep::Complete(bytes) => {
                let bytes = self.give_out(&mut joining, bytes, true);
                let JoinedStreams { mut stream, mut rest, .. } = *joining;
                stream.won();
                rest.watch.finished(&bytes);
                rest.watch.ended(None);
                stream.read_out(rest.ending.shutdown());
                (RescueStage::Ended, Some(bytes))
            }
            RescueStep::Ending => {
                let JoinedStreams { stream, rest, .. } = *joining;
                drop(stream);
                self.give_up(rest, Some(ShutdownWatch::failure()))
            }
            RescueStep::Diverged => {
                self.calls.forget();
                let JoinedStreams { mut stream, rest, .. } = *joining;
                // The upstream is not at fault.
                stream.lost();
                drop(stream);
                self.ask(rest, false)
            }
            RescueStep::Failed(failure) => {
                self.calls.forget();
                let JoinedStreams { stream, began, mut rest, .. } = *joining;
                if !began {
                    drop(stream);
                    self.rescue.iter_mut().for_each(|rescue| rescue.failed(&failure));
                    return self.ask(rest, false);
                }
                rest.watch.broke(&failure);
                self.delivered.spent(stream.usage());
                drop(stream);
                let goes_on = may_be_rescued(failure.kind);
                rest.broken = BrokenOff { failure, seen: None };
                if goes_on { self.ask(rest, true) } else { self.give_up(rest, None) }
            }
        }
    }

    /// Starts the next upstream, or ends the answer as broken.
    fn ask(&mut self, rest: WinnerRest<W>, afresh: bool) -> (RescueStage<W>, Option<Bytes>) {
        match self.next(afresh) {
            Some(asked) => (PendingRescue::stage(asked, rest), None),
            None => self.give_up(rest, None),
        }
    }

    fn next(&mut self, afresh: bool) -> Option<Continuation> {
        let rescue = self.rescue.as_mut().filter(|_| self.delivered.may_go_on())?;
        rescue.next(&self.delivered, afresh)
    }

    /// Ends the answer with `other`, or with the failure that broke it.
    fn give_up(&mut self, mut rest: WinnerRest<W>, other: Option<Failure>) -> (RescueStage<W>, Option<Bytes>) {
        let BrokenOff { failure, seen } = match other {
            Some(failure) => BrokenOff { failure, seen: None },
            None => rest.broken,
        };
        rest.watch.ended(Some(&failure));
        let event = seen.unwrap_or_else(|| broken_off(&failure, |error| self.delivered.error_event(error)));
        (RescueStage::Ended, Some(event))
    }

    /// Sends bytes of a joined answer.
    fn give_out(&mut self, joining: &mut JoinedStreams<W>, bytes: Bytes, is_last: bool) -> Bytes {
        let bytes = self.hold(bytes, is_last);
        if bytes.is_empty() || std::mem::replace(&mut joining.began, true) {
            return bytes;
        }
        joining.rest.watch.rescued(joining.candidate, joining.ordinal);
        self.name(&joining.upstream);
        if !self.delivered.surface().has_comments() {
            return bytes;
        }
        let mut marked = BytesMut::new();
        marked.put_slice(format!(": photofinish rescued by {}\n\n", joining.upstream).as_bytes());
        marked.put_slice(&bytes);
        marked.freeze()
    }

    /// What the client may have now of these events. A call waits until it is whole, as long as another upstream may take over.
    fn hold(&mut self, events: Bytes, is_last: bool) -> Bytes {
        if self.rescue.is_none() {
            return events;
        }
        let mut bytes = self.calls.take(events);
        if is_last && self.calls.bytes() > 0 {
            bytes = [bytes, self.calls.release()].concat().into();
        }
        self.delivered.add(&bytes);
        if self.lease.cover(self.delivered.bytes() + self.calls.bytes()).is_err() {
            self.delivered.bar();
        }
        if self.delivered.is_barred() {
            // Frees the request and the delivered part.
            self.rescue = None;
            bytes = [bytes, self.calls.release()].concat().into();
            self.lease.settle(0);
        }
        bytes
    }
}

impl<W> PendingRescue<W> {
    fn stage(asked: Continuation, rest: WinnerRest<W>) -> RescueStage<W> {
        let late = Box::pin(tokio::time::sleep(asked.first_token));
        RescueStage::Asking(Box::new(PendingRescue { asked, late, rest }))
    }

    /// None: the gateway shuts down.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<ReadyAttempt, Failure>>> {
        if let Poll::Ready(answered) = Pin::new(&mut self.asked.attempt).poll(context) {
            return Poll::Ready(Some(answered));
        }
        if self.late.as_mut().poll(context).is_ready() {
            let message = format!("no token for {:?}", self.asked.first_token);
            return Poll::Ready(Some(Err(Failure::new(FailureKind::Timeout, Phase::FirstToken, message))));
        }
        self.rest.ending.poll(context).map(|()| None)
    }
}

impl<W: RelayObserver + Unpin> Body for RescuedBody<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match ready!(self.poll_bytes(context)) {
            Some(bytes) => Some(Frame::data(bytes)),
            None => self.trailers.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }
}

/// The remaining state of the winner. Its owners declare it after their streams: rows of attempts are written before
/// the race's.
pub(super) struct WinnerRest<W> {
    pub broken: BrokenOff,
    pub ending: ShutdownWatch,
    pub include_usage: bool,
    pub watch: W,
}

pub(super) struct JoinedStreams<W> {
    pub stream: EventStream,
    /// The bytes up to its first payload.
    pub prelude: Option<Bytes>,
    pub joined: JoinedAnswer,
    pub upstream: String,
    pub candidate: usize,
    pub ordinal: usize,
    /// Some of its bytes were sent.
    pub began: bool,
    pub handed: LastHandover,
    pub rest: WinnerRest<W>,
}

/// The next step of a joined answer.
pub(super) enum RescueStep {
    Bytes(Bytes),
    /// The last bytes.
    Complete(Bytes),
    Heartbeat,
    Failed(Failure),
    /// It differs from the delivered part.
    Diverged,
    /// The gateway shuts down.
    Ending,
}

impl<W> JoinedStreams<W> {
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<RescueStep> {
        self.handed.notice_stall(&mut self.stream);
        loop {
            let (events, is_last) = match self.prelude.take() {
                Some(prelude) if self.stream.usage_in_prelude && self.joined.is_all() && !self.rest.include_usage => {
                    (without_usage(prelude), false)
                }
                Some(prelude) => (prelude, false),
                None => match self.stream.poll_served(context) {
                    Poll::Pending => return self.rest.ending.poll(context).map(|()| RescueStep::Ending),
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(RescueStep::Failed(failure)),
                    Poll::Ready(Some(Ok(item))) => match item.kind {
                        ItemKind::Error { facts, .. } => {
                            return Poll::Ready(RescueStep::Failed(self.stream.fail_with(facts)));
                        }
                        ItemKind::Heartbeat => return Poll::Ready(RescueStep::Heartbeat),
                        ItemKind::LeftOut => continue,
                        ItemKind::UsageOnly if self.joined.is_all() && !self.rest.include_usage => continue,
                        kind => (item.raw, matches!(kind, ItemKind::Done)),
                    },
                    // Some translations give the finish reason and the usage only now.
                    Poll::Ready(None) if self.stream.is_complete() => (self.stream.ending(), true),
                    Poll::Ready(None) => return Poll::Ready(RescueStep::Failed(self.stream.ended_too_early())),
                },
            };
            let mut out = BytesMut::new();
            let mut joined = self.joined.add(&events, &mut out);
            if is_last {
                joined = joined.and_then(|()| self.joined.end(&mut out));
            }
            match joined {
                Err(_) => return Poll::Ready(RescueStep::Diverged),
                Ok(()) if is_last => return Poll::Ready(RescueStep::Complete(out.freeze())),
                Ok(()) if !out.is_empty() => return Poll::Ready(RescueStep::Bytes(out.freeze())),
                Ok(()) => {}
            }
        }
    }
}
