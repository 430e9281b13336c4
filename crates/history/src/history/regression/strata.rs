//! The input of a comparison: attempts of one upstream before and now, by stratum. Not for the comparison itself.

use crate::history::survival::SurvivalPoint;

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
    /// Time per output token in microseconds, and the number of attempts with it; in any order.
    pub tpot: &'a [(f64, u64)],
    /// Number of attempts that count for failures.
    pub attempts: u64,
    /// Number of these attempts that failed.
    pub failures: u64,
}
