//! What attempts cost: a pair of bounds, which are equal where the cost is exact, and sums of such pairs.
//!
//! Pure. Not for pricing one attempt (`bill`) or for what racing was (`racing`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grid::{ByteReader, ShortBytes, put};
use crate::record::table::subset;
use crate::record::tables::AttemptRecord;
use photofinish_wire::answer::usage::COST_MAX;

const PICO: f64 = 1e12;
/// Decimals of the smallest amount that is written.
const DECIMALS: u32 = 12;

subset! {
    /// The bounds of a cost in US dollars. As text it has the digits that it can bear, the same as on the pages.
    #[derive(Copy, PartialEq, Serialize, Deserialize)]
    pub Cost of AttemptRecord {
        /// None: no price is known.
        cost_usd_min: Option<f64>,
        /// None: nothing bounds it from above.
        cost_usd_max: Option<f64>,
    }
}

impl Cost {
    pub const ZERO: Cost = Cost::exactly(0.0);

    pub const fn exactly(usd: f64) -> Cost {
        Cost { cost_usd_min: Some(usd), cost_usd_max: Some(usd) }
    }

    pub const fn between(least: f64, most: Option<f64>) -> Cost {
        Cost { cost_usd_min: Some(least), cost_usd_max: most }
    }

    /// The amount, where it is known.
    pub fn exact(&self) -> Option<f64> {
        self.cost_usd_min.filter(|_| self.cost_usd_min == self.cost_usd_max)
    }

    /// Its text has two bounds, or lacks the upper one.
    pub fn is_range(&self) -> bool {
        match (self.cost_usd_min, self.cost_usd_max) {
            (Some(least), Some(most)) => range_text(least, most).is_some(),
            (least, _) => least.is_some(),
        }
    }

    /// As a share of a sum that it is a part of and whose other parts cost `rest`: the least and the most. None where nothing can be
    /// said.
    pub fn share_of_sum(&self, rest: &Cost) -> Option<(f64, f64)> {
        let (least, most) = (self.cost_usd_min?, self.cost_usd_max?);
        let (rest_least, rest_most) = (rest.cost_usd_min?, rest.cost_usd_max?);
        let share = |part: f64, rest: f64| if part > 0.0 { part / (part + rest) } else { 0.0 };
        (most + rest_least > 0.0).then(|| (share(least, rest_most), share(most, rest_least)))
    }

    pub fn each_of(&self, count: f64) -> Cost {
        let each = |usd: f64| usd / count;
        Cost { cost_usd_min: self.cost_usd_min.map(each), cost_usd_max: self.cost_usd_max.map(each) }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(least) = self.cost_usd_min else { return f.write_str("unknown") };
        let Some(most) = self.cost_usd_max else { return write!(f, "${} or more", exact_amount(least)) };
        match range_text(least, most) {
            Some((low, high)) => write!(f, "${low}–{high}"),
            None => write!(f, "${}", exact_amount(most)),
        }
    }
}

/// None: with the digits that they can bear the bounds are the same.
fn range_text(least: f64, most: f64) -> Option<(String, String)> {
    let decimals = decimals_of_range(least, most);
    let (low, high) = (amount(least, decimals), amount(most, decimals));
    (low != high).then_some((low, high))
}

/// Two digits that matter below a dollar, cents above, dollars from a thousand on.
fn exact_amount(usd: f64) -> String {
    let text = amount(usd, if usd >= 1_000.0 { 0 } else { decimals_for(usd, 2).max(2) });
    let Some((whole, decimals)) = text.split_once('.') else { return text };
    // Cents stay.
    let (cents, rest) = decimals.split_at(2);
    format!("{whole}.{cents}{}", rest.trim_end_matches('0'))
}

/// Two digits of what is uncertain, and three of the amount.
fn decimals_of_range(least: f64, most: f64) -> u32 {
    match decimals_for(most - least, 2).min(decimals_for(most, 3).max(2)) {
        1 => 2,
        decimals => decimals,
    }
}

/// Decimals with which an amount has this number of digits.
fn decimals_for(usd: f64, digits: i32) -> u32 {
    // A difference of two decimal numbers may be a little less than it is.
    let wanted = 10_f64.powi(digits - 1) * (1.0 - 1e-9);
    (0..DECIMALS).find(|decimals| usd * power_of_ten(*decimals) >= wanted).unwrap_or(DECIMALS)
}

fn power_of_ten(exponent: u32) -> f64 {
    10_u64.pow(exponent) as f64
}

/// Rounded as in the scripts of the pages; thousands have commas.
fn amount(usd: f64, decimals: u32) -> String {
    let power = power_of_ten(decimals);
    if (usd * power).round() == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{:.*}", decimals as usize, (usd * power).round() / power);
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// The sum of the costs of some attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostSum {
    /// Picodollars: whole numbers, so that the order of adding does not matter.
    min_pico_usd: i128,
    /// Upper bounds; the lower one of attempts that have no upper one.
    max_pico_usd: i128,
    /// Attempts with a price.
    priced: u64,
    unpriced: u64,
    /// Attempts with a price and without an upper bound.
    open: u64,
}

impl CostSum {
    pub fn add(&mut self, cost: &Cost) {
        let Some(min) = cost.cost_usd_min else {
            self.unpriced += 1;
            return;
        };
        let min = pico(min);
        let max = cost.cost_usd_max.map_or(min, |max| pico(max).max(min));
        self.min_pico_usd = self.min_pico_usd.saturating_add(min);
        self.max_pico_usd = self.max_pico_usd.saturating_add(max);
        self.priced += 1;
        self.open += u64::from(cost.cost_usd_max.is_none());
    }

    /// Of these costs.
    pub fn of(costs: impl IntoIterator<Item = Cost>) -> CostSum {
        let mut sum = CostSum::default();
        costs.into_iter().for_each(|cost| sum.add(&cost));
        sum
    }

    pub fn merge(&mut self, other: &CostSum) {
        self.min_pico_usd = self.min_pico_usd.saturating_add(other.min_pico_usd);
        self.max_pico_usd = self.max_pico_usd.saturating_add(other.max_pico_usd);
        self.priced += other.priced;
        self.unpriced += other.unpriced;
        self.open += other.open;
    }

    /// The rest of this sum without a part of it.
    pub fn without(&self, part: &CostSum) -> CostSum {
        CostSum {
            min_pico_usd: self.min_pico_usd.saturating_sub(part.min_pico_usd),
            max_pico_usd: self.max_pico_usd.saturating_sub(part.max_pico_usd),
            priced: self.priced.saturating_sub(part.priced),
            unpriced: self.unpriced.saturating_sub(part.unpriced),
            open: self.open.saturating_sub(part.open),
        }
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.min_pico_usd.to_le_bytes());
        bytes.extend_from_slice(&self.max_pico_usd.to_le_bytes());
        [self.priced, self.unpriced, self.open].into_iter().for_each(|count| put(bytes, count));
    }

    pub(super) fn decode(bytes: &mut ByteReader<'_>) -> Result<CostSum, ShortBytes> {
        let mut amount = || -> Result<i128, ShortBytes> { Ok(i128::from_le_bytes(*bytes.take_chunk()?)) };
        let (min_pico_usd, max_pico_usd) = (amount()?, amount()?);
        let (priced, unpriced, open) = (bytes.take()?, bytes.take()?, bytes.take()?);
        Ok(CostSum { min_pico_usd, max_pico_usd, priced, unpriced, open })
    }

    /// The bounds, to the billionth. No lower one: no attempt has a price. No upper one: nothing bounds one of the attempts.
    pub fn cost(&self) -> Cost {
        Cost { cost_usd_min: self.min_usd(), cost_usd_max: self.max_usd() }
    }

    /// Lower bound of the sum. None if no attempt has a price.
    pub fn min_usd(&self) -> Option<f64> {
        (self.unpriced == 0 || self.priced > 0).then(|| self.least_usd())
    }

    /// Upper bound of the sum. None if nothing bounds one of the attempts.
    pub fn max_usd(&self) -> Option<f64> {
        (self.unpriced + self.open == 0).then(|| self.bounded_usd())
    }

    /// Lower bound of the sum, to compare sums by.
    pub fn least(&self) -> i128 {
        self.min_pico_usd
    }

    /// The lower bounds; 0 where no attempt has a price.
    pub fn least_usd(&self) -> f64 {
        dollars(self.min_pico_usd)
    }

    /// The upper bounds, and the lower one of attempts that nothing bounds from above.
    pub fn bounded_usd(&self) -> f64 {
        dollars(self.max_pico_usd)
    }

    /// What lies between the bounds; of attempts without an upper one nothing.
    pub fn width(&self) -> i128 {
        self.max_pico_usd.saturating_sub(self.min_pico_usd)
    }

    /// Attempts without a price.
    pub fn unpriced(&self) -> u64 {
        self.unpriced
    }

    /// Attempts with a price and without an upper bound: their tokens were not counted.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Of no attempt.
    pub fn is_empty(&self) -> bool {
        self.priced + self.unpriced == 0
    }
}

impl fmt::Display for CostSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cost().fmt(f)
    }
}

/// A row may hold any number that a provider reported.
fn pico(usd: f64) -> i128 {
    (usd.clamp(0.0, COST_MAX) * PICO).round() as i128
}

fn dollars(pico: i128) -> f64 {
    (pico as f64 / 1e3).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNPRICED: Cost = Cost { cost_usd_min: None, cost_usd_max: None };

    fn sum(parts: &[Cost]) -> CostSum {
        CostSum::of(parts.iter().copied())
    }

    #[test]
    fn bounds_are_summed() {
        let summed = |parts: &[Cost]| {
            let sum = sum(parts);
            (sum.cost(), [sum.unpriced(), sum.open()])
        };
        let (exact, at_most) = (Cost::exactly(1.0), Cost::between(0.0, Some(4.0)));
        let (between, at_least) = (Cost::between(0.5, Some(2.0)), Cost::between(0.25, None));
        assert_eq!(summed(&[]), (Cost::ZERO, [0, 0]));
        assert_eq!(summed(&[exact, exact]), (Cost::exactly(2.0), [0, 0]));
        assert_eq!(summed(&[between, at_most]), (Cost::between(0.5, Some(6.0)), [0, 0]));
        assert_eq!(summed(&[exact, at_least]), (Cost::between(1.25, None), [0, 1]));
        assert_eq!(summed(&[Cost::between(0.0, None)]), (Cost::between(0.0, None), [0, 1]));
        assert_eq!(summed(&[UNPRICED]), (UNPRICED, [1, 0]));
        assert_eq!(summed(&[between, UNPRICED]), (Cost::between(0.5, None), [1, 0]));
        let rest = sum(&[exact, between, UNPRICED]).without(&sum(&[between, UNPRICED]));
        assert_eq!(rest, sum(&[exact]));
    }

    #[test]
    fn a_share_has_the_bounds_of_both() {
        let share = |part: Cost, rest: Cost| part.share_of_sum(&rest);
        assert_eq!(share(Cost::exactly(1.0), Cost::exactly(3.0)), Some((0.25, 0.25)));
        assert_eq!(share(Cost::between(0.0, Some(1.0)), Cost::exactly(3.0)), Some((0.0, 0.25)));
        assert_eq!(share(Cost::exactly(1.0), Cost::between(1.0, Some(3.0))), Some((0.25, 0.5)));
        assert_eq!(share(Cost::ZERO, Cost::ZERO), None, "a share of nothing");
        assert_eq!(share(Cost::between(1.0, None), Cost::exactly(3.0)), None);
        assert_eq!(share(UNPRICED, Cost::exactly(3.0)), None);
    }

    /// `tests/dashboard/parts.mjs` reads the same cases.
    #[test]
    fn an_amount_has_the_digits_that_it_can_bear() {
        let cases: Vec<(Option<f64>, Option<f64>, String)> =
            serde_json::from_str(include_str!("cost/texts.json")).unwrap();
        assert!(cases.len() > 30);
        for (cost_usd_min, cost_usd_max, text) in cases {
            assert_eq!(Cost { cost_usd_min, cost_usd_max }.to_string(), text, "{cost_usd_min:?} to {cost_usd_max:?}");
        }
    }

    #[test]
    fn what_no_attempt_can_cost_breaks_no_sum() {
        let mut sum = CostSum::default();
        for usd in [1e27, f64::INFINITY, 0.25, -7.0, f64::NAN, f64::MAX] {
            sum.add(&Cost::exactly(usd));
        }
        assert_eq!(sum.cost(), Cost::exactly(3_000_000.25));
        let mut damaged = CostSum { min_pico_usd: i128::MAX, ..sum };
        damaged.merge(&sum);
        damaged.add(&Cost::exactly(1.0));
        assert_eq!(damaged.min_pico_usd, i128::MAX);
        let mut crossed = CostSum::default();
        crossed.add(&Cost::between(2.0, Some(1.0)));
        assert_eq!(crossed.cost(), Cost::exactly(2.0), "an upper bound is no less than the lower");
    }
}
