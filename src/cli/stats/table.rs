//! The figures as text: one line an upstream where the terminal is wide enough, else a block of lines. Nothing is cut, and
//! no cell wraps.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::tally::Figures;
use crate::history::survival::{Estimate, is_firm};

const ATTEMPTS: [&str; 5] = ["attempts", "wins", "failures", "empty", "censored"];
const TTFT: [&str; 4] = ["TTFT p50", "p95", "p99", "TTFT n"];
const TOK_S: [&str; 3] = ["tok/s p50", "p5", "tok/s n"];

/// Writes all of them, in lines of at most `width` if there is one and any name fits into it.
pub(super) fn write(upstreams: &[Figures], width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let rows: Vec<Row> = upstreams.iter().map(Row::new).collect();
    let table = table(&rows);
    let widest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    match width {
        Some(width) if widest > width => write_blocks(&rows, width, out),
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

/// An upstream's figures, in words.
struct Row {
    upstream: String,
    /// In three groups: those of [`ATTEMPTS`], [`TTFT`] and [`TOK_S`].
    cells: [Vec<String>; 3],
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
        let counts = [figures.wins, figures.failures, figures.empty, figures.censored].map(share);
        Row {
            upstream: figures.upstream.clone(),
            cells: [
                [figures.attempts.to_string()].into_iter().chain(counts).collect(),
                ttft.chain([figures.ttft_samples.to_string()]).collect(),
                tok_s.chain([figures.tok_s_samples.to_string()]).collect(),
            ],
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table.set_header(["upstream"].into_iter().chain(ATTEMPTS).chain(TTFT).chain(TOK_S));
    for row in rows {
        table.add_row([&row.upstream].into_iter().chain(row.cells.iter().flatten()));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The name on a line of its own and a line for each group, the same columns in every block.
fn write_blocks(rows: &[Row], width: usize, out: &mut impl io::Write) -> io::Result<()> {
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", row.upstream)?;
        for (group, heads) in [&ATTEMPTS[..], &TTFT, &TOK_S].into_iter().enumerate() {
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
