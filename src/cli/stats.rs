//! `photofinish stats`: the figures of each upstream, with what they rest on beside them.
//!
//! Reads the database only, so it works with or without a running gateway. Definitions: `docs/measurement.md`.

mod table;
mod tally;

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock::{micros, wall_micros};
use crate::history::survival::Estimate;
use crate::store::{ATTEMPTS_MAX, AttemptFilter, Store};
use tally::{Figures, Tallies};

/// Columns of the notes below the figures: longer lines are hard to read.
const NOTES_WIDTH: usize = 110;

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Races that began at most so long ago; none: all.
    pub since: Option<Duration>,
    /// The model that was asked for.
    pub model: Option<String>,
    pub provider: Option<String>,
    pub json: bool,
    /// Columns of the terminal that it is for. None where it is piped: then each upstream is one line, however long.
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
        let width = options.width.map(usize::from);
        table::write(&upstreams, width, out)?;
        writeln!(out)?;
        for note in notes(&filter, count, without_speed) {
            let words: Vec<String> = note.split(' ').map(str::to_owned).collect();
            table::write_wrapped(&words, " ", "", width.unwrap_or(NOTES_WIDTH).min(NOTES_WIDTH), out)?;
        }
    }
    Ok(())
}

fn write_nothing(path: &Path, filter: &AttemptFilter, out: &mut impl io::Write) -> io::Result<()> {
    if filter.since.is_some() || filter.model.is_some() || filter.provider.is_some() {
        writeln!(out, "No attempts in {}: {}.", path.display(), window(filter))?;
        writeln!(out, "Ask for more: a longer --since, another --model or --provider, or none of them.")
    } else {
        writeln!(out, "No attempts in {} yet.", path.display())?;
        writeln!(out, "Send a request to `photofinish serve`; each attempt is a row some 50 ms after it ended.")
    }
}

/// What the figures mean, a paragraph each.
fn notes(filter: &AttemptFilter, attempts: usize, without_speed: usize) -> Vec<String> {
    let counted = |count: usize| if count == 1 { format!("{count} attempt") } else { format!("{count} attempts") };
    let mut notes = vec![format!("{}: {}.", counted(attempts), window(filter))];
    if attempts == ATTEMPTS_MAX {
        notes.push(format!("Older ones were left out: this reads the newest {ATTEMPTS_MAX} only."));
    }
    notes.push(
        "TTFT: first token − the attempt's own dispatch, estimated (Kaplan–Meier) with the censored attempts, which were \
         cut off before their first token. \"> x\": cut off too often to say more. TTFT n: first tokens that were seen."
            .to_owned(),
    );
    let mut speed =
        "tok/s: 1 / time per output token after the first, by the provider's own count; p5 is the slow end. \
                     tok/s n: attempts that it is from."
            .to_owned();
    if without_speed > 0 {
        let left_out = counted(without_speed);
        speed += &format!(
            " Left out: {left_out} with a token but without a usable count, with a burst, or with several choices."
        );
    }
    notes.push(speed);
    notes.push("failures: failed, failed midway, timed out, refused.".to_owned());
    notes.push("~: from fewer than 10/(1−p) samples (p5: 10/p).".to_owned());
    notes
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
