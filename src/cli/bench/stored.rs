//! Runs in the store: listed, shown, and compared with.

use std::io;
use std::path::Path;

use super::output::load_name;
use super::session::wrong;
use crate::bench::compare::{self, ComparedFigure, LoadComparison};
use crate::bench::result::RunResult;
use crate::cli::screen::ScreenSettings;
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{clean, or_dash};
use crate::history::RunKind;
use crate::report::question::time;
use crate::store::{RunFilter, RunSearch, StoreReader};

/// Runs that are listed: the newest.
const LISTED: usize = 100;

/// # Errors
/// `WrongUse` if there is no such run, or several; or when the database cannot be read.
pub fn find(store: &Path, name: &str) -> anyhow::Result<RunResult> {
    let reader = StoreReader::open(store)?;
    let run = match reader.run(name)? {
        RunSearch::Found(run) => run,
        RunSearch::Several(runs) => {
            let ids: Vec<&str> = runs.iter().filter_map(|run| run.get("run_id")?.as_str()).collect();
            return Err(wrong(format!("{name:?} is the beginning of several runs: {}", ids.join(", "))));
        }
        RunSearch::Nothing => {
            return Err(wrong(format!("there is no run {name:?}; `photofinish bench --list` lists them")));
        }
    };
    let result = run.get("result").and_then(|result| result.as_str());
    let Some(result) = result else {
        return Err(wrong(format!("the run {name:?} has not ended, so it has no result")));
    };
    serde_json::from_str(result)
        .map_err(|error| anyhow::anyhow!("the result of the run {name:?} cannot be read: {error}"))
}

pub fn list(store: &Path, screen: ScreenSettings, out: &mut impl io::Write) -> anyhow::Result<()> {
    let filter = RunFilter { kind: Some(RunKind::Bench), limit: LISTED, ..RunFilter::default() };
    let runs = StoreReader::open(store)?.runs(&filter)?;
    if runs.is_empty() {
        return Ok(writeln!(out, "No runs in {}. `photofinish bench --help` has examples.", store.display())?);
    }
    let row = |run: &crate::store::ExportRow| -> Vec<SheetCell> {
        let text = |name: &str| run.get(name).and_then(|value| value.as_str()).map(|text| clean(text).to_string());
        let began = run.get("started_at").and_then(|at| at.as_i64());
        let ended = run.get("ended_at").is_some_and(|at| at.is_i64());
        let cost = run.get("cost_usd").and_then(|cost| cost.as_f64());
        let cells = [
            text("run_id").unwrap_or_default(),
            or_dash(text("label"), |label| label),
            or_dash(began, time),
            text("target").unwrap_or_default(),
            or_dash(cost, |usd| format!("{usd:.4} USD")),
            if ended { text("trust").unwrap_or_default() } else { "has not ended".to_owned() },
        ];
        cells.into_iter().map(SheetCell::from).collect()
    };
    let sheet = Sheet {
        heads: ["run", "label", "began", "target", "cost", "trust"].map(str::to_owned).to_vec(),
        names: 6,
        rows: runs.iter().map(row).collect(),
    };
    Ok(sheet.write(screen.terminal(), out)?)
}

/// The stages of the same target and load, the later run against the earlier one. Only trusted stages count.
pub fn compare(base: &RunResult, other: &RunResult, margin: f64) -> Vec<LoadComparison> {
    let single = base.targets.len() == 1 && other.targets.len() == 1;
    let mut found: Vec<LoadComparison> = Vec::new();
    for stage in other.stages.iter().filter(|stage| stage.counts()) {
        let same = |earlier: &&crate::bench::figures::StageFigures| {
            earlier.counts()
                && (single || earlier.target == stage.target)
                && (earlier.users, earlier.request_rate) == (stage.users, stage.request_rate)
        };
        let Some(earlier) = base.stages.iter().find(same) else { continue };
        let load = load_name(stage);
        // The first level runs twice; it is compared once.
        if found.iter().any(|known| known.load == load && known.other == stage.target) {
            continue;
        }
        for figure in ComparedFigure::ALL {
            let Some((ratio, n)) = compare::of_stages(figure, earlier, stage) else { continue };
            let verdict = compare::judge(figure, &ratio, margin, n);
            found.push(LoadComparison {
                figure,
                base: base.label.clone().unwrap_or_else(|| base.run_id.clone()),
                other: stage.target.clone(),
                load: load.clone(),
                pairs: None,
                ratio,
                margin,
                verdict,
            });
        }
    }
    found
}
