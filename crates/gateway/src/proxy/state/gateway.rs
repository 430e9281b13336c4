//! The state that all requests share: configuration, connections, recorder, state of the upstreams, memory. Not for a
//! single request.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::attempt::AnswerJudge;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::refusals::shed::ShedReason;
use crate::proxy::state::blocking::BlockingPool;
use crate::proxy::state::budget_lines::BudgetLines;
use crate::proxy::state::configuration::{ConfigurationInForce, RefusedConfiguration};
use crate::proxy::state::extras::ExtraPlaces;
use crate::proxy::state::load::{AdmissionLoad, LimitedCounts, ShedCounts};
use crate::proxy::state::minute_counts::MinuteCounts;
use crate::proxy::state::places::{RequestPlace, RequestPlaces};
use crate::proxy::state::shares::{ShareHolder, ShareLimits};
use crate::proxy::state::stored::StoredState;
use crate::proxy::state::wrong_tokens::WrongTokens;
use crate::proxy::trace::SpanSink;
use photofinish_base::clock::wall_micros;
use photofinish_base::memory::Memory;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{ProviderLists, User};
use photofinish_facts::record::RaceSource;
use photofinish_facts::recording::{RaceRecorder, RaceSink};
use photofinish_limits::{LevelName, UsageBook};
use photofinish_routing::callers::{IssuerKeys, MadeCallers, Sessions};
use photofinish_routing::health::{HealthHint, LiveConfig, RefusedKind, UpstreamHealth};
use photofinish_routing::learning::Learning;
use photofinish_routing::status::{RoutingReport, routing};
use photofinish_transport::upstream::UpstreamClient;

/// One gateway. Held in an `Arc` by every request.
pub struct Gateway {
    configuration: ConfigurationInForce,
    client: UpstreamClient,
    recorder: Arc<dyn RaceRecorder>,
    departure: Departure,
    health: Arc<UpstreamHealth>,
    places: Arc<RequestPlaces>,
    extras: ExtraPlaces,
    totals: Totals,
    door: DoorState,
    memory: Memory,
    heavy: BlockingPool,
    stored: Arc<StoredState>,
    usage: UsageBook,
    budget_lines: BudgetLines,
    judge: Arc<AnswerJudge>,
    span_sink: OnceLock<Arc<dyn SpanSink>>,
}

/// Whether the gateway goes on.
struct Departure {
    shutdown: Shutdown,
    /// It was ordered to leave, and does not drain yet.
    is_announced: AtomicBool,
}

/// Who came to the door.
#[derive(Default)]
pub(in crate::proxy) struct DoorState {
    /// Of `[oidc]`.
    pub issuer: IssuerKeys,
    /// Of the dashboard.
    pub sessions: Sessions,
    pub wrong_tokens: WrongTokens,
    /// Requests that were refused, by caller and code.
    pub refused_requests: Arc<MinuteCounts<(ShareHolder, &'static str)>>,
}

/// Counts since the start that no row contains.
#[derive(Debug, Default)]
pub struct Totals {
    unauthorized: AtomicU64,
    /// Conversations that were asked for.
    conversations: AtomicU64,
    wrong_tokens: AtomicU64,
    /// Requests that were shed.
    pub shed: ShedCounts,
    /// Requests that a limit of their caller refused.
    pub limited: LimitedCounts,
    /// Budgets that came near their ends.
    pub near_end: LimitedCounts,
}

impl Totals {
    pub(in crate::proxy) fn unauthorized(&self) {
        self.unauthorized.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::proxy) fn wrong_token(&self) {
        self.wrong_tokens.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests with a wrong token, on any path.
    pub fn wrong_tokens_so_far(&self) -> u64 {
        self.wrong_tokens.load(Ordering::Relaxed)
    }

    /// Conversations that were asked for. They have no row.
    pub fn conversations_so_far(&self) -> u64 {
        self.conversations.load(Ordering::Relaxed)
    }

    pub(in crate::proxy) fn count_conversation(&self) {
        self.conversations.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were refused for a missing or wrong token.
    pub fn unauthorized_so_far(&self) -> u64 {
        self.unauthorized.load(Ordering::Relaxed)
    }
}

impl Gateway {
    pub fn new(
        live: LiveConfig,
        client: UpstreamClient,
        recorder: Arc<dyn RaceRecorder>,
        shutdown: Shutdown,
    ) -> Gateway {
        recorder.configured(&live.config);
        let health = Arc::new(UpstreamHealth::new(&live));
        let memory = Memory::new(live.config.server.memory);
        Gateway {
            stored: Arc::new(StoredState::new(memory.clone(), live.config.server.stored)),
            memory,
            heavy: BlockingPool::new(shutdown.clone()),
            judge: Arc::new(AnswerJudge::new(health.learning().clone())),
            configuration: ConfigurationInForce::new(live),
            client,
            recorder,
            departure: Departure { shutdown, is_announced: AtomicBool::new(false) },
            health,
            places: Arc::default(),
            extras: ExtraPlaces::default(),
            totals: Totals::default(),
            door: DoorState::default(),
            usage: UsageBook::default(),
            budget_lines: BudgetLines::default(),
            span_sink: OnceLock::new(),
        }
    }

    /// From now on requests may be traced. Only the first call counts.
    pub fn send_spans_to(&self, sink: Arc<dyn SpanSink>) {
        let _ = self.span_sink.set(sink);
    }

    /// Who makes spans of requests. None: they are not traced.
    pub fn span_sink(&self) -> Option<&Arc<dyn SpanSink>> {
        self.span_sink.get()
    }

    /// From now on it is not ready: it will drain soon.
    pub fn leave(&self) {
        self.departure.is_announced.store(true, Ordering::Relaxed);
    }

    /// It drains, or will soon.
    pub fn is_leaving(&self) -> bool {
        self.departure.is_announced.load(Ordering::Relaxed) || self.shutdown().is_draining()
    }

    pub fn live(&self) -> Arc<LiveConfig> {
        self.configuration.live()
    }

    /// Puts a new configuration in force. Ends all cool-downs: a key may have been replaced. Keeps the breakers and the statistics
    /// of providers whose address stays.
    pub fn reload(&self, live: LiveConfig) {
        self.replace(|before| live.with_callers(before.callers.clone()));
        self.memory.resize(self.live().config.server.memory);
        self.stored.resize(self.live().config.server.stored);
        self.health.clear_cooldowns();
        let live = self.live();
        self.usage.retain(|level| match level {
            LevelName::Team(team) => live.config.teams.contains_key(&**team),
            LevelName::User(name) => live.callers.has_user(name),
            LevelName::Everybody | LevelName::Key(_) => true,
            // Made again by the next request.
            LevelName::Models(_) => false,
        });
    }

    /// Keeps what is wrong with a newer configuration; none: it is in force.
    pub fn refuse_configuration(&self, refused: Option<RefusedConfiguration>) {
        self.configuration.refuse(refused);
    }

    /// Notified when a client names a model that is not known: a provider may list it by now.
    pub fn unknown_model(&self) -> &Notify {
        self.configuration.unknown()
    }

    /// See [`Gateway::refuse_configuration`].
    pub fn refused_configuration(&self) -> Option<RefusedConfiguration> {
        self.configuration.refused()
    }

    /// Puts what providers list in force; cool-downs stay. `lists` gets the configuration in force.
    pub fn take_lists(&self, lists: impl FnOnce(&LiveConfig) -> ProviderLists) {
        self.replace(|live| live.with_lists(&lists(live)));
    }

    /// Changes the teams, users and keys that were made at run time. In force when it returns.
    pub fn change_made(&self, change: impl FnOnce(&mut MadeCallers)) {
        let callers = self.live().callers.clone();
        let before = callers.made_teams();
        callers.change_made(change);
        if callers.made_teams() != before {
            self.replace(LiveConfig::with_made_teams);
        }
    }

    fn replace(&self, make: impl FnOnce(&LiveConfig) -> LiveConfig) {
        self.configuration.replace(make, |before, live| {
            self.recorder.configured(&live.config);
            self.health.keep_known(before, live);
        });
    }

    /// For what happens in one race.
    pub(in crate::proxy) fn sink_for(&self, source: RaceSource) -> Arc<dyn RaceSink> {
        self.recorder.for_race(source)
    }

    pub fn shutdown(&self) -> &Shutdown {
        &self.departure.shutdown
    }

    /// Judges answers after they ended.
    pub fn judge(&self) -> &Arc<AnswerJudge> {
        &self.judge
    }

    /// Statistics of upstreams, and the budgets.
    pub fn learning(&self) -> &Arc<Learning> {
        self.health.learning()
    }

    /// The state of the upstreams.
    pub(in crate::proxy) fn health(&self) -> &Arc<UpstreamHealth> {
        &self.health
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What callers have used of their limits.
    pub fn usage(&self) -> &UsageBook {
        &self.usage
    }

    /// Of the dashboard.
    pub fn sessions(&self) -> &Sessions {
        &self.door.sessions
    }

    /// The keys of the issuer of `[oidc]`.
    pub fn issuer_keys(&self) -> &IssuerKeys {
        &self.door.issuer
    }

    pub(in crate::proxy) fn door(&self) -> &DoorState {
        &self.door
    }

    /// The memory of all bodies and buffers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Answers that clients may name again.
    pub(in crate::proxy) fn stored(&self) -> &Arc<StoredState> {
        &self.stored
    }

    /// Bytes of memory that answers take which clients may name again.
    pub fn stored_bytes(&self) -> usize {
        self.stored.bytes()
    }

    /// Drops answers that were kept long enough.
    pub fn trim_stored(&self) {
        self.stored.trim();
    }

    /// Threads for work on large bodies.
    pub fn heavy(&self) -> &BlockingPool {
        &self.heavy
    }

    /// The current use without this request; `in_flight`: requests before it.
    pub(in crate::proxy) fn load(&self, live: &LiveConfig, in_flight: usize) -> AdmissionLoad {
        AdmissionLoad {
            in_flight,
            max_in_flight: live.config.server.max_in_flight,
            memory_used: self.memory.used(),
            memory_max: self.memory.max(),
            scarce: self.client.descriptors().are_scarce(),
        }
    }

    /// Upstreams that go last for a kind of requests, which they refuse and others answer.
    pub fn refusing(&self) -> Vec<(String, RefusedKind)> {
        self.health.refusing()
    }

    /// Upstreams whose breaker is open.
    pub fn open_breakers(&self) -> BTreeSet<String> {
        self.health.open_breakers()
    }

    /// Whether the database with the users and keys that were made at run time does not answer.
    pub fn set_keys_away(&self, are_away: bool) {
        self.live().callers.set_away(are_away.then(wall_micros));
    }

    /// What other gateways on the same database should know of upstreams.
    pub fn hints(&self) -> Vec<HealthHint> {
        self.health.hints()
    }

    /// Another gateway on the same database reported this.
    pub fn hear_hint(&self, hint: &HealthHint) {
        self.health.hear_hint(hint, &self.live());
    }

    /// Requests that are in the race: their bodies are there.
    pub fn races(&self) -> usize {
        self.places.racing()
    }

    /// Requests whose bodies are still coming.
    pub fn arriving(&self) -> usize {
        self.places.arriving()
    }

    /// The status of every upstream, or of one `model`: a name, an alias, or upstreams separated by commas.
    ///
    /// # Errors
    /// 404 for an unknown model.
    pub fn routing(&self, model: Option<&str>) -> Result<RoutingReport, Rejection> {
        let live = self.live();
        routing(&self.health, &live, model).map_err(|why| {
            let model = model.unwrap_or_default();
            Rejection::unknown_model(&live.config, model, model.contains('/').then_some(why.as_str()))
        })
    }

    pub fn client(&self) -> &UpstreamClient {
        &self.client
    }

    pub(in crate::proxy) fn places(&self) -> &RequestPlaces {
        &self.places
    }

    /// A place in the race for a request of this caller.
    ///
    /// # Errors
    /// Why there is none.
    pub(in crate::proxy) fn enter_race(
        &self,
        live: &LiveConfig,
        user: Option<&User>,
        address: IpAddr,
    ) -> Result<RequestPlace, ShedReason> {
        let limits = ShareLimits { all: live.config.server.max_in_flight, users: live.users() };
        self.places.enter(ShareHolder::of(user, address), limits)
    }

    /// A place for a request of the operator, which is not refused.
    pub(in crate::proxy) fn enter_own_race(&self) -> RequestPlace {
        self.places.enter_own()
    }

    pub(in crate::proxy) fn budget_lines(&self) -> &BudgetLines {
        &self.budget_lines
    }

    pub(in crate::proxy) fn extras(&self) -> &ExtraPlaces {
        &self.extras
    }
}
