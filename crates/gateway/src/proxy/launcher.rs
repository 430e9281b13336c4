//! Starts the attempts of one race, passes the race's questions to the policy, and decides which losers run on. Not for
//! the effects of an outcome: see `health::OutcomeReporter`.

mod form;
mod left_out;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use tracing::Instrument;

use super::candidate_set::CandidateSet;
use super::client_headers;
use super::gateway::Gateway;
use super::policy::RacePolicy;
use super::race_guard::RaceGuard;
use super::raced_attempt::{AttemptStage, RacedAttempt};
use crate::attempt::{self, Attempt, AttemptSpec, InFlightGuard, ReadyAttempt};
use crate::race::retries::Retries;
use crate::race::{AttemptStart, Launch, RaceSide, RacingAttempt as _, Replan, RetryDecision, RunningAttempt};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::telemetry::attempt_span;
use photofinish_config::config::{
    BreakerSettings, CancelBilling, ContentPolicy, Drains, Objective, RaceSettings, RescuePolicy,
};
use photofinish_history::record::StartReason;
use photofinish_history::recorder::Recorder;
use photofinish_routing::health::{OutcomeReporter, ProbePermit, SentRequest};
use photofinish_routing::learning::{AttemptObserver, ConversationId};
use photofinish_routing::routing::adaptive::AttemptView;
use photofinish_wire::answer::error::too_long;
use photofinish_wire::{AnswerForm, ApiRequest, RequestTranslation};

pub struct Launcher {
    gateway: Arc<Gateway>,
    outcome_reporter: Arc<OutcomeReporter>,
    request: Arc<ApiRequest>,
    /// The request to each candidate, by index.
    uploads: Vec<Arc<RequestTranslation>>,
    settings: RaceSettings,
    policy: RacePolicy,
    retries: Retries,
    /// Candidates whose answers broke.
    broke_off: Vec<usize>,
    /// The client does not stream: an attempt is ready with its whole answer.
    whole: bool,
    /// Client headers that may be forwarded to any of the candidates.
    client_headers: HeaderMap,
    race_id: String,
    /// Counts the starts.
    attempts: Arc<AtomicUsize>,
    recorder: Recorder,
    read_at: Instant,
    /// Bytes.
    event_max: usize,
    /// Held until the race is over, or until the probe has lost and ended.
    probes: Vec<(usize, ProbePermit)>,
    conversation: Option<ConversationId>,
}

impl Launcher {
    pub fn new(
        gateway: &Arc<Gateway>,
        headers: &HeaderMap,
        request: &Arc<ApiRequest>,
        candidates: &mut CandidateSet,
        guard: &RaceGuard,
        policy: RacePolicy,
        read_at: Instant,
    ) -> Launcher {
        // A bad probe alone opens no breaker: it may ask for more than clients do.
        let failures = if guard.is_of_probe() { 0 } else { candidates.settings.breaker.failures };
        Launcher {
            gateway: gateway.clone(),
            outcome_reporter: Arc::new(OutcomeReporter::new(
                gateway.health(),
                &candidates.list,
                BreakerSettings { failures, ..candidates.settings.breaker },
                candidates.caller,
                request,
                read_at,
            )),
            request: request.clone(),
            uploads: candidates.uploads.clone(),
            settings: candidates.settings.clone(),
            policy,
            retries: Retries::new(candidates.settings.retries, candidates.settings.retry_wait, candidates.list.len()),
            broke_off: Vec::new(),
            whole: !request.stream,
            client_headers: client_headers::forwardable(headers, candidates),
            race_id: guard.race_id().to_owned(),
            attempts: guard.attempts(),
            recorder: guard.recorder(),
            read_at,
            event_max: gateway.live().config.server.event_max,
            probes: std::mem::take(&mut candidates.probes),
            conversation: candidates.conversation,
        }
    }

    /// Starts an attempt; `given`: a request other than the candidate's own.
    pub fn start(&mut self, starting: AttemptStart, given: Option<&Arc<RequestTranslation>>) -> Attempt {
        let candidate = &self.outcome_reporter.candidates[starting.candidate];
        let request_translation = given.unwrap_or(&self.uploads[starting.candidate]);
        let gateway = &self.gateway;
        let key = gateway.health().key(candidate).cloned();
        if let (Some(conversation), Some(key)) = (self.conversation, &key)
            && candidate.keys.len() > 1
        {
            gateway.learning().keep_key(&candidate.upstream.provider.name, conversation, key.id());
        }
        let SentRequest { complained, stale, .. } = self.outcome_reporter.sent(starting.candidate);
        let form = self.form(candidate, request_translation, &complained);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let span =
            attempt_span(&self.outcome_reporter.span, &candidate.name, starting.ordinal, starting.reason.as_str());
        let sent = SentRequest { at: Instant::now(), span: span.clone(), key: key.clone(), form, complained, stale };
        self.outcome_reporter.note(starting.candidate, sent);
        let observer_spec = self.policy.observer(starting);
        let is_probe = self.probes.iter().any(|(candidate, _)| *candidate == starting.candidate);
        // The times of token counts and of rescues are not comparable with those of answers.
        let tells = !self.request.surface.counts() && starting.reason != StartReason::Rescue;
        let mut upstream = candidate.upstream.clone();
        upstream.timeouts = upstream.timeouts.in_race(self.settings.timeouts, self.whole);
        attempt::start(AttemptSpec {
            client: gateway.client().clone(),
            recorder: self.recorder.clone(),
            shutdown: gateway.shutdown().clone(),
            race_id: self.race_id.clone(),
            span,
            read_at: self.read_at,
            starting,
            upstream,
            endpoint: candidate.endpoint.clone(),
            headers: client_headers::for_candidate(&self.client_headers, candidate, request_translation, key.as_ref()),
            key,
            request_translation: request_translation.clone(),
            choices: self.request.n_choices,
            // A whole answer always contains its usage.
            include_usage: self.request.include_usage || !self.request.stream,
            form,
            streams: self.request.stream,
            first_token: self.settings.first_token,
            fresh: stale,
            event_max: self.event_max,
            budget: gateway.budget().clone(),
            p_audit: if is_probe { 1.0 } else { self.settings.audit },
            slot: Some(InFlightGuard::enter(observer_spec.known.running())),
            attempt_observer: tells.then(|| AttemptObserver::start(observer_spec)),
        })
    }

    /// When a streamed answer is cut.
    pub fn streams_until(&self) -> Instant {
        self.read_at + self.settings.timeouts.stream_total
    }

    /// Upstreams may be asked to continue an answer that broke off.
    pub fn continues_answers(&self) -> bool {
        self.settings.rescue == RescuePolicy::Continue
    }

    /// The request to this candidate.
    pub fn upload(&self, candidate: usize) -> &Arc<RequestTranslation> {
        &self.uploads[candidate]
    }

    /// Attempts that one request may start.
    pub fn max_attempts(&self) -> usize {
        self.settings.max_attempts
    }

    /// The race is over. Drops the permits of its probes.
    pub fn race_is_over(&mut self) {
        self.probes.clear();
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The effect of a content-policy refusal on other upstreams.
    pub fn content_policy(&self) -> ContentPolicy {
        self.settings.content_policy
    }

    /// The reporter of the race's outcomes.
    pub fn outcome_reporter(&self) -> Arc<OutcomeReporter> {
        self.outcome_reporter.clone()
    }
}

impl Launch for Launcher {
    type Ready = ReadyAttempt;
    type Attempt = RacedAttempt;

    fn launch(&mut self, starting: AttemptStart) -> RacedAttempt {
        let attempt = self.start(starting, None);
        let candidates = &self.outcome_reporter.candidates;
        let idle = candidates[starting.candidate]
            .upstream
            .timeouts
            .silence(false, self.attempts.load(Ordering::Relaxed) < candidates.len());
        let whole = self.whole.then(|| (idle, self.gateway.budget().clone()));
        let is_plain = self.outcome_reporter.sent(starting.candidate).form == AnswerForm::Plain;
        RacedAttempt::new(attempt, starting.candidate, is_plain, whole, self.outcome_reporter.clone())
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision {
        let sent = self.outcome_reporter.sent(candidate);
        let again = self.again(candidate, &sent, failure);
        sent.span.in_scope(|| tracing::debug!(failure = failure.kind.as_str(), ?again, "whether it is asked again"));
        again
    }

    fn affords_retry(&mut self, candidate: usize, running: &[RunningAttempt<RacedAttempt>]) -> bool {
        // An upstream whose answers break must not repeatedly cut others by its first token.
        let now_us = self.policy.now_us();
        !self.broke_off.contains(&candidate) && self.policy.driver.affords_retry(candidate, &views(running), now_us)
    }

    fn lost(&mut self, raced_attempt: RacedAttempt) {
        let candidate = raced_attempt.candidate();
        match raced_attempt.into_stage() {
            AttemptStage::Asking(attempt) => self.lost_asking(candidate, attempt),
            AttemptStage::Answering(answering) => self.lost_ready(candidate, answering.0),
            AttemptStage::Over => {}
        }
    }

    fn lost_ready(&mut self, candidate: usize, ready: ReadyAttempt) {
        let trial = self.take_trial(candidate);
        let Drains { time, bytes, .. } = self.settings.drains;
        // It already has its first token, so an audit would add nothing.
        if let Some(place) = self.enter_drain(candidate) {
            self.beside((place, trial), time, ready.stream.drain(bytes));
        }
    }

    fn replan(&mut self, running: &[RunningAttempt<RacedAttempt>], waiting: &[usize]) -> Replan {
        // Candidates that cool down or whose answers broke get no hedge. They may still replace a failed attempt.
        let OutcomeReporter { health, candidates, .. } = &*self.outcome_reporter;
        let may_hedge = |candidate: usize| {
            health.held(&candidates[candidate]).is_none()
                && !self.policy.driver.is_too_small(candidate)
                && !self.broke_off.contains(&candidate)
        };
        let rested: Vec<usize> = waiting.iter().copied().filter(|candidate| may_hedge(*candidate)).collect();
        let now_us = self.policy.now_us();
        self.policy.driver.replan(&views(running), &rested, now_us)
    }

    fn next_after_failure(&mut self, waiting: &[usize]) -> usize {
        self.policy.driver.next_after_failure(waiting, self.policy.now_us())
    }

    fn hold(
        &mut self,
        ready: &RunningAttempt<ReadyAttempt>,
        running: &[RunningAttempt<RacedAttempt>],
    ) -> Option<Duration> {
        // A whole answer is not held back.
        let now_us = self.policy.now_us();
        if self.whole { None } else { self.policy.driver.hold(ready.candidate(), &views(running), now_us) }
    }

    fn prefer(&mut self, held: &RunningAttempt<ReadyAttempt>, new: &RunningAttempt<ReadyAttempt>) -> RaceSide {
        let now_us = self.policy.now_us();
        let prefers_new = self.policy.driver.prefers_new(held.candidate(), new.candidate(), now_us);
        if prefers_new { RaceSide::New } else { RaceSide::Held }
    }

    fn hopeless(&mut self, running: &[RunningAttempt<RacedAttempt>]) -> Option<usize> {
        if !self.whole {
            return None;
        }
        match self.settings.optimise {
            // The first token decides, as for a streaming client. If that answer breaks, the others start again.
            Objective::Ttft => {
                let first = running.iter().position(|running| running.attempt().has_begun())?;
                (0..running.len()).find(|place| *place != first)
            }
            Objective::Completion | Objective::Goodput => {
                self.policy.driver.hopeless(&views(running), self.policy.now_us())
            }
        }
    }
}

impl Launcher {
    /// A lost probe runs on: its upstream may be healthy although it is slower than the winner.
    fn lost_asking(&mut self, candidate: usize, mut attempt: Attempt) {
        let trial = self.take_trial(candidate);
        let Drains { time, bytes, .. } = self.settings.drains;
        if let Some(place) = self.enter_drain(candidate) {
            attempt.drain();
            let run = self.run_on(candidate, attempt, Some(bytes));
            self.beside((place, trial), time, run);
        } else if (trial.is_some() || fastrand::f64() < self.settings.audit)
            && let Some(place) = self.gateway.enter_audit()
        {
            attempt.audit();
            let limit = self.outcome_reporter.candidates[candidate].upstream.timeouts.first_token;
            let run = self.run_on(candidate, attempt, None);
            self.beside((place, trial), limit, run);
        }
    }

    /// Whether and when this candidate is retried after a failure.
    fn again(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> RetryDecision {
        if failure.phase == Phase::Stream {
            self.broke_off.push(candidate);
        }
        if failure.kind == FailureKind::ContextLength {
            self.policy.driver.too_long(candidate, too_long(&failure.message));
        }
        if self.outcome_reporter.failed(candidate, sent, failure)
            || self.leaves_out_reasoning(candidate, sent, failure)
            || self.leaves_out_member(candidate, sent, failure)
        {
            return RetryDecision::Now;
        }
        let OutcomeReporter { health, candidates, .. } = &*self.outcome_reporter;
        let asked = &candidates[candidate];
        // A probe is not retried.
        if self.settings.retries == 0 || asked.extra {
            return RetryDecision::No;
        }
        let rest = health.cooling(|| asked.target(sent.key.as_ref())).map(|held| held.wait);
        match self.retries.next(candidate, failure, rest, fastrand::f64()) {
            Some(wait) => RetryDecision::Later { wait, first: self.settings.policy.asks_in_order() },
            None => RetryDecision::No,
        }
    }

    fn take_trial(&mut self, candidate: usize) -> Option<ProbePermit> {
        let position = self.probes.iter().position(|(is_probe, _)| *is_probe == candidate)?;
        Some(self.probes.swap_remove(position).1)
    }

    /// A slot to read a loser to its end, if cancelling it saves nothing: its measurements then cost nothing extra.
    fn enter_drain(&self, candidate: usize) -> Option<InFlightGuard> {
        let billed_anyway =
            self.outcome_reporter.candidates[candidate].upstream.provider.cancel_billing == CancelBilling::BillsFull;
        if billed_anyway { self.gateway.enter_drain(self.settings.drains.running) } else { None }
    }

    /// Runs a loser to its first token, or, if `bytes` bounds it, to its end.
    fn run_on(
        &self,
        candidate: usize,
        attempt: Attempt,
        bytes: Option<usize>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let outcome_reporter = self.outcome_reporter.clone();
        // The race may start the same candidate again.
        let sent = self.outcome_reporter.sent(candidate);
        async move {
            match attempt.await {
                Err(failure) => {
                    outcome_reporter.failed(candidate, &sent, &failure);
                }
                Ok(ready) => {
                    outcome_reporter.first_token(candidate, &sent);
                    if let Some(bytes) = bytes {
                        ready.stream.drain(bytes).await;
                    }
                }
            }
        }
    }

    /// Runs in the background for at most `limit`, then releases `held`.
    fn beside(
        &self,
        held: (InFlightGuard, Option<ProbePermit>),
        limit: Duration,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        let draining = self.gateway.shutdown().draining();
        let running_on = async move {
            let _held = held;
            tokio::select! {
                _ = tokio::time::timeout(limit, run) => {}
                () = draining => {}
            }
        };
        self.gateway.shutdown().spawn(running_on.instrument(self.outcome_reporter.span.clone()));
    }
}

/// The running attempts as the policy sees them.
fn views(running: &[RunningAttempt<RacedAttempt>]) -> Vec<AttemptView> {
    running.iter().map(|running| running.attempt().view(running.started_at().elapsed())).collect()
}
