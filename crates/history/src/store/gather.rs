//! The selection of rows for a question to the history, and the interface that collects them.
//!
//! Not for reading: see `reader`.

use super::source_filter::SourceFilter;
use crate::history::ShortBytes;
use crate::history::class::{Concurrency, Input};
use crate::history::facts::{AttemptFacts, RequestFacts};

/// The selected attempts: all conditions that are set must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptFilter {
    /// Races that began at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Races that began before this time; microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// The model that the client requested.
    pub model: Option<String>,
    pub provider: Option<String>,
    /// The caller's name under `[users]`.
    pub user: Option<String>,
    /// Who asked.
    pub source: SourceFilter,
}

impl AttemptFilter {
    /// None: the value is unknown.
    pub(super) fn wants_request(&self, model: Option<&str>, user: Option<&str>) -> bool {
        self.model.as_deref().is_none_or(|wanted| model == Some(wanted))
            && self.user.as_deref().is_none_or(|wanted| user == Some(wanted))
    }

    pub(super) fn wants_provider(&self, provider: &str) -> bool {
        self.provider.as_deref().is_none_or(|wanted| provider == wanted)
    }
}

/// Collects the answer to a question. Each thread has its own collector; they are merged at the end.
pub trait Gather: Send {
    /// The attempts of a race follow each other.
    fn attempt(&mut self, facts: &AttemptFacts<'_>);

    /// A request without an attempt: it was rejected, or every upstream was cooling down. `started_at`: microseconds
    /// since 1970, UTC.
    fn without_attempts(&mut self, started_at: i64, request: &RequestFacts<'_>);

    /// A rolled-up cell.
    ///
    /// # Errors
    /// The summary is damaged.
    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes>;

    fn merge(&mut self, other: Self);
}

/// The summary of one hour or day.
#[derive(Clone, Copy, Debug)]
pub struct RollupCell<'a> {
    /// Microseconds since 1970, UTC.
    pub start_us: i64,
    /// Length in microseconds.
    pub span_us: i64,
    /// None: requests that no attempt served, each counted once. The summary then has only these.
    pub upstream: Option<(&'a str, &'a str)>,
    pub model: Option<&'a str>,
    pub user: Option<&'a str>,
    /// None if the question needs no classes.
    pub class: Option<Class>,
    /// Number of attempts. Without an upstream: number of requests without an attempt.
    pub count: u64,
    /// Encoded by [`crate::history::summary::Summary::encode`].
    pub summary: &'a [u8],
}

/// The parts of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    pub input: Input,
    pub concurrency: Concurrency,
    pub stream: bool,
}

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub filter: AttemptFilter,
    /// Microseconds since 1970, UTC.
    pub now_us: i64,
    /// Cells by class are needed.
    pub classes: bool,
    /// Cells of hours are needed, not of days.
    pub hourly: bool,
    /// Read only rows, whatever their number.
    pub exact: bool,
}

/// The part of the history that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Roll-ups were read before this time; microseconds since 1970, UTC. None: only rows.
    pub rolled_until: Option<i64>,
    /// The window of whole hours that was read, where one of its ends is within an hour whose rows are gone: the hours
    /// that begin in the requested window. If the whole window is within one such hour, nothing was read, and this is
    /// that hour. Microseconds since 1970, UTC.
    pub whole_hours: Option<(i64, i64)>,
}

impl Coverage {
    /// The window that was read: from the start of the filter, or else of the oldest race, to the end of the filter or
    /// now. Microseconds since 1970, UTC.
    pub fn window(&self, filter: &AttemptFilter, oldest: Option<i64>, now_us: i64) -> (i64, i64) {
        let (from_us, until_us) = self.whole_hours.unzip();
        let until_us = until_us.or(filter.until).unwrap_or(now_us).min(now_us);
        let from_us = filter.since.and(from_us).or(filter.since).or(oldest).or(from_us);
        (from_us.unwrap_or(until_us), until_us)
    }
}
