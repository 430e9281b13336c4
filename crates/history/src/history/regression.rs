//! Tests whether an upstream is worse now than in the same hours before: later first tokens, slower decoding, more
//! failures.
//!
//! Pure statistics (`docs/measurement.md`, "Regressions"). Not for choosing the attempts and strata
//! (`report::regressions`) or for wording a finding (`cli`).

mod curve;
mod failures;
mod log_rank;
mod normal;
mod rank_sum;
mod strata;
#[cfg(test)]
mod tests;

pub use curve::Shift;
pub use strata::{RegressionStratum, Sample};

/// The tested figures of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestedFigure {
    Ttft,
    Tpot,
    Failures,
}

/// The smallest differences worth reporting. A finding must pass all that apply to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// TTFT and TPOT: the increase, as a share of the earlier value.
    pub effect: f64,
    /// The increase of the share of failed attempts, 0 to 1.
    pub failures: f64,
    /// Accepted chance of any false report, over all upstreams and figures; 0 to 1.
    pub significance: f64,
    /// Minimum on each side. TTFT: expected events if nothing had changed, in equal weights. TPOT and failures:
    /// attempts.
    pub events_min: usize,
}

/// A figure that is worse now. Each `p_value` is two-sided and corrected for all comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    Ttft {
        /// The median or, if that is not late enough, the 90th percentile. None if too few first tokens were seen for a
        /// quantile; then only the hazard ratio shows the effect.
        shift: Option<Shift>,
        /// Rate of first tokens at equal waiting times, now over before: below 1 is slower.
        hazard_ratio: f64,
        p_value: f64,
    },
    Tpot {
        /// Medians in microseconds.
        before_us: f64,
        now_us: f64,
        p_value: f64,
    },
    Failures {
        /// Shares of the attempts, 0 to 1.
        before: f64,
        now: f64,
        p_value: f64,
    },
}

/// The figures of one upstream that are worse now. `upstreams`: the number of upstreams compared together; the more,
/// the stronger each finding must be. Improvements are not reported. To find them, exchange `before` and `now`.
pub fn compare(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, upstreams: usize) -> Vec<Finding> {
    // Bonferroni: an upper bound for the chance of an error, whether or not the tests depend on each other.
    let correct = |p_value: f64| (p_value * TestedFigure::ALL.len() as f64 * upstreams.max(1) as f64).min(1.0);
    let findings = [
        ttft(strata, thresholds, &correct),
        tpot(strata, thresholds, &correct),
        failures(strata, thresholds, &correct),
    ];
    findings.into_iter().flatten().collect()
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { effect: 0.25, failures: 0.05, significance: 0.001, events_min: 20 }
    }
}

impl TestedFigure {
    pub const ALL: [TestedFigure; 3] = [TestedFigure::Ttft, TestedFigure::Tpot, TestedFigure::Failures];

    /// The name in JSON, in the log and as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            TestedFigure::Ttft => "ttft",
            TestedFigure::Tpot => "tpot",
            TestedFigure::Failures => "failures",
        }
    }
}

impl Finding {
    pub fn figure(&self) -> TestedFigure {
        match self {
            Finding::Ttft { .. } => TestedFigure::Ttft,
            Finding::Tpot { .. } => TestedFigure::Tpot,
            Finding::Failures { .. } => TestedFigure::Failures,
        }
    }

    /// Two-sided and corrected for all comparisons.
    pub fn p_value(&self) -> f64 {
        match self {
            Finding::Ttft { p_value, .. } | Finding::Tpot { p_value, .. } | Finding::Failures { p_value, .. } => {
                *p_value
            }
        }
    }
}

fn ttft(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, correct: &dyn Fn(f64) -> f64) -> Option<Finding> {
    let test = log_rank::log_rank(strata);
    let p_value = correct(normal::two_sided(test.z()));
    if test.z() >= 0.0 || test.effective_events() < thresholds.events_min as f64 || p_value > thresholds.significance {
        return None;
    }
    let (shifts, hazard_ratio, enough) = (curve::shifts(strata), test.hazard_ratio(), 1.0 + thresholds.effect);
    let shift = shifts.iter().copied().find(|shift| shift.ratio() >= enough);
    let worse = shift.is_some() || shifts.is_empty() && hazard_ratio <= 1.0 / enough;
    worse.then_some(Finding::Ttft { shift, hazard_ratio, p_value })
}

fn tpot(strata: &[RegressionStratum<'_>], thresholds: &Thresholds, correct: &dyn Fn(f64) -> f64) -> Option<Finding> {
    let test = rank_sum::rank_sum(strata);
    let p_value = correct(normal::two_sided(test.z()));
    let enough = test.samples_min() >= thresholds.events_min as u64;
    let later = test.z() > 0.0;
    let (before_us, now_us) = test.medians()?;
    let worse = later && now_us >= before_us * (1.0 + thresholds.effect);
    (enough && worse && p_value <= thresholds.significance).then_some(Finding::Tpot { before_us, now_us, p_value })
}

fn failures(
    strata: &[RegressionStratum<'_>],
    thresholds: &Thresholds,
    correct: &dyn Fn(f64) -> f64,
) -> Option<Finding> {
    let test = failures::Failures::new(strata);
    let (before, now) = test.shares()?;
    if test.attempts_min() < thresholds.events_min as u64 || now <= before || now - before < thresholds.failures {
        return None;
    }
    let p_value = correct(test.p_value());
    (p_value <= thresholds.significance).then_some(Finding::Failures { before, now, p_value })
}
