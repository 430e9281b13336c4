//! The guard of a race's row: it exists from the request's arrival and writes the row once, at the latest on drop.
//!
//! The stages of a request are types, so that their order cannot be wrong: a [`RaceGuard`] is read, the [`ReadRace`] is
//! parsed, the [`ParsedRace`] is planned. The end of a race consumes its guard; a streamed answer continues as a
//! [`StreamedRace`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use tracing::{Level, enabled};

use crate::proxy::door::overrides;
use crate::proxy::refusals::limit_headers;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::refusals::shed::ShedReason;
use crate::proxy::request::candidate_set::AskedLast;
use crate::proxy::run::gate::{AnswerKind, GatePayer};
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::kept::StateOwner;
use crate::proxy::state::minute_counts::MinuteCounts;
use crate::proxy::state::places::RequestPlace;
use crate::proxy::state::shares::ShareHolder;
use crate::proxy::stored::keeper::Keeper;
use crate::proxy::trace::RaceTrace;
use crate::relay::RelayObserver;
use photofinish_base::clock::{Instant, micros_between, signed_micros_between, wall_micros};
use photofinish_base::failure::Failure;
use photofinish_base::shutdown::Shutdown;
use photofinish_base::telemetry::LogContext;
use photofinish_config::{RaceSettings, User};
use photofinish_facts::reason::DecisionReason;
use photofinish_facts::record::{
    LeftOutReason, LeftOutUpstream, RaceOutcome, RaceRecord, RaceSource, RequestOrigin, left_out,
};
use photofinish_facts::recording::RaceSink;
use photofinish_limits::{Admission, Hold};
use photofinish_routing::health::{LiveConfig, OutcomeReporter};
use photofinish_routing::money::RaceBudget;
use photofinish_routing::policy::DecisionReasons;
use photofinish_translation::ApiRequest;
use photofinish_wire::Surface;

/// Rows of refusals of one caller with one code in a minute; further ones are counted, so that a flood does not fill the history.
const ROWS_MAX: u32 = 30;

/// Not `Clone`: two guards would report one race twice.
pub struct RaceGuard {
    surface: Surface,
    /// Boxed: it is large, and the guard moves with its future.
    record: Box<RaceRecord>,
    /// How it ended. None: a drop means that the client left.
    outcome: Option<RaceOutcome>,
    /// The zero of all its times: when the request was read; before that, when it arrived.
    read_at: Instant,
    /// The winner's first token, microseconds after `read_at`.
    token_us: Option<i64>,
    /// The winner's answer is plain: that is the time to all of it.
    is_plain: bool,
    /// None: it was rejected before it was planned.
    steering: Option<(DecisionReasons, Arc<RaceBudget>)>,
    /// The upstreams that it could not start.
    left_out: Vec<LeftOutUpstream>,
    /// Those of them that it asked when no other was left.
    asked_last: Option<AskedLast>,
    /// When it was to leave, if that was planned.
    scheduled: Option<Instant>,
    attempts: Arc<AtomicUsize>,
    sink: Arc<dyn RaceSink>,
    shutdown: Shutdown,
    /// The head of the answer was sent early, with status 200.
    head_sent: bool,
    /// The request's.
    context: LogContext,
    /// Keeps the answer, if its client wants to name it again.
    keeper: Option<Box<Keeper>>,
    /// What it takes of its caller's limits. None: nothing limits it.
    hold: Option<Arc<Hold>>,
    /// None: traces are off.
    trace: Option<Arc<RaceTrace>>,
    /// Requests that were refused lately.
    refused_requests: Arc<MinuteCounts<(ShareHolder, &'static str)>>,
    /// A request like many others of this caller that were refused within the same minute: counted, and no row.
    is_refused_again: bool,
    /// Held until the response body ends.
    place: RequestPlace,
}

/// A race whose request was read.
pub struct ReadRace<'g>(&'g mut RaceGuard);

/// A race whose request was parsed, and the session that the request names.
pub struct ParsedRace<'g>(&'g mut RaceGuard, Option<u64>);

/// The plan of a race.
pub struct Planned<'f> {
    pub settings: &'f RaceSettings,
    /// The plan as text.
    pub plan: String,
    /// The upstreams that it cannot start.
    pub left_out: Vec<LeftOutUpstream>,
    /// Those of them that it asks when no other is left.
    pub asked_last: Option<AskedLast>,
    /// The probability with which it drew each upstream.
    pub look: Option<f64>,
    /// The upstream that it drew, and why that one cannot start.
    pub drawn: Option<(&'f str, Option<&'static str>)>,
    /// Why it was run so: read when the row is written.
    pub reasons: DecisionReasons,
    /// Pays for it.
    pub race_budget: Arc<RaceBudget>,
}

/// The attempt that serves the client.
pub struct Win {
    pub ordinal: usize,
    pub candidate: usize,
    /// Its first token, microseconds after the request was read.
    pub token_us: i64,
    /// Its answer is plain: that is the time to all of it.
    pub is_plain: bool,
    /// Receives the end of a streamed answer.
    pub outcome_reporter: Arc<OutcomeReporter>,
    /// It speaks the Responses API itself, so it has what it answers.
    pub owner: Option<StateOwner>,
}

/// A race whose winner is streamed.
pub struct StreamedRace {
    guard: RaceGuard,
    outcome_reporter: Arc<OutcomeReporter>,
    /// The candidate whose answer is being sent. None between a break and its replacement, and after the end.
    serving: Option<usize>,
}

impl RaceGuard {
    pub fn new(
        gateway: &Gateway,
        surface: Surface,
        user: Option<&User>,
        place: RequestPlace,
        origin: RequestOrigin,
    ) -> RaceGuard {
        let RequestOrigin { source, run_id, workload, scheduled } = origin;
        let record = RaceRecord {
            source,
            run_id,
            workload,
            started_at: wall_micros(),
            user: user.map(|user| user.name.clone()),
            team: user.and_then(|user| user.team.clone()),
            caller_key: user.and_then(|user| user.key.as_ref()).map(|key| key.id.clone()),
            api: surface.as_str(),
            in_flight: i64::try_from(place.before()).unwrap_or(i64::MAX),
            ..RaceRecord::default()
        };
        RaceGuard {
            surface,
            record: Box::new(record),
            outcome: None,
            read_at: Instant::now(),
            token_us: None,
            is_plain: false,
            steering: None,
            left_out: Vec::new(),
            asked_last: None,
            attempts: Arc::default(),
            sink: gateway.sink_for(source),
            scheduled,
            shutdown: gateway.shutdown().clone(),
            head_sent: false,
            context: LogContext::current(),
            keeper: None,
            hold: None,
            trace: None,
            refused_requests: gateway.door().refused_requests.clone(),
            is_refused_again: false,
            place,
        }
    }

    /// The surface of the request.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Its place among the requests in flight.
    pub fn place(&mut self) -> &mut RequestPlace {
        &mut self.place
    }

    /// Why the request has no place any more. Then it is shed, and writes no row.
    pub fn is_shed(&self) -> Option<ShedReason> {
        self.place.lost()
    }

    pub fn is_of_client(&self) -> bool {
        self.record.source == RaceSource::Client
    }

    /// A probe or a shadow: no client waits for it.
    pub fn is_of_operator(&self) -> bool {
        matches!(self.record.source, RaceSource::Probe | RaceSource::Shadow)
    }

    /// Empty until the guard is named.
    pub fn race_id(&self) -> &str {
        &self.record.race_id
    }

    /// The number of attempts started so far.
    pub fn started(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Counts the attempts that were started; the launcher raises it.
    pub fn attempts(&self) -> Arc<AtomicUsize> {
        self.attempts.clone()
    }

    /// For the rows of its attempts: they are written together with the race's.
    pub fn sink(&self) -> Arc<dyn RaceSink> {
        self.sink.clone()
    }

    /// It is part of the client's trace, or begins one, if traces are on.
    pub fn traced<B>(&mut self, gateway: &Gateway, live: &Arc<LiveConfig>, request: &Request<B>) {
        let (Some(otlp), Some(sink), true) = (&live.config.otlp, gateway.span_sink(), self.is_of_client()) else {
            return;
        };
        let trace = Arc::new(RaceTrace::begin(otlp.sampler, request));
        if trace.is_sampled {
            let (trace, live, sink) = (trace.clone(), live.clone(), sink.clone());
            self.sink.ends_with(Box::new(move |race| sink.ended(&trace, &live.config, race)));
        }
        self.trace = Some(trace);
    }

    pub fn trace(&self) -> Option<&Arc<RaceTrace>> {
        self.trace.as_ref()
    }

    /// Its caller's limits let it begin. `of`: what its answer teaches the length of.
    pub fn admitted(&mut self, gateway: &Gateway, admission: &Admission, of: AnswerKind) {
        if let Some(hold) = admission.hold() {
            self.sink.paid_by(Arc::new(GatePayer::new(gateway, hold.clone(), of)));
            self.hold = Some(hold.clone());
        }
    }

    /// Adds the headers that say what is left of the caller's limits.
    pub fn tell_limits(&self, headers: &mut HeaderMap) {
        if let Some(hold) = &self.hold {
            limit_headers::add(headers, hold.left(), self.surface);
        }
    }

    /// Its tags.
    pub fn charge_to(&mut self, tags: Option<String>) {
        self.record.tags = tags;
    }

    /// When it began: microseconds since 1970.
    pub fn started_at(&self) -> i64 {
        self.record.started_at
    }

    /// The request was read: the race's clock starts.
    pub fn read(&mut self, body: &Bytes) -> ReadRace<'_> {
        self.read_at = Instant::now();
        let record = &mut self.record;
        record.in_flight = i64::try_from(self.place.before()).unwrap_or(i64::MAX);
        record.started_at = wall_micros();
        record.input_bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
        record.input_tokens_estimate = record.input_bytes / 4;
        self.name();
        ReadRace(self)
    }

    /// Makes the id, and names it and the user in the log. Not before the request was read or rejected: rows are
    /// found by the time in the id, so it must not be earlier than `started_at`.
    pub fn name(&mut self) {
        if self.record.race_id.is_empty() {
            self.record.race_id = uuid::Uuid::now_v7().to_string();
            self.context.name_race(&self.record.race_id, self.record.user.as_deref());
        }
    }

    /// The head of the answer was sent: the client has read a 200, whatever follows.
    pub fn head_was_sent(&mut self) {
        self.head_sent = true;
    }

    /// A whole answer is sent now. `win`: none if it is an upstream's own error.
    pub fn answered(mut self, status: StatusCode, win: Option<Win>, answer: &[u8]) {
        if let Some(win) = &win {
            self.commit(win);
            self.keeper.iter().for_each(|keeper| keeper.keep(answer));
        }
        let now = self.elapsed();
        self.record.http_status = Some(i64::from(status.as_u16()));
        self.record.done_us = Some(now);
        if status.is_success() {
            self.record.first_token_sent_us = self.record.winner.map(|_| now);
        }
        self.outcome = Some(if status.is_success() { RaceOutcome::Ok } else { RaceOutcome::Error });
    }

    /// The gateway answers itself.
    pub fn rejected(mut self, rejection: &Rejection) {
        self.name();
        tracing::debug!(status = rejection.status().as_u16(), code = rejection.code(), "the gateway answers itself");
        self.record.http_status = Some(i64::from(rejection.status().as_u16()));
        if !rejection.left_out().is_empty() {
            self.left_out = rejection.left_out().to_vec();
        }
        self.record.done_us = Some(self.elapsed());
        self.outcome = Some(match rejection.is_after_race() {
            _ if self.shutdown.is_cancelled() => RaceOutcome::Shutdown,
            true => RaceOutcome::Error,
            false => RaceOutcome::Rejected,
        });
        if self.outcome == Some(RaceOutcome::Rejected) && self.hold.is_none() && self.is_of_client() {
            let of = (self.place.holder(), rejection.code());
            self.is_refused_again = self.refused_requests.count(of, Instant::now()).0 > ROWS_MAX;
        }
    }

    /// From now on the winner is streamed, after a head with this status.
    pub fn streams(mut self, status: StatusCode, win: Win) -> StreamedRace {
        self.commit(&win);
        self.record.http_status = Some(i64::from(status.as_u16()));
        StreamedRace { guard: self, outcome_reporter: win.outcome_reporter, serving: Some(win.candidate) }
    }

    /// It goes to a path of a provider, without a race: its clock starts. `word`: what the path is about.
    pub fn passes(&mut self, word: &str) -> Instant {
        self.read_at = Instant::now();
        let record = &mut self.record;
        (record.started_at, record.api, record.model) = (wall_micros(), "provider", word.to_owned());
        self.context.name_model(word);
        self.name();
        self.sink.planned(&self.record);
        self.read_at
    }

    pub fn sent_up(&mut self, bytes: usize) {
        self.record.input_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.record.input_tokens_estimate = self.record.input_bytes / 4;
    }

    /// The answer of a provider is passed on from now on, after a head with this status.
    pub fn commit_passed(&mut self, status: StatusCode) {
        self.record.http_status = Some(i64::from(status.as_u16()));
        self.record.winner = Some(0);
        self.sink.committed(&self.record.race_id, 0);
    }

    /// That answer has ended.
    pub fn passed_on(&mut self, outcome: RaceOutcome) {
        self.record.done_us = Some(self.elapsed());
        self.outcome = Some(if self.shutdown.is_cancelled() { RaceOutcome::Shutdown } else { outcome });
    }

    fn commit(&mut self, win: &Win) {
        self.keeper.iter_mut().for_each(|keeper| keeper.note_answer(win.owner.clone()));
        (self.token_us, self.is_plain) = (Some(win.token_us), win.is_plain);
        if let Some((_, race_budget)) = &self.steering {
            race_budget.won(win.ordinal);
        }
        self.record.winner = i64::try_from(win.ordinal).ok();
        if let Some(ordinal) = self.record.winner {
            self.sink.committed(&self.record.race_id, ordinal);
        }
    }

    /// The time that the gateway itself added before a streaming client's first token.
    fn overhead_us(&self) -> Option<i64> {
        let token_us = self.token_us.filter(|_| self.record.stream)?;
        Some((self.record.first_token_sent_us? - token_us).max(0))
    }

    /// Settles the race's budget. Returns the reasons.
    fn pay(&mut self) -> Option<DecisionReasons> {
        let (reasons, race_budget) = self.steering.take()?;
        // A client that does not stream sees no first token.
        let ttft_us = if self.record.stream { self.record.first_token_sent_us } else { self.token_us };
        let ttft_us = ttft_us.filter(|_| self.record.winner.is_some());
        if self.is_plain {
            ttft_us.into_iter().for_each(|us| race_budget.took_whole(us));
        } else {
            race_budget.finished(ttft_us, None);
        }
        Some(reasons)
    }

    fn elapsed(&self) -> i64 {
        micros_between(self.read_at, Instant::now())
    }
}

impl<'g> ReadRace<'g> {
    /// When the request was read.
    pub fn read_at(&self) -> Instant {
        self.0.read_at
    }

    pub fn surface(&self) -> Surface {
        self.0.surface
    }

    /// `model`: what the request names, or the model of that alias.
    pub fn parsed(self, request: &ApiRequest, model: &str, headers: &HeaderMap) -> ParsedRace<'g> {
        let record = &mut self.0.record;
        // Longer than any real name, but bounded: a client must not fill the disk with it.
        record.model = model[..model.floor_char_boundary(512)].to_owned();
        record.stream = request.stream;
        record.n_choices = request.n_choices;
        record.max_tokens = request.max_tokens;
        record.has_tools = request.has_tools;
        // Exact also where a reader of JSON has no longer numbers.
        let session = overrides::session(headers).or(request.session);
        record.session = session.map(|hash| (hash >> 11) as i64);
        self.0.context.name_model(&self.0.record.model);
        if let Some(trace) = self.0.trace.as_ref().filter(|trace| trace.is_sampled) {
            trace.settings.get_or_init(|| request.settings());
        }
        ParsedRace(self.0, session)
    }
}

impl<'g> ParsedRace<'g> {
    /// The session that the request names.
    pub fn session(&self) -> Option<u64> {
        self.1
    }

    /// When the request was read.
    pub fn read_at(&self) -> Instant {
        self.0.read_at
    }

    /// The number of requests that were in flight before this one.
    pub fn in_flight(&self) -> usize {
        self.0.place.before()
    }

    /// See [`RaceGuard::admitted`].
    pub fn admitted(&mut self, gateway: &Gateway, admission: &Admission, of: AnswerKind) {
        self.0.admitted(gateway, admission, of);
    }

    /// See [`RaceGuard::charge_to`].
    pub fn charge_to(&mut self, tags: Option<String>) {
        self.0.charge_to(tags);
    }

    /// See [`Keeper`].
    pub fn set_keeper(&mut self, keeper: Option<Box<Keeper>>) {
        self.0.keeper = keeper;
    }

    pub fn planned(self, planned: Planned<'_>) -> &'g RaceGuard {
        let Planned { settings, plan, left_out, asked_last, look, drawn, reasons, race_budget } = planned;
        let guard = self.0;
        guard.record.policy = Some(settings.policy.as_str());
        guard.record.optimise = Some(settings.optimise.as_str());
        tracing::debug!(
            plan,
            left_out = left_out::text(&left_out),
            policy = guard.record.policy,
            why = reasons.text(),
            "planned"
        );
        guard.record.plan = Some(plan);
        guard.record.p_look = look;
        guard.record.look = drawn.map(|(upstream, _)| upstream.to_owned());
        guard.record.look_out = drawn.and_then(|(_, why)| why);
        (guard.left_out, guard.asked_last) = (left_out, asked_last);
        guard.sink.planned(&guard.record);
        guard.steering = Some((reasons, race_budget));
        guard
    }
}

impl RelayObserver for StreamedRace {
    fn first_token(&mut self) {
        self.guard.record.first_token_sent_us = Some(self.guard.elapsed());
    }

    fn ended(&mut self, failure: Option<&Failure>) {
        let guard = &mut self.guard;
        guard.record.done_us = Some(guard.elapsed());
        let ends = guard.shutdown.is_cancelled();
        // A shutdown is not the upstream's fault.
        if let Some(candidate) = self.serving.take().filter(|_| !ends) {
            self.outcome_reporter.ended(candidate, failure);
        }
        guard.outcome.get_or_insert(match failure {
            None => RaceOutcome::Ok,
            Some(_) if ends => RaceOutcome::Shutdown,
            Some(_) => RaceOutcome::Error,
        });
    }

    fn finished(&mut self, events: &Bytes) {
        self.guard.keeper.iter().for_each(|keeper| keeper.keep_end(events));
    }

    fn broke(&mut self, failure: &Failure) {
        if let Some(candidate) = self.serving.take() {
            self.outcome_reporter.ended(candidate, Some(failure));
        }
    }

    fn rescued(&mut self, candidate: usize, ordinal: usize) {
        self.guard.record.rescued_by = i64::try_from(ordinal).ok();
        self.guard.keeper.iter_mut().for_each(|keeper| keeper.note_continued());
        self.serving = Some(candidate);
    }
}

impl Drop for RaceGuard {
    fn drop(&mut self) {
        if self.is_shed().is_some() {
            return;
        }
        let gone = if self.shutdown.is_cancelled() { RaceOutcome::Shutdown } else { RaceOutcome::ClientGone };
        self.record.outcome = match self.outcome {
            Some(outcome) => outcome,
            None if std::thread::panicking() => {
                self.record.http_status = Some(i64::from(StatusCode::INTERNAL_SERVER_ERROR.as_u16()));
                RaceOutcome::Error
            }
            None => gone,
        };
        self.record.attempts = i64::try_from(self.started()).unwrap_or(i64::MAX);
        if self.head_sent {
            self.record.http_status = Some(i64::from(StatusCode::OK.as_u16()));
        }
        let now = self.elapsed();
        self.record.done_us.get_or_insert(now);
        self.record.scheduled_us = self.scheduled.map(|at| signed_micros_between(self.read_at, at));
        let overhead_us = self.overhead_us();
        let reasons = self.pay().unwrap_or_default();
        if let Some(hold) = self.hold.take() {
            hold.end_stream();
            let limited = |upstream| LeftOutUpstream { upstream, reason: LeftOutReason::Limit };
            self.left_out.extend(hold.refused().into_iter().map(limited));
            if self.left_out.iter().any(|left_out| left_out.reason == LeftOutReason::Limit) {
                reasons.add(DecisionReason::Narrowed);
            }
        }
        if let Some(asked) = &self.asked_last {
            self.left_out.retain(|left_out| !asked.contains(&left_out.upstream));
        }
        (self.record.why, self.record.left_out) = (reasons.text(), left_out::text(&self.left_out));
        let left_out = &mut self.left_out.iter().map(|left_out| left_out.reason);
        self.sink.decided(reasons.contains(DecisionReason::Budget), left_out);
        self.name();
        let record = std::mem::take(&mut self.record);
        let (outcome, attempts, winner, why) =
            (record.outcome.as_str(), record.attempts, record.winner, record.why.as_deref());
        if enabled!(Level::DEBUG) {
            let _entered = self.context.enter();
            tracing::debug!(outcome, attempts, winner, why, "the race is over");
        }
        if self.is_refused_again {
            self.sink.counted(&record, overhead_us);
            return;
        }
        self.sink.race(record, overhead_us);
    }
}
