//! ln TTFT by prompt size: a straight line over ln(1 + uncached tokens / 2000), fitted by decayed sums. Not for changes within
//! minutes, which are the level.

/// The prior: 700 ms for an empty prompt, less what stragglers add to it.
const INTERCEPT: f64 = 13.308_835_924_4;
const SLOPE: f64 = 0.35;
const SLOPE_MOST: f64 = 1.3;
/// The same of a whole answer, as a logarithm more: 5 s.
const WHOLE: f64 = 1.966_112_856_4;
/// Weight of the prior, in observations.
const PRIOR: f64 = 4.0;
/// Variance of the prior's sizes.
const SPREAD: f64 = 0.25;
/// Kept of the sums at each observation.
const KEPT: f64 = 1.0 - 1.0 / 2000.0;
/// Tokens that double it.
const TOKENS: f64 = 2000.0;

/// The line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeLine {
    pub intercept: f64,
    pub slope: f64,
}

/// Decayed sums, the prior among them until it has decayed.
#[derive(Clone, Debug)]
pub struct Size {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl SizeLine {
    /// ln TTFT in µs for a prompt.
    pub fn at(&self, uncached_tokens: f64) -> f64 {
        self.intercept + self.slope * x(uncached_tokens)
    }
}

impl Size {
    pub fn new() -> Size {
        let (xx, xy) = (PRIOR * SPREAD, PRIOR * SPREAD * SLOPE);
        Size { weight: PRIOR, x: 0.0, y: PRIOR * INTERCEPT, xx, xy }
    }

    /// For the time to a whole answer.
    pub fn of_whole_answers() -> Size {
        Size { y: PRIOR * (INTERCEPT + WHOLE), ..Size::new() }
    }

    pub fn observe(&mut self, uncached_tokens: f64, ln_ttft: f64, weight: f64) {
        let x = x(uncached_tokens);
        for (sum, term) in [
            (&mut self.weight, 1.0),
            (&mut self.x, x),
            (&mut self.y, ln_ttft),
            (&mut self.xx, x * x),
            (&mut self.xy, x * ln_ttft),
        ] {
            *sum = *sum * (1.0 - (1.0 - KEPT) * weight) + weight * term;
        }
    }

    /// Keeps the line, and this share of the weight behind it, but no less than the prior's.
    pub fn fade(&mut self, left: f64) {
        let share = left.max(PRIOR / self.weight).min(1.0);
        for sum in [&mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= share;
        }
    }

    pub fn line(&self) -> SizeLine {
        let spread = self.weight * self.xx - self.x * self.x;
        let slope = if spread > 1e-9 { (self.weight * self.xy - self.x * self.y) / spread } else { SLOPE };
        let slope = slope.clamp(0.0, SLOPE_MOST);
        SizeLine { intercept: (self.y - slope * self.x) / self.weight, slope }
    }
}

fn x(uncached_tokens: f64) -> f64 {
    (uncached_tokens.max(0.0) / TOKENS).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_seen_is_the_prior() {
        let line = Size::new().line();
        assert!((line.intercept - (700_000_f64.ln() - 0.15)).abs() < 1e-6);
        assert!((line.slope - SLOPE).abs() < 1e-9);
    }

    #[test]
    fn both_ends_of_the_line_are_found() {
        let mut size = Size::new();
        let truth = SizeLine { intercept: 12.2, slope: 0.8 };
        for tokens in (0..400).map(|step| f64::from(step % 40) * 150.0) {
            size.observe(tokens, truth.at(tokens), 1.0);
        }
        let line = size.line();
        assert!((line.slope - truth.slope).abs() < 0.08 && (line.intercept - truth.intercept).abs() < 0.08, "{line:?}");
    }

    #[test]
    fn a_slope_stays_sensible() {
        let mut size = Size::new();
        for step in 0..200 {
            let tokens = f64::from(step % 10) * 500.0;
            size.observe(tokens, 13.0 - x(tokens), 1.0);
        }
        assert!(size.line().slope.abs() < 1e-9, "a longer prompt is never predicted to be quicker");
    }
}
