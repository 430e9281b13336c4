//! Series and their points, and why there are none.

use crate::history::ShortBytes;
use crate::history::class::Concurrency;
use crate::history::cost::CostSum;
use crate::report::dimension::GroupValue;
use crate::store::{AttemptFilter, ReadError};

/// Most series of one answer, the ones with most attempts. As many as there are letters for them.
pub const SERIES_MAX: usize = 62;

/// The answer.
#[derive(Debug)]
pub struct SeriesReport {
    pub filter: AttemptFilter,
    /// In the order of their names.
    pub lines: Vec<SeriesLine>,
    /// Attempts read, in all series.
    pub attempts: u64,
    /// From the start of the window, or else of the oldest race that was read, to its end; microseconds since 1970,
    /// UTC.
    pub span_us: (i64, i64),
    /// Length of a step in microseconds; none over concurrency.
    pub every_us: Option<i64>,
    /// Series beyond [`SERIES_MAX`], and their attempts.
    pub left_out: (usize, u64),
    /// Points that are a whole hour although steps are shorter: their rows are gone.
    pub whole_hours: usize,
    /// Roll-ups were read before this time; microseconds since 1970, UTC. None: only rows.
    pub rolled_until: Option<i64>,
    /// See [`Stats::whole_hours`](crate::report::stats::Stats::whole_hours).
    pub moved: Option<(i64, i64)>,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: u64,
    /// For goodput: requests in time, but of unknown pace.
    pub without_verdict: f64,
    /// Requests without an attempt.
    pub without_attempts: u64,
    /// Attempts of running races, which are left out.
    pub running: u64,
}

/// The points of one name.
#[derive(Debug)]
pub struct SeriesLine {
    pub name: GroupValue,
    pub attempts: u64,
    /// Rising; a step without attempts has no point.
    pub points: Vec<SeriesPoint>,
}

/// A step, or a class of concurrency, with attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesPoint {
    pub place: PointPlace,
    /// In milliseconds, tokens per second, requests per second, US dollars or as a share (0 to 1). None if unknown.
    pub value: Option<f64>,
    /// Instead of the value, if the quantile was not reached: it is above this, in the same unit.
    pub over: Option<f64>,
    /// The sample: first tokens, clients, attempts of known speed, judged requests, or attempts.
    pub samples: u64,
    /// Whether the sample is large enough. Shares follow the rule of a median; sums and rates always are.
    pub firm: bool,
    /// For costs.
    pub cost: Option<CostSum>,
}

/// The place of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointPlace {
    /// Start in microseconds since 1970, UTC, and length in microseconds.
    Time {
        start_us: i64,
        span_us: i64,
    },
    Class(Concurrency),
}

/// For the caller.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// Wrong use that only the data could show.
    #[error("{0}")]
    Steps(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Damaged(#[from] ShortBytes),
}
