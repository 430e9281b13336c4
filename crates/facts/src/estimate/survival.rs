//! Quantiles of censored times: the Kaplan–Meier estimate.
//!
//! A loser that was cancelled after 247 ms means "later than 247 ms". Leaving such attempts out, or counting them as
//! 247 ms, makes frequent losers look fast (`docs/decisions/0008-kaplan-meier.md`). The estimate counts them for as
//! long as they were observed.
//!
//! The estimate assumes that a cancel carries no information about the remaining time. Audits make that assumption
//! unnecessary: a loser picked with probability p to run on represents 1/p losers from the moment of its loss, and the
//! losers that were cut represent none. Not for times without censoring: `spread` has plain quantiles.

/// A product of many factors differs from a round share by a few units in the last place.
const ROUNDING: f64 = 1e-9;

/// The TTFT of one attempt, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The TTFT (an event), or how long no token came (censored); microseconds.
    pub time_us: i64,
    pub event: bool,
    /// None: not an audited loser.
    pub audit: Option<AuditedLoser>,
}

/// A loser that ran on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditedLoser {
    /// When it lost; microseconds after its dispatch.
    pub lost_us: i64,
    /// The probability of its audit, above 0.
    pub probability: f64,
}

/// Weights at one time: some attempts leave censored, then the events happen, then others leave. A negative weight
/// enters observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SurvivalPoint {
    /// Microseconds.
    pub time_us: i64,
    pub leave_before: f64,
    pub events: f64,
    pub leave_after: f64,
}

/// A quantile, as far as the data reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// Microseconds.
    Reached(i64),
    /// Too many were cut before: the quantile is later than the longest observation.
    NotReached { over_us: i64 },
}

/// The estimated distribution of a time.
#[derive(Clone, Debug)]
pub struct Survival {
    /// The share that is still waiting after each time with an event. Decreasing.
    steps: Vec<(i64, f64)>,
    longest_us: i64,
    empty: bool,
}

impl Observation {
    /// The points of the observation; the second one only for an audited loser.
    pub fn points(&self) -> (SurvivalPoint, Option<SurvivalPoint>) {
        let Observation { time_us, event, audit } = *self;
        let late = audit.filter(|audit| audit.lost_us <= time_us && audit.probability > 0.0);
        let after = late.map_or(1.0, |audit| 1.0 / audit.probability.min(1.0));
        let point = SurvivalPoint { time_us, ..SurvivalPoint::default() };
        let point = if event {
            SurvivalPoint { events: after, ..point }
        } else {
            SurvivalPoint { leave_after: after, ..point }
        };
        (
            point,
            late.map(|audit| SurvivalPoint {
                time_us: audit.lost_us,
                leave_after: 1.0 - after,
                ..SurvivalPoint::default()
            }),
        )
    }

    /// Weight of the event: above 1 if it represents losers that were cut.
    pub fn event_weight(&self) -> f64 {
        let point = self.points().0;
        point.events
    }
}

impl SurvivalPoint {
    /// Weight observed from the beginning: all that leaves or ends, less what entered later.
    pub fn watched(&self) -> f64 {
        self.leave_before + self.events + self.leave_after
    }

    /// With every weight times `factor`.
    pub fn times(&self, factor: f64) -> SurvivalPoint {
        SurvivalPoint {
            time_us: self.time_us,
            leave_before: self.leave_before * factor,
            events: self.events * factor,
            leave_after: self.leave_after * factor,
        }
    }
}

impl Survival {
    /// Sorts the points; O(n log n).
    pub fn new(mut points: Vec<SurvivalPoint>) -> Survival {
        points.sort_unstable_by_key(|point| point.time_us);
        let mut at_risk: f64 = points.iter().map(SurvivalPoint::watched).sum();
        let (mut surviving, mut steps) = (1.0_f64, Vec::new());
        for group in points.chunk_by(|a, b| a.time_us == b.time_us) {
            let sum = |part: fn(&SurvivalPoint) -> f64| group.iter().map(part).sum::<f64>();
            at_risk -= sum(|point| point.leave_before);
            let events = sum(|point| point.events);
            if events > 0.0 {
                // Rounding of weights that nearly cancel must not make a share negative.
                surviving *= (1.0 - events / at_risk.max(events)).max(0.0);
                steps.push((group[0].time_us, surviving));
            }
            at_risk -= events + sum(|point| point.leave_after);
        }
        let longest_us = points.last().map_or(0, |last| last.time_us);
        Survival { steps, longest_us, empty: points.is_empty() }
    }

    /// The earliest time by which a share of at least `p` (0 to 1) has ended. None without observations.
    pub fn quantile(&self, p: f64) -> Option<Estimate> {
        if self.empty {
            return None;
        }
        let step = self.steps.partition_point(|(_, surviving)| *surviving > 1.0 - p + ROUNDING);
        Some(match self.steps.get(step) {
            Some((time_us, _)) => Estimate::Reached(*time_us),
            None => Estimate::NotReached { over_us: self.longest_us },
        })
    }
}

impl Estimate {
    /// Microseconds. None: the quantile was not reached.
    pub fn reached(self) -> Option<i64> {
        match self {
            Estimate::Reached(us) => Some(us),
            Estimate::NotReached { .. } => None,
        }
    }
}

/// Whether a quantile may be printed without a mark: at least 10/(1−p) samples (for an estimate: effective events), or
/// 10/p for the lower tail.
pub fn is_firm(samples: f64, p: f64) -> bool {
    samples * p.min(1.0 - p) >= 10.0 - 1e-6
}

/// Effective sample size: (Σw)² / Σw² (Kish 1965).
pub fn effective(sum: f64, sum_of_squares: f64) -> f64 {
    if sum_of_squares > 0.0 { sum * sum / sum_of_squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::quantile;

    fn observed(times: &[(i64, bool)]) -> Survival {
        let seen = |&(time_us, event): &(i64, bool)| Observation { time_us, event, audit: None }.points().0;
        Survival::new(times.iter().map(seen).collect())
    }

    #[test]
    fn hand_computed_with_censoring() {
        // At risk 6, 5, 3, 2: S = 5/6, 4/6, (4 is cut off), 4/9 at 5, 2/9 at 6; 7 is cut off.
        let survival = observed(&[(4, false), (1, true), (6, true), (3, true), (5, true), (7, false)]);
        assert_eq!(survival.quantile(0.10), Some(Estimate::Reached(1)));
        assert_eq!(survival.quantile(0.30), Some(Estimate::Reached(3)));
        assert_eq!(survival.quantile(0.50), Some(Estimate::Reached(5)));
        assert_eq!(survival.quantile(0.77), Some(Estimate::Reached(6)));
        assert_eq!(survival.quantile(0.95), Some(Estimate::NotReached { over_us: 7 }));
    }

    #[test]
    fn ties_leave_the_censored_at_risk() {
        // At 2: four at risk, one ends, one is cut off. S = 3/4, then 3/8 at 3, then 0.
        let survival = observed(&[(2, false), (2, true), (3, true), (9, true)]);
        assert_eq!(survival.quantile(0.25), Some(Estimate::Reached(2)));
        assert_eq!(survival.quantile(0.26), Some(Estimate::Reached(3)));
        assert_eq!(survival.quantile(0.63), Some(Estimate::Reached(9)));
    }

    #[test]
    fn without_censoring_it_is_the_plain_quantile() {
        let times: Vec<(i64, bool)> = (1..=1000).map(|time| (time, true)).collect();
        let survival = observed(&times);
        for (p, expected) in [(0.5, 500), (0.95, 950), (0.99, 990), (1.0, 1000)] {
            let mut values: Vec<f64> = (1..=1000).map(f64::from).collect();
            assert_eq!(survival.quantile(p), Some(Estimate::Reached(expected)));
            assert_eq!(quantile(&mut values, p), Some(expected as f64));
        }
    }

    #[test]
    fn nothing_and_only_censored() {
        assert_eq!(observed(&[]).quantile(0.5), None);
        assert_eq!(observed(&[(5, false), (8, false)]).quantile(0.5), Some(Estimate::NotReached { over_us: 8 }));
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [3.0], 0.05), Some(3.0));
    }

    #[test]
    fn ten_samples_beyond_the_quantile_are_firm() {
        assert!(is_firm(20.0, 0.5) && is_firm(200.0, 0.95) && is_firm(1_000.0, 0.99) && is_firm(200.0, 0.05));
        assert!(!is_firm(19.0, 0.5) && !is_firm(199.0, 0.95) && !is_firm(999.0, 0.99) && !is_firm(199.0, 0.05));
    }

    #[test]
    fn an_audited_loser_stands_for_those_that_were_cut() {
        // Four lose at 2. One was picked with p = 1/4, represents all four from then on, and ends at 9.
        let cut = Observation { time_us: 2, event: false, audit: None };
        let audited =
            Observation { time_us: 9, event: true, audit: Some(AuditedLoser { lost_us: 2, probability: 0.25 }) };
        let won = Observation { time_us: 1, event: true, audit: None };
        let points = [won, cut, cut, cut, audited].map(|seen| seen.points());
        let survival = Survival::new(points.iter().flat_map(|(end, entry)| [Some(*end), *entry]).flatten().collect());
        assert_eq!(survival.quantile(0.2), Some(Estimate::Reached(1)));
        // 4/5 are left at 2, and all of them end at 9: not the 1/5 that one row of five would be.
        assert_eq!(survival.quantile(0.21), Some(Estimate::Reached(9)));
        assert_eq!(audited.event_weight(), 4.0);
        assert_eq!(effective(1.0 + 4.0, 1.0 + 16.0), 25.0 / 17.0);
    }

    /// The example of `docs/records/accuracy.md`: with winners only, the ranking is reversed.
    #[test]
    fn races_do_not_hide_the_truth() {
        const TRUE_MEDIANS_MS: [f64; 3] = [300.0, 403.0, 552.0];
        const SPREADS: [f64; 3] = [0.35, 0.5, 0.7];
        const WINNERS_MEDIANS_MS: [f64; 3] = [261.0, 247.0, 223.0];
        let mut draws = fastrand::Rng::with_seed(11);
        let mut all: [Vec<Observation>; 3] = Default::default();
        for _ in 0..20_000 {
            let times = [0, 1, 2].map(|i| (TRUE_MEDIANS_MS[i] * 1e3 * (SPREADS[i] * normal(&mut draws)).exp()) as i64);
            let first = times[0].min(times[1]).min(times[2]);
            for (observations, time) in all.iter_mut().zip(times) {
                observations.push(Observation { time_us: first, event: time == first, audit: None });
            }
        }
        for (i, observations) in all.into_iter().enumerate() {
            let winners = observations.iter().filter(|seen| seen.event);
            let mut won: Vec<f64> = winners.map(|seen| seen.time_us as f64 / 1e3).collect();
            let winners_ms = quantile(&mut won, 0.5).unwrap_or_default();
            let Some(Estimate::Reached(median_us)) =
                Survival::new(observations.iter().map(|seen| seen.points().0).collect()).quantile(0.5)
            else {
                panic!("the median of {} ms is within reach", TRUE_MEDIANS_MS[i]);
            };
            let estimated_ms = median_us as f64 / 1e3;
            assert!((winners_ms / WINNERS_MEDIANS_MS[i] - 1.0).abs() < 0.03, "winners alone: {winners_ms}");
            assert!((estimated_ms / TRUE_MEDIANS_MS[i] - 1.0).abs() < 0.04, "estimated: {estimated_ms}");
        }
    }

    /// One draw of the standard normal distribution (Box and Muller).
    fn normal(draws: &mut fastrand::Rng) -> f64 {
        (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos()
    }
}
