//! A bounded sketch of the gaps between payload events: counts on a logarithmic grid, 16 steps per octave (error ≤ 3.2 %).

/// Steps in one octave, as a power of two.
const STEP_BITS: u32 = 4;
/// Octaves from 1 µs. Gaps above about 70 minutes share the last cell.
const OCTAVES: usize = 32;
const CELLS: usize = OCTAVES << STEP_BITS;

/// Uses 4 bytes for each cell up to the largest gap: at most 2 kB.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    counts: Vec<u32>,
    total: u64,
    max: i64,
}

impl Gaps {
    pub fn add(&mut self, gap_us: i64) {
        let gap_us = gap_us.max(0);
        let cell = cell(gap_us);
        if cell >= self.counts.len() {
            self.counts.resize(cell + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(cell) {
            *count = count.saturating_add(1);
        }
        self.total += 1;
        self.max = self.max.max(gap_us);
    }

    /// The largest gap, exact.
    pub fn max(&self) -> Option<i64> {
        (self.total > 0).then_some(self.max)
    }

    /// The quantile `q` of the gaps, as the middle of its step.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let rank = ((self.total as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (cell, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(middle(cell).min(self.max));
            }
        }
        None
    }
}

/// Values below 16 have their own cells; above, the four bits after the leading one choose the step.
fn cell(value: i64) -> usize {
    let value = value.unsigned_abs();
    if value < 1 << STEP_BITS {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    let step = (value >> (octave - STEP_BITS)) & ((1 << STEP_BITS) - 1);
    ((((octave - STEP_BITS + 1) as usize) << STEP_BITS) + step as usize).min(CELLS - 1)
}

fn middle(cell: usize) -> i64 {
    let (octave, step) = (cell >> STEP_BITS, cell & ((1 << STEP_BITS) - 1));
    if octave == 0 {
        return step as i64;
    }
    let width = 1i64 << (octave - 1);
    ((1 << STEP_BITS) + step as i64) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_within_its_step() {
        for value in (0..5_000).chain([10_000, 123_456, 9_999_999, 3_600_000_000]) {
            let middle = middle(cell(value));
            assert!((middle - value).abs() as f64 <= value as f64 * 0.032 + 0.5, "{value} became {middle}");
        }
    }

    #[test]
    fn quantiles_and_maximum() {
        let mut gaps = Gaps::default();
        assert_eq!((gaps.quantile(0.5), gaps.max()), (None, None));
        (1..=100).for_each(|gap| gaps.add(gap * 1_000));
        assert_eq!(gaps.max(), Some(100_000));
        let (p50, p99) = (gaps.quantile(0.5).unwrap(), gaps.quantile(0.99).unwrap());
        assert!((48_000..52_000).contains(&p50) && (96_000..=100_000).contains(&p99), "{p50} {p99}");
    }
}
