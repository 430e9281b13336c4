//! Is one target better than the other, or only luckier? A ratio with its interval, and a verdict at a margin. Pure.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::figures::{Quantiles, StageFigures};
use super::measured::MeasuredRequest;
use super::statistics::{IntervalEstimate, Z, effective_samples, quantile_estimate};

/// Of a one-sided test at 5 %: two of them make "the same".
const Z_ONE_SIDED: f64 = 1.644_854;
/// Pairs below which nothing is said.
const PAIRS_LEAST: usize = 6;

/// What a comparison shows of the second target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadVerdict {
    Better,
    Worse,
    /// Within the margin.
    Same,
    /// About so many more requests of each would tell.
    CannotTell {
        more: u64,
    },
}

/// Which figure is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedFigure {
    Ttft,
    TokS,
    E2e,
}

/// One figure of two targets under the same load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadComparison {
    pub figure: ComparedFigure,
    /// The first target, or the earlier run.
    pub base: String,
    pub other: String,
    /// Such as `10 users`.
    pub load: String,
    /// Pairs of requests with the same prompt; none where two runs are compared.
    pub pairs: Option<usize>,
    /// Other over base, median.
    pub ratio: IntervalEstimate,
    pub margin: f64,
    pub verdict: LoadVerdict,
}

impl ComparedFigure {
    pub const ALL: [ComparedFigure; 3] = [ComparedFigure::Ttft, ComparedFigure::TokS, ComparedFigure::E2e];

    pub fn label(self) -> &'static str {
        match self {
            ComparedFigure::Ttft => "TTFT",
            ComparedFigure::TokS => "tok/s",
            ComparedFigure::E2e => "end-to-end",
        }
    }

    fn of_request(self, request: &MeasuredRequest) -> Option<f64> {
        match self {
            ComparedFigure::Ttft => request.client_ttft_us().map(|us| us as f64),
            ComparedFigure::TokS => request.tpot_us.map(|us| 1e6 / us),
            ComparedFigure::E2e => request.client_e2e_us().map(|us| us as f64),
        }
    }

    fn of_stage(self, stage: &StageFigures) -> Option<&Quantiles> {
        match self {
            ComparedFigure::Ttft => stage.client_ttft_ms.as_ref().or(stage.ttft_ms.as_ref()),
            ComparedFigure::TokS => stage.tok_s.as_ref(),
            ComparedFigure::E2e => stage.e2e_ms.as_ref(),
        }
    }

    fn is_better_higher(self) -> bool {
        self == ComparedFigure::TokS
    }
}

/// The median ratio of pairs of requests with the same prompt, and how many there are.
pub fn paired(
    figure: ComparedFigure,
    base: &[MeasuredRequest],
    other: &[MeasuredRequest],
) -> Option<(IntervalEstimate, usize)> {
    let value = |request: &MeasuredRequest| figure.of_request(request).filter(|value| *value > 0.0);
    let answered = |request: &&MeasuredRequest| request.is_answered();
    let known: HashMap<u64, f64> = base.iter().filter(answered).filter_map(|r| Some((r.number, value(r)?))).collect();
    let series: Vec<f64> = other
        .iter()
        .filter(answered)
        .filter_map(|request| Some((value(request)? / known.get(&request.number)?).ln()))
        .collect();
    if series.len() < PAIRS_LEAST {
        return None;
    }
    let mut sorted = series.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let log = quantile_estimate(&sorted, effective_samples(&series), 0.5)?;
    Some((exp(log), series.len()))
}

/// The ratio of the medians of two independent stages.
pub fn of_stages(
    figure: ComparedFigure,
    base: &StageFigures,
    other: &StageFigures,
) -> Option<(IntervalEstimate, usize)> {
    let error = |estimate: &IntervalEstimate| Some((estimate.high?.ln() - estimate.low?.ln()) / (2.0 * Z));
    let (base, other) = (figure.of_stage(base)?, figure.of_stage(other)?);
    let value = (other.p50.value / base.p50.value).ln();
    let error = error(&base.p50)?.hypot(error(&other.p50)?);
    let log = IntervalEstimate { value, low: Some(value - Z * error), high: Some(value + Z * error) };
    Some((exp(log), base.n.min(other.n)))
}

fn exp(log: IntervalEstimate) -> IntervalEstimate {
    IntervalEstimate { value: log.value.exp(), low: log.low.map(f64::exp), high: log.high.map(f64::exp) }
}

/// `n`: requests of each. "Worse" and "better" need an interval that leaves 1 out and a ratio beyond the margin.
pub fn judge(figure: ComparedFigure, ratio: &IntervalEstimate, margin: f64, n: usize) -> LoadVerdict {
    let allowed = (1.0 + margin).ln();
    let Some((low, high)) = ratio.low.zip(ratio.high) else {
        return LoadVerdict::CannotTell { more: n.max(10) as u64 };
    };
    let (value, low, high) = (ratio.value.ln(), low.ln(), high.ln());
    let half = (high - low) / 2.0;
    let half_of_test = half * Z_ONE_SIDED / Z;
    if value.abs() + half_of_test <= allowed {
        return LoadVerdict::Same;
    }
    let (up, down) = (low > 0.0 && value > allowed, high < 0.0 && value < -allowed);
    match (up, down, figure.is_better_higher()) {
        (true, _, true) | (_, true, false) => LoadVerdict::Better,
        (true, _, false) | (_, true, true) => LoadVerdict::Worse,
        _ => {
            let needed = n as f64 * (half / (allowed / 2.0)).powi(2);
            LoadVerdict::CannotTell { more: (needed - n as f64).max(n as f64 / 2.0).ceil() as u64 }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::bench::measured::RequestEnd;

    fn requests(rng: &mut Rng, n: u64, factor: f64) -> Vec<MeasuredRequest> {
        let draw = |rng: &mut Rng| 200_000.0 * factor * (0.4 * (rng.f64() + rng.f64() - 1.0)).exp();
        (0..n)
            .map(|number| MeasuredRequest {
                number,
                end: RequestEnd::Answered,
                ttft_us: Some(draw(rng) as i64),
                ..MeasuredRequest::default()
            })
            .collect()
    }

    fn verdict(seed: u64, n: u64, factor: f64) -> LoadVerdict {
        let mut rng = Rng::with_seed(seed);
        let (a, b) = (requests(&mut rng, n, 1.0), requests(&mut rng, n, factor));
        let (ratio, pairs) = paired(ComparedFigure::Ttft, &a, &b).unwrap();
        judge(ComparedFigure::Ttft, &ratio, 0.05, pairs)
    }

    #[test]
    fn a_server_is_seldom_worse_than_itself() {
        let worse = (0..200).filter(|seed| verdict(*seed, 60, 1.0) == LoadVerdict::Worse).count();
        assert!(worse <= 6, "{worse} of 200");
        let same = (0..50).filter(|seed| verdict(*seed, 1_000, 1.0) == LoadVerdict::Same).count();
        assert!(same >= 48, "{same} of 50");
    }

    #[test]
    fn a_slower_server_is_worse_and_a_faster_one_better() {
        assert_eq!(verdict(1, 200, 1.3), LoadVerdict::Worse);
        assert_eq!(verdict(1, 200, 0.7), LoadVerdict::Better);
        assert!(matches!(verdict(1, 10, 1.05), LoadVerdict::CannotTell { more } if more > 10));
        let faster = IntervalEstimate { value: 1.3, low: Some(1.2), high: Some(1.4) };
        assert_eq!(judge(ComparedFigure::TokS, &faster, 0.05, 100), LoadVerdict::Better);
        assert_eq!(judge(ComparedFigure::E2e, &faster, 0.05, 100), LoadVerdict::Worse);
    }

    #[test]
    fn requests_are_paired_by_their_prompt() {
        let of = |number, ttft| MeasuredRequest {
            number,
            end: RequestEnd::Answered,
            ttft_us: Some(ttft),
            ..MeasuredRequest::default()
        };
        let base: Vec<_> = (0..10).map(|n| of(n, 100 * (n as i64 + 1))).collect();
        let other: Vec<_> = (0..10).rev().map(|n| of(n, 200 * (n as i64 + 1))).collect();
        let (ratio, pairs) = paired(ComparedFigure::Ttft, &base, &other).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-9 && pairs == 10);
        assert_eq!(paired(ComparedFigure::Ttft, &base[..5], &other), None);
    }
}
