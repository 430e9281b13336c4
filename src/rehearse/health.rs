//! Which upstreams are set aside, and what each of them serves: the same bookkeeping for every policy.

use super::field::Rules;
use super::steering::Waiting;

/// All upstreams.
#[derive(Debug)]
pub(super) struct Health {
    upstreams: Vec<Upstream>,
    waiting: Vec<Vec<Waiting>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Upstream {
    /// Failures since the last first token.
    failures: u32,
    /// Breaker or cool-down.
    aside_until_us: i64,
    in_flight: u32,
}

impl Health {
    pub(super) fn new(upstreams: usize) -> Health {
        Health { upstreams: vec![Upstream::default(); upstreams], waiting: vec![Vec::new(); upstreams] }
    }

    pub(super) fn in_flight(&self, upstream: usize) -> u32 {
        self.upstreams[upstream].in_flight
    }

    pub(super) fn waiting(&self) -> &[Vec<Waiting>] {
        &self.waiting
    }

    pub(super) fn is_aside(&self, upstream: usize, now_us: i64) -> bool {
        now_us < self.upstreams[upstream].aside_until_us
    }

    pub(super) fn sent(&mut self, upstream: usize, waiting: Waiting) {
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
        self.upstreams[upstream].failures = 0;
    }

    pub(super) fn failed(&mut self, upstream: usize, rules: &Rules, now_us: i64) {
        let upstream = &mut self.upstreams[upstream];
        upstream.failures += 1;
        if upstream.failures >= rules.breaker_failures {
            upstream.failures = 0;
            upstream.aside_until_us = upstream.aside_until_us.max(now_us + rules.breaker_open_us);
        }
    }

    pub(super) fn limited(&mut self, upstream: usize, until_us: i64) {
        let aside = &mut self.upstreams[upstream].aside_until_us;
        *aside = (*aside).max(until_us);
    }
}
