//! `--fail-if 'ttft_p95>800ms'`: a condition on every stage, decided by intervals, for CI. Pure.

use std::time::Duration;

use super::figures::{Quantiles, StageFigures};
use super::measured::RequestEnd;
use super::statistics::{IntervalEstimate, share_estimate};

/// A condition that fails a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// As it was typed.
    pub text: String,
    figure: ConditionFigure,
    /// It fails if the figure is above the limit; else if it is below.
    above: bool,
    limit: f64,
}

/// What the condition says of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionOutcome {
    /// The figure stays within its limit, with its whole interval.
    Met,
    /// The sample is too small, or the stage is not trusted.
    Undecided,
    Missed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ConditionFigure {
    Time(TimedFigure, f64),
    TokS(f64),
    TokSAll,
    Failures,
    Attainment,
    Cost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimedFigure {
    Ttft,
    ClientTtft,
    Tpot,
    E2e,
}

const NAMES: &str =
    "ttft, client_ttft, tpot, e2e and tok_s with _p50, _p90, _p95 or _p99, tok_s_all, failures, attainment, cost";

impl FailIf {
    /// Reads a name, `<` or `>`, and a limit with its unit.
    ///
    /// # Errors
    /// In words, for an option's message.
    pub fn parse(text: &str, duration: impl Fn(&str) -> Result<Duration, String>) -> Result<FailIf, String> {
        let at = text.find(['<', '>']).ok_or_else(|| "expected a figure, < or >, and a limit".to_owned())?;
        let (name, limit) = (text[..at].trim(), text[at + 1..].trim().trim_start_matches('=').trim());
        let figure = ConditionFigure::named(name).ok_or_else(|| format!("no figure {name:?}; there are {NAMES}"))?;
        let number = |text: &str| {
            let number: Option<f64> = text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
            number.ok_or_else(|| format!("{text:?} is no number"))
        };
        let limit = match figure {
            ConditionFigure::Time(..) => duration(limit)?.as_secs_f64() * 1e3,
            ConditionFigure::Failures | ConditionFigure::Attainment => match limit.strip_suffix('%') {
                Some(percent) => number(percent.trim())? / 100.0,
                None => number(limit)?,
            },
            _ => number(limit)?,
        };
        Ok(FailIf { text: text.to_owned(), figure, above: text.as_bytes()[at] == b'>', limit })
    }

    /// Of all stages: the worst.
    pub fn outcome(&self, stages: &[StageFigures]) -> ConditionOutcome {
        let each =
            stages.iter().map(|stage| if stage.is_trusted() { self.of(stage) } else { ConditionOutcome::Undecided });
        each.max().unwrap_or(ConditionOutcome::Undecided)
    }

    fn of(&self, stage: &StageFigures) -> ConditionOutcome {
        let Some(estimate) = self.figure.of(stage) else { return ConditionOutcome::Undecided };
        let (missed, met) = if self.above {
            (estimate.low.is_some_and(|low| low > self.limit), estimate.high.is_some_and(|high| high <= self.limit))
        } else {
            (estimate.high.is_some_and(|high| high < self.limit), estimate.low.is_some_and(|low| low >= self.limit))
        };
        match (missed, met) {
            (true, _) => ConditionOutcome::Missed,
            (_, true) => ConditionOutcome::Met,
            _ => ConditionOutcome::Undecided,
        }
    }
}

impl ConditionFigure {
    fn named(name: &str) -> Option<ConditionFigure> {
        match name {
            "tok_s_all" => return Some(ConditionFigure::TokSAll),
            "failures" => return Some(ConditionFigure::Failures),
            "attainment" => return Some(ConditionFigure::Attainment),
            "cost" => return Some(ConditionFigure::Cost),
            _ => {}
        }
        let (name, p) = name.rsplit_once("_p")?;
        let p = match p {
            "50" => 0.5,
            "90" => 0.9,
            "95" => 0.95,
            "99" => 0.99,
            _ => return None,
        };
        Some(match name {
            "ttft" => ConditionFigure::Time(TimedFigure::Ttft, p),
            "client_ttft" => ConditionFigure::Time(TimedFigure::ClientTtft, p),
            "tpot" => ConditionFigure::Time(TimedFigure::Tpot, p),
            "e2e" => ConditionFigure::Time(TimedFigure::E2e, p),
            "tok_s" => ConditionFigure::TokS(p),
            _ => return None,
        })
    }

    fn of(self, stage: &StageFigures) -> Option<IntervalEstimate> {
        let exact = |value: f64| IntervalEstimate { value, low: Some(value), high: Some(value) };
        match self {
            ConditionFigure::Time(figure, p) => {
                let quantiles = match figure {
                    TimedFigure::Ttft => stage.ttft_ms,
                    TimedFigure::ClientTtft => stage.client_ttft_ms,
                    TimedFigure::Tpot => stage.tpot_ms,
                    TimedFigure::E2e => stage.e2e_ms,
                };
                Some(at(&quantiles?, p))
            }
            ConditionFigure::TokS(p) => Some(at(&stage.tok_s?, p)),
            ConditionFigure::TokSAll => stage.tok_s_all.map(exact),
            ConditionFigure::Failures => {
                let judged = stage.requests() - stage.count(RequestEnd::CutShort);
                (judged > 0).then(|| share_estimate(stage.failed() as f64 / judged as f64, judged as f64))
            }
            ConditionFigure::Attainment => stage.attainment,
            ConditionFigure::Cost => Some(exact(stage.cost_usd.1)),
        }
    }
}

fn at(quantiles: &Quantiles, p: f64) -> IntervalEstimate {
    match p {
        p if p <= 0.5 => quantiles.p50,
        p if p <= 0.9 => quantiles.p90,
        p if p <= 0.95 => quantiles.p95,
        _ => quantiles.p99,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stage::quantiles;
    use crate::config::units::parse_duration;

    fn read(text: &str) -> Result<FailIf, String> {
        FailIf::parse(text, |text| parse_duration(text).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_condition_is_met_missed_or_undecided() {
        let stage = |n: u32| StageFigures {
            ttft_ms: quantiles((0..n).map(|at| 100.0 + f64::from(at % 10))),
            ends: [(RequestEnd::Answered, n as usize)].into(),
            ..StageFigures::default()
        };
        let outcome = |text: &str, stages: &[StageFigures]| read(text).unwrap().outcome(stages);
        let many = stage(1_000);
        assert_eq!(outcome("ttft_p95>120ms", std::slice::from_ref(&many)), ConditionOutcome::Met);
        assert_eq!(outcome("ttft_p95 > 90ms", std::slice::from_ref(&many)), ConditionOutcome::Missed);
        assert_eq!(outcome("ttft_p95>120ms", &[stage(20)]), ConditionOutcome::Undecided, "nothing bounds a p95 of 20");
        assert_eq!(outcome("ttft_p50>104ms", std::slice::from_ref(&many)), ConditionOutcome::Undecided);
        assert_eq!(outcome("failures>1%", std::slice::from_ref(&many)), ConditionOutcome::Met);
        assert_eq!(
            outcome("tok_s_p50<20", std::slice::from_ref(&many)),
            ConditionOutcome::Undecided,
            "there is no figure"
        );
        let doubtful = StageFigures { doubts: vec!["late".to_owned()], ..many.clone() };
        assert_eq!(outcome("ttft_p95>120ms", &[many.clone(), doubtful]), ConditionOutcome::Undecided);
        assert_eq!(outcome("ttft_p95>120ms", &[]), ConditionOutcome::Undecided);
    }

    #[test]
    fn wrong_conditions_say_what_is_right() {
        for (text, said) in [
            ("ttft_p95", "expected a figure"),
            ("itl_p95>5ms", "no figure \"itl_p95\""),
            ("ttft_p42>5ms", "no figure"),
            ("failures>x", "no number"),
            ("failures>NaN", "no number"),
            ("ttft_p95>5", ""),
        ] {
            assert!(read(text).unwrap_err().contains(said), "{text}: {:?}", read(text));
        }
    }
}
