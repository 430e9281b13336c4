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
}

/// Values are placed so that every tick falls on the middle of a row.
#[derive(Debug)]
pub(super) struct Scale {
    bottom: f64,
    top: f64,
    /// Of text, from the top's to the bottom's tick.
    pub rows: u16,
    /// Row (from above) and label, from the bottom up.
    pub ticks: Vec<(u16, String)>,
}

/// Dots of braille in a row.
pub(super) const DOTS: u16 = 4;
/// Values farther from 0 are not drawn: no figure has them, and sums of them are not exact.
const VALUE_LIMIT: f64 = 1e15;
/// A span below this share of the values counts as none: what moves there is noise.
const LEAST_SPAN: f64 = 1e-3;
/// A span below this share of the values does not have to begin at 0.
const NARROW: f64 = 0.1;

impl Scale {
    /// For these values in `rows_max` rows (three at least), of which it takes as many as make even steps.
    pub(super) fn new(values: impl Iterator<Item = f64>, unit: PlotUnit, rows_max: u16) -> Scale {
        let (low, high) = range(values);
        let rows_max = rows_max.max(3);
        let steps_max = f64::from((rows_max - 1) / 2).max(2.0);
        let mut best: Option<(f64, TickSteps)> = None;
        let exponent = ((high - low).log10()).floor() as i32;
        for step in (exponent - 2..=exponent + 2).flat_map(round_steps) {
            let steps = TickSteps::new(low, high, step);
            if !(1.0..=steps_max).contains(&steps.count) {
                continue;
            }
            // The more rows are between the least and the greatest value, the better they can be distinguished; but a few
            // ticks are worth some rows.
            let few = if steps.count < 4.0 { 0.7 } else { 1.0 };
            let used = few * steps.rows_each(rows_max) * (high - low) / step;
            if best.as_ref().is_none_or(|(most, _)| used > *most * 1.001) {
                best = Some((used, steps));
            }
        }
        let steps = best.map_or_else(|| TickSteps::new(low, high, high - low), |(_, steps)| steps);
        steps.scale(unit, rows_max)
    }

    /// Dots below the upper edge of the first row.
    pub(super) fn dot(&self, value: f64) -> u16 {
        let share = ((self.top - value) / (self.top - self.bottom)).clamp(0.0, 1.0);
        (share * f64::from(DOTS * (self.rows - 1))).round() as u16 + DOTS / 2
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

/// A candidate for the ticks.
struct TickSteps {
    /// In the plot's unit.
    step: f64,
    /// The lowest tick, in steps.
    first: f64,
    /// Steps from the lowest to the highest tick.
    count: f64,
}

impl TickSteps {
    fn new(low: f64, high: f64, step: f64) -> TickSteps {
        // 0.7 / 0.1 is less than 7.
        let (first, last) = ((low / step + 1e-6).floor(), (high / step - 1e-6).ceil());
        TickSteps { step, first, count: (last - first).max(1.0) }
    }

    fn rows_each(&self, rows_max: u16) -> f64 {
        (f64::from(rows_max - 1) / self.count).floor()
    }

    fn scale(&self, unit: PlotUnit, rows_max: u16) -> Scale {
        let (each, count) = (self.rows_each(rows_max) as u16, self.count as u16);
        let tick = |number: u16| (self.first + f64::from(number)) * self.step;
        let (bottom, top) = (tick(0), tick(count));
        let label = Labels::new(unit, bottom.abs().max(top.abs()), self.step);
        let rows = each * count + 1;
        let ticks = (0..=count).map(|number| (rows - 1 - each * number, label.text(tick(number)))).collect();
        Scale { bottom, top, rows, ticks }
    }
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
