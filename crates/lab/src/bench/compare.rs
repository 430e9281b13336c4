//! Is one target better than the other, or only luckier? A ratio with its interval, and a verdict at a margin. Pure.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::measured::MeasuredRequest;
use super::search::FoundRate;
use super::stage::{Quantiles, StageFigures};
use super::statistics::{IntervalEstimate, Z, effective_samples, quantile_estimate};

/// Of a one-sided test at 5 %: two of them make "the same".
const Z_ONE_SIDED: f64 = 1.644_854;
/// Pairs below which nothing is said.
const PAIRS_LEAST: usize = 6;
/// Two searches are the same if what they leave open is at most this: each ends with rates that are 10 % apart.
const FOUND_OPEN: f64 = 0.25;

/// What a comparison shows of the second target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadVerdict {
    Better,
    Worse,
    /// Within the margin.
    Same,
    /// About `more` requests of each would decide it; 0 for found rates, where a longer trial might.
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
    /// The share of requests that got a whole answer.
    Answered,
    /// The highest rate that a search found.
    Rate,
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
    /// Pairs of requests with the same prompt; None between two runs.
    pub pairs: Option<usize>,
    /// Other over base: of the medians, the shares or the rates.
    pub ratio: IntervalEstimate,
    pub margin: f64,
    pub verdict: LoadVerdict,
}

/// What was compared, and why something was not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    pub comparisons: Vec<LoadComparison>,
    /// One sentence each.
    pub reasons: Vec<String>,
}

impl LoadComparison {
    /// `ratio`: with the requests of each that it rests on.
    pub fn new(
        figure: ComparedFigure,
        base: &str,
        other: &StageFigures,
        (ratio, n): (IntervalEstimate, usize),
        margin: f64,
    ) -> LoadComparison {
        LoadComparison {
            figure,
            base: base.to_owned(),
            other: other.target.clone(),
            load: other.load().map_or_else(String::new, |load| load.to_string()),
            pairs: None,
            ratio,
            margin,
            verdict: judge(figure, &ratio, margin, n),
        }
    }
}

impl ComparedFigure {
    /// The figures of answered requests.
    pub const OF_ANSWERS: [ComparedFigure; 3] = [ComparedFigure::Ttft, ComparedFigure::TokS, ComparedFigure::E2e];

    pub fn label(self) -> &'static str {
        match self {
            ComparedFigure::Ttft => "TTFT",
            ComparedFigure::TokS => "tok/s",
            ComparedFigure::E2e => "end-to-end",
            ComparedFigure::Answered => "share answered",
            ComparedFigure::Rate => "found rate",
        }
    }

    fn of_request(self, request: &MeasuredRequest) -> Option<f64> {
        match self {
            ComparedFigure::Ttft => request.client_ttft_us().map(|us| us as f64),
            ComparedFigure::TokS => request.tpot_us.map(|us| 1e6 / us),
            ComparedFigure::E2e => request.client_e2e_us().map(|us| us as f64),
            ComparedFigure::Answered | ComparedFigure::Rate => None,
        }
    }

    pub(super) fn of_stage(self, stage: &StageFigures) -> Option<&Quantiles> {
        match self {
            ComparedFigure::Ttft => stage.client_ttft_ms.as_ref().or(stage.ttft_ms.as_ref()),
            ComparedFigure::TokS => stage.tok_s.as_ref(),
            ComparedFigure::E2e => stage.e2e_ms.as_ref(),
            ComparedFigure::Answered | ComparedFigure::Rate => None,
        }
    }

    fn is_better_higher(self) -> bool {
        matches!(self, ComparedFigure::TokS | ComparedFigure::Answered | ComparedFigure::Rate)
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

/// The ratio of the shares of answered requests of two stages, and the fewer requests of both. None if nothing failed: then
/// nothing differs.
pub fn answered(base: &StageFigures, other: &StageFigures) -> Option<(IntervalEstimate, usize)> {
    let (base_failed, other_failed) = (base.failed_share?, other.failed_share?);
    if base_failed.value == 0.0 && other_failed.value == 0.0 {
        return None;
    }
    // Half a request bounds a share below: nothing answered has a logarithm, too.
    let log = |share: Option<f64>, n: usize| (1.0 - share.unwrap_or(1.0)).max(0.5 / n.max(1) as f64).ln();
    let logs = |failed: IntervalEstimate, n: usize| {
        (log(failed.high, n), log(Some(failed.value), n), log(Some(failed.low.unwrap_or(0.0)), n))
    };
    let (n_base, n_other) = (base.requests(), other.requests());
    let ((low1, at1, high1), (low2, at2, high2)) = (logs(base_failed, n_base), logs(other_failed, n_other));
    // Of two independent estimates, each with its own interval (Zou and Donner 2008).
    let value = at2 - at1;
    let (low, high) = (value - (at2 - low2).hypot(high1 - at1), value + (high2 - at2).hypot(at1 - low1));
    Some((exp(IntervalEstimate { value, low: Some(low), high: Some(high) }), n_base.min(n_other)))
}

/// The rates that two searches found. Each says that the true rate lies between what passes and what fails, so the ratio of the
/// true rates lies between two numbers, too. None: neither bounds it.
pub fn of_found(base: &FoundRate, other: &FoundRate, margin: f64) -> Option<(IntervalEstimate, f64, LoadVerdict)> {
    let ratio = |other: Option<f64>, base: Option<f64>| Some(other? / base?);
    let (low, high) = (ratio(other.passes, base.fails), ratio(other.fails, base.passes));
    let middles = ratio(other.passes, base.passes).zip(ratio(other.fails, base.fails));
    let value = middles.map(|(passes, fails)| (passes * fails).sqrt()).or(low).or(high)?;
    let found = IntervalEstimate { value, low, high };
    let open = low.zip(high).map(|(low, high)| (1.0 / low).max(high) - 1.0);
    Some(match (low, high) {
        (_, Some(high)) if high < 1.0 / (1.0 + margin) => (found, margin, LoadVerdict::Worse),
        (Some(low), _) if low > 1.0 + margin => (found, margin, LoadVerdict::Better),
        (Some(low), Some(high)) if low <= 1.0 && high >= 1.0 => match open.filter(|open| *open <= FOUND_OPEN) {
            // Not finer than the searches are.
            Some(open) => (found, margin.max(open), LoadVerdict::Same),
            None => (found, margin, LoadVerdict::CannotTell { more: 0 }),
        },
        _ => (found, margin, LoadVerdict::CannotTell { more: 0 }),
    })
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
    use crate::bench::statistics::share_estimate;

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

    fn stage(answered: usize, failed: usize) -> StageFigures {
        let n = (answered + failed) as f64;
        StageFigures {
            ends: [(RequestEnd::Answered, answered), (RequestEnd::Failed, failed)].into(),
            failed_share: Some(share_estimate(failed as f64 / n, n)),
            ..StageFigures::default()
        }
    }

    #[test]
    fn failures_count() {
        let verdict = |base: &StageFigures, other: &StageFigures| {
            answered(base, other).map(|(ratio, n)| judge(ComparedFigure::Answered, &ratio, 0.05, n))
        };
        let whole = stage(100, 0);
        assert_eq!(verdict(&whole, &whole), None, "nothing failed");
        assert_eq!(verdict(&whole, &stage(50, 50)), Some(LoadVerdict::Worse));
        assert_eq!(verdict(&whole, &stage(0, 100)), Some(LoadVerdict::Worse));
        assert_eq!(verdict(&stage(50, 50), &whole), Some(LoadVerdict::Better));
        assert_eq!(verdict(&stage(990, 10), &stage(988, 12)), Some(LoadVerdict::Same));
        assert!(matches!(verdict(&stage(19, 1), &stage(18, 2)), Some(LoadVerdict::CannotTell { .. })));
    }

    /// 95 % intervals of the ratio of two shares, 400 seeds.
    #[test]
    fn the_interval_of_shares_holds_the_truth() {
        let draw = |rng: &mut Rng, share: f64| (0..80).filter(|_| rng.f64() < share).count();
        let holds = (0..400).filter(|seed| {
            let mut rng = Rng::with_seed(*seed);
            let (one, two) = (draw(&mut rng, 0.9), draw(&mut rng, 0.7));
            let (ratio, _) = answered(&stage(one, 80 - one), &stage(two, 80 - two)).unwrap();
            (ratio.low.unwrap()..=ratio.high.unwrap()).contains(&(0.7 / 0.9))
        });
        let holds = holds.count();
        assert!((368..=394).contains(&holds), "{holds} of 400");
    }

    #[test]
    fn found_rates_are_compared_by_what_they_bound() {
        let found = |passes, fails| FoundRate { passes, fails, ..FoundRate::default() };
        let verdict = |base: &FoundRate, other: &FoundRate| of_found(base, other, 0.05).map(|found| found.2);
        let base = found(Some(10.0), Some(11.0));
        let (ratio, margin, same) = of_found(&base, &found(Some(10.3), Some(11.2)), 0.05).unwrap();
        assert_eq!(same, LoadVerdict::Same);
        assert!((margin - 0.12).abs() < 1e-9 && ratio.low.unwrap() < 1.0, "it says how fine it is: {margin}");
        assert_eq!(verdict(&base, &found(Some(8.0), Some(8.8))), Some(LoadVerdict::Worse));
        assert_eq!(verdict(&base, &found(None, Some(8.8))), Some(LoadVerdict::Worse), "lower for certain");
        assert_eq!(verdict(&base, &found(Some(12.0), None)), Some(LoadVerdict::Better));
        let cannot = Some(LoadVerdict::CannotTell { more: 0 });
        assert_eq!(verdict(&base, &found(Some(9.0), Some(13.0))), cannot, "too much is open");
        assert_eq!(verdict(&base, &found(Some(9.0), Some(9.8))), cannot, "lower, by the margin at most");
        assert_eq!(verdict(&base, &found(Some(9.0), None)), cannot);
        assert_eq!(verdict(&base, &found(None, None)), None);
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
