//! A histogram of durations with fixed buckets, for many writers at once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets, rising.
pub(super) type Bounds = &'static [Duration];

/// From a local server's first token to one that nobody waits for any more.
pub(super) const TTFT: Bounds = &[
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
];

/// 1,000 tokens a second down to one.
pub(super) const TPOT: Bounds = &[
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
];

/// The gateway's own share is well below a millisecond, unless something is wrong.
pub(super) const OVERHEAD: Bounds =
    &[us(50), us(100), us(250), us(500), ms(1), us(2_500), ms(5), ms(10), ms(25), ms(100), ms(1_000)];

#[derive(Debug)]
pub(super) struct Histogram {
    bounds: Bounds,
    /// One more than there are bounds: the last is for what is above them all.
    buckets: Box<[AtomicU64]>,
    /// Nanoseconds; enough for 584 years.
    sum_ns: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: Bounds) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum_ns: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// For each bound how many values did not exceed it; the last, without a bound, is the count of all.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let counts = self.buckets.iter().scan(0, |so_far, bucket| {
            *so_far += bucket.load(Relaxed);
            Some(*so_far)
        });
        bounds.zip(counts)
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Relaxed))
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.load(Relaxed) == 0)
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_under_the_first_bound_that_it_does_not_exceed() {
        const BOUNDS: Bounds = &[ms(10), ms(20)];
        let histogram = Histogram::new(BOUNDS);
        assert!(histogram.is_empty());
        for value in [Duration::ZERO, ms(10), us(10_001), ms(20), ms(21), Duration::from_secs(3_600)] {
            histogram.observe(value);
        }
        let counts: Vec<_> = histogram.cumulative().collect();
        assert_eq!(counts, [(Some(ms(10)), 2), (Some(ms(20)), 4), (None, 6)]);
        assert_eq!(histogram.sum(), us(3_600_061_001));
    }

    #[test]
    fn bounds_rise() {
        for bounds in [TTFT, TPOT, OVERHEAD] {
            assert!(bounds.is_sorted_by(|one, next| one < next));
        }
    }
}
