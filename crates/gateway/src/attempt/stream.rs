//! The events of one attempt: read, split, classified and measured in one pass. Not for the client's bytes: see
//! `relay`.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::guard::{AttemptGuard, RaceDecision};
use super::item::{HeldEvents, ItemKind, LastEvent, StreamItem};
use super::meter::Meter;
use super::stream_clock::{StreamClock, TOKENLESS_FOR};
use bytes::Bytes;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::memory::Lease;
use photofinish_base::pace::YieldPace;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::keyring::HashedKey;
use photofinish_dialects::openai::with_members_of;
use photofinish_translation::ResponseTranslation;
use photofinish_transport::upstream::ResponseBody;
use photofinish_wire::answer::error::ErrorFacts;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::stream::framing::FrameDecoder;
use photofinish_wire::stream::template::Template;
use photofinish_wire::{SseEvent, Surface, Usage};

/// How long to wait for the end of a body after a finish reason or `[DONE]`: usage may follow, and the connection can be
/// reused after it.
pub(super) const READ_OUT_FOR: Duration = Duration::from_secs(2);
/// The same while no usage has come: some servers count for seconds.
const USAGE_FOR: Duration = Duration::from_secs(10);

/// Reads an upstream's body. Dropped before its end, it cancels the exchange and records that.
pub struct EventStream {
    /// None once it has ended.
    pub(super) body: Option<ResponseBody>,
    pub(super) decoder: FrameDecoder,
    pub(super) pace: YieldPace,
    pub(super) response_translation: ResponseTranslation,
    pub(super) held: HeldEvents,
    pub(super) shapes: EventShapes,
    pub(super) clock: StreamClock,
    pub(super) signs: EndSigns,
    /// A usage chunk came before the first token.
    pub usage_in_prelude: bool,
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

/// What its events look like.
#[derive(Default)]
pub(super) struct EventShapes {
    /// They have the form of whole answers.
    pub sends_wholes: bool,
    /// One was read leniently. It is passed on as it came.
    pub lenient: bool,
    /// That of the latest text chunk: the next one is likely the same.
    pub template: Option<Template>,
}

/// What says that the answer is whole.
pub(super) struct EndSigns {
    /// `[DONE]`, or what its dialect has for it.
    pub done: bool,
    /// The body ended well.
    ended: bool,
    /// The provider is known to send no finish reason.
    omits_finish_reason: bool,
}

impl EndSigns {
    /// A finish reason for every choice, or `[DONE]` when no choice is open. At the end of the body the choices that never began
    /// are none: some servers give one, however many are asked for.
    fn are_complete(&self, meter: &Meter) -> bool {
        meter.has_finished(self.ended) || self.done && meter.has_no_open_choice(self.omits_finish_reason)
    }
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
        let omits_finish_reason = guard.omits_finish_reason;
        EventStream {
            body,
            decoder: response_translation.decoder(event_max),
            pace: YieldPace::default(),
            response_translation,
            held: HeldEvents::default(),
            shapes: EventShapes::default(),
            clock: StreamClock::new(),
            signs: EndSigns { done: false, ended: false, omits_finish_reason },
            usage_in_prelude: false,
            key,
            guard,
            unfinished: 0,
            lease,
            plain: None,
        }
    }

    /// Takes bytes that were just read.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.clock.note_read();
        self.guard.meter.read(self.clock.read_at);
        self.unfinished += bytes.len();
        self.pace.bytes(bytes.len());
        self.decoder.push(bytes);
    }

    /// Takes the events of an answer that was read to its end.
    pub(super) fn push_whole(&mut self, bytes: Bytes) {
        self.push(bytes);
        self.guard.meter.eof(self.clock.read_at);
    }

    pub fn surface(&self) -> Surface {
        self.response_translation.surface()
    }

    /// Whether some of its bytes are no valid JSON, and still can be read: see [`ResponseTranslation::mended`].
    pub fn is_lenient(&self) -> bool {
        self.shapes.lenient
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

    /// Whether a whole answer for the client has the calls that were read.
    pub(super) fn agrees_with(&mut self, whole: &[u8]) -> bool {
        self.response_translation.agrees_with(whole)
    }

    /// Its provider counted what it generated.
    pub fn has_usage(&self) -> bool {
        self.usage().output_tokens.is_some()
    }

    /// Usage so far, as its provider reports it.
    pub fn usage(&self) -> Usage {
        self.guard.meter.usage()
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
        while !self.held.ahead.is_full() {
            match ready!(self.poll_item(context)) {
                Some(Ok(StreamItem { kind: ItemKind::Error { facts, .. }, .. })) => {
                    return Poll::Ready(self.fail_with(facts));
                }
                Some(Ok(item)) => self.held.ahead.push(item),
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
            match self.held.expanded.pop_front().map_or_else(|| self.decoder.next_event(), |event| Ok(Some(event))) {
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
                    self.guard.grow_reservation();
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
                    (self.body, self.signs.ended) = (None, true);
                    self.guard.meter.eof(Instant::now());
                    return Poll::Ready(self.decoder.finish().map(|event| Ok(self.last_item(event))));
                }
            }
        }
    }

    /// Ends the attempt as the winner that served its client.
    pub fn won(&mut self) {
        self.guard.won();
        self.give_to_judge();
    }

    /// Its answer is whole and can be judged.
    fn give_to_judge(&mut self) {
        if let Some(tape) = &mut self.guard.tape {
            tape.take(self.response_translation.said().take());
        }
    }

    /// The arguments of one of its calls cannot be read.
    pub(super) fn note_broken_call(&mut self) {
        if let Some(tape) = &mut self.guard.tape {
            tape.note_broken_call();
        }
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

    pub fn is_complete(&self) -> bool {
        self.signs.are_complete(&self.guard.meter)
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
        self.guard.decide(RaceDecision::Lost);
    }

    /// Reads a loser to its end, at most this many bytes, and discards them. The caller bounds the time.
    pub async fn drain(mut self, bytes_max: usize, is_billed: bool) {
        self.guard.decide(if is_billed { RaceDecision::Drained } else { RaceDecision::ReadOn });
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
            self.give_to_judge();
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

    /// Cancelling it closes its connection: it comes over HTTP/1.1.
    pub fn owns_connection(&self) -> bool {
        self.guard.owns_connection()
    }

    /// Tokens so far, at least.
    pub fn tokens(&self) -> i64 {
        self.guard.meter.tokens()
    }

    fn phase(&self) -> Phase {
        if self.guard.meter.first_token_us().is_some() { Phase::Stream } else { Phase::FirstToken }
    }
}

/// Bytes that a stream may buffer without accounting for them: normal traffic needs no more.
const UNACCOUNTED: usize = 64 << 10;
/// Copies of an event while it is translated: a tree, the pieces made of it, and what is written from them.
const TRANSLATION_COPIES: usize = 3;

impl EventStream {
    /// Accounts for this many held bytes.
    ///
    /// # Errors
    /// There is no memory for them. The failure is already recorded.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes > UNACCOUNTED && self.lease.cover(bytes).is_err() {
            return Err(self.fail(FailureKind::GatewayLimit, "the memory for bodies and buffers is in use"));
        }
        Ok(())
    }

    /// This many bytes are no longer held.
    pub(super) fn let_go(&mut self, bytes: usize) {
        // A whole answer is still in memory.
        if bytes > UNACCOUNTED && self.body.is_some() {
            self.lease.settle(0);
        }
    }

    /// Whether an event counts by itself. A whole answer is counted already.
    pub(super) fn is_large(&self, event: &SseEvent) -> bool {
        event.raw.len() > UNACCOUNTED && self.body.is_some()
    }

    /// A large event, counted for as long as any part of it is held.
    ///
    /// # Errors
    /// There is no memory to read it.
    pub(super) fn admitted(&mut self, event: SseEvent) -> Result<SseEvent, Failure> {
        let copies = if self.is_translated() { TRANSLATION_COPIES } else { 1 };
        self.hold(event.raw.len().saturating_mul(1 + copies))?;
        Ok(SseEvent { raw: self.counted(event.raw) })
    }

    /// Counts large bytes for as long as they are held: a client may be slow to take them.
    pub(super) fn counted(&self, raw: Bytes) -> Bytes {
        if raw.len() <= UNACCOUNTED { raw } else { self.lease.another(raw.len()).hold(raw) }
    }
}

impl EventStream {
    /// The attempt won: its times run from now on. `idle`: without a byte.
    pub fn serve(&mut self, idle: Duration) {
        self.let_go(usize::MAX);
        self.clock.serve(idle, self.guard.token_times());
    }

    /// The next event of a winner, including its end: see [`EventStream::poll_served`].
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        if let Some(item) = self.held.ahead.pop() {
            return Poll::Ready(Some(Ok(item)));
        }
        // Events after the end, such as pings, do not delay it.
        if self.clock.complete_since().is_some_and(|since| since.elapsed() >= self.read_out_for()) {
            self.body = None;
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = self.poll_item(context) {
            return Poll::Ready(item);
        }
        if self.held.end.is_some() || matches!(self.held.last, LastEvent::Held(_)) {
            return Poll::Pending;
        }
        let complete = self.is_complete();
        if complete && self.clock.complete_since().is_none() {
            let most = self.read_out_for();
            self.clock.wait_for_more(most);
        }
        if self.pace.rests() {
            // More can be read: the provider is not silent.
            self.clock.note_sound();
            return Poll::Pending;
        }
        while self.clock.poll_timer(context).is_ready() {
            if complete {
                self.body = None;
                return Poll::Ready(None);
            }
            match self.clock.due(self.guard.token_times()) {
                Some(due) if due > Instant::now() => self.clock.set_timer(due),
                _ => return Poll::Ready(Some(Err(self.late()))),
            }
        }
        Poll::Pending
    }

    /// Reading resumes after a slow client. Its silences did not count during the pause.
    pub fn stalled(&mut self) {
        self.guard.meter.stalled = true;
        self.clock.resume();
    }

    /// Ends the attempt: the total deadline passed.
    pub fn time_out(&mut self) -> Failure {
        self.fail(FailureKind::Timeout, "the total deadline passed")
    }

    /// Ends the attempt: its answer goes on without end.
    pub(super) fn endless(&mut self) -> Failure {
        self.body = None;
        let message = format!("it goes on without end: more than {}", self.guard.meter.bound());
        self.fail(FailureKind::Endless, message)
    }

    /// Called after a read. The failure of an answer whose time is over, although it is never silent.
    #[inline]
    pub(super) fn overdue(&mut self) -> Option<Failure> {
        if !self.clock.may_be_overdue() {
            return None;
        }
        let is_over = self.clock.due_of_tokens(self.guard.token_times())? <= self.clock.read_at && !self.is_complete();
        is_over.then(|| self.late())
    }

    /// How long to wait for the end of the body of a complete answer.
    pub(super) fn read_out_for(&self) -> Duration {
        let most = if self.signs.done || self.has_usage() { READ_OUT_FOR } else { USAGE_FOR };
        self.clock.idle().map_or(most, |idle| most.min(idle))
    }

    /// Ends the attempt: its time is over.
    fn late(&mut self) -> Failure {
        self.body = None;
        let (now, quiet_for) = (Instant::now(), self.clock.quiet_for());
        match self.clock.idle() {
            _ if now >= self.guard.until => self.time_out(),
            Some(idle) if quiet_for >= idle => self.fail(FailureKind::IdleTimeout, format!("no byte for {idle:?}")),
            _ => self.fail(FailureKind::IdleTimeout, format!("no token for {TOKENLESS_FOR:?}")),
        }
    }
}

impl EventStream {
    /// The client did not ask for the usage chunk, so what else it says is joined to the event before it. Returns the bytes up to
    /// the first payload, unless they are held back.
    pub fn join_usage_chunk(&mut self, prelude: Bytes) -> Bytes {
        if self.is_translated() || !matches!(self.surface(), Surface::Chat | Surface::Completions) {
            return prelude;
        }
        self.held.last = LastEvent::Awaited;
        if !self.is_complete() {
            return prelude;
        }
        self.hold_last(StreamItem::new(prelude, ItemKind::Other, 0));
        Bytes::new()
    }

    /// The next event of a winner, with the last one held back for at most 100 ms.
    pub(super) fn poll_last(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            match &self.held.last {
                LastEvent::Passed => return self.poll_next(context),
                LastEvent::Awaited => match self.poll_next(context) {
                    Poll::Ready(Some(Ok(item))) if self.may_be_last(&item) => self.hold_last(item),
                    next => return next,
                },
                LastEvent::Held(_) => match self.poll_next(context) {
                    Poll::Pending if self.poll_behind(context) => return Poll::Pending,
                    next => return Poll::Ready(self.release_last(next)),
                },
                LastEvent::Followed(_) => {
                    if let LastEvent::Followed(next) = std::mem::take(&mut self.held.last) {
                        return Poll::Ready(Some(*next));
                    }
                }
            }
        }
    }

    /// The bytes of an event that is still held back.
    pub(super) fn held_last(&mut self) -> Bytes {
        match std::mem::take(&mut self.held.last) {
            LastEvent::Held(item) => item.raw,
            _ => Bytes::new(),
        }
    }

    fn may_be_last(&self, item: &StreamItem) -> bool {
        let is_own = matches!(item.kind, ItemKind::Payload | ItemKind::Other);
        is_own && item.more.is_none() && self.held.end.is_none() && self.is_complete()
    }

    fn hold_last(&mut self, item: StreamItem) {
        self.held.last = LastEvent::Held(item);
        self.clock.wait_for_more(BEHIND_FOR);
    }

    /// The event that was held back, joined with what came after it. During a race the stream may have been read to its end, so
    /// the one after it may be the last.
    fn release_last(&mut self, next: Poll<Option<Result<StreamItem, Failure>>>) -> Option<Result<StreamItem, Failure>> {
        let mut last = match std::mem::take(&mut self.held.last) {
            LastEvent::Held(last) => last,
            _ => return None,
        };
        self.wait_for_end();
        match next {
            Poll::Ready(Some(Ok(usage))) if matches!(usage.kind, ItemKind::UsageOnly) => {
                last.raw = with_members_of(last.raw, &usage.raw);
            }
            Poll::Ready(Some(Ok(next))) if self.may_be_last(&next) => self.hold_last(next),
            Poll::Ready(Some(next)) => self.held.last = LastEvent::Followed(Box::new(next)),
            Poll::Ready(None) | Poll::Pending => {}
        }
        Some(Ok(last))
    }
}

/// How long the end of an answer is held back for later events, such as a price. The end of the body has nearly always come
/// already.
const BEHIND_FOR: Duration = Duration::from_millis(100);
/// Bytes of later events that are passed on.
const BEHIND_MAX: usize = 64 << 10;

impl EventStream {
    /// Whether the next read yields first, so that other tasks run.
    pub fn is_due_to_rest(&self) -> bool {
        self.pace.is_due()
    }

    /// The next event of a winner; none once the stream has ended, complete or not. Events that a vendor sends right after its
    /// end are returned before that end.
    ///
    /// # Errors
    /// The failure that broke it. A complete answer cannot break.
    pub fn poll_served(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        loop {
            let next = self.poll_last(context);
            let Some((_, left)) = &mut self.held.end else {
                match next {
                    Poll::Ready(Some(Ok(item))) if matches!(item.kind, ItemKind::Done) => self.hold_end(item),
                    next => return next,
                }
                continue;
            };
            match next {
                Poll::Ready(Some(Ok(item))) if item.size <= *left => {
                    *left -= item.size;
                    return Poll::Ready(Some(Ok(item)));
                }
                Poll::Pending if self.poll_behind(context) => return Poll::Pending,
                _ => return Poll::Ready(self.give_end()),
            }
        }
    }

    /// Holds back the last event.
    fn hold_end(&mut self, end: StreamItem) {
        self.held.end = Some((end, BEHIND_MAX));
        self.clock.wait_for_more(BEHIND_FOR);
    }

    /// From now on it waits only for the end of the body.
    pub(super) fn wait_for_end(&mut self) {
        let most = self.read_out_for();
        self.clock.wait_for_end(most);
    }

    /// Polls the wait for events after the end. True: it lasts longer.
    pub(super) fn poll_behind(&mut self, context: &mut Context<'_>) -> bool {
        let waits = self.clock.has_timer() && self.clock.poll_timer(context).is_pending();
        if !waits {
            self.wait_for_end();
        }
        waits
    }

    /// The last event, with the end of a translation.
    fn give_end(&mut self) -> Option<Result<StreamItem, Failure>> {
        let (mut end, _) = self.held.end.take()?;
        if self.is_translated() {
            end.raw = Bytes::from([end.raw, self.ending()].concat());
        }
        Some(Ok(end))
    }

    /// Reads the rest of the body, only for its usage.
    pub(super) async fn read_behind(&mut self) {
        let rest = async { while let Some(Ok(_)) = poll_fn(|context| self.poll_item(context)).await {} };
        let _ = tokio::time::timeout(BEHIND_FOR, rest).await;
    }
}
