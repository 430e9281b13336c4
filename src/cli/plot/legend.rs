//! Which letter is which line, and words that are made fit for a terminal: cleaned and wrapped. Not the picture.

use std::io;

use ratatui_core::style::{Color, Style};
use ratatui_core::text::Span;

use super::PlotLine;
use super::picture::{self, DrawnSeries};
pub(in crate::cli) use crate::printable::printable as clean;

/// One mark and what it stands for.
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

/// As many entries in a line as fit; one that is too long goes on in the next.
pub(super) fn write(entries: &[LegendEntry], width: usize, coloured: bool, out: &mut impl io::Write) -> io::Result<()> {
    let mut line = String::new();
    let mut used = 0;
    for entry in entries {
        let pieces = pieces(&entry.text, width.saturating_sub(MARK), width);
        let needed = MARK + pieces.first().map_or(0, |piece| self::width(piece));
        if used > 0 && (pieces.len() > 1 || used + BETWEEN.len() + needed > width) {
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
        line.push(' ');
        used += MARK;
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                writeln!(out, "{}", line.trim_end())?;
                (line, used) = (String::new(), 0);
            }
            line.push_str(piece);
            used += self::width(piece);
        }
    }
    if used > 0 {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Columns on a terminal.
pub(in crate::cli) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, or its ends with … between where it is wider than `width` columns.
pub(in crate::cli) fn fitted(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let span = Span::raw(text);
    let graphemes: Vec<&str> = span.styled_graphemes(Style::new()).map(|grapheme| grapheme.symbol).collect();
    let mut room = kept.div_ceil(2);
    let fits = |symbol: &&&str, room: &mut usize| {
        let left = room.checked_sub(self::width(symbol));
        *room = left.unwrap_or(*room);
        left.is_some()
    };
    let head: Vec<&str> = graphemes.iter().take_while(|symbol| fits(symbol, &mut room)).copied().collect();
    let mut room = kept / 2;
    let tail = graphemes[head.len()..].iter().rev().take_while(|symbol| fits(symbol, &mut room)).count();
    [head.concat(), graphemes[graphemes.len() - tail..].concat()].join("…")
}

/// With blanks behind it, up to `width` columns.
pub(in crate::cli) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(self::width(text));
    text.to_owned() + &" ".repeat(missing)
}

/// Lines of at most `width` columns, broken between words where there are any.
pub(in crate::cli) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        for piece in pieces(word, width, width) {
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = piece,
                Some(line) if self::width(line) + 1 + self::width(&piece) <= width => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    lines
}

/// The text in pieces of at most `first`, then `rest` columns; at least one piece.
fn pieces(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let columns = width(grapheme.symbol);
        let (symbol, columns) = if columns > rest { ("\u{fffd}", 1) } else { (grapheme.symbol, columns) };
        let room = if pieces.len() == 1 { first } else { rest };
        if used + columns > room {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(symbol);
        }
        used += columns;
    }
    pieces
}
