//! A figure over time, or over attempts in flight: a series of points for each upstream, model or user. The definitions
//! are those of `stats`.
//!
//! Not for drawing: the command does that.

mod export;
mod gather;
mod points;

use std::time::Duration;

use clap::Args;

use self::gather::{GatheredSeries, SeriesRules};
use super::dimension::GroupValue;
use super::question::{RaceWindow, positive_duration, slo, time};
use crate::clock::{DAY_US, HOUR_US, SECOND_US, micros};
use crate::config::units::format_duration;
use crate::history::ShortBytes;
use crate::history::class::Concurrency;
use crate::history::cost::CostSum;
use crate::history::goodput::SloTargets;
use crate::store::{AttemptFilter, ReadError, Selection, StoreReader};

pub use export::{names, objects};

/// Most steps of one answer.
pub const STEPS_MAX: i64 = 2_000;
/// Most series of one answer, the ones with most attempts. As many as there are letters for them.
pub const SERIES_MAX: usize = 62;

/// The figure of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token of an attempt, estimated with those that were cut off before theirs.
    Ttft,
    /// Time to first token that streaming clients saw.
    ClientTtft,
    /// Tokens per second after the first; a quantile of 0.05 is the slow end.
    TokS,
    /// Requests per second that met the targets.
    Goodput,
    /// Share of attempts that failed.
    Failures,
    /// US dollars.
    Cost,
}

/// What has a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SeriesDimension {
    /// Each upstream, over time.
    Upstream,
    /// Each model that apps asked for, over time.
    Model,
    /// Each caller, over time.
    User,
    /// Each upstream, over the attempts running there instead of over time.
    Concurrency,
}

/// The figure, the attempts and the steps.
#[derive(Args, Clone, Debug)]
pub struct SeriesQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// The figure.
    #[arg(long, value_enum, default_value = "ttft")]
    pub metric: Metric,
    /// Of ttft, client_ttft and tok_s: which quantile, such as 0.95 or p95; the median by default.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub quantile: Option<f64>,
    /// The length of a step: whole hours, or what an hour is divided into evenly; by default such that there are about 48
    /// to 120.
    #[arg(long, value_name = "DURATION", value_parser = step, allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// A series for each of these.
    #[arg(long, value_name = "DIMENSION", value_enum, default_value = "upstream")]
    pub by: SeriesDimension,
    /// Of goodput: what a request must keep, the client's time to first token, the time per output token, or both;
    /// ttft=1s,tpot=50ms by default.
    #[arg(long, value_name = "TARGETS", value_parser = slo)]
    pub slo: Option<SloTargets>,
    /// Read rows and no histograms, for at most 30 s, as far as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

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
    /// See [`super::stats::Stats::whole_hours`].
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

/// For goodput.
const SLO_BY_DEFAULT: SloTargets = SloTargets { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) };

/// Default steps in seconds. Each divides an hour, or is whole hours.
const ROUND_S: [i64; 20] = [
    10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800,
    1_209_600, 2_419_200,
];
/// Most steps by default.
const CHOSEN_STEPS: i64 = 120;

impl Metric {
    /// On the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::ClientTtft => "client_ttft",
            Metric::TokS => "tok_s",
            Metric::Goodput => "goodput",
            Metric::Failures => "failures",
            Metric::Cost => "cost",
        }
    }

    /// Whether a quantile can be asked for.
    pub fn has_quantile(self) -> bool {
        matches!(self, Metric::Ttft | Metric::ClientTtft | Metric::TokS)
    }
}

impl SeriesQuestion {
    /// The share that the value does not exceed, 0 to 1; none for a metric without quantiles.
    pub fn quantile(&self) -> Option<f64> {
        self.metric.has_quantile().then_some(self.quantile.unwrap_or(0.5))
    }

    /// The targets of goodput.
    pub fn slo(&self) -> SloTargets {
        self.slo.unwrap_or(SLO_BY_DEFAULT)
    }

    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        if let Some(problem) = self.window.problem(now_us) {
            return Some(problem);
        }
        if self.quantile.is_some() && !self.metric.has_quantile() {
            let metric = self.metric.name();
            return Some(format!("--quantile does not go with {metric}; it goes with ttft, client_ttft and tok_s"));
        }
        if self.slo.is_some() && self.metric != Metric::Goodput {
            return Some(format!("--slo does not go with {}; it goes with goodput", self.metric.name()));
        }
        let every = self.every?;
        if self.by == SeriesDimension::Concurrency {
            return Some(
                "--every and --by concurrency exclude each other: that is a curve over load, not over time".into(),
            );
        }
        let filter = self.window.filter(now_us);
        let (from_us, until_us) = (filter.since?, end(&filter, now_us));
        if micros(every) > until_us - from_us {
            let (from, until) = (time(from_us), time(until_us));
            let every = format_duration(every);
            return Some(format!("--every {every} is longer than the whole window, from {from} to {until}"));
        }
        too_many_steps(micros(every), from_us, until_us)
    }
}

/// Reads the answer.
///
/// # Errors
/// When the requested steps are too many for the data, or the file cannot be read.
pub fn ask(reader: &StoreReader, question: &SeriesQuestion, now_us: i64) -> Result<SeriesReport, SeriesError> {
    let filter = question.window.filter(now_us);
    let until_us = end(&filter, now_us);
    let every_us = match question.by {
        SeriesDimension::Concurrency => None,
        _ => {
            let since = filter.since.map_or_else(|| reader.oldest(), |since| Ok(Some(since)))?;
            let from_us = since.unwrap_or(until_us);
            let every_us = question.every.map_or_else(|| chosen_step(until_us - from_us), micros);
            match too_many_steps(every_us, from_us, until_us) {
                Some(problem) => return Err(SeriesError::Steps(problem)),
                None => Some(every_us),
            }
        }
    };
    let rules = SeriesRules::new(question.by, every_us, filter.provider.is_some(), now_us);
    let selection = Selection {
        filter: filter.clone(),
        now_us,
        classes: question.by == SeriesDimension::Concurrency,
        hourly: every_us.is_some_and(|every_us| every_us % DAY_US != 0),
        // A rolled-up hour cannot be divided, so its rows are read while they exist.
        exact: question.exact || every_us.is_some_and(|every_us| every_us < HOUR_US),
    };
    let (gathered, coverage) = reader.gather(&selection, || GatheredSeries::new(&rules))?;
    let span_us = coverage.window(&filter, gathered.oldest, now_us);
    // Their provider is unknown.
    let without_attempts = if filter.provider.is_some() { 0 } else { gathered.without_attempts };
    let mut series = SeriesReport {
        lines: Vec::new(),
        attempts: gathered.attempts(),
        span_us,
        every_us,
        left_out: (0, 0),
        whole_hours: 0,
        rolled_until: coverage.rolled_until,
        moved: coverage.whole_hours.map(|_| span_us),
        without_speed: 0,
        without_verdict: 0.0,
        without_attempts,
        running: gathered.running,
        filter,
    };
    points::fill(&mut series, gathered, question)?;
    Ok(series)
}

fn end(filter: &AttemptFilter, now_us: i64) -> i64 {
    filter.until.unwrap_or(now_us).min(now_us)
}

/// The shortest round step that does not make too many.
fn chosen_step(span_us: i64) -> i64 {
    let rounds = ROUND_S.into_iter().map(|seconds| seconds * SECOND_US);
    let mut found = rounds.filter(|step_us| span_us / step_us <= CHOSEN_STEPS);
    found.next().unwrap_or_else(|| (span_us / CHOSEN_STEPS / DAY_US + 1) * DAY_US)
}

fn too_many_steps(every_us: i64, from_us: i64, until_us: i64) -> Option<String> {
    let steps = (until_us - 1).div_euclid(every_us) - from_us.div_euclid(every_us) + 1;
    (steps > STEPS_MAX).then(|| {
        let name = |us: i64| format_duration(Duration::from_micros(us.unsigned_abs()));
        format!(
            "--every {} makes {steps} steps from {} to {}, and there may be {STEPS_MAX} at most; ask for a shorter window, or \
             for longer steps, such as {}",
            name(every_us),
            time(from_us),
            time(until_us),
            name(chosen_step(until_us - from_us))
        )
    })
}

/// For clap: more than 0 and less than 1.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_prefix('p') {
        Some(percent) => percent.parse::<f64>().map(|percent| (percent * 1e10).round() / 1e12),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "expected a share between 0 and 1, such as 0.5 or 0.95, or the same as p50 or p95".to_owned())
}

/// For clap: steps that divide an hour, or whole hours.
fn step(text: &str) -> Result<Duration, String> {
    let duration = positive_duration(text)?;
    let seconds = duration.as_secs();
    if seconds > 0 && duration.subsec_nanos() == 0 && (3_600 % seconds == 0 || seconds % 3_600 == 0) {
        return Ok(duration);
    }
    Err("expected whole hours, or seconds or minutes that an hour is divided into evenly, such as 10s, 1m, 15m, 1h, 6h, 1d or 7d"
        .to_owned())
}

#[cfg(test)]
mod tests;
