//! `photofinish stats`: the figures of each upstream, or of other groups, with their sample sizes.
//!
//! Reads the database only, so it works with or without a running gateway. Not for definitions: `docs/measurement.md`.

pub(super) mod notes;
mod regressions;
pub(super) mod table;

use std::io;
use std::path::Path;

use crate::clock::wall_micros;
use crate::report::fields::REGRESSION;
use crate::report::regressions as of_regressions;
use crate::report::report_question::ReportQuestion;
use crate::report::{export, stats};
use crate::store::StoreReader;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct StatsOptions {
    #[command(flatten)]
    pub question: ReportQuestion,
    /// An array of objects, for programs.
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values, with the names of --json in the first line.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Below the options in `--help`.
pub const HELP: &str = include_str!("help/stats.txt").trim_ascii_end();

/// Reads the database at `store_path` and writes the table, JSON or CSV to `out`. `width`: columns of the terminal; none
/// for a pipe, where each group is one line of any length.
pub fn run(
    store_path: &Path,
    options: &StatsOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let reader = StoreReader::open(store_path)?;
    if let Some(question) = options.question.of_regressions() {
        return run_regressions(&reader, &question, options, width, out);
    }
    let question = &options.question.figures;
    let answer = stats::ask(&reader, question, wall_micros())?;
    let by = &question.by;
    if options.json {
        return Ok(export::write_json(&export::objects(by, &answer.groups), out)?);
    }
    if options.csv {
        return Ok(export::write_csv(by, &answer.groups, out)?);
    }
    if answer.attempts == 0 {
        return Ok(notes::write_nothing(store_path, &answer.filter, (answer.whole_hours, answer.running), width, out)?);
    }
    if !answer.groups.is_empty() {
        table::write(by, &answer.groups, width, out)?;
        writeln!(out)?;
    }
    Ok(notes::write(question, &answer, width, out)?)
}

fn run_regressions(
    reader: &StoreReader,
    question: &of_regressions::RegressionsQuestion,
    options: &StatsOptions,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let answer = of_regressions::ask(reader, question, wall_micros())?;
    let objects = answer.objects();
    if options.json {
        return Ok(export::write_json(&objects, out)?);
    }
    if options.csv {
        return Ok(export::write_rows(&REGRESSION.map(|field| field.name), &objects, out)?);
    }
    Ok(regressions::write(question, &answer, width, out)?)
}

#[cfg(test)]
mod tests;
