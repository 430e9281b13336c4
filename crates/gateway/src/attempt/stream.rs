//! The events of one attempt: read, split, classified and measured in one pass. Not for the client's bytes: see
//! `relay`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Sleep;

use super::guard::{AttemptGuard, CancelReason};
use super::held_back::HeldBack;
use super::item::{ItemKind, LastEvent, StreamItem};
use photofinish_base::budget::Lease;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::pace::YieldPace;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::keyring::HashedKey;
use photofinish_transport::upstream::ResponseBody;
use photofinish_wire::answer::error::ErrorFacts;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::stream::framing::FrameDecoder;
use photofinish_wire::stream::template::Template;
use photofinish_wire::{ResponseTranslation, SseEvent, Surface};

/// How long to wait for the end of a body after a finish reason or `[DONE]`: usage may follow, and the connection can be
/// reused after it.
pub(super) const READ_OUT_FOR: Duration = Duration::from_secs(2);

/// Reads an upstream's body. Dropped before its end, it cancels the exchange and records that.
pub struct EventStream {
    /// None once it has ended.
    pub(super) body: Option<ResponseBody>,
    pub(super) decoder: FrameDecoder,
    pub(super) pace: YieldPace,
    pub(super) response_translation: ResponseTranslation,
    /// Events read during a hold; they are returned first.
    pub(super) ahead: HeldBack,
    /// The events of a whole answer that came as one event. They come before all others.
    pub(super) expanded: VecDeque<SseEvent>,
    /// Its events have the form of whole answers.
    pub(super) sends_wholes: bool,
    /// An event was read leniently. It is passed on as it came.
    pub(super) lenient: bool,
    /// When the read that brought the current events returned.
    pub(super) read_at: Instant,
    /// Start of the current silence: the last read, or when reading resumed after a slow client.
    pub(super) quiet_since: Instant,
    /// Fires after too long a silence. Moved only when it fires. None before the commit.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
    /// How it is served; none before the commit.
    pub(super) served: Option<ServedTimes>,
    /// When the answer became complete; only usage may follow.
    pub(super) complete_since: Option<Instant>,
    pub(super) done: bool,
    /// The body ended well.
    ended: bool,
    /// The last event, held back for later ones, and the bytes that may still come.
    pub(super) end: Option<(StreamItem, usize)>,
    /// The event before the usage chunk, which a client may not have asked for.
    pub(super) last: LastEvent,
    /// The provider is known to send no finish reason.
    omits_finish_reason: bool,
    /// A usage chunk came before the first token.
    pub usage_in_prelude: bool,
    /// The shape of the latest text chunk: the next one is likely the same.
    pub(super) template: Option<Template>,
    /// The key that was sent: some vendors quote it in errors.
    pub(super) key: Option<HashedKey>,
    pub(super) guard: Box<AttemptGuard>,
    /// Bytes read since the last complete event.
    unfinished: usize,
    /// Memory for an event of many reads, and for held events.
    pub(super) lease: Lease,
    /// The whole answer as the upstream sent it, if it was asked for in one piece.
    pub(super) plain: Option<Bytes>,
}

/// The times of an answer that is served.
pub(super) struct ServedTimes {
    /// Without a byte.
    pub idle: Duration,
    /// Since the commit, or since reading resumed after a slow client.
    pub since: Instant,
    /// It may be overdue from then on, if no token comes; not before.
    pub look_at: Instant,
}

impl EventStream {
    /// `event_max`: bytes; a larger event is an error.
    pub(super) fn new(
        body: Option<ResponseBody>,
        response_translation: ResponseTranslation,
        event_max: usize,
        key: Option<HashedKey>,
        guard: Box<AttemptGuard>,
        lease: Lease,
    ) -> EventStream {
        let now = Instant::now();
        let omits_finish_reason = guard.omits_finish_reason;
        EventStream {
            body,
            decoder: response_translation.decoder(event_max),
            pace: YieldPace::default(),
            response_translation,
            ahead: HeldBack::default(),
            expanded: VecDeque::new(),
            sends_wholes: false,
            lenient: false,
            read_at: now,
            quiet_since: now,
            timer: None,
            served: None,
            complete_since: None,
            done: false,
            ended: false,
            end: None,
            last: LastEvent::default(),
            omits_finish_reason,
            usage_in_prelude: false,
            template: None,
            key,
            guard,
            unfinished: 0,
            lease,
            plain: None,
        }
    }

    /// Takes bytes that were just read.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.read_at = Instant::now();
        self.quiet_since = self.read_at;
        self.guard.meter.read(self.read_at);
        self.unfinished += bytes.len();
        self.pace.bytes(bytes.len());
        self.decoder.push(bytes);
    }

    /// Takes the events of an answer that was read to its end.
    pub(super) fn push_whole(&mut self, bytes: Bytes) {
        self.push(bytes);
        self.guard.meter.eof(self.read_at);
    }

    pub fn surface(&self) -> Surface {
        self.response_translation.surface()
    }

    /// Whether some of its bytes are no valid JSON, and still can be read: see [`ResponseTranslation::mended`].
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// The caller lists `functions` instead of tools.
    pub fn legacy_functions(&self) -> bool {
        self.response_translation.legacy_functions()
    }

    pub fn is_translated(&self) -> bool {
        self.response_translation.is_translated()
    }

    /// The upstream's own bytes of a plain answer in the caller's dialect.
    pub(super) fn plain_answer(&mut self) -> Option<Bytes> {
        self.plain.take().filter(|_| !self.is_translated())
    }

    /// That answer surely says something, so it need not be put together to find out.
    pub(super) fn is_plain_and_says(&self) -> bool {
        self.plain.is_some() && !self.is_translated() && self.guard.meter.says
    }

    /// The answer came in one piece, as it was asked for: it has no first token.
    pub fn is_plain(&self) -> bool {
        self.guard.record.plain
    }

    /// Its provider counted what it generated.
    pub fn has_usage(&self) -> bool {
        self.guard.meter.usage().output_tokens.is_some()
    }

    /// The error event that ends a broken answer, in the caller's dialect.
    pub fn error_event(&mut self, error: &ErrorShape<'_>) -> Bytes {
        self.response_translation.error_event(error)
    }

    /// The end of a complete answer whose own end event is missing.
    pub fn ending(&mut self) -> Bytes {
        let (held, ending) = (self.held_last(), self.response_translation.ending());
        if held.is_empty() { ending } else { Bytes::from([held, ending].concat()) }
    }

    /// Reads on during a hold, within a bound. [`EventStream::poll_served`] returns the events later. Ready: the failure that
    /// broke it.
    pub fn read_ahead(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        while !self.ahead.is_full() {
            match ready!(self.poll_item(context)) {
                Some(Ok(StreamItem { kind: ItemKind::Error { facts, .. }, .. })) => {
                    return Poll::Ready(self.fail_with(facts));
                }
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
    /// The failure that ends the stream, of phase first-token or stream. It is already recorded.
    pub fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            ready!(self.pace.poll_proceed(context));
            match self.expanded.pop_front().map_or_else(|| self.decoder.next_event(), |event| Ok(Some(event))) {
                Ok(Some(event)) => {
                    let large = self.is_large(&event);
                    let event = match large {
                        true => match self.admitted(event) {
                            Ok(event) => event,
                            Err(failure) => return Poll::Ready(Some(Err(failure))),
                        },
                        false => event,
                    };
                    let mut item = self.item(event);
                    if large && self.is_translated() {
                        item.raw = self.counted(item.raw);
                    }
                    self.let_go(self.unfinished);
                    self.unfinished = 0;
                    if self.guard.meter.is_endless() && self.body.is_some() {
                        return Poll::Ready(Some(Err(self.endless())));
                    }
                    return Poll::Ready(Some(Ok(item)));
                }
                Ok(None) => {
                    if let Err(failure) = self.hold(self.unfinished) {
                        return Poll::Ready(Some(Err(failure)));
                    }
                }
                Err(error) => {
                    let failure = self.fail(FailureKind::Malformed, error.to_string());
                    return Poll::Ready(Some(Err(failure)));
                }
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(None);
            };
            match ready!(body.poll_chunk(context)) {
                Some(Ok(chunk)) => {
                    self.push(chunk);
                    if let Some(failure) = self.overdue() {
                        return Poll::Ready(Some(Err(failure)));
                    }
                }
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
                    (self.body, self.ended) = (None, true);
                    self.guard.meter.eof(Instant::now());
                    return Poll::Ready(self.decoder.finish().map(|event| Ok(self.last_item(event))));
                }
            }
        }
    }

    /// Ends the attempt as the winner that served its client.
    pub fn won(&mut self) {
        self.guard.won();
    }

    /// Ends the attempt by its own fault and returns the failure.
    pub fn fail(&mut self, kind: FailureKind, message: impl Into<String>) -> Failure {
        let failure = Failure::new(kind, self.phase(), message);
        self.guard.failed(&failure);
        failure
    }

    /// The key that was sent.
    pub fn key(&self) -> Option<&HashedKey> {
        self.key.as_ref()
    }

    /// Ends the attempt: its body ended before the answer did.
    pub fn ended_too_early(&mut self) -> Failure {
        let facts = self.incomplete();
        self.fail_with(facts)
    }

    /// Ends the attempt with the error that the upstream sent.
    pub fn fail_with(&mut self, facts: ErrorFacts) -> Failure {
        let mut failure = Failure::new(facts.kind, self.phase(), facts.message);
        failure.status = facts.status;
        failure.certain = facts.certain;
        failure.whole_account = facts.whole_account;
        failure.retry_after = facts.reset.and_then(|reset| reset.wait(wall_micros() / 1_000));
        self.guard.failed(&failure);
        failure
    }

    /// Counts further work on an item as work of this stream.
    pub fn worked(&mut self, item: &StreamItem) {
        self.pace.event(item.raw.len());
    }

    /// The answer is complete: a finish reason for every choice, or `[DONE]` when no choice is open. At the end of the body the
    /// choices that never began are none: some servers give one, however many are asked for.
    pub fn is_complete(&self) -> bool {
        let meter = &self.guard.meter;
        meter.has_finished(self.ended) || self.done && meter.has_no_open_choice(self.omits_finish_reason)
    }

    /// Reads the rest after `[DONE]` in the background, for a short time, so that the connection can be reused.
    pub fn read_out(mut self, shutdown: &Shutdown) {
        let ended = |stream: &mut EventStream, context: &mut Context<'_>| loop {
            match stream.poll_item(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        };
        // The end nearly always comes with the last event.
        let mut here = Context::from_waker(std::task::Waker::noop());
        if ended(&mut self, &mut here).is_ready() {
            return;
        }
        shutdown.spawn(async move {
            let rest = std::future::poll_fn(|context| ended(&mut self, context));
            let _ = tokio::time::timeout(READ_OUT_FOR, rest).await;
        });
    }

    /// It lost: dropping it now cancels a loser.
    pub fn lost(&mut self) {
        self.guard.decide(CancelReason::Lost);
    }

    /// Reads a loser to its end, at most this many bytes, and discards them. The caller bounds the time.
    pub async fn drain(mut self, bytes_max: usize) {
        self.guard.decide(CancelReason::Drained);
        let mut bytes = 0;
        while let Some(Ok(item)) = std::future::poll_fn(|context| self.poll_item(context)).await {
            bytes += item.size;
            match item.kind {
                ItemKind::Error { facts, .. } => {
                    self.fail_with(facts);
                    return;
                }
                ItemKind::Done => break,
                _ if bytes > bytes_max => return,
                _ => {}
            }
        }
        // Its cost may come after its end.
        self.read_behind().await;
        if self.is_complete() {
            self.guard.drained();
        }
    }

    /// Microseconds from reading the client's request to the dispatch.
    pub fn dispatch_us(&self) -> i64 {
        self.guard.record.dispatch_us
    }

    /// Microseconds from dispatch to the token that made it ready.
    pub fn first_token_us(&self) -> Option<i64> {
        let AttemptGuard { meter, answer_only, .. } = &*self.guard;
        if *answer_only { meter.first_answer_us() } else { meter.first_token_us() }
    }

    /// Tokens so far, at least.
    pub fn tokens(&self) -> i64 {
        self.guard.meter.tokens()
    }

    fn phase(&self) -> Phase {
        if self.guard.meter.first_token_us().is_some() { Phase::Stream } else { Phase::FirstToken }
    }
}
