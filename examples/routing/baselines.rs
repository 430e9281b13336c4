//! The policies that the product's are compared with: those of today's routers, and an oracle.

use std::time::Duration;

use photofinish_lab::rehearse::{Baseline, Dispatch, OpeningView, Shown, SimulatedResponse};
use photofinish_routing::policy::plan::StartRule;

use crate::draws::stream;
use crate::world::World;

const NOW: StartRule = StartRule::At(Duration::ZERO);

/// A fixed order. Another `beside` upstreams start with the first, or one starts `hedge` later.
pub struct Fixed {
    order: Vec<usize>,
    beside: usize,
    hedge: Option<Duration>,
}

impl Fixed {
    pub fn first(first: usize, upstreams: usize) -> Fixed {
        let mut order: Vec<usize> = (0..upstreams).collect();
        order.sort_by_key(|upstream| *upstream != first);
        Fixed { order, beside: 0, hedge: None }
    }

    /// Another `beside` upstreams start with the first.
    pub fn race(order: Vec<usize>, beside: usize) -> Fixed {
        Fixed { order, beside, hedge: None }
    }

    pub fn hedge(order: Vec<usize>, after: Duration) -> Fixed {
        Fixed { order, beside: 0, hedge: Some(after) }
    }
}

impl Baseline for Fixed {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let able = self.order.iter().filter(|upstream| view.able.contains(upstream));
        let start = |place: usize| if place <= self.beside { NOW } else { hedged(place, self.hedge) };
        able.enumerate().map(|(place, upstream)| (*upstream, start(place))).collect()
    }
}

/// The first at once, the second after `hedge` if it is set, the others after a failure.
fn hedged(place: usize, hedge: Option<Duration>) -> StartRule {
    match (place, hedge) {
        (0, _) => NOW,
        (1, Some(after)) => StartRule::At(after),
        _ => StartRule::AfterFailure,
    }
}

/// Picks the smallest moving average of the time to first token, as routers do today. An upstream that was not used for
/// a long time is forgotten, and so tried again.
pub struct Ewma {
    seen: Vec<Average>,
    /// Whether it hedges at the 95th percentile of the leader's newest times.
    hedges: bool,
}

#[derive(Clone, Debug, Default)]
struct Average {
    /// Milliseconds; 0: unknown.
    ttft_ms: f64,
    last_us: i64,
    newest: Vec<f64>,
    next: usize,
}

const NEWEST: usize = 200;
const FORGOTTEN_AFTER_US: i64 = 300_000_000;

impl Ewma {
    pub fn new(upstreams: usize, hedges: bool) -> Ewma {
        Ewma { seen: vec![Average::default(); upstreams], hedges }
    }

    fn hedge(&self, upstream: Option<usize>) -> Option<Duration> {
        let mut newest = self.seen[upstream.filter(|_| self.hedges)?].newest.clone();
        newest.sort_by(f64::total_cmp);
        newest.get(newest.len() * 95 / 100).map(|ms| Duration::from_secs_f64(ms / 1e3))
    }
}

impl Baseline for Ewma {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let now_us = view.request.at_us;
        let guess = |upstream: &usize| match &self.seen[*upstream] {
            seen if now_us - seen.last_us > FORGOTTEN_AFTER_US => 0.0,
            seen => seen.ttft_ms,
        };
        let mut order = view.able.to_vec();
        order.sort_by(|one, other| guess(one).total_cmp(&guess(other)));
        let hedge = self.hedge(order.first().copied());
        if let Some(best) = order.first() {
            // A pending first try counts as known.
            self.seen[*best].last_us = now_us;
        }
        order.into_iter().enumerate().map(|(place, upstream)| (upstream, hedged(place, hedge))).collect()
    }

    fn saw(&mut self, upstream: usize, shown: Shown, now_us: i64) {
        let Shown::FirstToken(ttft_us) = shown else { return };
        let average = &mut self.seen[upstream];
        let ttft_ms = ttft_us as f64 / 1e3;
        let share = if average.ttft_ms > 0.0 { 0.3 } else { 1.0 };
        average.ttft_ms += share * (ttft_ms - average.ttft_ms);
        average.last_us = now_us;
        if average.newest.len() < NEWEST {
            average.newest.push(ttft_ms);
        } else {
            average.newest[average.next] = ttft_ms;
        }
        average.next = (average.next + 1) % NEWEST;
    }
}

/// The power of two choices: of two random upstreams, picks the one with the smaller product of load and peak-sensitive
/// average.
pub struct TwoChoices {
    /// Milliseconds, and the time of the last sample.
    seen: Vec<(f64, i64)>,
    draws: fastrand::Rng,
}

const PEAK_DECAY_US: f64 = 10e6;

impl TwoChoices {
    pub fn new(upstreams: usize, seed: u64) -> TwoChoices {
        TwoChoices { seen: vec![(0.0, 0); upstreams], draws: stream(seed, 3, 0) }
    }
}

impl Baseline for TwoChoices {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let mut able = view.able.to_vec();
        self.draws.shuffle(&mut able);
        let burden = |upstream: &usize| {
            let (peak_ms, at_us) = self.seen[*upstream];
            let fades = (-((view.request.at_us - at_us) as f64) / PEAK_DECAY_US).exp();
            (peak_ms * fades + 1.0) * f64::from(view.in_flight[*upstream] + 1)
        };
        let two = able.len().min(2);
        able[..two].sort_by(|one, other| burden(one).total_cmp(&burden(other)));
        able.into_iter().enumerate().map(|(place, upstream)| (upstream, hedged(place, None))).collect()
    }

    fn saw(&mut self, upstream: usize, shown: Shown, now_us: i64) {
        let Shown::FirstToken(ttft_us) = shown else { return };
        let (peak_ms, at_us) = &mut self.seen[upstream];
        let ttft_ms = ttft_us as f64 / 1e3;
        let fades = (-((now_us - *at_us) as f64) / PEAK_DECAY_US).exp();
        *peak_ms = if ttft_ms > *peak_ms { ttft_ms } else { *peak_ms * fades + ttft_ms * (1.0 - fades) };
        *at_us = now_us;
    }
}

/// The power of two choices by load alone: of two random upstreams the one with fewer attempts in flight.
pub struct LeastOfTwo {
    pub draws: fastrand::Rng,
}

impl Baseline for LeastOfTwo {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let mut able = view.able.to_vec();
        self.draws.shuffle(&mut able);
        let two = able.len().min(2);
        able[..two].sort_by_key(|upstream| view.in_flight[*upstream]);
        able.into_iter().enumerate().map(|(place, upstream)| (upstream, hedged(place, None))).collect()
    }
}

/// Reads the draws: picks the best upstream for each request, by the first token or by the whole answer.
pub struct Oracle<'w> {
    pub world: &'w World,
    pub completion: bool,
}

impl Baseline for Oracle<'_> {
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)> {
        let request = *view.request;
        let takes_us = |upstream: &usize| {
            let upstream = *upstream;
            let (prompt, in_flight) = (view.prompts[upstream], view.in_flight[upstream]);
            let dispatch = Dispatch { request, upstream, prompt, at_us: request.at_us, in_flight, retry: 0 };
            match self.world.response(&dispatch) {
                SimulatedResponse::Answers { ttft_us, tpot_us } if self.completion => {
                    ttft_us as f64 + tpot_us * f64::from(request.output_tokens - 1)
                }
                SimulatedResponse::Answers { ttft_us, .. } => ttft_us as f64,
                _ => f64::INFINITY,
            }
        };
        let mut order: Vec<(f64, usize)> = view.able.iter().map(|upstream| (takes_us(upstream), *upstream)).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        order.into_iter().enumerate().map(|(place, (_, upstream))| (upstream, hedged(place, None))).collect()
    }
}
