//! A page as blocks, so that Markdown and HTML say the same. Not for the words: see `words`.

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
    /// Below the axis, from left to right: from 0 to 1, and the text. The first stands at 0, the last at 1.
    pub marks: Vec<(f64, String)>,
}

/// One line, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    pub name: String,
    /// From 0, left, to 1, right; and the value.
    pub points: Vec<(f64, f64)>,
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
