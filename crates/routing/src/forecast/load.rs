//! The effect of our own load on an upstream: a slope over ln(1 + attempts in flight), found by a slow gradient, for TTFT and TPOT.
//! Not for the load of others, which is the level.

/// Share of the remaining error, per observation.
const RATE: f64 = 0.03;
const SLOPE_MOST: f64 = 1.5;
/// Share of the distance to the mean load, per observation.
const MEAN_RATE: f64 = 0.02;
/// Added to the load's square, so that hardly any load teaches hardly anything.
const RIDGE: f64 = 0.25;

/// The slope, and the load around which it turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadSlope {
    slope: f64,
    /// Mean of ln(1 + in flight).
    mean: f64,
}

impl LoadSlope {
    /// Effect of this load on the logarithm of the time.
    pub fn effect(&self, in_flight: u32) -> f64 {
        self.slope * (load(in_flight) - self.mean)
    }

    /// The time that all other attempts there lose together while one more runs, as a share of the time of that one.
    pub fn burden(&self, in_flight: u32) -> f64 {
        let others = f64::from(in_flight);
        self.slope * others / (1.0 + others)
    }

    /// `error`: logarithm of the time less its prediction, this effect included.
    pub fn observe(&mut self, in_flight: u32, error: f64, weight: f64) {
        let off = load(in_flight) - self.mean;
        self.slope = (self.slope + weight * RATE * error * off / (RIDGE + off * off)).clamp(0.0, SLOPE_MOST);
        self.mean += MEAN_RATE * off;
    }

    pub fn slope(&self) -> f64 {
        self.slope
    }
}

fn load(in_flight: u32) -> f64 {
    f64::from(in_flight).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_found() {
        let mut known = LoadSlope::default();
        let mean = (0..16).map(load).sum::<f64>() / 16.0;
        for step in 0..2000_u32 {
            let in_flight = step * 7 % 16;
            let error = 0.6 * (load(in_flight) - mean) - known.effect(in_flight);
            known.observe(in_flight, error, 1.0);
        }
        assert!((known.slope() - 0.6).abs() < 0.05, "{known:?}");
    }

    #[test]
    fn load_never_helps_and_never_explains_everything() {
        let mut known = LoadSlope::default();
        for step in 0..500 {
            known.observe(step % 8, 1.0 - load(step % 8), 1.0);
        }
        assert!(known.slope() < 0.05, "{known:?}");
        for step in 0..500 {
            known.observe(step % 8, f64::from(step % 8) * 9.0 - 30.0, 1.0);
        }
        assert!(known.slope() <= SLOPE_MOST);
    }
}
