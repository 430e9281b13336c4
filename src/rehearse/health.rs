//! Which upstreams are set aside, and what each of them serves: the same bookkeeping for every policy.

use super::policy::WaitingAttempt;
use super::upstreams::RaceRules;

/// All upstreams.
#[derive(Debug)]
pub(super) struct Health {
    upstreams: Vec<SimulatedHealth>,
    waiting: Vec<Vec<WaitingAttempt>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SimulatedHealth {
    /// Failures since the last first token.
    failures: u32,
    /// Breaker or cool-down.
    aside_until_us: i64,
    /// It is left out until it answers a trial, and then the next one is due.
    trial_at_us: Option<i64>,
    in_flight: u32,
}

impl Health {
    pub(super) fn new(upstreams: usize) -> Health {
        Health { upstreams: vec![SimulatedHealth::default(); upstreams], waiting: vec![Vec::new(); upstreams] }
    }

    pub(super) fn in_flight(&self, upstream: usize) -> u32 {
        self.upstreams[upstream].in_flight
    }

    pub(super) fn waiting(&self) -> &[Vec<WaitingAttempt>] {
        &self.waiting
    }

    pub(super) fn is_aside(&self, upstream: usize, now_us: i64) -> bool {
        let upstream = &self.upstreams[upstream];
        upstream.trial_at_us.is_some() || now_us < upstream.aside_until_us
    }

    pub(super) fn sent(&mut self, upstream: usize, waiting: WaitingAttempt) {
        self.upstreams[upstream].in_flight += 1;
        self.waiting[upstream].push(waiting);
    }

    /// It waits no longer: a first token, a failure or a cut.
    pub(super) fn waited(&mut self, upstream: usize, request: usize) {
        let waiting = &mut self.waiting[upstream];
        if let Some(place) = waiting.iter().position(|waiting| waiting.request == request) {
            waiting.remove(place);
        }
    }

    /// The upstream serves it no longer.
    pub(super) fn left(&mut self, upstream: usize) {
        let in_flight = &mut self.upstreams[upstream].in_flight;
        *in_flight = in_flight.saturating_sub(1);
    }

    pub(super) fn answered(&mut self, upstream: usize) {
        let upstream = &mut self.upstreams[upstream];
        (upstream.failures, upstream.trial_at_us) = (0, None);
    }

    /// One that is to be tried again now; the next trial of it is due in another `breaker_open_us`.
    pub(super) fn begin_trial(&mut self, rules: &RaceRules, now_us: i64) -> Option<usize> {
        let is_due = |upstream: &SimulatedHealth| upstream.trial_at_us.is_some_and(|at_us| at_us <= now_us);
        let due = self.upstreams.iter().position(|upstream| is_due(upstream) && upstream.aside_until_us <= now_us)?;
        self.upstreams[due].trial_at_us = Some(now_us + rules.breaker_open_us.max(1));
        Some(due)
    }

    pub(super) fn failed(&mut self, upstream: usize, rules: &RaceRules, now_us: i64) {
        let upstream = &mut self.upstreams[upstream];
        upstream.failures += 1;
        if upstream.trial_at_us.is_none() && upstream.failures >= rules.breaker_failures {
            upstream.failures = 0;
            if rules.trials {
                upstream.trial_at_us = Some(now_us + rules.breaker_open_us);
                return;
            }
            upstream.aside_until_us = upstream.aside_until_us.max(now_us + rules.breaker_open_us);
        }
    }

    pub(super) fn limited(&mut self, upstream: usize, until_us: i64) {
        let aside = &mut self.upstreams[upstream].aside_until_us;
        *aside = (*aside).max(until_us);
    }
}
