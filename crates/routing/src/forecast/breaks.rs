//! How often an upstream's answers break off after their first token: few samples are doubted, old ones are forgotten. Not a
//! breaker: the upstream still serves, and loses the lead where a break costs more than its lead is worth.

/// The prior: this number of answers, none of which broke off.
const DOUBT: f64 = 6.0;
/// Kept of what was seen at each answer.
const KEPT: f64 = 1.0 - 1.0 / 100.0;
/// Time constant of forgetting, µs. An upstream that breaks is hardly asked, and may have healed.
const FORGOTTEN_US: f64 = 600e6;

/// Decayed counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breaks {
    broken: f64,
    ended: f64,
    /// When they were counted, µs.
    at: i64,
}

impl Breaks {
    /// An answer with a first token ended, or broke off.
    pub fn ended(&mut self, broke: bool, now: i64) {
        let left = KEPT * self.left(now);
        self.broken = self.broken * left + f64::from(u8::from(broke));
        self.ended = self.ended * left + 1.0;
        self.at = self.at.max(now);
    }

    /// The chance that the next answer breaks off.
    pub fn chance(&self, now: i64) -> f64 {
        let left = self.left(now);
        self.broken * left / (self.ended * left + DOUBT)
    }

    fn left(&self, now: i64) -> f64 {
        (-(now.saturating_sub(self.at).max(0) as f64) / FORGOTTEN_US).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_breaks_are_doubted_many_are_believed_and_old_ones_forgotten() {
        let mut breaks = Breaks::default();
        assert!(breaks.chance(0) < 1e-9);
        breaks.ended(true, 0);
        assert!(breaks.chance(0) < 0.15, "one says little: {}", breaks.chance(0));
        (0..100).for_each(|answer| breaks.ended(answer % 4 == 0, 0));
        let chance = breaks.chance(0);
        assert!((0.2..0.3).contains(&chance), "{chance}");
        assert!(breaks.chance(3_600_000_000) < 0.01, "an hour later");
        assert!(breaks.chance(-1) <= chance, "a clock that goes back stops");
        (0..400).for_each(|_| breaks.ended(false, 0));
        assert!(breaks.chance(0) < 0.01, "it answers well again");
    }
}
