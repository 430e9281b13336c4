//! `photofinish stats`: the figures of each upstream, or of other groups, with their sample sizes.
//!
//! Reads the database only, so it works with or without a running gateway. Not for definitions: `docs/measurement.md`.

mod compare;
pub(super) mod notes;
mod table;

use std::cmp::Reverse;
use std::io;

use photofinish_base::clock::wall_micros;
use photofinish_config::Config;
use photofinish_history::report::compare as of_looks;
use photofinish_history::report::dimension::Dimension;
use photofinish_history::report::figures::{FIGURES, GroupFigures, names, objects};
use photofinish_history::report::members::{write_json, write_rows};
use photofinish_history::report::stats::{self, ReportQuestion};
use photofinish_history::store::StoreReader;

use super::screen::ScreenSettings;
use super::text::{folded, hanging, write_lines, write_paragraphs};

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct StatsOptions {
    #[command(flatten)]
    pub question: ReportQuestion,
    /// Every column, and every note.
    #[arg(long, conflicts_with_all = ["json", "csv", "compare"])]
    pub wide: bool,
    /// Every note, and the definitions of columns and marks.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub explain: bool,
    /// An array of objects, for programs.
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values, with the names of --json in the first line.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Below the options in `--help`.
pub const HELP: &str = include_str!("help/stats.txt").trim_ascii_end();

/// Below the definitions of the columns with `--explain`.
const DEFINITIONS: &str = include_str!("help/stats-explain.txt").trim_ascii_end();

/// Reads the database of this configuration and writes the table, JSON or CSV to `out`.
pub fn run(
    config: &Config,
    options: &StatsOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let store = &config.store.address;
    let reader = StoreReader::open(store)?;
    let width = screen.terminal();
    let question = &options.question.figures;
    if options.question.compare {
        let answer = of_looks::ask(&reader, &question.window, config, wall_micros())?;
        match (options.json, options.csv) {
            (true, _) => write_json(&answer.objects(), out)?,
            (_, true) => write_rows(&of_looks::names_of_rows(), &answer.rows(), out)?,
            _ => compare::write(&answer, options.explain, width, out)?,
        }
        return Ok(());
    }
    let answer = stats::ask(&reader, question, wall_micros())?;
    let by = &question.by;
    if options.json {
        return Ok(write_json(&objects(by, &answer.groups), out)?);
    }
    if options.csv {
        return Ok(write_rows(&names(by), &objects(by, &answer.groups), out)?);
    }
    let aside = notes::set_aside(store, &answer.filter);
    if answer.attempts == 0 {
        notes::write_nothing(
            store,
            &answer.filter,
            (answer.whole_hours, answer.running, &answer.coverage),
            width,
            out,
        )?;
        return Ok(write_paragraphs(aside, width, out)?);
    }
    let groups = by_wins(by, &answer.groups);
    let sheet = if options.wide { table::wide(by, &groups) } else { table::brief(by, &groups) };
    let marks = notes::marks(&sheet);
    if !groups.is_empty() {
        sheet.write(width, out)?;
        writeln!(out)?;
    }
    if options.wide || options.explain {
        notes::write((question, config), &answer, &reader.left_out(&answer.filter)?, width, out)?;
    } else {
        notes::write_brief((question, config), &answer, &marks, width, out)?;
    }
    write_paragraphs(aside, width, out)?;
    if options.explain {
        write_definitions(screen.columns(), out)?;
    }
    Ok(())
}

/// The definition of each column of the wide table, and of the marks.
fn write_definitions(width: usize, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "\nColumns:")?;
    for (column, field) in FIGURES.iter().filter_map(|figure| Some((figure.column?, figure.field))) {
        let text = format!("  {:<11}{}", column.head, field.about);
        write_lines(&hanging(&text, width.min(80), &" ".repeat(13)), out)?;
    }
    writeln!(out, "\n{}", folded(DEFINITIONS, width))
}

/// Who won most comes first. Hours, sizes and loads keep their order.
fn by_wins<'a>(by: &[Dimension], groups: &'a [GroupFigures]) -> Vec<&'a GroupFigures> {
    let mut groups: Vec<&GroupFigures> = groups.iter().collect();
    if by.iter().all(|by| matches!(by, Dimension::Upstream | Dimension::Model | Dimension::User)) {
        groups.sort_by_key(|figures| Reverse(figures.wins));
    }
    groups
}

#[cfg(test)]
mod tests;
