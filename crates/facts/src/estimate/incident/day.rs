//! Whether the last day was slower than the seven days before it, by more than these differ from each other.
//!
//! A day is one observation, however many attempts it had: attempts of one hour are slow together, so that to count each of them would
//! find a change in every hour. An hour is as far from what is usual as its attempts are within their size classes; a day is
//! the median of its hours, which an outage of some hours does not move. Not for minutes: see `minutes`.

use std::collections::BTreeMap;

use photofinish_base::clock::HOUR_US;

/// Days before the last one.
pub const DAYS: usize = 7;
const DAY_HOURS: i64 = 24;
/// Hours that a day needs, and days that a comparison needs.
const HOURS_LEAST: usize = 4;
const DAYS_LEAST: usize = 5;
/// For 5, 6 and 7 days before: how many standard deviations beyond their mean a day lies by chance once in a thousand (Student's t).
const SURE: [f64; DAYS - DAYS_LEAST + 1] = [7.173, 5.893, 5.208];
/// How many times as long it takes at least where an incident opens, and where it has ended.
const SLOWER: f64 = 1.25;
const NO_LONGER: f64 = 1.1;

/// The last day against those before.
#[derive(Clone, Debug)]
pub struct DayCompared {
    /// How many times as long it took.
    pub factor: f64,
    /// Not by chance.
    is_sure: bool,
    /// When its hours became slow, and when they ceased to be, if they are; microseconds since 1970.
    pub began_at: i64,
    pub ended_at: i64,
    /// Of the last day.
    pub attempts: u64,
}

impl DayCompared {
    /// `hours`: by the number of the hour since 1970, how far it is from what is usual; a logarithm, above 0 if it took longer. `until`: the hour
    /// at which the last day ends. `factor`: see [`DayCompared::factor`]; if it is not known, it follows from the hours. None: too little
    /// is known.
    pub fn new(hours: &BTreeMap<i64, f64>, until: i64, factor: Option<f64>, attempts: u64) -> Option<DayCompared> {
        let of_day = |place: usize| {
            let ends = until - DAY_HOURS * place as i64;
            hours.range(ends - DAY_HOURS..ends)
        };
        let value = |place: usize| {
            let mut values: Vec<f64> = of_day(place).map(|(_, value)| *value).collect();
            median(&mut values).filter(|_| values.len() >= HOURS_LEAST)
        };
        let now = value(0)?;
        let before: Vec<f64> = (1..=DAYS).filter_map(value).collect();
        let sure = SURE.get(before.len().checked_sub(DAYS_LEAST)?)?;
        let count = before.len() as f64;
        let mean = before.iter().sum::<f64>() / count;
        let variance = before.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let is_sure = now - mean > sure * (variance * (1.0 + 1.0 / count)).sqrt();

        // Where they turned: the hours behind the one, or before the other, speak most for slowness.
        let middle = (now + mean) / 2.0;
        let (mut most, mut sum, mut began) = (0.0, 0.0, until);
        for (hour, value) in of_day(0).rev() {
            sum += value - middle;
            if sum > most {
                (most, began) = (sum, *hour);
            }
        }
        let (mut most, mut sum, mut ended) = (0.0, 0.0, until - DAY_HOURS);
        for (hour, value) in of_day(0) {
            sum += value - mean - SLOWER.ln() / 2.0;
            if sum > most {
                (most, ended) = (sum, hour + 1);
            }
        }
        let factor = factor.unwrap_or((now - mean).exp());
        Some(DayCompared { factor, is_sure, began_at: began * HOUR_US, ended_at: ended * HOUR_US, attempts })
    }

    pub fn is_slower(&self) -> bool {
        self.is_sure && self.factor >= SLOWER
    }

    /// Also because to be slow has become usual.
    pub fn is_as_usual(&self) -> bool {
        self.factor < NO_LONGER
    }
}

/// The median of values; sorts them.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
