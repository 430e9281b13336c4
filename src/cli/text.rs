//! Text for a terminal or a pipe, as all commands write it: cleaned, cut, wrapped or in aligned columns; figures and counts.
//!
//! Not for pictures: see `plot` and `race::picture`.

use std::collections::BTreeSet;
use std::io;

use ratatui_core::style::Style;
use ratatui_core::text::Span;

use super::screen::{PIPED, ScreenSettings};
pub use photofinish_base::printable::printable as clean;
use photofinish_facts::estimate::survival::is_firm;

pub const GREEN: &str = "\x1b[32m";
pub const YELLOW: &str = "\x1b[33m";
pub const RED: &str = "\x1b[31m";
pub const GREY: &str = "\x1b[90m";
const PLAIN: &str = "\x1b[0m";

/// Columns of a paragraph; longer lines are hard to read.
const PARAGRAPH: usize = 110;

/// Columns of a line on a terminal of this width, or in a pipe.
pub fn room(width: Option<usize>) -> usize {
    width.unwrap_or(usize::from(PIPED.width))
}

/// The text in this colour; unchanged without one.
pub fn painted(text: &str, colour: Option<&str>) -> String {
    colour.map_or_else(|| text.to_owned(), |colour| format!("{colour}{text}{PLAIN}"))
}

/// Columns on a terminal.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, or its ends with … between where it is wider than `width` columns.
pub fn fitted(text: &str, width: usize) -> String {
    cut(text, width, width.saturating_sub(1).div_ceil(2))
}

/// The names in at most `width` columns each. All are cut at one place: the nearest to the middle that keeps different
/// names different. Where there is none, what the names of a provider have in common is left out.
pub fn shortened(names: &[String], width: usize) -> Vec<String> {
    let kept = width.saturating_sub(1);
    let different = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    let mut heads: Vec<usize> = (0..=kept).collect();
    heads.sort_by_key(|head| head.abs_diff(kept.div_ceil(2)));
    let mut cuts = heads.into_iter().map(|head| names.iter().map(|name| cut(name, width, head)).collect::<Vec<_>>());
    cuts.find(|cut| different(cut) == different(names))
        .unwrap_or_else(|| names.iter().map(|name| fitted(&without_common_part(name, names), width)).collect())
}

/// `provider/…rest`: the rest from where the name differs from all others of the provider, and a few characters before.
fn without_common_part(name: &str, names: &[String]) -> String {
    const BEFORE: usize = 3;
    let Some((provider, model)) = name.split_once('/') else { return name.to_owned() };
    let others = names.iter().filter(|other| *other != name).filter_map(|other| other.split_once('/'));
    let shared = others
        .filter(|(other, _)| *other == provider)
        .map(|(_, other)| model.chars().zip(other.chars()).take_while(|(mine, theirs)| mine == theirs).count());
    match shared.max() {
        Some(shared) if shared > BEFORE => {
            format!("{provider}/…{}", model.chars().skip(shared - BEFORE).collect::<String>())
        }
        _ => name.to_owned(),
    }
}

/// The text, or, where it is wider than `width` columns, its first `head` columns, … and its end.
fn cut(text: &str, width: usize, head: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let span = Span::raw(text);
    let graphemes: Vec<&str> = span.styled_graphemes(Style::new()).map(|grapheme| grapheme.symbol).collect();
    let fits = |symbol: &&&str, room: &mut usize| {
        let left = room.checked_sub(columns(symbol));
        *room = left.unwrap_or(*room);
        left.is_some()
    };
    let mut room = head;
    let first: Vec<&str> = graphemes.iter().take_while(|symbol| fits(symbol, &mut room)).copied().collect();
    let mut room = kept.saturating_sub(head);
    let last = graphemes[first.len()..].iter().rev().take_while(|symbol| fits(symbol, &mut room)).count();
    [first.concat(), graphemes[graphemes.len() - last..].concat()].join("…")
}

/// With blanks behind it, up to `width` columns.
pub fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(columns(text));
    text.to_owned() + &" ".repeat(missing)
}

/// Lines of at most `width` columns, broken between words. A longer word has a line of its own: whole, it can be searched and copied.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    hanging(text, width, "")
}

/// The same, but a longer word is cut.
pub fn cut_and_wrapped(text: &str, width: usize) -> Vec<String> {
    wrapped(&text.split_whitespace().map(|word| fitted(word, width)).collect::<Vec<_>>().join(" "), width)
}

/// The same as `wrapped` with `indent` in front of all lines but the first.
pub fn hanging(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.trim().is_empty() || columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("{indent}{word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Lines of messages, each in lines of at most `width` columns; what goes on is indented.
pub fn folded(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        hanging(line, width, &" ".repeat(blanks + 2)).join("\n")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

pub fn write_lines(lines: &[String], out: &mut impl io::Write) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// Lines of aligned cells with two blanks between. `is_text`: whether the column is text, which is aligned to the left and
/// whose last cell in a line may be of any width. Figures are aligned to the right.
pub fn aligned(rows: &[Vec<String>], is_text: &dyn Fn(usize) -> bool) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let widths = widths(&rows, is_text);
    let cell = |(column, cell): (usize, &String)| {
        let blanks = " ".repeat(widths[column].saturating_sub(columns(cell)));
        if is_text(column) { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
    };
    let line = |row: &Vec<String>| row.iter().enumerate().map(cell).collect::<Vec<_>>().join(BETWEEN);
    rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
}

/// Between two columns.
const BETWEEN: &str = "  ";

/// Of each column.
fn widths(rows: &[Vec<String>], is_text: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let width = |column: usize| {
        let counts = |row: &&Vec<String>| row.len() > column + usize::from(is_text(column));
        rows.iter().filter(counts).map(|row| columns(&row[column])).max().unwrap_or(0)
    };
    (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect()
}

/// The cells of a line, and its colour.
pub type ShadedRow = (Vec<String>, Option<&'static str>);

/// The least room in which a last cell is broken into lines.
const LAST_CELL_LEAST: usize = 20;

/// Each row in aligned lines of at most `width` columns, with last cells broken between words if need be. None: that does not fit.
pub fn in_columns(rows: &[Vec<String>], width: usize, is_text: &dyn Fn(usize) -> bool) -> Option<Vec<Vec<String>>> {
    let fits = |lines: &[String]| lines.iter().all(|line| columns(line) <= width || !line.trim_start().contains(' '));
    let lines = aligned(rows, is_text);
    if fits(&lines) {
        return Some(lines.into_iter().map(|line| vec![line]).collect());
    }
    let (broken, of): (Vec<Vec<String>>, Vec<usize>) = with_last_cells_broken(rows, width, is_text).into_iter().unzip();
    let lines = aligned(&broken, is_text);
    let mut laid = vec![Vec::new(); rows.len()];
    fits(&lines).then(|| of.into_iter().zip(lines).for_each(|(row, line): (usize, String)| laid[row].push(line)))?;
    Some(laid)
}

/// The same; where that does not fit, what is behind a long cell goes below it, or the first cell goes above the others. Only a longer
/// word than the line is in none of `width` columns: it stays whole.
pub fn laid_out(rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    in_columns(rows, width, &|_| true).or_else(|| with_long_cells_apart(rows, width)).unwrap_or_else(|| {
        let others: Vec<Vec<String>> = rows.iter().map(|row| row.iter().skip(1).cloned().collect()).collect();
        let others = match others.iter().all(Vec::is_empty) {
            true => vec![Vec::new(); rows.len()],
            false => laid_out(&others, width.saturating_sub(INDENT.len())),
        };
        let stacked = rows.iter().zip(others).map(|(row, others)| {
            let first = row.first().into_iter().flat_map(|first| hanging(&clean(first), width, TEXT_INDENT));
            let others = others.iter().filter(|line| !line.is_empty()).map(|line| format!("{INDENT}{line}"));
            first.chain(others).collect()
        });
        stacked.collect()
    })
}

/// In columns, where what is behind a long cell of the widest column goes into the next line. None: most cells there would be long.
fn with_long_cells_apart(rows: &[Vec<String>], width: usize) -> Option<Vec<Vec<String>>> {
    let columns_of = |row: &Vec<String>| row.iter().map(|cell| columns(&clean(cell))).collect::<Vec<_>>();
    let all: Vec<Vec<usize>> = rows.iter().map(columns_of).collect();
    let behind = |column: usize| all.iter().filter(move |row| row.len() > column + 1).map(move |row| row[column]);
    let widths: Vec<usize> =
        (0..all.iter().map(Vec::len).max()?).map(|column| behind(column).max().unwrap_or(0)).collect();
    let widest = (0..widths.len()).max_by_key(|column| widths[*column])?;
    let last = all.iter().filter_map(|row| row.last()).max()?;
    let taken: usize = widths.iter().map(|width| width + BETWEEN.len()).sum();
    let cap = (width + widths[widest]).checked_sub(taken + LAST_CELL_LEAST.min(*last))?;
    let is_long = |row: &Vec<usize>| row.len() > widest + 1 && row[widest] > cap;
    if 2 * all.iter().filter(|row| is_long(row)).count() > behind(widest).count() {
        return None;
    }
    let (mut apart, mut of) = (Vec::new(), Vec::new());
    for (place, (row, columns)) in rows.iter().zip(&all).enumerate() {
        let (head, rest) = if is_long(columns) { row.split_at(widest + 1) } else { (&row[..], &[][..]) };
        apart.push(head.to_vec());
        of.push(place);
        if !rest.is_empty() {
            apart.push([vec![String::new(); widest + 1], rest.to_vec()].concat());
            of.push(place);
        }
    }
    let mut laid = vec![Vec::new(); rows.len()];
    in_columns(&apart, width, &|_| true)?.into_iter().zip(of).for_each(|(lines, row)| laid[row].extend(lines));
    Some(laid)
}

/// Of what is behind a cell, in the next line.
const INDENT: &str = "  ";
/// Of a text that goes on in the next line.
const TEXT_INDENT: &str = "    ";

/// The rows with their last cells broken into lines, or below the others where there is no room. A continued line is a row whose other
/// cells are empty. Each with the place of its row.
fn with_last_cells_broken(
    rows: &[Vec<String>],
    width: usize,
    is_text: &dyn Fn(usize) -> bool,
) -> Vec<(Vec<String>, usize)> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let widths = widths(&rows, is_text);
    let mut broken = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let Some((last, others)) = row.split_last().filter(|(_, others)| !others.is_empty()) else {
            broken.push((row.clone(), place));
            continue;
        };
        let before: usize = widths[..others.len()].iter().map(|width| width + BETWEEN.len()).sum();
        let room = width.saturating_sub(before);
        let longest = last.split(' ').map(columns).max().unwrap_or(0);
        if columns(last) > room && (room < LAST_CELL_LEAST || longest > room) {
            broken.push((others.to_vec(), place));
            let below = wrapped(last, width.saturating_sub(TEXT_INDENT.len()));
            broken.extend(below.into_iter().map(|line| (vec![format!("{TEXT_INDENT}{line}")], place)));
            continue;
        }
        let mut lines = wrapped(last, room).into_iter();
        broken.push(([others, lines.next().as_slice()].concat(), place));
        broken.extend(lines.map(|line| ([vec![String::new(); others.len()], vec![line]].concat(), place)));
    }
    broken
}

/// A message, in lines of at most `width` columns.
pub fn write_folded(text: &str, width: usize, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{}", folded(text, width))
}

/// Lines of text in columns behind `indent`.
pub fn write_columns(indent: &str, rows: &[Vec<String>], width: usize, out: &mut impl io::Write) -> io::Result<()> {
    let lines = laid_out(rows, width.saturating_sub(columns(indent)));
    lines.iter().flatten().try_for_each(|line| writeln!(out, "{}", format!("{indent}{line}").trim_end()))
}

/// The same, each row in its colour.
pub fn write_shaded(
    indent: &str,
    rows: Vec<ShadedRow>,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let (rows, shades): (Vec<Vec<String>>, Vec<_>) = rows.into_iter().unzip();
    let width = screen.columns().saturating_sub(columns(indent));
    for (lines, shade) in laid_out(&rows, width).iter().zip(shades) {
        for line in lines {
            writeln!(out, "{indent}{}", painted(line, shade.filter(|_| screen.colour)))?;
        }
    }
    Ok(())
}

/// The same below a title; nothing without rows.
pub fn write_section(
    title: &str,
    rows: Vec<ShadedRow>,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    write_shaded("  ", rows, screen, out)
}

/// Writes the parts with `between` in lines of at most `width`. A part that fits stays on one line.
pub fn write_wrapped(
    parts: &[String],
    between: &str,
    indent: &str,
    width: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if [line.as_str(), between, part].iter().map(|text| columns(text)).sum::<usize>() <= width => {
                *line += &format!("{between}{part}");
            }
            _ => lines.extend(hanging(&format!("{indent}{part}"), width, &format!("{indent}{INDENT}"))),
        }
    }
    write_lines(&lines, out)
}

/// In lines of `width`, where a longer word is cut, or of a pipe, where none is.
pub fn write_paragraph(text: &str, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let text = clean(text);
    let lines = width.map_or_else(|| wrapped(&text, room(None)), |width| cut_and_wrapped(&text, width.min(PARAGRAPH)));
    write_lines(&lines, out)
}

/// Each of them.
pub fn write_paragraphs(
    paragraphs: impl IntoIterator<Item = String>,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    paragraphs.into_iter().try_for_each(|paragraph| write_paragraph(&paragraph, width, out))
}

/// The words of a text, however it is broken into lines.
#[cfg(test)]
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

/// The mark of a quantile with few samples.
pub fn mark(samples: f64, p: f64) -> &'static str {
    if is_firm(samples, p) { "" } else { "~" }
}

pub fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// A size in its largest unit, with a decimal where it is not whole.
pub fn brief_bytes(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Microseconds as milliseconds.
pub fn millis(us: i64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(rows: &[&[&str]], width: usize) -> String {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        laid_out(&rows, width).concat().join("\n")
    }

    #[test]
    fn a_table_is_laid_out_by_its_room() {
        let rows: &[&[&str]] =
            &[&["groq/m", "on", "https://groq.test"], &["groq/a-long-name", "off", "GROQ_API_KEY is not set anywhere"]];
        for (width, expected) in [
            (60, "groq/m            on   https://groq.test\ngroq/a-long-name  off  GROQ_API_KEY is not set anywhere"),
            (
                48,
                "groq/m            on   https://groq.test\ngroq/a-long-name  off  GROQ_API_KEY is not set\n                       anywhere",
            ),
            (
                30,
                "groq/m            on\n    https://groq.test\ngroq/a-long-name  off\n    GROQ_API_KEY is not set\n    anywhere",
            ),
            (
                20,
                "groq/m\n  on\n      https://groq.test\ngroq/a-long-name\n  off\n      GROQ_API_KEY\n      is not set\n      anywhere",
            ),
        ] {
            assert_eq!(laid(rows, width), expected, "{width}:\n{}", laid(rows, width));
        }
        let long: &[&[&str]] = &[&["a/m", "on", "free"], &["b/m", "on", "free"], &["c/a-very-long-name", "on", "free"]];
        let apart = "a/m  on  free\nb/m  on  free\nc/a-very-long-name\n     on  free";
        assert_eq!(laid(long, 18), apart, "{}", laid(long, 18));
    }

    #[test]
    fn messages_are_broken_between_words_and_no_word_is_cut() {
        assert_eq!(folded("a bc def", 4), "a bc\n  def");
        assert_eq!(folded("  x yyyyyyyy z\nnext", 6), "  x\n    yyyyyyyy\n    z\nnext");
        assert_eq!(cut_and_wrapped("a long-word b", 6), ["a", "lon…rd", "b"]);
    }
}
