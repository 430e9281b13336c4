//! Which simulated upstreams may be started: the gateway's own breakers and cool-downs. Not for choosing among them.

use std::time::Duration;

use super::world::SimulatedUpstream;
use photofinish_base::clock::Instant;
use photofinish_config::config::BreakerSettings;
use photofinish_routing::routing::breaker::{BreakerScope, BreakerStatus, Breakers, ProbeScope};
use photofinish_routing::routing::cooldown::{CooldownReason, CooldownTarget, Cooldowns};
use photofinish_wire::protocol::Surface;

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
pub(super) struct LinedUp {
    pub(super) upstream: usize,
    /// It runs in addition to the others, to test the upstream.
    pub(super) trial: bool,
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

    /// The candidates of a race that begins now, trials last. `beside`: a trial may run in addition to the first attempt.
    pub(super) fn line_up(&mut self, beside: bool, now: Instant) -> Vec<LinedUp> {
        let trying = if beside { ProbeScope::Beside } else { ProbeScope::InPlace };
        let (mut lineup, mut suspects) = (Vec::new(), Vec::new());
        for upstream in 0..self.names.len() {
            if self.is_cooling(upstream, now) {
                continue;
            }
            let standing = self.breakers.standing(asked(&self.names[upstream]), &self.settings, None, trying, now);
            let in_place = standing == BreakerStatus::Due && !beside;
            let begun = if in_place { self.begin_trial(upstream, now) } else { None };
            if standing == BreakerStatus::Closed || begun.is_some() {
                lineup.push(LinedUp { upstream, trial: false, begun });
            } else {
                suspects.push((upstream, standing));
            }
        }
        let alone = lineup.is_empty();
        for (upstream, standing) in suspects {
            let due = alone || standing == BreakerStatus::Due && beside;
            let begun = if due { self.begin_trial(upstream, now) } else { None };
            if alone || begun.is_some() {
                lineup.push(LinedUp { upstream, trial: !alone, begun });
            }
        }
        lineup
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
        self.breakers.first_token(asked(&self.names[upstream]), sent);
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
