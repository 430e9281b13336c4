//! Predicts what an upstream would have done with a request that it did not get or did not finish: its times by size and load, its
//! level at that time, its scatter, its share of failures. Fitted to the whole window, before and after each request. Not for
//! decisions: the routing code must not see the future and learns for itself.
//!
//! Times beyond the longest observation cannot be identified: [`UpstreamModel::unknown`] gives their share. An [`Imputation`] draws
//! what no row knows, once for each request and upstream.

use std::sync::LazyLock;

use super::past_requests::{KnownOutcome, PastRequests};
use crate::rehearse::{Dispatch, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld};
use photofinish_base::clock::SECOND_US;
use photofinish_routing::money::tariff::PromptTokens;

/// Rounds of the fit, and of these the first, in which the level is fixed, so that it does not absorb the slope.
const ROUNDS: usize = 16;
const STEADY_ROUNDS: usize = 4;
/// The level of an upstream fades within such times, and has such a variance: as routing has it.
const FADES_US: f64 = 120.0 * SECOND_US as f64;
const STATIONARY: f64 = 0.07;
/// Tokens that double the size's part.
const TOKENS: f64 = 2_000.0;
const SLOPE_MOST: f64 = 1.3;
const LOAD_MOST: f64 = 1.5;
/// Bounds of the scatter's variance, stragglers counted as this many deviations.
const VARIANCE: (f64, f64) = (0.01, 0.36);
const CLAMP: f64 = 2.5;
/// Attempts that the overall share of failures counts for, in addition to those of the same minutes.
const FAILURE_PRIOR: f64 = 10.0;

/// One upstream.
#[derive(Clone, Debug)]
pub struct UpstreamModel {
    intercept: f64,
    slope: f64,
    load: f64,
    scatter: ResidualScatter,
    /// By request: how much slower than usual, as a logarithm, by what others of the time showed.
    levels: Vec<f32>,
    /// By request: the share that failed around that time.
    failing: Vec<f32>,
    /// Share of a prompt that it has cached, by what it reported.
    pub(super) caching: f64,
    /// Known times between tokens, by request; microseconds.
    pub(super) tpots: Vec<(usize, f32)>,
    /// How it failed: after how many microseconds, and whether by a 429.
    pub(super) failures: Vec<(i64, bool)>,
}

/// One attempt that was watched.
#[derive(Clone, Copy)]
struct WatchedAttempt {
    request: usize,
    at_us: i64,
    size: f64,
    load: f64,
    ln_us: f64,
    event: bool,
}

impl UpstreamModel {
    /// Of one upstream of a settled history.
    pub fn new(past: &PastRequests, upstream: usize) -> UpstreamModel {
        let cells = || (0..past.requests.len()).map(|request| (request, past.cell(request, upstream)));
        let (mut reported, mut of) = (0.0, 0.0);
        let (mut tpots, mut failures) = (Vec::new(), Vec::new());
        for (request, cell) in cells() {
            if let Some(cached) = cell.cached {
                (reported, of) = (reported + f64::from(cached), of + past.requests[request].input);
            }
            tpots.extend(cell.tpot_us.map(|tpot_us| (request, tpot_us)));
            if let KnownOutcome::Failed { after_us, limited } = cell.known {
                failures.push((after_us, limited));
            }
        }
        let caching = if of > 0.0 { (reported / of).clamp(0.0, 1.0) } else { 0.0 };
        let observed: Vec<WatchedAttempt> = cells()
            .filter_map(|(request, cell)| {
                let (us, event) = match cell.known {
                    KnownOutcome::Seen(us) => (us, true),
                    KnownOutcome::Cut(us) => (us, false),
                    _ => return None,
                };
                let asked = &past.requests[request];
                let uncached = asked.input - cell.cached.map_or(asked.input * caching, f64::from);
                let (size, load) = (size(uncached), load(cell.in_flight));
                Some(WatchedAttempt {
                    request,
                    at_us: asked.at_us + cell.after_us,
                    size,
                    load,
                    ln_us: (us as f64).ln(),
                    event,
                })
            })
            .collect();
        let mut expected = UpstreamModel {
            intercept: (0.7 * SECOND_US as f64).ln(),
            slope: 0.35,
            load: 0.0,
            scatter: ResidualScatter::new(std::iter::empty()),
            levels: vec![0.0; past.requests.len()],
            failing: failing(past, upstream),
            caching,
            tpots,
            failures,
        };
        for round in 0..ROUNDS {
            expected.improve(&observed, past, round >= STEADY_ROUNDS);
        }
        expected.scatter = expected.scatter_of(&observed);
        expected
    }

    /// Share of its times that lies beyond what was watched often enough to be known.
    pub fn unknown(&self) -> f64 {
        self.scatter.unknown()
    }

    /// How ln TTFT grows with ln(1 + attempts in flight).
    pub fn load_slope(&self) -> f64 {
        self.load
    }

    /// Of an attempt that was never made; microseconds. `left`: a draw from 0 to 1.
    pub(super) fn drawn_us(&self, request: usize, uncached: f64, in_flight: u32, left: f64) -> f64 {
        (self.steady(size(uncached), load(in_flight)) + self.level(request) + self.scatter.at(left)).exp()
    }

    /// Of one that was cut after `waited_us`; never sooner than that.
    pub(super) fn drawn_beyond_us(
        &self,
        request: usize,
        uncached: f64,
        in_flight: u32,
        left: f64,
        waited_us: i64,
    ) -> f64 {
        let waited = (waited_us as f64).ln();
        let expected = self.steady(size(uncached), load(in_flight)) + self.level(request);
        let beyond = self.scatter.at(left * self.scatter.survival(waited - expected));
        (expected + beyond).max(waited).exp()
    }

    /// Whether such a draw lies beyond what was watched often enough to be known.
    pub(super) fn is_assumed(
        &self,
        request: usize,
        uncached: f64,
        in_flight: u32,
        left: f64,
        waited_us: Option<i64>,
    ) -> bool {
        let expected = self.steady(size(uncached), load(in_flight)) + self.level(request);
        let later = waited_us.map_or(1.0, |waited_us| self.scatter.survival((waited_us as f64).ln() - expected));
        left * later < self.scatter.unknown()
    }

    /// What another load makes of a time that was seen under this one.
    pub(super) fn under_load(&self, recorded: u32, now: u32) -> f64 {
        (self.load * (load(now) - load(recorded))).exp()
    }

    /// The share that failed around that time.
    pub(super) fn failing(&self, request: usize) -> f64 {
        f64::from(self.failing[request])
    }

    fn level(&self, request: usize) -> f64 {
        f64::from(self.levels[request])
    }

    fn steady(&self, size: f64, load: f64) -> f64 {
        self.intercept + self.slope * size + self.load * load
    }

    fn residual(&self, seen: &WatchedAttempt) -> f64 {
        seen.ln_us - self.steady(seen.size, seen.load) - self.level(seen.request)
    }

    fn scatter_of(&self, observed: &[WatchedAttempt]) -> ResidualScatter {
        ResidualScatter::new(observed.iter().map(|seen| (self.residual(seen), seen.event)))
    }

    /// Fills in what the cut ones may have become (Buckley and James 1979), then fits levels and line to it.
    fn improve(&mut self, observed: &[WatchedAttempt], past: &PastRequests, with_level: bool) {
        self.scatter = self.scatter_of(observed);
        let became: Vec<f64> = observed
            .iter()
            .map(|seen| {
                let residual = self.residual(seen);
                if seen.event { residual } else { self.scatter.expected_beyond(residual) }
            })
            .collect();
        // An early cut says nearly nothing about the minute that it was in.
        let weights: Vec<f64> = observed
            .iter()
            .map(|seen| if seen.event { 1.0 } else { 1.0 - self.scatter.survival(self.residual(seen)) })
            .collect();
        let weight: f64 = weights.iter().sum::<f64>().max(1.0);
        let deviation = self.deviation(&became, &weights, weight);
        let before: Vec<f64> = observed.iter().map(|seen| self.level(seen.request)).collect();
        if with_level {
            let usual = |became: f64| became.clamp(-CLAMP * deviation, CLAMP * deviation);
            let shown =
                observed.iter().zip(&became).zip(&before).zip(&weights).map(|(((seen, became), before), weights)| {
                    (seen.request, seen.at_us, before + usual(*became), deviation * deviation / weights.max(1e-3))
                });
            self.levels = smoothed(past, &shown.collect::<Vec<_>>());
            let mean =
                observed.iter().zip(&weights).map(|(seen, weights)| self.level(seen.request) * weights).sum::<f64>();
            self.levels.iter_mut().for_each(|level| *level -= (mean / weight) as f32);
        }
        let line = observed.iter().zip(&became).zip(&before).map(|((seen, became), before)| {
            let whole = self.steady(seen.size, seen.load) + before + became - self.level(seen.request);
            (seen.size, seen.load, whole)
        });
        (self.intercept, self.slope, self.load) =
            plane(&line.collect::<Vec<_>>(), (self.intercept, self.slope, self.load));
    }

    fn deviation(&self, became: &[f64], weights: &[f64], weight: f64) -> f64 {
        let mut variance = 0.09_f64;
        for _ in 0..5 {
            let most = CLAMP * variance.sqrt();
            let squares =
                became.iter().zip(weights).map(|(became, weights)| became.clamp(-most, most).powi(2) * weights);
            variance = (squares.sum::<f64>() / weight).clamp(VARIANCE.0, VARIANCE.1);
        }
        variance.sqrt()
    }
}

fn size(uncached: f64) -> f64 {
    (uncached.max(0.0) / TOKENS).ln_1p()
}

fn load(in_flight: u32) -> f64 {
    f64::from(in_flight).ln_1p()
}

/// Of (size, load, value): intercept, and the slopes by size and load, within bounds; `before` if the points do not determine them.
fn plane(points: &[(f64, f64, f64)], before: (f64, f64, f64)) -> (f64, f64, f64) {
    let count = points.len() as f64;
    if points.is_empty() {
        return before;
    }
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x0, z0, y0) = (mean(|point| point.0), mean(|point| point.1), mean(|point| point.2));
    let (mut xx, mut zz, mut xz, mut xy, mut zy) = (1e-3, 1.0, 0.0, 0.0, 0.0);
    xy += before.1 * xx;
    for (x, z, y) in points {
        let (x, z, y) = (x - x0, z - z0, y - y0);
        (xx, zz, xz, xy, zy) = (xx + x * x, zz + z * z, xz + x * z, xy + x * y, zy + z * y);
    }
    let both = xx * zz - xz * xz;
    let load = if both > 1e-9 { ((xx * zy - xz * xy) / both).clamp(0.0, LOAD_MOST) } else { 0.0 };
    let slope = ((xy - load * xz) / xx).clamp(0.0, SLOPE_MOST);
    (y0 - slope * x0 - load * z0, slope, load)
}

/// The state of a filter: mean and variance of the level.
type LevelState = (f64, f64);

/// By request, the level by all observations but its own, before and after: two Kalman filters of an
/// Ornstein–Uhlenbeck process, one from each end. `shown`: request, time, level and variance, in the order of requests.
fn smoothed(past: &PastRequests, shown: &[(usize, i64, f64, f64)]) -> Vec<f32> {
    let requests = past.requests.len();
    let mut forward = vec![(0.0, STATIONARY); requests];
    let mut next = shown.iter().peekable();
    pass(past, 0..requests, |request| next.next_if(|seen| seen.0 == request), &mut forward);
    let mut backward = vec![(0.0, STATIONARY); requests];
    let mut next = shown.iter().rev().peekable();
    pass(past, (0..requests).rev(), |request| next.next_if(|seen| seen.0 == request), &mut backward);
    let both = forward.iter().zip(&backward).map(|((ahead, ahead_var), (behind, behind_var))| {
        let precision = 1.0 / ahead_var + 1.0 / behind_var - 1.0 / STATIONARY;
        ((ahead / ahead_var + behind / behind_var) / precision) as f32
    });
    both.collect()
}

fn pass<'a>(
    past: &PastRequests,
    order: impl Iterator<Item = usize>,
    mut shown: impl FnMut(usize) -> Option<&'a (usize, i64, f64, f64)>,
    states: &mut [LevelState],
) {
    let (mut state, mut at_us): (LevelState, Option<i64>) = ((0.0, STATIONARY), None);
    for request in order {
        let now_us = past.requests[request].at_us;
        let kept = kept(now_us - at_us.unwrap_or(now_us));
        state = (state.0 * kept, state.1 * kept * kept + (1.0 - kept * kept) * STATIONARY);
        at_us = Some(now_us);
        states[request] = state;
        if let Some((_, _, level, variance)) = shown(request) {
            let gain = state.1 / (state.1 + variance);
            state = (state.0 + gain * (level - state.0), state.1 * (1.0 - gain));
        }
    }
}

fn kept(passed_us: i64) -> f64 {
    (-(passed_us.abs() as f64) / FADES_US).exp()
}

/// By request, the share of attempts that failed around it, its own left out.
fn failing(past: &PastRequests, upstream: usize) -> Vec<f32> {
    let requests = past.requests.len();
    let failed = |request: usize| match past.cell(request, upstream).known {
        KnownOutcome::Never => None,
        known => Some(f64::from(u8::from(matches!(known, KnownOutcome::Failed { .. })))),
    };
    let (count, sum) = (0..requests).filter_map(failed).fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    let overall = if count > 0.0 { sum / count } else { 0.0 };
    let mut around = vec![(FAILURE_PRIOR * overall, FAILURE_PRIOR); requests];
    let mut pass = |order: &mut dyn Iterator<Item = usize>| {
        let (mut sum, mut weight, mut at_us) = (0.0, 0.0, None);
        for request in order {
            let now_us = past.requests[request].at_us;
            let kept = kept(now_us - at_us.unwrap_or(now_us));
            (sum, weight, at_us) = (sum * kept, weight * kept, Some(now_us));
            around[request] = (around[request].0 + sum, around[request].1 + weight);
            if let Some(failed) = failed(request) {
                (sum, weight) = (sum + failed, weight + 1.0);
            }
        }
    };
    pass(&mut (0..requests));
    pass(&mut (0..requests).rev());
    around.into_iter().map(|(sum, weight)| (sum / weight) as f32).collect()
}

/// Bins of residuals, as logarithms, from −2.5 to 5.5.
const BINS: usize = 160;
const LOWEST: f64 = -2.5;
const BIN: f64 = 0.05;
/// At risk in each bin by the prior.
const PRIOR: f64 = 3.0;
/// The prior: about normal with this deviation, and a Pareto tail of this share and exponent.
const PRIOR_SD: f64 = 0.35;
const TAIL_SHARE: f64 = 0.025;
const TAIL_EXPONENT: f64 = 1.2;
/// At risk for an estimate to rest on what was seen.
const ENOUGH: f64 = 10.0;

/// The distribution of residuals.
#[derive(Clone, Debug)]
pub(super) struct ResidualScatter {
    /// Share that is later, at the lower edge of each bin and at the upper one of the last.
    edges: Vec<f64>,
    /// Of each bin: what a residual is on average that is beyond its lower edge.
    beyond: Vec<f64>,
    /// The share that is later than what so few were watched for that it is unknown.
    unknown: f64,
}

impl ResidualScatter {
    /// Of residuals that were seen, or that were cut there.
    pub(super) fn new(residuals: impl Iterator<Item = (f64, bool)>) -> ResidualScatter {
        let (mut events, mut cut, mut at_risk) = ([0.0; BINS], [0.0; BINS], 0.0_f64);
        for (residual, event) in residuals {
            let bin = (((residual - LOWEST) / BIN).max(0.0) as usize).min(BINS - 1);
            if event {
                events[bin] += 1.0
            } else {
                cut[bin] += 1.0
            }
            at_risk += 1.0;
        }
        let (mut edges, mut unknown) = (vec![1.0], 1.0);
        let mut left = 1.0;
        for ((events, cut), prior) in events.iter().zip(&cut).zip(prior()) {
            let exposed = (at_risk - cut / 2.0).max(0.0) + PRIOR;
            left *= 1.0 - ((events + PRIOR * prior) / exposed).clamp(0.0, 1.0);
            edges.push(left);
            if at_risk >= ENOUGH {
                unknown = left;
            }
            at_risk = (at_risk - events - cut).max(0.0);
        }
        let beyond = beyond(&edges);
        ResidualScatter { edges, beyond, unknown }
    }

    /// The share that is later.
    pub(super) fn survival(&self, residual: f64) -> f64 {
        let place = (residual - LOWEST) / BIN;
        if place >= BINS as f64 {
            return self.edges[BINS] * (-TAIL_EXPONENT * BIN * (place - BINS as f64)).exp();
        }
        let place = place.max(0.0);
        let bin = place as usize;
        self.edges[bin] + (place - bin as f64) * (self.edges[bin + 1] - self.edges[bin])
    }

    /// What a residual is on average that is later than this one.
    pub(super) fn expected_beyond(&self, residual: f64) -> f64 {
        let bin = (((residual - LOWEST) / BIN).max(0.0) as usize).min(BINS - 1);
        self.beyond[bin].max(residual)
    }

    /// The residual that a share of `left` is later than.
    pub(super) fn at(&self, left: f64) -> f64 {
        let after = self.edges.partition_point(|edge| *edge > left);
        match (after.checked_sub(1), self.edges.get(after)) {
            (None, _) => LOWEST,
            (Some(bin), Some(edge)) => {
                let share = (self.edges[bin] - left) / (self.edges[bin] - edge).max(f64::MIN_POSITIVE);
                LOWEST + BIN * (bin as f64 + share)
            }
            (Some(_), None) => {
                let further = (self.edges[BINS] / left.max(1e-9)).ln() / TAIL_EXPONENT;
                LOWEST + BIN * BINS as f64 + further.max(0.0)
            }
        }
    }

    /// The share of times that lies beyond what was watched often enough to be known.
    pub(super) fn unknown(&self) -> f64 {
        self.unknown
    }
}

fn beyond(edges: &[f64]) -> Vec<f64> {
    let last = LOWEST + BIN * BINS as f64 + 1.0 / TAIL_EXPONENT;
    let mut sum = edges[BINS] * last;
    let mut beyond = vec![last; BINS];
    for bin in (0..BINS).rev() {
        sum += (edges[bin] - edges[bin + 1]) * (LOWEST + BIN * (bin as f64 + 0.5));
        if edges[bin] > 1e-9 {
            beyond[bin] = sum / edges[bin];
        }
    }
    beyond
}

/// The prior's hazard in each bin.
fn prior() -> &'static [f64; BINS] {
    static TABLE: LazyLock<[f64; BINS]> = LazyLock::new(|| {
        let survival = |residual: f64| {
            let normal = 1.0 / (1.0 + (1.702 * residual / PRIOR_SD).exp());
            let tail = (-TAIL_EXPONENT * (residual - PRIOR_SD).max(0.0)).exp();
            (1.0 - TAIL_SHARE) * normal + TAIL_SHARE * tail
        };
        std::array::from_fn(|bin| {
            let from = LOWEST + BIN * bin as f64;
            1.0 - survival(from + BIN) / survival(from)
        })
    });
    &TABLE
}

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

    fn failure(&self, upstream: usize, draw: f64) -> SimulatedResponse {
        let known = &self.expected[upstream].failures;
        known
            .get((draw * known.len() as f64) as usize)
            .map_or(SimulatedResponse::Hangs, |(after_us, limited)| failed(*after_us, *limited))
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

    fn is_worse(&self, request: &SimulatedRequest, upstream: usize) -> bool {
        self.past.cell(request.id, upstream).worse
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
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
        SimulatedResponse::Answers { ttft_us: (ttft_us as i64).max(1), tpot_us }
    }
}

fn failed(after_us: i64, limited: bool) -> SimulatedResponse {
    match limited {
        true => SimulatedResponse::Limited { after_us, retry_after_us: Some(RETRY_AFTER_US) },
        false => SimulatedResponse::Fails { after_us },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_them_cut_by_rivals_change_little() {
        let mut seeded = fastrand::Rng::with_seed(5);
        let mut normal = || 0.3 * ((0..12).map(|_| seeded.f64()).sum::<f64>() - 6.0);
        let pairs: Vec<(f64, f64)> = (0..4_000).map(|_| (normal(), normal())).collect();
        let all = ResidualScatter::new(pairs.iter().map(|(own, _)| (*own, true)));
        let cut = ResidualScatter::new(pairs.iter().map(|(own, rival)| (own.min(*rival), own < rival)));
        for left in [0.75, 0.5, 0.25, 0.1] {
            assert!((all.at(left) - cut.at(left)).abs() < 0.06, "{left}: {} {}", all.at(left), cut.at(left));
            assert!((all.survival(all.at(left)) - left).abs() < 1e-6);
        }
        assert!(all.unknown() < 0.01 && cut.unknown() < 0.05, "{} {}", all.unknown(), cut.unknown());
    }

    #[test]
    fn a_habitual_loser_is_mostly_unknown_and_nothing_seen_is_the_prior() {
        let loser = ResidualScatter::new((0..1_000).map(|n| (if n < 20 { -0.5 } else { -0.4 }, n < 20)));
        assert!(loser.unknown() > 0.9, "{}", loser.unknown());
        let none = ResidualScatter::new(std::iter::empty());
        assert!(none.at(0.5).abs() < 0.06 && none.unknown() == 1.0);
        assert!(none.at(1e-9) > 5.5 && none.at(1.0) <= LOWEST && none.expected_beyond(2.0) > 2.5);
    }
}
