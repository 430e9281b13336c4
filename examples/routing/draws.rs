//! Random numbers that depend only on a seed and on their purpose.

use std::f64::consts::TAU;

/// A separate stream of draws for each purpose.
pub fn stream(seed: u64, purpose: u64, number: u64) -> fastrand::Rng {
    let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.rotate_left(32) ^ number;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
    }
    fastrand::Rng::with_seed(mixed)
}

/// One draw of the standard normal distribution.
pub fn normal(draws: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (TAU * draws.f64()).cos()
}

/// Time until the next event, with mean `mean`.
pub fn exponential(draws: &mut fastrand::Rng, mean: f64) -> f64 {
    -mean * (1.0 - draws.f64()).ln()
}
