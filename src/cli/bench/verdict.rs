//! Runs in the store, and what CI asked of one, decided: its conditions, its comparison with an earlier run, and whether a search
//! found something.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::options::BenchOptions;
use crate::cli::outcome::{CommandOutcome, WrongUse};
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{clean, or_dash, write_columns, write_folded};
use photofinish_config::StoreAddress;
use photofinish_facts::estimate::cost::Cost;
use photofinish_history::report::question::time;
use photofinish_history::report::runs::{self, RunError, RunsQuestion};
use photofinish_history::store::StoreReader;
use photofinish_lab::bench::compare::{Compared, LoadComparison, LoadVerdict};
use photofinish_lab::bench::condition::{ConditionOutcome, DecidedCondition, FailIf};
use photofinish_lab::bench::result::{self, RunResult};

/// The verdict on a run. What was not asked for is empty, and is not in the JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunVerdict {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<DecidedCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<LoadComparison>,
    /// Why something else cannot be decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
}

impl RunVerdict {
    pub fn new(result: &RunResult, base: Option<&RunResult>, options: &BenchOptions) -> RunVerdict {
        let Compared { comparisons, reasons } =
            base.map_or_else(Compared::default, |base| result::compare_runs(base, result, options.margin()));
        let searched = result.found.iter().filter(|_| options.find.is_some()).filter_map(|found| found.why_undecided());
        let is_measured =
            |target: &str| result.stages.iter().any(|stage| stage.target == target && stage.ttft_ms.is_some());
        let silent = result.targets.iter().filter(|target| !is_measured(target));
        let silent = silent.map(|target| format!("{target}: nothing was measured"));
        RunVerdict {
            conditions: options.fail_if.iter().map(|condition: &FailIf| condition.decide(result)).collect(),
            against: comparisons,
            undecided: silent.chain(searched).chain(reasons).collect(),
        }
    }

    /// The worst of what was asked for: missed, undecided, or done.
    pub fn outcome(&self) -> CommandOutcome {
        let of_comparison = |found: &LoadComparison| match found.verdict {
            LoadVerdict::Worse => ConditionOutcome::Missed,
            LoadVerdict::CannotTell { .. } => ConditionOutcome::Undecided,
            LoadVerdict::Better | LoadVerdict::Same => ConditionOutcome::Met,
        };
        let conditions = self.conditions.iter().map(|decided| decided.outcome);
        let reasons = self.undecided.iter().map(|_| ConditionOutcome::Undecided);
        match conditions.chain(self.against.iter().map(of_comparison)).chain(reasons).max() {
            Some(ConditionOutcome::Missed) => CommandOutcome::Missed,
            Some(ConditionOutcome::Undecided) => CommandOutcome::Undecided,
            Some(ConditionOutcome::Met) | None => CommandOutcome::Done,
        }
    }
}

/// Runs that are listed: the newest.
const LISTED: u16 = 100;

/// # Errors
/// `WrongUse` if there is no such run, or several; or when the database cannot be read.
pub fn find(store: &StoreAddress, name: &str) -> anyhow::Result<RunResult> {
    let mut run = match runs::one(&StoreReader::open(store)?, name) {
        Ok(run) => run,
        Err(RunError::Read(error)) => return Err(error.into()),
        Err(unknown) => return Err(WrongUse(format!("{unknown} (photofinish bench --list)")).into()),
    };
    match run.remove("result") {
        Some(result @ Value::Object(_)) => serde_json::from_value(result)
            .map_err(|error| anyhow::anyhow!("the result of the run {name:?} cannot be read: {error}")),
        _ => Err(WrongUse(format!("the run {name:?} has not ended, so it has no result")).into()),
    }
}

/// The newest runs, as a table or as `GET /api/runs` has them.
pub fn list(store: &StoreAddress, json: bool, screen: ScreenSettings, out: &mut impl io::Write) -> anyhow::Result<()> {
    let question = RunsQuestion { limit: LISTED, before: None };
    let page = runs::page(&StoreReader::open(store)?, &question)?;
    if json {
        return Ok(writeln!(out, "{}", page.json())?);
    }
    let runs = page.runs;
    if runs.is_empty() {
        let text = format!("No runs in {}. `photofinish bench --help` has examples.", store);
        return Ok(write_folded(&text, screen.columns(), out)?);
    }
    let row = |run: &serde_json::Map<String, Value>| -> Vec<String> {
        let text = |name: &str| run.get(name).and_then(Value::as_str).map(|text| clean(text).to_string());
        let began = run.get("started_at").and_then(Value::as_i64);
        let ended = run.get("ended_at").is_some_and(Value::is_i64);
        let cost = runs::cost(&Value::from(run.clone()));
        vec![
            text("run_id").unwrap_or_default(),
            or_dash(text("label"), |label| label),
            or_dash(began, time),
            text("target").unwrap_or_default(),
            if cost == Cost::default() { "–".to_owned() } else { cost.to_string() },
            if ended { text("trust").unwrap_or_default() } else { "has not ended".to_owned() },
        ]
    };
    let heads = ["run", "label", "began", "target", "cost", "trust"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = [heads].into_iter().chain(runs.iter().map(row)).collect();
    Ok(write_columns(" ", &rows, screen.columns(), out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::options::typed;
    use photofinish_lab::bench::compare::ComparedFigure;
    use photofinish_lab::bench::search::FoundRate;
    use photofinish_lab::bench::stage::StageFigures;
    use photofinish_lab::bench::stage::quantiles;
    use photofinish_lab::bench::statistics::IntervalEstimate;

    fn verdict(result: &RunResult, base: Option<&RunResult>, line: &str) -> RunVerdict {
        let words: Vec<&str> = std::iter::once("a/m").chain(line.split_whitespace()).collect();
        RunVerdict::new(result, base, &typed(&words).unwrap())
    }

    fn run(ms: f64) -> RunResult {
        let near = quantiles((0..400).map(|n| ms * (1.0 + f64::from(n % 7) / 1e3)));
        let target = "a/m".to_owned();
        let stage = StageFigures { target, users: Some(2), ttft_ms: near, e2e_ms: near, ..StageFigures::default() };
        RunResult { stages: vec![stage], targets: vec!["a/m".to_owned()], ..RunResult::default() }
    }

    #[test]
    fn nothing_asked_is_done() {
        let verdict = verdict(&run(100.0), None, "");
        assert_eq!(
            (verdict.outcome(), serde_json::to_string(&verdict).unwrap().as_str()),
            (CommandOutcome::Done, "{}")
        );
    }

    #[test]
    fn a_target_of_which_nothing_was_measured_is_undecided() {
        let targets = vec!["a/m".to_owned(), "b/m".to_owned()];
        for (result, said) in [
            (RunResult { stages: Vec::new(), ..run(100.0) }, "a/m: nothing was measured"),
            (RunResult { targets, ..run(100.0) }, "b/m: nothing was measured"),
        ] {
            let verdict = verdict(&result, None, "");
            assert_eq!((verdict.outcome(), verdict.undecided), (CommandOutcome::Undecided, vec![said.to_owned()]));
        }
    }

    #[test]
    fn the_worst_of_what_was_asked_for_decides() {
        let (fast, slow) = (run(100.0), run(200.0));
        let outcome = |line: &str| verdict(&slow, None, line).outcome();
        assert_eq!(outcome("--fail-if ttft_p50>1s"), CommandOutcome::Done);
        assert_eq!(outcome("--fail-if ttft_p50>1s --fail-if tok_s_p50<1"), CommandOutcome::Undecided);
        assert_eq!(outcome("--fail-if tok_s_p50<1 --fail-if ttft_p50>150ms"), CommandOutcome::Missed);
        let against = |base: &RunResult, other: &RunResult| verdict(other, Some(base), "--against main").outcome();
        assert_eq!(against(&fast, &fast), CommandOutcome::Done);
        assert_eq!(against(&slow, &fast), CommandOutcome::Done, "better");
        assert_eq!(against(&fast, &slow), CommandOutcome::Missed);
        let other = RunResult { prefix: 0.5, ..slow };
        assert_eq!(against(&fast, &other), CommandOutcome::Undecided);
    }

    #[test]
    fn a_comparison_that_cannot_tell_is_undecided() {
        let comparison = LoadComparison {
            figure: ComparedFigure::Ttft,
            base: String::new(),
            other: String::new(),
            load: String::new(),
            pairs: None,
            ratio: IntervalEstimate::default(),
            margin: 0.05,
            verdict: LoadVerdict::CannotTell { more: 1 },
        };
        let verdict = RunVerdict { against: vec![comparison], ..RunVerdict::default() };
        assert_eq!(verdict.outcome(), CommandOutcome::Undecided);
    }

    #[test]
    fn a_search_that_found_too_little_is_undecided() {
        let found = |passes, fails| FoundRate { target: "a/m".to_owned(), passes, fails, ..FoundRate::default() };
        let of = |found| verdict(&RunResult { found: vec![found], ..run(100.0) }, None, "--find rate --slo ttft=1s");
        assert_eq!(of(found(Some(1.0), Some(1.1))).outcome(), CommandOutcome::Done);
        let undecided = of(found(Some(1.0), None));
        assert_eq!((undecided.outcome(), undecided.undecided.len()), (CommandOutcome::Undecided, 1));
        let json = serde_json::to_value(&undecided).unwrap();
        assert_eq!(json["undecided"][0], "a/m: no rate was found that fails");
    }
}
