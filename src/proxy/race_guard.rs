//! The guard of a race's row: opened once the caller is known, written once, at the latest when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;

use super::gateway::Gateway;
use super::rejection::Rejection;
use crate::attempt::InFlightGuard;
use crate::clock::{Instant, micros_between, wall_micros};
use crate::config::{RaceSettings, User};
use crate::failure::Failure;
use crate::health::OutcomeReporter;
use crate::history::{RaceOutcome, RaceRecord};
use crate::learning::RaceBudget;
use crate::policy::{DecisionReasons, PolicyDriver};
use crate::protocol::Surface;
use crate::protocol::request::ApiRequest;
use crate::recorder::Recorder;
use crate::relay::RelayObserver;
use crate::shutdown::Shutdown;

/// Not `Clone`: two guards would report one race twice.
pub struct RaceGuard {
    surface: Surface,
    record: RaceRecord,
    /// How it ended; none as long as a drop means that the client left.
    outcome: Option<RaceOutcome>,
    /// Zero of all its times: when the request was read, until then when it came.
    read_at: Instant,
    /// When a streaming client's winner had its first token: microseconds after `read_at`.
    winner_token_us: Option<i64>,
    /// The winner's first token, whether the client streams or not: microseconds after `read_at`.
    token_us: Option<i64>,
    /// Why it was run as it was, and who pays; none where it was rejected before.
    steering: Option<(DecisionReasons, Arc<RaceBudget>)>,
    /// Who hears how a streamed answer ends, and which candidate it is of; none while nobody goes on with it.
    outcome_reporter: Option<(Arc<OutcomeReporter>, Option<usize>)>,
    attempts: Arc<AtomicUsize>,
    recorder: Recorder,
    shutdown: Shutdown,
    /// The answer's head went out, as a 200, before it was known what it would be.
    head_sent: bool,
    _slot: InFlightGuard,
}

impl RaceGuard {
    /// `slot`: its place among the requests in flight.
    pub fn new(gateway: &Gateway, surface: Surface, user: Option<&User>, slot: InFlightGuard) -> RaceGuard {
        let record = RaceRecord {
            race_id: uuid::Uuid::now_v7().to_string(),
            started_at: wall_micros(),
            user: user.map(|user| user.name.clone()),
            api: surface.as_str(),
            in_flight: slot.before,
            ..RaceRecord::default()
        };
        RaceGuard {
            surface,
            record,
            outcome: None,
            read_at: Instant::now(),
            winner_token_us: None,
            token_us: None,
            steering: None,
            outcome_reporter: None,
            attempts: Arc::default(),
            recorder: gateway.recorder().for_race(),
            shutdown: gateway.shutdown().clone(),
            head_sent: false,
            _slot: slot,
        }
    }

    /// What was called.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// How many requests were in flight before this one.
    pub fn in_flight(&self) -> i64 {
        self.record.in_flight
    }

    pub fn race_id(&self) -> &str {
        &self.record.race_id
    }

    /// How many attempts were started by now.
    pub fn started(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Counts the attempts that were started; the launcher raises it.
    pub fn attempts(&self) -> Arc<AtomicUsize> {
        self.attempts.clone()
    }

    /// For the rows of its attempts: they are written together with the race's.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// The request was read: the race's clock starts.
    pub fn request_read(&mut self, body: &Bytes) -> Instant {
        self.read_at = Instant::now();
        self.record.started_at = wall_micros();
        // Rows are found by the time in the id, which must not be before that.
        self.record.race_id = uuid::Uuid::now_v7().to_string();
        self.record.input_bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
        self.record.input_tokens_estimate = self.record.input_bytes / 4;
        self.read_at
    }

    pub fn request(&mut self, request: &ApiRequest) {
        let record = &mut self.record;
        // Longer than any name, so that a client cannot fill the disk with it.
        record.model = request.model.chars().take(512).collect();
        record.stream = request.stream;
        record.n_choices = request.n_choices;
        record.max_tokens = request.max_tokens;
        record.has_tools = request.has_tools;
    }

    /// By what the plan is made.
    pub fn settings(&mut self, settings: &RaceSettings) {
        self.record.policy = Some(settings.policy.as_str());
        self.record.optimise = Some(settings.optimise.as_str());
    }

    /// What was planned; by whom, so that at the end it can be told why.
    pub fn planned(&mut self, plan: String, driver: &PolicyDriver) {
        self.record.plan = Some(plan);
        self.steering = Some((driver.reasons(), driver.race_budget().clone()));
    }

    /// The client's response is bound to this attempt, whose first token came at `token_us` after the request was read.
    pub fn won(&mut self, ordinal: usize, token_us: i64, streaming: Option<StatusCode>) {
        self.winner_token_us = streaming.map(|_| token_us);
        self.token_us = Some(token_us);
        if let Some((_, race_budget)) = &self.steering {
            race_budget.won(ordinal);
        }
        self.record.winner = i64::try_from(ordinal).ok();
        if let Some(ordinal) = self.record.winner {
            self.recorder.committed(&self.record.race_id, ordinal);
        }
        self.record.http_status = streaming.map(|status| i64::from(status.as_u16()));
    }

    /// This one is to hear how the winner ends.
    pub fn watched_by(&mut self, outcome_reporter: Arc<OutcomeReporter>, candidate: usize) {
        self.outcome_reporter = Some((outcome_reporter, Some(candidate)));
    }

    /// A whole answer goes out now.
    pub fn answered(&mut self, status: StatusCode) {
        let now = self.elapsed();
        self.record.http_status = Some(i64::from(status.as_u16()));
        self.record.done_us = Some(now);
        if status.is_success() {
            self.record.first_token_sent_us = self.record.winner.map(|_| now);
        }
        self.outcome = Some(if status.is_success() { RaceOutcome::Ok } else { RaceOutcome::Error });
    }

    /// Whatever it comes to, the client has read a 200.
    pub fn head_was_sent(&mut self) {
        self.head_sent = true;
    }

    /// The gateway answers itself.
    pub fn rejected(&mut self, rejection: &Rejection) {
        // Whoever had won delivered nothing.
        self.record.winner = None;
        self.record.http_status = Some(i64::from(rejection.status().as_u16()));
        self.record.done_us = Some(self.elapsed());
        self.outcome = Some(match rejection.is_after_race() {
            _ if self.shutdown.is_cancelled() => RaceOutcome::Shutdown,
            true => RaceOutcome::Error,
            false => RaceOutcome::Rejected,
        });
    }

    /// What the gateway itself added before a streaming client's first token.
    fn overhead_us(&self) -> Option<i64> {
        self.record.winner?;
        Some((self.record.first_token_sent_us? - self.winner_token_us?).max(0))
    }

    /// Tells whoever pays what the client got, and gives the codes of why it got that.
    fn pay(&mut self) -> Option<String> {
        let (reasons, race_budget) = self.steering.take()?;
        // A whole answer has no first token that a client could see.
        let ttft_us = if self.record.stream { self.record.first_token_sent_us } else { self.token_us };
        race_budget.finished(ttft_us.filter(|_| self.record.winner.is_some()), None);
        reasons.text()
    }

    fn elapsed(&self) -> i64 {
        micros_between(self.read_at, Instant::now())
    }
}

impl RelayObserver for RaceGuard {
    fn first_token(&mut self) {
        self.record.first_token_sent_us = Some(self.elapsed());
    }

    fn ended(&mut self, failure: Option<&Failure>) {
        self.record.done_us = Some(self.elapsed());
        // What the shutdown broke is nobody's fault.
        if let Some((outcome_reporter, Some(candidate))) =
            self.outcome_reporter.take().filter(|_| !self.shutdown.is_cancelled())
        {
            outcome_reporter.ended(candidate, failure);
        }
        self.outcome.get_or_insert(match failure {
            None => RaceOutcome::Ok,
            Some(_) if self.shutdown.is_cancelled() => RaceOutcome::Shutdown,
            Some(_) => RaceOutcome::Error,
        });
    }

    fn broke(&mut self, failure: &Failure) {
        if let Some((outcome_reporter, serving)) = &mut self.outcome_reporter
            && let Some(candidate) = serving.take()
        {
            outcome_reporter.ended(candidate, Some(failure));
        }
    }

    fn rescued(&mut self, candidate: usize, ordinal: usize) {
        self.record.rescued_by = i64::try_from(ordinal).ok();
        if let Some((_, serving)) = &mut self.outcome_reporter {
            *serving = Some(candidate);
        }
    }
}

impl Drop for RaceGuard {
    fn drop(&mut self) {
        let gone = if self.shutdown.is_cancelled() { RaceOutcome::Shutdown } else { RaceOutcome::ClientGone };
        self.record.outcome = self.outcome.unwrap_or(gone);
        self.record.attempts = i64::try_from(self.started()).unwrap_or(i64::MAX);
        if self.head_sent {
            self.record.http_status = Some(i64::from(StatusCode::OK.as_u16()));
        }
        let now = self.elapsed();
        self.record.done_us.get_or_insert(now);
        let (race_id, model) = (std::mem::take(&mut self.record.race_id), std::mem::take(&mut self.record.model));
        let overhead_us = self.overhead_us();
        let why = self.pay();
        let (user, plan) = (self.record.user.take(), self.record.plan.take());
        self.recorder.race(RaceRecord { race_id, model, user, plan, why, ..self.record }, overhead_us);
    }
}
