//! The data kept of a run, and the figures computed from it.

use photofinish_base::clock::HOUR_US;
use photofinish_lab::rehearse::PlayedRace;

/// Target TTFT and time between tokens, in milliseconds.
pub const SLOS: [(f32, f32); 3] = [(500.0, 25.0), (800.0, 15.0), (400.0, 18.0)];
/// The TTFT of a failed request, in milliseconds.
const FAILED_MS: f32 = 60_000.0;

/// The data of one policy's run through a world.
#[derive(Debug)]
pub struct Run {
    /// TTFT of each request, in milliseconds.
    pub ttft_ms: Vec<f32>,
    pub whole_ms: Vec<f32>,
    pub tpot_ms: Vec<f32>,
    pub failed: usize,
    attempts: usize,
    /// The cost of each request.
    costs: Vec<RequestCost>,
}

/// The money of one request, in the unit of the tariffs.
#[derive(Clone, Copy, Debug, Default)]
struct RequestCost {
    /// When it ended, µs: only then does it add to the budget.
    ended_us: i64,
    base: f64,
    extra: f64,
    /// The part of `extra` that the budget may refuse, as far as the gateway sees it, and when its last attempt started, µs.
    bought: f64,
    bought_us: i64,
    bill: f64,
}

/// What the budget got and what was spent before a moment, and the mean cost that the gateway knew.
#[derive(Clone, Copy, Debug)]
struct Moment {
    base: f64,
    bought: f64,
    mean: f64,
}

/// The columns of the table; times are milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// The maximum.
    pub most: f64,
    pub whole_mean: f64,
    pub whole_p99: f64,
    /// Extra cost divided by base cost.
    pub extra: f64,
    /// 99th percentile of the ratio of the TTFT to the oracle's TTFT for the same request.
    pub slowdown: f64,
    /// Share of the requests that meet each pair of limits.
    pub goodput: [f64; 3],
    pub failed: f64,
    /// Attempts per request.
    pub attempts: f64,
    /// The whole bill, in the unit of the tariffs.
    pub bill: f64,
}

impl Run {
    pub fn new(requests: usize) -> Run {
        let unknown = || vec![FAILED_MS; requests];
        let (ttft_ms, whole_ms, tpot_ms) = (unknown(), unknown(), unknown());
        Run { ttft_ms, whole_ms, tpot_ms, failed: 0, attempts: 0, costs: vec![RequestCost::default(); requests] }
    }

    pub fn hear(&mut self, outcome: &PlayedRace<'_>) {
        let id = outcome.request.id;
        match (outcome.ttft_us, outcome.tpot_us) {
            (Some(ttft_us), Some(tpot_us)) => {
                self.ttft_ms[id] = ttft_us as f32 / 1e3;
                self.whole_ms[id] = outcome.took_us as f32 / 1e3;
                self.tpot_ms[id] = tpot_us as f32 / 1e3;
            }
            _ => self.failed += 1,
        }
        self.attempts += outcome.attempts.len();
        let last_us = outcome.attempts.iter().map(|attempt| attempt.after_us).max();
        self.costs[id] = RequestCost {
            ended_us: outcome.request.at_us + outcome.took_us,
            base: outcome.base(),
            extra: outcome.extra(),
            bought: outcome.bought(),
            bought_us: outcome.request.at_us + last_us.unwrap_or(0),
            bill: outcome.attempts.iter().map(|attempt| attempt.cost).sum(),
        };
    }

    /// Without the first tenth, in which every policy learns.
    pub fn figures(&self, oracle: &Run) -> Figures {
        let from = self.ttft_ms.len() / 10;
        let [ttft, whole] = [&self.ttft_ms, &self.whole_ms].map(|times| sorted(&times[from..]));
        let slower: Vec<f32> = self.ttft_ms.iter().zip(&oracle.ttft_ms).map(|(own, best)| own / best).collect();
        let both = || self.ttft_ms[from..].iter().zip(&self.tpot_ms[from..]);
        let meets = |slo: (f32, f32)| both().filter(|(ttft, tpot)| **ttft <= slo.0 && **tpot <= slo.1).count();
        let sum = |part: fn(&RequestCost) -> f64| self.costs.iter().map(part).sum::<f64>();
        let (base, extra) = (sum(|cost| cost.base), sum(|cost| cost.extra));
        let count = self.ttft_ms.len().max(1) as f64;
        Figures {
            mean: mean(&ttft),
            p50: quantile(&ttft, 0.5),
            p99: quantile(&ttft, 0.99),
            p999: quantile(&ttft, 0.999),
            most: quantile(&ttft, 1.0),
            whole_mean: mean(&whole),
            whole_p99: quantile(&whole, 0.99),
            extra: extra / base.max(f64::MIN_POSITIVE),
            slowdown: quantile(&sorted(&slower[from..]), 0.99),
            goodput: SLOS.map(|slo| meets(slo) as f64 / ttft.len().max(1) as f64),
            failed: self.failed as f64 / count,
            attempts: self.attempts as f64 / count,
            bill: self.bill(),
        }
    }

    pub fn bill(&self) -> f64 {
        self.costs.iter().map(|cost| cost.bill).sum()
    }

    /// The hour with the largest spent part of its allowed budget, `budget · base + max(200 · budget, 20) · mean cost`. Only extras
    /// that the budget may refuse count. Above 1 the bound is violated.
    pub fn worst_hour(&self, budget: f64) -> f64 {
        let hours = self.moments(|_, before_us, now_us| before_us / HOUR_US != now_us / HOUR_US);
        hours.windows(2).map(|hour| part(budget, &hour[0], &hour[1])).fold(0.0, f64::max)
    }

    /// [`Run::worst_hour`] for intervals between any two of three thousand moments.
    pub fn worst_interval(&self, budget: f64) -> f64 {
        const MOMENTS: usize = 3_000;
        let apart = (2 * self.costs.len()).div_ceil(MOMENTS).max(1);
        let moments = self.moments(|event, _, _| event % apart == 0);
        let worst = |(place, from): (usize, &Moment)| {
            moments[place..].iter().map(|to| part(budget, from, to)).fold(0.0, f64::max)
        };
        moments.iter().enumerate().map(worst).fold(0.0, f64::max)
    }

    /// The beginning, the moment before each event that `begins` an interval, and the end. An event is a request's last start or its
    /// end; `begins` gets its number, the time of the event before and its own time, µs.
    fn moments(&self, begins: impl Fn(usize, i64, i64) -> bool) -> Vec<Moment> {
        let both = |cost: &RequestCost| [(cost.bought_us, 0.0, cost.bought), (cost.ended_us, cost.base, 0.0)];
        let mut events: Vec<(i64, f64, f64)> = self.costs.iter().flat_map(both).collect();
        events.sort_by_key(|(at_us, ..)| *at_us);
        // The first cost that the gateway hears of stands for the mean and fills the bucket.
        let first = events.iter().map(|(_, base, bought)| base.max(*bought)).find(|cost| *cost > 0.0);
        let (mut weight, mut before_us) = (0.0, 0);
        let mut now = Moment { base: 0.0, bought: 0.0, mean: first.unwrap_or(0.0) };
        let mut moments = Vec::new();
        for (event, (at_us, base, bought)) in events.into_iter().enumerate() {
            if event == 0 || begins(event, before_us, at_us) {
                moments.push(now);
            }
            if base > 0.0 {
                weight = weight * (1.0 - 1.0 / 1_000.0) + 1.0;
                now.mean += (base - now.mean) / weight;
            }
            now.base += base;
            now.bought += bought;
            before_us = at_us;
        }
        moments.push(now);
        moments
    }
}

/// Which part of what a budget allows between two moments was spent.
fn part(budget: f64, from: &Moment, to: &Moment) -> f64 {
    let most = budget * (to.base - from.base) + f64::max(200.0 * budget, 20.0) * from.mean;
    (to.bought - from.bought) / most.max(f64::MIN_POSITIVE)
}

pub fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64
}

/// The quantile of sorted values.
pub fn quantile(sorted: &[f32], q: f64) -> f64 {
    let place = (sorted.len() as f64 * q) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(0.0, |value| f64::from(*value))
}

pub fn sorted(values: &[f32]) -> Vec<f32> {
    let mut values = values.to_vec();
    values.sort_by(f32::total_cmp);
    values
}
