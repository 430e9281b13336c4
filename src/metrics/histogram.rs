//! A histogram of durations or counts with fixed buckets, for many writers at once.
//!
//! Not for quantiles of the history: see `history`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The buckets of a histogram, and the unit of its values.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Upper bounds, rising.
    upto: &'static [u64],
    /// How many kept units one shown unit has: 10⁹ nanoseconds a second; 1 for counts.
    per_shown: f64,
}

const NANOS: f64 = 1e9;

/// From a local server's first token to one that comes too late for anybody.
pub(super) const TTFT: Buckets = durations(&[
    ms(5),
    ms(10),
    ms(25),
    ms(50),
    ms(100),
    ms(200),
    ms(300),
    ms(500),
    ms(750),
    ms(1_000),
    ms(1_500),
    ms(2_500),
    ms(5_000),
    ms(10_000),
    ms(30_000),
    ms(60_000),
]);

/// 1,000 tokens a second down to one.
pub(super) const TPOT: Buckets = durations(&[
    us(1_000),
    us(2_500),
    us(5_000),
    us(7_500),
    ms(10),
    ms(15),
    ms(20),
    ms(30),
    ms(50),
    ms(75),
    ms(100),
    ms(200),
    ms(500),
    ms(1_000),
]);

/// The gateway's own share is far below a millisecond unless something is wrong.
pub(super) const OVERHEAD: Buckets =
    durations(&[us(50), us(100), us(250), us(500), ms(1), us(2_500), ms(5), ms(10), ms(25), ms(100), ms(1_000)]);

/// What OpenTelemetry's GenAI conventions recommend for `gen_ai.client.operation.*`.
pub(super) const OPERATION: Buckets = durations(&[
    ms(10),
    ms(20),
    ms(40),
    ms(80),
    ms(160),
    ms(320),
    ms(640),
    ms(1_280),
    ms(2_560),
    ms(5_120),
    ms(10_240),
    ms(20_480),
    ms(40_960),
    ms(81_920),
]);

/// What they recommend for `gen_ai.client.token.usage`: powers of four.
pub(super) const TOKENS: Buckets = Buckets {
    upto: &[1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864],
    per_shown: 1.0,
};

#[derive(Debug)]
pub(super) struct MetricHistogram {
    buckets: Buckets,
    /// One more than there are bounds: the last is for values above them all.
    counts: Box<[AtomicU64]>,
    /// In the kept unit; nanoseconds last for 584 years.
    sum: AtomicU64,
}

impl MetricHistogram {
    pub fn new(buckets: Buckets) -> MetricHistogram {
        let counts = (0..=buckets.upto.len()).map(|_| AtomicU64::new(0)).collect();
        MetricHistogram { buckets, counts, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: Duration) {
        self.count(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a value in the kept unit.
    pub fn count(&self, value: u64) {
        let bucket = self.buckets.upto.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// For each bound in the shown unit, how many values do not exceed it. The last has no bound and counts all values.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.buckets.upto.iter().map(|bound| Some(*bound as f64 / self.buckets.per_shown)).chain([None]);
        let counts = self.counts.iter().scan(0, |so_far, count| {
            *so_far += count.load(Relaxed);
            Some(*so_far)
        });
        bounds.zip(counts)
    }

    /// In the shown unit.
    pub fn sum(&self) -> f64 {
        self.sum.load(Relaxed) as f64 / self.buckets.per_shown
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Relaxed) == 0)
    }
}

/// Buckets for durations, with bounds in nanoseconds.
pub(super) const fn durations(upto: &'static [u64]) -> Buckets {
    Buckets { upto, per_shown: NANOS }
}

const fn ms(millis: u64) -> u64 {
    us(millis * 1_000)
}

const fn us(micros: u64) -> u64 {
    micros * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_under_the_first_bound_that_it_does_not_exceed() {
        const BUCKETS: Buckets = durations(&[ms(10), ms(20)]);
        let histogram = MetricHistogram::new(BUCKETS);
        assert!(histogram.is_empty());
        for value in [0, 10_000, 10_001, 20_000, 21_000, 3_600_000_000] {
            histogram.observe(Duration::from_micros(value));
        }
        let counts: Vec<_> = histogram.cumulative().collect();
        assert_eq!(counts, [(Some(0.01), 2), (Some(0.02), 4), (None, 6)]);
        assert_eq!(histogram.sum(), 3_600.061001);
    }

    #[test]
    fn counts_are_shown_as_they_are() {
        let histogram = MetricHistogram::new(TOKENS);
        [0, 1, 5].into_iter().for_each(|tokens| histogram.count(tokens));
        let counts: Vec<_> = histogram.cumulative().take(3).collect();
        assert_eq!(counts, [(Some(1.0), 2), (Some(4.0), 2), (Some(16.0), 3)]);
        assert_eq!(histogram.sum(), 6.0);
    }

    #[test]
    fn bounds_rise() {
        for buckets in [TTFT, TPOT, OVERHEAD, OPERATION, TOKENS] {
            assert!(buckets.upto.is_sorted_by(|one, next| one < next));
        }
    }
}
