//! The rank-sum test (Wilcoxon, Mann and Whitney) for counted values, summed over strata (van Elteren 1960): are
//! current values more often above earlier values than below them?
//!
//! Not for censored times: they need `log_rank`.

use super::strata::RegressionStratum;

/// Sums over the strata with values on both sides.
#[derive(Clone, Debug, Default)]
pub struct RankSum {
    /// Pairs won by the side of now, less the expected number, and the variance; weighted by stratum.
    excess: f64,
    variance: f64,
    samples_before: u64,
    samples_now: u64,
    /// (value, weight); `before` is weighted to the current strata.
    before: Vec<(f64, f64)>,
    now: Vec<(f64, f64)>,
}

/// Count of one value on each side.
#[derive(Clone, Copy, Debug)]
struct TiedValues {
    value: f64,
    before: u64,
    now: u64,
}

pub fn rank_sum(strata: &[RegressionStratum<'_>]) -> RankSum {
    let mut test = RankSum::default();
    for stratum in strata {
        let before = stratum.before.tpot.iter().map(|&(value, before)| TiedValues { value, before, now: 0 });
        let now = stratum.now.tpot.iter().map(|&(value, now)| TiedValues { value, before: 0, now });
        let mut values: Vec<TiedValues> = before.chain(now).collect();
        values.sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
        test.add(&values);
    }
    test
}

impl RankSum {
    /// In standard deviations. Above zero, values are larger now.
    pub fn z(&self) -> f64 {
        if self.variance > 0.0 { self.excess / self.variance.sqrt() } else { 0.0 }
    }

    /// Number of values on the smaller side.
    pub fn samples_min(&self) -> u64 {
        self.samples_before.min(self.samples_now)
    }

    /// Medians before and now. None without values.
    pub fn medians(mut self) -> Option<(f64, f64)> {
        Some((median(&mut self.before)?, median(&mut self.now)?))
    }

    /// `values` are sorted.
    fn add(&mut self, values: &[TiedValues]) {
        let samples_before: u64 = values.iter().map(|tied| tied.before).sum();
        let samples_now: u64 = values.iter().map(|tied| tied.now).sum();
        if samples_before == 0 || samples_now == 0 {
            return;
        }
        let (n_before, n_now) = (samples_before as f64, samples_now as f64);
        let all = n_before + n_now;
        let (mut below, mut won, mut ties) = (0.0, 0.0, 0.0);
        for group in values.chunk_by(|a, b| a.value.total_cmp(&b.value).is_eq()) {
            let before = group.iter().map(|tied| tied.before as f64).sum::<f64>();
            let now = group.iter().map(|tied| tied.now as f64).sum::<f64>();
            won += now * (below + before / 2.0);
            below += before;
            ties += (before + now).powi(3) - (before + now);
        }
        let weight = 1.0 / (all + 1.0);
        self.excess += weight * (won - n_before * n_now / 2.0);
        self.variance += weight * weight * n_before * n_now / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
        self.samples_before += samples_before;
        self.samples_now += samples_now;
        let factor = n_now / n_before;
        self.before.extend(values.iter().map(|tied| (tied.value, tied.before as f64 * factor)));
        self.now.extend(values.iter().map(|tied| (tied.value, tied.now as f64)));
    }
}

/// The smallest value that at least half of the weight does not exceed.
fn median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut seen = 0.0;
    let middle = values.iter().find(|(_, weight)| {
        seen += weight;
        *weight > 0.0 && seen >= half * (1.0 - 1e-9)
    });
    middle.map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::super::strata::Sample;
    use super::*;

    fn stratum<'a>(before: &'a [(f64, u64)], now: &'a [(f64, u64)]) -> RegressionStratum<'a> {
        let sample = |tpot| Sample { tpot, ..Sample::default() };
        RegressionStratum { before: sample(before), now: sample(now) }
    }

    /// Permeability of membranes: Hollander and Wolfe, Nonparametric Statistical Methods (1973), page 69. Of the 50 pairs
    /// 35 are larger at term; variance 5 × 10 × 16 / 12.
    #[test]
    fn the_membranes_of_hollander_and_wolfe() {
        let early = [1.15, 0.88, 0.90, 0.74, 1.21].map(|value| (value, 1));
        let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46].map(|value| (value, 1));
        let test = rank_sum(&[stratum(&early, &at_term)]);
        assert!((test.z() - (35.0 - 25.0) / (200.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{}", test.z());
        assert_eq!(test.samples_min(), 5);
        assert_eq!(test.medians(), Some((0.90, 1.38)));
    }

    /// Before 1, 1, 2; now 2, 2, 3: of nine pairs now wins 7 and ties 2. Groups of 2, 3 and 1: Σ(t³−t) = 30, so the
    /// variance is 9/12 × (7 − 30/30).
    #[test]
    fn ties_count_half_and_lessen_the_variance() {
        let test = rank_sum(&[stratum(&[(2.0, 1), (1.0, 2)], &[(2.0, 2), (3.0, 1)])]);
        assert!((test.z() - (8.0 - 4.5) / 4.5_f64.sqrt()).abs() < 1e-12, "{}", test.z());
        let same = rank_sum(&[stratum(&[(1.0, 5)], &[(1.0, 5)])]);
        assert_eq!(same.z(), 0.0);
    }

    #[test]
    fn strata_are_compared_within() {
        // Each stratum is unchanged; only their shares have changed.
        let (quick, slow) = ([(1.0, 10), (2.0, 10)], [(8.0, 10), (9.0, 10)]);
        let (few, many) = (quick.map(|(value, _)| (value, 2)), slow.map(|(value, _)| (value, 100)));
        let test = rank_sum(&[stratum(&quick, &few), stratum(&slow, &many), stratum(&[], &[(99.0, 1_000)])]);
        assert_eq!((test.z(), test.samples_min()), (0.0, 40));
        assert_eq!(test.medians(), Some((8.0, 8.0)));
    }
}
