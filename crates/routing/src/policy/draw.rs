//! The draw of a look: which upstream of a model a request looks at. Not for its probabilities, nor for what starts: see `look`.

/// What a request that may look brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookTicket {
    /// All of the model, those that cannot start included: the candidates come first.
    pub upstreams: usize,
    /// Uniform in 0..1.
    pub draw: f64,
    /// Its answer will be judged, and a host of the model breaks answers that can hardly be compared yet.
    pub in_doubt: bool,
}

/// The draw of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookDraw {
    /// The probability of the drawn upstream; of each on the average if none is drawn.
    pub probability: f64,
    /// The drawn one, by its place.
    pub drawn: Option<usize>,
}

impl LookDraw {
    /// `shares`: by place, the probability of each upstream; together at most 1.
    pub(super) fn new(shares: &[f64], draw: f64) -> LookDraw {
        let mut sum = 0.0;
        let drawn = shares.iter().position(|share| {
            sum += share;
            draw < sum
        });
        let mean = || shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        LookDraw { probability: drawn.map_or_else(mean, |drawn| shares[drawn]), drawn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upstream_is_drawn_by_its_share() {
        let drawn = |draw: f64| LookDraw::new(&[0.1, 0.0, 0.02], draw);
        let mean = LookDraw { probability: 0.04, drawn: None };
        let of = |drawn: usize, probability: f64| LookDraw { probability, drawn: Some(drawn) };
        for (at, expected) in [(0.0, of(0, 0.1)), (0.09, of(0, 0.1)), (0.1, of(2, 0.02)), (0.121, mean), (0.9, mean)] {
            let found = drawn(at);
            assert!((found.probability - expected.probability).abs() < 1e-12 && found.drawn == expected.drawn, "{at}");
        }
        assert_eq!(LookDraw::new(&[], 0.0), LookDraw { probability: 0.0, drawn: None });
    }
}
