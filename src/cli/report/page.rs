//! A page as blocks, and how it is written, so that the terminal, Markdown and HTML say the same. The HTML is one file: no script, and nothing is
//! loaded from elsewhere. Not for the words: see `words`.

use std::io;

use crate::cli::text;
use photofinish_base::printable::printable;

/// A part of the page, from top to bottom. All text is plain: each writer escapes it.
#[derive(Clone, Debug, PartialEq)]
pub enum PageBlock {
    /// 1 is the page's own.
    Heading(u8, String),
    Paragraph(String),
    /// The first row is the head. Columns whose cells are numbers are right-aligned in HTML.
    Table(Vec<Vec<String>>),
    Chart(PageChart),
}

/// Lines over time, over the hours of the day, or over load.
#[derive(Clone, Debug, PartialEq)]
pub struct PageChart {
    pub title: String,
    pub unit: &'static str,
    pub lines: Vec<ChartLine>,
    /// Below the axis, from left to right: from 0 to 1, and the text. The first is at 0, the last at 1.
    pub marks: Vec<(f64, String)>,
}

/// One line, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    pub name: String,
    /// From 0, left, to 1, right; and the value.
    pub points: Vec<(f64, f64)>,
}

impl PageChart {
    /// The greatest value.
    fn most(&self) -> f64 {
        self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

/// Lines in one chart.
pub const LINES_MAX: usize = 12;
/// Points of one line; of more every second, third, … is drawn.
pub const POINTS_MAX: usize = 40;

impl ChartLine {
    pub fn new(name: String, points: Vec<(f64, f64)>) -> ChartLine {
        let step = points.len().div_ceil(POINTS_MAX).max(1);
        ChartLine { name, points: points.into_iter().step_by(step).collect() }
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#1b1f24;\
    background:#fff}table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}\
    td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #d5dae0;white-space:nowrap}\
    td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}svg{max-width:100%;height:auto}\
    @media(prefers-color-scheme:dark){body{color:#e4e8ec;background:#14171a}td,th{border-color:#363c43}}";
const COLOURS: [&str; LINES_MAX] = [
    "#1f77b4", "#d9480f", "#2b8a3e", "#c2255c", "#7048e8", "#0b7285", "#a07800", "#5c677d", "#e8590c", "#4263eb",
    "#66a80f", "#862e9c",
];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;

pub fn write_html(title: &str, blocks: &[PageBlock], out: &mut impl io::Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head><body>\n",
        html_escaped(title)
    )?;
    for block in blocks {
        match block {
            PageBlock::Heading(level, text) => writeln!(out, "<h{level}>{}</h{level}>", html_escaped(text))?,
            PageBlock::Paragraph(text) => writeln!(out, "<p>{}</p>", html_escaped(text))?,
            PageBlock::Table(rows) => table(rows, out)?,
            PageBlock::Chart(chart) => draw(chart, out)?,
        }
    }
    writeln!(out, "</body></html>")
}

fn table(rows: &[Vec<String>], out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "<table>")?;
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        write!(out, "<tr>")?;
        row.iter().try_for_each(|cell| write!(out, "<{tag}>{}", html_escaped(cell)))?;
    }
    writeln!(out, "</table>")
}

fn draw(chart: &PageChart, out: &mut impl io::Write) -> io::Result<()> {
    let most = chart.most();
    if most <= 0.0 {
        return Ok(());
    }
    let place = |(at, value): &(f64, f64)| (at * WIDTH, HEIGHT - value / most * HEIGHT);
    let (width, height) = (WIDTH + 80.0, HEIGHT + 40.0);
    write!(
        out,
        "<p>{}</p><svg viewBox=\"-60 -10 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         font-size=\"11\" fill=\"currentColor\">",
        html_escaped(&chart.title)
    )?;
    for part in 0..=2 {
        let (value, y) = (most * f64::from(part) / 2.0, HEIGHT - HEIGHT * f64::from(part) / 2.0);
        write!(
            out,
            "<path d=\"M0 {y}H{WIDTH}\" stroke=\"#8888\"/><text x=\"-6\" y=\"{}\" text-anchor=\"end\">{} {}</text>",
            y + 4.0,
            number(value),
            chart.unit
        )?;
    }
    let below = HEIGHT + 18.0;
    for (at, text) in &chart.marks {
        let (x, anchor) = (
            at * WIDTH,
            if *at <= 0.0 {
                "start"
            } else if *at < 1.0 {
                "middle"
            } else {
                "end"
            },
        );
        write!(out, "<text x=\"{x:.0}\" y=\"{below}\" text-anchor=\"{anchor}\">{}</text>", html_escaped(text))?;
    }
    for (line, colour) in chart.lines.iter().zip(COLOURS) {
        if let [point] = &line.points[..] {
            let (x, y) = place(point);
            write!(out, "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"2\" fill=\"{colour}\"/>")?;
            continue;
        }
        let points = line.points.iter().map(place).map(|(x, y)| format!("{x:.0},{y:.0}"));
        let points = points.collect::<Vec<_>>().join(" ");
        write!(out, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>")?;
    }
    write!(out, "</svg><p>")?;
    for (line, colour) in chart.lines.iter().zip(COLOURS) {
        write!(out, "<span style=\"color:{colour}\">■</span> {} ", html_escaped(&line.name))?;
    }
    writeln!(out, "</p>")
}

fn number(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// For text and for attributes.
fn html_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in printable(text).chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            sign => escaped.push(sign),
        }
    }
    escaped
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn write_markdown(blocks: &[PageBlock], out: &mut impl io::Write) -> io::Result<()> {
    for block in blocks {
        match block {
            PageBlock::Heading(level, text) => {
                writeln!(out, "{} {}\n", "#".repeat(usize::from(*level)), markdown_escaped(text))?
            }
            PageBlock::Paragraph(text) => writeln!(out, "{}\n", markdown_escaped(text))?,
            PageBlock::Table(rows) => {
                for (at, row) in rows.iter().enumerate() {
                    let cells: Vec<String> = row.iter().map(|cell| markdown_escaped(cell)).collect();
                    writeln!(out, "| {} |", cells.join(" | "))?;
                    if at == 0 {
                        writeln!(out, "|{}", " --- |".repeat(row.len()))?;
                    }
                }
                writeln!(out)?;
            }
            PageBlock::Chart(chart) => {
                let Some((title, lines)) = sparklines(chart) else { continue };
                writeln!(out, "{}\n", markdown_escaped(&title))?;
                for (line, name) in lines {
                    writeln!(out, "- `{line}` {}", markdown_escaped(name))?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// For a terminal of this width, or a pipe.
pub fn write_text(blocks: &[PageBlock], width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
    let room = text::room(width);
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        match block {
            PageBlock::Heading(_, title) => text::write_folded(&printable(title), room, out)?,
            PageBlock::Paragraph(paragraph) => text::write_paragraph(paragraph, width, out)?,
            PageBlock::Table(rows) => text::write_columns(INDENT, rows, room, out)?,
            PageBlock::Chart(chart) => {
                let Some((title, lines)) = sparklines(chart) else { continue };
                text::write_paragraph(&title, width, out)?;
                let rows: Vec<_> = lines.map(|(line, name)| vec![line, name.to_owned()]).collect();
                text::write_columns(INDENT, &rows, room, out)?;
            }
        }
    }
    Ok(())
}

/// Of what is below a title.
const INDENT: &str = "  ";

/// What a chart shows, and its lines with their names. None: there is nothing to see.
fn sparklines(chart: &PageChart) -> Option<(String, impl Iterator<Item = (String, &str)>)> {
    let mark = |mark: Option<&(f64, String)>| mark.map_or(String::new(), |(_, text)| text.clone());
    let (from, to, most) = (mark(chart.marks.first()), mark(chart.marks.last()), chart.most());
    let top = format!("█ is {}", [&number(most), chart.unit].join(" ").trim_end());
    let lines = chart.lines.iter().map(move |line| (sparkline(line, most), line.name.as_str()));
    (most > 0.0).then(|| (format!("{}, from {from} to {to}; {top}:", chart.title), lines))
}

/// Columns of a line.
const COLUMNS: usize = POINTS_MAX;

/// From 0 to the greatest value of its chart, each point at its place.
fn sparkline(line: &ChartLine, most: f64) -> String {
    let mut columns = ['·'; COLUMNS];
    for (at, value) in &line.points {
        let column = (at.clamp(0.0, 1.0) * (COLUMNS - 1) as f64).round() as usize;
        columns[column] = LEVELS[((value / most * 7.0).round() as usize).min(7)];
    }
    columns.into_iter().collect()
}

/// No cell ends a row, and no name is markup.
fn markdown_escaped(text: &str) -> String {
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
