//! The guard of an attempt's row: it is there from the dispatch, and writes the row once, at the latest when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Spec;
use super::in_flight::Slot;
use super::meter::Meter;
use crate::clock::{Instant, micros_between};
use crate::config::Price;
use crate::failure::{Failure, FailureKind, Phase};
use crate::history::record::DEFINITION_VERSION;
use crate::history::{AttemptOutcome, AttemptRecord, CensorCause, CostBasis, TokenSource};
use crate::recorder::Recorder;
use crate::shutdown::Shutdown;
use crate::upstream::{Connected, Response};

/// What was decided about an attempt from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// Nothing: if it is dropped now, the client left or the gateway ends.
    Running,
    Lost,
    Audited,
    Late,
    Deadline,
}

/// Not `Clone`: two guards would report one attempt twice.
pub(super) struct Guard {
    pub record: AttemptRecord,
    pub meter: Meter,
    read_at: Instant,
    dispatch: Instant,
    fate: Arc<AtomicU8>,
    /// How it ended by itself, once it did.
    ended: Option<AttemptOutcome>,
    price: Option<Price>,
    input_tokens_estimate: i64,
    /// How many answers the request asked for, where it says so.
    choices: Option<i64>,
    recorder: Recorder,
    shutdown: Shutdown,
    _slot: Option<Slot>,
}

impl Guard {
    pub fn new(spec: &mut Spec, fate: Arc<AtomicU8>) -> Guard {
        let dispatch = Instant::now();
        Guard {
            record: new_record(spec, dispatch),
            meter: Meter::new(dispatch),
            read_at: spec.read_at,
            dispatch,
            fate,
            ended: None,
            price: spec.upstream.price,
            input_tokens_estimate: input_tokens_estimate(spec.request.len()),
            choices: spec.request.n_choices,
            recorder: spec.recorder.clone(),
            shutdown: spec.shutdown.clone(),
            _slot: spec.slot.take(),
        }
    }

    /// The attempt's clock starts: it asks for its connection now.
    pub fn dispatched(&mut self) {
        self.dispatch = Instant::now();
        self.record.dispatch_us = micros_between(self.read_at, self.dispatch);
        self.meter = Meter::new(self.dispatch);
    }

    /// Microseconds since the dispatch.
    pub fn elapsed(&self, at: Instant) -> i64 {
        micros_between(self.dispatch, at)
    }

    pub fn connected(&mut self, connected: Connected) {
        self.record.conn_reused = Some(connected.reused);
        self.record.http_version = Some(if connected.http2 { "2" } else { "1.1" });
        self.record.connect_us = Some(self.elapsed(connected.at));
    }

    /// Status and headers of the answer.
    pub fn head(&mut self, response: &Response) {
        let number = |name: &str| response.headers.get(name).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        self.record.headers_us = Some(self.elapsed(Instant::now()));
        self.record.http_status = Some(i64::from(response.status.as_u16()));
        self.record.ratelimit_remaining_requests = number("x-ratelimit-remaining-requests");
        self.record.ratelimit_remaining_tokens = number("x-ratelimit-remaining-tokens");
    }

    /// It served the client to its end.
    pub fn won(&mut self) {
        self.ended.get_or_insert(AttemptOutcome::Won);
    }

    /// It was refused. Said as soon as the status is there, and again once its body was read and tells more.
    pub fn refused(&mut self, failure: &Failure) {
        self.ended = None;
        self.failed(failure);
    }

    /// It ended by its own fault. The first ending stands.
    pub fn failed(&mut self, failure: &Failure) {
        if self.ended.is_some() {
            return;
        }
        let had_token = self.meter.first_token_us().is_some();
        self.ended = Some(match failure.kind {
            FailureKind::Empty => AttemptOutcome::Empty,
            FailureKind::ContentPolicy if !had_token => AttemptOutcome::Refused,
            FailureKind::Timeout if !had_token => AttemptOutcome::Timeout,
            _ if had_token => AttemptOutcome::FailedMid,
            _ => AttemptOutcome::Failed,
        });
        if failure.kind != FailureKind::Empty {
            self.record.failure = Some(failure.kind.as_str());
            self.record.failure_phase = Some(failure.phase.as_str());
        }
        self.record.retry_after_ms = failure.retry_after.and_then(|wait| i64::try_from(wait.as_millis()).ok());
    }

    /// Fills in what only the end tells, and hands out the row.
    fn finish(&mut self) -> AttemptRecord {
        self.meter.write(&mut self.record);
        let now = self.elapsed(Instant::now());
        let record = &mut self.record;
        record.audited = fate(&self.fate) == Fate::Audited;
        let mut censored = None;
        record.outcome = match (self.ended, fate(&self.fate)) {
            (Some(outcome), _) => outcome,
            (None, Fate::Lost) => {
                censored = Some(CensorCause::Lost);
                AttemptOutcome::Lost
            }
            (None, Fate::Audited) => {
                censored =
                    Some(if self.shutdown.is_cancelled() { CensorCause::Shutdown } else { CensorCause::Timeout });
                AttemptOutcome::Lost
            }
            (None, Fate::Late | Fate::Deadline) => {
                record.failure = Some(FailureKind::Timeout.as_str());
                let phase = if record.headers_us.is_some() { Phase::FirstToken } else { Phase::Headers };
                record.failure_phase = Some(phase.as_str());
                censored = Some(CensorCause::Timeout);
                AttemptOutcome::Timeout
            }
            (None, Fate::Running) if self.shutdown.is_cancelled() => {
                censored = Some(CensorCause::Shutdown);
                AttemptOutcome::Shutdown
            }
            (None, Fate::Running) => {
                censored = Some(CensorCause::ClientGone);
                AttemptOutcome::ClientGone
            }
        };
        if self.ended.is_none() {
            record.cancel_us = Some(now);
        }
        match (record.first_token_us, censored) {
            (Some(at), _) => (record.ttft_obs_us, record.ttft_event) = (Some(at), Some(1)),
            (None, Some(cause)) => {
                (record.ttft_obs_us, record.ttft_event) = (Some(now), Some(0));
                record.censor_cause = Some(cause);
            }
            (None, None) => {}
        }
        (record.cost_usd, record.cost_basis) =
            cost(record, self.meter.usage().cost_usd, self.price, self.input_tokens_estimate);
        record.clone()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let record = self.finish();
        if self.meter.malformed > 0 {
            let (malformed, provider) = (self.meter.malformed, &record.provider);
            tracing::warn!(malformed, provider, "events that were no JSON were left out");
        }
        self.recorder.attempt(record, self.choices);
    }
}

/// Bytes / 4: only for bounds, never shown as a count.
pub(super) fn input_tokens_estimate(bytes: usize) -> i64 {
    i64::try_from(bytes / 4).unwrap_or(i64::MAX)
}

fn fate(cell: &AtomicU8) -> Fate {
    let value = cell.load(Ordering::Relaxed);
    [Fate::Lost, Fate::Audited, Fate::Late, Fate::Deadline]
        .into_iter()
        .find(|fate| *fate as u8 == value)
        .unwrap_or(Fate::Running)
}

/// What it cost: the provider's own word, else usage at the configured price, else at least its prompt.
fn cost(
    record: &AttemptRecord,
    reported: Option<f64>,
    price: Option<Price>,
    input_estimate: i64,
) -> (Option<f64>, CostBasis) {
    if let Some(cost) = reported {
        return (Some(cost), CostBasis::Reported);
    }
    let Some(price) = price else { return (None, CostBasis::Unknown) };
    let of = |input: i64, output: i64| (input as f64 * price.input + output as f64 * price.output) / 1e6;
    let answered = record.headers_us.is_some() && record.failure.is_none();
    match (record.tok_src, record.input_tokens, record.output_tokens) {
        (TokenSource::Usage, Some(input), Some(output)) => (Some(of(input, output)), CostBasis::Computed),
        (TokenSource::Partial, Some(input), Some(output)) => (Some(of(input, output)), CostBasis::AtLeast),
        // Refused before anything ran.
        _ if record.http_status.is_some_and(|status| status >= 400) => (Some(0.0), CostBasis::AtLeast),
        _ if answered || record.first_token_us.is_some() => (Some(of(input_estimate, 0)), CostBasis::AtLeast),
        _ => (Some(0.0), CostBasis::AtLeast),
    }
}

fn new_record(spec: &Spec, dispatch: Instant) -> AttemptRecord {
    AttemptRecord {
        race_id: spec.race_id.clone(),
        ordinal: i64::try_from(spec.starting.ordinal).unwrap_or(i64::MAX),
        provider: spec.upstream.provider.name.clone(),
        model_sent: spec.upstream.model.clone(),
        model_reported: None,
        dialect: "openai",
        key_id: spec.key.as_ref().map(|key| key.id().to_owned()),
        start_reason: spec.starting.reason,
        dispatch_us: micros_between(spec.read_at, dispatch),
        p_include: Some(spec.starting.p_include),
        p_audit: Some(spec.p_audit),
        audited: false,
        conn_reused: None,
        http_version: None,
        connect_us: None,
        headers_us: None,
        first_byte_us: None,
        first_event_us: None,
        first_token_us: None,
        first_kind: None,
        first_answer_us: None,
        second_token_us: None,
        last_token_us: None,
        finish_us: None,
        eof_us: None,
        cancel_us: None,
        ttft_obs_us: None,
        ttft_event: None,
        censor_cause: None,
        outcome: AttemptOutcome::ClientGone,
        http_status: None,
        failure: None,
        failure_phase: None,
        retry_after_ms: None,
        payload_events: 0,
        reasoning_events: 0,
        chars_total: 0,
        chars_first: 0,
        keepalives: 0,
        gap_p50_us: None,
        gap_p99_us: None,
        gap_max_us: None,
        burst: None,
        client_stalled: false,
        input_tokens: None,
        cached_input_tokens: None,
        output_tokens: None,
        reasoning_tokens: None,
        tok_src: TokenSource::None,
        finish_reason: None,
        server_queue_us: None,
        server_prefill_us: None,
        server_decode_us: None,
        server_total_us: None,
        ratelimit_remaining_requests: None,
        ratelimit_remaining_tokens: None,
        cost_usd: None,
        cost_basis: CostBasis::Unknown,
        in_flight_upstream: spec.slot.as_ref().map_or(0, |slot| slot.before),
        definition_version: DEFINITION_VERSION,
    }
}
