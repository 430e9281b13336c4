//! The time between two tokens of an upstream's answers: mean and variance of its logarithm, and the effect of our own load. Not for
//! TTFT, which is prefill and queue.

use super::load::LoadSlope;

/// Share that an answer of many tokens moves the mean by.
const RATE: f64 = 0.1;
/// Tokens of which an answer counts half.
const HALF_TOKENS: f64 = 16.0;
/// Variance before anything is known of it.
const VARIANCE: f64 = 0.04;

/// Decayed moments; no mean before the first answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tpot {
    /// Mean of ln TPOT in µs.
    mean: Option<f64>,
    /// Of ln TPOT around its prediction, less [`VARIANCE`].
    variance: f64,
    load: LoadSlope,
}

impl Tpot {
    /// Of answers that come in one piece.
    pub fn of_whole_answers() -> Tpot {
        Tpot { mean: Some(f64::NEG_INFINITY), ..Tpot::default() }
    }

    pub fn observe(&mut self, tpot_us: f64, tokens: i64, in_flight: u32) {
        if !(tpot_us.is_finite() && tpot_us > 0.0) || tokens < 1 {
            return;
        }
        let seen = tpot_us.ln();
        let weight = tokens as f64 / (tokens as f64 + HALF_TOKENS);
        let Some(mean) = self.mean else {
            self.mean = Some(seen);
            return;
        };
        let error = seen - mean - self.load.effect(in_flight);
        self.load.observe(in_flight, error.clamp(-1.0, 1.0), weight);
        let rate = RATE * weight;
        self.mean = Some(mean + rate * error.clamp(-1.0, 1.0));
        self.variance += rate * ((error * error).min(1.0) - VARIANCE - self.variance);
    }

    /// Usual time between two tokens at this load, µs.
    pub fn usual_us(&self, in_flight: u32) -> Option<f64> {
        self.mean.map(|mean| (mean + self.load.effect(in_flight)).exp())
    }

    /// Probability that an answer keeps within `limit_us`; a half before anything is known.
    pub fn within(&self, limit_us: f64, in_flight: u32) -> f64 {
        let Some(mean) = self.mean else { return 0.5 };
        let deviation = (self.variance + VARIANCE).max(1e-4).sqrt();
        let off = (limit_us.max(1.0).ln() - mean - self.load.effect(in_flight)) / deviation;
        1.0 / (1.0 + (-1.702 * off).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_chance_follow_what_was_seen() {
        let mut tpot = Tpot::default();
        assert_eq!((tpot.usual_us(0), tpot.within(1.0, 0)), (None, 0.5));
        for step in 0..300 {
            tpot.observe(if step % 2 == 0 { 18_000.0 } else { 22_000.0 }, 200, 0);
        }
        let usual = tpot.usual_us(0).unwrap();
        assert!((usual / 19_900.0 - 1.0).abs() < 0.02, "{usual}");
        assert!((tpot.within(usual, 0) - 0.5).abs() < 1e-6);
        assert!(tpot.within(25_000.0, 0) > 0.95 && tpot.within(16_000.0, 0) < 0.05, "{tpot:?}");
    }

    #[test]
    fn a_long_answer_tells_more_than_a_short_one() {
        let moved = |tokens| {
            let mut tpot = Tpot::default();
            tpot.observe(20_000.0, 100, 0);
            tpot.observe(40_000.0, tokens, 0);
            tpot.usual_us(0).unwrap()
        };
        assert!(moved(500) > moved(4) && moved(4) > 20_000.0);
        let mut tpot = Tpot::default();
        tpot.observe(f64::NAN, 100, 0);
        tpot.observe(0.0, 100, 0);
        assert_eq!(tpot, Tpot::default(), "what is no time is left out");
    }

    #[test]
    fn load_slows_it() {
        let mut tpot = Tpot::default();
        for step in 0..3000_u32 {
            let in_flight = step * 5 % 12;
            tpot.observe(10_000.0 * f64::from(1 + in_flight).powf(0.4), 300, in_flight);
        }
        let (idle, busy) = (tpot.usual_us(0).unwrap(), tpot.usual_us(11).unwrap());
        assert!((busy / idle / 12_f64.powf(0.4) - 1.0).abs() < 0.15, "{idle} {busy}");
    }
}
