//! The recorded upstreams as a simulated world: recorded outcomes stay, missing ones are drawn. The seed of a draw is the request
//! and the upstream, so that every policy meets the same draws. Not for fitting the distributions.

use super::past_requests::{KnownOutcome, PastRequests};
use super::upstream_model::UpstreamModel;
use crate::rehearse::{Dispatch, SimulatedFate, SimulatedRequest, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::SECOND_US;
use photofinish_routing::routing::tariff::PromptTokens;

/// Retry-After of a drawn or recorded 429: the recorded rows that are read do not hold the provider's own.
const RETRY_AFTER_US: i64 = 5 * SECOND_US;
/// Times between tokens are drawn from this many recorded ones next in time.
const NEIGHBOURS: usize = 40;
/// Time between two tokens if no recorded answer shows one, microseconds.
const TPOT_US: f64 = 20_000.0;

/// One imputation.
#[derive(Clone, Debug)]
pub(super) struct Imputation<'a> {
    past: &'a PastRequests,
    expected: &'a [UpstreamModel],
    seed: u64,
}

impl<'a> Imputation<'a> {
    pub(super) fn new(past: &'a PastRequests, expected: &'a [UpstreamModel], seed: u64) -> Imputation<'a> {
        Imputation { past, expected, seed }
    }

    /// Whether its time lies beyond what was watched, so that it is a guess.
    pub(super) fn is_assumed(&self, request: &SimulatedRequest, upstream: usize) -> bool {
        let cell = self.past.cell(request.id, upstream);
        let waited_us = match cell.known {
            KnownOutcome::Never => None,
            KnownOutcome::Cut(waited_us) => Some(waited_us),
            KnownOutcome::Seen(_) | KnownOutcome::Failed { .. } => return false,
        };
        let uncached = self.prompt(request, upstream, request.at_us).uncached;
        let [_, left, ..] = self.draws(request.id, upstream, 0);
        self.expected[upstream].is_assumed(request.id, uncached, cell.in_flight, left, waited_us)
    }

    /// Whether it fails, how late it is, how fast it writes, how it fails; each from 0 to 1.
    fn draws(&self, request: usize, upstream: usize, retry: u32) -> [f64; 4] {
        let mut draws = fastrand::Rng::with_seed(
            self.seed ^ ((request as u64) << 8 | upstream as u64).wrapping_mul(MIX) ^ u64::from(retry),
        );
        // Neighbouring seeds begin alike.
        draws.u64(..);
        std::array::from_fn(|_| draws.f64())
    }

    fn tpot_us(&self, request: usize, upstream: usize, draw: f64) -> f64 {
        let own = &self.expected[upstream].tpots;
        let known = if own.is_empty() {
            let longest = self.expected.iter().max_by_key(|expected| expected.tpots.len());
            longest.map_or(&[][..], |longest| &longest.tpots)
        } else {
            own
        };
        let place = known.partition_point(|(at, _)| *at < request);
        let first = place.saturating_sub(NEIGHBOURS / 2).min(known.len().saturating_sub(NEIGHBOURS));
        let near = &known[first..known.len().min(first + NEIGHBOURS)];
        near.get((draw * near.len() as f64) as usize).map_or(TPOT_US, |(_, tpot_us)| f64::from(*tpot_us))
    }

    fn failure(&self, upstream: usize, draw: f64) -> SimulatedFate {
        let known = &self.expected[upstream].failures;
        known
            .get((draw * known.len() as f64) as usize)
            .map_or(SimulatedFate::Hangs, |(after_us, limited)| failed(*after_us, *limited))
    }
}

/// Spreads the numbers of requests over all seeds.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl SimulatedWorld for Imputation<'_> {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        self.past.upstreams()
    }

    fn prompt(&self, request: &SimulatedRequest, upstream: usize, _at_us: i64) -> PromptTokens {
        let input = self.past.requests[request.id].input;
        let said = self.past.cell(request.id, upstream).cached;
        let cached = said.map_or(input * self.expected[upstream].caching, f64::from).clamp(0.0, input);
        PromptTokens { uncached: input - cached, cached }
    }

    fn fate(&mut self, dispatch: &Dispatch) -> SimulatedFate {
        let (request, upstream) = (dispatch.request.id, dispatch.upstream);
        let (cell, expected) = (self.past.cell(request, upstream), &self.expected[upstream]);
        let [fails, left, tpot, how] = self.draws(request, upstream, dispatch.retry);
        let (uncached, in_flight) = (dispatch.prompt.uncached, dispatch.in_flight);
        // The recorded attempt was the first; a retry is drawn.
        let known = if dispatch.retry == 0 { cell.known } else { KnownOutcome::Never };
        let ttft_us = match known {
            KnownOutcome::Failed { after_us, limited } => return failed(after_us, limited),
            KnownOutcome::Never if fails < expected.failing(request) => return self.failure(upstream, how),
            KnownOutcome::Never => expected.drawn_us(request, uncached, in_flight, left),
            KnownOutcome::Seen(ttft_us) => ttft_us as f64 * expected.under_load(cell.in_flight, in_flight),
            KnownOutcome::Cut(waited_us) => {
                let beyond_us = expected.drawn_beyond_us(request, uncached, cell.in_flight, left, waited_us);
                beyond_us * expected.under_load(cell.in_flight, in_flight)
            }
        };
        let tpot_us = cell.tpot_us.map_or_else(|| self.tpot_us(request, upstream, tpot), f64::from);
        SimulatedFate::Answers { ttft_us: (ttft_us as i64).max(1), tpot_us }
    }
}

fn failed(after_us: i64, limited: bool) -> SimulatedFate {
    match limited {
        true => SimulatedFate::Limited { after_us, retry_after_us: Some(RETRY_AFTER_US) },
        false => SimulatedFate::Fails { after_us },
    }
}
