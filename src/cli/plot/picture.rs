//! The lines, the grid and the axes by the chart of ratatui, the marks and the labels of the axis from left to right over it.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Alignment, Rect};
use ratatui_core::style::{Color, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::widgets::Widget as _;
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};

use super::across::{PlacedAxis, dot};
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

    /// What the axis has to hold; there is room for a `^` above those that are open.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let open = self.open.iter().map(|(_, value)| value + value.abs() / 4.0);
        self.runs.iter().flatten().map(|(_, value)| *value).chain(open)
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
    marks: BTreeMap<PlotCell, (char, Color)>,
}

impl<'a> Picture<'a> {
    /// None if `width` is too small.
    pub(super) fn new(
        width: u16,
        scale: &'a Scale,
        across: &'a PlacedAxis<'a>,
        series: &[DrawnSeries],
    ) -> Option<Picture<'a>> {
        let widest = scale.labels.iter().map(String::len).max().unwrap_or(0);
        // A blank and the axis.
        let left = u16::try_from(widest).ok()? + 2;
        // The chart cuts labels that take more than a third.
        let columns = width.checked_sub(left).filter(|columns| *columns >= COLUMNS_LEAST && left <= width / 3 + 1)?;
        let area = Rect::new(left, 0, columns, scale.rows);
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, area.height + 2));
        chart(scale, across, series, &grid(scale, across, columns)).render(buffer.area, &mut buffer);
        let mut picture = Picture { scale, across, buffer, area, marks: BTreeMap::new() };
        picture.write_ticks();
        picture.draw_marks(series);
        Some(picture)
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

    /// Those from left to right: the chart's own would not be where they belong.
    fn write_ticks(&mut self) {
        let axis = self.area.height;
        let mut free = 0;
        for (column, label) in self.across.ticks(self.area.width) {
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

    fn text(&mut self, column: u16, row: u16, text: &str) {
        self.buffer.set_string(column, row, text, Style::new());
    }

    fn draw_marks(&mut self, series: &[DrawnSeries]) {
        for (number, series) in series.iter().enumerate() {
            let runs: Vec<Vec<PlotCell>> = series.runs.iter().map(|run| self.cells(run)).collect();
            self.mark_runs(number, &runs);
            for (column, row) in self.cells(&series.open) {
                // At the upper edge there is room for the letter alone.
                if row > 0 {
                    self.mark((column, row - 1), ABOVE, colour(number));
                }
                self.mark((column, row), letter(number), colour(number));
            }
        }
        for ((column, row), (mark, colour)) in &self.marks {
            if let Some(cell) = self.buffer.cell_mut((self.area.x + column, *row)) {
                cell.set_char(*mark).set_fg(*colour);
            }
        }
    }

    /// Where the canvas draws them.
    fn cells(&self, points: &[(f64, f64)]) -> Vec<PlotCell> {
        let Rect { width, height, .. } = self.area;
        let [lower, upper] = self.scale.bounds();
        let cell = |(x, value): &(f64, f64)| {
            (dot(*x, self.across.bounds(), width, 2) / 2, dot(*value, [upper, lower], height, 4) / 4)
        };
        points.iter().map(cell).collect()
    }

    /// One mark here and there, and at least one in each run: a point alone is nothing but its mark.
    fn mark_runs(&mut self, number: usize, runs: &[Vec<PlotCell>]) {
        let mut next = (number % LETTERS.len()) as u16 * MARK_SHIFT % MARK_EVERY;
        for run in runs {
            let mut marked = false;
            for place in run.iter().copied() {
                if place.0 >= next && !self.marks.contains_key(&place) {
                    self.mark(place, letter(number), colour(number));
                    next = place.0 + MARK_EVERY;
                    marked = true;
                }
            }
            if !marked {
                let places = || run.iter().copied();
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

/// Dots at the rows of the ticks.
fn grid(scale: &Scale, across: &PlacedAxis<'_>, columns: u16) -> Vec<(f64, f64)> {
    let ([left, right], steps) = (across.bounds(), scale.labels.len() - 1);
    let value = |step: usize| scale.bottom + (scale.top - scale.bottom) * step as f64 / steps as f64;
    let x = |column: u16| left + (right - left) * f64::from(column) / f64::from(columns - 1);
    (0..=steps).flat_map(|step| (0..columns).step_by(GRID_EVERY).map(move |column| (x(column), value(step)))).collect()
}

/// The lines, the axes and the labels from the bottom up.
fn chart<'a>(
    scale: &'a Scale,
    across: &PlacedAxis<'_>,
    series: &'a [DrawnSeries],
    grid: &'a [(f64, f64)],
) -> Chart<'a> {
    let grid = Dataset::default().data(grid).marker(Marker::Custom('·')).style(Style::new().fg(GREY));
    let line = |(number, run): (usize, &'a Vec<(f64, f64)>)| {
        let line = Dataset::default().data(run).marker(Marker::Braille).graph_type(GraphType::Line);
        line.style(Style::new().fg(colour(number)))
    };
    let runs = series.iter().enumerate().flat_map(|(number, series)| series.runs.iter().map(move |run| (number, run)));
    let labels = scale.labels.iter().map(|label| format!("{label} "));
    let upwards = Axis::default().bounds(scale.bounds()).labels(labels);
    Chart::new([grid].into_iter().chain(runs.map(line)).collect())
        // Empty labels keep room for ours.
        .x_axis(Axis::default().bounds(across.bounds()).labels(["", ""]))
        .y_axis(upwards.labels_alignment(Alignment::Right))
}
