//! Distributions of times: exact while their rows exist, on the grid once only histograms are left. Both parts together
//! are one distribution.
//!
//! Not for quantiles of censored times: `survival` estimates them.

use super::grid::{self, ByteReader, GridHistogram, ShortBytes, put, put_f64};
use super::survival::{Observation, Survival, SurvivalPoint, effective};

/// Times to first token, censored ones included.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// First tokens that were observed.
    pub seen: u64,
    /// Attempts without an observed first token that had not failed.
    pub censored: u64,
    exact: Vec<SurvivalPoint>,
    events: GridHistogram,
    left: GridHistogram,
    entered: GridHistogram,
    event_weight: f64,
    event_weight_squared: f64,
}

impl Times {
    /// `coarse`: keep only the bucket.
    pub fn add(&mut self, observation: &Observation, coarse: bool) {
        self.seen += u64::from(observation.event);
        self.censored += u64::from(!observation.event);
        let (end, entry) = observation.points();
        self.event_weight += end.events;
        self.event_weight_squared += end.events * end.events;
        if !coarse {
            self.exact.extend([Some(end), entry].into_iter().flatten());
            return;
        }
        self.events.add(end.time_us, end.events);
        self.left.add(end.time_us, end.leave_after);
        if let Some(entry) = entry {
            self.entered.add(entry.time_us, -entry.leave_after);
        }
    }

    pub fn merge(&mut self, other: Times) {
        self.seen += other.seen;
        self.censored += other.censored;
        self.exact.extend(other.exact);
        self.events.merge(&other.events);
        self.left.merge(&other.left);
        self.entered.merge(&other.entered);
        self.event_weight += other.event_weight;
        self.event_weight_squared += other.event_weight_squared;
    }

    /// The points of all times; in no order.
    pub fn points(&self) -> Vec<SurvivalPoint> {
        let mut points = self.exact.clone();
        let at = |bucket| SurvivalPoint { time_us: grid::middle(bucket), ..SurvivalPoint::default() };
        points.extend(self.events.buckets().map(|(bucket, events)| SurvivalPoint { events, ..at(bucket) }));
        // Within a bucket, half of the censored attempts leave before the first tokens come.
        let half =
            |bucket, weight: f64| SurvivalPoint { leave_before: weight / 2.0, leave_after: weight / 2.0, ..at(bucket) };
        points.extend(self.left.buckets().map(|(bucket, weight)| half(bucket, weight)));
        points.extend(self.entered.buckets().map(|(bucket, weight)| half(bucket, -weight)));
        points
    }

    pub fn survival(&self) -> Survival {
        Survival::new(self.points())
    }

    /// Weight of all observations, censored or not.
    pub fn count(&self) -> u64 {
        self.seen + self.censored
    }

    /// Number of events of equal weight with the same information; at most the number of observed events.
    pub fn effective(&self) -> f64 {
        effective(self.event_weight, self.event_weight_squared).min(self.seen as f64)
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.seen);
        put(bytes, self.censored);
        put_f64(bytes, self.event_weight_squared);
        [&self.events, &self.left, &self.entered].into_iter().for_each(|histogram| histogram.encode(bytes));
    }

    pub(super) fn absorb(&mut self, bytes: &mut ByteReader<'_>) -> Result<(), ShortBytes> {
        self.seen += bytes.take()?;
        self.censored += bytes.take()?;
        self.event_weight_squared += bytes.take_f64()?;
        self.event_weight += self.events.absorb(bytes)?;
        self.left.absorb(bytes)?;
        self.entered.absorb(bytes)?;
        Ok(())
    }
}

/// Uncensored values.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    pub count: u64,
    exact: Vec<i64>,
    coarse: GridHistogram,
}

impl Spread {
    /// Adds one value: see [`Times::add`].
    pub fn add(&mut self, value: i64, coarse: bool) {
        self.count += 1;
        if coarse {
            self.coarse.add(value, 1.0);
        } else {
            self.exact.push(value);
        }
    }

    pub fn merge(&mut self, other: Spread) {
        self.count += other.count;
        self.exact.extend(other.exact);
        self.coarse.merge(&other.coarse);
    }

    /// For each share: the smallest value that at least that share of the values does not exceed.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<i64>; N] {
        let mut values = self.values();
        values.sort_unstable_by_key(|(value, _)| *value);
        shares.map(|share| reach(&values, share))
    }

    /// For each share: the largest value that at least that share of the values reaches. For times per token, this is
    /// the quantile of the rates.
    pub fn quantiles_from_above<const N: usize>(&self, shares: [f64; N]) -> [Option<i64>; N] {
        let mut values = self.values();
        values.sort_unstable_by_key(|(value, _)| std::cmp::Reverse(*value));
        shares.map(|share| reach(&values, share))
    }

    /// Each value with how many of it there are; in no order.
    pub fn values(&self) -> Vec<(i64, f64)> {
        let coarse = self.coarse.buckets().map(|(bucket, weight)| (grid::middle(bucket), weight));
        self.exact.iter().map(|value| (*value, 1.0)).chain(coarse).collect()
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.count);
        self.coarse.encode(bytes);
    }

    pub(super) fn absorb(&mut self, bytes: &mut ByteReader<'_>) -> Result<(), ShortBytes> {
        self.count += bytes.take()?;
        self.coarse.absorb(bytes)?;
        Ok(())
    }
}

/// The first value at which the weights reach the share of their sum.
fn reach(values: &[(i64, f64)], share: f64) -> Option<i64> {
    let whole: f64 = values.iter().map(|(_, weight)| weight).sum();
    let wanted = share * whole * (1.0 - 1e-9);
    let mut so_far = 0.0;
    let found = values.iter().find(|(_, weight)| {
        so_far += weight;
        so_far >= wanted
    });
    found.or(values.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::super::survival::{AuditedLoser, Estimate};
    use super::*;

    #[test]
    fn the_grid_tells_quantiles_within_its_fineness() {
        let mut draws = fastrand::Rng::with_seed(3);
        let (mut exact, mut coarse) = (Times::default(), Times::default());
        for _ in 0..20_000 {
            let (time, rival) = (100_000.0 * (1.0 + 9.0 * draws.f64()), 100_000.0 * (1.0 + 19.0 * draws.f64()));
            let lost = time > rival;
            let audit = (lost && draws.f64() < 0.1).then_some(AuditedLoser { lost_us: rival as i64, probability: 0.1 });
            let event = !lost || audit.is_some();
            let observation = Observation { time_us: if event { time } else { rival } as i64, event, audit };
            exact.add(&observation, false);
            coarse.add(&observation, true);
        }
        let mut bytes = Vec::new();
        coarse.encode(&mut bytes);
        let mut back = Times::default();
        back.absorb(&mut ByteReader::new(&bytes)).unwrap();
        assert!(
            (back.effective() / exact.effective() - 1.0).abs() < 0.01,
            "{} {}",
            back.effective(),
            exact.effective()
        );
        assert_eq!((back.seen, back.censored), (exact.seen, exact.censored));
        for p in [0.05, 0.5, 0.9, 0.99] {
            let quantile = |times: &Times| times.survival().quantile(p).and_then(Estimate::reached).unwrap() as f64;
            assert!(
                (quantile(&back) / quantile(&exact) - 1.0).abs() <= 0.02,
                "{p}: {} {}",
                quantile(&back),
                quantile(&exact)
            );
            assert!((quantile(&exact) / (100_000.0 * (1.0 + 9.0 * p)) - 1.0).abs() < 0.05, "{p}: {}", quantile(&exact));
        }
    }

    #[test]
    fn quantiles_of_plain_values_from_both_ends() {
        let mut spread = Spread::default();
        (1..=100).for_each(|value| spread.add(value, false));
        assert_eq!(spread.quantiles([0.05, 0.5, 0.95, 1.0]), [Some(5), Some(50), Some(95), Some(100)]);
        assert_eq!(spread.quantiles_from_above([0.05, 0.5]), [Some(96), Some(51)]);
        (0..900).for_each(|_| spread.add(1_000, true));
        assert_eq!(spread.count, 1_000);
        assert_eq!(spread.quantiles([0.5]), [Some(grid::middle(grid::bucket(1_000)))]);
        assert_eq!(Spread::default().quantiles([0.5]), [None]);
    }
}
