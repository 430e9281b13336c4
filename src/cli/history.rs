//! `photofinish history`: a figure over time, or over attempts in flight, drawn as lines, with notes below.
//!
//! Reads the database only, so it works with or without a running gateway. Not for definitions: `docs/measurement.md`.

mod export;
mod notes;

use std::io;

use self::notes::{figure, length};
use super::plot::{self, Plot, PlotUnit, XAxis};
use super::screen::ScreenSettings;
use super::stats::notes::write_nothing;
use super::text::{write_folded, write_paragraphs};
use photofinish_base::clock::wall_micros;
use photofinish_config::StoreAddress;
use photofinish_facts::estimate::class::Concurrency;
use photofinish_history::report::members::{write_json, write_rows};
use photofinish_history::report::question::RaceWindow;
use photofinish_history::report::series::{self, Metric, PointPlace, SeriesDimension, SeriesQuestion, SeriesReport};
use photofinish_history::store::StoreReader;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct HistoryOptions {
    #[command(flatten)]
    pub question: SeriesQuestion,
    /// An array of objects, one a point, for programs.
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values, with the names of --json in the first line.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Every note: definitions, steps, and what was left out.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub explain: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// Prints the rows of a table as CSV or as JSON lines, for at most 30 s.
    Export(export::Export),
}

impl HistoryOptions {
    pub fn window(&mut self) -> &mut RaceWindow {
        match &mut self.action {
            Some(Action::Export(export)) => &mut export.window,
            None => &mut self.question.window,
        }
    }

    /// An error in the combination of valid options.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        match &self.action {
            Some(Action::Export(export)) => export.window.problem(now_us),
            None => self.question.problem(now_us),
        }
    }
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/history.txt").trim_ascii_end();

/// Reads the database and writes the picture, JSON or CSV to `out`; notes that would break JSON or CSV
/// go to `err`.
pub fn run(
    store: &StoreAddress,
    options: &HistoryOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<()> {
    if let Some(Action::Export(options)) = &options.action {
        return export::run(store, options, out);
    }
    let reader = StoreReader::open(store)?;
    let question = &options.question;
    let answer = series::ask(&reader, question, wall_micros())?;
    if let Some(left_out) = notes::left_out(&answer).filter(|_| options.json || options.csv) {
        write_folded(&left_out, screen.columns(), err)?;
    }
    if options.json {
        return Ok(write_json(&series::objects(question, &answer), out)?);
    }
    if options.csv {
        return Ok(write_rows(&series::names(question), &series::objects(question, &answer), out)?);
    }
    if answer.attempts == 0 {
        let read = (answer.moved, answer.running, &answer.coverage);
        return Ok(write_nothing(store, &answer.filter, read, screen.terminal(), out)?);
    }
    let title = title(question, &answer);
    if notes::is_unknown(&answer) {
        write_paragraphs([notes::unknown(question, &answer)], screen.terminal(), out)?;
        return Ok(());
    }
    let plot = Plot { title: &title, unit: unit(question.metric), x: axis(&answer), lines: lines(question, &answer) };
    plot::write(&plot, screen.width, screen.height, screen.colour, out)?;
    writeln!(out)?;
    if options.explain {
        return Ok(notes::write(question, &answer, screen, out)?);
    }
    Ok(notes::write_brief(&answer, screen, out)?)
}

fn title(question: &SeriesQuestion, answer: &SeriesReport) -> String {
    let figure = figure(question);
    match (question.by, answer.every_us) {
        (SeriesDimension::Concurrency, _) => format!("{figure} by upstream, over its attempts in flight"),
        (by, every_us) => format!("{figure} by {}, every {}", by.as_str(), length(every_us.unwrap_or_default())),
    }
}

fn unit(metric: Metric) -> PlotUnit {
    match metric {
        Metric::Ttft | Metric::ClientTtft => PlotUnit::Millis,
        Metric::TokS => PlotUnit::TokensPerSecond,
        Metric::Goodput => PlotUnit::PerSecond,
        Metric::Failures => PlotUnit::Percent,
        Metric::Cost => PlotUnit::Dollars,
        Metric::Requests | Metric::InputTokens | Metric::OutputTokens => PlotUnit::Count,
    }
}

/// From the first to the last step with a point: there is nothing to see before and behind.
fn axis(answer: &SeriesReport) -> XAxis<'static> {
    let (from_us, until_us) = answer.span_us;
    match answer.every_us {
        Some(step_us) => {
            let from_us = from_us.div_euclid(step_us) * step_us;
            let starts = || answer.lines.iter().flat_map(|line| &line.points).map(|point| x(point.place) as i64);
            let (first_us, last_us) = (starts().min().unwrap_or(from_us), starts().max().unwrap_or(until_us));
            XAxis::Time { from_us: from_us.max(first_us), until_us: until_us.min(last_us + step_us), step_us }
        }
        None => {
            let points = answer.lines.iter().flat_map(|line| &line.points);
            let classes = points.map(|point| x(point.place) as usize + 1).max().unwrap_or(0);
            let labels = Concurrency::names().take(classes).map(str::to_owned).collect();
            XAxis::Classes { name: "attempts in flight at the upstream", labels }
        }
    }
}

fn lines(question: &SeriesQuestion, answer: &SeriesReport) -> Vec<plot::PlotLine> {
    let scale = if question.metric == Metric::Failures { 100.0 } else { 1.0 };
    let line = |line: &series::SeriesLine| {
        let values = line.points.iter().filter_map(|point| Some((x(point.place), point.value? * scale)));
        let over = line.points.iter().filter_map(|point| Some((x(point.place), point.over?)));
        plot::PlotLine { name: line.name.text(), points: values.collect(), open: over.collect() }
    };
    answer.lines.iter().map(line).collect()
}

fn x(place: PointPlace) -> f64 {
    match place {
        PointPlace::Time { start_us, .. } => start_us as f64,
        PointPlace::Class(class) => f64::from(class.place()),
    }
}

#[cfg(test)]
mod tests;
