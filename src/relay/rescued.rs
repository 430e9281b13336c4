//! The body of a streamed answer that others go on with where it breaks off (`rescue = "continue"`).
//!
//! As long as the winner's stream holds it is a [`RelayBody`] that keeps what it gave out. Who is asked then, and how, is for
//! a [`Rescue`] to say; what of their answers goes out, for [`Joined`].

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tokio::time::Sleep;

use super::body::{Broken, Ending, Handed, Next, RelayBody, Watch};
use super::broken_off;
use crate::attempt::{Attempt, EventStream, Kind, Ready};
use crate::budget::Lease;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::rescue::{Delivered, Joined, Way};
use crate::race::Cut;

/// Names the upstream that went on with the answer, where trailers are taken.
pub const RESCUED: &str = "x-photofinish-rescued";

/// Finds those who go on with an answer, one after the other.
pub trait Rescue: Send {
    /// Starts the next one. `afresh`: the answer has just broken off (again). None: nobody is left.
    fn next(&mut self, delivered: &Delivered, afresh: bool) -> Option<Asked>;
    /// The one that was started last has begun.
    fn began(&mut self, ready: &Ready);
    /// It failed, and nothing of it was given out.
    fn failed(&mut self, failure: &Failure);
}

/// One who was asked to go on.
pub struct Asked {
    pub attempt: Attempt,
    pub way: Way,
    /// `provider/model`
    pub upstream: String,
    pub candidate: usize,
    pub ordinal: usize,
    /// How long its first token may take.
    pub first_token: Duration,
    pub idle: Duration,
}

/// Streams the winner, and then whoever goes on with it. Dropping it cancels both.
pub struct RescuedBody<W> {
    stage: Stage<W>,
    /// None once nobody can go on with what was delivered.
    rescue: Option<Box<dyn Rescue>>,
    delivered: Delivered,
    /// For what was delivered.
    lease: Lease,
    /// Go out at the end.
    trailers: Option<HeaderMap>,
}

enum Stage<W> {
    Winner(Box<RelayBody<W>>),
    Asking(Box<Asking<W>>),
    Joining(Box<Joining<W>>),
    Ended,
}

/// What is left of the winner. Behind the streams in whatever holds it: their rows go before the race's.
struct Rest<W> {
    broken: Broken,
    ending: Ending,
    include_usage: bool,
    watch: W,
}

struct Asking<W> {
    asked: Asked,
    late: Pin<Box<Sleep>>,
    rest: Rest<W>,
}

struct Joining<W> {
    stream: EventStream,
    /// Everything up to its first payload.
    prelude: Option<Bytes>,
    joined: Joined,
    upstream: String,
    candidate: usize,
    ordinal: usize,
    /// Something of it was given out.
    began: bool,
    handed: Handed,
    rest: Rest<W>,
}

/// What comes next of a joined answer.
enum Step {
    Bytes(Bytes),
    /// The last bytes.
    Complete(Bytes),
    Heartbeat,
    Failed(Failure),
    /// It says something else than what was delivered.
    Diverged,
    /// The gateway ends.
    Ending,
}

impl<W: Watch> RescuedBody<W> {
    /// `lease` grows with what was delivered.
    pub fn new(relay: RelayBody<W>, rescue: Box<dyn Rescue>, lease: Lease) -> RescuedBody<W> {
        let delivered = Delivered::new(relay.stream.surface());
        RescuedBody { stage: Stage::Winner(Box::new(relay)), rescue: Some(rescue), delivered, lease, trailers: None }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let (stage, bytes) = match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Winner(mut relay) => match relay.poll_next(context) {
                    Poll::Pending => {
                        self.stage = Stage::Winner(relay);
                        return Poll::Pending;
                    }
                    Poll::Ready(next) => self.of_winner(relay, next),
                },
                Stage::Asking(mut asking) => match asking.poll(context) {
                    Poll::Pending => {
                        self.stage = Stage::Asking(asking);
                        return Poll::Pending;
                    }
                    Poll::Ready(answered) => self.of_asked(*asking, answered),
                },
                Stage::Joining(mut joining) => match joining.poll(context) {
                    Poll::Pending => {
                        self.stage = Stage::Joining(joining);
                        return Poll::Pending;
                    }
                    Poll::Ready(step) => self.of_joined(joining, step),
                },
                Stage::Ended => return Poll::Ready(None),
            };
            self.stage = stage;
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                return Poll::Ready(Some(bytes));
            }
        }
    }

    fn of_winner(&mut self, mut relay: Box<RelayBody<W>>, next: Next) -> (Stage<W>, Option<Bytes>) {
        match next {
            Next::End => (Stage::Ended, None),
            Next::Bytes(bytes) => {
                if self.rescue.is_some() {
                    self.keep(&bytes);
                }
                relay.handed.now();
                (Stage::Winner(relay), Some(bytes))
            }
            Next::Broken(broken) => {
                let ends = relay.ending.shutdown().is_cancelled();
                match if ends { None } else { self.next(true) } {
                    None => (Stage::Ended, Some(relay.broken(*broken))),
                    Some(asked) => {
                        relay.watch.broke(&broken.failure);
                        // Its stream ends here.
                        let RelayBody { watch, ending, include_usage, .. } = *relay;
                        (Asking::stage(asked, Rest { broken: *broken, ending, include_usage, watch }), None)
                    }
                }
            }
        }
    }

    fn of_asked(&mut self, asking: Asking<W>, answered: Option<Result<Ready, Failure>>) -> (Stage<W>, Option<Bytes>) {
        let Asking { mut asked, rest, .. } = asking;
        match answered {
            None => self.give_up(rest, Some(Ending::failure())),
            Some(Err(failure)) => {
                if failure.kind == FailureKind::Timeout {
                    asked.attempt.cut(Cut::Late);
                }
                // Its row goes before that of the next.
                drop(asked);
                self.rescue.iter_mut().for_each(|rescue| rescue.failed(&failure));
                self.ask(rest, false)
            }
            Some(Ok(mut ready)) => {
                self.rescue.iter_mut().for_each(|rescue| rescue.began(&ready));
                ready.stream.serve(asked.idle);
                let Asked { way, upstream, candidate, ordinal, .. } = asked;
                let joining = Joining {
                    joined: Joined::new(&self.delivered, way, rest.include_usage),
                    prelude: Some(ready.prelude),
                    stream: ready.stream,
                    upstream,
                    candidate,
                    ordinal,
                    began: false,
                    handed: Handed::default(),
                    rest,
                };
                (Stage::Joining(Box::new(joining)), None)
            }
        }
    }

    fn of_joined(&mut self, mut joining: Box<Joining<W>>, step: Step) -> (Stage<W>, Option<Bytes>) {
        match step {
            Step::Heartbeat => {
                let heartbeat = Bytes::from_static(joining.stream.surface().heartbeat());
                joining.handed.now();
                (Stage::Joining(joining), Some(heartbeat))
            }
            Step::Bytes(bytes) => {
                let bytes = self.give_out(&mut joining, bytes);
                joining.handed.now();
                (Stage::Joining(joining), Some(bytes))
            }
            Step::Complete(bytes) => {
                let bytes = self.give_out(&mut joining, bytes);
                let Joining { mut stream, mut rest, .. } = *joining;
                stream.won();
                rest.watch.ended(None);
                stream.read_out(rest.ending.shutdown());
                (Stage::Ended, Some(bytes))
            }
            Step::Ending => {
                let Joining { stream, rest, .. } = *joining;
                drop(stream);
                self.give_up(rest, Some(Ending::failure()))
            }
            Step::Diverged => {
                let Joining { mut stream, rest, .. } = *joining;
                // It did nothing wrong.
                stream.lost();
                drop(stream);
                self.ask(rest, false)
            }
            Step::Failed(failure) => {
                let Joining { stream, joined, began, mut rest, .. } = *joining;
                drop(stream);
                if !began {
                    self.rescue.iter_mut().for_each(|rescue| rescue.failed(&failure));
                    return self.ask(rest, false);
                }
                rest.watch.broke(&failure);
                self.delivered.spent(joined.usage());
                rest.broken = Broken { failure, seen: None };
                self.ask(rest, true)
            }
        }
    }

    /// Asks the next one, or ends the answer as broken.
    fn ask(&mut self, rest: Rest<W>, afresh: bool) -> (Stage<W>, Option<Bytes>) {
        match self.next(afresh) {
            Some(asked) => (Asking::stage(asked, rest), None),
            None => self.give_up(rest, None),
        }
    }

    fn next(&mut self, afresh: bool) -> Option<Asked> {
        let rescue = self.rescue.as_mut().filter(|_| self.delivered.may_go_on())?;
        rescue.next(&self.delivered, afresh)
    }

    /// The answer ends with what broke it, unless something else did.
    fn give_up(&mut self, mut rest: Rest<W>, other: Option<Failure>) -> (Stage<W>, Option<Bytes>) {
        let Broken { failure, seen } = match other {
            Some(failure) => Broken { failure, seen: None },
            None => rest.broken,
        };
        rest.watch.ended(Some(&failure));
        let event = seen.unwrap_or_else(|| broken_off(&failure, |error| self.delivered.error_event(error)));
        (Stage::Ended, Some(event))
    }

    /// The client gets this of a joined answer.
    fn give_out(&mut self, joining: &mut Joining<W>, bytes: Bytes) -> Bytes {
        self.keep(&bytes);
        if bytes.is_empty() || std::mem::replace(&mut joining.began, true) {
            return bytes;
        }
        joining.rest.watch.rescued(joining.candidate, joining.ordinal);
        if let Ok(value) = HeaderValue::from_str(&joining.upstream) {
            self.trailers.get_or_insert_default().insert(HeaderName::from_static(RESCUED), value);
        }
        let mut marked = BytesMut::new();
        marked.put_slice(format!(": photofinish rescued by {}\n\n", joining.upstream).as_bytes());
        marked.put_slice(&bytes);
        marked.freeze()
    }

    fn keep(&mut self, bytes: &Bytes) {
        self.delivered.add(bytes);
        if self.lease.cover(self.delivered.bytes()).is_err() {
            self.delivered.bar();
        }
        if self.delivered.is_barred() {
            // Neither the request nor what was delivered is needed any more.
            self.rescue = None;
            self.lease.settle(0);
        }
    }
}

impl<W> Asking<W> {
    fn stage(asked: Asked, rest: Rest<W>) -> Stage<W> {
        let late = Box::pin(tokio::time::sleep(asked.first_token));
        Stage::Asking(Box::new(Asking { asked, late, rest }))
    }

    /// None: the gateway ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Ready, Failure>>> {
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

impl<W> Joining<W> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        self.handed.notice_stall(&mut self.stream);
        loop {
            let (events, is_last) = match self.prelude.take() {
                Some(prelude) => (prelude, false),
                None => match self.stream.poll_served(context) {
                    Poll::Pending => return self.rest.ending.poll(context).map(|()| Step::Ending),
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(Step::Failed(failure)),
                    Poll::Ready(Some(Ok(item))) => match item.kind {
                        Kind::Error { facts, .. } => return Poll::Ready(Step::Failed(self.stream.fail_with(facts))),
                        Kind::Heartbeat => return Poll::Ready(Step::Heartbeat),
                        Kind::Malformed => continue,
                        kind => (item.raw, matches!(kind, Kind::Done)),
                    },
                    Poll::Ready(None) if self.stream.is_complete() => (Bytes::new(), true),
                    Poll::Ready(None) => return Poll::Ready(Step::Failed(self.stream.ended_too_early())),
                },
            };
            let mut out = BytesMut::new();
            let mut joined = self.joined.add(&events, &mut out);
            if is_last {
                joined = joined.and_then(|()| self.joined.end(&mut out));
            }
            match joined {
                Err(_) => return Poll::Ready(Step::Diverged),
                Ok(()) if is_last => return Poll::Ready(Step::Complete(out.freeze())),
                Ok(()) if !out.is_empty() => return Poll::Ready(Step::Bytes(out.freeze())),
                Ok(()) => {}
            }
        }
    }
}

impl<W: Watch + Unpin> Body for RescuedBody<W> {
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
