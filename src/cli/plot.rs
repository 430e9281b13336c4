//! Draws lines over time, or over classes, as text for a terminal. Knows nothing of the history and asks no terminal
//! for its size or colours: the caller says both.
//!
//! ratatui's chart draws the lines and the axes. Ours are three things that it cannot: letters on the lines, which distinguish them without
//! colours; labels from left to right at their places (its own are up to half a step off); and a legend of names that are
//! longer than a part of the picture.

mod across;
mod legend;
mod picture;
mod scale;

use std::io;

use across::PlacedAxis;
pub use across::XAxis;
use legend::LegendEntry;
pub use picture::PlotLine;
use picture::{DrawnSeries, Picture};
pub use scale::PlotUnit;
use scale::Scale;

use super::text::{clean, cut_and_wrapped, write_lines};

/// What is drawn.
#[derive(Debug)]
pub struct Plot<'a> {
    /// Above the picture.
    pub title: &'a str,
    /// Of all values.
    pub unit: PlotUnit,
    /// What the lines go over.
    pub x: XAxis<'a>,
    /// Each has a letter and one of eight colours. From the 63rd on letters repeat.
    pub lines: Vec<PlotLine>,
}

/// Columns; a wider terminal is not filled.
const WIDTH_MAX: u16 = 400;
/// Rows; a taller terminal is not filled.
const HEIGHT_MAX: u16 = 100;
/// Rows of the least picture: the title, three for the lines, the axis, its labels and caption.
const HEIGHT_MIN: u16 = 7;
/// In a narrower terminal than this many columns a character may not fit.
const WIDTH_MIN: u16 = 2;

/// Writes the plot, at most `width` columns wide and with at most `height` rows above the legend (7 to 100; a long
/// title may add some). Where `width` leaves no room for the lines, it is the title and the legend only. ANSI escape
/// codes are written only with `colour`.
pub fn write(plot: &Plot<'_>, width: u16, height: u16, colour: bool, out: &mut impl io::Write) -> io::Result<()> {
    if width < WIDTH_MIN {
        return Ok(());
    }
    let (width, height) = (width.min(WIDTH_MAX), height.clamp(HEIGHT_MIN, HEIGHT_MAX));
    let across = PlacedAxis::new(&plot.x);
    let series: Vec<DrawnSeries> = plot.lines.iter().map(|line| DrawnSeries::new(line, &across)).collect();
    // The title, the axis, its labels and caption.
    let scale = Scale::new(series.iter().flat_map(DrawnSeries::values), plot.unit, height - 4);

    let mut title = clean(plot.title);
    if !scale.has_zero() {
        title.push_str(" (the axis does not begin at 0)");
    }
    write_lines(&cut_and_wrapped(&title, usize::from(width)), out)?;
    let mut entries = legend::entries(&plot.lines, &series);
    if let Some(picture) = Picture::new(width, &scale, &across, &series) {
        picture.write(colour, out)?;
        write_lines(&picture.caption(), out)?;
        if picture.has_shared_marks() {
            entries.push(LegendEntry { mark: picture::SHARED, colour: None, text: "several lines".to_owned() });
        }
    }
    legend::write(&entries, usize::from(width), colour, out)
}

#[cfg(test)]
mod tests;
