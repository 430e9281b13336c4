//! The text of cells, for every section.

use crate::cli::text::or_dash;

/// `2026-01-02T03:04:05Z` as `2026-01-02 03:04`.
pub fn minutes(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A value with its 95 % interval, if there is one.
pub fn estimate([value, low, high]: [Option<f64>; 3], shown: impl Fn(f64) -> String) -> String {
    let interval = low.zip(high).map_or(String::new(), |(low, high)| format!(" ({} to {})", shown(low), shown(high)));
    or_dash(value, |value| format!("{}{interval}", shown(value)))
}

pub fn duration(ms: f64) -> String {
    if ms < 999.5 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1e3) }
}

pub fn speed(tok_s: f64) -> String {
    if tok_s < 99.95 { format!("{tok_s:.1}") } else { format!("{tok_s:.0}") }
}
