//! `photofinish stats`: the figures of each upstream, or of other groups, with what they rest on beside them.
//!
//! Reads the database only, so it works with or without a running gateway. Definitions: `docs/measurement.md`.

mod export;
mod group;
mod notes;
mod options;
mod table;
mod tally;

use std::io;
use std::path::Path;

use crate::clock::wall_micros;
use crate::history::goodput::Window;
use crate::store::{AttemptFilter, Store};
use notes::Notes;
pub use options::Options;
use tally::Tallies;

/// Reads the database at `store_path` and writes the table, or what programs read, to `out`. `width`: columns of the
/// terminal that it is for; none where it is piped, then each group is one line, however long.
pub async fn run(
    store_path: &Path,
    options: &Options,
    width: Option<u16>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let now_us = wall_micros();
    let filter = AttemptFilter {
        since: options.since.map(|since| since.micros(now_us)),
        until: options.until.map(|until| until.micros(now_us)),
        model: options.model.clone(),
        provider: options.provider.clone(),
        user: options.user.clone(),
    };
    let mut reader = Store::open_read_only(store_path).await?;
    let mut tallies = Tallies::new(&options.by, options.slo);
    let attempts = reader.attempts(&filter, |sample| tallies.add(&sample)).await?;
    let without_attempts = match filter.provider {
        Some(_) => 0,
        None => reader.requests_without_attempts(&filter).await?,
    };
    reader.close().await;

    let truncated = attempts == crate::store::ATTEMPTS_MAX;
    let from_us = filter.since.filter(|_| !truncated).or(tallies.oldest).unwrap_or(now_us);
    let until_us = filter.until.unwrap_or(now_us).min(now_us);
    let (without_speed, without_verdict) = (tallies.without_speed(), tallies.without_verdict());
    let mut groups = tallies.figures(&Window::new(from_us, until_us));
    let all = groups.len();
    groups.retain(|figures| figures.attempts >= options.min_samples);
    let too_small = all - groups.len();

    if options.json {
        return Ok(export::write_json(&options.by, &groups, out)?);
    }
    if options.csv {
        return Ok(export::write_csv(&options.by, &groups, out)?);
    }
    if attempts == 0 {
        return Ok(notes::write_nothing(store_path, &filter, out)?);
    }
    let width = width.map(usize::from);
    if !groups.is_empty() {
        table::write(&options.by, &groups, width, out)?;
        writeln!(out)?;
    }
    let span_us = (from_us, until_us);
    let notes = Notes {
        options,
        filter: &filter,
        attempts,
        span_us,
        without_attempts,
        without_speed,
        without_verdict,
        too_small,
    };
    Ok(notes.write(width, out)?)
}

#[cfg(test)]
mod tests;
