//! The lines, their marks, the grid and the axes in a grid of cells. [`Scale`] and [`PlacedAxis`] say where each lies.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget as _;
use ratatui_widgets::canvas::{Canvas, Context, Line as Stroke};

use super::across::{self, PlacedAxis};
use super::scale::{self, Scale};
use crate::cli::text::{columns as wide, cut_and_wrapped};

/// Over the letter of a point whose value is only known to be above.
pub(super) const ABOVE: char = '^';
/// In a cell with the marks of several lines.
pub(super) const SHARED: char = '*';

/// Columns from one mark of a line to its next: between them the line itself can be read.
const MARK_EVERY: u16 = 12;
/// Columns between the marks of two lines, so that equal lines do not hide each other's.
const MARK_SHIFT: u16 = 5;
/// With fewer columns there is no picture.
const COLUMNS_LEAST: u16 = 8;
/// Columns from one dot of the grid to its next.
const GRID_EVERY: usize = 8;
/// Of 256 colours, readable on black and on white.
const COLOURS: [u8; 8] = [33, 208, 35, 169, 37, 160, 99, 136];
const GREY: Color = Color::Indexed(244);
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// One line of a plot. What is not finite, beyond ±10^15 or outside the axis is left out; order does not matter.
#[derive(Debug, Default)]
pub struct PlotLine {
    /// Shown whole in the legend, without control characters.
    pub name: String,
    /// x (as [`XAxis`](super::XAxis) says) and value (in the plot's unit).
    pub points: Vec<(f64, f64)>,
    /// The same, of values that are only known to be above this one: drawn as the line's letter with a `^` over it. No
    /// line leads there.
    pub open: Vec<(f64, f64)>,
}

/// What can be drawn of a line.
#[derive(Debug)]
pub(super) struct DrawnSeries {
    /// Points that are joined.
    runs: Vec<Vec<(f64, f64)>>,
    open: Vec<(f64, f64)>,
}

impl DrawnSeries {
    pub(super) fn new(line: &PlotLine, across: &PlacedAxis<'_>) -> DrawnSeries {
        let drawn = |&&(x, value): &&(f64, f64)| across.holds(x) && scale::drawable(value);
        let open: Vec<(f64, f64)> = line.open.iter().filter(drawn).copied().collect();
        let known = line.points.iter().filter(drawn).map(|point| (*point, false));
        let mut all: Vec<_> = known.chain(open.iter().map(|point| (*point, true))).collect();
        all.sort_by(|((one, _), _), ((other, _), _)| one.total_cmp(other));
        let joined = |((left, _), above): &((f64, f64), bool), ((right, _), next_above): &((f64, f64), bool)| {
            !above && !next_above && right - left <= across.joined
        };
        let runs = all.chunk_by(joined).filter(|run| !run[0].1);
        DrawnSeries { runs: runs.map(|run| run.iter().map(|(point, _)| *point).collect()).collect(), open }
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.open.is_empty()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().flatten().chain(&self.open).map(|(_, value)| *value)
    }
}

/// The letter of a line.
pub(super) fn letter(line: usize) -> char {
    char::from(LETTERS[line % LETTERS.len()])
}

/// The colour of a line.
pub(super) fn colour(line: usize) -> Color {
    Color::Indexed(COLOURS[line % COLOURS.len()])
}

/// How to switch to this colour.
pub(super) fn escape(colour: Color) -> String {
    match colour {
        Color::Indexed(number) => format!("\x1b[38;5;{number}m"),
        _ => "\x1b[0m".to_owned(),
    }
}

/// A column and a row of the area in which lines are drawn.
type PlotCell = (u16, u16);

pub(super) struct Picture<'a> {
    scale: &'a Scale,
    across: &'a PlacedAxis<'a>,
    buffer: Buffer,
    /// Where the lines are drawn.
    area: Rect,
    /// Rows above the scale's first.
    head: u16,
    marks: BTreeMap<PlotCell, (char, Color)>,
}

impl<'a> Picture<'a> {
    /// Axes and grid alone. `any_open`: there is a row for a `^` above the highest value. None if `width` is too small.
    pub(super) fn new(width: u16, scale: &'a Scale, across: &'a PlacedAxis<'a>, any_open: bool) -> Option<Picture<'a>> {
        let labels = scale.ticks.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
        // A blank and the axis.
        let left = u16::try_from(labels).ok()? + 2;
        let columns = width.checked_sub(left).filter(|columns| *columns >= COLUMNS_LEAST)?;
        let head = u16::from(any_open);
        let area = Rect::new(left, 0, columns, head + scale.rows);
        let buffer = Buffer::empty(Rect::new(0, 0, width, area.height + 2));
        let mut picture = Picture { scale, across, buffer, area, head, marks: BTreeMap::new() };
        picture.draw_axes();
        Some(picture)
    }

    /// The lines, then their marks over them.
    pub(super) fn draw(&mut self, series: &[DrawnSeries]) {
        let dots: Vec<Vec<Vec<(u16, u16)>>> =
            series.iter().map(|series| series.runs.iter().map(|run| self.dots(run)).collect()).collect();
        self.draw_lines(&dots);
        for (number, (series, runs)) in series.iter().zip(&dots).enumerate() {
            self.mark_runs(number, runs);
            for (column, row) in self.dots(&series.open).into_iter().map(cell) {
                self.mark((column, row), letter(number), colour(number));
                self.mark((column, row.saturating_sub(1)), ABOVE, colour(number));
            }
        }
        for ((column, row), (mark, colour)) in &self.marks {
            let place = (self.area.x + column, *row);
            if let Some(cell) = self.buffer.cell_mut(place) {
                cell.set_char(*mark).set_fg(*colour);
            }
        }
    }

    /// Whether the picture has a `*`.
    pub(super) fn has_shared_marks(&self) -> bool {
        self.marks.values().any(|(mark, _)| *mark == SHARED)
    }

    /// Below the picture, in its middle if it fits.
    pub(super) fn caption(&self) -> Vec<String> {
        let mut lines = cut_and_wrapped(&self.across.caption(), usize::from(self.buffer.area.width));
        if let [line] = &mut lines[..] {
            let free = usize::from(self.area.width).saturating_sub(wide(line));
            let indent = if free > 0 { usize::from(self.area.x) + free / 2 } else { 0 };
            line.insert_str(0, &" ".repeat(indent));
        }
        lines
    }

    pub(super) fn write(&self, coloured: bool, out: &mut impl io::Write) -> io::Result<()> {
        for row in self.buffer.content().chunks(usize::from(self.buffer.area.width)) {
            let mut line = String::new();
            let mut current = Color::Reset;
            let mut cells = row.iter();
            while let Some(cell) = cells.next() {
                // A blank has any colour.
                let next = if cell.symbol() == " " { current } else { cell.fg };
                if coloured && next != current {
                    line.push_str(&escape(next));
                    current = next;
                }
                line.push_str(cell.symbol());
                // A wide character covers the cells behind it.
                for _ in 1..wide(cell.symbol()) {
                    cells.next();
                }
            }
            let end = if current == Color::Reset { "" } else { "\x1b[0m" };
            writeln!(out, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }

    fn draw_axes(&mut self) {
        let (left, axis) = (self.area.x - 1, self.area.height);
        let scale = self.scale;
        for row in 0..axis {
            self.text(left, row, "│");
        }
        self.text(left, axis, "└");
        self.text(self.area.x, axis, &"─".repeat(usize::from(self.area.width)));
        let ticks = self.across.ticks(self.area.width);
        for (row, label) in &scale.ticks {
            let row = row + self.head;
            self.text(left - 1 - label.len() as u16, row, label);
            self.text(left, row, "┤");
            (0..self.area.width).step_by(GRID_EVERY).for_each(|column| self.grid(column, row));
        }
        let mut free = 0;
        for (column, label) in ticks {
            self.text(self.area.x + column, axis, "┬");
            let width = wide(&label) as u16;
            let Some(last) = self.buffer.area.width.checked_sub(width) else { continue };
            let start = (self.area.x + column).saturating_sub(width / 2).min(last);
            if start >= free {
                self.text(start, axis + 1, &label);
                free = start + width + 1;
            }
        }
    }

    fn grid(&mut self, column: u16, row: u16) {
        self.buffer.set_string(self.area.x + column, row, "·", Style::new().fg(GREY));
    }

    fn text(&mut self, column: u16, row: u16, text: &str) {
        self.buffer.set_string(column, row, text, Style::new());
    }

    /// From the upper left corner of the area.
    fn dots(&self, points: &[(f64, f64)]) -> Vec<(u16, u16)> {
        let down = self.head * scale::DOTS;
        let columns = self.area.width;
        points.iter().map(|(x, value)| (self.across.dot(*x, columns), self.scale.dot(*value) + down)).collect()
    }

    fn draw_lines(&mut self, dots: &[Vec<Vec<(u16, u16)>>]) {
        let [right, top] = [self.area.width * across::DOTS - 1, self.area.height * scale::DOTS - 1].map(f64::from);
        let canvas = Canvas::default().marker(Marker::Braille).x_bounds([0.0, right]).y_bounds([0.0, top]);
        let canvas = canvas.paint(|context| {
            for (number, runs) in dots.iter().enumerate() {
                runs.iter().for_each(|run| stroke(run, top, colour(number), context));
            }
        });
        canvas.render(self.area, &mut self.buffer);
    }

    /// One mark here and there, and at least one in each run: a point alone is nothing but its mark.
    fn mark_runs(&mut self, number: usize, runs: &[Vec<(u16, u16)>]) {
        let mut next = (number % LETTERS.len()) as u16 * MARK_SHIFT % MARK_EVERY;
        for run in runs {
            let mut marked = false;
            for place in run.iter().copied().map(cell) {
                if place.0 >= next && !self.marks.contains_key(&place) {
                    self.mark(place, letter(number), colour(number));
                    next = place.0 + MARK_EVERY;
                    marked = true;
                }
            }
            if !marked {
                let places = || run.iter().copied().map(cell);
                let free = places().find(|place| !self.marks.contains_key(place));
                if let Some(place) = free.or(places().next()) {
                    self.mark(place, letter(number), colour(number));
                }
            }
        }
    }

    fn mark(&mut self, place: PlotCell, mark: char, colour: Color) {
        match self.marks.entry(place) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert((mark, colour));
            }
            btree_map::Entry::Occupied(entry) if *entry.get() == (mark, colour) => {}
            btree_map::Entry::Occupied(mut entry) => {
                entry.insert((SHARED, Color::Reset));
            }
        }
    }
}

fn cell((column, row): (u16, u16)) -> PlotCell {
    (column / across::DOTS, row / scale::DOTS)
}

/// The canvas counts from below.
fn stroke(run: &[(u16, u16)], top: f64, color: Color, context: &mut Context<'_>) {
    let at = |(x, y): (u16, u16)| (f64::from(x), top - f64::from(y));
    for ends in run.windows(2) {
        let ((x1, y1), (x2, y2)) = (at(ends[0]), at(ends[1]));
        context.draw(&Stroke { x1, y1, x2, y2, color });
    }
}
