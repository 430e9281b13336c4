//! Costs of attempts, exact or between bounds, and their sums.
//!
//! Pure. Not for pricing one attempt: that is `routing::bill`.

use super::grid::{ByteReader, ShortBytes, put};
use crate::record::table::subset;
use crate::record::tables::AttemptRecord;
use photofinish_config::config::names::names;
use photofinish_wire::answer::usage::COST_MAX;

const PICO: f64 = 1e12;

names! {
    /// How exact a cost is.
    #[derive(Hash)]
    pub enum CostBasis {
        Computed = "computed",
        AtLeast = "at_least",
        AtMost = "at_most",
        Unknown = "unknown",
    }
}

subset! {
    /// The cost of one attempt in US dollars.
    #[derive(Copy, PartialEq)]
    pub Cost of AttemptRecord {
        /// None: its upstream has no price.
        cost_usd_min: Option<f64>,
        /// None: nothing bounds the cost from above.
        cost_usd_max: Option<f64>,
    }
}

impl Cost {
    pub fn is_exact(&self) -> bool {
        self.basis() == CostBasis::Computed
    }

    fn basis(&self) -> CostBasis {
        match (self.cost_usd_min, self.cost_usd_max) {
            (min @ Some(_), max) if min == max => CostBasis::Computed,
            (Some(min), _) if min > 0.0 => CostBasis::AtLeast,
            (Some(_), Some(_)) => CostBasis::AtMost,
            _ => CostBasis::Unknown,
        }
    }
}

/// The sum of the costs of some attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostSum {
    /// Picodollars: whole numbers, so that the order of adding does not matter.
    min_pico_usd: i128,
    /// Upper bounds of all attempts that have one.
    max_pico_usd: i128,
    /// Attempts by basis, in the order of [`CostBasis::ALL`].
    attempts: [u64; CostBasis::ALL.len()],
    /// Attempts without a lower bound: they have no price.
    unpriced: u64,
    /// Attempts with a lower bound and no upper one.
    open: u64,
}

impl CostSum {
    pub fn add(&mut self, cost: &Cost) {
        let (min, max) = (cost.cost_usd_min, cost.cost_usd_max);
        self.min_pico_usd = self.min_pico_usd.saturating_add(pico(min));
        self.max_pico_usd = self.max_pico_usd.saturating_add(pico(max));
        self.attempts[cost.basis() as usize] += 1;
        match (min, max) {
            (None, _) => self.unpriced += 1,
            (Some(_), None) => self.open += 1,
            (Some(_), Some(_)) => {}
        }
    }

    pub fn merge(&mut self, other: &CostSum) {
        self.min_pico_usd = self.min_pico_usd.saturating_add(other.min_pico_usd);
        self.max_pico_usd = self.max_pico_usd.saturating_add(other.max_pico_usd);
        self.attempts.iter_mut().zip(other.attempts).for_each(|(sum, more)| *sum += more);
        self.unpriced += other.unpriced;
        self.open += other.open;
    }

    /// The rest of this sum without a part of it.
    pub fn without(&self, part: &CostSum) -> CostSum {
        let mut rest = *self;
        rest.min_pico_usd = rest.min_pico_usd.saturating_sub(part.min_pico_usd);
        rest.max_pico_usd = rest.max_pico_usd.saturating_sub(part.max_pico_usd);
        rest.attempts.iter_mut().zip(part.attempts).for_each(|(all, of_part)| *all = all.saturating_sub(of_part));
        rest.unpriced = rest.unpriced.saturating_sub(part.unpriced);
        rest.open = rest.open.saturating_sub(part.open);
        rest
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.min_pico_usd.to_le_bytes());
        bytes.extend_from_slice(&self.max_pico_usd.to_le_bytes());
        self.attempts.iter().for_each(|count| put(bytes, *count));
        put(bytes, self.unpriced);
        put(bytes, self.open);
    }

    pub(super) fn decode(bytes: &mut ByteReader<'_>) -> Result<CostSum, ShortBytes> {
        let mut amount = || -> Result<i128, ShortBytes> { Ok(i128::from_le_bytes(*bytes.take_chunk()?)) };
        let (min_pico_usd, max_pico_usd) = (amount()?, amount()?);
        let mut sum = CostSum { min_pico_usd, max_pico_usd, ..CostSum::default() };
        for count in &mut sum.attempts {
            *count = bytes.take()?;
        }
        (sum.unpriced, sum.open) = (bytes.take()?, bytes.take()?);
        Ok(sum)
    }

    /// US dollars, to the billionth: the exact sum, or else the lower bound if it is above 0, or else the upper bound.
    /// None if nothing is known about the cost of any attempt.
    pub fn usd(&self) -> Option<f64> {
        match (self.basis(), self.is_known()) {
            (CostBasis::AtMost, _) => Some(dollars(self.max_pico_usd)),
            (CostBasis::Unknown, _) | (_, false) => None,
            _ => Some(dollars(self.min_pico_usd)),
        }
    }

    /// Lower bound of the sum, to compare sums by.
    pub fn least(&self) -> i128 {
        self.min_pico_usd
    }

    /// Lower bound of the sum. None if no attempt has a price.
    pub fn min_usd(&self) -> Option<f64> {
        (self.unpriced == 0 || self.unpriced < self.all()).then(|| dollars(self.min_pico_usd))
    }

    /// Upper bound of the sum. None if nothing bounds one of the attempts.
    pub fn max_usd(&self) -> Option<f64> {
        (self.unpriced + self.open == 0).then(|| dollars(self.max_pico_usd))
    }

    /// How exact [`CostSum::usd`] is.
    pub fn basis(&self) -> CostBasis {
        match self.max_usd() {
            Some(_) if self.min_pico_usd == self.max_pico_usd => CostBasis::Computed,
            Some(_) if self.min_pico_usd == 0 => CostBasis::AtMost,
            None if !self.is_known() => CostBasis::Unknown,
            _ => CostBasis::AtLeast,
        }
    }

    /// Attempts without a price.
    pub fn unpriced(&self) -> u64 {
        self.unpriced
    }

    /// Attempts without a known amount, which may have bounds.
    pub fn unknown(&self) -> u64 {
        self.count(CostBasis::Unknown)
    }

    /// Attempts with a price and without an upper bound: their tokens were not counted.
    pub fn uncounted(&self) -> u64 {
        self.open
    }

    /// Some attempt has a cost, perhaps 0.
    fn is_known(&self) -> bool {
        self.all() == 0 || self.min_pico_usd > 0 || self.count(CostBasis::Unknown) < self.all()
    }

    /// Of no attempt.
    pub(super) fn is_empty(&self) -> bool {
        self.all() == 0
    }

    fn all(&self) -> u64 {
        self.attempts.iter().sum()
    }

    fn count(&self, basis: CostBasis) -> u64 {
        self.attempts[basis as usize]
    }
}

/// A damaged row may hold any number.
fn pico(usd: Option<f64>) -> i128 {
    (usd.unwrap_or_default().clamp(0.0, COST_MAX) * PICO).round() as i128
}

fn dollars(pico: i128) -> f64 {
    (pico as f64 / 1e3).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(parts: &[(Option<f64>, Option<f64>)]) -> CostSum {
        let mut sum = CostSum::default();
        parts.iter().for_each(|(cost_usd_min, cost_usd_max)| {
            sum.add(&Cost { cost_usd_min: *cost_usd_min, cost_usd_max: *cost_usd_max });
        });
        sum
    }

    #[test]
    fn bounds_are_summed() {
        let summed = |parts: &[_]| {
            let sum = sum(parts);
            (sum.usd(), sum.basis(), sum.min_usd(), sum.max_usd(), [sum.unpriced(), sum.uncounted()])
        };
        let exact = (Some(1.0), Some(1.0));
        let between = (Some(0.5), Some(2.0));
        let at_most = (Some(0.0), Some(4.0));
        let at_least = (Some(0.25), None);
        let uncounted = (Some(0.0), None);
        let unpriced = (None, None);
        use CostBasis::{AtLeast, AtMost, Computed, Unknown};
        assert_eq!(summed(&[]), (Some(0.0), Computed, Some(0.0), Some(0.0), [0, 0]));
        assert_eq!(summed(&[exact, exact]), (Some(2.0), Computed, Some(2.0), Some(2.0), [0, 0]));
        assert_eq!(summed(&[between, at_most]), (Some(0.5), AtLeast, Some(0.5), Some(6.0), [0, 0]));
        assert_eq!(summed(&[at_most, at_most]), (Some(8.0), AtMost, Some(0.0), Some(8.0), [0, 0]));
        assert_eq!(summed(&[exact, at_most]), (Some(1.0), AtLeast, Some(1.0), Some(5.0), [0, 0]));
        assert_eq!(summed(&[exact, at_least]), (Some(1.25), AtLeast, Some(1.25), None, [0, 1]));
        assert_eq!(summed(&[uncounted]), (None, Unknown, Some(0.0), None, [0, 1]));
        assert_eq!(summed(&[unpriced]), (None, Unknown, None, None, [1, 0]));
        assert_eq!(summed(&[between, unpriced]), (Some(0.5), AtLeast, Some(0.5), None, [1, 0]));
    }

    #[test]
    fn what_no_attempt_can_cost_breaks_no_sum() {
        let reported = |usd| Cost { cost_usd_min: Some(usd), cost_usd_max: Some(usd) };
        let mut sum = CostSum::default();
        for usd in [1e27, f64::INFINITY, 0.25, -7.0, f64::NAN, f64::MAX] {
            sum.add(&reported(usd));
        }
        assert_eq!(sum.usd(), Some(3_000_000.25));
        let mut damaged = CostSum { min_pico_usd: i128::MAX, ..sum };
        damaged.merge(&sum);
        damaged.add(&reported(1.0));
        assert_eq!(damaged.min_pico_usd, i128::MAX);
    }
}
