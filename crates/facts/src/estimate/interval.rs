//! The interval of a quantile by ranks: it asks nothing of the distribution. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What each side of an interval leaves out: two-sided 95 %.
const TAIL: f64 = 0.025;

/// The least number of values for a p99: of as many, two lie above it with 99 % confidence (MLPerf Endpoints).
const P99_LEAST: usize = 662;

/// Why a quantile is left out: it has `n` values and needs `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsufficientSample {
    pub n: usize,
    pub of: usize,
}

impl fmt::Display for InsufficientSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "insufficient: {} of {}", self.n, self.of)
    }
}

/// Why `n` values bear no p99; None if they do.
pub fn insufficient_for_p99(n: usize) -> Option<InsufficientSample> {
    (n < P99_LEAST).then_some(InsufficientSample { n, of: P99_LEAST })
}

/// Nearest-rank quantile of sorted values: the smallest that at least this share of them does not exceed.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Values from which on the quantile `p` has bounds of 95 % on both sides.
pub fn values_needed(p: f64) -> usize {
    (TAIL.ln() / p.max(1.0 - p).ln()).ceil() as usize
}

/// The ranks, from 1, of the two values between which the quantile `p` of `n` independent values lies with 95 %. None if
/// `n` is too small to bound both sides: below [`values_needed`].
pub fn quantile_ranks(n: usize, p: f64) -> Option<(usize, usize)> {
    let (low, high) = side_ranks(n, p);
    low.zip(high)
}

/// The same, each side for itself: a few values may bound one side alone.
pub fn side_ranks(n: usize, p: f64) -> (Option<usize>, Option<usize>) {
    if !(0.0 < p && p < 1.0) || n == 0 {
        return (None, None);
    }
    let (mut below, mut low, mut high) = (0.0, None, None);
    // By logarithms: (1 − p)ⁿ is 0 for large n.
    let mut term = n as f64 * (1.0 - p).ln();
    for k in 0..=n {
        // `below`: the probability that fewer than `k` values lie below the quantile.
        if k >= 1 && below <= TAIL {
            low = Some(k);
        }
        below += term.exp();
        if k < n && below >= 1.0 - TAIL {
            high = Some(k + 1);
            break;
        }
        term += ((n - k) as f64 / (k + 1) as f64).ln() + p.ln() - (1.0 - p).ln();
    }
    (low, high)
}

/// A quantile between its bounds of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedQuantile {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The quantile of weighted values, sorted. Weights count by their effective number, (Σw)² / Σw² (Kish). None if that is too small
/// to bound both sides: see [`quantile_ranks`].
pub fn weighted_quantile(sorted: &[(f64, f64)], p: f64) -> Option<RankedQuantile> {
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let squares: f64 = sorted.iter().map(|(_, weight)| weight * weight).sum();
    // Equal weights have the effective number of their count, but for rounding.
    let effective = (total * total / squares.max(f64::MIN_POSITIVE) + 1e-6) as usize;
    let (low, high) = quantile_ranks(effective, p)?;
    let at = |share: f64| {
        let mut sum = 0.0;
        let reaches = |(_, weight): &&(f64, f64)| {
            sum += weight;
            sum >= share * total * (1.0 - 1e-9)
        };
        sorted.iter().find(reaches).or(sorted.last()).map(|(value, _)| *value)
    };
    let of_rank = |rank: usize| at(rank as f64 / effective as f64);
    Some(RankedQuantile { value: at(p)?, low: of_rank(low)?, high: of_rank(high)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn so_many_values_bound_a_quantile() {
        for (p, least) in [(0.5, 6), (0.9, 36), (0.1, 36), (0.95, 72), (0.05, 72), (0.99, 368)] {
            assert_eq!(values_needed(p), least, "{p}");
            assert_eq!(quantile_ranks(least - 1, p), None, "p{p} of {}", least - 1);
            assert!(quantile_ranks(least, p).is_some(), "p{p} of {least}");
        }
        // Of 72 hours, 24 probes; as in tables of the binomial distribution.
        assert_eq!(quantile_ranks(24, 0.5), Some((7, 18)));
        assert_eq!(quantile_ranks(100, 0.5), Some((40, 61)));
        assert_eq!((quantile_ranks(0, 0.5), quantile_ranks(9, 0.0), quantile_ranks(9, f64::NAN)), (None, None, None));
    }

    #[test]
    fn equal_weights_are_ranks_and_heavy_ones_count_for_less() {
        let equal: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), 50.0)).collect();
        let median = RankedQuantile { value: 50.0, low: 40.0, high: 61.0 };
        assert_eq!(weighted_quantile(&equal, 0.5), Some(median));
        assert_eq!((weighted_quantile(&equal[..5], 0.5), weighted_quantile(&equal[..71], 0.95)), (None, None));
        assert!(weighted_quantile(&equal[..6], 0.5).is_some() && weighted_quantile(&equal[..72], 0.95).is_some());
        let uneven: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), if n > 90 { 90.0 } else { 10.0 })).collect();
        let median = weighted_quantile(&uneven, 0.5).unwrap();
        assert_eq!(median.value, 90.0, "ten of them are half of all");
        assert!(median.low < 70.0 && median.high > 93.0, "{median:?}");
        assert_eq!(weighted_quantile(&[], 0.5), None);
    }

    #[test]
    fn a_p99_needs_two_values_above_it_with_99_percent() {
        let at_most_one = |n: i32| 0.99_f64.powi(n) + f64::from(n) * 0.01 * 0.99_f64.powi(n - 1);
        assert!(at_most_one(662) <= 0.01 && at_most_one(661) > 0.01);
        assert_eq!(insufficient_for_p99(662), None);
        assert_eq!(insufficient_for_p99(661).unwrap().to_string(), "insufficient: 661 of 662");
    }

    proptest! {
        /// The share of samples whose interval holds the quantile is at least 95 %, counted exactly.
        #[test]
        fn it_holds_the_quantile_with_95_percent(n in 6_usize..600, p in 0.05..0.95_f64) {
            if let Some((low, high)) = quantile_ranks(n, p) {
                prop_assert!(1 <= low && low < high && high <= n);
                // P(low ≤ values below the quantile < high).
                let mut term = n as f64 * (1.0 - p).ln();
                let mut covered = 0.0;
                for k in 0..=n {
                    if (low..high).contains(&k) {
                        covered += term.exp();
                    }
                    if k < n {
                        term += ((n - k) as f64 / (k + 1) as f64).ln() + p.ln() - (1.0 - p).ln();
                    }
                }
                prop_assert!(covered >= 0.95 - 1e-9, "{covered}");
                // The next narrower interval does not: it would leave out too much on one side.
                prop_assert!(covered < 1.0);
            }
        }
    }
}
