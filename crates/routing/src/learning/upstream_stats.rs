//! The shared statistics of one upstream: its learner, its published forecast, and what runs there. Not for decisions.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};

use crate::forecast::{LatencyForecast, Learner, OtherWaiting, SendConditions, WAITING_MAX};
use photofinish_facts::bill::PerByte;

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
    /// Attempts of other gateways on the same database, by their last reports.
    elsewhere: AtomicU32,
    /// Share of a recently read prefix that the upstream reported as cached; 0 before its first report.
    /// Stored as the bits of an `f64`.
    caching: AtomicU64,
    /// When it answered 429 last, µs.
    limited_us: AtomicI64,
    /// When it answered this gateway last, µs.
    answered_us: AtomicI64,
    /// How long prompts are that it has counted.
    pub(super) prompts: Prompts,
}

/// How long a 429 is held against an upstream where another one is usable, µs. The cool-down of its key may be shorter.
const LIMITED_FOR_US: i64 = 10_000_000;

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
            elsewhere: AtomicU32::default(),
            caching: AtomicU64::default(),
            limited_us: AtomicI64::new(i64::MIN / 2),
            answered_us: AtomicI64::default(),
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

    /// It answered 429 a moment ago.
    pub fn was_limited(&self, now_us: i64) -> bool {
        now_us - self.limited_us.load(Relaxed) < LIMITED_FOR_US
    }

    /// It answered 429, here or to another gateway.
    pub fn limited(&self, now_us: i64) {
        self.limited_us.fetch_max(now_us, Relaxed);
    }

    /// It answered this gateway: with a first token, or wholly.
    pub fn answered(&self, now_us: i64) {
        self.answered_us.store(now_us, Relaxed);
    }

    /// When it did so last, µs.
    pub fn answered_us(&self) -> Option<i64> {
        Some(self.answered_us.load(Relaxed)).filter(|answered_us| *answered_us > 0)
    }

    /// Attempts that run there now, with those of other gateways.
    pub fn in_flight(&self) -> u32 {
        self.in_flight_here().saturating_add(self.elsewhere.load(Relaxed))
    }

    /// Those of this gateway.
    pub fn in_flight_here(&self) -> u32 {
        u32::try_from(self.running.load(Relaxed)).unwrap_or(0)
    }

    /// See `elsewhere`.
    pub fn set_elsewhere(&self, attempts: u32) {
        self.elsewhere.store(attempts, Relaxed);
    }

    /// The counter of what runs there.
    pub fn running(&self) -> Arc<AtomicI64> {
        self.running.clone()
    }

    /// Attempts that still wait.
    pub fn longest_waits(&self, clock: LatencyClock, now_us: i64) -> LongestWaiting {
        self.by(clock).waits.longest(now_us)
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

/// Waiting attempts that are seen at one upstream.
const PLACES: usize = 16;

/// The places of one upstream.
#[derive(Debug, Default)]
pub struct WaitingPlaces {
    places: [WaitingPlace; PLACES],
}

/// Read in two halves, so for a moment a place may show the time of one attempt with the size of another. For an estimate that makes no
/// difference.
#[derive(Debug, Default)]
struct WaitingPlace {
    /// When it was sent, microseconds of the routing clock; 0: free.
    sent_us: AtomicI64,
    /// The uncached tokens as the bits of an `f32`, and what was in flight.
    sent: AtomicU64,
}

/// The longest waits, longest first.
#[derive(Clone, Copy, Debug)]
pub struct LongestWaiting {
    list: [OtherWaiting; WAITING_MAX],
    len: usize,
}

impl WaitingPlaces {
    /// An attempt was sent at `now_us`, which is above 0. Returns its place. None if all are taken.
    pub fn enter(&self, sent: SendConditions, now_us: i64) -> Option<usize> {
        let take = |place: &WaitingPlace| place.sent_us.compare_exchange(0, now_us, Relaxed, Relaxed).is_ok();
        let taken = self.places.iter().position(take)?;
        let tokens = u64::from((sent.uncached_tokens as f32).to_bits());
        self.places[taken].sent.store(tokens << 32 | u64::from(sent.in_flight), Relaxed);
        Some(taken)
    }

    pub fn leave(&self, place: usize) {
        if let Some(place) = self.places.get(place) {
            place.sent_us.store(0, Relaxed);
        }
    }

    /// Only attempts sent before `now_us`.
    pub fn longest(&self, now_us: i64) -> LongestWaiting {
        let nothing = OtherWaiting { sent: SendConditions::default(), waited_us: 0 };
        let mut longest = LongestWaiting { list: [nothing; WAITING_MAX], len: 0 };
        for place in &self.places {
            let sent_us = place.sent_us.load(Relaxed);
            if sent_us == 0 || sent_us >= now_us {
                continue;
            }
            let sent = place.sent.load(Relaxed);
            let uncached_tokens = f64::from(f32::from_bits((sent >> 32) as u32));
            let sent = SendConditions { uncached_tokens, in_flight: sent as u32 };
            longest.insert(OtherWaiting { sent, waited_us: now_us - sent_us });
        }
        longest
    }
}

impl LongestWaiting {
    pub fn as_slice(&self) -> &[OtherWaiting] {
        &self.list[..self.len]
    }

    fn insert(&mut self, mut waiting: OtherWaiting) {
        for place in &mut self.list[..self.len] {
            if waiting.waited_us > place.waited_us {
                std::mem::swap(place, &mut waiting);
            }
        }
        if let Some(place) = self.list.get_mut(self.len) {
            *place = waiting;
            self.len += 1;
        }
    }
}

/// Fewer counted prompts than this predict little of the next one.
const FEW: u32 = 20;
/// What nearly every prompt has: a short one is mostly JSON around it, and some languages have a token for every two bytes.
const USUAL_PROMPT: PerByte = PerByte { least: 0.05, most: 0.5 };
/// Counted prompts after which the older half is forgotten.
const GENERATION: u32 = 1_000;

/// For one upstream, or for all.
#[derive(Debug, Default)]
pub struct Prompts {
    seen: Mutex<RatioGenerations>,
}

/// The older one is dropped whole when the newer is full.
#[derive(Debug, Default)]
struct RatioGenerations {
    newer: Option<PerByte>,
    older: Option<PerByte>,
    /// Prompts in the newer one.
    count: u32,
}

impl Prompts {
    /// Records one prompt: its tokens, and the bytes of its request.
    pub fn counted(&self, tokens: i64, bytes: i64) {
        let Some(ratio) = PerByte::of(tokens, bytes) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.count >= GENERATION {
            seen.older = seen.newer.take();
            seen.count = 0;
        }
        seen.newer = Some(seen.newer.map_or(ratio, |newer| newer.union(ratio)));
        seen.count += 1;
    }

    /// Between which bounds the next one lies; none if nothing was counted.
    pub fn per_byte(&self) -> Option<PerByte> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let both = [seen.newer, seen.older].into_iter().flatten().reduce(PerByte::union)?;
        let few = seen.older.is_none() && seen.count < FEW;
        Some(if few { both.widened().union(USUAL_PROMPT) } else { both })
    }
}

#[cfg(test)]
mod waiting_attempts_tests {
    use super::*;

    fn sent(tokens: f64) -> SendConditions {
        SendConditions { uncached_tokens: tokens, in_flight: tokens as u32 }
    }

    #[test]
    fn the_longest_waits_come_first() {
        let waits = WaitingPlaces::default();
        for (at_us, tokens) in [(30, 3.0), (10, 1.0), (50, 5.0), (40, 4.0), (20, 2.0), (60, 6.0)] {
            waits.enter(sent(tokens), at_us);
        }
        let listed: Vec<(f64, u32, i64)> = waits
            .longest(100)
            .as_slice()
            .iter()
            .map(|waiting| (waiting.sent.uncached_tokens, waiting.sent.in_flight, waiting.waited_us))
            .collect();
        assert_eq!(listed, [(1.0, 1, 90), (2.0, 2, 80), (3.0, 3, 70), (4.0, 4, 60)]);
        waits.leave(1);
        assert_eq!(waits.longest(25).as_slice(), [OtherWaiting { sent: sent(2.0), waited_us: 5 }]);
        assert!(waits.longest(20).as_slice().is_empty());
    }

    #[test]
    fn an_attempt_without_a_place_is_not_seen() {
        let waits = WaitingPlaces::default();
        let places: Vec<Option<usize>> = (0..PLACES as i64 + 2).map(|at| waits.enter(sent(1.0), 1 + at)).collect();
        assert_eq!(places[PLACES..], [None, None]);
        waits.leave(3);
        waits.leave(PLACES);
        assert_eq!(waits.enter(sent(1.0), 150), Some(3));
    }
}

#[cfg(test)]
mod prompts_tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_prompts_that_were_counted_lately() {
        let prompts = Prompts::default();
        assert_eq!(prompts.per_byte(), None);
        prompts.counted(0, 100);
        prompts.counted(7, 0);
        assert_eq!(prompts.per_byte(), None, "nothing to divide");
        prompts.counted(50, 100);
        assert_eq!(
            prompts.per_byte(),
            Some(PerByte { least: 0.05, most: 1.0 }),
            "few: twice as wide, and any usual one"
        );
        (1..FEW).for_each(|_| prompts.counted(25, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.25, most: 0.5 }));
        (0..GENERATION).for_each(|_| prompts.counted(30, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.25, most: 0.5 }));
        (0..GENERATION).for_each(|_| prompts.counted(30, 100));
        assert_eq!(prompts.per_byte(), Some(PerByte { least: 0.3, most: 0.3 }), "the rest is long ago");
    }
}
