//! `photofinish stats`: the figures of each upstream, or of other groups, with their sample sizes.
//!
//! Reads the database only, so it works with or without a running gateway. Not for definitions: `docs/measurement.md`.

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
pub const HELP: &str = "\
Examples:
  photofinish stats --since 24h                        each upstream in the last day
  photofinish stats --by model                         what racing gained, for each model
  photofinish stats --by upstream,hour --since 7d      at which hours it is slow
  photofinish stats --by upstream,concurrency          how it bears our own load
  photofinish stats --slo ttft=500ms --by user --csv   whose requests came in time, as a table
  photofinish stats --strata input,stream              compared at equal requests
  photofinish stats --regressions                      what has become worse within the last hour

Columns:
  wins         attempts that served their client to the end
  failures     attempts that failed, failed midway, timed out or were refused
  censored     attempts that were cut off before their first token
  TTFT         first token - the attempt's own dispatch, estimated (Kaplan-Meier) with the censored attempts
  TTFT n       first tokens that were seen
  tok/s        1 / TPOT, the time per output token after the first, by the provider's own count; p5: the slow end.
               Not of bursts and of requests for several choices
  tok/s n      attempts that tok/s and TPOT come from
  requests     requests that the group answered, and requests that it tried and no upstream answered. Requests that
               the client left do not count
  attained     share of the requests that finished well within the targets (--slo)
  goodput      the same requests per second of the window; by hour or weekday, per second of that hour or weekday
  cost         all attempts; an attempt without a price counts as 0 in a lower bound
  extra        the losers among them: the price of racing
  client TTFT  of clients that asked to stream
  gain         for one model: what the best upstream alone would have given (estimated), less client TTFT; negative
               where racing cost time

Groups:
  hour, weekday  when the race began, UTC
  input          tokens of the request, estimated as bytes / 4 since losers report no count; the upper end is excluded
  concurrency    attempts of this gateway at the upstream at dispatch, itself included. Production traffic confounds
                 it: busy hours are busy for others too

Marks:
  ~          fewer than 10/(1-p) effective samples (p5: 10/p)
  > x        so many attempts were cut off that the quantile is only known to be above x
  a-b >= <=  the cost lies between bounds, or has one bound
  –          not known

Left out are attempts of running races, and requests without an attempt: the gateway rejected them, or all upstreams
were cooling down. Roll-ups keep counts and costs exact and times to 1.6 %; where most attempts were cut off, an
estimate may fall on a neighbouring time. Strata are weighted by their shares of the attempts. All definitions:
docs/measurement.md.

With --regressions the exit code is 0 whether anything is worse or not.";

/// Reads the database at `store_path` and writes the table, JSON or CSV to `out`. `width`: columns of the terminal; none
/// for a pipe, where each group is one line of any length.
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
