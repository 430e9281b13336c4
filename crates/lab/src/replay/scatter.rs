//! The scatter of an upstream's times around their expectation: Kaplan–Meier over residuals. Each hazard is shrunk towards a usual
//! upstream's, so that there is a tail where samples are few. Not for quantiles of a report: those are in `history` and say
//! where they end.

use std::sync::LazyLock;

/// Bins of residuals, as logarithms, from −2.5 to 5.5.
const BINS: usize = 160;
const LOWEST: f64 = -2.5;
const BIN: f64 = 0.05;
/// At risk in each bin by the prior.
const PRIOR: f64 = 3.0;
/// The prior: about normal with this deviation, and a Pareto tail of this share and exponent.
const PRIOR_SD: f64 = 0.35;
const TAIL_SHARE: f64 = 0.025;
const TAIL_EXPONENT: f64 = 1.2;
/// At risk for an estimate to rest on what was seen.
const ENOUGH: f64 = 10.0;

/// The distribution of residuals.
#[derive(Clone, Debug)]
pub(super) struct ResidualScatter {
    /// Share that is later, at the lower edge of each bin and at the upper one of the last.
    edges: Vec<f64>,
    /// Of each bin: what a residual is on average that is beyond its lower edge.
    beyond: Vec<f64>,
    /// The share that is later than what so few were watched for that it is unknown.
    unknown: f64,
}

impl ResidualScatter {
    /// Of residuals that were seen, or that were cut there.
    pub(super) fn new(residuals: impl Iterator<Item = (f64, bool)>) -> ResidualScatter {
        let (mut events, mut cut, mut at_risk) = ([0.0; BINS], [0.0; BINS], 0.0_f64);
        for (residual, event) in residuals {
            let bin = (((residual - LOWEST) / BIN).max(0.0) as usize).min(BINS - 1);
            if event {
                events[bin] += 1.0
            } else {
                cut[bin] += 1.0
            }
            at_risk += 1.0;
        }
        let (mut edges, mut unknown) = (vec![1.0], 1.0);
        let mut left = 1.0;
        for ((events, cut), prior) in events.iter().zip(&cut).zip(prior()) {
            let exposed = (at_risk - cut / 2.0).max(0.0) + PRIOR;
            left *= 1.0 - ((events + PRIOR * prior) / exposed).clamp(0.0, 1.0);
            edges.push(left);
            if at_risk >= ENOUGH {
                unknown = left;
            }
            at_risk = (at_risk - events - cut).max(0.0);
        }
        let beyond = beyond(&edges);
        ResidualScatter { edges, beyond, unknown }
    }

    /// The share that is later.
    pub(super) fn survival(&self, residual: f64) -> f64 {
        let place = (residual - LOWEST) / BIN;
        if place >= BINS as f64 {
            return self.edges[BINS] * (-TAIL_EXPONENT * BIN * (place - BINS as f64)).exp();
        }
        let place = place.max(0.0);
        let bin = place as usize;
        self.edges[bin] + (place - bin as f64) * (self.edges[bin + 1] - self.edges[bin])
    }

    /// What a residual is on average that is later than this one.
    pub(super) fn expected_beyond(&self, residual: f64) -> f64 {
        let bin = (((residual - LOWEST) / BIN).max(0.0) as usize).min(BINS - 1);
        self.beyond[bin].max(residual)
    }

    /// The residual that a share of `left` is later than.
    pub(super) fn at(&self, left: f64) -> f64 {
        let after = self.edges.partition_point(|edge| *edge > left);
        match (after.checked_sub(1), self.edges.get(after)) {
            (None, _) => LOWEST,
            (Some(bin), Some(edge)) => {
                let share = (self.edges[bin] - left) / (self.edges[bin] - edge).max(f64::MIN_POSITIVE);
                LOWEST + BIN * (bin as f64 + share)
            }
            (Some(_), None) => {
                let further = (self.edges[BINS] / left.max(1e-9)).ln() / TAIL_EXPONENT;
                LOWEST + BIN * BINS as f64 + further.max(0.0)
            }
        }
    }

    /// The share of times that lies beyond what was watched often enough to be known.
    pub(super) fn unknown(&self) -> f64 {
        self.unknown
    }
}

fn beyond(edges: &[f64]) -> Vec<f64> {
    let last = LOWEST + BIN * BINS as f64 + 1.0 / TAIL_EXPONENT;
    let mut sum = edges[BINS] * last;
    let mut beyond = vec![last; BINS];
    for bin in (0..BINS).rev() {
        sum += (edges[bin] - edges[bin + 1]) * (LOWEST + BIN * (bin as f64 + 0.5));
        if edges[bin] > 1e-9 {
            beyond[bin] = sum / edges[bin];
        }
    }
    beyond
}

/// The prior's hazard in each bin.
fn prior() -> &'static [f64; BINS] {
    static TABLE: LazyLock<[f64; BINS]> = LazyLock::new(|| {
        let survival = |residual: f64| {
            let normal = 1.0 / (1.0 + (1.702 * residual / PRIOR_SD).exp());
            let tail = (-TAIL_EXPONENT * (residual - PRIOR_SD).max(0.0)).exp();
            (1.0 - TAIL_SHARE) * normal + TAIL_SHARE * tail
        };
        std::array::from_fn(|bin| {
            let from = LOWEST + BIN * bin as f64;
            1.0 - survival(from + BIN) / survival(from)
        })
    });
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_them_cut_by_rivals_change_little() {
        let mut seeded = fastrand::Rng::with_seed(5);
        let mut normal = || 0.3 * ((0..12).map(|_| seeded.f64()).sum::<f64>() - 6.0);
        let pairs: Vec<(f64, f64)> = (0..4_000).map(|_| (normal(), normal())).collect();
        let all = ResidualScatter::new(pairs.iter().map(|(own, _)| (*own, true)));
        let cut = ResidualScatter::new(pairs.iter().map(|(own, rival)| (own.min(*rival), own < rival)));
        for left in [0.75, 0.5, 0.25, 0.1] {
            assert!((all.at(left) - cut.at(left)).abs() < 0.06, "{left}: {} {}", all.at(left), cut.at(left));
            assert!((all.survival(all.at(left)) - left).abs() < 1e-6);
        }
        assert!(all.unknown() < 0.01 && cut.unknown() < 0.05, "{} {}", all.unknown(), cut.unknown());
    }

    #[test]
    fn a_habitual_loser_is_mostly_unknown_and_nothing_seen_is_the_prior() {
        let loser = ResidualScatter::new((0..1_000).map(|n| (if n < 20 { -0.5 } else { -0.4 }, n < 20)));
        assert!(loser.unknown() > 0.9, "{}", loser.unknown());
        let none = ResidualScatter::new(std::iter::empty());
        assert!(none.at(0.5).abs() < 0.06 && none.unknown() == 1.0);
        assert!(none.at(1e-9) > 5.5 && none.at(1.0) <= LOWEST && none.expected_beyond(2.0) > 2.5);
    }
}
