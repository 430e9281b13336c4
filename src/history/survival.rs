//! Quantiles of times that were not all seen to their end: the Kaplan–Meier estimate; and plain quantiles.
//!
//! A loser that was cancelled after 247 ms says "later than 247 ms". Leaving such attempts out, or counting them as
//! 247 ms, makes habitual losers look fast (`docs/measurement.md`). The estimate uses them for as long as they were
//! watched. It assumes that being cut off tells nothing about the time that was left, which audits keep honest.

/// One attempt's time to its first token, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The time itself (an event), or for how long there was none (censored); microseconds.
    pub time_us: i64,
    pub event: bool,
}

/// A quantile, as far as the data reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// Microseconds.
    Reached(i64),
    /// Too many were cut off before: it is later than the longest observation.
    NotReached { over_us: i64 },
}

/// The estimated distribution of a time.
#[derive(Clone, Debug)]
pub struct Survival {
    /// Observations, censored ones included.
    pub n: usize,
    /// Of these, those that were seen to the end.
    pub events: usize,
    /// After each time at which something happened: the share that is later still. Falls from step to step.
    steps: Vec<(i64, f64)>,
    longest_us: i64,
}

impl Survival {
    /// Sorts the observations; O(n log n).
    pub fn new(mut observations: Vec<Observation>) -> Survival {
        // At equal times the censored ones were still at risk, so the events come first.
        observations.sort_unstable_by_key(|observation| (observation.time_us, !observation.event));
        let n = observations.len();
        let mut at_risk = n;
        let (mut surviving, mut events, mut steps) = (1.0, 0, Vec::new());
        for group in observations.chunk_by(|a, b| a.time_us == b.time_us) {
            let ended = group.iter().filter(|observation| observation.event).count();
            if ended > 0 {
                surviving *= 1.0 - ended as f64 / at_risk as f64;
                steps.push((group[0].time_us, surviving));
            }
            events += ended;
            at_risk -= group.len();
        }
        Survival { n, events, steps, longest_us: observations.last().map_or(0, |last| last.time_us) }
    }

    /// The earliest time by which a share of at least `p` (0 to 1) has ended; none without observations.
    pub fn quantile(&self, p: f64) -> Option<Estimate> {
        // The product of many factors misses a round share by a few units in the last place.
        const ROUNDING: f64 = 1e-9;
        if self.n == 0 {
            return None;
        }
        let step = self.steps.partition_point(|(_, surviving)| *surviving > 1.0 - p + ROUNDING);
        Some(match self.steps.get(step) {
            Some((time_us, _)) => Estimate::Reached(*time_us),
            None => Estimate::NotReached { over_us: self.longest_us },
        })
    }
}

/// Whether this many samples (for an estimate: events) are about enough, 10/(1−p), to print a quantile without a mark.
/// For the lower tail it is 10/p.
pub fn is_firm(samples: usize, p: f64) -> bool {
    samples as f64 * p.min(1.0 - p) >= 10.0 - 1e-6
}

/// The plain quantile: the smallest value that a share of at least `p` of the values does not exceed. Reorders them.
pub fn quantile(values: &mut [f64], p: f64) -> Option<f64> {
    let rank = (p * values.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    if rank > values.len() {
        return None;
    }
    let (_, value, _) = values.select_nth_unstable_by(rank - 1, f64::total_cmp);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(times: &[(i64, bool)]) -> Survival {
        Survival::new(times.iter().map(|&(time_us, event)| Observation { time_us, event }).collect())
    }

    #[test]
    fn hand_computed_with_censoring() {
        // At risk 6, 5, 3, 2: S = 5/6, 4/6, (4 is cut off), 4/9 at 5, 2/9 at 6; 7 is cut off.
        let survival = observed(&[(4, false), (1, true), (6, true), (3, true), (5, true), (7, false)]);
        assert_eq!((survival.n, survival.events), (6, 4));
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
        assert!(is_firm(20, 0.5) && is_firm(200, 0.95) && is_firm(1_000, 0.99) && is_firm(200, 0.05));
        assert!(!is_firm(19, 0.5) && !is_firm(199, 0.95) && !is_firm(999, 0.99) && !is_firm(199, 0.05));
    }

    /// The example of `docs/measurement.md`: winners alone turn the ranking round.
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
                observations.push(Observation { time_us: first, event: time == first });
            }
        }
        for (i, observations) in all.into_iter().enumerate() {
            let winners = observations.iter().filter(|seen| seen.event);
            let mut won: Vec<f64> = winners.map(|seen| seen.time_us as f64 / 1e3).collect();
            let winners_ms = quantile(&mut won, 0.5).unwrap_or_default();
            let Some(Estimate::Reached(median_us)) = Survival::new(observations).quantile(0.5) else {
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
