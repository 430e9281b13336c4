//! `photofinish stats`: the figures of each upstream, or of other groups, with what they rest on beside them.
//!
//! Reads the database only, so it works with or without a running gateway. Definitions: `docs/measurement.md`.

pub(super) mod notes;
mod regressions;
pub(super) mod table;

use std::io;
use std::path::Path;

use crate::clock::wall_micros;
use crate::report::regressions::{self as of_regressions, NAMES};
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
pub const EXAMPLES: &str = "\
Examples:
  photofinish stats --since 24h                        each upstream in the last day
  photofinish stats --by model                         what racing gained, for each model
  photofinish stats --by upstream,hour --since 7d      at which hours it is slow
  photofinish stats --by upstream,concurrency          how it bears our own load
  photofinish stats --slo ttft=500ms --by user --csv   whose requests came in time, as a table
  photofinish stats --strata input,stream              compared at equal requests
  photofinish stats --regressions                      what has become worse within the last hour

With --regressions the exit code is 0 whether anything is worse or not.";

/// Reads the database at `store_path` and writes the table, or what programs read, to `out`. `width`: columns of the
/// terminal that it is for; none where it is piped, then each group is one line, however long.
pub fn run(
    store_path: &Path,
    options: &StatsOptions,
    width: Option<u16>,
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
    let width = width.map(usize::from);
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
    width: Option<u16>,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let answer = of_regressions::ask(reader, question, wall_micros())?;
    let objects = answer.objects();
    if options.json {
        return Ok(export::write_json(&objects, out)?);
    }
    if options.csv {
        return Ok(export::write_rows(&NAMES, &objects, out)?);
    }
    Ok(regressions::write(question, &answer, width.map(usize::from), out)?)
}

#[cfg(test)]
mod tests;
