//! The guard of an attempt's row: it exists from the start and writes the row once, at the latest on drop. Not for measuring:
//! see `meter`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tracing::{Level, enabled};

use super::answer_length::LengthBound;
use super::judge::AnswerTape;
use super::meter::Meter;
use super::spec::{AttemptSpec, ExchangeSpec, InFlightGuard, PassSpec};
use super::stream_clock::TokenTimes;
use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::shutdown::Shutdown;
use photofinish_base::telemetry::LogContext;
use photofinish_config::{FirstToken, Provider, Timeouts, UpstreamConfig};
use photofinish_facts::bill::BillBounds;
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, CensorCause, StartReason};
use photofinish_facts::recording::{AttemptStep, RaceSink};
use photofinish_limits::{AttemptReservation, KnownCost};
use photofinish_routing::learning::{AttemptObserver, ObservedEnd};
use photofinish_routing::verdict::slows_hedging;
use photofinish_transport::upstream::{ConnectionOrigin, Response};
use photofinish_wire::AnswerForm;
use photofinish_wire::answer::headers;

/// What the race has decided of an attempt. An audited or a drained loser runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RaceDecision {
    /// If it is dropped now, the client left or the gateway shuts down.
    Undecided,
    Lost,
    Audited,
    Drained,
    /// It is read on, because its rest is short or to be judged.
    ReadOn,
    Late,
    Deadline,
}

/// What an attempt and its race share.
#[derive(Default)]
pub(super) struct AttemptShared {
    decision: AtomicU8,
    /// Cancelling it closes its connection.
    owns_connection: AtomicBool,
    /// Its answer began as a refusal.
    refused: AtomicBool,
}

impl AttemptShared {
    pub fn decide(&self, decision: RaceDecision) {
        self.decision.store(decision as u8, Ordering::Relaxed);
    }

    pub fn owns_connection(&self) -> bool {
        self.owns_connection.load(Ordering::Relaxed)
    }

    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    fn decided(&self) -> RaceDecision {
        let value = self.decision.load(Ordering::Relaxed);
        [
            RaceDecision::Lost,
            RaceDecision::Audited,
            RaceDecision::Drained,
            RaceDecision::ReadOn,
            RaceDecision::Late,
            RaceDecision::Deadline,
        ]
        .into_iter()
        .find(|decision| *decision as u8 == value)
        .unwrap_or(RaceDecision::Undecided)
    }
}

/// Not `Clone`: two guards would report one attempt twice.
pub(super) struct AttemptGuard {
    /// Boxed: it is large, and the guard moves with its future.
    pub record: Box<AttemptRecord>,
    pub meter: Meter,
    read_at: Instant,
    /// A streamed answer ends until then.
    pub until: Instant,
    dispatch: Instant,
    shared: Arc<AttemptShared>,
    /// How it ended by itself. None: not yet.
    ended: Option<AttemptOutcome>,
    bill: BillBounds,
    /// The number of answers that the request asked for, if given.
    choices: Option<i64>,
    /// The provider is known to send no finish reason.
    pub omits_finish_reason: bool,
    /// Only a token of the answer counts as the first, not reasoning.
    pub answer_only: bool,
    /// A token count: it has no time to first token.
    counts: bool,
    /// The client does not stream.
    whole: bool,
    sink: Arc<dyn RaceSink>,
    shutdown: Shutdown,
    /// Its pooled connection had died: the failure says nothing about the upstream.
    stale: bool,
    /// The names of its attempt in the log.
    context: LogContext,
    /// None for an attempt that statistics ignore.
    attempt_observer: Option<AttemptObserver>,
    reservation: AttemptReservation,
    _slot: Option<InFlightGuard>,
    pub tape: Option<Box<AnswerTape>>,
}

impl AttemptGuard {
    pub fn new(spec: &mut AttemptSpec, shared: Arc<AttemptShared>, reservation: AttemptReservation) -> AttemptGuard {
        let (dispatch, provider) = (Instant::now(), &spec.upstream.provider);
        let bound = (choices_asked(spec.choices), length_bound(spec));
        let record = new_record(spec, dispatch);
        let mut guard =
            AttemptGuard::of(&spec.exchange, provider, spec.upstream.timeouts, (record, reservation), bound);
        (guard.bill.price, guard.choices) = (spec.upstream.price, spec.choices);
        guard.meter.set_job(spec.job.take());
        guard.bill.asks_hour = spec.asks_hour;
        guard.omits_finish_reason = provider.omits_finish_reason;
        guard.answer_only = spec.first_token == FirstToken::Answer;
        guard.counts = spec.request_translation.surface().counts();
        (guard.shared, guard.whole) = (shared, !spec.streams);
        (guard.attempt_observer, guard._slot) = (spec.attempt_observer.take(), spec.slot.take());
        (guard.bill.per_byte, guard.bill.per_byte_elsewhere) = spec.per_byte;
        guard.tape = spec.tape.take().map(Box::new);
        guard
    }

    /// For an exchange that is passed on: it has no first token, and teaches nothing.
    pub fn passing(spec: &PassSpec, reservation: AttemptReservation) -> AttemptGuard {
        let upstream = (spec.provider.name.clone(), spec.word.clone());
        let record = AttemptRecord {
            dialect: spec.spoken.dialect.as_str(),
            key_id: spec.exchange.key.as_ref().map(|key| key.id().to_owned()),
            plain: true,
            ..AttemptRecord::new(spec.exchange.race_id.clone(), 0, upstream, StartReason::First)
        };
        let bound = (1, LengthBound::new(None, None, 0));
        AttemptGuard::of(&spec.exchange, &spec.provider, spec.timeouts, (record, reservation), bound)
    }

    /// `bound`: the choices that are asked for, and how long each may be.
    fn of(
        exchange: &ExchangeSpec,
        provider: &Provider,
        timeouts: Timeouts,
        (record, reservation): (AttemptRecord, AttemptReservation),
        bound: (u32, LengthBound),
    ) -> AttemptGuard {
        let (dispatch, cancel_billing) = (Instant::now(), provider.cancel_billing);
        AttemptGuard {
            record: Box::new(record),
            meter: Meter::new(dispatch, bound.0, bound.1, exchange.key.clone()),
            read_at: exchange.read_at,
            until: exchange.read_at + timeouts.stream_total,
            dispatch,
            shared: Arc::default(),
            ended: None,
            bill: BillBounds::new(cancel_billing),
            choices: None,
            omits_finish_reason: false,
            answer_only: false,
            counts: false,
            whole: false,
            sink: exchange.sink.clone(),
            shutdown: exchange.shutdown.clone(),
            stale: false,
            context: exchange.context.clone(),
            attempt_observer: None,
            reservation,
            _slot: None,
            tape: None,
        }
    }

    /// Its answer names a model: from now on it has the price of this upstream.
    pub fn set_price(&mut self, upstream: &UpstreamConfig) {
        self.bill.price = upstream.price;
        self.record.price_source = upstream.price_source.as_ref().map(ToString::to_string);
    }

    /// The attempt's clock starts: it requests a connection now.
    pub fn dispatched(&mut self) {
        self.dispatch = Instant::now();
        self.record.dispatch_us = micros_between(self.read_at, self.dispatch);
        self.meter.begin(self.dispatch);
        self.sink.step(&self.record, AttemptStep::Dispatched, 0);
    }

    /// Records a decision from outside.
    pub fn decide(&self, decision: RaceDecision) {
        self.shared.decide(decision);
    }

    pub fn owns_connection(&self) -> bool {
        self.shared.owns_connection()
    }

    /// What cuts its stream apart from silence.
    pub fn token_times(&self) -> TokenTimes {
        TokenTimes { last: self.meter.last_token_at(), until: self.until }
    }

    /// Microseconds since the dispatch.
    pub fn elapsed(&self, at: Instant) -> i64 {
        micros_between(self.dispatch, at)
    }

    pub fn connected(&mut self, connected: ConnectionOrigin) {
        self.shared.owns_connection.store(!connected.http2, Ordering::Relaxed);
        self.record.conn_reused = Some(connected.reused);
        self.record.http_version = Some(if connected.http2 { "2" } else { "1.1" });
        let at_us = self.elapsed(connected.at);
        self.record.connect_us = Some(at_us);
        self.sink.step(&self.record, AttemptStep::Connected, at_us);
    }

    /// Status and headers of the answer.
    pub fn head(&mut self, response: &Response) {
        let at_us = self.elapsed(Instant::now());
        self.record.headers_us = Some(at_us);
        self.record.http_status = Some(i64::from(response.status.as_u16()));
        self.sink.step(&self.record, AttemptStep::Headers, at_us);
        let facts = headers::read(&response.headers);
        self.record.ratelimit_remaining_requests = facts.remaining_requests;
        self.record.ratelimit_remaining_tokens = facts.remaining_tokens;
        self.meter.head(facts.usage);
    }

    /// Notes that the answer is a stream, whatever was asked for.
    pub fn note_stream(&mut self) {
        if std::mem::take(&mut self.record.plain)
            && let Some(attempt_observer) = &mut self.attempt_observer
        {
            attempt_observer.note_stream();
            self.record.predicted_us = None;
        }
    }

    /// The first token came, or the plain answer.
    pub fn first_token(&mut self) {
        let Some(ttft_us) = self.meter.first_token_us() else { return };
        if !self.record.plain {
            self.sink.step(&self.record, AttemptStep::FirstToken, ttft_us);
        }
        if let Some(attempt_observer) = &mut self.attempt_observer {
            attempt_observer.first_token(ttft_us);
        }
    }

    /// More of its answer has come.
    pub fn grow_reservation(&mut self) {
        self.reservation.grow(self.meter.tokens().max(0).unsigned_abs());
    }

    /// It served the client to its end.
    pub fn won(&mut self) {
        self.ended.get_or_insert(AttemptOutcome::Won);
    }

    /// It lost and was read to its end.
    pub fn drained(&mut self) {
        self.ended.get_or_insert(AttemptOutcome::Drained);
    }

    /// It was refused. Called when the status arrives, and again when the body adds details.
    pub fn refused(&mut self, failure: &Failure) {
        self.shared.refused.store(true, Ordering::Relaxed);
        self.ended = None;
        self.failed(failure);
    }

    /// It ended by its own fault. The first ending counts.
    pub fn failed(&mut self, failure: &Failure) {
        if self.ended.is_some() {
            return;
        }
        let had_token = self.meter.first_token_us().is_some();
        self.ended = Some(match failure.kind {
            FailureKind::Empty => AttemptOutcome::Empty,
            FailureKind::GatewayLimit => AttemptOutcome::Shed,
            FailureKind::ContentPolicy if !had_token => AttemptOutcome::Refused,
            FailureKind::Timeout if !had_token => AttemptOutcome::Timeout,
            _ if had_token => AttemptOutcome::FailedMid,
            _ => AttemptOutcome::Failed,
        });
        if failure.kind != FailureKind::Empty {
            self.record.failure = Some(failure.kind.as_str());
            self.record.failure_phase = Some(failure.phase.as_str());
        }
        self.stale = failure.stale;
        self.record.retry_after_ms = failure.retry_after.and_then(|wait| i64::try_from(wait.as_millis()).ok());
    }

    /// Fills in the last columns.
    fn finish(&mut self) {
        self.meter.write(&mut self.record);
        let now = self.elapsed(Instant::now());
        let record = &mut *self.record;
        if !self.counts && !record.plain {
            self.meter.write_tokens(record);
        }
        if self.counts {
            (record.payload_events, record.chars_total) = (0, 0);
        }
        // When it came, the provider knows alone.
        if record.plain {
            (record.finish_us, record.burst) = (None, None);
        }
        record.audited = self.shared.decided() == RaceDecision::Audited;
        let mut censored = None;
        record.outcome = match (self.ended, self.shared.decided()) {
            (Some(outcome), _) => outcome,
            (None, RaceDecision::Lost | RaceDecision::ReadOn) => {
                censored = Some(CensorCause::Lost);
                AttemptOutcome::Lost
            }
            (None, RaceDecision::Audited | RaceDecision::Drained) => {
                censored = Some(if self.shutdown.is_draining() { CensorCause::Shutdown } else { CensorCause::Timeout });
                AttemptOutcome::Lost
            }
            (None, RaceDecision::Late | RaceDecision::Deadline) => {
                record.failure = Some(FailureKind::Timeout.as_str());
                let phase = if record.headers_us.is_some() { Phase::FirstToken } else { Phase::Headers };
                record.failure_phase = Some(phase.as_str());
                censored = Some(CensorCause::Timeout);
                AttemptOutcome::Timeout
            }
            (None, RaceDecision::Undecided) if self.shutdown.is_cancelled() => {
                censored = Some(CensorCause::Shutdown);
                AttemptOutcome::Shutdown
            }
            (None, RaceDecision::Undecided) => {
                censored = Some(CensorCause::ClientGone);
                AttemptOutcome::ClientGone
            }
        };
        if self.ended.is_none() {
            record.cancel_us = Some(now);
        }
        match (record.first_token_us, censored.filter(|_| !record.plain)) {
            (Some(at), _) => (record.ttft_obs_us, record.ttft_event) = (Some(at), Some(1)),
            (None, Some(cause)) => {
                (record.ttft_obs_us, record.ttft_event) = (Some(now), Some(0));
                record.censor_cause = Some(cause);
            }
            (None, None) => {}
        }
        let usage = self.meter.usage();
        self.bill.hour = usage.cache_hour_tokens.unwrap_or(0);
        self.bill.count(record, usage.cost_usd);
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.finish();
        let record = std::mem::take(&mut self.record);
        let (outcome, cause) = (record.outcome.as_str(), record.censor_cause.map(CensorCause::as_str));
        let (failure, ttft_us) = (record.failure, record.first_token_us);
        if enabled!(Level::DEBUG) {
            let _entered = self.context.enter();
            tracing::debug!(outcome, cause, failure, ttft_us, "the attempt is over");
        }
        if self.meter.malformed > 0 {
            let (malformed, provider) = (self.meter.malformed, &record.provider);
            let _entered = self.context.enter();
            tracing::warn!(malformed, provider, "events that were no JSON were left out");
        }
        if let Some(attempt_observer) = &mut self.attempt_observer {
            let ending = ending(&record, self.choices);
            let whole_us = ending.whole_us.filter(|_| self.whole);
            attempt_observer.ended(&ObservedEnd { failed: ending.failed && !self.stale, whole_us, ..ending });
            (self.bill.per_byte, self.bill.per_byte_elsewhere) = attempt_observer.per_byte();
        }
        let took_us = self.elapsed(Instant::now());
        if let exact @ KnownCost::Exact(_) = KnownCost::of(&record) {
            self.reservation.book(exact);
        }
        self.sink.bill(record.ordinal, self.bill);
        let Some(tape) = self.tape.take() else { return self.sink.attempt(record, self.choices, took_us) };
        let is_whole = matches!(record.outcome, AttemptOutcome::Won | AttemptOutcome::Drained);
        let (sink, choices) = (self.sink.clone(), self.choices);
        tape.judge(record, is_whole, &self.shutdown, move |record| sink.attempt(record, choices, took_us));
    }
}

/// From how many tokens on its answer is endless.
fn length_bound(spec: &AttemptSpec) -> LengthBound {
    let longest = spec.upstream.offering.as_deref().and_then(|offering| offering.max_output);
    LengthBound::new(spec.request_translation.max_tokens(), longest, spec.request_translation.echoed())
}

/// The number of choices; one if it is absent or invalid.
fn choices_asked(n: Option<i64>) -> u32 {
    n.and_then(|n| u32::try_from(n).ok()).unwrap_or(1).clamp(1, 63)
}

fn new_record(spec: &AttemptSpec, dispatch: Instant) -> AttemptRecord {
    AttemptRecord {
        dialect: spec.request_translation.dialect().as_str(),
        key_id: spec.exchange.key.as_ref().map(|key| key.id().to_owned()),
        dispatch_us: micros_between(spec.exchange.read_at, dispatch),
        p_include: Some(spec.starting.p_include),
        p_audit: Some(spec.p_audit),
        plain: spec.form == AnswerForm::Plain,
        predicted_us: spec.attempt_observer.as_ref().and_then(AttemptObserver::predicted_us),
        price_source: spec.upstream.price_source.as_ref().map(ToString::to_string),
        in_flight_upstream: spec.slot.as_ref().map_or(0, |slot| slot.before),
        ..AttemptRecord::new(
            spec.exchange.race_id.clone(),
            i64::try_from(spec.starting.ordinal).unwrap_or(i64::MAX),
            (spec.upstream.provider.name.clone(), spec.upstream.model.clone()),
            spec.starting.reason,
        )
    }
}

/// `choices`: the number of answers that the request asked for, if given.
pub fn ending(record: &AttemptRecord, choices: Option<i64>) -> ObservedEnd {
    let decoding = Decoding::of(record);
    let failure = record.failure.and_then(FailureKind::from_name);
    let waited = record.ttft_obs_us.filter(|_| record.ttft_event == Some(0));
    // An answer under way at the deadline is not the upstream's fault.
    let is_cut = failure == Some(FailureKind::Timeout) && record.first_token_us.is_some();
    let failed = failure.is_some_and(slows_hedging) && !is_cut;
    ObservedEnd {
        waited_us: if record.plain { record.cancel_us.filter(|_| record.eof_us.is_none()) } else { waited },
        whole_us: record
            .finish_us
            .or(record.last_token_us)
            .filter(|_| !record.plain && record.outcome == AttemptOutcome::Won),
        failed,
        broke: failed && record.outcome == AttemptOutcome::FailedMid,
        limited: failure == Some(FailureKind::RateLimited),
        billed: !matches!(record.outcome, AttemptOutcome::Failed | AttemptOutcome::Shed) && record.connect_us.is_some(),
        served: record.outcome == AttemptOutcome::Won,
        tpot_us: decoding.tpot_us(choices),
        input_tokens: record.input_tokens,
        cached_tokens: record.cached_input_tokens,
        output_tokens: decoding.tokens_out(),
        generated: record.payload_events.max(record.chars_total / 4),
    }
}

#[cfg(test)]
mod observation_tests {
    use super::*;
    use photofinish_facts::record::sample;

    #[test]
    fn what_was_cut_is_a_wait_and_no_failure() {
        let lost = AttemptRecord { connect_us: Some(11), ..sample::lost(0, 99_000) };
        let lost = ending(&lost, None);
        assert_eq!((lost.waited_us, lost.failed, lost.billed, lost.served), (Some(99_000), false, true, false));
        assert!(!ending(&sample::lost(0, 99_000), None).billed, "it never had a connection");
        let failed = ending(&sample::failed(0), None);
        assert_eq!((failed.waited_us, failed.failed, failed.billed), (None, true, false));
        let won = ending(&AttemptRecord { failure: None, ..sample::won(0) }, Some(1));
        assert_eq!((won.waited_us, won.failed, won.billed, won.served), (None, false, true, true));
        assert_eq!((won.tpot_us, won.output_tokens, won.cached_tokens), (Some(50_000.0), Some(41), Some(512)));
        assert_eq!(won.generated, 41);
        let cut_off = AttemptRecord { failure: Some("timeout"), outcome: AttemptOutcome::FailedMid, ..sample::won(0) };
        assert!(!ending(&cut_off, None).failed, "by the total deadline");
        let late =
            AttemptRecord { failure: Some("timeout"), outcome: AttemptOutcome::Timeout, ..sample::lost(0, 30_000_000) };
        let late = ending(&late, None);
        assert_eq!((late.waited_us, late.failed, late.served), (Some(30_000_000), true, false));
    }
}
