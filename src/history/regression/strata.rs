//! What a comparison reads: attempts of one upstream before and now, by stratum. Not for how they are compared.

use crate::history::survival::SurvivalPoint;

/// Attempts of one upstream under like conditions (an hour of the day, an input class), before and now. A stratum with
/// attempts on one side alone tells nothing and is left out.
#[derive(Clone, Copy, Debug)]
pub struct RegressionStratum<'a> {
    pub before: Sample<'a>,
    pub now: Sample<'a>,
}

/// What was seen on one side of one stratum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// TTFT in any order. Both sides on one grid: the exact times of one side against buckets of the other differ by the
    /// width of a bucket.
    pub ttft: &'a [SurvivalPoint],
    /// The same points with every attempt's weight squared, for the variance. Where all weigh one: the same slice.
    pub ttft_squares: &'a [SurvivalPoint],
    /// Time per output token in microseconds, and how many attempts had it; in any order.
    pub tpot: &'a [(f64, u64)],
    /// All that may have failed.
    pub attempts: u64,
    /// Of these, those that did.
    pub failures: u64,
}
