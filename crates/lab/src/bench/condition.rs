//! `--fail-if 'ttft_p95>800ms'`: a condition on every stage, or on what a search found, decided by intervals, for CI. Pure.

use std::time::Duration;

use serde::Serialize;

use super::measured::RequestEnd;
use super::result::RunResult;
use super::search::FoundRate;
use super::stage::{Quantiles, StageFigures};
use super::statistics::IntervalEstimate;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::InsufficientSample;

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

/// A condition, decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecidedCondition {
    /// As it was typed.
    pub condition: String,
    pub outcome: ConditionOutcome,
    /// The stage and figure that decided it; None if it is met.
    pub why: Option<String>,
}

/// What the condition says of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionOutcome {
    /// The figure stays within its limit, with its whole interval.
    Met,
    /// The sample is too small, the client may have moved the figure across its limit, or the stage was ended early.
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
    Goodput,
    Cost,
    /// The highest rate that a search found.
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimedFigure {
    Ttft,
    ClientTtft,
    Tpot,
    E2e,
}

const NAMES: &str = "ttft, client_ttft, tpot, e2e and tok_s with _p50, _p90, _p95 or _p99, tok_s_all, failures, attainment, goodput, \
                     cost, rate";

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

    /// Whether a run of this kind has the figure.
    ///
    /// # Errors
    /// In words, for an option's message.
    pub fn check(&self, is_search: bool, has_slo: bool) -> Result<(), String> {
        let text = &self.text;
        match self.figure {
            ConditionFigure::Rate if !is_search => Err(format!("--fail-if {text}: rate is for --find rate")),
            ConditionFigure::Goodput | ConditionFigure::Attainment if !has_slo => {
                Err(format!("--fail-if {text}: it needs targets: give --slo"))
            }
            ConditionFigure::Goodput | ConditionFigure::Rate => Ok(()),
            _ if is_search => Err(format!("--fail-if {text}: {}", Self::OF_TRIALS)),
            _ => Ok(()),
        }
    }

    const OF_TRIALS: &str = "the trials of a search are meant to fail: give a condition on rate or goodput";

    /// Of all stages, or of all rates that a search found: the worst.
    pub fn decide(&self, result: &RunResult) -> DecidedCondition {
        let each: Vec<(ConditionOutcome, String)> = if result.is_search() {
            result.found.iter().map(|found| self.of_found(found, &result.stages)).collect()
        } else {
            result.stages.iter().map(|stage| self.of_stage(stage)).collect()
        };
        let worst = each.into_iter().rev().max_by_key(|(outcome, _)| *outcome);
        let (outcome, why) = worst.unwrap_or((ConditionOutcome::Undecided, "nothing was measured".to_owned()));
        let why = (outcome != ConditionOutcome::Met).then_some(why);
        DecidedCondition { condition: self.text.clone(), outcome, why }
    }

    fn of_found(&self, found: &FoundRate, stages: &[StageFigures]) -> (ConditionOutcome, String) {
        let name = &found.target;
        match self.figure {
            ConditionFigure::Rate => match found.passes.or(found.fails) {
                Some(value) => {
                    self.within(name, Some(IntervalEstimate { value, low: found.passes, high: found.fails }))
                }
                None => (ConditionOutcome::Undecided, found.why_undecided().unwrap_or_default()),
            },
            // At the highest rate that passes.
            ConditionFigure::Goodput => {
                let is_it = |stage: &&StageFigures| {
                    stage.target == *name && stage.request_rate.is_some() && stage.request_rate == found.passes
                };
                match stages.iter().rev().find(is_it) {
                    Some(stage) => self.of_stage(stage),
                    None => (ConditionOutcome::Undecided, format!("{name}: no rate passes")),
                }
            }
            _ => (ConditionOutcome::Undecided, Self::OF_TRIALS.to_owned()),
        }
    }

    fn of_stage(&self, stage: &StageFigures) -> (ConditionOutcome, String) {
        let (name, undecided) = (stage.name(), ConditionOutcome::Undecided);
        let measured = self.figure.of(stage);
        let trusted = measured.and_then(|measured| self.figure.trusted(measured, stage));
        let decided = self.within(&name, trusted.or(measured));
        match (decided, &stage.ended) {
            ((outcome, _), _) if !stage.is_trusted() && (trusted.is_none() || outcome == undecided) => {
                (undecided, format!("{name}: {}", stage.why_not().unwrap_or_default()))
            }
            // What was left out may be worse.
            ((ConditionOutcome::Met, _), Some(ended)) => (undecided, format!("{name}: {ended}")),
            ((outcome, text), _) => match self.figure.insufficient(stage) {
                Some(why) if outcome != ConditionOutcome::Met => (outcome, format!("{text}; p99 is {why}")),
                _ => (outcome, text),
            },
        }
    }

    fn within(&self, name: &str, estimate: Option<IntervalEstimate>) -> (ConditionOutcome, String) {
        let Some(estimate) = estimate else {
            return (ConditionOutcome::Undecided, format!("{name}: it has no such figure"));
        };
        let unit = match self.figure {
            ConditionFigure::Time(..) => " ms",
            _ => "",
        };
        let side = |side: Option<f64>| side.map_or("unknown".to_owned(), |value| format!("{value:.3}"));
        let text = format!("{name}: {:.3}{unit} ({} to {})", estimate.value, side(estimate.low), side(estimate.high));
        let (missed, met) = if self.above {
            (estimate.low.is_some_and(|low| low > self.limit), estimate.high.is_some_and(|high| high <= self.limit))
        } else {
            (estimate.high.is_some_and(|high| high < self.limit), estimate.low.is_some_and(|low| low >= self.limit))
        };
        match (missed, met) {
            (true, _) => (ConditionOutcome::Missed, text),
            (_, true) => (ConditionOutcome::Met, text),
            _ => (ConditionOutcome::Undecided, text),
        }
    }
}

impl ConditionFigure {
    fn named(name: &str) -> Option<ConditionFigure> {
        match name {
            "tok_s_all" => return Some(ConditionFigure::TokSAll),
            "failures" => return Some(ConditionFigure::Failures),
            "attainment" => return Some(ConditionFigure::Attainment),
            "goodput" => return Some(ConditionFigure::Goodput),
            "cost" => return Some(ConditionFigure::Cost),
            "rate" => return Some(ConditionFigure::Rate),
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
            ConditionFigure::Time(_, p) | ConditionFigure::TokS(p) => Some(at(&self.quantiles(stage)?, p)),
            ConditionFigure::TokSAll => stage.tok_s_all.map(exact),
            ConditionFigure::Failures => stage.failed_share,
            ConditionFigure::Attainment => stage.attainment,
            ConditionFigure::Goodput => Some(stage.attainment?.times(judged_per_second(stage))),
            ConditionFigure::Cost => {
                let Cost { cost_usd_min: low, cost_usd_max: high } = stage.cost;
                Some(IntervalEstimate { value: high.or(low)?, low, high })
            }
            ConditionFigure::Rate => None,
        }
    }
}

impl ConditionFigure {
    fn quantiles(self, stage: &StageFigures) -> Option<Quantiles> {
        match self {
            ConditionFigure::Time(TimedFigure::Ttft, _) => stage.ttft_ms,
            ConditionFigure::Time(TimedFigure::ClientTtft, _) => stage.client_ttft_ms,
            ConditionFigure::Time(TimedFigure::Tpot, _) => stage.tpot_ms,
            ConditionFigure::Time(TimedFigure::E2e, _) => stage.e2e_ms,
            ConditionFigure::TokS(_) => stage.tok_s,
            _ => None,
        }
    }

    /// Why it uses the bounds of p95 instead of its own.
    fn insufficient(self, stage: &StageFigures) -> Option<InsufficientSample> {
        self.quantiles(stage).filter(|_| self.is_p99())?.p99_insufficient
    }

    fn is_p99(self) -> bool {
        matches!(self, ConditionFigure::Time(_, p) | ConditionFigure::TokS(p) if p > 0.95)
    }

    /// The figure, as far as the client may have moved it: by its measured error at most. None: it shows nothing of the server.
    fn trusted(self, measured: IntervalEstimate, stage: &StageFigures) -> Option<IntervalEstimate> {
        if stage.is_trusted() || matches!(self, ConditionFigure::Failures | ConditionFigure::Cost) {
            return Some(measured);
        }
        // What fell short of the load that was asked for shows what a server does under less: it bounds one side.
        let starved = |side: Option<f64>| side.filter(|_| !stage.client.is_starved());
        let error = stage.client_error_ms?;
        let (low, high) = match self {
            ConditionFigure::Attainment => (starved(stage.attainment_within?.low), stage.attainment_within?.high),
            ConditionFigure::Goodput => {
                let within = stage.attainment_within?.times(judged_per_second(stage));
                (starved(within.low), within.high)
            }
            ConditionFigure::Time(TimedFigure::Tpot, _) => {
                // It moves the first or the last token, and those between share it.
                let error = stage.tpot_ms?.p50.value * error / generation_ms(stage)?;
                (measured.low.map(|low| low - error), starved(measured.high.map(|high| high + error)))
            }
            ConditionFigure::TokS(_) => {
                let share = error / generation_ms(stage)?;
                let high = measured.high.filter(|_| share < 1.0).map(|high| high / (1.0 - share));
                (starved(measured.low.map(|low| low / (1.0 + share))), high)
            }
            ConditionFigure::TokSAll => {
                let share = error / stage.e2e_ms?.p50.value;
                let high = measured.high.filter(|_| share < 1.0).map(|high| high / (1.0 - share));
                (starved(measured.low.map(|low| low / (1.0 + share))), starved(high))
            }
            ConditionFigure::Time(..) => {
                // Of its wake-ups one in a hundred is later than the error says: p95 is then what bounds p99 below.
                let low = if self.is_p99() { self.quantiles(stage)?.p95.low } else { measured.low };
                (low.map(|low| low - error), starved(measured.high.map(|high| high + error)))
            }
            ConditionFigure::Failures | ConditionFigure::Cost | ConditionFigure::Rate => return None,
        };
        Some(IntervalEstimate { value: measured.value, low, high })
    }
}

/// From the first token to the last of the median answer.
fn generation_ms(stage: &StageFigures) -> Option<f64> {
    Some(stage.e2e_ms?.p50.value - stage.ttft_ms?.p50.value).filter(|ms| *ms > 0.0)
}

/// Requests a second that count for attainment.
fn judged_per_second(stage: &StageFigures) -> f64 {
    (stage.requests() - stage.count(RequestEnd::CutShort)) as f64 / stage.seconds
}

/// A p99 of too few values is at least the p95.
fn at(quantiles: &Quantiles, p: f64) -> IntervalEstimate {
    match p {
        p if p <= 0.5 => quantiles.p50,
        p if p <= 0.9 => quantiles.p90,
        p if p <= 0.95 => quantiles.p95,
        _ => quantiles.p99.unwrap_or(IntervalEstimate { high: None, ..quantiles.p95 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stage::quantiles;
    use crate::bench::statistics::share_estimate;
    use crate::bench::trust::ClientLoad;
    use photofinish_config::units::parse_duration;

    fn read(text: &str) -> Result<FailIf, String> {
        FailIf::parse(text, |text| parse_duration(text).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_condition_is_met_missed_or_undecided() {
        let stage = |n: u32| StageFigures {
            ttft_ms: quantiles((0..n).map(|at| 100.0 + f64::from(at % 10))),
            ends: [(RequestEnd::Answered, n as usize)].into(),
            failed_share: Some(share_estimate(0.0, f64::from(n))),
            target: "a/m".to_owned(),
            users: Some(2),
            ..StageFigures::default()
        };
        let decide = |text: &str, stages: &[StageFigures]| {
            read(text).unwrap().decide(&RunResult { stages: stages.to_vec(), ..RunResult::default() })
        };
        let outcome = |text: &str, stages: &[StageFigures]| decide(text, stages).outcome;
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
        assert_eq!(outcome("ttft_p95>120ms", &[]), ConditionOutcome::Undecided);
        let ended = StageFigures { ended: Some("it answers no more: reset".to_owned()), ..many };
        let undecided = decide("ttft_p95>120ms", std::slice::from_ref(&ended));
        assert_eq!(
            undecided.why.as_deref(),
            Some("a/m, 2 users: it answers no more: reset"),
            "what is left is unknown"
        );
        assert_eq!(outcome("ttft_p95>90ms", &[ended]), ConditionOutcome::Missed);
    }

    /// A TTFT of 117 to 126 ms, answers of 2 s with 100 tokens; the client may have moved each time by 12 ms.
    fn late() -> StageFigures {
        let times = |ms: f64| quantiles((0..1_000).map(move |at| ms + f64::from(at % 10)));
        StageFigures {
            target: "a/m".to_owned(),
            users: Some(2),
            ttft_ms: times(117.0),
            e2e_ms: times(2_000.0),
            tok_s: times(50.0),
            tok_s_all: Some(100.0),
            seconds: 100.0,
            ends: [(RequestEnd::Answered, 1_000)].into(),
            failed_share: Some(share_estimate(0.0, 1_000.0)),
            attainment: Some(share_estimate(0.5, 1_000.0)),
            attainment_within: Some(IntervalEstimate { value: 0.5, low: Some(0.4), high: Some(0.6) }),
            client_error_ms: Some(12.0),
            doubts: vec!["late".to_owned()],
            ..StageFigures::default()
        }
    }

    #[test]
    fn the_figure_that_a_condition_names_is_trusted_or_not() {
        let late = late();
        let starved = StageFigures { client: ClientLoad { cpu_share: 0.9, ..ClientLoad::default() }, ..late.clone() };
        let older = StageFigures { client_error_ms: None, ..late.clone() };
        let few = StageFigures { ttft_ms: quantiles((0..100).map(|at| 117.0 + f64::from(at % 10))), ..late.clone() };
        let (met, undecided, missed) = (ConditionOutcome::Met, ConditionOutcome::Undecided, ConditionOutcome::Missed);
        for (stage, text, outcome) in [
            (&late, "ttft_p50>10ms", missed),
            (&late, "ttft_p50>105ms", missed),
            (&late, "ttft_p50>112ms", undecided),
            (&late, "ttft_p50>130ms", undecided),
            (&late, "ttft_p50>140ms", met),
            (&late, "ttft_p50>10s", met),
            (&late, "ttft_p99>10ms", missed),
            (&late, "ttft_p99>130ms", undecided),
            (&late, "ttft_p99>10s", met),
            (&late, "ttft_p50<10ms", met),
            (&late, "ttft_p50<1s", missed),
            (&late, "e2e_p50>1s", missed),
            (&late, "e2e_p95>3s", met),
            (&late, "e2e_p99>3s", met),
            (&late, "tok_s_p50<20", met),
            (&late, "tok_s_p50<54.3", undecided),
            (&late, "tok_s_p50<90", missed),
            (&late, "tok_s_all<50", met),
            (&late, "tok_s_all<100", undecided),
            (&late, "failures>1%", met),
            (&late, "attainment<30%", met),
            (&late, "attainment<50%", undecided),
            (&late, "attainment<90%", missed),
            (&late, "goodput<3", met),
            (&late, "goodput<5", undecided),
            (&starved, "ttft_p50>10ms", missed),
            (&starved, "ttft_p50>10s", undecided),
            (&starved, "e2e_p95>3s", undecided),
            (&starved, "tok_s_p50<90", missed),
            (&starved, "tok_s_p50<20", undecided),
            (&starved, "attainment<90%", missed),
            (&starved, "attainment<30%", undecided),
            (&older, "ttft_p50>10ms", undecided),
            (&older, "attainment<90%", undecided),
            (&few, "ttft_p99>10ms", missed),
        ] {
            let stages = vec![stage.clone()];
            let decided = read(text).unwrap().decide(&RunResult { stages, ..RunResult::default() });
            assert_eq!(decided.outcome, outcome, "{text}: {decided:?}");
        }
        let of = |stage: StageFigures, text: &str| {
            read(text).unwrap().decide(&RunResult { stages: vec![stage], ..RunResult::default() }).why.unwrap()
        };
        assert_eq!(of(late.clone(), "ttft_p50>112ms"), "a/m, 2 users: not trusted: late");
        let trusted = StageFigures { doubts: Vec::new(), ..few };
        assert_eq!(
            of(trusted, "ttft_p99>1s"),
            "a/m, 2 users: 126.000 ms (125.000 to unknown); p99 is insufficient: 100 of 662"
        );
    }

    #[test]
    fn a_search_is_judged_by_what_it_found() {
        let trial = |rate: f64, good: f64| StageFigures {
            target: "a/m".to_owned(),
            request_rate: Some(rate),
            seconds: 100.0,
            ends: [(RequestEnd::Answered, (rate * 100.0) as usize)].into(),
            attainment: Some(share_estimate(good, rate * 100.0)),
            ..StageFigures::default()
        };
        let found = |passes, fails| FoundRate { target: "a/m".to_owned(), passes, fails, ..FoundRate::default() };
        let run = |found| RunResult {
            found: vec![found],
            stages: vec![trial(8.0, 0.99), trial(16.0, 0.1)],
            ..RunResult::default()
        };
        let outcome = |text: &str, found| read(text).unwrap().decide(&run(found)).outcome;
        let (met, missed, undecided) = (ConditionOutcome::Met, ConditionOutcome::Missed, ConditionOutcome::Undecided);
        let whole = || found(Some(8.0), Some(8.8));
        assert_eq!(outcome("rate<8", whole()), met);
        assert_eq!(outcome("rate<9", whole()), missed);
        assert_eq!(outcome("rate<8.5", whole()), undecided, "the true rate may be on either side");
        assert_eq!(outcome("rate<8", found(None, Some(7.0))), missed);
        let why = read("rate<8").unwrap().decide(&run(found(None, None))).why;
        assert_eq!(why.as_deref(), Some("a/m: no rate passes or fails for certain"));
        assert_eq!(outcome("goodput<7", whole()), met, "of the trial that passes, not of the one that fails");
        assert_eq!(outcome("goodput<9", whole()), missed);
        assert_eq!(outcome("goodput<7", found(None, Some(7.0))), undecided);
        assert_eq!(outcome("attainment<90%", whole()), undecided, "a trial is meant to fail");
    }

    #[test]
    fn a_condition_that_the_run_cannot_have_is_wrong_use() {
        let check =
            |text: &str, is_search, has_slo| read(text).unwrap().check(is_search, has_slo).err().unwrap_or_default();
        assert!(check("rate<8", false, true).contains("rate is for --find rate"));
        assert!(check("goodput<8", false, false).contains("give --slo"));
        assert!(check("ttft_p95>1s", true, true).contains("on rate or goodput"));
        for (text, is_search, has_slo) in
            [("rate<8", true, true), ("goodput<8", false, true), ("ttft_p95>1s", false, false)]
        {
            assert_eq!(check(text, is_search, has_slo), "");
        }
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
