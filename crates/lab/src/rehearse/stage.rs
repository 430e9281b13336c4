//! What all races of a rehearsal share: the clock, the upstreams with the gateway's own breakers and cool-downs, and the queue of
//! what happens next.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::world::{Baseline, OpeningView, Shown, SimulatedRequest, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::{Instant, micros_between};
use photofinish_config::{BreakerSettings, RaceSettings};
use photofinish_routing::health::breaker::{BreakerScope, BreakerStatus, Breakers, TrialScope};
use photofinish_routing::health::cooldown::{CooldownTarget, Cooldowns};
use photofinish_routing::learning::{Learning, UpstreamStats};
use photofinish_routing::money::tariff::PromptTokens;
use photofinish_routing::policy::CandidateTurn;
use photofinish_routing::policy::plan::StartRule;
use photofinish_routing::verdict::CooldownReason;
use photofinish_wire::Surface;

/// The name of the simulated model.
pub(super) const MODEL: &str = "";

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
    /// Any moment of the real clock, and the simulated time that it represents.
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
    pub(super) target: WakeTarget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WakeTarget {
    /// `request`: the slot may have been reused since.
    Race { slot: usize, request: usize },
    /// A trial that lost its race and runs on to its first token.
    Trial(u64),
}

impl Wakes {
    pub(super) fn add(&mut self, at_us: i64, target: WakeTarget) {
        self.order += 1;
        self.queue.push(Reverse(Wake { at_us, order: self.order, target }));
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

/// All upstreams of a rehearsal, by index.
pub(super) struct SimulatedHealth {
    names: Vec<String>,
    settings: BreakerSettings,
    breakers: Breakers,
    cooldowns: Cooldowns,
    /// By upstream, after a 429: when it came, and until when the upstream gets no new attempt.
    cooling: Vec<Option<(Instant, Instant)>>,
}

/// A candidate of one race.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedCandidate {
    pub(super) upstream: usize,
    pub(super) turn: CandidateTurn,
    /// How many attempts may run there at once before others go first, after its breaker closed.
    pub(super) room: Option<u32>,
    /// When its trial began; the race ends it.
    pub(super) begun: Option<Instant>,
}

impl SimulatedHealth {
    pub(super) fn new(upstreams: &[SimulatedUpstream], settings: BreakerSettings) -> SimulatedHealth {
        SimulatedHealth {
            names: upstreams.iter().map(|upstream| upstream.name.clone()).collect(),
            settings,
            breakers: Breakers::default(),
            cooldowns: Cooldowns::default(),
            cooling: vec![None; upstreams.len()],
        }
    }

    /// The candidates of a race that begins now, then trials, and last those with open breakers. `with_trials`: a trial may run in addition to the first attempt.
    pub(super) fn candidates(&mut self, with_trials: bool, now: Instant) -> Vec<SimulatedCandidate> {
        let trying = if with_trials { TrialScope::InAddition } else { TrialScope::InPlace };
        let (mut candidates, mut suspects) = (Vec::new(), Vec::new());
        for upstream in 0..self.names.len() {
            if self.is_cooling(upstream, now) {
                continue;
            }
            let scope = asked(&self.names[upstream]);
            let status = self.breakers.status(scope, &self.settings, None, trying, now);
            let room = self.breakers.room(scope, now);
            let in_place = status == BreakerStatus::HalfOpen && !with_trials;
            let begun = if in_place { self.begin_trial(upstream, now) } else { None };
            if status == BreakerStatus::Closed || begun.is_some() {
                candidates.push(SimulatedCandidate { upstream, turn: CandidateTurn::Usual, room, begun });
            } else {
                suspects.push((upstream, status));
            }
        }
        let (alone, mut held) = (candidates.is_empty(), Vec::new());
        for (upstream, status) in suspects {
            let due = alone || status == BreakerStatus::HalfOpen && with_trials;
            let begun = if due { self.begin_trial(upstream, now) } else { None };
            let (list, turn) = match begun {
                _ if alone => (&mut candidates, CandidateTurn::Usual),
                Some(_) => (&mut candidates, CandidateTurn::Trial),
                None => (&mut held, CandidateTurn::Last),
            };
            list.push(SimulatedCandidate { upstream, turn, room: None, begun });
        }
        candidates.extend(held);
        candidates
    }

    pub(super) fn is_cooling(&self, upstream: usize, now: Instant) -> bool {
        self.cooling[upstream].is_some_and(|(_, until)| now < until)
    }

    /// The rest of a cool-down.
    pub(super) fn wait(&self, upstream: usize, now: Instant) -> Option<Duration> {
        self.cooling[upstream]?.1.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// A 429. `jitter`, in 0..1, spreads a back-off.
    pub(super) fn limited(&mut self, upstream: usize, retry_after: Option<Duration>, now: Instant, jitter: f64) {
        let target = self.target(upstream);
        let wait = self.cooldowns.cool_down(CooldownReason::RateLimited, &target, retry_after, now, jitter);
        self.cooling[upstream] = Some((now, now + wait));
    }

    /// A failure that a breaker counts, of an attempt sent at `sent`.
    pub(super) fn failed(&mut self, upstream: usize, sent: Instant, now: Instant) {
        self.breakers.failed(asked(&self.names[upstream]), &self.settings, false, None, sent, now);
    }

    /// A first token of an attempt sent at `sent`.
    pub(super) fn first_token(&mut self, upstream: usize, sent: Instant, now: Instant) {
        self.breakers.first_token(asked(&self.names[upstream]), sent, now);
        if self.cooling[upstream].is_some_and(|(set, until)| until <= now || set < sent) {
            self.cooling[upstream] = None;
            let target = self.target(upstream);
            self.cooldowns.clear(&target, sent, now);
        }
    }

    pub(super) fn ended_well(&mut self, upstream: usize) {
        self.breakers.ended_well(asked(&self.names[upstream]));
    }

    pub(super) fn end_trial(&mut self, upstream: usize, begun: Instant) {
        self.breakers.end_trial(asked(&self.names[upstream]), begun);
    }

    fn begin_trial(&mut self, upstream: usize, now: Instant) -> Option<Instant> {
        self.breakers.begin_trial(asked(&self.names[upstream]), &self.settings, now)
    }

    fn target(&self, upstream: usize) -> CooldownTarget {
        let (provider, model) = self.names[upstream].split_once('/').unwrap_or((&self.names[upstream], ""));
        CooldownTarget {
            provider: provider.to_owned(),
            model: model.to_owned(),
            surface: Surface::Chat,
            key_id: None,
            own_key: false,
            named: false,
        }
    }
}

fn asked(name: &str) -> BreakerScope<'_> {
    BreakerScope { upstream: name, surface: Surface::Chat, named: false }
}
