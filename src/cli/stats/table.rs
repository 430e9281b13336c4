//! The figures as text: one line for each group if the terminal is wide enough, else a block of lines. Only names
//! longer than a line are cut, and no cell wraps.
//!
//! Not for the notes below.

use std::io;

use crate::cli::text::{
    aligned_with_margin, clean, columns, dollars, fitted, mark, millis, or_dash, padded, too_wide, write_lines,
    write_wrapped,
};
use crate::history::survival::Estimate;
use crate::report::dimension::Dimension;
use crate::report::figures::{GAIN_SHARES, GroupFigures, TOK_S_SHARES, TTFT_SHARES};

const ATTEMPTS: [&str; 5] = ["attempts", "wins", "failures", "empty", "censored"];
const TTFT: [&str; 4] = ["TTFT p50", "p95", "p99", "TTFT n"];
const TOK_S: [&str; 4] = ["tok/s p50", "p5", "TPOT p95", "tok/s n"];
const REQUESTS: [&str; 5] = ["requests", "attained", "goodput", "cost", "extra"];
const GAINS: [&str; 4] = ["client TTFT p50", "p95", "gain p50", "p95"];
const HEADS: [&[&str]; 4] = [&ATTEMPTS, &TTFT, &TOK_S, &REQUESTS];
/// For groups of several upstreams.
const HEADS_WITH_GAINS: [&[&str]; 5] = [&ATTEMPTS, &TTFT, &TOK_S, &REQUESTS, &GAINS];

/// Writes all groups, in lines of at most `width`.
pub(super) fn write(
    by: &[Dimension],
    groups: &[GroupFigures],
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let rows: Vec<StatsRow> = groups.iter().map(StatsRow::new).collect();
    let heads = if by.contains(&Dimension::Upstream) { &HEADS[..] } else { &HEADS_WITH_GAINS };
    let names = by.iter().map(|dimension| dimension.name()).chain(heads.iter().copied().flatten().copied());
    let cells = |row: &StatsRow| row.keys.iter().chain(row.cells[..heads.len()].iter().flatten()).cloned().collect();
    let lines: Vec<Vec<String>> =
        [names.map(str::to_owned).collect()].into_iter().chain(rows.iter().map(cells)).collect();
    let lines = aligned_with_margin(&lines, |column| column < by.len());
    match too_wide(&lines, width) {
        Some(width) => write_blocks(by, heads, &rows, width, out),
        None => write_lines(&lines, out),
    }
}

/// The figures of a group as text.
struct StatsRow {
    keys: Vec<String>,
    /// In the order of [`HEADS_WITH_GAINS`].
    cells: [Vec<String>; 5],
}

impl StatsRow {
    fn new(figures: &GroupFigures) -> StatsRow {
        let share = |count: u64| match (100 * count + figures.attempts / 2).checked_div(figures.attempts) {
            Some(percent) if count > 0 => format!("{count} ({percent} %)"),
            _ => count.to_string(),
        };
        let ttft = TTFT_SHARES.iter().zip(figures.ttft).map(|(p, estimate)| match estimate {
            None => "–".to_owned(),
            Some(Estimate::Reached(us)) => format!("{}{}", mark(figures.ttft_effective, *p), millis(us)),
            Some(Estimate::NotReached { over_us }) => format!("> {}", millis(over_us)),
        });
        let samples = figures.tok_s_effective;
        let tok_s = TOK_S_SHARES.iter().zip(figures.tok_s).map(|(p, value)| match value {
            None => "–".to_owned(),
            Some(tok_s) => format!("{}{tok_s:.1}", mark(samples, *p)),
        });
        let tpot = or_dash(figures.tpot_p95_ms, |ms| format!("{}{}", mark(samples, 0.95), millis((ms * 1e3) as i64)));
        let counts = [figures.wins, figures.failures, figures.empty, figures.censored].map(share);
        StatsRow {
            keys: figures.keys.iter().map(|part| clean(&part.text())).collect(),
            cells: [
                [figures.attempts.to_string()].into_iter().chain(counts).collect(),
                ttft.chain([figures.ttft_samples.to_string()]).collect(),
                tok_s.chain([tpot, figures.tok_s_samples.to_string()]).collect(),
                vec![
                    figures.requests.to_string(),
                    or_dash(figures.attainment, |share| format!("{:.0} %", 100.0 * share)),
                    or_dash(figures.goodput, rate),
                    dollars(&figures.cost),
                    dollars(&figures.extra_cost),
                ],
                gains(figures),
            ],
        }
    }
}

/// What streaming clients saw, and how much later the best upstream alone would have been.
fn gains(figures: &GroupFigures) -> Vec<String> {
    let firm = |p: f64| mark(figures.client_ttft_effective, p);
    let seen = GAIN_SHARES.iter().zip(figures.client_ttft_ms);
    let seen = seen.map(|(p, ms)| or_dash(ms, |ms| format!("{}{}", firm(*p), millis((ms * 1e3) as i64))));
    let gains = figures.gain.iter().flatten().zip(GAIN_SHARES);
    let gains = gains.map(|(gain, p)| {
        or_dash(gain.as_ref(), |gain| {
            let sign = if gain.gain_ms < 0.0 { "−" } else { "" };
            let weaker = figures.client_ttft_effective.min(gain.effective);
            format!("{}{sign}{}", mark(weaker, p), millis((gain.gain_ms.abs() * 1e3) as i64))
        })
    });
    seen.chain(gains).collect()
}

/// The name on a line of its own, then one line for each set of columns; the same columns in every block.
fn write_blocks(
    by: &[Dimension],
    heads: &[&[&str]],
    rows: &[StatsRow],
    width: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let keys = by.iter().zip(&row.keys).map(|(dimension, key)| match dimension {
            Dimension::Upstream => fitted(key, width),
            dimension => fitted(&format!("{} {key}", dimension.name()), width),
        });
        write_wrapped(&keys.collect::<Vec<_>>(), ", ", "", width, out)?;
        for (group, heads) in heads.iter().enumerate() {
            let parts = heads.iter().enumerate().filter(|(column, _)| *column < row.cells[group].len());
            let parts = parts.map(|(column, head)| {
                let cells = rows.iter().filter_map(|row| row.cells[group].get(column));
                let wide = cells.map(|cell| columns(cell)).max().unwrap_or(0);
                format!("{head} {}", padded(&row.cells[group][column], wide))
            });
            write_wrapped(&parts.collect::<Vec<_>>(), "  ", "  ", width, out)?;
        }
    }
    Ok(())
}

/// Requests per second, to three digits.
fn rate(per_second: f64) -> String {
    if per_second <= 0.0 {
        return "0/s".to_owned();
    }
    let decimals = (2.0 - per_second.log10().floor()).clamp(1.0, 9.0) as usize;
    format!("{per_second:.decimals$}/s")
}
