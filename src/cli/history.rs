//! `photofinish history`: a figure over time, or over attempts in flight, drawn as lines, with notes below.
//!
//! Reads the database only, so it works with or without a running gateway. Not for definitions: `docs/measurement.md`.

mod export;
mod notes;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use super::plot::{self, Plot, PlotUnit, XAxis};
use super::stats::notes::write_nothing;
use crate::clock::wall_micros;
use crate::config::units::format_duration;
use crate::history::class::Concurrency;
use crate::report::export as points;
use crate::report::series::{self, Metric, PointPlace, SeriesDimension, SeriesQuestion, SeriesReport};
use crate::store::StoreReader;

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
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// Prints the rows of a table as CSV or as JSON lines, for at most 30 s.
    Export(export::Export),
}

impl HistoryOptions {
    /// An error in the combination of valid options.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        match &self.action {
            Some(Action::Export(export)) => export.window.problem(now_us),
            None => self.question.problem(now_us),
        }
    }
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = "\
Examples:
  photofinish history --since 24h                                 TTFT p50 of each upstream
  photofinish history --since 7d --quantile p95 --every 2h        its tail, in longer steps
  photofinish history --metric client_ttft --by model             what streaming clients saw
  photofinish history --metric tok_s --quantile p5                the slow end of the speed
  photofinish history --metric goodput --slo ttft=500ms --by user requests in time, per second
  photofinish history --metric failures --provider groq           the share that failed
  photofinish history --metric tok_s --by concurrency             speed over the load there
  photofinish history --metric cost --every 1d --csv              dollars a day, as a table
  photofinish history export --since 24h > attempts.csv           the rows themselves

A letter on a line names it in the legend; ^ marks a value that is only known to be above.";

/// The size and colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSettings {
    /// Columns.
    pub width: u16,
    /// Rows of the picture, without its legend.
    pub height: u16,
    pub colour: bool,
}

/// A picture in a pipe or a file is always the same.
const PIPED: ScreenSettings = ScreenSettings { width: 100, height: 20, colour: false };
/// Rows of a short terminal that are left for the legend and the prompt.
const BELOW: u16 = 4;

impl ScreenSettings {
    /// Standard output now.
    pub fn of_stdout() -> ScreenSettings {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return PIPED;
        }
        let (width, rows) = terminal_size::terminal_size_of(stdout).map_or((80, 24), |(width, rows)| (width.0, rows.0));
        let colour = std::env::var_os("NO_COLOR").is_none();
        ScreenSettings { width, height: rows.saturating_sub(BELOW).min(PIPED.height), colour }
    }

    /// Set if standard output and standard error are both a terminal.
    pub fn of_terminal() -> Option<ScreenSettings> {
        (io::stdout().is_terminal() && io::stderr().is_terminal()).then(ScreenSettings::of_stdout)
    }

    /// Columns of the terminal, if it is one.
    pub(super) fn terminal(self) -> Option<usize> {
        (self != PIPED).then_some(usize::from(self.width))
    }
}

/// Reads the database at `store_path` and writes the picture, JSON or CSV to `out`; notes that would break JSON or CSV
/// go to `err`.
pub fn run(
    store_path: &Path,
    options: &HistoryOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<()> {
    if let Some(Action::Export(options)) = &options.action {
        return export::run(store_path, options, out);
    }
    let reader = StoreReader::open(store_path)?;
    let question = &options.question;
    let answer = series::ask(&reader, question, wall_micros())?;
    if let Some(left_out) = notes::left_out(&answer).filter(|_| options.json || options.csv) {
        writeln!(err, "{left_out}")?;
    }
    if options.json {
        return Ok(points::write_json(&series::objects(question, &answer), out)?);
    }
    if options.csv {
        return Ok(points::write_rows(&series::names(question), &series::objects(question, &answer), out)?);
    }
    if answer.attempts == 0 {
        return Ok(write_nothing(store_path, &answer.filter, (answer.moved, answer.running), screen.terminal(), out)?);
    }
    let title = title(question, &answer);
    let plot = Plot { title: &title, unit: unit(question.metric), x: axis(&answer), lines: lines(question, &answer) };
    plot::write(&plot, screen.width, screen.height, screen.colour, out)?;
    writeln!(out)?;
    Ok(notes::write(question, &answer, screen, out)?)
}

/// The length of a step for people.
fn length(us: i64) -> String {
    format_duration(Duration::from_micros(us.unsigned_abs()))
}

/// The name of the metric for people, with its quantile: `TTFT p95`.
fn figure(question: &SeriesQuestion) -> String {
    let name = match question.metric {
        Metric::Ttft => "TTFT",
        Metric::ClientTtft => "client TTFT",
        Metric::TokS => "tok/s",
        Metric::Goodput => "goodput",
        Metric::Failures => "failures",
        Metric::Cost => "cost",
    };
    match question.quantile() {
        // In percent, without digits from rounding.
        Some(share) => format!("{name} p{}", (share * 1e8).round() / 1e6),
        None => name.to_owned(),
    }
}

fn title(question: &SeriesQuestion, answer: &SeriesReport) -> String {
    let figure = figure(question);
    match (question.by, answer.every_us) {
        (SeriesDimension::Concurrency, _) => format!("{figure} by upstream, over its attempts in flight"),
        (by, every_us) => format!("{figure} by {}, every {}", by.name(), length(every_us.unwrap_or_default())),
    }
}

fn unit(metric: Metric) -> PlotUnit {
    match metric {
        Metric::Ttft | Metric::ClientTtft => PlotUnit::Millis,
        Metric::TokS => PlotUnit::TokensPerSecond,
        Metric::Goodput => PlotUnit::PerSecond,
        Metric::Failures => PlotUnit::Percent,
        Metric::Cost => PlotUnit::Dollars,
    }
}

fn axis(answer: &SeriesReport) -> XAxis<'static> {
    let (from_us, until_us) = answer.span_us;
    match answer.every_us {
        Some(step_us) => XAxis::Time { from_us: from_us.div_euclid(step_us) * step_us, until_us, step_us },
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
