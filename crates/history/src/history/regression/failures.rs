//! Tests whether a larger share of attempts fails now, given the failures of each stratum: exact (Fisher) if few
//! failures are expected on a side, otherwise Mantel–Haenszel with continuity correction.
//!
//! Not for first tokens or speed: `log_rank` and `rank_sum` test them.

use super::normal;
use super::strata::RegressionStratum;

/// From this variance of the failures now, the test uses the normal distribution. Its skewness is then at most 1/50, so
/// a p-value at four standard deviations is at most a fifth too small. Below it, the multiplied distributions have at
/// most a thousand values.
const NORMAL_FROM: f64 = 2_500.0;
/// Chances below this, relative to the most likely value, are ignored. It is also the smallest p-value.
const NEGLIGIBLE: f64 = 1e-20;

/// The strata with attempts on both sides.
#[derive(Clone, Debug)]
pub struct Failures(Vec<FailureTable>);

#[derive(Clone, Copy, Debug)]
struct FailureTable {
    attempts_before: u64,
    failed_before: u64,
    attempts_now: u64,
    failed_now: u64,
}

/// The chance of each number from `first` on, relative to the others.
#[derive(Clone, Debug)]
struct Chances {
    first: u64,
    chances: Vec<f64>,
}

impl Failures {
    pub fn new(strata: &[RegressionStratum<'_>]) -> Failures {
        let tables = strata.iter().map(|RegressionStratum { before, now }| FailureTable {
            attempts_before: before.attempts,
            failed_before: before.failures.min(before.attempts),
            attempts_now: now.attempts,
            failed_now: now.failures.min(now.attempts),
        });
        Failures(tables.filter(|table| table.attempts_before > 0 && table.attempts_now > 0).collect())
    }

    /// Shares of failed attempts before and now, 0 to 1; `before` is weighted to the current strata. None without
    /// attempts.
    pub fn shares(&self) -> Option<(f64, f64)> {
        let attempts = self.sum(|table| table.attempts_now) as f64;
        let before = |table: &FailureTable| table.failed_before as f64 / table.attempts_before as f64;
        let expected: f64 = self.0.iter().map(|table| table.attempts_now as f64 * before(table)).sum();
        (attempts > 0.0).then(|| (expected / attempts, self.sum(|table| table.failed_now) as f64 / attempts))
    }

    /// Attempts on the smaller side.
    pub fn attempts_min(&self) -> u64 {
        self.sum(|table| table.attempts_before).min(self.sum(|table| table.attempts_now))
    }

    /// The chance of at least as many failures now if the sides did not differ, doubled for a two-sided test.
    pub fn p_value(&self) -> f64 {
        let variance = self.variance();
        if variance < NORMAL_FROM { (2.0 * self.exact()).min(1.0) } else { self.approximate(variance) }
    }

    /// The distribution of the sum over strata is the convolution of their distributions.
    fn exact(&self) -> f64 {
        let all = self.0.iter().fold(Chances { first: 0, chances: vec![1.0] }, |all, table| all.plus(&table.chances()));
        let observed = self.sum(|table| table.failed_now);
        let beyond = observed.saturating_sub(all.first) as usize;
        let chance = all.chances.iter().skip(beyond).sum::<f64>() / all.chances.iter().sum::<f64>();
        chance.max(NEGLIGIBLE)
    }

    fn approximate(&self, variance: f64) -> f64 {
        let excess: f64 = self.0.iter().map(|table| table.failed_now as f64 - table.expected()).sum();
        normal::two_sided((excess - 0.5).max(0.0) / variance.sqrt())
    }

    fn variance(&self) -> f64 {
        self.0.iter().map(FailureTable::variance).sum()
    }

    fn sum(&self, part: fn(&FailureTable) -> u64) -> u64 {
        self.0.iter().map(part).sum()
    }
}

impl FailureTable {
    fn attempts(&self) -> u64 {
        self.attempts_before + self.attempts_now
    }

    fn failed(&self) -> u64 {
        self.failed_before + self.failed_now
    }

    /// Expected failures now if the sides did not differ.
    fn expected(&self) -> f64 {
        self.failed() as f64 * self.attempts_now as f64 / self.attempts() as f64
    }

    fn variance(&self) -> f64 {
        let (all, failed) = (self.attempts() as f64, self.failed() as f64);
        self.expected() * (self.attempts_before as f64 / all) * (all - failed) / (all - 1.0)
    }

    /// Variance of the failures now: hypergeometric.
    fn chances(&self) -> Chances {
        let least = self.failed().saturating_sub(self.attempts_before);
        let most = self.failed().min(self.attempts_now);
        let mode = (self.expected() as u64).clamp(least, most);
        let steps = |now: u64, step: &dyn Fn(u64) -> Option<(u64, f64)>| {
            let chances = std::iter::successors(Some((now, 1.0)), |(now, chance)| {
                step(*now).map(|(next, times)| (next, chance * times)).filter(|(_, chance)| *chance >= NEGLIGIBLE)
            });
            chances.skip(1).map(|(_, chance)| chance).collect::<Vec<f64>>()
        };
        let above = steps(mode, &|now| (now < most).then(|| (now + 1, self.step(now))));
        let below = steps(mode, &|now| (now > least).then(|| (now - 1, 1.0 / self.step(now - 1))));
        let first = mode - below.len() as u64;
        Chances { first, chances: below.into_iter().rev().chain([1.0]).chain(above).collect() }
    }

    /// The chance of one more failure now, over the chance of `now` failures.
    fn step(&self, now: u64) -> f64 {
        let ways = (self.attempts_now - now) as f64 * (self.failed() - now) as f64;
        ways / ((now + 1) as f64 * (self.attempts_before + now + 1 - self.failed()) as f64)
    }
}

impl Chances {
    /// The distribution of a sum of two numbers.
    fn plus(&self, other: &Chances) -> Chances {
        let mut sum = vec![0.0; self.chances.len() + other.chances.len() - 1];
        for (i, chance) in self.chances.iter().enumerate() {
            other.chances.iter().enumerate().for_each(|(j, other)| sum[i + j] += chance * other);
        }
        let negligible = sum.iter().copied().fold(0.0, f64::max) * NEGLIGIBLE;
        let below = sum.iter().take_while(|chance| **chance < negligible).count();
        let above = sum.iter().rev().take_while(|chance| **chance < negligible).count();
        Chances { first: self.first + other.first + below as u64, chances: sum[below..sum.len() - above].to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::strata::Sample;
    use super::*;

    fn failures(tables: &[[u64; 4]]) -> Failures {
        let sample = |attempts, failures| Sample { attempts, failures, ..Sample::default() };
        let strata = tables.iter().map(|&[attempts_before, failed_before, attempts_now, failed_now]| {
            RegressionStratum { before: sample(attempts_before, failed_before), now: sample(attempts_now, failed_now) }
        });
        Failures::new(&strata.collect::<Vec<_>>())
    }

    /// The lady who tasted three of four cups right: Fisher, The Design of Experiments (1935), chapter 2: 17 of 70.
    #[test]
    fn the_tea_of_fisher() {
        let test = failures(&[[4, 1, 4, 3]]);
        assert!((test.exact() - 17.0 / 70.0).abs() < 1e-12, "{}", test.exact());
        // Two such ladies, with 6 or more right, from 1, 16, 36, 16 and 1 ways each.
        let both = failures(&[[4, 1, 4, 3], [4, 1, 4, 3]]);
        assert!((both.exact() - (256.0 + 2.0 * 36.0 + 2.0 * 16.0 + 1.0) / 4_900.0).abs() < 1e-12, "{}", both.exact());
    }

    /// Admission to Berkeley by department (Bickel, Hammel and O'Connell, Science 187, 1975): over all departments men
    /// seem favoured, within the departments they are not. The statistic of Mantel and Haenszel is 1.4269, corrected
    /// for continuity.
    #[test]
    fn the_admissions_of_berkeley() {
        let test = failures(&[
            [825, 512, 108, 89],
            [560, 353, 25, 17],
            [325, 120, 593, 202],
            [417, 138, 375, 131],
            [191, 53, 393, 94],
            [373, 22, 341, 24],
        ]);
        let together = failures(&[[1835, 557, 2691, 1198]]);
        assert!((test.approximate(test.variance()) - 0.232_263).abs() < 1e-6, "{}", test.approximate(test.variance()));
        assert!((test.p_value() - 0.2323).abs() < 1e-3, "{}", test.p_value());
        assert!(together.p_value() < 1e-18, "{}", together.p_value());
        let (men, women) = test.shares().unwrap();
        assert!((women - 557.0 / 1_835.0).abs() < 1e-12 && men < women, "{men} {women}");
    }

    #[test]
    fn the_exact_and_the_approximate_agree_where_they_meet() {
        for table in [[100_000, 10_000, 30_000, 3_140], [400_000, 50_000, 3_300, 450], [9_000, 4_100, 9_000, 4_300]] {
            let test = failures(&[table, table.map(|count| count / 2)]);
            let variance = test.variance();
            assert!((500.0..6_000.0).contains(&variance), "{variance}");
            let ratio = (2.0 * test.exact()).min(1.0) / test.approximate(variance);
            assert!((0.8..1.25).contains(&ratio), "{table:?}: {ratio} of {}", test.exact());
        }
    }

    /// 30 attempts, each failing with the failure rate of the many attempts before: P(X ≥ 4) = 0.0029 for 2 %.
    #[test]
    fn few_attempts_against_many_are_exact() {
        let test = failures(&[[1_000_000, 20_000, 30, 4]]);
        let miss = |k: i32, ways: f64| ways * 0.02_f64.powi(k) * 0.98_f64.powi(30 - k);
        let binomial = 1.0 - miss(0, 1.0) - miss(1, 30.0) - miss(2, 435.0) - miss(3, 4_060.0);
        assert!((test.p_value() / (2.0 * binomial) - 1.0).abs() < 0.01, "{} {binomial}", test.p_value());
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(failures(&[[0, 0, 9, 9], [9, 0, 0, 0]]).shares(), None);
        assert_eq!(failures(&[[9, 0, 9, 0]]).p_value(), 1.0);
        assert_eq!(failures(&[[9, 9, 9, 9]]).p_value(), 1.0);
    }
}
