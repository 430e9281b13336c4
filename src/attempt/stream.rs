//! The events of one attempt as they come: read, cut, classified and metered in one pass.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;

use super::ahead::Ahead;
use super::guard::{Fate, Guard};
use super::progress::Progress;
use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::protocol::error::{self, ErrorFacts};
use crate::protocol::openai::{self, Chunk, Frame, Template};
use crate::protocol::sse::{Event, Scanner};
use crate::routing::keyring::{Key, scrub};
use crate::shutdown::Shutdown;
use crate::upstream::Body;

/// One event of more than this is no answer.
pub const EVENT_MAX: usize = 8 << 20;

/// How long the end of a body is awaited behind a finish reason or `[DONE]`, for usage that may come and so that the
/// connection can be used again.
pub(super) const READ_OUT_FOR: Duration = Duration::from_secs(2);

/// One event, as it came and what it is.
#[derive(Debug)]
pub struct Item {
    /// The bytes that came, the closing blank line included.
    pub raw: Bytes,
    pub kind: Kind,
}

/// What a reader has to tell apart.
#[derive(Debug)]
pub enum Kind {
    /// Nothing that decides anything: a comment, a role, usage beside a finish.
    Other,
    /// Generated output.
    Payload,
    /// The chunk that only `include_usage` brings.
    UsageOnly,
    /// `[DONE]`
    Done,
    /// An error in a 200, with its data.
    Error { facts: ErrorFacts, data: Bytes },
    /// No JSON: to be left out.
    Malformed,
}

/// Reads an upstream's body. Dropped before its end, it cancels the exchange and records that.
pub struct EventStream {
    /// None once it ended.
    body: Option<Body>,
    scanner: Scanner,
    /// Read while it was held back; goes out first.
    ahead: Ahead,
    /// When the read returned that the events under way came with.
    read_at: Instant,
    /// Since when nothing came: the last read, or when reading went on after a slow client.
    quiet_since: Instant,
    /// Fires when it has been quiet for too long. Moved only when it fires; none before the commit.
    timer: Option<Pin<Box<Sleep>>>,
    idle: Duration,
    /// Since when there is nothing more to come but perhaps usage.
    complete_since: Option<Instant>,
    done: bool,
    /// A chunk that only `include_usage` brings came before the first token.
    pub usage_in_prelude: bool,
    /// The latest chunk of text: the next one is likely to be like it.
    template: Option<Template>,
    /// The key that was sent: some vendors quote it in their errors.
    key: Option<Key>,
    pub(super) guard: Guard,
}

impl EventStream {
    pub(super) fn new(body: Option<Body>, key: Option<Key>, guard: Guard) -> EventStream {
        let now = Instant::now();
        EventStream {
            body,
            scanner: Scanner::new(EVENT_MAX),
            ahead: Ahead::default(),
            read_at: now,
            quiet_since: now,
            timer: None,
            idle: Duration::MAX,
            complete_since: None,
            done: false,
            usage_in_prelude: false,
            template: None,
            key,
            guard,
        }
    }

    /// Bytes that were just read.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.read_at = Instant::now();
        self.quiet_since = self.read_at;
        self.guard.meter.read(self.read_at);
        self.scanner.push(bytes);
    }

    /// The bytes of a whole answer that was just read to its end.
    pub(super) fn push_whole(&mut self, bytes: Bytes) {
        self.push(bytes);
        self.guard.meter.eof(self.read_at);
    }

    /// From now on it is the winner's: the idle timeout runs.
    pub fn serve(&mut self, idle: Duration) {
        self.idle = idle;
        self.quiet_since = Instant::now();
        self.timer = Some(Box::pin(tokio::time::sleep(idle)));
    }

    /// The next event of a winner; none once it is complete, or ended without being so.
    ///
    /// # Errors
    /// What broke it. Nothing can break what is complete.
    pub fn poll_served(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Item, Failure>>> {
        if let Some(item) = self.ahead.pop() {
            return Poll::Ready(Some(Ok(item)));
        }
        // What comes behind the end, pings for one, does not put it off.
        if self.complete_since.is_some_and(|since| since.elapsed() >= READ_OUT_FOR) {
            self.body = None;
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = self.poll_item(context) {
            return Poll::Ready(item);
        }
        let complete = self.is_complete();
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        if complete && self.complete_since.is_none() {
            self.complete_since = Some(Instant::now());
            timer.as_mut().reset(Instant::now() + READ_OUT_FOR.min(self.idle));
        }
        while timer.as_mut().poll(context).is_ready() {
            let due = self.quiet_since + self.idle;
            if !complete && due > Instant::now() {
                timer.as_mut().reset(due);
                continue;
            }
            self.body = None;
            if complete {
                return Poll::Ready(None);
            }
            let failure = self.fail(FailureKind::IdleTimeout, format!("no byte for {:?}", self.idle));
            return Poll::Ready(Some(Err(failure)));
        }
        Poll::Pending
    }

    /// Reads on while nobody takes what comes, within a bound: [`EventStream::poll_served`] gives it out later. Ready with
    /// what broke it.
    pub fn read_ahead(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        while !self.ahead.is_full() {
            match std::task::ready!(self.poll_item(context)) {
                Some(Ok(Item { kind: Kind::Error { facts, .. }, .. })) => return Poll::Ready(self.fail_with(facts)),
                Some(Ok(item)) => self.ahead.push(item),
                Some(Err(failure)) => return Poll::Ready(failure),
                None if self.is_complete() => break,
                None => return Poll::Ready(self.ended_too_early()),
            }
        }
        Poll::Pending
    }

    /// The next event; none at the end of the body.
    ///
    /// # Errors
    /// The failure that ends the stream, of phase first-token or stream. It is recorded already.
    pub fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Item, Failure>>> {
        loop {
            match self.scanner.next_event() {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(self.item(event)))),
                Ok(None) => {}
                Err(error) => {
                    let failure = self.fail(FailureKind::Malformed, error.to_string());
                    return Poll::Ready(Some(Err(failure)));
                }
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(None);
            };
            match std::task::ready!(body.poll_chunk(context)) {
                Some(Ok(chunk)) => self.push(chunk),
                Some(Err(_)) if self.is_complete() => {
                    self.body = None;
                    return Poll::Ready(None);
                }
                Some(Err(mut failure)) => {
                    failure.phase = self.phase();
                    self.guard.failed(&failure);
                    return Poll::Ready(Some(Err(failure)));
                }
                None => {
                    self.body = None;
                    self.guard.meter.eof(Instant::now());
                    return Poll::Ready(self.scanner.finish().map(|event| Ok(self.last_item(event))));
                }
            }
        }
    }

    /// Ends the attempt as the one that served its client.
    pub fn won(&mut self) {
        self.guard.won();
    }

    /// Ends the attempt by its own fault, and gives the failure back.
    pub fn fail(&mut self, kind: FailureKind, message: impl Into<String>) -> Failure {
        let failure = Failure::new(kind, self.phase(), message);
        self.guard.failed(&failure);
        failure
    }

    /// Ends the attempt because its body ended and it did not.
    pub fn ended_too_early(&mut self) -> Failure {
        self.fail(FailureKind::Closed, "the provider ended it without a finish reason")
    }

    /// Ends the attempt with the error that it sent itself.
    pub fn fail_with(&mut self, facts: ErrorFacts) -> Failure {
        let mut failure = Failure::new(facts.kind, self.phase(), facts.message);
        failure.status = facts.status;
        self.guard.failed(&failure);
        failure
    }

    /// The upstream said that it is done: a finish reason for every choice, or `[DONE]`.
    pub fn is_complete(&self) -> bool {
        self.done || self.guard.meter.has_finished()
    }

    /// Reading stopped because the client did not take what was there, and goes on now. The idle timer did not run.
    pub fn stalled(&mut self) {
        self.guard.meter.stalled = true;
        self.quiet_since = Instant::now();
    }

    /// Reads what is left behind `[DONE]`, at most for a moment and in the background, so that the connection can be used
    /// again.
    pub fn read_out(mut self, shutdown: &Shutdown) {
        let ended = |stream: &mut EventStream, context: &mut Context<'_>| loop {
            match stream.poll_item(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        };
        // The end has nearly always come with the last event.
        let mut here = Context::from_waker(std::task::Waker::noop());
        if ended(&mut self, &mut here).is_ready() {
            return;
        }
        shutdown.spawn(async move {
            let rest = std::future::poll_fn(|context| ended(&mut self, context));
            let _ = tokio::time::timeout(READ_OUT_FOR, rest).await;
        });
    }

    /// It was not chosen: whoever drops it now cancels a loser.
    pub fn lost(&mut self) {
        self.guard.decide(Fate::Lost);
    }

    /// Reads a loser to its end and throws away what comes, at most so many bytes. The caller bounds the time.
    pub async fn drain(mut self, bytes_max: usize) {
        self.guard.decide(Fate::Drained);
        let mut bytes = 0;
        while let Some(Ok(item)) = std::future::poll_fn(|context| self.poll_item(context)).await {
            bytes += item.raw.len();
            match item.kind {
                Kind::Error { facts, .. } => {
                    self.fail_with(facts);
                    return;
                }
                Kind::Done => break,
                _ if bytes > bytes_max => return,
                _ => {}
            }
        }
        if self.is_complete() {
            self.guard.drained();
        }
    }

    /// Ends the attempt because the total deadline passed while it was read.
    pub fn time_out(&mut self) -> Failure {
        self.fail(FailureKind::Timeout, "the total deadline passed")
    }

    /// Microseconds from the reading of the client's request to the dispatch.
    pub fn dispatch_us(&self) -> i64 {
        self.guard.record.dispatch_us
    }

    /// Microseconds from dispatch to the first token.
    pub fn first_token_us(&self) -> Option<i64> {
        self.guard.meter.first_token_us()
    }

    /// None before the first token.
    pub fn progress(&self) -> Option<Progress> {
        self.guard.meter.progress()
    }

    fn phase(&self) -> Phase {
        if self.guard.meter.first_token_us().is_some() { Phase::Stream } else { Phase::FirstToken }
    }

    fn item(&mut self, event: Event) -> Item {
        let kind = self.classify(&event);
        let raw = if matches!(kind, Kind::Error { .. }) { scrub(event.raw, self.key.as_ref()) } else { event.raw };
        Item { raw, kind }
    }

    /// The last event of a body that forgot its blank line gets one.
    fn last_item(&mut self, event: Event) -> Item {
        let Item { raw, kind } = self.item(event);
        let mut raw = raw.to_vec();
        raw.extend_from_slice(if raw.ends_with(b"\n") { b"\n" } else { b"\n\n" });
        Item { raw: Bytes::from(raw), kind }
    }

    /// Behind `[DONE]` only usage counts.
    fn behind_the_end(&mut self, event: &Event) -> Kind {
        if let Frame::Chunk(Chunk { usage, timings, time_info, .. }) = openai::read(event) {
            let chunk = Chunk { usage, timings, time_info, ..Chunk::default() };
            self.guard.meter.chunk(&chunk, self.read_at);
        }
        Kind::Other
    }

    fn classify(&mut self, event: &Event) -> Kind {
        if self.done {
            return self.behind_the_end(event);
        }
        let meter = &mut self.guard.meter;
        if let Some(payload) = self.template.as_ref().and_then(|template| template.payload_of(event)) {
            meter.payload(payload, self.read_at);
            return Kind::Payload;
        }
        let frame = openai::read(event);
        if !matches!(frame, Frame::KeepAlive) {
            meter.event(self.read_at);
        }
        match frame {
            Frame::KeepAlive => {
                meter.keepalive();
                Kind::Other
            }
            Frame::Done => {
                self.done = true;
                Kind::Done
            }
            Frame::Error { data, usage } => {
                meter.chunk(&Chunk { usage, ..Chunk::default() }, self.read_at);
                let data = scrub(Bytes::copy_from_slice(&data), self.key.as_ref());
                Kind::Error { facts: error::of_frame(&data), data }
            }
            Frame::Malformed => {
                meter.malformed += 1;
                Kind::Malformed
            }
            Frame::Chunk(chunk) => {
                meter.chunk(&chunk, self.read_at);
                if chunk.payload.is_some() {
                    self.template = Template::learn(event, &chunk);
                    Kind::Payload
                } else if chunk.usage_only {
                    Kind::UsageOnly
                } else {
                    Kind::Other
                }
            }
        }
    }
}
