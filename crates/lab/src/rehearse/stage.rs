//! What all races of a rehearsal share: the clock, the upstreams, and the queue of what happens next.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::baseline::{Baseline, OpeningView, Shown};
use super::health::SimulatedHealth;
use super::world::{SimulatedRequest, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::{Instant, micros_between};
use photofinish_config::config::RaceSettings;
use photofinish_routing::learning::{Learning, UpstreamStats};
use photofinish_routing::routing::plan::StartRule;
use photofinish_routing::routing::tariff::PromptTokens;

/// Timers fire on whole milliseconds, as tokio's do.
const TICK_US: i64 = 1_000;

/// Shared by the races and attempts of one rehearsal. Never borrowed while an attempt is dropped.
pub(super) type SharedStage<'w, W> = Rc<RefCell<EngineBuffers<'w, W>>>;

pub(super) struct EngineBuffers<'w, W> {
    pub(super) world: &'w mut W,
    pub(super) upstreams: Vec<SimulatedUpstream>,
    /// By upstream.
    pub(super) known: Vec<Arc<UpstreamStats>>,
    pub(super) learning: Arc<Learning>,
    pub(super) health: SimulatedHealth,
    pub(super) baseline: Option<Box<dyn Baseline + 'w>>,
    pub(super) settings: RaceSettings,
    /// A provider goes on writing, and billing, this long after a cut, microseconds.
    pub(super) cut_lag_us: i64,
    pub(super) draws: fastrand::Rng,
    pub(super) wakes: Wakes,
    now_us: i64,
    /// Any moment of the real clock, and the simulated time that stands for it.
    origin: (Instant, i64),
}

/// The queue of what happens next.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    queue: BinaryHeap<Reverse<Wake>>,
    /// Wakes of the same time keep the order in which they were added.
    order: u64,
}

/// The time at which a race or a lost trial must be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wake {
    pub(super) at_us: i64,
    order: u64,
    pub(super) whom: Whom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    /// `request`: the slot may have been reused since.
    Race { slot: usize, request: usize },
    /// A trial that lost its race and runs on to its first token.
    Trial(u64),
}

impl Wakes {
    pub(super) fn add(&mut self, at_us: i64, whom: Whom) {
        self.order += 1;
        self.queue.push(Reverse(Wake { at_us, order: self.order, whom }));
    }

    pub(super) fn next_us(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse(wake)| wake.at_us)
    }

    pub(super) fn pop(&mut self) -> Option<Wake> {
        self.queue.pop().map(|Reverse(wake)| wake)
    }
}

impl<'w, W> EngineBuffers<'w, W> {
    pub(super) fn new(
        world: &'w mut W,
        upstreams: Vec<SimulatedUpstream>,
        learning: Arc<Learning>,
        settings: RaceSettings,
        seed: u64,
    ) -> EngineBuffers<'w, W> {
        EngineBuffers {
            world,
            known: upstreams.iter().map(|upstream| learning.upstream(&upstream.name)).collect(),
            health: SimulatedHealth::new(&upstreams, settings.breaker),
            now_us: learning.now_us(),
            origin: (Instant::now(), learning.now_us()),
            upstreams,
            learning,
            baseline: None,
            settings,
            cut_lag_us: 0,
            draws: fastrand::Rng::with_seed(seed),
            wakes: Wakes::default(),
        }
    }

    pub(super) fn now_us(&self) -> i64 {
        self.now_us
    }

    pub(super) fn set_now_us(&mut self, now_us: i64) {
        self.now_us = now_us;
        self.learning.set_now_us(now_us);
    }

    pub(super) fn now(&self) -> Instant {
        self.instant(self.now_us)
    }

    /// The race counts in instants.
    pub(super) fn instant(&self, us: i64) -> Instant {
        let (instant, origin_us) = self.origin;
        instant + Duration::from_micros(u64::try_from(us - origin_us).unwrap_or(0))
    }

    /// When a timer for this instant fires.
    pub(super) fn tick_us(&self, at: Instant) -> i64 {
        let us = self.origin.1 + micros_between(self.origin.0, at);
        us + (TICK_US - us.rem_euclid(TICK_US)) % TICK_US
    }

    pub(super) fn shows(&mut self, upstream: usize, shown: Shown) {
        if let Some(baseline) = &mut self.baseline {
            baseline.saw(upstream, shown, self.now_us);
        }
    }

    /// The starts of a baseline, if one is played.
    pub(super) fn baseline_plan(
        &mut self,
        request: &SimulatedRequest,
        able: &[usize],
    ) -> Option<Vec<(usize, StartRule)>>
    where
        W: SimulatedWorld,
    {
        let baseline = self.baseline.as_mut()?;
        let in_flight: Vec<u32> = self.known.iter().map(|known| known.in_flight()).collect();
        let prompt = |upstream| self.world.prompt(request, upstream, self.now_us);
        let prompts: Vec<PromptTokens> = (0..in_flight.len()).map(prompt).collect();
        Some(baseline.plan(&OpeningView { request, able, in_flight: &in_flight, prompts: &prompts }))
    }
}
