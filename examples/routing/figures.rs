//! The data kept of a run, and the figures computed from it.

use photofinish::clock::HOUR_US;
use photofinish::rehearse::PlayedRace;

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
    /// Per hour of arrival: base and extra cost, and races.
    hours: Vec<Hour>,
    attempts: usize,
    /// Per request: base and extra cost, and the whole bill.
    costs: Vec<[f64; 3]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hour {
    base: f64,
    extra: f64,
    races: f64,
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
        Run { ttft_ms, whole_ms, tpot_ms, failed: 0, hours: Vec::new(), attempts: 0, costs: vec![[0.0; 3]; requests] }
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
        let bill = outcome.attempts.iter().map(|attempt| attempt.cost).sum();
        self.costs[id] = [outcome.base(), outcome.extra(), bill];
        let hour = usize::try_from(outcome.request.at_us / HOUR_US).unwrap_or(0);
        if self.hours.len() <= hour {
            self.hours.resize(hour + 1, Hour::default());
        }
        let hour = &mut self.hours[hour];
        *hour = Hour { base: hour.base + outcome.base(), extra: hour.extra + outcome.extra(), races: hour.races + 1.0 };
    }

    /// Without the first tenth, in which every policy learns.
    pub fn figures(&self, oracle: &Run) -> Figures {
        let from = self.ttft_ms.len() / 10;
        let [ttft, whole] = [&self.ttft_ms, &self.whole_ms].map(|times| sorted(&times[from..]));
        let slower: Vec<f32> = self.ttft_ms.iter().zip(&oracle.ttft_ms).map(|(own, best)| own / best).collect();
        let both = || self.ttft_ms[from..].iter().zip(&self.tpot_ms[from..]);
        let meets = |slo: (f32, f32)| both().filter(|(ttft, tpot)| **ttft <= slo.0 && **tpot <= slo.1).count();
        let (base, extra) = self.hours.iter().fold((0.0, 0.0), |sum, hour| (sum.0 + hour.base, sum.1 + hour.extra));
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
        self.costs.iter().map(|[.., bill]| bill).sum()
    }

    /// The hour with the largest spent part of its allowed budget, `budget · base + max(200 · budget, 20) · mean cost`.
    /// Above 1 the bound is violated.
    pub fn worst_hour(&self, budget: f64) -> f64 {
        let (base, races) = self.hours.iter().fold((0.0, 0.0), |sum, hour| (sum.0 + hour.base, sum.1 + hour.races));
        let burst = burst(budget) * base / f64::max(races, 1.0);
        self.hours.iter().map(|hour| hour.extra / (budget * hour.base + burst)).fold(0.0, f64::max)
    }

    /// [`Run::worst_hour`] for intervals of requests, between any two of three thousand moments.
    pub fn worst_interval(&self, budget: f64) -> f64 {
        const MOMENTS: usize = 3_000;
        let (mut sums, mut base, mut extra) = (vec![(0.0, 0.0)], 0.0, 0.0);
        let count = self.costs.len().max(1);
        for costs in self.costs.chunks(count.div_ceil(MOMENTS)) {
            base += costs.iter().map(|[base, ..]| base).sum::<f64>();
            extra += costs.iter().map(|[_, extra, _]| extra).sum::<f64>();
            sums.push((base, extra));
        }
        let burst = burst(budget) * base / count as f64;
        let part = |from: &(f64, f64), to: &(f64, f64)| (to.1 - from.1) / (budget * (to.0 - from.0) + burst);
        let worst =
            |(place, from): (usize, &(f64, f64))| sums[place..].iter().map(|to| part(from, to)).fold(0.0, f64::max);
        sums.iter().enumerate().map(worst).fold(0.0, f64::max)
    }
}

/// The immediate allowance of the bound, in mean costs.
fn burst(budget: f64) -> f64 {
    f64::max(200.0 * budget, 20.0)
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
