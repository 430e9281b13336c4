//! The axis from left to right: time or classes, with the places and labels of its ticks. Times are UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::text::{clean, columns as wide};

/// What a plot goes over.
#[derive(Debug)]
pub enum XAxis<'a> {
    /// A point's x is a time in microseconds since 1970, UTC.
    Time {
        /// The left edge.
        from_us: i64,
        /// The right edge.
        until_us: i64,
        /// Points farther apart than 1.5 steps are not joined; 0 joins all.
        step_us: i64,
    },
    /// A point's x is the number of its class, from 0. A class without a point is a gap.
    Classes {
        /// What the labels are of, such as "attempts in flight".
        name: &'a str,
        /// One for each class, in their order; those that have no room are left out.
        labels: Vec<String>,
    },
}

/// An axis made ready to place points on.
#[derive(Debug)]
pub(super) struct PlacedAxis<'a> {
    axis: &'a XAxis<'a>,
    /// The x at the left edge.
    left: f64,
    /// The x at the right edge; more than `left`.
    right: f64,
    /// Points farther apart are not joined.
    pub joined: f64,
}

/// Ticks are no closer than this many columns.
const APART: i64 = 8;
/// Blanks between two labels.
const BETWEEN: usize = 2;
/// The last microsecond of 9998; dates beyond it have no labels.
const LAST_US: i64 = 253_370_764_799_999_999;
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;
/// Seconds: up to half a minute, half an hour, half a day, then days and weeks. Longer ones are the last one doubled.
const STEPS: [i64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
    1_209_600, 2_419_200,
];
/// 1970 began on a Thursday; weeks are to begin on Mondays. Seconds.
const MONDAY: i64 = 4 * DAY;

impl<'a> PlacedAxis<'a> {
    pub(super) fn new(axis: &'a XAxis<'a>) -> PlacedAxis<'a> {
        let (left, right, joined) = match axis {
            XAxis::Time { from_us, until_us, step_us } => {
                let (from, until) = span(*from_us, *until_us);
                (from as f64, until as f64, if *step_us > 0 { 1.5 * *step_us as f64 } else { f64::INFINITY })
            }
            XAxis::Classes { labels, .. } => (-0.5, labels.len().max(1) as f64 - 0.5, 1.5),
        };
        PlacedAxis { axis, left, right, joined }
    }

    pub(super) fn holds(&self, x: f64) -> bool {
        (self.left..=self.right).contains(&x)
    }

    /// The x at the left and at the right edge.
    pub(super) fn bounds(&self) -> [f64; 2] {
        [self.left, self.right]
    }

    /// Columns and labels, from left to right; so few that the labels have room.
    pub(super) fn ticks(&self, columns: u16) -> Vec<(u16, String)> {
        let column = |x: f64| dot(x, self.bounds(), columns, 2) / 2;
        match self.axis {
            XAxis::Time { from_us, until_us, .. } => {
                let (from, until) = span(*from_us, *until_us);
                let (step, format) = time_step(until - from, i64::from(columns));
                let step = step * SECOND;
                let first = (from - MONDAY * SECOND).div_euclid(step) * step + MONDAY * SECOND;
                let times = (0..=i64::from(columns)).map(|number| first.saturating_add(number.saturating_mul(step)));
                let times = times.skip_while(|time| *time < from).take_while(|time| *time <= until);
                times.map(|time| (column(time as f64), written(time, format))).collect()
            }
            XAxis::Classes { labels, .. } => {
                let labels: Vec<String> = labels.iter().map(|label| clean(label)).collect();
                let widest = labels.iter().map(|label| wide(label)).max().unwrap_or(0);
                let room = usize::from(columns) / labels.len().max(1);
                let every = (widest + BETWEEN).div_ceil(room.max(1)).min(labels.len()).max(1);
                let shown = labels.into_iter().enumerate().step_by(every);
                shown.map(|(number, label)| (column(number as f64), label)).collect()
            }
        }
    }

    /// What the labels do not say: the dates, or of what the classes are.
    pub(super) fn caption(&self) -> String {
        match self.axis {
            XAxis::Time { from_us, until_us, .. } => {
                let (from, until) = span(*from_us, *until_us);
                let format = if until - from < 600 * SECOND { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M" };
                format!("{} to {}, UTC", written(from, format), written(until, format))
            }
            XAxis::Classes { name, .. } => clean(name),
        }
    }
}

/// Dots from the first edge, in a picture of `cells` cells with `dots` dots each, as the canvas places them.
pub(super) fn dot(value: f64, [first, last]: [f64; 2], cells: u16, dots: u16) -> u16 {
    let share = ((value - first) / (last - first)).clamp(0.0, 1.0);
    (share * f64::from(cells * dots - 1)).round() as u16
}

/// Within what dates can say, and never empty.
fn span(from_us: i64, until_us: i64) -> (i64, i64) {
    let from = from_us.clamp(0, LAST_US - SECOND);
    (from, until_us.clamp(from + 1, LAST_US))
}

/// Seconds between ticks, and how they are written.
fn time_step(span_us: i64, columns: i64) -> (i64, &'static str) {
    let longer = std::iter::successors(STEPS.last().map(|last| last * 2), |step| step.checked_mul(2));
    for step in STEPS.into_iter().chain(longer) {
        let (format, width) = match span_us / SECOND {
            _ if step < 60 => ("%H:%M:%S", 8),
            ..=DAY if step < DAY => ("%H:%M", 5),
            span if step < DAY && span <= 7 * DAY => ("%a %H:%M", 9),
            _ if step < DAY => ("%m-%d %H:%M", 11),
            span if span <= 300 * DAY => ("%m-%d", 5),
            _ => ("%Y-%m-%d", 10),
        };
        let room = i128::from(columns) * i128::from(step * SECOND) / i128::from(span_us);
        if room >= i128::from(APART.max(width + BETWEEN as i64)) {
            return (step, format);
        }
    }
    (LAST_US / SECOND, "%Y-%m-%d")
}

fn written(time_us: i64, format: &str) -> String {
    let time = Timestamp::from_microsecond(time_us).map(|time| time.to_zoned(TimeZone::UTC));
    time.map_or_else(|_| String::new(), |time| time.strftime(format).to_string())
}
