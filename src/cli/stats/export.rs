//! The figures for programs: JSON and CSV with the same names, which are part of the product's face.

use std::io;

use serde_json::{Map, Value, json};

use super::group::Dimension;
use super::tally::Figures;
use crate::history::survival::Estimate;

/// An array of objects.
pub(super) fn write_json(by: &[Dimension], groups: &[Figures], out: &mut impl io::Write) -> io::Result<()> {
    let objects: Vec<Map<String, Value>> = groups
        .iter()
        .map(|figures| {
            let mut object = fields(by, figures);
            // Where the quantile was reached there is nothing that it is over.
            object.retain(|name, value| !(name.ends_with("_over_ms") && value.is_null()));
            object
        })
        .collect();
    // As the error of `out` that it is, for the caller to tell a closed pipe by.
    serde_json::to_writer_pretty(&mut *out, &objects).map_err(io::Error::from)?;
    writeln!(out)
}

/// As RFC 4180 has it, with a line of names; null is empty.
pub(super) fn write_csv(by: &[Dimension], groups: &[Figures], out: &mut impl io::Write) -> io::Result<()> {
    let names = by.iter().map(|dimension| dimension.name()).chain(FIGURES).collect::<Vec<_>>();
    write!(out, "{}\r\n", names.join(","))?;
    for figures in groups {
        let fields = fields(by, figures);
        let cells: Vec<String> = names.iter().map(|name| cell(fields.get(*name).unwrap_or(&Value::Null))).collect();
        write!(out, "{}\r\n", cells.join(","))?;
    }
    Ok(())
}

/// Behind the group's keys, in this order.
const FIGURES: [&str; 22] = [
    "attempts",
    "wins",
    "failures",
    "empty",
    "censored",
    "ttft_p50_ms",
    "ttft_p50_over_ms",
    "ttft_p95_ms",
    "ttft_p95_over_ms",
    "ttft_p99_ms",
    "ttft_p99_over_ms",
    "ttft_samples",
    "tok_s_p50",
    "tok_s_p5",
    "tpot_p95_ms",
    "tok_s_samples",
    "requests",
    "goodput",
    "attainment",
    "cost_usd",
    "extra_cost_usd",
    "cost_basis",
];

fn fields(by: &[Dimension], figures: &Figures) -> Map<String, Value> {
    let [p50, p95, p99] = figures.ttft.map(|(_, estimate)| match estimate {
        None => (None, None),
        Some(Estimate::Reached(us)) => (Some(us as f64 / 1e3), None),
        Some(Estimate::NotReached { over_us }) => (None, Some(over_us as f64 / 1e3)),
    });
    let [tok_s_p50, tok_s_p5] = figures.tok_s.map(|(_, tok_s)| tok_s);
    let values = [
        json!(figures.attempts),
        json!(figures.wins),
        json!(figures.failures),
        json!(figures.empty),
        json!(figures.censored),
        json!(p50.0),
        json!(p50.1),
        json!(p95.0),
        json!(p95.1),
        json!(p99.0),
        json!(p99.1),
        json!(figures.ttft_samples),
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
    ];
    let keys = by.iter().zip(&figures.keys).map(|(dimension, key)| (dimension.name().to_owned(), key.json()));
    keys.chain(FIGURES.map(str::to_owned).into_iter().zip(values)).collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
