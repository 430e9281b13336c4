//! The figures as text: two lines per policy; or, with `--wide`, four, and then what was recorded of each upstream.
//! Not for programs: that is `objects`.

use std::io;

use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::clean;
use photofinish_facts::estimate::cost::Cost;
use photofinish_lab::replay::{
    FIGURES, Interval, PastCounts, PlayedHistory, ReplayFigure, ReplayFigures, ReplayRow, UpstreamModel,
};

const HEADS: [&str; FIGURES.len()] = ["TTFT p50", "p95", "p99", "whole p50", "p95", "cost", "attempts", "unanswered"];
/// The figures of the default table, which fit 80 columns.
const BRIEF: [ReplayFigure; 6] = [
    ReplayFigure::TtftP50,
    ReplayFigure::TtftP95,
    ReplayFigure::TtftP99,
    ReplayFigure::WholeP50,
    ReplayFigure::Cost,
    ReplayFigure::Attempts,
];

/// Writes the main figures, and below each how far it is from what was recorded.
pub(super) fn write(report: &PlayedHistory, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let rows = all(report);
    let place = |figure: &ReplayFigure| FIGURES.iter().position(|other| other == figure);
    let differs = rows.iter().any(|row| row.values.last() != rows[0].values.last());
    let unanswered = differs.then_some(FIGURES.len() - 1);
    let places: Vec<usize> = BRIEF.iter().filter_map(place).chain(unanswered).collect();
    let line = |name: &str, cells: &[String]| -> Vec<String> {
        [name.to_owned()].into_iter().chain(places.iter().filter_map(|place| cells.get(*place).cloned())).collect()
    };
    let lines = rows.iter().flat_map(|row| {
        let change = (!row.changes.is_empty()).then(|| match row.note {
            "" => line("", &row.changes),
            note => line(note, &vec![String::new(); FIGURES.len()]),
        });
        [line(&row.name, &row.values)].into_iter().chain(change)
    });
    let heads = [""].into_iter().chain(places.iter().map(|place| HEADS[*place]));
    sheet(heads, lines.collect()).write(width, out)
}

/// Writes all of them, and then what was recorded of each upstream.
pub(super) fn write_wide(report: &PlayedHistory, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let heads = [""].into_iter().chain(HEADS).chain(["drawn"]);
    sheet(heads, lines(&all(report))).write(width, out)?;
    writeln!(out)?;
    sheet(["upstream", "seen", "cut", "failed", "never tried", "beyond"], upstreams(report)).write(width, out)
}

/// The first column has names.
fn sheet<'h>(heads: impl IntoIterator<Item = &'h str>, rows: Vec<Vec<String>>) -> Sheet {
    let cells = |row: Vec<String>| row.iter().map(|cell| SheetCell::from(clean(cell))).collect();
    Sheet {
        heads: heads.into_iter().map(str::to_owned).collect(),
        names: 1,
        rows: rows.into_iter().map(cells).collect(),
    }
}

/// What was recorded, then each policy.
fn all(report: &PlayedHistory) -> Vec<ReplayCells> {
    let (answer, priced) = (&report.answer, report.past.priced);
    let recorded = ReplayCells::recorded(&answer.recorded, &answer.recorded_intervals, priced);
    [recorded].into_iter().chain(answer.rows.iter().map(|row| ReplayCells::of(row, priced))).collect()
}

/// One figure as text, not padded.
pub(super) fn text(figure: ReplayFigure, value: f64, priced: bool) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match figure {
        ReplayFigure::Cost if priced => Cost::exactly(value).to_string(),
        ReplayFigure::Cost if value >= 1e5 => format!("{:.0}k tok", value / 1e3),
        ReplayFigure::Cost => format!("{value:.0} tok"),
        ReplayFigure::Attempts => format!("{value:.2}"),
        ReplayFigure::Unanswered => format!("{:.2} %", 100.0 * value),
        _ => millis(value),
    }
}

/// One row: each figure, its interval, and the difference.
struct ReplayCells {
    name: String,
    /// Below the name.
    note: &'static str,
    values: Vec<String>,
    intervals: Vec<String>,
    /// Against what was recorded, and where that lies; both empty for the latter.
    changes: Vec<String>,
    spreads: Vec<String>,
    drawn: String,
}

impl ReplayCells {
    fn recorded(figures: &ReplayFigures, intervals: &[Interval], priced: bool) -> ReplayCells {
        ReplayCells {
            name: "recorded".to_owned(),
            note: "",
            values: values(figures, priced),
            intervals: ranges(intervals, priced),
            changes: Vec::new(),
            spreads: Vec::new(),
            drawn: String::new(),
        }
    }

    fn of(row: &ReplayRow, priced: bool) -> ReplayCells {
        let change = |(figure, change): (&ReplayFigure, f64)| {
            signed(*figure, change).map_or_else(|| "–".to_owned(), |(change, unit)| change + unit)
        };
        let spread = |(figure, interval): (&ReplayFigure, &Interval)| {
            let ends = signed(*figure, interval.low).zip(signed(*figure, interval.high));
            ends.map_or_else(|| "–".to_owned(), |((low, _), (high, _))| format!("{low} to {high}"))
        };
        let marked = FIGURES.iter().zip(values(&row.figures, priced));
        let marked = marked.map(|(figure, value)| if row.is_guess(*figure) { format!("≈{value}") } else { value });
        ReplayCells {
            name: row.name.clone(),
            note: if row.little_known.is_empty() { "" } else { "too little known" },
            values: marked.collect(),
            intervals: ranges(&row.intervals, priced),
            changes: FIGURES.iter().zip(row.changes).map(change).collect(),
            spreads: FIGURES.iter().zip(&row.change_intervals).map(spread).collect(),
            drawn: if row.seen.is_finite() { format!("{:.0} %", 100.0 * (1.0 - row.seen)) } else { "–".to_owned() },
        }
    }
}

fn values(figures: &ReplayFigures, priced: bool) -> Vec<String> {
    FIGURES.iter().zip(figures).map(|(figure, value)| text(*figure, *value, priced)).collect()
}

fn ranges(intervals: &[Interval], priced: bool) -> Vec<String> {
    let range = |(figure, interval): (&ReplayFigure, &Interval)| {
        let [low, high] = [interval.low, interval.high].map(|value| text(*figure, value, priced));
        let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
        match low.split_once(' ') {
            // The unit once is enough where both have the same.
            Some((number, _)) if unit(&low) == unit(&high) => format!("{number}–{high}"),
            _ => format!("{low}–{high}"),
        }
    };
    FIGURES.iter().zip(intervals).map(range).collect()
}

fn lines(rows: &[ReplayCells]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for row in rows {
        lines.push([std::slice::from_ref(&row.name), &row.values, std::slice::from_ref(&row.drawn)].concat());
        if !row.note.is_empty() {
            lines.push([vec![row.note.to_owned()], vec![String::new(); FIGURES.len() + 1]].concat());
            continue;
        }
        lines.push([vec![String::new()], row.intervals.clone(), vec![String::new()]].concat());
        for differences in [&row.changes, &row.spreads].into_iter().filter(|differences| !differences.is_empty()) {
            lines.push([vec![String::new()], differences.clone(), vec![String::new()]].concat());
        }
    }
    lines
}

/// What the rows know of each upstream, in shares of the requests.
fn upstreams(report: &PlayedHistory) -> Vec<Vec<String>> {
    let line = |(counts, expected): (&PastCounts, &UpstreamModel)| {
        let all = (counts.seen + counts.cut + counts.failed + counts.never).max(1) as f64;
        let shares = [counts.seen, counts.cut, counts.failed, counts.never].map(|count| share(count as f64 / all));
        [vec![counts.upstream.clone()], shares.to_vec(), vec![share(expected.unknown())]].concat()
    };
    report.answer.counts.iter().zip(&report.answer.expected).map(line).collect()
}

pub(super) fn share(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// The number with its sign, and its unit.
fn signed(figure: ReplayFigure, change: f64) -> Option<(String, &'static str)> {
    if !change.is_finite() {
        return None;
    }
    let (size, unit) = match figure {
        ReplayFigure::Attempts => (format!("{:.2}", change.abs()), ""),
        ReplayFigure::Unanswered => (format!("{:.2}", 100.0 * change.abs()), " pt"),
        _ => (format!("{:.0}", 100.0 * change.abs()), " %"),
    };
    let is_nothing = size.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if is_nothing {
        "±"
    } else if change < 0.0 {
        "−"
    } else {
        "+"
    };
    Some((format!("{sign}{size}"), unit))
}

fn millis(us: f64) -> String {
    match us / 1e3 {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}
