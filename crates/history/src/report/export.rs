//! The figures for programs: JSON and CSV with the same names, which are part of the public interface.
//!
//! Not for computing them: `figures` does that.

use std::io;

use serde_json::{Map, Value, json};

use super::dimension::Dimension;
use super::fields::FIGURES;
use super::figures::{GAIN_SHARES, GroupFigures, RacingGain};
use crate::estimate::survival::Estimate;
use photofinish_base::failure::FailureKind;

/// One object for each group.
pub fn objects(by: &[Dimension], groups: &[GroupFigures]) -> Vec<Map<String, Value>> {
    groups.iter().map(|figures| object(by, figures)).collect()
}

/// One JSON array.
pub fn write_json(objects: &[Map<String, Value>], out: &mut impl io::Write) -> io::Result<()> {
    // Keeps the error of `out`, so that the caller recognizes a closed pipe.
    serde_json::to_writer_pretty(&mut *out, objects).map_err(io::Error::from)?;
    writeln!(out)
}

/// As RFC 4180, with a header line; null is empty.
pub fn write_csv(by: &[Dimension], groups: &[GroupFigures], out: &mut impl io::Write) -> io::Result<()> {
    let names: Vec<&str> =
        by.iter().map(|dimension| dimension.name()).chain(FIGURES.map(|figure| figure.name)).collect();
    write_rows(&names, &objects(by, groups), out)
}

/// Objects with these names as lines.
pub fn write_rows(names: &[&str], rows: &[Map<String, Value>], out: &mut impl io::Write) -> io::Result<()> {
    write_names(names, out)?;
    rows.iter().try_for_each(|row| write_row(names, row, out))
}

/// The header line.
pub fn write_names(names: &[&str], out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "{}\r\n", names.join(","))
}

pub fn write_row(names: &[&str], row: &Map<String, Value>, out: &mut impl io::Write) -> io::Result<()> {
    let cells: Vec<String> = names.iter().map(|name| cell(row.get(*name).unwrap_or(&Value::Null))).collect();
    write!(out, "{}\r\n", cells.join(","))
}

/// The keys of a group and its figures, in the order of [`FIGURES`]. A figure that is left out if it is not known is not there.
fn object(by: &[Dimension], figures: &GroupFigures) -> Map<String, Value> {
    let [p50, p95, p99] = figures.ttft.at.map(millis);
    let [whole_p50, whole_p95, whole_p99] = figures.whole.at.map(millis);
    let [tok_s_p50, tok_s_p5] = figures.tok_s;
    let [client_p50, client_p95] = figures.client_ttft_ms;
    let share = |count: u64| (figures.attempts > 0).then(|| count as f64 / figures.attempts as f64);
    let gain = |place: usize| figures.gain.as_ref().and_then(|gains| gains[place].as_ref());
    let (upstream, gain_ms) = (|gain: &RacingGain| gain.upstream.clone(), |gain: &RacingGain| gain.gain_ms);
    let [median, tail] = [0, GAIN_SHARES.len() - 1];
    let values: [Value; FIGURES.len()] = [
        json!(figures.attempts),
        json!(figures.wins),
        json!(share(figures.wins)),
        json!(figures.failures),
        json!(share(figures.failures)),
        kinds(&figures.failure_kinds),
        json!(figures.empty),
        json!(figures.censored),
        json!(p50.0),
        json!(p50.1),
        json!(p95.0),
        json!(p95.1),
        json!(p99.0),
        json!(p99.1),
        json!(figures.ttft.samples),
        json!((figures.ttft.effective * 10.0).round() / 10.0),
        json!(whole_p50.0),
        json!(whole_p50.1),
        json!(whole_p95.0),
        json!(whole_p95.1),
        json!(whole_p99.0),
        json!(whole_p99.1),
        json!((!figures.whole.is_empty()).then_some(figures.whole.samples)),
        json!(tok_s_p50),
        json!(tok_s_p5),
        json!(figures.tpot_p95_ms),
        json!(figures.tok_s_samples),
        json!(figures.requests),
        json!(figures.goodput),
        json!(figures.attainment),
        json!(figures.cost.usd()),
        json!(figures.extra_cost.usd()),
        json!(figures.cost.basis().as_str()),
        json!(figures.extra_cost.basis().as_str()),
        json!(figures.cost.min_usd()),
        json!(figures.cost.max_usd()),
        json!(figures.extra_cost.min_usd()),
        json!(figures.extra_cost.max_usd()),
        json!(figures.aggregate_tok_s.map(|[served, _]| served)),
        json!(figures.aggregate_tok_s.map(|[_, all]| all)),
        json!(client_p50),
        json!(client_p95),
        json!(figures.client_ttft_samples),
        json!(gain(median).map(upstream)),
        json!(gain(median).map(gain_ms)),
        json!(gain(tail).map(upstream)),
        json!(gain(tail).map(gain_ms)),
    ];
    let keys = by.iter().zip(&figures.keys).map(|(dimension, key)| (dimension.name().to_owned(), key.json()));
    let known = FIGURES.iter().zip(values).filter(|(figure, value)| !(figure.optional && value.is_null()));
    keys.chain(known.map(|(figure, value)| (figure.name.to_owned(), value))).collect()
}

/// A quantile, or what it is known to be over.
fn millis(estimate: Option<Estimate>) -> (Option<f64>, Option<f64>) {
    match estimate {
        None => (None, None),
        Some(Estimate::Reached(us)) => (Some(us as f64 / 1e3), None),
        Some(Estimate::NotReached { over_us }) => (None, Some(over_us as f64 / 1e3)),
    }
}

fn kinds(kinds: &[(FailureKind, u64)]) -> Value {
    kinds.iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count))).collect::<Map<_, _>>().into()
}

/// Clients choose the names of models, and a spreadsheet would run a name such as `=cmd|…` as a formula. Such names get
/// an apostrophe in front.
fn text_cell(text: &str) -> String {
    let mark = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{mark}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{mark}{text}")
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text_cell(text),
        Value::Object(counts) => {
            counts.iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" ")
        }
        value => value.to_string(),
    }
}
