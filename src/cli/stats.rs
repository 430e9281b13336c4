//! `photofinish stats`: one line an upstream, with what a figure rests on beside it.
//!
//! Reads the database only, so it works with or without a running gateway. Definitions: `docs/measurement.md`.

mod tally;

use std::io;
use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock::{micros, wall_micros};
use crate::history::survival::{Estimate, is_firm};
use crate::store::{ATTEMPTS_MAX, AttemptFilter, Store};
use tally::{Figures, Tallies};

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Races that began at most so long ago; none: all.
    pub since: Option<Duration>,
    /// The model that was asked for.
    pub model: Option<String>,
    pub provider: Option<String>,
    pub json: bool,
    /// Whether a person reads it: lines are drawn, and cells wrap to `width`. Else plain text.
    pub terminal: bool,
    /// Columns of the terminal, where it tells.
    pub width: Option<u16>,
}

/// Reads the database at `store_path` and writes the table, or with `json` an array of objects, to `out`.
pub async fn run(store_path: &Path, options: &Options, out: &mut impl io::Write) -> anyhow::Result<()> {
    let since = options.since.map(|since| wall_micros().saturating_sub(micros(since)));
    let filter = AttemptFilter { since, model: options.model.clone(), provider: options.provider.clone() };
    let mut reader = Store::open_read_only(store_path).await?;
    let mut tallies = Tallies::default();
    let count = reader.attempts(&filter, |sample| tallies.add(&sample)).await?;
    reader.close().await;

    let without_speed = tallies.without_speed();
    let upstreams = tallies.figures();
    if options.json {
        let objects: Vec<Value> = upstreams.iter().map(object).collect();
        // As the error of `out` that it is, for the caller to tell a closed pipe by.
        serde_json::to_writer_pretty(&mut *out, &objects).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if upstreams.is_empty() {
        write_nothing(store_path, &filter, out)?;
    } else {
        writeln!(out, "{}", table(&upstreams, options))?;
        write_footer(&filter, count, without_speed, out)?;
    }
    Ok(())
}

const HEADER: [&str; 12] = [
    "upstream",
    "attempts",
    "wins",
    "failures",
    "empty",
    "censored",
    "TTFT p50",
    "p95",
    "p99",
    "samples",
    "tok/s p50",
    "p5",
];

fn table(upstreams: &[Figures], options: &Options) -> Table {
    let mut table = Table::new();
    if options.terminal {
        table.load_style(presets::UTF8_NO_BORDERS).set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = options.width {
            table.set_width(width);
        }
    } else {
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    }
    table.set_header(HEADER.into_iter().chain(["samples"]));
    for upstream in upstreams {
        table.add_row(line(upstream));
    }
    if let Some(names) = table.column_mut(0) {
        // Whole, to be copied; the others wrap.
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn line(figures: &Figures) -> Vec<String> {
    let share = |count: usize| match (100 * count + figures.attempts / 2).checked_div(figures.attempts) {
        Some(percent) if count > 0 => format!("{count} ({percent} %)"),
        _ => count.to_string(),
    };
    let mark = |samples, p| if is_firm(samples, p) { "" } else { "~" };
    let ttft = figures.ttft.iter().map(|(p, estimate)| match estimate {
        None => "–".to_owned(),
        Some(Estimate::Reached(us)) => format!("{}{}", mark(figures.ttft_samples, *p), millis(*us)),
        Some(Estimate::NotReached { over_us }) => format!("> {}", millis(*over_us)),
    });
    let tok_s = figures.tok_s.iter().map(|(p, value)| match value {
        None => "–".to_owned(),
        Some(tok_s) => format!("{}{tok_s:.1}", mark(figures.tok_s_samples, *p)),
    });
    let counts = [figures.wins, figures.failures, figures.empty, figures.censored].map(share);
    [figures.upstream.clone(), figures.attempts.to_string()]
        .into_iter()
        .chain(counts)
        .chain(ttft)
        .chain([figures.ttft_samples.to_string()])
        .chain(tok_s)
        .chain([figures.tok_s_samples.to_string()])
        .collect()
}

fn millis(us: i64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

fn write_nothing(path: &Path, filter: &AttemptFilter, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "No attempts in {}: {}.", path.display(), window(filter))?;
    if filter.since.is_some() || filter.model.is_some() || filter.provider.is_some() {
        writeln!(out, "Ask for more: a longer --since, another --model or --provider, or none of them.")
    } else {
        writeln!(out, "Send a request to `photofinish serve`; each attempt is a row some 50 ms after it ended.")
    }
}

fn write_footer(
    filter: &AttemptFilter,
    attempts: usize,
    without_speed: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    writeln!(out, "\n{attempts} attempts: {}.", window(filter))?;
    if attempts == ATTEMPTS_MAX {
        writeln!(out, "Older ones were left out: this reads the newest {ATTEMPTS_MAX} only.")?;
    }
    writeln!(
        out,
        "TTFT is first token − the attempt's own dispatch, estimated (Kaplan–Meier) with the censored attempts, which were
cut off before their first token; \"> x\": cut off too often to say more. samples: first tokens that were seen.
tok/s is 1 / time per output token after the first, by the provider's own count; p5 is the slow end. Left out of it:
{without_speed} attempts with a token but without a usable count, with a burst, or with several choices.
failures: failed, failed midway, timed out, refused. ~: fewer than 10/(1−p) samples (p5: 10/p)."
    )
}

fn window(filter: &AttemptFilter) -> String {
    let since = match filter.since.map(Timestamp::from_microsecond) {
        Some(Ok(since)) => format!("races begun since {since:.0}"),
        _ => "all races".to_owned(),
    };
    let model = filter.model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
    let provider = filter.provider.as_ref().map(|provider| format!(", provider {provider}")).unwrap_or_default();
    since + &model + &provider
}

/// The names are part of the product's face.
fn object(figures: &Figures) -> Value {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
    set("upstream", json!(figures.upstream));
    set("attempts", json!(figures.attempts));
    set("wins", json!(figures.wins));
    set("failures", json!(figures.failures));
    set("empty", json!(figures.empty));
    set("censored", json!(figures.censored));
    for (p, estimate) in &figures.ttft {
        let percent = (p * 100.0).round();
        let (reached, over) = match estimate {
            None => (None, None),
            Some(Estimate::Reached(us)) => (Some(*us as f64 / 1e3), None),
            Some(Estimate::NotReached { over_us }) => (None, Some(*over_us as f64 / 1e3)),
        };
        set(&format!("ttft_p{percent}_ms"), json!(reached));
        if reached.is_none() {
            set(&format!("ttft_p{percent}_over_ms"), json!(over));
        }
    }
    set("ttft_samples", json!(figures.ttft_samples));
    for (p, tok_s) in &figures.tok_s {
        set(&format!("tok_s_p{}", (p * 100.0).round()), json!(tok_s));
    }
    set("tpot_p95_ms", json!(figures.tpot_p95_ms));
    set("tok_s_samples", json!(figures.tok_s_samples));
    Value::Object(object)
}

#[cfg(test)]
mod tests;
