//! `photofinish stats`: the figures of each upstream, or of other groups, with what they rest on beside them.
//!
//! Reads the database only, so it works with or without a running gateway. Definitions: `docs/measurement.md`.

pub(super) mod notes;
mod regressions;
mod table;

use std::io;
use std::path::Path;

use crate::clock::wall_micros;
use crate::report::regressions::{NAMES, Question, ask};
use crate::report::{export, stats};
use crate::store::Reader;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    pub question: stats::Question,
    /// What is worse since --since (1h where it is not given; at most 24h) than in the same hours of the 7 days before,
    /// upstream by upstream. The exit code is 0 either way.
    #[arg(long, conflicts_with_all = ["by", "slo", "min_samples", "half_life", "strata", "exact"])]
    pub regressions: bool,
    /// An array of objects, for programs.
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values, with the names of --json in the first line.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl Options {
    /// What is wrong with it as a whole, though each part is right.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        if self.regressions { self.of_regressions().problem(now_us) } else { self.question.problem(now_us) }
    }

    fn of_regressions(&self) -> Question {
        Question { window: self.question.window.clone() }
    }
}

/// Reads the database at `store_path` and writes the table, or what programs read, to `out`. `width`: columns of the
/// terminal that it is for; none where it is piped, then each group is one line, however long.
pub fn run(store_path: &Path, options: &Options, width: Option<u16>, out: &mut impl io::Write) -> anyhow::Result<()> {
    let reader = Reader::open(store_path)?;
    if options.regressions {
        return run_regressions(&reader, options, width, out);
    }
    let answer = stats::ask(&reader, &options.question, wall_micros())?;
    let by = &options.question.by;
    if options.json {
        return Ok(export::write_json(&export::objects(by, &answer.groups), out)?);
    }
    if options.csv {
        return Ok(export::write_csv(by, &answer.groups, out)?);
    }
    if answer.attempts == 0 {
        return Ok(notes::write_nothing(store_path, &answer.filter, out)?);
    }
    let width = width.map(usize::from);
    if !answer.groups.is_empty() {
        table::write(by, &answer.groups, width, out)?;
        writeln!(out)?;
    }
    Ok(notes::write(&options.question, &answer, width, out)?)
}

fn run_regressions(
    reader: &Reader,
    options: &Options,
    width: Option<u16>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let question = options.of_regressions();
    let answer = ask(reader, &question, wall_micros())?;
    let objects: Vec<_> = answer.findings.iter().map(|found| found.object()).collect();
    if options.json {
        return Ok(export::write_json(&objects, out)?);
    }
    if options.csv {
        return Ok(export::write_rows(&NAMES, &objects, out)?);
    }
    Ok(regressions::write(&question, &answer, width.map(usize::from), out)?)
}

#[cfg(test)]
mod tests;
