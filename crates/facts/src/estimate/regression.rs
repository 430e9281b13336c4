//! Tests whether an upstream is worse now than in the same hours before: later first tokens, slower decoding, more
//! failures.
//!
//! Pure statistics (`docs/measurement.md`, "Regressions"). Not for choosing the attempts and strata
//! (`report::regressions`) or for wording a finding (`cli`).

#[cfg(test)]
mod tests;

use super::survival::SurvivalPoint;
use photofinish_config::config::names::names;

names! {
    /// The tested figures of an upstream.
    #[derive(PartialOrd, Ord)]
    pub enum TestedFigure {
        Ttft = "ttft",
        Tpot = "tpot",
        Failures = "failures",
    }
}

/// The smallest differences worth reporting. A finding must pass all that apply to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// TTFT and TPOT: the increase, as a share of the earlier value.
    pub effect: f64,
    /// The increase of the share of failed attempts, 0 to 1.
    pub failures: f64,
    /// Accepted chance of any false report, over all upstreams and figures; 0 to 1.
    pub significance: f64,
    /// Minimum on each side. TTFT: expected events if nothing had changed, in equal weights. TPOT and failures:
    /// attempts.
    pub events_min: usize,
}

/// A figure that is worse now. Each `p_value` is two-sided and corrected for all comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    Ttft {
        /// The median or, if that is not late enough, the 90th percentile. None if too few first tokens were seen for a
        /// quantile; then only the hazard ratio shows the effect.
        shift: Option<Shift>,
        /// Rate of first tokens at equal waiting times, now over before: below 1 is slower.
        hazard_ratio: f64,
        p_value: f64,
    },
    Tpot {
        /// Medians in microseconds.
        before_us: f64,
        now_us: f64,
        p_value: f64,
    },
    Failures {
        /// Shares of the attempts, 0 to 1.
        before: f64,
        now: f64,
        p_value: f64,
    },
}

/// The figures of one upstream that are worse now. `upstreams`: the number of upstreams compared together; the more,
/// the stronger each finding must be. Improvements are not reported. To find them, exchange `before` and `now`.
pub fn compare(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, upstreams: usize) -> Vec<Finding> {
    // Bonferroni: an upper bound for the chance of an error, whether or not the tests depend on each other.
    let correct = |p_value: f64| (p_value * TestedFigure::ALL.len() as f64 * upstreams.max(1) as f64).min(1.0);
    let findings = [
        ttft(strata, thresholds, &correct),
        tpot(strata, thresholds, &correct),
        failures(strata, thresholds, &correct),
    ];
    findings.into_iter().flatten().collect()
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { effect: 0.25, failures: 0.05, significance: 0.001, events_min: 20 }
    }
}

impl Finding {
    pub fn figure(&self) -> TestedFigure {
        match self {
            Finding::Ttft { .. } => TestedFigure::Ttft,
            Finding::Tpot { .. } => TestedFigure::Tpot,
            Finding::Failures { .. } => TestedFigure::Failures,
        }
    }

    /// Two-sided and corrected for all comparisons.
    pub fn p_value(&self) -> f64 {
        match self {
            Finding::Ttft { p_value, .. } | Finding::Tpot { p_value, .. } | Finding::Failures { p_value, .. } => {
                *p_value
            }
        }
    }
}

/// The test, and its p-value if it says that times are longer now.
fn longer(
    strata: &[RegressionStratum<'_>],
    times: TimesOf,
    thresholds: &Thresholds,
    correct: &dyn Fn(f64) -> f64,
) -> Option<(LogRank, f64)> {
    let test = log_rank(strata, times);
    let p_value = correct(two_sided(test.z()));
    (test.z() < 0.0 && p_value <= thresholds.significance).then_some((test, p_value))
}

fn ttft(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, correct: &dyn Fn(f64) -> f64) -> Option<Finding> {
    let (test, p_value) = longer(strata, of_ttft, thresholds, correct)?;
    if test.effective_events() < thresholds.events_min as f64 {
        return None;
    }
    let (shifts, hazard_ratio, enough) = (shifts(strata, of_ttft), test.hazard_ratio(), 1.0 + thresholds.effect);
    let shift = shifts.iter().copied().find(|shift| shift.ratio() >= enough);
    let worse = shift.is_some() || shifts.is_empty() && hazard_ratio <= 1.0 / enough;
    worse.then_some(Finding::Ttft { shift, hazard_ratio, p_value })
}

fn tpot(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, correct: &dyn Fn(f64) -> f64) -> Option<Finding> {
    let attempts = |side: fn(&RegressionStratum<'_>) -> f64| strata.iter().map(side).sum::<f64>();
    let fewer = attempts(|stratum| watched(stratum.before.tpot)).min(attempts(|stratum| watched(stratum.now.tpot)));
    if fewer < thresholds.events_min as f64 {
        return None;
    }
    let (_, p_value) = longer(strata, of_tpot, thresholds, correct)?;
    let median = shifts(strata, of_tpot).into_iter().find(|shift| shift.share <= 0.5)?;
    let [before_us, now_us] = [median.before_us, median.now_us].map(|ns| ns as f64 / 1e3);
    (median.ratio() >= 1.0 + thresholds.effect).then_some(Finding::Tpot { before_us, now_us, p_value })
}

fn failures(
    strata: &[RegressionStratum<'_>],
    thresholds: &Thresholds,
    correct: &dyn Fn(f64) -> f64,
) -> Option<Finding> {
    let test = Failures::new(strata);
    let (before, now) = test.shares()?;
    if test.attempts_min() < thresholds.events_min as u64 || now <= before || now - before < thresholds.failures {
        return None;
    }
    let p_value = correct(test.p_value());
    (p_value <= thresholds.significance).then_some(Finding::Failures { before, now, p_value })
}

/// Attempts of one upstream under similar conditions (an hour of the day, an input class), before and now. A stratum
/// with attempts on only one side gives no information and is left out.
#[derive(Clone, Copy, Debug)]
pub struct RegressionStratum<'a> {
    pub before: Sample<'a>,
    pub now: Sample<'a>,
}

/// The observations on one side of one stratum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// TTFT in any order. Both sides use the same grid: exact times on one side would differ from buckets on the other
    /// by the width of a bucket.
    pub ttft: &'a [SurvivalPoint],
    /// The same points with every attempt's weight squared, for the variance. If all weights are 1: the same slice.
    pub ttft_squares: &'a [SurvivalPoint],
    /// Time per output token in nanoseconds, an event for each attempt; in any order.
    pub tpot: &'a [SurvivalPoint],
    /// Number of attempts that count for failures.
    pub attempts: u64,
    /// Number of these attempts that failed.
    pub failures: u64,
}

/// One side at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchedSide {
    /// Weight of the attempts that have no first token yet.
    pub at_risk: f64,
    /// Sum of their squared weights.
    pub squares: f64,
    pub events: f64,
}

/// Both sides at a time with an event.
#[derive(Clone, Copy, Debug)]
pub struct EventTime {
    pub time_us: i64,
    pub before: WatchedSide,
    pub now: WatchedSide,
}

/// Sums over the strata.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRank {
    /// Observed events on the side of now.
    pub observed: f64,
    /// Expected events now and before if the sides did not differ.
    pub expected: f64,
    pub expected_before: f64,
    /// Variance of `observed` if the sides did not differ.
    pub variance: f64,
    /// The variance if every weight were 1.
    plain_variance: f64,
    /// The two sums of the Mantel–Haenszel ratio.
    ratio_now: f64,
    ratio_before: f64,
}

/// Times of a sample, and the same with every attempt's weight squared.
type TimesOf = for<'a> fn(&Sample<'a>) -> [&'a [SurvivalPoint]; 2];

fn of_ttft<'a>(sample: &Sample<'a>) -> [&'a [SurvivalPoint]; 2] {
    [sample.ttft, sample.ttft_squares]
}

/// Every weight is 1.
fn of_tpot<'a>(sample: &Sample<'a>) -> [&'a [SurvivalPoint]; 2] {
    [sample.tpot, sample.tpot]
}

fn log_rank(strata: &[RegressionStratum<'_>], times: TimesOf) -> LogRank {
    let mut test = LogRank::default();
    for stratum in strata {
        moments(std::iter::once((stratum, 1.0)), times).iter().for_each(|moment| test.add(moment));
    }
    test
}

/// Merges the times of several strata. Each stratum has a factor for the weights of its `before`.
fn moments<'a>(strata: impl Iterator<Item = (&'a RegressionStratum<'a>, f64)>, times: TimesOf) -> Vec<EventTime> {
    let mut flows: Vec<(usize, SurvivalPoint)> = Vec::new();
    for (stratum, factor) in strata {
        let ([before, before_squares], [now, now_squares]) = (times(&stratum.before), times(&stratum.now));
        let columns = [(before, factor), (before_squares, factor * factor), (now, 1.0), (now_squares, 1.0)];
        for (column, (points, factor)) in columns.into_iter().enumerate() {
            flows.extend(points.iter().map(|point| (column, point.times(factor))));
        }
    }
    flows.sort_unstable_by_key(|(_, point)| point.time_us);
    let mut at_risk = [0.0; 4];
    flows.iter().for_each(|(column, point)| at_risk[*column] += point.watched());
    let mut moments = Vec::new();
    for group in flows.chunk_by(|(_, a), (_, b)| a.time_us == b.time_us) {
        group.iter().for_each(|(column, point)| at_risk[*column] -= point.leave_before);
        let mut events = [0.0; 4];
        group.iter().for_each(|(column, point)| events[*column] += point.events);
        if events[0] > 0.0 || events[2] > 0.0 {
            // Sums of weights differ from zero by a few units in the last place.
            let side = |first: usize| WatchedSide {
                at_risk: at_risk[first].max(events[first]).max(0.0),
                squares: at_risk[first + 1].max(events[first + 1]).max(0.0),
                events: events[first],
            };
            moments.push(EventTime { time_us: group[0].1.time_us, before: side(0), now: side(2) });
        }
        group.iter().for_each(|(column, point)| at_risk[*column] -= point.watched() - point.leave_before);
    }
    moments
}

/// Weight observed from the beginning.
fn watched(points: &[SurvivalPoint]) -> f64 {
    points.iter().map(SurvivalPoint::watched).sum()
}

impl WatchedSide {
    /// Number of equal weights with the same information (Kish 1965).
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.at_risk * self.at_risk / self.squares } else { 0.0 }
    }
}

impl LogRank {
    /// In standard deviations. Below zero, fewer first tokens came now than expected: they are later.
    pub fn z(&self) -> f64 {
        if self.variance > 0.0 { (self.observed - self.expected) / self.variance.sqrt() } else { 0.0 }
    }

    /// Hazard now over before; 1 if there is nothing to compare.
    pub fn hazard_ratio(&self) -> f64 {
        if self.ratio_now == self.ratio_before { 1.0 } else { self.ratio_now / self.ratio_before }
    }

    /// Expected events of the smaller side, in equal weights: decides whether the normal distribution is accurate
    /// enough. Observed events would not do: an upstream that hardly ever wins any more has none.
    pub fn effective_events(&self) -> f64 {
        if self.variance <= 0.0 {
            return 0.0;
        }
        self.expected.min(self.expected_before) * self.plain_variance / self.variance
    }

    /// A weight is fixed before the time at which it counts (audits are drawn at the cut). So observed − expected is a
    /// martingale if the sides do not differ, and its variance is the sum over the attempts at risk of (weight ×
    /// distance from the mean)² × hazard. With weights of one this is the hypergeometric variance, ties included.
    fn add(&mut self, moment: &EventTime) {
        let EventTime { before, now, .. } = moment;
        if before.at_risk <= 0.0 || now.at_risk <= 0.0 {
            return;
        }
        let at_risk = before.at_risk + now.at_risk;
        let events = before.events + now.events;
        let (of_now, of_before) = (now.at_risk / at_risk, before.at_risk / at_risk);
        self.observed += now.events;
        self.expected += events * of_now;
        self.expected_before += events * of_before;
        self.ratio_now += now.events * of_before;
        self.ratio_before += before.events * of_now;
        let both = WatchedSide { at_risk, squares: before.squares + now.squares, events };
        let effective = both.effective().max(2.0);
        let hazard = (events / at_risk).min(1.0);
        let spread = hazard * (1.0 - hazard) * effective / (effective - 1.0);
        self.variance += (of_before.powi(2) * now.squares + of_now.powi(2) * before.squares) * spread;
        self.plain_variance += of_now * of_before * at_risk * spread;
    }
}

/// A curve ends where fewer equal weights are at risk: a single attempt would move it too far.
const AT_RISK_MIN: f64 = 10.0;
/// Below this share, a few early events decide the result.
const SHARE_MIN: f64 = 0.1;
/// Sums and products of many factors differ from round shares by a few units in the last place.
const ROUNDING: f64 = 1e-9;

/// One quantile of TTFT, estimated by Kaplan–Meier on both sides. `before` is weighted to the current strata.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The share of the quantile, 0 to 1.
    pub share: f64,
    /// Microseconds.
    pub before_us: i64,
    /// Microseconds.
    pub now_us: i64,
}

impl Shift {
    /// The quantile now divided by the one before.
    pub fn ratio(&self) -> f64 {
        self.now_us as f64 / self.before_us.max(1) as f64
    }
}

/// The shifts of the median and of the 90th percentile, as far as both sides reach them. If they do not reach the
/// median, the largest percentile that they do reach replaces it, unless that is small.
fn shifts(strata: &[RegressionStratum<'_>], times: TimesOf) -> Vec<Shift> {
    let size = |sample| watched(times(sample)[0]);
    let sizes = strata.iter().map(|stratum| (stratum, size(&stratum.before), size(&stratum.now)));
    let shared = sizes.filter(|(_, before, now)| *before > 0.0 && *now > 0.0);
    let moments = moments(shared.map(|(stratum, before, now)| (stratum, now / before)), times);
    let before = curve(&moments, |moment| &moment.before);
    let now = curve(&moments, |moment| &moment.now);
    let end = |curve: &[(i64, f64)]| curve.last().map_or(0.0, |step| step.1);
    let reached = ((end(&before).min(end(&now)) + ROUNDING) * 100.0).floor() / 100.0;
    let at = |share: f64| {
        let quantile =
            |curve: &[(i64, f64)]| Some(curve.get(curve.partition_point(|step| step.1 < share - ROUNDING))?.0);
        Some(Shift { share, before_us: quantile(&before)?, now_us: quantile(&now)? })
    };
    let shares = [reached.min(0.5), 0.9];
    shares.into_iter().filter(|share| *share >= SHARE_MIN).filter_map(at).collect()
}

/// The share that has ended after each time.
fn curve(moments: &[EventTime], side: fn(&EventTime) -> &WatchedSide) -> Vec<(i64, f64)> {
    let mut surviving = 1.0;
    let firm = moments.iter().map(|moment| (moment.time_us, side(moment)));
    firm.take_while(|(_, watched)| watched.effective() >= AT_RISK_MIN)
        .filter(|(_, watched)| watched.events > 0.0)
        .map(|(time_us, watched)| {
            surviving *= 1.0 - watched.events / watched.at_risk;
            (time_us, 1.0 - surviving)
        })
        .collect()
}

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
        two_sided((excess - 0.5).max(0.0) / variance.sqrt())
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

    /// Hypergeometric.
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

/// The probability of a value at least as far from zero as `z`.
pub fn two_sided(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The complementary error function for `x` ≥ 0. The relative error is below 1.2e-7 everywhere, so far tails are right
/// too: a Chebyshev fit (Press et al., Numerical Recipes, 2nd ed. 1992, section 6.2).
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let fitted = FIT.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    t * (fitted - x * x).exp()
}

#[cfg(test)]
mod log_rank_tests {
    use super::*;

    fn points(times: &[(i64, bool)]) -> Vec<SurvivalPoint> {
        let point = |&(time_us, event): &(i64, bool)| match event {
            true => SurvivalPoint { time_us, events: 1.0, ..SurvivalPoint::default() },
            false => SurvivalPoint { time_us, leave_after: 1.0, ..SurvivalPoint::default() },
        };
        times.iter().map(point).collect()
    }

    fn test(before: &[SurvivalPoint], now: &[SurvivalPoint]) -> LogRank {
        let sample = |points| Sample { ttft: points, ttft_squares: points, ..Sample::default() };
        log_rank(&[RegressionStratum { before: sample(before), now: sample(now) }], of_ttft)
    }

    /// Weeks of remission of children with acute leukaemia, placebo against 6-mercaptopurine: Freireich et al., Blood 21
    /// (1963). Kleinbaum and Klein, Survival Analysis, chapter 2, compute the log-rank statistic: 9 of 19.25 expected,
    /// 16.79 in all.
    #[test]
    fn the_remission_times_of_freireich() {
        let placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23].map(|week| (week, true));
        let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23].map(|week| (week, true));
        let cut = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35].map(|week| (week, false));
        let test = test(&points(&placebo), &points(&[&ended[..], &cut[..]].concat()));
        assert_eq!(test.observed, 9.0);
        assert!((test.expected - 19.250_50).abs() < 1e-5 && (test.expected_before - 10.749_50).abs() < 1e-5);
        assert!((test.variance - 6.256_961).abs() < 1e-6, "{}", test.variance);
        assert!((test.z() * test.z() - 16.792_941).abs() < 1e-6, "{}", test.z());
        assert!((test.hazard_ratio() - 0.207_378).abs() < 1e-6, "{}", test.hazard_ratio());
        assert!((test.effective_events() - test.expected_before).abs() < 1e-9);
    }

    /// Before: ends at 1 and 3. Now: one ends at 2, another enters after 1 with weight 2 and ends at 3. The share of
    /// now at risk is one of three at 1, three of four at 2, two of three at 3.
    #[test]
    fn who_enters_late_is_at_risk_from_then_on() {
        let late = |factor: f64| {
            [
                SurvivalPoint { time_us: 1, leave_after: -factor, ..SurvivalPoint::default() },
                SurvivalPoint { time_us: 2, events: 1.0, ..SurvivalPoint::default() },
                SurvivalPoint { time_us: 3, events: factor, ..SurvivalPoint::default() },
            ]
        };
        let before = points(&[(1, true), (3, true)]);
        let (weights, squares) = (late(2.0), late(4.0));
        let now = Sample { ttft: &weights, ttft_squares: &squares, ..Sample::default() };
        let before = Sample { ttft: &before, ttft_squares: &before, ..Sample::default() };
        let test = log_rank(&[RegressionStratum { before, now }], of_ttft);
        assert_eq!(test.observed, 3.0);
        assert!((test.expected - (1.0 / 3.0 + 3.0 / 4.0 + 3.0 * 2.0 / 3.0)).abs() < 1e-12);
        // At 1: ((2/3)² + 2 (1/3)²) × 1/3 × 2/3 × 3/2. At 2: (5 (1/4)² + (3/4)²) × 1/4 × 3/4 × n/(n−1), n = 16/6. At 3
        // all end: no variance.
        let n = 16.0 / 6.0;
        let expected = 6.0 / 9.0 / 3.0 + 14.0 / 16.0 * 3.0 / 16.0 * n / (n - 1.0);
        assert!((test.variance - expected).abs() < 1e-12, "{} is not {expected}", test.variance);
    }

    #[test]
    fn one_side_alone_shows_nothing() {
        for test in [test(&[], &points(&[(1, true)])), test(&points(&[(1, true)]), &[]), test(&[], &[])] {
            assert_eq!((test.z(), test.hazard_ratio(), test.effective_events()), (0.0, 1.0, 0.0));
        }
    }
}

#[cfg(test)]
mod curve_tests {
    use super::*;

    /// `count` first tokens, evenly spread from `from_us` to `until_us`; tokens after `cut_us` are not seen.
    fn even(count: i64, from_us: i64, until_us: i64, cut_us: i64) -> Vec<SurvivalPoint> {
        let times = (1..=count).map(|i| from_us + (until_us - from_us) * i / count);
        let point = |time_us: i64| match time_us <= cut_us {
            true => SurvivalPoint { time_us, events: 1.0, ..SurvivalPoint::default() },
            false => SurvivalPoint { time_us: cut_us, leave_after: 1.0, ..SurvivalPoint::default() },
        };
        times.map(point).collect()
    }

    fn stratum<'a>(before: &'a [SurvivalPoint], now: &'a [SurvivalPoint]) -> RegressionStratum<'a> {
        let sample = |points| Sample { ttft: points, ttft_squares: points, ..Sample::default() };
        RegressionStratum { before: sample(before), now: sample(now) }
    }

    #[test]
    fn before_is_weighted_to_the_strata_of_now() {
        let (small, small_now) = (even(400, 0, 1_000, 9_999), even(100, 0, 1_500, 9_999));
        let (large, large_now) = (even(100, 4_000, 8_000, 9_999), even(400, 6_000, 12_000, 99_999));
        let shift = shifts(&[stratum(&small, &small_now), stratum(&large, &large_now)], of_ttft)[0];
        assert_eq!(shift.share, 0.5);
        assert!((shift.ratio() - 1.5).abs() < 0.01, "{shift:?}");
        // The median of now: 250 of 500 have ended, all 100 small ones and 150 of the 400 large ones.
        assert!((shift.now_us - 8_250).abs() <= 15, "{shift:?}");
    }

    #[test]
    fn a_longer_tail_is_a_shift() {
        let before = even(200, 100, 300, 999);
        let now = [even(160, 100, 260, 999), even(40, 2_000, 3_000, 9_999)].concat();
        let tail = Shift { share: 0.9, before_us: 280, now_us: 2_500 };
        assert_eq!(
            shifts(&[stratum(&before, &now)], of_ttft),
            [Shift { share: 0.5, before_us: 200, now_us: 200 }, tail]
        );
    }

    #[test]
    fn what_both_sides_reach_replaces_the_median() {
        let before = even(200, 0, 1_000, 999);
        let reached = |cut_us: i64| shifts(&[stratum(&before, &even(200, 0, 2_000, cut_us))], of_ttft);
        assert_eq!(reached(600), [Shift { share: 0.3, before_us: 300, now_us: 600 }]);
        assert_eq!(reached(100), [], "a twentieth");
        assert_eq!(reached(0), [], "nothing");
        let few = even(15, 0, 2_000, 9_999);
        assert!(shifts(&[stratum(&before, &few)], of_ttft)[0].share < 0.5, "the curve ends where ten are left");
    }
}

#[cfg(test)]
mod failures_tests {
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

#[cfg(test)]
mod normal_tests {
    use super::*;

    #[test]
    fn agrees_with_the_c_library() {
        for (x, expected) in [
            (0.0, 1.0),
            (0.1, 0.8875370839817152),
            (0.5, 0.4795001221869535),
            (1.0, 0.15729920705028513),
            (2.0, 0.004677734981047265),
            (3.0, 2.2090496998585438e-05),
            (5.0, 1.5374597944280351e-12),
        ] {
            assert!((erfc(x) / expected - 1.0).abs() < 1.2e-7, "erfc({x}) = {}", erfc(x));
        }
        assert!((two_sided(-1.959964) - 0.05).abs() < 1e-7);
    }
}
