//! The selection of rows for a question to the history: the filter, the source of the races, and the interface that collects
//! the rows.
//!
//! The index `race_apart` has the races of probes and benchmarks only. A condition must name both of its terms to be
//! served by it. Not for reading: see `reader`.

use photofinish_config::names::names;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::class::{Concurrency, Input};
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::record::RaceSource;

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
    /// The user's team at that time.
    pub team: Option<String>,
    /// Who asked.
    pub source: SourceFilter,
}

impl AttemptFilter {
    /// None: the value is unknown.
    pub(super) fn wants_request(&self, model: Option<&str>, user: Option<&str>, team: Option<&str>) -> bool {
        self.model.as_deref().is_none_or(|wanted| model == Some(wanted))
            && self.user.as_deref().is_none_or(|wanted| user == Some(wanted))
            && self.team.as_deref().is_none_or(|wanted| team == Some(wanted))
    }

    /// Roll-ups have what is wanted.
    pub(super) fn is_rolled_up(&self) -> bool {
        self.source == SourceFilter::Client
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
    pub team: Option<&'a str>,
    pub caller_key: Option<&'a str>,
    pub tags: Option<&'a str>,
    /// None if the question needs no classes.
    pub class: Option<Class>,
    /// Number of attempts. Without an upstream: number of requests without an attempt.
    pub count: u64,
    /// Encoded by [`photofinish_facts::estimate::summary::Summary::encode`].
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

/// How far clocks of gateways may differ, in microseconds. What is dated later than this after now was recorded while a clock was ahead.
pub const AHEAD_US: i64 = 300 * 1_000_000;

/// The part of the history that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Roll-ups were read before this time; microseconds since 1970, UTC. None: only rows.
    pub rolled_until: Option<i64>,
    /// The window of whole hours that was read, where one of its ends is within an hour whose rows are gone: the hours
    /// that begin in the requested window. If the whole window is within one such hour, nothing was read, and this is
    /// that hour. Microseconds since 1970, UTC.
    pub whole_hours: Option<(i64, i64)>,
    /// The date of the newest race, where it lies after now: a clock was ahead when it was recorded. Such races are in no window until then.
    pub ahead_until: Option<i64>,
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

names! {
    /// Whose rows. Roll-ups have those of clients only, so the others are read as rows, as far back as these are kept.
    pub enum SourceFilter {
        Client = "client",
        Probe = "probe",
        Bench = "bench",
        Shadow = "shadow",
        All = "all",
    }
}

#[expect(clippy::derivable_impls, reason = "`names!` takes no attributes of variants")]
impl Default for SourceFilter {
    fn default() -> SourceFilter {
        SourceFilter::Client
    }
}

impl SourceFilter {
    /// Whether rows of this source are meant. None: the row of the race is missing; then it counts as a client's.
    pub(super) fn wants(self, source: Option<RaceSource>) -> bool {
        match (self, source.unwrap_or_default()) {
            (SourceFilter::All, _)
            | (SourceFilter::Client, RaceSource::Client)
            | (SourceFilter::Probe, RaceSource::Probe)
            | (SourceFilter::Bench, RaceSource::Bench)
            | (SourceFilter::Shadow, RaceSource::Shadow) => true,
            (SourceFilter::Client | SourceFilter::Probe | SourceFilter::Bench | SourceFilter::Shadow, _) => false,
        }
    }

    /// Whether the index finds its rows: they are few among those of clients.
    pub(super) fn is_apart(self) -> bool {
        matches!(self, SourceFilter::Probe | SourceFilter::Bench | SourceFilter::Shadow)
    }

    /// The condition for a row of `race`.
    pub(super) fn condition(self) -> &'static str {
        match self {
            SourceFilter::Client => "race.source = 'client'",
            SourceFilter::Probe => "race.source <> 'client' AND race.source = 'probe'",
            SourceFilter::Bench => "race.source <> 'client' AND race.source = 'bench'",
            SourceFilter::Shadow => "race.source <> 'client' AND race.source = 'shadow'",
            SourceFilter::All => "true",
        }
    }

    /// Attempts with their races, and the condition for them. Only those of clients may lack their race.
    pub(super) fn attempts(self) -> (&'static str, &'static str) {
        match self {
            SourceFilter::Client | SourceFilter::All => {
                let condition =
                    if self == SourceFilter::All { "true" } else { "coalesce(race.source, 'client') = 'client'" };
                ("attempt LEFT JOIN race ON race.race_id = attempt.race_id", condition)
            }
            SourceFilter::Probe | SourceFilter::Bench | SourceFilter::Shadow => {
                ("race CROSS JOIN attempt ON attempt.race_id = race.race_id", self.condition())
            }
        }
    }
}

impl From<RaceSource> for SourceFilter {
    fn from(source: RaceSource) -> SourceFilter {
        match source {
            RaceSource::Client => SourceFilter::Client,
            RaceSource::Probe => SourceFilter::Probe,
            RaceSource::Bench => SourceFilter::Bench,
            RaceSource::Shadow => SourceFilter::Shadow,
        }
    }
}
