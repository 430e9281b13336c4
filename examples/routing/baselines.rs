//! What the product's policies are compared with: what routers do today, and what nobody can do.

use photofinish::rehearse::{
    AskReason, ObservedProgress, Outcome, PolicyAnswer, RaceView, SimulatedOutcome, SimulatedPolicy, SimulatedStart,
};

use crate::draws::stream;
use crate::world::World;

/// One upstream first, the others as fallback; the next `beside` with it, or `hedge_us` after it.
pub struct Fixed {
    order: Vec<usize>,
    beside: usize,
    hedge_us: Option<i64>,
}

impl Fixed {
    pub fn first(first: usize, upstreams: usize) -> Fixed {
        let mut order: Vec<usize> = (0..upstreams).collect();
        order.sort_by_key(|upstream| *upstream != first);
        Fixed { order, beside: 0, hedge_us: None }
    }

    /// In this order, so many at once.
    pub fn race(order: Vec<usize>, beside: usize) -> Fixed {
        Fixed { order, beside, hedge_us: None }
    }

    pub fn hedge(order: Vec<usize>, after_us: i64) -> Fixed {
        Fixed { order, beside: 0, hedge_us: Some(after_us) }
    }
}

impl SimulatedPolicy for Fixed {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        let open = self.order.iter().copied().filter(|upstream| view.seats[*upstream].open);
        match moment {
            AskReason::Arrival => {
                PolicyAnswer { start: open.take(1 + self.beside).collect(), again_after_us: self.hedge_us }
            }
            AskReason::Timer => PolicyAnswer { start: open.take(1).collect(), again_after_us: None },
            AskReason::Failure if view.running.is_empty() => {
                PolicyAnswer { start: open.take(1).collect(), again_after_us: self.hedge_us }
            }
            AskReason::Failure => PolicyAnswer::default(),
        }
    }
}

/// The smallest moving average of the time to first token, of those that answered: what routers do today. One that was not
/// asked for long is forgotten, and so asked again.
pub struct Ewma {
    seen: Vec<Average>,
    /// Hedge at the 95th percentile of the leader's newest times.
    hedges: bool,
}

#[derive(Clone, Debug, Default)]
struct Average {
    /// Milliseconds; 0: not known.
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

    fn best(&self, view: &RaceView<'_>) -> Option<usize> {
        let open = (0..self.seen.len()).filter(|upstream| view.seats[*upstream].open);
        let guess = |upstream: &usize| match &self.seen[*upstream] {
            seen if view.now_us - seen.last_us > FORGOTTEN_AFTER_US => 0.0,
            seen => seen.ttft_ms,
        };
        open.min_by(|one, other| guess(one).total_cmp(&guess(other)))
    }

    fn hedge_us(&self, upstream: Option<usize>) -> Option<i64> {
        let mut newest = self.seen[upstream.filter(|_| self.hedges)?].newest.clone();
        newest.sort_by(f64::total_cmp);
        newest.get(newest.len() * 95 / 100).map(|ms| (1e3 * ms) as i64)
    }
}

impl SimulatedPolicy for Ewma {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        if moment == AskReason::Failure && !view.running.is_empty() {
            return PolicyAnswer::default();
        }
        let best = self.best(view);
        if let Some(best) = best {
            // Whoever is asked counts as known until the answer is there.
            self.seen[best].last_us = view.now_us;
        }
        let again_after_us = if moment == AskReason::Timer { None } else { self.hedge_us(best) };
        PolicyAnswer { start: best.into_iter().collect(), again_after_us }
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, now_us: i64) {
        let ObservedProgress::FirstToken { ttft_us, .. } = seen else { return };
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

/// Of two drawn by lot the one with the smaller peak-sensitive average times its load.
pub struct TwoChoices {
    /// Milliseconds, and when it was last heard of.
    seen: Vec<(f64, i64)>,
    draws: fastrand::Rng,
}

const PEAK_DECAY_US: f64 = 10e6;

impl TwoChoices {
    pub fn new(upstreams: usize, seed: u64) -> TwoChoices {
        TwoChoices { seen: vec![(0.0, 0); upstreams], draws: stream(seed, 3, 0) }
    }
}

impl SimulatedPolicy for TwoChoices {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        let mut open: Vec<usize> = (0..self.seen.len()).filter(|upstream| view.seats[*upstream].open).collect();
        if moment == AskReason::Failure && !view.running.is_empty() {
            return PolicyAnswer::default();
        }
        self.draws.shuffle(&mut open);
        let burden = |upstream: &usize| {
            let (peak_ms, at_us) = self.seen[*upstream];
            let fades = (-((view.now_us - at_us) as f64) / PEAK_DECAY_US).exp();
            (peak_ms * fades + 1.0) * f64::from(view.seats[*upstream].in_flight + 1)
        };
        let best = open.into_iter().take(2).min_by(|one, other| burden(one).total_cmp(&burden(other)));
        PolicyAnswer { start: best.into_iter().collect(), again_after_us: None }
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, now_us: i64) {
        let ObservedProgress::FirstToken { ttft_us, .. } = seen else { return };
        let (peak_ms, at_us) = &mut self.seen[upstream];
        let ttft_ms = ttft_us as f64 / 1e3;
        let fades = (-((now_us - *at_us) as f64) / PEAK_DECAY_US).exp();
        *peak_ms = if ttft_ms > *peak_ms { ttft_ms } else { *peak_ms * fades + ttft_ms * (1.0 - fades) };
        *at_us = now_us;
    }
}

/// Sees the draws: the best upstream for each request, by the first token or by the whole answer.
pub struct Oracle<'w> {
    pub world: &'w World,
    pub completion: bool,
}

impl SimulatedPolicy for Oracle<'_> {
    fn decide(&mut self, view: &RaceView<'_>, _: AskReason) -> PolicyAnswer {
        let outcome_us = |upstream: usize| {
            let seat = &view.seats[upstream];
            let launch = SimulatedStart {
                request: *view.request,
                upstream,
                prompt: seat.prompt,
                at_us: view.now_us,
                in_flight: seat.in_flight,
            };
            match self.world.fate(&launch) {
                SimulatedOutcome::Answers { ttft_us, tpot_us } if self.completion => {
                    ttft_us as f64 + tpot_us * f64::from(view.request.output_tokens - 1)
                }
                SimulatedOutcome::Answers { ttft_us, .. } => ttft_us as f64,
                _ => f64::INFINITY,
            }
        };
        let open = (0..view.seats.len()).filter(|upstream| view.seats[*upstream].open);
        let best = open.min_by(|one, other| outcome_us(*one).total_cmp(&outcome_us(*other)));
        PolicyAnswer { start: best.into_iter().collect(), again_after_us: None }
    }
}

/// Any policy, so that one run can hold one of many.
pub struct Boxed<'s>(pub Box<dyn SimulatedPolicy + 's>);

impl SimulatedPolicy for Boxed<'_> {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        self.0.decide(view, moment)
    }

    fn hold(&mut self, view: &RaceView<'_>, ready: usize) -> Option<i64> {
        self.0.hold(view, ready)
    }

    fn choose(&mut self, view: &RaceView<'_>, ready: usize) -> usize {
        self.0.choose(view, ready)
    }

    fn hopeless(&mut self, view: &RaceView<'_>) -> Vec<usize> {
        self.0.hopeless(view)
    }

    fn launched(&mut self, upstream: usize, now_us: i64) {
        self.0.launched(upstream, now_us);
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, now_us: i64) {
        self.0.saw(upstream, seen, now_us);
    }

    fn ended(&mut self, outcome: &Outcome<'_>) {
        self.0.ended(outcome);
    }
}
