//! A histogram of durations or counts with fixed buckets, for many writers at once.
//!
//! Not for quantiles of the history: see `history`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use photofinish_base::clock::wall_micros;

/// The buckets of a histogram, and the unit of its values.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Upper bounds, rising.
    pub upto: &'static [u64],
    /// Number of stored units in one unit of the bounds: 10⁶ nanoseconds in a millisecond; 1 for counts.
    pub per_bound: u64,
    /// Number of stored units in one displayed unit: 10⁹ nanoseconds in a second; 1 for counts.
    pub per_shown: f64,
}

/// From a local server's first token to one that is too late to be useful; milliseconds.
pub(super) const TTFT: Buckets = Buckets {
    upto: &[5, 10, 25, 50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_500, 5_000, 10_000, 30_000, 60_000],
    ..MILLIS
};
/// From 1,000 tokens per second to one; microseconds.
pub(super) const TPOT: Buckets = Buckets {
    upto: &[
        1_000, 2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 200_000, 500_000,
        1_000_000,
    ],
    ..MICROS
};
/// The gateway's own share is far below a millisecond unless something is wrong; microseconds.
pub(super) const OVERHEAD: Buckets =
    Buckets { upto: &[50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000], ..MICROS };
/// Recommended by OpenTelemetry's GenAI conventions for `gen_ai.client.inference.*`; milliseconds.
pub(super) const OPERATION: Buckets =
    Buckets { upto: &[10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_240, 20_480, 40_960, 81_920], ..MILLIS };
/// Recommended by them for `gen_ai.client.inference.operation.*_tokens`: powers of four.
pub(super) const TOKENS: Buckets = Buckets {
    upto: &[1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864],
    per_bound: 1,
    per_shown: 1.0,
};

/// Stored in nanoseconds, displayed in seconds.
const MILLIS: Buckets = Buckets { upto: &[], per_bound: 1_000_000, per_shown: 1e9 };
pub(super) const MICROS: Buckets = Buckets { per_bound: 1_000, ..MILLIS };

#[derive(Debug)]
pub(super) struct MetricHistogram {
    buckets: Buckets,
    /// One more than there are bounds: the last is for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// In the stored unit; nanoseconds suffice for 584 years.
    sum: AtomicU64,
    /// The newest exemplar of each bucket. Empty: it keeps none.
    exemplars: Mutex<Box<[Option<Exemplar>]>>,
}

/// A race whose value fell into a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exemplar {
    race_id: [u8; RACE_ID_LEN],
    /// In the stored unit.
    value: u64,
    /// When it was counted, in microseconds since 1970.
    at_us: i64,
}

/// Of a UUID.
const RACE_ID_LEN: usize = 36;

impl Exemplar {
    pub fn race_id(&self) -> &str {
        std::str::from_utf8(&self.race_id).unwrap_or_default()
    }

    pub fn at_seconds(&self) -> f64 {
        self.at_us as f64 / 1e6
    }
}

impl MetricHistogram {
    pub fn new(buckets: Buckets) -> MetricHistogram {
        let counts = (0..=buckets.upto.len()).map(|_| AtomicU64::new(0)).collect();
        MetricHistogram { buckets, counts, sum: AtomicU64::new(0), exemplars: Mutex::default() }
    }

    /// Keeps a race for each bucket.
    pub fn with_exemplars(buckets: Buckets) -> MetricHistogram {
        let exemplars = vec![None; buckets.upto.len() + 1].into_boxed_slice();
        MetricHistogram { exemplars: Mutex::new(exemplars), ..MetricHistogram::new(buckets) }
    }

    /// [`MetricHistogram::observe`] of a race, which becomes the exemplar of its bucket. Never waits: while another thread adds
    /// one, it does not.
    pub fn observe_of(&self, value: Duration, race_id: &str) {
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.count(value);
        let Ok(race_id) = race_id.as_bytes().try_into() else { return };
        if let Ok(mut exemplars) = self.exemplars.try_lock()
            && let Some(exemplar) = exemplars.get_mut(bucket)
        {
            *exemplar = Some(Exemplar { race_id, value, at_us: wall_micros() });
        }
    }

    /// One for each bucket, none for a histogram that keeps none; with values in the displayed unit.
    pub fn exemplars(&self) -> Vec<Option<(Exemplar, f64)>> {
        let exemplars = self.exemplars.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |exemplar: Exemplar| (exemplar, exemplar.value as f64 / self.buckets.per_shown);
        exemplars.iter().map(|exemplar| exemplar.map(shown)).collect()
    }

    pub fn observe(&self, value: Duration) {
        self.count(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a value in the stored unit; returns its bucket.
    pub fn count(&self, value: u64) -> usize {
        let bucket = self.buckets.upto.partition_point(|bound| bound * self.buckets.per_bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        bucket
    }

    /// For each bound in the displayed unit, the number of values up to it. The last entry has no bound and counts all
    /// values.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let Buckets { upto, per_bound, per_shown } = self.buckets;
        let bounds = upto.iter().map(move |bound| Some((bound * per_bound) as f64 / per_shown)).chain([None]);
        let counts = self.counts.iter().scan(0, |so_far, count| {
            *so_far += count.load(Relaxed);
            Some(*so_far)
        });
        bounds.zip(counts)
    }

    /// In the displayed unit.
    pub fn sum(&self) -> f64 {
        self.sum.load(Relaxed) as f64 / self.buckets.per_shown
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Relaxed) == 0)
    }
}

/// Microseconds of a row; none is negative.
pub(super) fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_under_the_first_bound_that_it_does_not_exceed() {
        const BUCKETS: Buckets = Buckets { upto: &[10, 20], ..MILLIS };
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
        for tokens in [0, 1, 5] {
            histogram.count(tokens);
        }
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
