//! When the requests of an open loop arrive. All times are drawn before a stage begins, and nothing moves them later.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Arrivals of one stage at most: their times are in memory.
pub const ARRIVALS_MAX: usize = 2_000_000;

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// A Poisson process: gaps are exponential, as of many users who know nothing of each other.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

impl Arrivals {
    /// Microseconds after the beginning of the stage, rising, until `length` is over or there are `most`. The gaps of a
    /// Poisson process are not rescaled afterwards, so the rate that was drawn differs from `rate` as it does in nature.
    pub fn draw(self, rate: f64, length: Duration, most: usize, seed: u64) -> Vec<i64> {
        let mut rng = Rng::with_seed(seed);
        let (end, gap) = (length.as_micros() as f64, 1e6 / rate);
        let mut at = 0.0;
        let mut times = Vec::new();
        while times.len() < most.min(ARRIVALS_MAX) {
            at += match self {
                Arrivals::Poisson => -(1.0 - rng.f64()).ln() * gap,
                Arrivals::Constant if times.is_empty() => 0.0,
                Arrivals::Constant => gap,
            };
            if at >= end {
                break;
            }
            times.push(at as i64);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gaps_begin_at_once() {
        let times = Arrivals::Constant.draw(4.0, Duration::from_secs(1), usize::MAX, 1);
        assert_eq!(times, [0, 250_000, 500_000, 750_000]);
        assert_eq!(Arrivals::Constant.draw(4.0, Duration::from_secs(1), 2, 1).len(), 2);
    }

    #[test]
    fn a_poisson_process_has_its_rate_its_variance_and_its_seed() {
        let of = |seed| Arrivals::Poisson.draw(100.0, Duration::from_secs(100), usize::MAX, seed);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let counts: Vec<f64> = (0..200).map(|seed| of(seed).len() as f64).collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        // The mean of 200 draws of 10,000 lies within 5 standard errors; a rescaled process has no variance at all.
        assert!((mean - 10_000.0).abs() < 36.0, "{mean}");
        assert!((0.6..1.5).contains(&(variance / 10_000.0)), "{variance}");
        assert!(of(3).is_sorted());
    }
}
