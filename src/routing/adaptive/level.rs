//! How much slower than its usual an upstream is just now: a Kalman filter of an Ornstein–Uhlenbeck process on the logarithm
//! of TTFT, and a detector of jumps that opens it. Not for lasting differences: those are in `size` and `load`.

/// An unused upstream's level fades to 0 within such times, µs.
const FADES_US: f64 = 120e6;
/// Variance of the level of an upstream of which nothing is known.
const STATIONARY: f64 = 0.07;
/// After a jump: hardly anything is known.
const JUMPED: f64 = 0.5;
/// Surprises of the same sign, one after the other, that make a jump.
const RUN: i8 = 2;
/// Beyond so many deviations it is a surprise.
const SURPRISE: f64 = 2.0;
/// Of the deviations, or of e in a run, that one observation counts for at most.
const CLAMP: f64 = 2.5;
/// Below this weight it is no evidence of a jump.
const TELLING: f64 = 0.5;

/// State of the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The level, as a logarithm, at `at`.
    delta: f64,
    /// Variance of it.
    variance: f64,
    /// Surprises in a row, with their sign.
    run: i8,
    /// When it was last told something, µs.
    at: i64,
}

impl Level {
    pub fn new() -> Level {
        Level { delta: 0.0, variance: STATIONARY, run: 0, at: 0 }
    }

    /// The level as it is expected to be now.
    pub fn now(&self, now: i64) -> f64 {
        self.delta * self.faded(now)
    }

    /// Takes in a surprise (ln TTFT less its prediction, this level included) of this weight, where the scatter has `variance`.
    /// Says how much of it was taken for real.
    pub fn observe(&mut self, surprise: f64, weight: f64, variance: f64, now: i64) -> f64 {
        let faded = self.faded(now);
        self.delta *= faded;
        self.variance = faded * faded * self.variance + (1.0 - faded * faded) * STATIONARY;
        self.at = self.at.max(now);
        let deviation = variance.sqrt();
        if weight > TELLING {
            self.count(surprise, deviation);
        }
        let running = self.run.abs() >= RUN;
        let most = if running { CLAMP } else { CLAMP * deviation };
        let taken = surprise.clamp(-most, most);
        let gain = self.variance / (self.variance + variance / weight);
        self.delta += gain * taken;
        self.variance *= 1.0 - gain;
        taken
    }

    fn count(&mut self, surprise: f64, deviation: f64) {
        if surprise.abs() <= SURPRISE * deviation {
            self.run = 0;
            return;
        }
        let sign: i8 = if surprise > 0.0 { 1 } else { -1 };
        self.run = if self.run.signum() == -sign { sign } else { (self.run + sign).clamp(-RUN, RUN) };
        if self.run.abs() >= RUN {
            self.variance = self.variance.max(JUMPED);
        }
    }

    fn faded(&self, now: i64) -> f64 {
        (-((now - self.at).max(0) as f64) / FADES_US).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const VARIANCE: f64 = 0.09;

    /// Tells what an upstream that is slower by `truth` shows, a second apart.
    fn told(level: &mut Level, truth: f64, times: i64, from: i64) {
        for second in 0..times {
            let now = (from + second) * SECOND;
            let surprise = truth - level.now(now);
            level.observe(surprise, 1.0, VARIANCE, now);
        }
    }

    #[test]
    fn a_shift_is_found_and_forgotten() {
        let mut level = Level::new();
        told(&mut level, 0.4, 60, 0);
        assert!((level.now(60 * SECOND) - 0.4).abs() < 0.06, "{level:?}");
        assert!((level.now(180 * SECOND) / level.now(60 * SECOND) - (-1.0_f64).exp()).abs() < 0.01);
        assert!(level.now(3600 * SECOND).abs() < 1e-9, "an unused one is as usual again");
    }

    #[test]
    fn one_straggler_moves_little_and_two_are_a_jump() {
        let mut level = Level::new();
        told(&mut level, 0.0, 60, 0);
        let mut once = level;
        told(&mut once, 1.6, 1, 60);
        assert!(once.now(60 * SECOND) < 0.3, "{once:?}");
        told(&mut once, 1.6, 1, 61);
        assert!(once.now(61 * SECOND) > 1.2, "{once:?}");
        let mut apart = level;
        told(&mut apart, 1.6, 1, 60);
        told(&mut apart, 0.0, 1, 61);
        told(&mut apart, 1.6, 1, 62);
        assert!(apart.now(62 * SECOND) < 0.4, "two that do not follow each other are none: {apart:?}");
    }

    #[test]
    fn what_tells_little_is_no_jump() {
        let mut level = Level::new();
        for second in 0..3 {
            level.observe(2.0, 0.1, VARIANCE, second * SECOND);
        }
        assert!(level.now(3 * SECOND) < 0.3, "{level:?}");
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut level = Level::new();
        level.observe(0.5, 1.0, VARIANCE, 10 * SECOND);
        assert_eq!(level.now(0), level.now(10 * SECOND));
    }
}
