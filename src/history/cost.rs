//! Sums of costs that are exact, bounded or not known, and what such a sum is worth.
//!
//! Pure; what one attempt cost is decided where it ends.

use super::bytes::{Reader, Short, put};
use super::record::CostBasis;
use crate::protocol::usage::COST_MAX;

const PICO: f64 = 1e12;

/// A sum of what attempts cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostSum {
    /// Millionths of a millionth of a US dollar: whole numbers, so that the order of adding does not matter.
    pico_usd: i128,
    /// How many attempts of each basis, in the order of [`CostBasis::ALL`].
    attempts: [u64; CostBasis::ALL.len()],
}

impl CostSum {
    pub fn add(&mut self, usd: Option<f64>, basis: CostBasis) {
        let basis = if usd.is_some() { basis } else { CostBasis::Unknown };
        // Rows of the first edition may hold whatever a provider said.
        let usd = usd.unwrap_or_default().clamp(0.0, COST_MAX);
        self.pico_usd = self.pico_usd.saturating_add((usd * PICO).round() as i128);
        self.attempts[basis as usize] += 1;
    }

    pub fn merge(&mut self, other: &CostSum) {
        self.pico_usd = self.pico_usd.saturating_add(other.pico_usd);
        self.attempts.iter_mut().zip(other.attempts).for_each(|(sum, more)| *sum += more);
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.pico_usd.to_le_bytes());
        self.attempts.iter().for_each(|count| put(bytes, *count));
    }

    pub(super) fn decode(bytes: &mut Reader<'_>) -> Result<CostSum, Short> {
        let mut sum = CostSum { pico_usd: i128::from_le_bytes(*bytes.take_chunk()?), ..CostSum::default() };
        for count in &mut sum.attempts {
            *count = bytes.take()?;
        }
        Ok(sum)
    }

    /// US dollars, to the billionth; none where attempts were made and none of their costs is known.
    pub fn usd(&self) -> Option<f64> {
        let all: u64 = self.attempts.iter().sum();
        let unknown = self.count(CostBasis::Unknown);
        (all > unknown || unknown == 0).then_some((self.pico_usd as f64 / 1e3).round() / 1e9)
    }

    /// How far the sum can be trusted: an unknown part makes it a lower bound; lower and upper bounds together make it
    /// neither, which is `unknown`.
    pub fn basis(&self) -> CostBasis {
        let count = |basis| self.count(basis);
        let below = count(CostBasis::AtLeast) + count(CostBasis::Unknown) > 0;
        match (self.usd(), below, count(CostBasis::AtMost) > 0) {
            (None, ..) | (_, true, true) => CostBasis::Unknown,
            (_, true, false) => CostBasis::AtLeast,
            (_, false, true) => CostBasis::AtMost,
            _ if count(CostBasis::Reported) > 0 && count(CostBasis::Computed) == 0 => CostBasis::Reported,
            _ => CostBasis::Computed,
        }
    }

    fn count(&self, basis: CostBasis) -> u64 {
        self.attempts[basis as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_worth_as_much_as_its_weakest_part() {
        let sum = |parts: &[(Option<f64>, &str)]| {
            let mut sum = CostSum::default();
            parts.iter().for_each(|(usd, basis)| sum.add(*usd, CostBasis::from_name(basis).unwrap()));
            (sum.usd(), sum.basis())
        };
        assert_eq!(sum(&[]), (Some(0.0), CostBasis::Computed));
        assert_eq!(sum(&[(None, "unknown")]), (None, CostBasis::Unknown));
        assert_eq!(sum(&[(Some(1.0), "reported"), (Some(2.0), "reported")]), (Some(3.0), CostBasis::Reported));
        assert_eq!(sum(&[(Some(1.0), "reported"), (Some(2.0), "computed")]), (Some(3.0), CostBasis::Computed));
        assert_eq!(sum(&[(Some(1.0), "computed"), (Some(0.0), "at_least")]), (Some(1.0), CostBasis::AtLeast));
        assert_eq!(sum(&[(Some(1.0), "computed"), (None, "unknown")]), (Some(1.0), CostBasis::AtLeast));
        assert_eq!(sum(&[(Some(1.0), "at_most"), (Some(1.0), "computed")]), (Some(2.0), CostBasis::AtMost));
        assert_eq!(sum(&[(Some(1.0), "at_most"), (Some(1.0), "at_least")]), (Some(2.0), CostBasis::Unknown));
    }

    #[test]
    fn what_no_attempt_can_cost_breaks_no_sum() {
        let mut sum = CostSum::default();
        for usd in [1e27, f64::INFINITY, 0.25, -7.0, f64::NAN, f64::MAX] {
            sum.add(Some(usd), CostBasis::Reported);
        }
        assert_eq!(sum.usd(), Some(3_000_000.25));
        let mut damaged = CostSum { pico_usd: i128::MAX, ..sum };
        damaged.merge(&sum);
        damaged.add(Some(1.0), CostBasis::Reported);
        assert_eq!(damaged.pico_usd, i128::MAX);
    }
}
