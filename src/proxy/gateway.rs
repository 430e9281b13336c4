//! What every request shares: the live configuration, the connections, the recorder, and what was learnt since the start.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::admission::{Load, Turned};
use super::caller::CallerId;
use super::field::Runner;
use super::heavy::Heavy;
use crate::attempt::Slot;
use crate::budget::Budget;
use crate::clock::Instant;
use crate::config::{Config, Keys, Model, Upstream, User};
use crate::learning::{Learning, LedgerKey};
use crate::protocol::Dialect;
use crate::recorder::Recorder;
use crate::routing::breaker::Breakers;
use crate::routing::cooldown::{Aside, Cooldowns, Held, Target, Witness};
use crate::routing::keyring::{Key, Ring, Shared};
use crate::routing::tariff::Basis;
use crate::routing::windows::{Length, Window, Windows};
use crate::shutdown::Shutdown;
use crate::upstream::{Client, Endpoint, InvalidUrl};

/// Audited losers that run at once.
const AUDITS_MAX: i64 = 512;
/// Bodies of requests that were turned away that are read on at once; those beyond are hung up on.
const DISCARDS_MAX: i64 = 512;
/// Upstreams that are remembered as rejecting `stream_options`.
const REMEMBERED_MAX: usize = 10_000;
/// How long that is remembered: a server may learn it with its next version.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// One gateway. Held in an `Arc` by every request.
pub struct Gateway {
    live: ArcSwap<Live>,
    client: Client,
    recorder: Recorder,
    shutdown: Shutdown,
    cooldowns: Mutex<Cooldowns>,
    /// What said that a rate limit is used up: others go before it, but it is asked where there are none.
    exhausted: Mutex<Cooldowns>,
    /// For the hashes by which bodies are told apart.
    salt: RandomState,
    pub(super) breakers: Mutex<Breakers>,
    /// By upstream: when it was learnt.
    without_stream_options: Mutex<HashMap<String, Instant>>,
    /// How long a prompt upstreams take, as far as they have refused one.
    windows: Mutex<Windows>,
    learning: Arc<Learning>,
    races: Arc<AtomicI64>,
    audits: Arc<AtomicI64>,
    drains: Arc<AtomicI64>,
    totals: Totals,
    budget: Budget,
    heavy: Heavy,
    /// Bodies of requests that were turned away, while they are read on.
    discards: Arc<AtomicI64>,
}

/// One configuration in force. A reload makes another; what runs goes on with the one it began with.
pub struct Live {
    pub config: Config,
    /// By provider.
    lines: HashMap<String, Line>,
    /// `provider/model` of all models.
    upstreams: HashSet<String>,
    /// By user, then by provider.
    user_keys: HashMap<String, HashMap<String, Key>>,
}

/// How a provider is reached.
pub(super) struct Line {
    /// One for each dialect that it speaks.
    endpoints: Vec<(Dialect, Endpoint)>,
    shared: Shared,
    turn: AtomicUsize,
}

impl Line {
    /// Where it speaks a dialect.
    pub fn endpoint(&self, dialect: Dialect) -> Option<&Endpoint> {
        self.endpoints.iter().find(|(spoken, _)| *spoken == dialect).map(|(_, endpoint)| endpoint)
    }

    /// The keys that callers without one of their own use.
    pub fn shared(&self) -> Cow<'_, Ring> {
        self.shared.ring()
    }

    /// The keys for one request: the caller's own, else the shared ones, which take turns.
    pub fn keys(&self, own: Option<Key>) -> Ring {
        let turn = if own.is_some() { 0 } else { self.turn.fetch_add(1, Ordering::Relaxed) };
        self.shared.ring().for_request(own, turn)
    }
}

/// Counts since the start that no row tells.
#[derive(Debug, Default)]
pub struct Totals {
    unauthorized: AtomicU64,
    /// Requests that were turned away because there was no room.
    pub shed: Turned,
}

impl Totals {
    pub(super) fn unauthorized(&self) {
        self.unauthorized.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were turned away before they were authenticated.
    pub fn unauthorized_so_far(&self) -> u64 {
        self.unauthorized.load(Ordering::Relaxed)
    }
}

impl Live {
    /// `simulated` tells where the simulated providers listen, by name.
    ///
    /// # Errors
    /// When a provider's address is none.
    pub fn new(config: Config, simulated: &HashMap<String, String>) -> Result<Live, InvalidUrl> {
        let mut lines = HashMap::new();
        for provider in config.providers.values() {
            let mut endpoints = Vec::with_capacity(provider.dialects.len());
            for spoken in &provider.dialects {
                let url = simulated.get(&provider.name).unwrap_or(&spoken.base_url);
                endpoints.push((spoken.dialect, Endpoint::parse(url)?.with_transport(spoken.transport.clone())));
            }
            let line = Line { endpoints, shared: Shared::of(provider), turn: AtomicUsize::new(0) };
            lines.insert(provider.name.clone(), line);
        }
        let keys_of = |user: &User| {
            user.keys.iter().map(|(provider, key)| (provider.clone(), Key::new(key.clone(), true))).collect()
        };
        let user_keys = config.users.iter().map(|user| (user.name.clone(), keys_of(user))).collect();
        let upstreams = config.models.values().flat_map(|model| &model.upstreams).map(Upstream::name).collect();
        Ok(Live { config, lines, upstreams, user_keys })
    }

    /// Whether a model lists it.
    pub(super) fn is_configured(&self, upstream: &str) -> bool {
        self.upstreams.contains(upstream)
    }

    /// What it names has places of its own.
    fn teach_names(&self, learning: &Learning) {
        let of_model = |model: &Arc<Model>| {
            LedgerKey::new(&model.name, model.race.budget, Basis::of(model.upstreams.iter()).is_money())
        };
        let ledgers = self.config.models.values().map(of_model);
        learning.configure(self.upstreams.iter().cloned(), ledgers);
    }

    pub(super) fn line(&self, provider: &str) -> Option<&Line> {
        self.lines.get(provider)
    }

    pub(super) fn key_of_user(&self, user: &User, provider: &str) -> Option<&Key> {
        self.user_keys.get(&user.name)?.get(provider)
    }
}

impl Gateway {
    pub fn new(live: Live, client: Client, recorder: Recorder, shutdown: Shutdown) -> Gateway {
        recorder.metrics().configure(&live.config);
        let learning = Learning::new();
        live.teach_names(&learning);
        let budget = Budget::new(live.config.server.memory);
        Gateway {
            budget,
            heavy: Heavy::new(shutdown.clone()),
            discards: Arc::default(),
            live: ArcSwap::from_pointee(live),
            client,
            recorder,
            shutdown,
            cooldowns: Mutex::default(),
            exhausted: Mutex::default(),
            salt: RandomState::new(),
            breakers: Mutex::default(),
            without_stream_options: Mutex::default(),
            windows: Mutex::default(),
            learning: Arc::new(learning),
            races: Arc::default(),
            audits: Arc::default(),
            drains: Arc::default(),
            totals: Totals::default(),
        }
    }

    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Puts a new configuration in force. What was set aside is tried again: a key may have been mended. Breakers, and what
    /// was learnt, stay as they are where a provider stays where it is.
    pub fn reload(&self, live: Live) {
        self.recorder.metrics().configure(&live.config);
        let before = self.live();
        let address = |config: &Config, provider: &str| {
            let provider = config.providers.get(provider)?;
            Some((provider.base_url.clone(), provider.preferred().transport.clone()))
        };
        let stays = |upstream: &str| {
            let provider = upstream.split('/').next().unwrap_or_default();
            let now = address(&live.config, provider);
            now.is_some() && now == address(&before.config, provider)
        };
        lock(&self.breakers).retain(|asked| stays(asked.upstream) && asked.named != live.is_configured(asked.upstream));
        self.learning.retain(stays);
        let billing = |config: &Config, model: &str| {
            let upstreams = &config.models.get(model)?.upstreams;
            Some(upstreams.iter().map(|upstream| (upstream.name(), upstream.billing())).collect::<Vec<_>>())
        };
        self.budget.resize(live.config.server.memory);
        self.learning.retain_ledgers(|model| billing(&live.config, model) == billing(&before.config, model));
        live.teach_names(&self.learning);
        self.live.store(Arc::new(live));
        *lock(&self.cooldowns) = Cooldowns::default();
        *lock(&self.exhausted) = Cooldowns::default();
        lock(&self.without_stream_options).clear();
        *lock(&self.windows) = Windows::default();
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// What was learnt of upstreams, and what may be spent.
    pub fn learning(&self) -> &Arc<Learning> {
        &self.learning
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The memory of all bodies and buffers.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn heavy(&self) -> &Heavy {
        &self.heavy
    }

    /// What is in use beside one request; `in_flight`: how many were there before it.
    pub(super) fn load(&self, live: &Live, in_flight: i64) -> Load {
        Load {
            in_flight: usize::try_from(in_flight).unwrap_or(0),
            max_in_flight: live.config.server.max_in_flight,
            memory_used: self.budget.used(),
            memory_max: self.budget.max(),
            scarce: self.client.descriptors().are_scarce(),
        }
    }

    /// Upstreams whose breaker is open.
    pub fn open_breakers(&self) -> BTreeSet<String> {
        lock(&self.breakers).open()
    }

    /// Races that run now.
    pub fn races(&self) -> i64 {
        self.races.load(Ordering::Relaxed)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn enter_race(&self) -> Slot {
        Slot::enter(self.races.clone())
    }

    /// A place among the audited losers, while there is one.
    pub(super) fn enter_audit(&self) -> Option<Slot> {
        let slot = Slot::enter(self.audits.clone());
        (slot.before < AUDITS_MAX).then_some(slot)
    }

    /// A place among the bodies that are read on though nobody wants them.
    pub(super) fn enter_discard(&self) -> Option<Slot> {
        let slot = Slot::enter(self.discards.clone());
        (slot.before < DISCARDS_MAX).then_some(slot)
    }

    /// A place among the drained losers, while there are fewer than `running`.
    pub(super) fn enter_drain(&self, running: usize) -> Option<Slot> {
        let slot = Slot::enter(self.drains.clone());
        usize::try_from(slot.before).is_ok_and(|before| before < running).then_some(slot)
    }

    pub(super) fn set_aside(&self, aside: Aside, target: &Target, retry_after: Option<Duration>) -> Duration {
        let live = self.live();
        if let (Aside::KeyRefused, Some(provider)) = (aside, live.config.providers.get(&target.provider))
            && let Keys::Token(token) = &provider.keys
        {
            // It may have been withdrawn before its time.
            token.refuse();
        }
        lock(&self.cooldowns).set_aside(aside, target, retry_after, Instant::now(), fastrand::f64())
    }

    /// A refusal that may be about the request alone. True once enough others have met it too: see [`Cooldowns::suspect`].
    pub(super) fn suspect(&self, target: &Target, caller: CallerId, body: &[u8]) -> bool {
        let witness = Witness { caller: caller.id(), body: self.salt.hash_one(body) };
        lock(&self.cooldowns).suspect(target, witness, caller.witnesses(), Instant::now())
    }

    /// A good answer said that nothing is left of a rate limit for so long.
    pub(super) fn exhausted(&self, target: &Target, wait: Duration) {
        lock(&self.exhausted).set_aside(Aside::Exhausted, target, Some(wait), Instant::now(), 0.0);
    }

    /// How long others are to go before this one.
    pub(super) fn resting(&self, target: impl FnOnce() -> Target) -> Option<Held> {
        let exhausted = lock(&self.exhausted);
        if exhausted.is_empty() { None } else { exhausted.wait(&target(), Instant::now()) }
    }

    /// An upstream answered well to what was sent at `dispatched`. The target is only made when anything is held against
    /// anybody.
    pub(super) fn forgive(&self, target: impl FnOnce() -> Target, dispatched: Instant) {
        let mut cooldowns = lock(&self.cooldowns);
        if !cooldowns.is_empty() {
            cooldowns.clear(&target(), dispatched, Instant::now());
        }
    }

    pub(super) fn cooling(&self, target: impl FnOnce() -> Target) -> Option<Held> {
        let cooldowns = lock(&self.cooldowns);
        if cooldowns.is_empty() { None } else { cooldowns.wait(&target(), Instant::now()) }
    }

    /// Of each of these; empty where nothing is known of any.
    pub(super) fn windows_of(&self, runners: &[Runner]) -> Vec<Window> {
        let windows = lock(&self.windows);
        if windows.is_empty() && runners.iter().all(|runner| runner.upstream.context.is_none()) {
            return Vec::new();
        }
        let now = Instant::now();
        runners.iter().map(|runner| windows.of(&runner.name, runner.upstream.context, now)).collect()
    }

    /// An upstream refused a prompt as too long: see [`Windows::refused`].
    pub(super) fn refused_length(&self, upstream: &str, tokens: Option<u64>, bytes: Option<usize>) {
        lock(&self.windows).refused(upstream, tokens, bytes, Instant::now());
    }

    /// An upstream took a prompt; how long it is, is only asked when any was refused.
    pub(super) fn took_length(&self, upstream: &str, length: impl FnOnce() -> Option<Length>) {
        let mut windows = lock(&self.windows);
        if !windows.is_empty()
            && let Some(length) = length()
        {
            windows.took(upstream, length);
        }
    }

    /// Where nobody else is left: the place of a key with which an upstream that refused it may be asked again now; 0 for one
    /// without keys.
    pub(super) fn let_through(&self, runner: &Runner) -> Option<usize> {
        let (mut cooldowns, now) = (lock(&self.cooldowns), Instant::now());
        if runner.keys.is_empty() {
            return cooldowns.let_through(&runner.target(None), now).then_some(0);
        }
        runner.keys.iter().position(|key| cooldowns.let_through(&runner.target(Some(key)), now))
    }

    pub(super) fn takes_stream_options(&self, upstream: &str) -> bool {
        let remembered = lock(&self.without_stream_options);
        remembered.get(upstream).is_none_or(|learnt| learnt.elapsed() >= REMEMBERED_FOR)
    }

    pub(super) fn leave_off_stream_options(&self, upstream: &str) {
        let mut remembered = lock(&self.without_stream_options);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, learnt| learnt.elapsed() < REMEMBERED_FOR);
        }
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(upstream.to_owned(), Instant::now());
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
