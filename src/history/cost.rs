//! Sums of costs that are exact, bounded or not known, and what such a sum is worth.
//!
//! Pure; what one attempt cost is decided where it ends.

use super::record::CostBasis;

/// A sum of what attempts cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostSum {
    usd: f64,
    /// How many attempts of each basis, in the order of [`CostBasis`].
    reported: usize,
    computed: usize,
    at_least: usize,
    at_most: usize,
    unknown: usize,
}

impl CostSum {
    /// `basis` is the stored name of a [`CostBasis`].
    pub fn add(&mut self, usd: Option<f64>, basis: &str) {
        let Some(usd) = usd else {
            self.unknown += 1;
            return;
        };
        self.usd += usd;
        let is = |known: CostBasis| basis == known.as_str();
        let counter = match () {
            () if is(CostBasis::Reported) => &mut self.reported,
            () if is(CostBasis::Computed) => &mut self.computed,
            () if is(CostBasis::AtLeast) => &mut self.at_least,
            () if is(CostBasis::AtMost) => &mut self.at_most,
            () => &mut self.unknown,
        };
        *counter += 1;
    }

    /// US dollars, to the billionth; none where attempts were made and none of their costs is known.
    pub fn usd(&self) -> Option<f64> {
        let known = self.reported + self.computed + self.at_least + self.at_most;
        (known > 0 || self.unknown == 0).then_some((self.usd * 1e9).round() / 1e9)
    }

    /// How far the sum can be trusted: an unknown part makes it a lower bound; lower and upper bounds together make it
    /// neither, which is `unknown`.
    pub fn basis(&self) -> CostBasis {
        match (self.usd(), self.at_least + self.unknown > 0, self.at_most > 0) {
            (None, ..) | (_, true, true) => CostBasis::Unknown,
            (_, true, false) => CostBasis::AtLeast,
            (_, false, true) => CostBasis::AtMost,
            _ if self.reported > 0 && self.computed == 0 => CostBasis::Reported,
            _ => CostBasis::Computed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_worth_as_much_as_its_weakest_part() {
        let sum = |parts: &[(Option<f64>, &str)]| {
            let mut sum = CostSum::default();
            parts.iter().for_each(|(usd, basis)| sum.add(*usd, basis));
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
}
