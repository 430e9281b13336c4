//! The tails of the normal distribution. Not for quantiles.

/// The probability of a value at least as far from zero as `z`.
pub fn two_sided(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The complementary error function for `x` ≥ 0. The relative error is below 1.2e-7 everywhere, so far tails are right
/// too: a Chebyshev fit (Press et al., Numerical Recipes, 2nd ed. 1992, section 6.2).
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let fitted = FIT.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    t * (fitted - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_c_library() {
        for (x, expected) in [
            (0.0, 1.0),
            (0.1, 0.8875370839817152),
            (0.5, 0.4795001221869535),
            (1.0, 0.15729920705028513),
            (2.0, 0.004677734981047265),
            (3.0, 2.2090496998585438e-05),
            (5.0, 1.5374597944280351e-12),
        ] {
            assert!((erfc(x) / expected - 1.0).abs() < 1.2e-7, "erfc({x}) = {}", erfc(x));
        }
        assert!((two_sided(-1.959964) - 0.05).abs() < 1e-7);
    }
}
