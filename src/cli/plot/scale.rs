//! The axis upwards: round bounds, the rows of its ticks and their labels. Not what is drawn over it.

/// What the values of a plot are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlotUnit {
    /// Milliseconds; labelled in seconds from one second on.
    Millis,
    /// Labelled with k, M or G from ten thousand on, as the others below but for percent.
    TokensPerSecond,
    /// Anything else by the second.
    PerSecond,
    /// 100 is all.
    Percent,
    /// US dollars.
    Dollars,
    /// A number of things.
    Count,
}

/// As many rows as make even steps, so that each tick has its own.
#[derive(Debug)]
pub(super) struct Scale {
    pub bottom: f64,
    pub top: f64,
    /// Of text, from the top's to the bottom's tick.
    pub rows: u16,
    /// Of the ticks, evenly spread from the bottom up.
    pub labels: Vec<String>,
}

/// Values farther from 0 are not drawn: no figure has them, and sums of them are not exact.
const VALUE_LIMIT: f64 = 1e15;
/// A span below this share of the values counts as none: what moves there is noise.
const LEAST_SPAN: f64 = 1e-3;
/// A span below this share of the values does not have to begin at 0.
const NARROW: f64 = 0.1;

impl Scale {
    /// For these values in at most `rows_max` rows (three at least).
    pub(super) fn new(values: impl Iterator<Item = f64>, unit: PlotUnit, rows_max: u16) -> Scale {
        let (low, high) = range(values);
        let rows_max = rows_max.max(3);
        let count_max = f64::from((rows_max - 1) / 2).max(2.0);
        // The lowest tick and the number of steps to the highest. 0.7 / 0.1 is less than 7.
        let ticks = |step: f64| {
            let (first, last) = ((low / step + 1e-6).floor(), (high / step - 1e-6).ceil());
            (first, (last - first).max(1.0))
        };
        let exponent = (high - low).log10().floor() as i32;
        let mut steps = (exponent - 2..=exponent + 1).flat_map(round_steps);
        let step = steps.find(|step| ticks(*step).1 <= count_max).unwrap_or(high - low);
        let (first, count) = ticks(step);
        let rows = (f64::from(rows_max - 1) / count).max(1.0) as u16 * count as u16 + 1;
        let (bottom, top) = (first * step, (first + count) * step);
        let label = Labels::new(unit, bottom.abs().max(top.abs()), step);
        let labels = (0..=count as u16).map(|number| label.text((first + f64::from(number)) * step)).collect();
        Scale { bottom, top, rows, labels }
    }

    /// At the lower and the upper edge: the ticks are in the middle of their rows, of four dots each.
    pub(super) fn bounds(&self) -> [f64; 2] {
        let beyond = 1.5 * (self.top - self.bottom) / f64::from(4 * (self.rows - 1));
        [self.bottom - beyond, self.top + beyond]
    }

    /// Whether heights can be compared as such.
    pub(super) fn has_zero(&self) -> bool {
        self.bottom <= 0.0
    }
}

/// Whether a value can be drawn.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= VALUE_LIMIT
}

/// What the axis has to hold; never empty.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return (0.0, 1.0);
    }
    let span = high - low;
    let narrow = low > 0.0 && span < NARROW * high && span > LEAST_SPAN * high;
    let low = if narrow { low } else { low.min(0.0) };
    let high = if narrow { high } else { high.max(0.0) };
    // One that is all but nothing would need labels of many digits.
    let least = (high.abs().max(low.abs()) * LEAST_SPAN).max(1e-6);
    if high - low < least { (low, low + if low == 0.0 && high == 0.0 { 1.0 } else { least }) } else { (low, high) }
}

fn round_steps(exponent: i32) -> [f64; 3] {
    [1.0, 2.0, 5.0]
        .map(|factor| if exponent < 0 { factor / 10f64.powi(-exponent) } else { factor * 10f64.powi(exponent) })
}

/// How the ticks of one axis are written: all alike.
struct Labels {
    before: &'static str,
    after: &'static str,
    /// In the plot's unit.
    one: f64,
    decimals: usize,
}

impl Labels {
    fn new(unit: PlotUnit, greatest: f64, step: f64) -> Labels {
        let (thousands, letter) = match greatest {
            1e10.. => (1e9, 2),
            1e7.. => (1e6, 1),
            1e4.. => (1e3, 0),
            _ => (1.0, 3),
        };
        let scaled = |names: [&'static str; 4]| names[letter];
        let (before, after, one) = match unit {
            // Three decimals of a second are harder to read than milliseconds.
            PlotUnit::Millis if greatest >= 1000.0 && step >= 10.0 => ("", " s", 1000.0),
            PlotUnit::Millis => ("", " ms", 1.0),
            PlotUnit::TokensPerSecond => ("", scaled(["k tok/s", "M tok/s", "G tok/s", " tok/s"]), thousands),
            PlotUnit::PerSecond => ("", scaled(["k/s", "M/s", "G/s", "/s"]), thousands),
            PlotUnit::Percent => ("", " %", 1.0),
            PlotUnit::Dollars => ("$", scaled(["k", "M", "G", ""]), thousands),
            PlotUnit::Count => ("", scaled(["k", "M", "G", ""]), thousands),
        };
        let decimals = (-(step / one).log10() - 1e-9).ceil().clamp(0.0, 15.0) as usize;
        Labels { before, after, one, decimals }
    }

    fn text(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}{:.*}{}", self.before, self.decimals, (value / self.one).abs(), self.after)
    }
}
