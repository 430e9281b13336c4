//! Figures of races in words, and rows of them that fit the terminal. The words are those of `stats`.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::cli::plot::{clean, columns, fitted, wrapped};
use crate::cli::stats::table::{dollars, write_wrapped};
use crate::history::CostBasis;
use crate::history::cost::CostSum;

/// A name and its cells, one for each head.
pub type TextRow = (String, Vec<String>);

/// A line for each row under the heads where all of them fit into `width`; else the name on a line of its own, and below it
/// each cell behind its head. The first `left` columns are words, the others figures.
pub fn write_rows(
    heads: &[&str],
    left: usize,
    rows: &[TextRow],
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table.set_header(heads);
    for (name, cells) in rows {
        table.add_row([clean(name)].iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let table = table.to_string();
    let widest = table.lines().map(columns).max().unwrap_or(0);
    let Some(width) = width.filter(|width| widest > *width) else {
        return table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()));
    };
    for (name, cells) in rows {
        writeln!(out, "{}", fitted(&clean(name), width))?;
        let parts: Vec<String> = heads[1..].iter().zip(cells).map(|(head, cell)| format!("{head} {cell}")).collect();
        write_wrapped(&parts, "  ", "  ", width, out)?;
    }
    Ok(())
}

/// Sentences, broken into lines of `width` where there is one.
pub fn write_text(text: &str, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    match width {
        Some(width) => wrapped(&clean(text), width.max(1)).iter().try_for_each(|line| writeln!(out, "{line}")),
        None => writeln!(out, "{}", clean(text)),
    }
}

/// An amount with what it rests on; a bound has the sign of one.
pub fn cost(sum: &CostSum) -> String {
    match sum.basis() {
        CostBasis::Reported => format!("{} reported", dollars(sum)),
        CostBasis::Computed => format!("{} computed", dollars(sum)),
        CostBasis::AtLeast | CostBasis::AtMost | CostBasis::Unknown => dollars(sum),
    }
}

/// What all attempts cost, and what of it a single attempt would not have.
pub fn costs(all: &CostSum, extra: &CostSum, losers: u64) -> String {
    if all.usd().is_none() && all.uncounted() == 0 {
        return "cost: not known; there is no price in the configuration, and no upstream named one".to_owned();
    }
    let beyond = match (losers, extra.usd()) {
        (0, _) => "nothing, for there was no loser".to_owned(),
        (_, None) if extra.uncounted() == 0 => "not known, for no loser has a price".to_owned(),
        (_, None) => "not known, for nobody counted the tokens of a loser".to_owned(),
        _ => cost(extra),
    };
    format!("cost: {} in all; beyond a single attempt: {beyond}", cost(all))
}

pub fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}
