//! Which letter is which line. Not for the picture.

use std::io;

use ratatui_core::style::Color;

use super::picture::{self, DrawnSeries, PlotLine};
use crate::cli::text::{clean, columns, shortened};

/// One mark and its meaning.
pub(super) struct LegendEntry {
    pub mark: char,
    /// Of the mark; none is the terminal's own.
    pub colour: Option<Color>,
    pub text: String,
}

/// Between two entries.
const BETWEEN: &str = "   ";
/// Columns of a mark and the blank behind it.
const MARK: usize = 2;

/// Of all lines, then of `^` where it is drawn.
pub(super) fn entries(lines: &[PlotLine], series: &[DrawnSeries]) -> Vec<LegendEntry> {
    let mut entries = Vec::new();
    for (number, (line, series)) in lines.iter().zip(series).enumerate() {
        let nothing = if series.is_empty() { " (no data)" } else { "" };
        let text = clean(&line.name) + nothing;
        entries.push(LegendEntry { mark: picture::letter(number), colour: Some(picture::colour(number)), text });
    }
    if series.iter().any(DrawnSeries::has_open) {
        entries.push(LegendEntry { mark: picture::ABOVE, colour: None, text: "somewhere above".to_owned() });
    }
    entries
}

/// As many entries in a line as fit; one that is too long is shortened.
pub(super) fn write(entries: &[LegendEntry], width: usize, coloured: bool, out: &mut impl io::Write) -> io::Result<()> {
    let texts: Vec<String> = entries.iter().map(|entry| entry.text.clone()).collect();
    let mut line = String::new();
    let mut used = 0;
    for (entry, text) in entries.iter().zip(shortened(&texts, width.saturating_sub(MARK))) {
        let needed = MARK + columns(&text);
        if used > 0 && used + BETWEEN.len() + needed > width {
            writeln!(out, "{}", line.trim_end())?;
            (line, used) = (String::new(), 0);
        }
        if used > 0 {
            line.push_str(BETWEEN);
            used += BETWEEN.len();
        }
        match entry.colour.filter(|_| coloured) {
            Some(colour) => line.push_str(&format!("{}{}\x1b[0m", picture::escape(colour), entry.mark)),
            None => line.push(entry.mark),
        }
        line += &format!(" {text}");
        used += needed;
    }
    if used > 0 {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
