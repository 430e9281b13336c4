//! What every request shares: the live configuration, the connections, the recorder, and what was learnt since the start.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::attempt::{InFlight, Slot};
use crate::clock::Instant;
use crate::config::{Config, Provider};
use crate::recorder::Recorder;
use crate::routing::cooldown::{Aside, Cooldowns, Target};
use crate::shutdown::Shutdown;
use crate::upstream::{Client, Endpoint, InvalidUrl};

/// Audited losers that run at once.
const AUDITS_MAX: i64 = 64;
/// Upstreams that are remembered as rejecting `stream_options`.
const REMEMBERED_MAX: usize = 10_000;

/// One gateway. Held in an `Arc` by every request.
pub struct Gateway {
    live: ArcSwap<Live>,
    client: Client,
    recorder: Recorder,
    shutdown: Shutdown,
    cooldowns: Mutex<Cooldowns>,
    without_stream_options: Mutex<HashSet<String>>,
    in_flight: InFlight,
    races: Arc<AtomicI64>,
    audits: Arc<AtomicI64>,
    turn: AtomicUsize,
    totals: Totals,
}

/// One configuration in force. A reload makes another; what runs goes on with the one it began with.
pub struct Live {
    pub config: Config,
    endpoints: HashMap<String, Endpoint>,
}

/// Counts since the start that no row tells.
#[derive(Debug, Default)]
pub struct Totals {
    unauthorized: AtomicU64,
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
        let mut endpoints = HashMap::new();
        for provider in config.providers.values() {
            let url = simulated.get(&provider.name).unwrap_or(&provider.base_url);
            endpoints.insert(provider.name.clone(), Endpoint::parse(url)?);
        }
        Ok(Live { config, endpoints })
    }

    pub(super) fn endpoint(&self, provider: &Provider) -> Option<&Endpoint> {
        self.endpoints.get(&provider.name)
    }
}

impl Gateway {
    pub fn new(live: Live, client: Client, recorder: Recorder, shutdown: Shutdown) -> Gateway {
        Gateway {
            live: ArcSwap::from_pointee(live),
            client,
            recorder,
            shutdown,
            cooldowns: Mutex::default(),
            without_stream_options: Mutex::default(),
            in_flight: InFlight::default(),
            races: Arc::default(),
            audits: Arc::default(),
            turn: AtomicUsize::new(0),
            totals: Totals::default(),
        }
    }

    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Puts a new configuration in force. What was set aside is tried again: a key may have been mended.
    pub fn reload(&self, live: Live) {
        self.live.store(Arc::new(live));
        *lock(&self.cooldowns) = Cooldowns::default();
        lock(&self.without_stream_options).clear();
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
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

    pub(super) fn enter_attempt(&self, upstream: &str) -> Slot {
        self.in_flight.enter(upstream)
    }

    /// A place among the audited losers, while there is one.
    pub(super) fn enter_audit(&self) -> Option<Slot> {
        let slot = Slot::enter(self.audits.clone());
        (slot.before < AUDITS_MAX).then_some(slot)
    }

    /// Rotates the shared keys of a provider.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn set_aside(&self, aside: Aside, target: &Target, retry_after: Option<Duration>) -> Duration {
        lock(&self.cooldowns).set_aside(aside, target, retry_after, Instant::now(), fastrand::f64())
    }

    /// An upstream answered.
    pub(super) fn forgive(&self, target: &Target) {
        lock(&self.cooldowns).clear(target);
    }

    pub(super) fn cooling(&self, target: &Target) -> Option<Duration> {
        lock(&self.cooldowns).wait(target, Instant::now())
    }

    pub(super) fn takes_stream_options(&self, upstream: &str) -> bool {
        !lock(&self.without_stream_options).contains(upstream)
    }

    pub(super) fn leave_off_stream_options(&self, upstream: &str) {
        let mut remembered = lock(&self.without_stream_options);
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(upstream.to_owned());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
