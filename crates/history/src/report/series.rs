//! A figure over time, or over attempts in flight: a series of points for each upstream, model or user. The definitions
//! are those of `stats`.
//!
//! Not for drawing: the command does that.

mod answer;
mod export;
mod gather;
mod points;
mod question;

use self::gather::{GatheredSeries, SeriesRules};
use self::question::{chosen_step, end, too_many_steps};
use crate::store::{Selection, StoreReader};
pub use answer::{PointPlace, SERIES_MAX, SeriesError, SeriesLine, SeriesPoint, SeriesReport};
pub use export::{names, objects};
use photofinish_base::clock::{DAY_US, HOUR_US, micros};
pub use question::{Metric, STEPS_MAX, SeriesDimension, SeriesQuestion};

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
            let since = filter.since.map_or_else(|| reader.oldest(filter.source), |since| Ok(Some(since)))?;
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

#[cfg(test)]
mod tests;
