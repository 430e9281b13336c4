//! The shared statistics of one upstream: its learner, its published forecast, and what runs there. Not for decisions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::prompts::Prompts;
use super::waiting_attempts::{LongestWaiting, WaitingPlaces};
use crate::routing::adaptive::{LatencyForecast, Learner, SendConditions};

/// Weight of one report on caching against the earlier reports.
const CACHING_STEP: f64 = 0.1;

/// What a latency is the time to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyClock {
    FirstToken,
    /// The whole answer: a plain one has no first token.
    WholeAnswer,
}

/// Shared by all requests. Decisions read the published forecast; only an observation takes the lock.
pub struct UpstreamStats {
    name: String,
    /// How often it fails is counted here, whatever its attempts are waited for.
    first_token: ClockStats,
    /// None before the first attempt that was waited for by this clock: most upstreams have none.
    whole_answer: OnceLock<Box<ClockStats>>,
    /// Attempts that run there.
    running: Arc<AtomicI64>,
    /// Share of a recently read prefix that the upstream reported as cached; 0 before its first report.
    /// Stored as the bits of an `f64`.
    caching: AtomicU64,
    /// How long prompts are that it has counted.
    pub(super) prompts: Prompts,
}

/// Read where nothing was learnt of whole answers.
static NO_WHOLE_ANSWER: LazyLock<ClockStats> = LazyLock::new(|| ClockStats::new(Learner::of_whole_answers()));

/// What is known by one clock.
struct ClockStats {
    learner: Mutex<Learner>,
    forecast: ArcSwap<LatencyForecast>,
    /// Attempts that wait.
    waits: WaitingPlaces,
}

impl ClockStats {
    fn new(learner: Learner) -> ClockStats {
        ClockStats {
            forecast: ArcSwap::from_pointee(learner.forecast()),
            learner: Mutex::new(learner),
            waits: WaitingPlaces::default(),
        }
    }

    fn learn(&self, publish: bool, change: impl FnOnce(&mut Learner)) {
        let mut learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut learner);
        if publish {
            // Under the lock: an older state must not go over a newer one.
            self.forecast.store(Arc::new(learner.forecast()));
        }
    }
}

impl UpstreamStats {
    pub(super) fn new(name: &str) -> UpstreamStats {
        UpstreamStats {
            name: name.to_owned(),
            first_token: ClockStats::new(Learner::new()),
            whole_answer: OnceLock::new(),
            running: Arc::default(),
            caching: AtomicU64::default(),
            prompts: Prompts::default(),
        }
    }

    /// `provider/model`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// To read.
    fn by(&self, clock: LatencyClock) -> &ClockStats {
        match clock {
            LatencyClock::FirstToken => &self.first_token,
            LatencyClock::WholeAnswer => self.whole_answer.get().map_or(&*NO_WHOLE_ANSWER, |known| known),
        }
    }

    /// To change.
    fn made_by(&self, clock: LatencyClock) -> &ClockStats {
        match clock {
            LatencyClock::FirstToken => &self.first_token,
            LatencyClock::WholeAnswer => {
                self.whole_answer.get_or_init(|| Box::new(ClockStats::new(Learner::of_whole_answers())))
            }
        }
    }

    /// The latest forecast of first tokens. Takes no lock; the guard keeps the version it read.
    pub fn forecast(&self) -> Guard<Arc<LatencyForecast>> {
        self.forecast_by(LatencyClock::FirstToken)
    }

    /// The same by either clock.
    pub fn forecast_by(&self, clock: LatencyClock) -> Guard<Arc<LatencyForecast>> {
        self.by(clock).forecast.load()
    }

    /// The clock by which more was seen of it.
    pub fn usual_clock(&self) -> LatencyClock {
        let seen = |clock| self.forecast_by(clock).seen();
        if seen(LatencyClock::WholeAnswer) > seen(LatencyClock::FirstToken) {
            LatencyClock::WholeAnswer
        } else {
            LatencyClock::FirstToken
        }
    }

    /// It fails so often that no hedge goes to it.
    pub fn throttled(&self, now_us: i64) -> bool {
        self.forecast().throttled(now_us)
    }

    /// Attempts that run there now.
    pub fn in_flight(&self) -> u32 {
        u32::try_from(self.running.load(Relaxed)).unwrap_or(0)
    }

    /// The counter of what runs there.
    pub fn running(&self) -> Arc<AtomicI64> {
        self.running.clone()
    }

    /// Attempts sent before `before_us` that still wait.
    pub fn longest_waits(&self, clock: LatencyClock, before_us: i64, now_us: i64) -> LongestWaiting {
        self.by(clock).waits.longest(before_us, now_us)
    }

    /// The share of what it has read before that it is known to have cached, 0 to 1.
    pub fn caching(&self) -> f64 {
        f64::from_bits(self.caching.load(Relaxed))
    }

    /// It reported `cached` of `known` tokens that it had read before.
    pub(super) fn reported_cached(&self, cached: i64, known: f64) {
        let share = (cached as f64 / known).clamp(0.0, 1.0);
        let before = self.caching();
        // Concurrent reports may overwrite each other; the share is an estimate anyway.
        self.caching.store((before + (share - before) * CACHING_STEP).to_bits(), Relaxed);
    }

    pub(super) fn wait(&self, clock: LatencyClock, sent: SendConditions, now_us: i64) -> Option<usize> {
        self.made_by(clock).waits.enter(sent, now_us)
    }

    pub(super) fn leave(&self, clock: LatencyClock, place: usize) {
        self.by(clock).waits.leave(place);
    }

    /// Changes what is known, and publishes what follows from it.
    pub(super) fn learn(&self, clock: LatencyClock, change: impl FnOnce(&mut Learner)) {
        self.made_by(clock).learn(true, change);
    }

    /// Like [`UpstreamStats::learn`] for many changes in a row; call [`UpstreamStats::publish`] after the last.
    pub(super) fn learn_quietly(&self, clock: LatencyClock, change: impl FnOnce(&mut Learner)) {
        self.made_by(clock).learn(false, change);
    }

    pub(super) fn publish(&self) {
        self.first_token.learn(true, |_| {});
        self.whole_answer.get().into_iter().for_each(|known| known.learn(true, |_| {}));
    }
}
