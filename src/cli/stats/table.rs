//! The figures as text: one line a group where the terminal is wide enough, else a block of lines. Nothing is cut, and
//! no cell wraps.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::group::{Dimension, Part};
use super::tally::Figures;
use crate::history::CostBasis;
use crate::history::cost::CostSum;
use crate::history::survival::{Estimate, is_firm};

const ATTEMPTS: [&str; 5] = ["attempts", "wins", "failures", "empty", "censored"];
const TTFT: [&str; 4] = ["TTFT p50", "p95", "p99", "TTFT n"];
const TOK_S: [&str; 4] = ["tok/s p50", "p5", "TPOT p95", "tok/s n"];
const REQUESTS: [&str; 5] = ["requests", "attained", "goodput", "cost", "extra"];
const HEADS: [&[&str]; 4] = [&ATTEMPTS, &TTFT, &TOK_S, &REQUESTS];

/// Writes all of them, in lines of at most `width` if there is one and any name fits into it.
pub(super) fn write(
    by: &[Dimension],
    groups: &[Figures],
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let rows: Vec<Row> = groups.iter().map(Row::new).collect();
    let table = table(by, &rows);
    let widest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    match width {
        Some(width) if widest > width => write_blocks(by, &rows, width, out),
        _ => table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end())),
    }
}

/// Writes the parts with `between` between them, in lines that are as long as `width` allows. No part is broken.
pub(super) fn write_wrapped(
    parts: &[String],
    between: &str,
    indent: &str,
    width: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut line = String::new();
    for part in parts {
        let length = [line.as_str(), between, part].iter().map(|text| text.chars().count()).sum::<usize>();
        if line.is_empty() {
            line = format!("{indent}{part}");
        } else if length > width {
            writeln!(out, "{}", line.trim_end())?;
            line = format!("{indent}{part}");
        } else {
            line = line + between + part;
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// A group's figures, in words.
struct Row {
    keys: Vec<String>,
    /// As in [`HEADS`].
    cells: [Vec<String>; 4],
}

impl Row {
    fn new(figures: &Figures) -> Row {
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
        let tpot = figures.tpot_p95_ms.map_or_else(
            || "–".to_owned(),
            |ms| format!("{}{}", mark(figures.tok_s_samples, 0.95), millis((ms * 1e3) as i64)),
        );
        let counts = [figures.wins, figures.failures, figures.empty, figures.censored].map(share);
        Row {
            keys: figures.keys.iter().map(Part::text).collect(),
            cells: [
                [figures.attempts.to_string()].into_iter().chain(counts).collect(),
                ttft.chain([figures.ttft_samples.to_string()]).collect(),
                tok_s.chain([tpot, figures.tok_s_samples.to_string()]).collect(),
                vec![
                    figures.requests.to_string(),
                    figures.attainment.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
                    figures.goodput.map_or_else(|| "–".to_owned(), rate),
                    dollars(&figures.cost),
                    dollars(&figures.extra_cost),
                ],
            ],
        }
    }
}

fn table(by: &[Dimension], rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table.set_header(by.iter().map(|dimension| dimension.name()).chain(HEADS.into_iter().flatten().copied()));
    for row in rows {
        table.add_row(row.keys.iter().chain(row.cells.iter().flatten()));
    }
    for column in table.column_iter_mut().skip(by.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The name on a line of its own and a line for each group, the same columns in every block.
fn write_blocks(by: &[Dimension], rows: &[Row], width: usize, out: &mut impl io::Write) -> io::Result<()> {
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let keys = by.iter().zip(&row.keys).map(|(dimension, key)| match dimension {
            Dimension::Upstream => key.clone(),
            dimension => format!("{} {key}", dimension.name()),
        });
        write_wrapped(&keys.collect::<Vec<_>>(), ", ", "", width, out)?;
        for (group, heads) in HEADS.into_iter().enumerate() {
            let parts = heads.iter().enumerate().map(|(column, head)| {
                let wide = rows.iter().map(|row| row.cells[group][column].chars().count()).max().unwrap_or(0);
                format!("{head} {:<wide$}", row.cells[group][column])
            });
            write_wrapped(&parts.collect::<Vec<_>>(), "  ", "  ", width, out)?;
        }
    }
    Ok(())
}

fn millis(us: i64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// Requests per second, to three digits.
fn rate(per_second: f64) -> String {
    if per_second <= 0.0 {
        return "0/s".to_owned();
    }
    let decimals = (2.0 - per_second.log10().floor()).clamp(1.0, 9.0) as usize;
    format!("{per_second:.decimals$}/s")
}

fn dollars(sum: &CostSum) -> String {
    let Some(usd) = sum.usd() else { return "–".to_owned() };
    let bound = match sum.basis() {
        CostBasis::Reported | CostBasis::Computed => "",
        CostBasis::AtLeast => "≥ ",
        CostBasis::AtMost => "≤ ",
        CostBasis::Unknown => "± ",
    };
    match usd {
        0.0 => format!("{bound}$0"),
        usd if usd < 0.01 => format!("{bound}${usd:.6}"),
        usd if usd < 1.0 => format!("{bound}${usd:.4}"),
        usd => format!("{bound}${usd:.2}"),
    }
}
