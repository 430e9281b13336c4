//! Estimates of a stage: quantiles and shares with 95 % intervals, warm-up, trends. Pure.
//!
//! Requests of one stage are correlated: a queue slows many in a row. So every interval counts effective samples: the number
//! of independent ones with the same information (n over the autocorrelation time).

use serde::{Deserialize, Serialize};

use photofinish_facts::estimate::interval::side_ranks;

pub use photofinish_facts::estimate::interval::quantile;

/// Of a normal distribution: two-sided 95 %.
pub const Z: f64 = 1.959_964;
/// Samples of one batch of the warm-up rule.
const BATCH: usize = 5;

/// An estimate with the 95 % interval that the sample can bear. A side is None if no value of this sample bounds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalEstimate {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl IntervalEstimate {
    /// Half the interval's width as a share of the value; none without both sides.
    pub fn half_width(&self) -> Option<f64> {
        let (low, high) = self.low.zip(self.high)?;
        (self.value > 0.0).then_some((high - low) / 2.0 / self.value)
    }

    pub fn times(self, factor: f64) -> IntervalEstimate {
        IntervalEstimate {
            value: self.value * factor,
            low: self.low.map(|v| v * factor),
            high: self.high.map(|v| v * factor),
        }
    }
}

/// The quantile with its interval: the ranks that a binomial of `effective` trials leaves. `sorted` has the values in order.
pub fn quantile_estimate(sorted: &[f64], effective: f64, p: f64) -> Option<IntervalEstimate> {
    let value = quantile(sorted, p)?;
    let n = sorted.len();
    let trials = (effective.floor() as usize).clamp(1, n);
    let (low, high) = side_ranks(trials, p);
    // A rank of the trials as a rank of the sample.
    let scaled = |rank: usize| (rank as f64 / trials as f64 * n as f64).round() as usize;
    let at = |rank: usize| sorted.get(rank.clamp(1, n) - 1).copied();
    Some(IntervalEstimate {
        value,
        low: low.and_then(|rank| at(scaled(rank))),
        high: high.and_then(|rank| at(scaled(rank))),
    })
}

/// The 95 % interval of a share of `effective` samples.
pub fn share_estimate(share: f64, effective: f64) -> IntervalEstimate {
    let (low, high) = wilson(share, effective, Z);
    IntervalEstimate { value: share, low: Some(low), high: Some(high) }
}

/// Wilson's interval of a share of `effective` samples.
pub fn wilson(share: f64, effective: f64, z: f64) -> (f64, f64) {
    if effective <= 0.0 {
        return (0.0, 1.0);
    }
    let z2 = z * z / effective;
    let middle = (share + z2 / 2.0) / (1.0 + z2);
    let half = z / (1.0 + z2) * (share * (1.0 - share) / effective + z2 / (4.0 * effective)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The number of independent samples with the same information as this series, in its order: n over 1 + 2 Σ ρ, summed while
/// pairs of neighbouring correlations are positive (Geyer 1992).
pub fn effective_samples(series: &[f64]) -> f64 {
    let n = series.len();
    if n < 4 {
        return n as f64;
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    let covariance =
        |lag: usize| series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n as f64;
    let variance = covariance(0);
    // Equal values differ by rounding.
    if variance <= (mean * 1e-9).powi(2) {
        return n as f64;
    }
    // A lag of more than a tenth has too few pairs; 1,000 bound the work.
    let most = (n / 10).clamp(1, 1_000);
    let mut time = 1.0;
    let mut lag = 1;
    while lag < most {
        let pair = (covariance(lag) + covariance(lag + 1)) / variance;
        // White noise has correlations of about 1/√n: they are not counted.
        if pair <= 2.0 * (2.0 / n as f64).sqrt() {
            break;
        }
        time += 2.0 * pair;
        lag += 2;
    }
    (n as f64 / time).max(1.0)
}

/// Effective samples for a quantile: of the series that says of each value whether it is above it.
pub fn effective_for(series: &[f64], p: f64) -> f64 {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(at) = quantile(&sorted, p) else { return 0.0 };
    let above: Vec<f64> = series.iter().map(|value| if *value > at { 1.0 } else { 0.0 }).collect();
    effective_samples(&above)
}

/// How many of the first values are warm-up: the cut with the least standard error of the rest, in batches of five, at most
/// half (MSER-5, White 1997).
pub fn warm_up(series: &[f64]) -> usize {
    let means: Vec<f64> = series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let error = |cut: usize| {
        let rest = &means[cut..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (rest.len() * rest.len()) as f64
    };
    let cuts = 0..=means.len() / 2;
    if means.len() < 4 {
        return 0;
    }
    let best = cuts.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0);
    best * BATCH
}

/// The slope of `values` over `times` and its 95 % interval (Theil 1950, Sen 1968). None with fewer than 8 points.
pub fn slope(times: &[f64], values: &[f64]) -> Option<IntervalEstimate> {
    let n = times.len().min(values.len());
    if n < 8 {
        return None;
    }
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs
        .filter(|(a, b)| times[*b] > times[*a])
        .map(|(a, b)| (values[b] - values[a]) / (times[b] - times[a]))
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let half = Z * ((n * (n - 1) * (2 * n + 5)) as f64 / 18.0).sqrt();
    let at = |rank: f64| slopes.get(rank.round().clamp(0.0, slopes.len() as f64 - 1.0) as usize).copied();
    let middle = slopes.len() as f64;
    Some(IntervalEstimate {
        value: quantile(&slopes, 0.5)?,
        low: at((middle - half) / 2.0),
        high: at((middle + half) / 2.0),
    })
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn exponential(rng: &mut Rng, n: usize) -> Vec<f64> {
        (0..n).map(|_| -(1.0 - rng.f64()).ln()).collect()
    }

    /// How many of 400 intervals hold the truth.
    fn coverage(n: usize, p: f64, draw: impl Fn(&mut Rng, usize) -> Vec<f64>, truth: f64) -> f64 {
        let holds = (0..400).filter(|seed| {
            let series = draw(&mut Rng::with_seed(*seed), n);
            let effective = effective_for(&series, p);
            let mut sorted = series;
            sorted.sort_unstable_by(f64::total_cmp);
            let found = quantile_estimate(&sorted, effective, p).unwrap();
            found.low.is_none_or(|low| low <= truth) && found.high.is_none_or(|high| truth <= high)
        });
        holds.count() as f64 / 400.0
    }

    #[test]
    fn intervals_of_independent_draws_hold_the_truth() {
        for (n, p) in [(60, 0.5), (200, 0.5), (200, 0.95), (1_000, 0.99)] {
            let truth = -(1.0_f64 - p).ln();
            let held = coverage(n, p, exponential, truth);
            assert!((0.92..=0.985).contains(&held), "n {n}, p {p}: {held}");
        }
    }

    #[test]
    fn intervals_of_a_queue_hold_the_truth_too() {
        // An autoregressive series with a correlation of 0.8, whose median is 0.
        let draw = |rng: &mut Rng, n: usize| {
            let mut at = 0.0;
            (0..n)
                .map(|_| {
                    let normal = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
                    at = 0.8 * at + 0.6 * normal;
                    at
                })
                .collect()
        };
        let held = coverage(600, 0.5, draw, 0.0);
        assert!((0.90..=0.985).contains(&held), "{held}");
    }

    #[test]
    fn a_side_that_nothing_bounds_is_left_out() {
        for (n, p) in [(6, 0.5), (36, 0.9), (72, 0.95), (368, 0.99)] {
            assert!(side_ranks(n, p).1.is_some() && side_ranks(n - 1, p).1.is_none(), "{n}");
        }
        assert_eq!(side_ranks(24, 0.5), (Some(7), Some(18)), "three days of probes");
    }

    #[test]
    fn wilson_is_wilson() {
        let estimate = share_estimate(0.9, 100.0);
        let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
        assert!((low - 0.8256).abs() < 1e-3 && (high - 0.9448).abs() < 1e-3, "{low} {high}");
        assert!(share_estimate(1.0, 10.0).high.unwrap() > 1.0 - 1e-9);
    }

    #[test]
    fn equal_values_are_independent() {
        assert_eq!(effective_samples(&[std::f64::consts::LN_2; 50]), 50.0);
        assert_eq!(effective_samples(&[0.0; 50]), 50.0);
    }

    #[test]
    fn a_slow_beginning_is_warm_up() {
        let mut series = vec![900.0; 12];
        let mut rng = Rng::with_seed(1);
        series.extend((0..100).map(|_| 100.0 + rng.f64()));
        assert!((10..=40).contains(&warm_up(&series)), "{}", warm_up(&series));
        assert_eq!(warm_up(&vec![1.0; 100]), 0);
        assert_eq!(warm_up(&[9.0, 1.0, 1.0]), 0);
    }

    #[test]
    fn a_growing_backlog_has_a_slope() {
        let times: Vec<f64> = (0..40).map(f64::from).collect();
        let mut rng = Rng::with_seed(5);
        let grows: Vec<f64> = times.iter().map(|time| 3.0 * time + rng.f64() * 20.0).collect();
        let flat: Vec<f64> = times.iter().map(|_| rng.f64() * 20.0).collect();
        assert!(slope(&times, &grows).unwrap().low.unwrap() > 2.0);
        assert!(slope(&times, &flat).unwrap().low.unwrap() < 0.0);
        assert_eq!(slope(&times[..7], &flat[..7]), None);
    }
}
