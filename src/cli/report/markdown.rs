//! The page as Markdown.

use std::io;

use super::page::{ChartLine, PageBlock};
use photofinish_base::printable::printable;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn write(blocks: &[PageBlock], out: &mut impl io::Write) -> io::Result<()> {
    for block in blocks {
        match block {
            PageBlock::Heading(level, text) => {
                writeln!(out, "{} {}\n", "#".repeat(usize::from(*level)), escaped(text))?
            }
            PageBlock::Paragraph(text) => writeln!(out, "{}\n", escaped(text))?,
            PageBlock::Table(rows) => {
                for (at, row) in rows.iter().enumerate() {
                    let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
                    writeln!(out, "| {} |", cells.join(" | "))?;
                    if at == 0 {
                        writeln!(out, "|{}", " --- |".repeat(row.len()))?;
                    }
                }
                writeln!(out)?;
            }
            PageBlock::Chart(chart) => {
                let mark = |mark: Option<&(f64, String)>| mark.map_or(String::new(), |(_, text)| escaped(text));
                let (from, to) = (mark(chart.marks.first()), mark(chart.marks.last()));
                writeln!(out, "{}, from {from} to {to}:\n", escaped(&chart.title))?;
                for line in &chart.lines {
                    writeln!(out, "- {} {}", sparkline(line), escaped(&line.name))?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// From 0 to the line's greatest value.
fn sparkline(line: &ChartLine) -> String {
    let most = line.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let level = |value: f64| if most > 0.0 { (value / most * 7.0).round() as usize } else { 0 };
    line.points.iter().map(|(_, value)| LEVELS[level(*value).min(7)]).collect()
}

/// No cell ends a row, and no name is markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in printable(text).chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '|' | '*' | '`' | '[' | ']' | '\\' => escaped.extend(['\\', sign]),
            '\n' | '\r' => escaped.push(' '),
            sign => escaped.push(sign),
        }
    }
    escaped
}
