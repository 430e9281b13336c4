//! The log-rank test: do first tokens come later now at equal waiting times? A cancelled attempt counts for as long as
//! it was observed, so early cancels do not bias the test. Stratified and weighted.
//!
//! Mantel 1966; Peto and Peto 1972; variance with weights: see [`LogRank::add`]. Not for the size of a difference: see
//! `curve`.

use super::super::survival::SurvivalPoint;
use super::strata::{RegressionStratum, Sample};

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

pub fn log_rank(strata: &[RegressionStratum<'_>]) -> LogRank {
    let mut test = LogRank::default();
    for stratum in strata {
        moments(std::iter::once((stratum, 1.0))).iter().for_each(|moment| test.add(moment));
    }
    test
}

/// Merges the times of several strata. Each stratum has a factor for the weights of its `before`.
pub fn moments<'a>(strata: impl Iterator<Item = (&'a RegressionStratum<'a>, f64)>) -> Vec<EventTime> {
    let mut flows: Vec<(usize, SurvivalPoint)> = Vec::new();
    for (stratum, factor) in strata {
        let RegressionStratum { before, now } = stratum;
        let columns =
            [(before.ttft, factor), (before.ttft_squares, factor * factor), (now.ttft, 1.0), (now.ttft_squares, 1.0)];
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

impl Sample<'_> {
    /// Weight observed from the beginning.
    pub fn watched(&self) -> f64 {
        self.ttft.iter().map(SurvivalPoint::watched).sum()
    }
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

#[cfg(test)]
mod tests {
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
        log_rank(&[RegressionStratum { before: sample(before), now: sample(now) }])
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
        let test = log_rank(&[RegressionStratum { before, now }]);
        assert_eq!(test.observed, 3.0);
        assert!((test.expected - (1.0 / 3.0 + 3.0 / 4.0 + 3.0 * 2.0 / 3.0)).abs() < 1e-12);
        // At 1: ((2/3)² + 2 (1/3)²) × 1/3 × 2/3 × 3/2. At 2: (5 (1/4)² + (3/4)²) × 1/4 × 3/4 × n/(n−1), n = 16/6. At 3
        // all end: no variance.
        let n = 16.0 / 6.0;
        let expected = 6.0 / 9.0 / 3.0 + 14.0 / 16.0 * 3.0 / 16.0 * n / (n - 1.0);
        assert!((test.variance - expected).abs() < 1e-12, "{} is not {expected}", test.variance);
    }

    #[test]
    fn one_side_alone_tells_nothing() {
        for test in [test(&[], &points(&[(1, true)])), test(&points(&[(1, true)]), &[]), test(&[], &[])] {
            assert_eq!((test.z(), test.hazard_ratio(), test.effective_events()), (0.0, 1.0, 0.0));
        }
    }
}
