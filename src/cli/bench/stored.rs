//! Runs in the store: found by name, and listed.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::session::wrong;
use crate::cli::screen::ScreenSettings;
use crate::cli::sheet::{Sheet, SheetCell};
use crate::cli::text::{clean, or_dash};
use photofinish_history::report::question::time;
use photofinish_history::report::runs::{self, RunError, RunsQuestion};
use photofinish_history::store::StoreReader;
use photofinish_lab::bench::result::RunResult;

/// Runs that are listed: the newest.
const LISTED: u16 = 100;

/// # Errors
/// `WrongUse` if there is no such run, or several; or when the database cannot be read.
pub fn find(store: &Path, name: &str) -> anyhow::Result<RunResult> {
    let mut run = match runs::one(&StoreReader::open(store)?, name) {
        Ok(run) => run,
        Err(RunError::Read(error)) => return Err(error.into()),
        Err(unknown) => return Err(wrong(format!("{unknown} (photofinish bench --list)"))),
    };
    match run.remove("result") {
        Some(result @ Value::Object(_)) => serde_json::from_value(result)
            .map_err(|error| anyhow::anyhow!("the result of the run {name:?} cannot be read: {error}")),
        _ => Err(wrong(format!("the run {name:?} has not ended, so it has no result"))),
    }
}

/// The newest runs, as a table or as `GET /api/runs` has them.
pub fn list(store: &Path, json: bool, screen: ScreenSettings, out: &mut impl io::Write) -> anyhow::Result<()> {
    let question = RunsQuestion { limit: LISTED, before: None };
    let page = runs::page(&StoreReader::open(store)?, &question)?;
    if json {
        return Ok(writeln!(out, "{}", page.json())?);
    }
    let runs = page.runs;
    if runs.is_empty() {
        return Ok(writeln!(out, "No runs in {}. `photofinish bench --help` has examples.", store.display())?);
    }
    let row = |run: &serde_json::Map<String, Value>| -> Vec<SheetCell> {
        let text = |name: &str| run.get(name).and_then(Value::as_str).map(|text| clean(text).to_string());
        let began = run.get("started_at").and_then(Value::as_i64);
        let ended = run.get("ended_at").is_some_and(Value::is_i64);
        let cost = run.get("cost_usd").and_then(Value::as_f64);
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
