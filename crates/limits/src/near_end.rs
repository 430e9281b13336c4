//! What is said of a budget that comes near its end. Not for when it does: see `book`.

use std::cmp::Ordering;
use std::fmt;

use super::level::LevelName;
use super::window::Calendar;

const NANO: i64 = 1_000_000_000;

/// A budget of which more than `warn` is spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetWarning {
    pub level: LevelName,
    pub near: NearEnd,
}

/// What is spent of a budget that comes near its end: nano-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearEnd {
    pub calendar: Calendar,
    pub budget: i64,
    pub spent: i64,
    /// Microseconds since 1970.
    pub end_us: i64,
}

impl NearEnd {
    pub(super) fn by_part(&self, other: &NearEnd) -> Ordering {
        let part = |of: &NearEnd| of.spent as f64 / of.budget as f64;
        part(self).total_cmp(&part(other))
    }
}

impl fmt::Display for NearEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} USD spent ", usd(self.spent), usd(self.budget))?;
        match self.calendar {
            Calendar::Total => f.write_str("in all"),
            calendar => write!(f, "this {}", calendar.as_str()),
        }
    }
}

/// Nano-USD as a decimal number.
pub fn usd(nano: i64) -> String {
    let (whole, rest) = (nano / NANO, (nano % NANO).abs());
    let text = format!("{}{}.{rest:09}", if nano < 0 { "-" } else { "" }, whole.abs());
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        let amounts = [0, 1, 1_500_000_000, -20_000_000, 7_000_000_000, 1_000_000_000_000_000_000];
        assert_eq!(amounts.map(usd), ["0", "0.000000001", "1.5", "-0.02", "7", "1000000000"]);
        let near = |calendar| NearEnd { calendar, budget: NANO, spent: 830_000_000, end_us: 0 }.to_string();
        assert_eq!(near(Calendar::Week), "0.83 of 1 USD spent this week");
        assert_eq!(near(Calendar::Total), "0.83 of 1 USD spent in all");
    }
}
