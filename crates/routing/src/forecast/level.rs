//! The present slowdown of an upstream against its usual speed: a Kalman filter of two Ornstein–Uhlenbeck processes on ln TTFT, one
//! that passes within minutes and one within hours, and a detector of jumps that widens the first. Not for lasting differences,
//! which are in `size` and `load`.

/// Time constant of the passing part, µs.
const FADES_US: f64 = 120e6;
/// A jump up may be two stragglers: after the first one what passes fades within such times, µs, and within twice as long for
/// each observation that confirms it. No race asks an upstream that jumped, so otherwise it would be left out for minutes.
const DOUBTED_US: f64 = 30e6;
const DOUBTS: u8 = 5;
/// What stays for hours, such as the time of the day.
const STAYS_US: f64 = 7200e6;
/// Variance of either for an upstream of which nothing is known.
const STATIONARY: f64 = 0.07;
const STATIONARY_SLOW: f64 = 0.1;
/// After a jump: hardly anything is known.
const JUMPED: f64 = 0.5;
/// Surprises of the same sign, one after the other, that make a jump: `RUN` of them over `APART_US` at least, or `SURE`. Jumps come by
/// the hour and stragglers by the request, so among many requests two stragglers mean less.
const RUN: i8 = 2;
const APART_US: i64 = 400_000;
const SURE: i8 = 4;
/// Deviations beyond which an observation is a surprise.
const SURPRISE: f64 = 2.0;
/// Of the deviations, or of e in a run, that one observation counts for at most.
pub const CLAMP: f64 = 2.5;
/// Twice as quick as usual, as a logarithm: so much is no scatter. Mostly what is usual is not known yet.
const QUICKER: f64 = std::f64::consts::LN_2;
/// Below this weight it is no evidence of a jump.
const WEIGHT_LEAST: f64 = 0.5;

/// State of the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Logarithms, valid at `at`.
    fast: f64,
    slow: f64,
    /// Variances of the two, and what they share.
    fast_variance: f64,
    slow_variance: f64,
    covariance: f64,
    /// Surprises in a row, with their sign.
    run: i8,
    /// When its first surprise and its latest came, µs.
    run_since: i64,
    run_until: i64,
    /// Observations that a jump up rests on; none as usual.
    confirmed: u8,
    /// Time of the latest observation, µs.
    at: i64,
}

/// Both parts after some time.
struct DecayFactors {
    fast: f64,
    slow: f64,
}

impl Level {
    pub fn new() -> Level {
        Level {
            fast: 0.0,
            slow: 0.0,
            fast_variance: STATIONARY,
            slow_variance: STATIONARY_SLOW,
            covariance: 0.0,
            run: 0,
            run_since: 0,
            run_until: 0,
            confirmed: 0,
            at: 0,
        }
    }

    /// The level as it is expected to be now.
    pub fn now(&self, now: i64) -> f64 {
        let left = self.left(now);
        self.fast * left.fast + self.slow * left.slow
    }

    /// The part of it that stays for hours.
    pub fn lasting(&self, now: i64) -> f64 {
        self.slow * self.left(now).slow
    }

    /// How much quicker than usual it is for some minutes, beyond [`QUICKER`]: 0 or less.
    pub fn quicker(&self, now: i64) -> f64 {
        (self.fast * self.left(now).fast + QUICKER).min(0.0)
    }

    /// The part of it that passes within minutes, at the latest observation.
    pub fn passing(&self) -> f64 {
        self.fast
    }

    /// The latest observations, [`SURE`] at least, were all surprisingly slow.
    pub fn is_surely_up(&self) -> bool {
        self.run >= SURE
    }

    /// Takes in a surprise (ln TTFT less its prediction, this level included) of this weight, where the scatter has `variance`.
    /// Says how much of it was taken for real.
    pub fn observe(&mut self, surprise: f64, weight: f64, variance: f64, now: i64) -> f64 {
        self.pass(now);
        let deviation = variance.sqrt();
        // Slow ones come by chance, and quick ones do not: one answer as usual ends a jump up.
        let most = SURPRISE * deviation;
        if weight > WEIGHT_LEAST && self.fast > most && surprise < -most && self.fast + surprise < most {
            (self.fast, self.fast_variance) = (0.0, STATIONARY);
            (self.run, self.confirmed) = (0, 0);
            return surprise;
        }
        if weight > WEIGHT_LEAST {
            self.count(surprise, deviation, now);
        }
        let jumps = self.jumps();
        let most = if jumps { CLAMP } else { CLAMP * deviation };
        let taken = surprise.clamp(-most, most);
        let (fast, slow) = (self.fast_variance + self.covariance, self.slow_variance + self.covariance);
        let total = fast + slow + variance / weight;
        // A jump does not belong to the part that stays for hours.
        let slow = if jumps { 0.0 } else { slow };
        let (fast_gain, slow_gain) = (fast / total, slow / total);
        self.fast += fast_gain * taken;
        self.slow += slow_gain * taken;
        self.fast_variance -= fast_gain * fast;
        self.slow_variance -= slow_gain * slow;
        self.covariance -= fast_gain * slow;
        taken
    }

    /// Lets time go by.
    fn pass(&mut self, now: i64) {
        let left = self.left(now);
        self.fast *= left.fast;
        self.slow *= left.slow;
        let passed = |variance: f64, left: f64, stationary: f64| left * left * (variance - stationary) + stationary;
        self.fast_variance = passed(self.fast_variance, left.fast, STATIONARY);
        self.slow_variance = passed(self.slow_variance, left.slow, STATIONARY_SLOW);
        self.covariance *= left.fast * left.slow;
        self.at = self.at.max(now);
    }

    fn count(&mut self, surprise: f64, deviation: f64, now: i64) {
        if surprise.abs() <= SURPRISE * deviation {
            (self.run, self.confirmed) = (0, 0);
            return;
        }
        let sign: i8 = if surprise > 0.0 { 1 } else { -1 };
        if self.run.signum() != sign {
            (self.run, self.run_since) = (0, now);
        }
        self.run = (self.run + sign).clamp(-SURE, SURE);
        self.run_until = now;
        if self.jumps() {
            self.fast_variance = self.fast_variance.max(JUMPED);
            self.confirmed = if sign > 0 { (self.confirmed + 1).min(DOUBTS) } else { 0 };
        }
    }

    /// The present observations belong to a jump.
    pub fn jumps(&self) -> bool {
        self.run.abs() >= SURE || self.run.abs() >= RUN && self.run_until - self.run_since >= APART_US
    }

    fn left(&self, now: i64) -> DecayFactors {
        let passed_us = (now - self.at).max(0) as f64;
        let fades_us = match self.confirmed {
            0 => FADES_US,
            confirmed => (DOUBTED_US * f64::from(1_u32 << (confirmed - 1))).min(FADES_US),
        };
        DecayFactors { fast: (-passed_us / fades_us).exp(), slow: (-passed_us / STAYS_US).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const VARIANCE: f64 = 0.09;

    /// Observes what an upstream that is slower by `truth` shows, a second apart.
    fn observed(level: &mut Level, truth: f64, times: i64, from: i64) {
        for second in 0..times {
            let now = (from + second) * SECOND;
            let surprise = truth - level.now(now);
            level.observe(surprise, 1.0, VARIANCE, now);
        }
    }

    #[test]
    fn a_shift_is_found_and_forgotten() {
        let mut level = Level::new();
        observed(&mut level, 0.4, 60, 0);
        assert!((level.now(60 * SECOND) - 0.4).abs() < 0.06, "{level:?}");
        assert!(level.now(360 * SECOND) < 0.65 * level.now(60 * SECOND), "most of it passes within minutes");
        assert!(level.now(24 * 3600 * SECOND).abs() < 1e-3, "an unused one is as usual again");
    }

    #[test]
    fn one_straggler_moves_little_and_two_are_a_jump() {
        let mut level = Level::new();
        observed(&mut level, 0.0, 60, 0);
        let mut once = level;
        observed(&mut once, 1.6, 1, 60);
        assert!(once.now(60 * SECOND) < 0.3, "{once:?}");
        observed(&mut once, 1.6, 1, 61);
        assert!(once.now(61 * SECOND) > 1.2, "{once:?}");
        let mut apart = level;
        observed(&mut apart, 1.6, 1, 60);
        observed(&mut apart, 0.0, 1, 61);
        observed(&mut apart, 1.6, 1, 62);
        assert!(apart.now(62 * SECOND) < 0.4, "two that do not follow each other are none: {apart:?}");
    }

    #[test]
    fn one_answer_as_usual_ends_a_jump_up_and_one_that_is_only_quicker_does_not() {
        let mut jumped = Level::new();
        observed(&mut jumped, 0.0, 60, 0);
        observed(&mut jumped, 2.0, 6, 60);
        let (mut well, mut quicker) = (jumped, jumped);
        observed(&mut well, 0.1, 1, 66);
        assert!(well.now(66 * SECOND).abs() < 0.1, "{well:?}");
        observed(&mut quicker, 1.2, 1, 66);
        assert!(quicker.now(66 * SECOND) > 1.2, "{quicker:?}");
    }

    #[test]
    fn what_tells_little_is_no_jump() {
        let mut level = Level::new();
        for second in 0..3 {
            level.observe(2.0, 0.1, VARIANCE, second * SECOND);
        }
        assert!(level.run == 0 && level.now(3 * SECOND) < 0.4, "{level:?}");
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut level = Level::new();
        level.observe(0.5, 1.0, VARIANCE, 10 * SECOND);
        assert_eq!(level.now(0), level.now(10 * SECOND));
    }
}
