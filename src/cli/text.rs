//! Text for a terminal or a pipe, as all commands write it: cleaned, cut, wrapped or in aligned columns; figures and counts.
//!
//! Not for pictures: see `plot` and `race::picture`.

use std::collections::BTreeSet;
use std::io;

use ratatui_core::style::Style;
use ratatui_core::text::Span;

use super::screen::ScreenSettings;
pub use photofinish_base::printable::printable as clean;
use photofinish_history::estimate::cost::CostSum;
use photofinish_history::estimate::survival::is_firm;
use photofinish_history::record::CostBasis;

pub const GREEN: &str = "\x1b[32m";
pub const YELLOW: &str = "\x1b[33m";
pub const RED: &str = "\x1b[31m";
pub const GREY: &str = "\x1b[90m";
const PLAIN: &str = "\x1b[0m";

/// Columns of a paragraph; longer lines are hard to read.
const PARAGRAPH: usize = 110;

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

/// Lines of at most `width` columns, broken between words where there are any.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        for piece in pieces(word, width, width) {
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = piece,
                Some(line) if columns(line) + 1 + columns(&piece) <= width => {
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
pub fn pieces(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let wide = columns(grapheme.symbol);
        let (symbol, wide) = if wide > rest { ("\u{fffd}", 1) } else { (grapheme.symbol, wide) };
        let room = if pieces.len() == 1 { first } else { rest };
        if used + wide > room {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(symbol);
        }
        used += wide;
    }
    pieces
}

pub fn write_lines(lines: &[String], out: &mut impl io::Write) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// The width, if one of the lines is wider.
pub fn too_wide(lines: &[String], width: Option<usize>) -> Option<usize> {
    let widest = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
    width.filter(|width| widest > *width)
}

/// Lines of aligned cells with two blanks between. `is_text`: whether the column is text, which is aligned to the left and
/// whose last cell in a line may be of any width. Figures are aligned to the right.
pub fn aligned(rows: &[Vec<String>], is_text: impl Fn(usize) -> bool) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let width = |column: usize| {
        let counts = |row: &&Vec<String>| row.len() > column + usize::from(is_text(column));
        rows.iter().filter(counts).map(|row| columns(&row[column])).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let cell = |(column, cell): (usize, &String)| {
        let blanks = " ".repeat(widths[column].saturating_sub(columns(cell)));
        if is_text(column) { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
    };
    let line = |row: &Vec<String>| row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
    rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
}

/// The same behind a blank.
pub fn aligned_with_margin(rows: &[Vec<String>], is_text: impl Fn(usize) -> bool) -> Vec<String> {
    aligned(rows, is_text).into_iter().map(|line| format!(" {line}")).collect()
}

/// Lines of aligned text behind `indent`.
pub fn write_columns(indent: &str, rows: &[Vec<String>], out: &mut impl io::Write) -> io::Result<()> {
    aligned(rows, |_| true).iter().try_for_each(|line| writeln!(out, "{}", format!("{indent}{line}").trim_end()))
}

/// The cells of a line, and its colour.
pub type ShadedRow = (Vec<String>, Option<&'static str>);

/// The least room in which a last cell is broken into lines; with less it is left whole.
const LAST_CELL_LEAST: usize = 20;

/// The rows with their last cells broken into lines, so that they fit `width` columns. A continued line is a row whose other
/// cells are empty, with the same tag.
pub fn with_last_cells_wrapped<T: Copy>(
    rows: Vec<(Vec<String>, T)>,
    width: usize,
    is_text: impl Fn(usize) -> bool,
) -> Vec<(Vec<String>, T)> {
    let last = rows.iter().map(|(row, _)| row.len()).max().unwrap_or(0).saturating_sub(1);
    let others: Vec<Vec<String>> = rows.iter().map(|(row, _)| row.iter().take(last).cloned().collect()).collect();
    // With an empty last cell, so that every other column counts with its whole width.
    let others: Vec<Vec<String>> = others.into_iter().map(|row| [row, vec!["|".to_owned()]].concat()).collect();
    let taken = aligned(&others, is_text).iter().map(|line| columns(line)).max().unwrap_or(1) - 1;
    let Some(room) = width.checked_sub(taken).filter(|room| *room >= LAST_CELL_LEAST) else { return rows };
    let broken = rows.into_iter().flat_map(|(mut row, tag)| {
        let cell = if row.len() > last { row.pop() } else { None };
        let lines = cell.map_or_else(Vec::new, |cell| wrapped(&clean(&cell), room));
        let mut lines = lines.into_iter();
        row.extend(lines.next());
        let more: Vec<_> = lines.map(|line| ([vec![String::new(); last], vec![line]].concat(), tag)).collect();
        [(row, tag)].into_iter().chain(more)
    });
    broken.collect()
}

/// Lines of aligned text behind `indent`, each in its colour. On a terminal last cells are broken into lines.
pub fn write_shaded(
    indent: &str,
    mut rows: Vec<ShadedRow>,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if let Some(width) = screen.terminal() {
        rows = with_last_cells_wrapped(rows, width.saturating_sub(columns(indent)), |_| true);
    }
    let (rows, shades): (Vec<Vec<String>>, Vec<_>) = rows.into_iter().unzip();
    for (line, shade) in aligned(&rows, |_| true).iter().zip(shades) {
        writeln!(out, "{indent}{}", painted(line, shade.filter(|_| screen.colour)))?;
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

/// Writes the parts with `between` in lines of at most `width`. A part stays on one line.
pub fn write_wrapped(
    parts: &[String],
    between: &str,
    indent: &str,
    width: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut line = String::new();
    for part in parts {
        let length = [line.as_str(), between, part].iter().map(|text| columns(text)).sum::<usize>();
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

/// Wraps at `width` and cuts longer words; one line for a pipe.
pub fn write_paragraph(text: &str, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let width = width.map_or(usize::MAX, |width| width.min(PARAGRAPH));
    write_cut(text, width, width, out)
}

fn write_cut(text: &str, word: usize, width: usize, out: &mut impl io::Write) -> io::Result<()> {
    let words: Vec<String> = clean(text).split(' ').map(|text| fitted(text, word)).collect();
    write_wrapped(&words, " ", "", width, out)
}

/// Wraps each at `width`, or at a readable length for a pipe.
pub fn write_paragraphs(
    paragraphs: impl IntoIterator<Item = String>,
    width: Option<usize>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    for paragraph in paragraphs {
        // In a pipe no word is cut.
        write_cut(&paragraph, width.unwrap_or(usize::MAX), width.unwrap_or(PARAGRAPH).min(PARAGRAPH), out)?;
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

/// Both bounds, or one with its sign, or a dash if nothing is known.
pub fn dollars(sum: &CostSum) -> String {
    dollars_in(sum, amount)
}

/// The same to two digits or cents.
pub fn brief_dollars(sum: &CostSum) -> String {
    dollars_in(sum, |usd, size| {
        let digits = if size > 0.0 { (1.0 - size.log10().floor()).clamp(2.0, 6.0) } else { 0.0 };
        format!("{usd:.*}", digits as usize)
    })
}

/// `amount`: writes a number with the digits that the second one, the size, needs.
fn dollars_in(sum: &CostSum, amount: impl Fn(f64, f64) -> String) -> String {
    let Some(usd) = sum.usd() else { return "–".to_owned() };
    match (sum.basis(), sum.max_usd()) {
        (CostBasis::AtLeast, Some(max)) => {
            let [min, max] = [usd, max].map(|bound| amount(bound, max));
            // The bounds are closer than the digits shown.
            if min == max { format!("${min}") } else { format!("${min}–{max}") }
        }
        (CostBasis::AtLeast, None) => format!("≥ ${}", amount(usd, usd)),
        (CostBasis::AtMost, _) => format!("≤ ${}", amount(usd, usd)),
        _ => format!("${}", amount(usd, usd)),
    }
}

/// As many digits as an amount of this size needs.
pub fn amount(usd: f64, size: f64) -> String {
    match size {
        0.0 => "0".to_owned(),
        size if size < 0.01 => format!("{usd:.6}"),
        size if size < 1.0 => format!("{usd:.4}"),
        _ => format!("{usd:.2}"),
    }
}
