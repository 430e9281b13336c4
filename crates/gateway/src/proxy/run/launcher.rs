//! Starts the attempts of one race, passes the race's questions to the policy, and decides which losers run on. Not for
//! the effects of an outcome: see `health::OutcomeReporter`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use tracing::{Level, enabled};

use crate::attempt::{self, AnswerTape, Attempt, AttemptSpec, ExchangeSpec, InFlightGuard, JobCost, ReadyAttempt};
use crate::proxy::request::candidate_set::{AskedLast, CandidateSet};
use crate::proxy::request::outbound::{self, Outbound};
use crate::proxy::run::client_headers::ClientHeaders;
use crate::proxy::run::gate::Gate;
use crate::proxy::run::race_guard::RaceGuard;
use crate::proxy::run::race_policy::RacePolicy;
use crate::proxy::run::raced_attempt::{AttemptStage, RacedAttempt};
use crate::proxy::state::gateway::Gateway;
use crate::proxy::trace::RaceTrace;
use photofinish_base::clock::{Instant, micros};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::telemetry::{LogContext, WithLogContext};
use photofinish_config::keyring::HashedKey;
use photofinish_config::{BreakerSettings, CancelBilling, Drains, Objective, Price, RaceSettings, UpstreamStream};
use photofinish_facts::record::StartReason;
use photofinish_facts::recording::RaceSink;
use photofinish_judge::Asked;
use photofinish_limits::AttemptReservation;
use photofinish_race::retries::Retries;
use photofinish_race::{AttemptStart, Launch, RaceSide, RacingAttempt as _, Replan, RetryDecision, RunningAttempt};
use photofinish_routing::health::{
    Candidate, FailureMeaning, OutcomeReporter, RaceCandidate, RejectedFeature, RequestNotes, SentRequest,
    StreamingHabit, TrialPermit,
};
use photofinish_routing::learning::{AttemptObserver, ConversationId};
use photofinish_routing::policy::question::AttemptView;
use photofinish_translation::adapt::Lesson;
use photofinish_translation::{ApiRequest, RequestTranslation};
use photofinish_transport::upstream::Endpoint;
use photofinish_wire::answer::error::too_long;
use photofinish_wire::quirks::QuirkSet;
use photofinish_wire::{AnswerForm, Dialect, Surface};

/// A loser that should end this soon is read on, for twice as long at most: a handshake takes two or three round trips,
/// and one to another continent takes some 100 ms.
const SHORT_REST_MAX: Duration = Duration::from_millis(100);

pub struct Launcher {
    pub(super) gateway: Arc<Gateway>,
    pub outcome_reporter: Arc<OutcomeReporter>,
    request: Arc<ApiRequest>,
    pub(super) candidates: Vec<LaunchCandidate>,
    pub(super) settings: RaceSettings,
    policy: RacePolicy,
    retries: Retries,
    gate: Gate,
    client_headers: ClientHeaders,
    book: AttemptBook,
    pub(super) read_at: Instant,
    /// Bytes.
    event_max: usize,
    conversation: Option<ConversationId>,
    job: Option<JobCost>,
    judging: Option<JudgedBy>,
    /// Refusals teach. Those of probes do not: `verify` asks what the host itself takes.
    learns: bool,
}

/// Where the attempts of the race are recorded.
struct AttemptBook {
    race_id: String,
    trace: Option<Arc<RaceTrace>>,
    /// Counts the starts.
    attempts: Arc<AtomicUsize>,
    sink: Arc<dyn RaceSink>,
    asked_last: Option<AskedLast>,
}

impl AttemptBook {
    fn new(guard: &RaceGuard, asked_last: Option<AskedLast>) -> AttemptBook {
        AttemptBook {
            race_id: guard.race_id().to_owned(),
            trace: guard.trace().cloned(),
            attempts: guard.attempts(),
            sink: guard.sink(),
            asked_last,
        }
    }

    fn note_start(&self, candidate: &Candidate) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.asked_last.iter().filter(|_| candidate.last.is_some()).for_each(|asked| asked.add(&candidate.name));
    }

    fn started(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }
}

/// What its answers are judged by.
struct JudgedBy {
    asked: Arc<Asked>,
    model: String,
}

impl JudgedBy {
    /// None: nothing is judged.
    fn new(gateway: &Gateway, request: &ApiRequest, candidates: &CandidateSet) -> Option<JudgedBy> {
        let asked = if request.has_tools || request.asks_json { gateway.judge().asked(request)? } else { return None };
        Some(JudgedBy { asked, model: candidates.judged_in.as_ref().unwrap_or(&candidates.model).clone() })
    }

    fn tape(&self, gateway: &Gateway) -> AnswerTape {
        AnswerTape::new(self.asked.clone(), gateway.judge().clone(), self.model.clone(), gateway.memory())
    }
}

/// What the race knows of one candidate apart from the reporter, at the same place.
pub(super) struct LaunchCandidate {
    /// The request to it. A refusal may change it.
    pub upload: Arc<RequestTranslation>,
    /// Held until the race is over, or until the trial has lost and ended.
    pub trial: Option<TrialPermit>,
    /// One of its answers broke.
    broke_off: bool,
}

impl LaunchCandidate {
    fn of(one: &mut RaceCandidate) -> LaunchCandidate {
        LaunchCandidate { upload: one.upload.clone(), trial: one.trial.take(), broke_off: false }
    }
}

impl Launcher {
    pub fn new(
        gateway: &Arc<Gateway>,
        headers: &HeaderMap,
        request: &Arc<ApiRequest>,
        candidates: &mut CandidateSet,
        guard: &RaceGuard,
        (policy, gate): (RacePolicy, Gate),
        read_at: Instant,
    ) -> Launcher {
        // A failed probe or shadow alone opens no breaker: it may ask for more than clients do.
        let failures = if guard.is_of_operator() { 0 } else { candidates.settings.breaker.failures };
        Launcher {
            gateway: gateway.clone(),
            outcome_reporter: Arc::new(OutcomeReporter::new(
                gateway.health(),
                candidates.list.iter().map(|one| one.candidate.clone()).collect(),
                BreakerSettings { failures, ..candidates.settings.breaker },
                candidates.caller,
                request,
                read_at,
            )),
            learns: !guard.is_of_operator(),
            request: request.clone(),
            settings: candidates.settings.clone(),
            policy,
            gate,
            retries: Retries::new(candidates.settings.retries, candidates.settings.retry_wait, candidates.list.len()),
            client_headers: ClientHeaders::new(headers, &candidates.list),
            candidates: candidates.list.iter_mut().map(LaunchCandidate::of).collect(),
            book: AttemptBook::new(guard, candidates.asked_last.clone()),
            read_at,
            event_max: gateway.live().config.server.event_max,
            conversation: candidates.conversation,
            job: candidates.job.clone(),
            judging: JudgedBy::new(gateway, request, candidates),
        }
    }

    /// The client does not stream: an attempt is ready with its whole answer.
    fn wants_whole(&self) -> bool {
        !self.request.stream
    }

    /// Upstreams that a budget of the caller kept back, and whether only what other answers hold did so. None: it kept none back.
    pub fn kept_back(&self, candidates: &CandidateSet) -> Option<(Vec<String>, bool)> {
        let mut limited = candidates.limited();
        let hold = self.gate.admission().hold()?;
        limited.extend(hold.refused().into_iter().filter(|name| !limited.contains(name)).collect::<Vec<_>>());
        (!limited.is_empty()).then(|| (limited, hold.others_hold()))
    }

    /// The right to start an attempt with this candidate; `given`: as for [`Launcher::start`]. None: a limit of the caller forbids it.
    pub fn reserve(
        &self,
        candidate: usize,
        ordinal: usize,
        given: Option<&Arc<RequestTranslation>>,
    ) -> Option<AttemptReservation> {
        let bytes = given.map_or(0, |given| given.len()).max(self.request.len());
        self.gate.reserve(self.gateway.learning(), &self.outcome_reporter.candidates[candidate], ordinal, bytes)
    }

    /// Where this request goes: a refusal may have named another path of the provider.
    fn endpoint(&self, candidate: &Candidate, request_translation: &RequestTranslation) -> Endpoint {
        let live = self.gateway.live();
        let route =
            live.route(&candidate.upstream.provider.name).filter(|_| request_translation.asked() != candidate.surface);
        route.and_then(|route| route.endpoint(request_translation.dialect())).unwrap_or(&candidate.endpoint).clone()
    }

    fn exchange(&self, context: LogContext, key: Option<HashedKey>) -> ExchangeSpec {
        ExchangeSpec {
            client: self.gateway.client().clone(),
            sink: self.book.sink.clone(),
            shutdown: self.gateway.shutdown().clone(),
            race_id: self.book.race_id.clone(),
            context,
            read_at: self.read_at,
            key,
            memory: self.gateway.memory().clone(),
        }
    }

    /// What refusals of this upstream taught, in this race too.
    fn lessons(&self, candidate: &Candidate, complained: &RejectedFeature) -> Vec<Lesson> {
        let mut lessons = self.gateway.health().lessons(&candidate.name, candidate.surface);
        lessons.extend(complained.lessons.iter().map(|(_, lesson)| lesson.clone()));
        lessons
    }

    /// Starts an attempt; `given`: a request other than the candidate's own.
    pub fn start(
        &mut self,
        starting: AttemptStart,
        given: Option<&Arc<RequestTranslation>>,
        reservation: AttemptReservation,
    ) -> Attempt {
        let candidate = &self.outcome_reporter.candidates[starting.candidate];
        let request_translation = given.unwrap_or(&self.candidates[starting.candidate].upload);
        let gateway = &self.gateway;
        let key = gateway.health().key(candidate).cloned();
        if let (Some(conversation), Some(key)) = (self.conversation, &key)
            && candidate.keys.len() > 1
        {
            gateway.learning().keep_key(&candidate.upstream.provider.name, conversation, key.id());
        }
        let SentRequest { complained, stale, .. } = self.outcome_reporter.sent(starting.candidate);
        let form = self.form((starting.candidate, candidate), request_translation, &complained);
        let lessons = self.lessons(candidate, &complained);
        let notes = notes(request_translation, &lessons);
        self.book.note_start(candidate);
        let context =
            self.outcome_reporter.context.attempt(&candidate.name, starting.ordinal, starting.reason.as_str());
        let sent = SentRequest {
            at: Instant::now(),
            context: context.clone(),
            key: key.clone(),
            form,
            complained,
            notes,
            stale,
        };
        self.outcome_reporter.note(starting.candidate, sent);
        let observer_spec = self.policy.observer(starting);
        let is_trial = self.candidates[starting.candidate].trial.is_some();
        let is_watched = is_trial || self.policy.driver.runs_on(starting.candidate);
        // The times of token counts and of rescues are not comparable with those of answers.
        let watch = !self.request.surface.counts() && starting.reason != StartReason::Rescue;
        let mut upstream = candidate.upstream.clone();
        let asks_hour = upstream.price.is_some_and(Price::keeps_dearer) && self.request.asks_hour();
        upstream.timeouts = upstream.timeouts.in_race(self.settings.timeouts, self.wants_whole());
        let mut headers = self.client_headers.of_attempt(candidate, request_translation, key.as_ref(), &lessons);
        self.book.trace.iter().for_each(|trace| trace.write_headers(starting.ordinal, &mut headers));
        let spec = AttemptSpec {
            exchange: self.exchange(context, key),
            starting,
            upstream,
            endpoint: self.endpoint(candidate, request_translation),
            headers,
            request_translation: request_translation.clone(),
            job: self.job.clone(),
            choices: self.request.n_choices,
            asks_hour,
            // A whole answer always contains its usage.
            include_usage: self.request.include_usage || !self.request.stream,
            form,
            streams: self.request.stream,
            first_token: self.settings.first_token,
            fresh: stale,
            event_max: self.event_max,
            p_audit: if is_watched { 1.0 } else { self.settings.audit },
            slot: Some(InFlightGuard::enter(observer_spec.known.running())),
            per_byte: observer_spec.per_byte(),
            attempt_observer: watch.then(|| AttemptObserver::start(observer_spec)),
            // Another request than the client's has only a part of the answer.
            tape: self.judging.as_ref().filter(|_| given.is_none() && watch).map(|judging| judging.tape(gateway)),
        };
        attempt::start(spec, reservation)
    }
}

impl Launch for Launcher {
    type Ready = ReadyAttempt;
    type Attempt = RacedAttempt;

    fn launch(&mut self, starting: AttemptStart) -> Option<RacedAttempt> {
        let reservation = self.reserve(starting.candidate, starting.ordinal, None)?;
        let shows = self.policy.driver.only_shows(starting.candidate);
        let attempt = self.start(starting, None, reservation);
        let candidates = &self.outcome_reporter.candidates;
        let idle =
            candidates[starting.candidate].upstream.timeouts.silence(false, self.book.started() < candidates.len());
        let whole = (self.wants_whole() && !shows).then(|| (idle, self.gateway.memory().clone()));
        Some(RacedAttempt::new(attempt, starting.candidate, whole, self.outcome_reporter.clone()))
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision {
        let sent = self.outcome_reporter.sent(candidate);
        let again = self.again(candidate, &sent, failure);
        if enabled!(Level::DEBUG) {
            let _entered = sent.context.enter();
            tracing::debug!(failure = failure.kind.as_str(), ?again, "whether it is asked again");
        }
        again
    }

    fn affords_retry(&mut self, candidate: usize, running: &[RunningAttempt<RacedAttempt>]) -> bool {
        // An upstream whose answers break must not repeatedly cut others by its first token.
        let now_us = self.policy.now_us();
        !self.candidates[candidate].broke_off && self.policy.driver.affords_retry(candidate, &views(running), now_us)
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
        let trial = self.candidates[candidate].trial.take();
        let progress = AttemptView {
            first_token_us: ready.stream.first_token_us(),
            tokens: ready.stream.tokens(),
            ..self.waiting(candidate)
        };
        // It already has its first token, so an audit would add nothing but its judgement.
        let is_watched = self.policy.driver.is_watched(candidate);
        let judged = || if is_watched { self.enter_judged(candidate) } else { None };
        if let Some((place, time)) = self.enter_drain(&progress, ready.stream.owns_connection()).or_else(judged) {
            let run = ready.stream.drain(self.settings.drains.bytes, self.is_billed_anyway(candidate));
            self.run_in_background((place, trial), time, run);
        }
    }

    fn replan(&mut self, running: &[RunningAttempt<RacedAttempt>], waiting: &[usize]) -> Replan {
        // Candidates that cool down or whose answers broke get no hedge. They may still replace a failed attempt.
        let OutcomeReporter { health, candidates, .. } = &*self.outcome_reporter;
        let may_hedge = |candidate: usize| {
            health.held(&candidates[candidate]).is_none()
                && !self.policy.driver.is_too_small(candidate)
                && !self.candidates[candidate].broke_off
        };
        let rested: Vec<usize> = waiting.iter().copied().filter(|candidate| may_hedge(*candidate)).collect();
        let now_us = self.policy.now_us();
        self.policy.driver.replan(&views(running), &rested, now_us)
    }

    fn next_after_failure(&mut self, waiting: &[usize], must: bool) -> Option<usize> {
        self.policy.driver.next_after_failure(waiting, must, self.policy.now_us())
    }

    fn hold(
        &mut self,
        ready: &RunningAttempt<ReadyAttempt>,
        running: &[RunningAttempt<RacedAttempt>],
    ) -> Option<Duration> {
        // A whole answer is not held back.
        let now_us = self.policy.now_us();
        if self.wants_whole() { None } else { self.policy.driver.hold(ready.candidate(), &views(running), now_us) }
    }

    fn prefer(&mut self, held: &RunningAttempt<ReadyAttempt>, new: &RunningAttempt<ReadyAttempt>) -> RaceSide {
        let now_us = self.policy.now_us();
        let prefers_new = self.policy.driver.prefers_new(held.candidate(), new.candidate(), now_us);
        if prefers_new { RaceSide::New } else { RaceSide::Held }
    }

    fn hopeless(&mut self, running: &[RunningAttempt<RacedAttempt>]) -> Option<usize> {
        if !self.wants_whole() {
            return None;
        }
        match self.settings.optimise {
            // The first token decides, as for a streaming client. If that answer breaks, the others start again.
            Objective::Auto | Objective::Ttft => {
                let first = running.iter().position(|running| running.attempt.has_begun())?;
                (0..running.len()).find(|place| *place != first)
            }
            Objective::Completion | Objective::Goodput => {
                self.policy.driver.hopeless(&views(running), self.policy.now_us())
            }
        }
    }
}

impl Launcher {
    /// A lost trial runs on: its upstream may be healthy although it is slower than the winner. So does a refusal: one that always comes
    /// late would never be reported.
    fn lost_asking(&mut self, candidate: usize, mut attempt: Attempt) {
        let trial = self.candidates[candidate].trial.take();
        let is_billed = self.is_billed_anyway(candidate);
        let refused = attempt.is_refused().then(|| self.request.clone());
        let is_chosen = self.policy.driver.runs_on(candidate) || fastrand::f64() < self.settings.audit;
        let is_audited = trial.is_some() || refused.is_some() || is_chosen;
        // One that is audited runs to its first token, however late that comes.
        let owns_connection = attempt.owns_connection() && !is_audited;
        let judged = || if is_chosen { self.enter_judged(candidate) } else { None };
        let (place, limit, run) =
            if let Some((place, time)) = self.enter_drain(&self.waiting(candidate), owns_connection).or_else(judged) {
                attempt.drain(is_billed);
                (place, time, self.run_on(candidate, attempt, Some((self.settings.drains.bytes, is_billed))))
            } else if is_audited && let Some(place) = self.gateway.extras().enter_audit() {
                attempt.audit();
                let limit = self.policy.driver.runs_on_for(candidate, self.policy.now_us());
                (place, limit, self.run_on(candidate, attempt, None))
            } else {
                return;
            };
        let run = async move {
            run.await;
            // Who counts the refusal asks what the request has.
            drop(refused);
        };
        self.run_in_background((place, trial), limit, run);
    }

    /// Whether and when this candidate is retried after a failure.
    fn again(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> RetryDecision {
        if failure.phase == Phase::Stream {
            self.candidates[candidate].broke_off = true;
        }
        if failure.kind == FailureKind::ContextLength {
            self.policy.driver.too_long(candidate, too_long(&failure.message));
        }
        let taught = self.lesson(candidate, sent, failure);
        self.outcome_reporter.remember_words(candidate, failure);
        let meaning = self.outcome_reporter.failed(candidate, sent, failure, taught.is_some());
        if let (FailureMeaning::Taught, Some(Taught { surface, lesson, upload })) = (meaning, taught) {
            self.candidates[candidate].upload = upload;
            self.outcome_reporter.heed(candidate, surface, lesson);
        }
        if meaning.asks_again() {
            return RetryDecision::Now;
        }
        let OutcomeReporter { health, candidates, .. } = &*self.outcome_reporter;
        let asked = &candidates[candidate];
        // A trial is not retried.
        if self.settings.retries == 0 || asked.trial {
            return RetryDecision::No;
        }
        let rest = health.cooling(|| asked.target(sent.key.as_ref())).map(|held| held.wait);
        match self.retries.next(candidate, failure, rest, fastrand::f64()) {
            Some(wait) => RetryDecision::Later { wait, first: self.settings.policy.asks_in_order() },
            None => RetryDecision::No,
        }
    }

    /// This candidate's latest attempt, before its first token.
    fn waiting(&self, candidate: usize) -> AttemptView {
        AttemptView::waiting(candidate, micros(self.outcome_reporter.sent(candidate).at.elapsed()))
    }

    fn is_billed_anyway(&self, candidate: usize) -> bool {
        let provider = &self.outcome_reporter.candidates[candidate].upstream.provider;
        provider.cancel_billing == CancelBilling::BillsFull
    }

    /// A slot to read a loser to its end, and for how long, if cancelling it saves nothing: it is billed in full anyway, or its rest
    /// is shorter than the handshake that would follow, because cancelling closes the connection.
    fn enter_drain(&self, loser: &AttemptView, owns_connection: bool) -> Option<(InFlightGuard, Duration)> {
        let Drains { time, running, .. } = self.settings.drains;
        let (driver, now_us) = (&self.policy.driver, self.policy.now_us());
        let time = if self.is_billed_anyway(loser.candidate) {
            time
        } else if owns_connection && driver.ends_within(loser, self.request.max_tokens, SHORT_REST_MAX, now_us) {
            time.min(2 * SHORT_REST_MAX)
        } else {
            return None;
        };
        Some((self.gateway.extras().enter_drain(running)?, time))
    }

    /// A slot to read a look or an audit to its end, and for how long, where its answer is to be judged.
    fn enter_judged(&self, candidate: usize) -> Option<(InFlightGuard, Duration)> {
        let Drains { time, running, .. } = self.settings.drains;
        let reads_on = self.judging.is_some() && self.policy.driver.reads_on(candidate);
        if reads_on { Some((self.gateway.extras().enter_drain(running)?, time)) } else { None }
    }

    /// Runs a loser to its first token, or, if `drained` has its maximum of bytes and whether it is billed anyway, to its end.
    fn run_on(
        &self,
        candidate: usize,
        attempt: Attempt,
        drained: Option<(usize, bool)>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let outcome_reporter = self.outcome_reporter.clone();
        // The race may start the same candidate again.
        let sent = self.outcome_reporter.sent(candidate);
        async move {
            match attempt.await {
                Err(failure) => {
                    outcome_reporter.failed(candidate, &sent, &failure, false);
                }
                Ok(ready) => {
                    outcome_reporter.first_token(candidate, &sent);
                    if let Some((bytes, is_billed)) = drained {
                        ready.stream.drain(bytes, is_billed).await;
                    }
                }
            }
        }
    }

    /// Runs in the background for at most `limit`, then releases `held`.
    fn run_in_background(
        &self,
        held: (InFlightGuard, Option<TrialPermit>),
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
        self.gateway.shutdown().spawn(running_on.in_context(self.outcome_reporter.context.clone()));
    }
}

/// The running attempts as the policy sees them.
fn views(running: &[RunningAttempt<RacedAttempt>]) -> Vec<AttemptView> {
    running.iter().map(|running| running.attempt.view(running.started_at.elapsed())).collect()
}

impl Launcher {
    /// How an upstream is asked to answer this request.
    pub(crate) fn form(
        &self,
        (place, candidate): (usize, &Candidate),
        request_translation: &RequestTranslation,
        complained: &RejectedFeature,
    ) -> AnswerForm {
        let health = self.gateway.health();
        let is_plain =
            self.policy.driver.is_plain(place) || complained.stream || health.answers_plain(candidate, &self.request);
        if is_plain && self.request.surface.streams() && candidate.upstream.upstream_stream != UpstreamStream::Always {
            return AnswerForm::Plain;
        }
        let takes_options = request_translation.dialect() == Dialect::OpenAi
            && !complained.stream_options
            && candidate.upstream.quirks(Dialect::OpenAi).stream_options
            && !health.has_habit(&candidate.name, candidate.surface, StreamingHabit::RefusesOptions);
        if takes_options { AnswerForm::WithUsage } else { AnswerForm::Streamed }
    }
}

impl Launcher {
    /// What this refusal teaches, with the request that heeds it. None: it names nothing that may be changed.
    fn lesson(&self, candidate: usize, sent: &SentRequest, failure: &Failure) -> Option<Taught> {
        let may = self.learns && !self.request.surface.counts();
        let refusal = self.outcome_reporter.teaches(sent, failure).filter(|_| may)?;
        let Candidate { upstream, name, .. } = &*self.outcome_reporter.candidates[candidate];
        let before = &self.candidates[candidate].upload;
        let (surface, dialects) = (before.asked(), &upstream.provider.dialects);
        let other = if surface == Surface::Responses { Dialect::OpenAi } else { Dialect::Responses };
        let has_other_path = dialects.iter().any(|spoken| spoken.dialect == other);
        let betas = if before.is_translated() { "" } else { self.client_headers.betas() };
        let conversation = outbound::conversation_of(&self.request);
        let new = before.lesson(refusal, betas, has_other_path, conversation)?;
        let known = sent.complained.lessons.iter().chain([&(surface, new.clone())]).cloned().collect::<Vec<_>>();
        let lessons = |surface| {
            let its = known.iter().filter(|(of, _)| *of == surface).map(|(_, lesson)| lesson.clone());
            self.gateway.health().lessons(name, surface).into_iter().chain(its).collect()
        };
        let stores = self.gateway.stored().is_on();
        // Who has no such call is asked for a summary.
        let in_words = matches!(new, Lesson::Demand(QuirkSet { compaction: Some(false), .. }));
        let compaction = in_words.then(|| self.request.as_compaction()).flatten().map(Arc::new);
        let request = compaction.as_ref().unwrap_or(&self.request);
        let mut outbound = Outbound::new(request, self.settings.lossy, self.gateway.memory(), stores);
        let upload = outbound.for_upstream(upstream, lessons).ok().flatten()?;
        Some(Taught { surface, lesson: new, upload })
    }
}

/// What a refusal taught.
struct Taught {
    surface: Surface,
    lesson: Lesson,
    upload: Arc<RequestTranslation>,
}

fn notes(request_translation: &RequestTranslation, lessons: &[Lesson]) -> RequestNotes {
    let lost = request_translation.losses().names().map(str::to_owned).collect();
    let mut learnt: Vec<String> = lessons.iter().map(Lesson::in_words).collect();
    learnt.dedup();
    RequestNotes { lost, learnt }
}
