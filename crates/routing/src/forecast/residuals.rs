//! The scatter of one upstream's attempts around their prediction: a decayed Kaplan–Meier estimate over ln TTFT less its prediction.
//! Residuals, unlike raw times, are censored evenly by faster rivals: long prompts are cut more often. Not for quantiles of a
//! report, which are in `history`.

use std::sync::{LazyLock, OnceLock};

use super::grid::STEP;

/// Bins of 0.1 from −2.0 to 4.4; what lies outside counts in the first or the last.
const BINS: usize = 64;
const LOWEST: f64 = -2.0;
const BIN: f64 = 0.1;
/// Kept of everything at each observation.
pub const KEPT: f64 = 1.0 - 1.0 / 800.0;
/// At risk in each bin by the prior. It never decays: where hardly anything was seen its hazard is the tail.
const PRIOR: f32 = 3.0;
/// The prior: a normal residual of this deviation, with a Pareto tail of this share and exponent.
const PRIOR_SD: f64 = 0.35;
const TAIL_SHARE: f64 = 0.025;
const TAIL_EXPONENT: f64 = 1.2;
/// Expectations look no further, so that a hang counts as late and not as infinitely so.
const EXPECTED_MOST: f64 = 2.0;
/// At risk for an estimate to rest on what was seen.
const ENOUGH: f32 = 2.0;

/// Points of the published tables, [`STEP`] apart as the grid of times is, so that a prediction only moves them.
pub const SHAPE: usize = 60;
/// The residual of the first of them.
pub const SHAPE_FROM: f64 = -20.0 * STEP;

/// Decayed events and censorings.
#[derive(Clone, Debug)]
pub struct Residuals {
    events: [f32; BINS],
    censored: [f32; BINS],
}

/// The observed scatter, ready to read.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualShape {
    /// Probability of a residual beyond `SHAPE_FROM + point · STEP`.
    pub survival: [f32; SHAPE],
    /// Beyond this residual the estimate is the prior's.
    pub known_until: f32,
}

/// The shape of residuals, made when it is first read: many forecasts are replaced before a decision needs it.
#[derive(Clone, Debug)]
pub struct LazyShape {
    residuals: Residuals,
    shape: OnceLock<ResidualShape>,
}

impl LazyShape {
    pub fn of(residuals: Residuals) -> LazyShape {
        LazyShape { residuals, shape: OnceLock::new() }
    }

    pub fn get(&self) -> &ResidualShape {
        self.shape.get_or_init(|| self.residuals.shape())
    }

    /// See [`ResidualShape::quantile`]. Makes no tables for it.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        match self.shape.get() {
            Some(shape) => shares.map(|q| shape.quantile(q)),
            None => self.residuals.quantiles(shares),
        }
    }
}

impl Residuals {
    pub fn new() -> Residuals {
        Residuals { events: [0.0; BINS], censored: [0.0; BINS] }
    }

    /// Keeps this share of what was seen.
    pub fn fade(&mut self, left: f64) {
        self.events.iter_mut().chain(&mut self.censored).for_each(|weight| *weight *= left as f32);
    }

    /// Adds a residual, of an event or of an attempt that was cut there.
    pub fn add(&mut self, residual: f64, event: bool) {
        self.fade(KEPT);
        let bin = (((residual - LOWEST) / BIN).max(0.0) as usize).min(BINS - 1);
        if event {
            self.events[bin] += 1.0;
        } else {
            self.censored[bin] += 1.0;
        }
    }

    /// All of the scatter.
    pub fn shape(&self) -> ResidualShape {
        let bins = self.bins();
        let survival = std::array::from_fn(|index| bins.at(&FIXED.points[index]).0);
        ResidualShape { survival, known_until: bins.known_until }
    }

    /// The probability of a residual beyond this one, and the expected residual then, at one residual, for a fraction of the work.
    pub fn beyond(&self, residual: f64) -> (f64, f64) {
        let (bins, (before, share)) = (self.bins(), position(residual));
        let [low, high] = [before, before + 1].map(|point| bins.at(&FIXED.points[point]));
        (f64::from(between(low.0, high.0, share)), f64::from(between(low.1, high.1, share)).max(residual))
    }

    fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let (edges, _) = self.edges();
        shares.map(|q| quantile(q, |point| FIXED.points[point].alive(&edges)))
    }

    /// Survival at the lower edge of each bin and at the upper one of the last, and the residual until which it rests on what was seen:
    /// Kaplan–Meier over the bins, each hazard drawn to the prior's; those that were cut within a bin were at risk for half of it.
    fn edges(&self) -> ([f32; BINS + 1], f32) {
        let fixed = &*FIXED;
        let mut edges = [1.0; BINS + 1];
        // Bins from the lowest one whose estimate rests on what was seen.
        let mut known = 0;
        let mut at_risk: f32 = self.events.iter().chain(&self.censored).sum();
        for bin in 0..BINS {
            if at_risk >= ENOUGH {
                known = bin + 1;
            }
            let exposed = (at_risk - self.censored[bin] / 2.0).max(0.0) + PRIOR;
            let hazard = (self.events[bin] + PRIOR * fixed.hazards[bin]) / exposed;
            edges[bin + 1] = edges[bin] * (1.0 - hazard.clamp(0.0, 1.0));
            at_risk = (at_risk - self.events[bin] - self.censored[bin]).max(0.0);
        }
        (edges, (LOWEST + BIN * known as f64) as f32)
    }

    fn bins(&self) -> SurvivalBins {
        let (edges, known_until) = self.edges();
        // From above: what is left of E[min(r, 2)] in and beyond each bin.
        let mut beyond = [0.0; BINS + 1];
        beyond[BINS] = edges[BINS] * EXPECTED_MOST as f32;
        for bin in (0..BINS).rev() {
            beyond[bin] = beyond[bin + 1] + (edges[bin] - edges[bin + 1]) * FIXED.middles[bin];
        }
        SurvivalBins { edges, beyond, known_until }
    }
}

/// The estimate bin by bin.
struct SurvivalBins {
    /// Survival at the lower edge of each bin and at the upper one of the last.
    edges: [f32; BINS + 1],
    /// What is left of E[min(r, 2)] in and beyond each bin.
    beyond: [f32; BINS + 1],
    known_until: f32,
}

impl SurvivalBins {
    /// Survival at a point of the published tables, and the expectation beyond it.
    fn at(&self, point: &ShapePoint) -> (f32, f32) {
        let alive = point.of(&self.edges);
        let mean = if alive > 1e-6 { point.of(&self.beyond) / alive } else { EXPECTED_MOST as f32 };
        (point.alive(&self.edges), mean.max(point.least))
    }
}

impl ResidualShape {
    /// What is left of survival from one point of the grid to the next beyond the tables.
    pub fn tail() -> f32 {
        FIXED.tail
    }

    /// Probability of a residual beyond this one.
    #[cfg(test)]
    pub fn survival(&self, residual: f64) -> f64 {
        f64::from(at(&self.survival, residual))
    }

    /// The residual that a share `q` stays below; beyond the table its end.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile(q, |point| self.survival[point])
    }
}

fn quantile(q: f64, survival: impl Fn(usize) -> f32) -> f64 {
    let left = (1.0 - q) as f32;
    let (mut point, mut end) = (0, SHAPE);
    while point < end {
        let middle = usize::midpoint(point, end);
        if survival(middle) > left { point = middle + 1 } else { end = middle }
    }
    let Some(before) = point.checked_sub(1) else { return SHAPE_FROM };
    if point == SHAPE {
        return SHAPE_FROM + STEP * (SHAPE - 1) as f64;
    }
    let (above, below) = (survival(before), survival(point));
    let share = if above > below { (above - left) / (above - below) } else { 0.0 };
    SHAPE_FROM + STEP * (before as f64 + f64::from(share))
}

#[cfg(test)]
fn at(table: &[f32; SHAPE], residual: f64) -> f32 {
    let (before, share) = position(residual);
    between(table[before], table[before + 1], share)
}

/// The point of the tables below a residual, and the share of the way to the next one.
fn position(residual: f64) -> (usize, f32) {
    let position = ((residual - SHAPE_FROM) / STEP).clamp(0.0, (SHAPE - 1) as f64);
    let before = (position as usize).min(SHAPE - 2);
    (before, (position - before as f64) as f32)
}

fn between(low: f32, high: f32, share: f32) -> f32 {
    low + share * (high - low)
}

/// What a shape needs for each bin and each point and never changes. An exponential for each point would be most of its
/// cost.
struct FixedTables {
    /// The prior's hazard in each bin.
    hazards: [f32; BINS],
    /// The middle of each bin, as far as expectations look.
    middles: [f32; BINS],
    points: [ShapePoint; SHAPE],
    /// Survival beyond the last of them, a point.
    tail: f32,
}

/// Where a point of the published tables lies among the bins.
struct ShapePoint {
    /// The bin, and how far into it.
    bin: usize,
    share: f32,
    /// What the tail leaves beyond the last bin.
    tail: f32,
    /// Its residual, as far as expectations look.
    least: f32,
}

impl ShapePoint {
    fn new(point: usize) -> ShapePoint {
        let residual = SHAPE_FROM + point as f64 * STEP;
        let position = ((residual - LOWEST) / BIN).clamp(0.0, BINS as f64);
        let bin = (position as usize).min(BINS - 1);
        let further = (residual - (LOWEST + BIN * BINS as f64)).max(0.0);
        ShapePoint {
            bin,
            share: (position - bin as f64) as f32,
            tail: (-TAIL_EXPONENT * further).exp() as f32,
            least: residual.min(EXPECTED_MOST) as f32,
        }
    }

    /// Survival there.
    fn alive(&self, edges: &[f32; BINS + 1]) -> f32 {
        self.of(edges) * self.tail
    }

    fn of(&self, edges: &[f32; BINS + 1]) -> f32 {
        edges[self.bin] + self.share * (edges[self.bin + 1] - edges[self.bin])
    }
}

static FIXED: LazyLock<FixedTables> = LazyLock::new(|| {
    let survival = |residual: f64| {
        let normal = 1.0 / (1.0 + (1.702 * residual / PRIOR_SD).exp());
        let tail = (-TAIL_EXPONENT * (residual - PRIOR_SD).max(0.0)).exp();
        (1.0 - TAIL_SHARE) * normal + TAIL_SHARE * tail
    };
    let from = |bin: usize| LOWEST + BIN * bin as f64;
    FixedTables {
        hazards: std::array::from_fn(|bin| (1.0 - survival(from(bin) + BIN) / survival(from(bin))) as f32),
        middles: std::array::from_fn(|bin| (LOWEST + BIN * (bin as f64 + 0.5)).min(EXPECTED_MOST) as f32),
        points: std::array::from_fn(ShapePoint::new),
        tail: (-TAIL_EXPONENT * STEP).exp() as f32,
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_seen_is_the_prior() {
        let shape = Residuals::new().shape();
        assert!(shape.quantile(0.5).abs() < 0.05, "{}", shape.quantile(0.5));
        assert!((shape.survival(2.0) / shape.survival(3.0) - TAIL_EXPONENT.exp()).abs() < 0.3);
        assert!(shape.known_until < -1.9);
    }

    #[test]
    fn half_of_the_sample_cut_by_rivals_changes_little() {
        let mut seeded = fastrand::Rng::with_seed(5);
        let (mut all, mut cut) = (Residuals::new(), Residuals::new());
        for _ in 0..3000 {
            let normal = |seeded: &mut fastrand::Rng| (0..12).map(|_| seeded.f64()).sum::<f64>() - 6.0;
            let (residual, rival) = (0.3 * normal(&mut seeded), 0.3 * normal(&mut seeded));
            all.add(residual, true);
            cut.add(residual.min(rival), residual < rival);
        }
        for q in [0.25, 0.5, 0.75, 0.9] {
            let (all, cut) = (all.shape().quantile(q), cut.shape().quantile(q));
            assert!((all - cut).abs() < 0.07, "{q}: {all} {cut}");
        }
        assert!(all.shape().known_until > 0.6 && all.shape().known_until < 1.3);
    }

    #[test]
    fn one_residual_is_what_the_tables_say_of_it() {
        let mut seeded = fastrand::Rng::with_seed(7);
        let mut residuals = Residuals::new();
        for _ in 0..200 {
            residuals.add(seeded.f64() * 4.0 - 2.0, seeded.bool());
            let (residual, shape) = (seeded.f64() * 8.0 - 3.0, residuals.shape());
            assert_eq!(residuals.beyond(residual).0, shape.survival(residual));
            let shares = [0.0, 0.5, seeded.f64(), 0.999, 1.0];
            assert_eq!(residuals.quantiles(shares), shares.map(|q| shape.quantile(q)));
        }
    }

    #[test]
    fn what_is_expected_grows_with_what_was_waited() {
        let residuals = Residuals::new();
        let expected: Vec<f64> = [-1.0, 0.0, 0.5, 1.0, 3.0].map(|waited| residuals.beyond(waited).1).to_vec();
        assert!(expected.is_sorted() && expected[0] > -0.2 && expected[4] >= 3.0, "{expected:?}");
        assert!(expected[3] > 1.3 && expected[3] <= 2.0, "a straggler of unknown length, but no longer: {expected:?}");
    }

    #[test]
    fn survival_falls_from_one_to_a_tail() {
        let mut residuals = Residuals::new();
        [-9.0, -0.2, 0.1, 0.2, 9.0].iter().for_each(|residual| residuals.add(*residual, true));
        let shape = residuals.shape();
        assert!(shape.survival.is_sorted_by(|earlier, later| earlier >= later));
        assert!(shape.survival[0] == 1.0 && shape.survival[SHAPE - 1] > 0.0);
    }
}
