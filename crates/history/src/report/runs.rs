//! Runs of benchmarks: pages of them, newest first, and one by its name.
//!
//! Not for their figures: a run brings its own, as `result`.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::members::{MemberField, members, text};
use super::races::{limit, race_id};
use crate::store::{ExportRow, ReadError, RunFilter, RunSearch, StoreReader};
use photofinish_config::nearest;
use photofinish_facts::estimate::cost::Cost;

const RUNS_BY_DEFAULT: u16 = 50;

/// Which runs.
#[derive(Args, Clone, Debug)]
pub struct RunsQuestion {
    /// Maximum number of runs, the newest first; 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = RUNS_BY_DEFAULT, value_parser = limit, allow_hyphen_values = true)]
    pub limit: u16,
    /// Only runs that began before this one: `next` of the page before.
    #[arg(long, value_name = "RUN_ID", value_parser = race_id)]
    pub before: Option<String>,
}

/// The times of a run, after its columns.
pub const OF_RUN: [MemberField; 2] = [
    text("started", "`started_at` in the format of RFC 3339"),
    text("ended", "`ended_at` likewise; null while it runs").or_null(),
];

/// A page of runs.
#[derive(Clone, Debug)]
pub struct RunsPage {
    /// Newest first, without `result`.
    pub runs: Vec<Map<String, Value>>,
    /// The `before` of the next page, if there is one.
    pub next: Option<String>,
}

members! {
    /// Runs, newest first.
    pub RUN_PAGE: page_object(of: &RunsPage) {
        runs: List("Run", usize::MAX) = of.runs;
        /// the value of `before` for the next page; null on the last page
        next: Text or_null = of.next;
    }
}

impl RunsPage {
    pub fn json(&self) -> Value {
        page_object(self).into()
    }
}

/// Reads a page.
///
/// # Errors
/// For an operator.
pub fn page(reader: &StoreReader, question: &RunsQuestion) -> Result<RunsPage, ReadError> {
    let limit = usize::from(question.limit);
    // One more shows whether there is a next page.
    let filter = RunFilter { since: None, before: question.before.clone(), limit: limit + 1 };
    let mut runs = reader.runs(&filter)?;
    let more = runs.len() > limit;
    runs.truncate(limit);
    let last = || Some(runs.last()?.get("run_id")?.as_str()?.to_owned());
    let next = if more { last() } else { None };
    let without_result = |mut run: ExportRow| {
        run.remove("result");
        readable(run)
    };
    Ok(RunsPage { runs: runs.into_iter().map(without_result).collect(), next })
}

/// Why a name means no run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("no run has the id or the label '{name}', or an id that begins so{}", did_you_mean(nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String> },
    #[error("'{name}' begins the ids of several runs: {}", ids.join(", "))]
    Several { name: String, ids: Vec<String> },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The run with this id, else the newest with this label, else the one whose id begins so; with its result.
///
/// # Errors
/// For an operator.
pub fn one(reader: &StoreReader, name: &str) -> Result<Map<String, Value>, RunError> {
    let name = name.to_owned();
    match reader.run(&name)? {
        RunSearch::Found(run) => Ok(readable(*run)),
        RunSearch::Several(runs) => {
            let ids = runs.iter().filter_map(|run| run.get("run_id")?.as_str().map(str::to_owned)).collect();
            Err(RunError::Several { name, ids })
        }
        RunSearch::Nothing => {
            let names = reader.run_names()?;
            let nearest = nearest(&name, names.iter().map(String::as_str), 1).pop();
            Err(RunError::Unknown { name, nearest })
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
}

/// What a run cost, by its row or its result.
pub fn cost(run: &Value) -> Cost {
    let bound = |name: &str| run[name].as_f64();
    Cost { cost_usd_min: bound("cost_usd_min"), cost_usd_max: bound("cost_usd_max") }
}

/// The row with its times as text, and what it has as JSON text as JSON.
pub(super) fn readable(mut run: ExportRow) -> Map<String, Value> {
    for name in ["spec", "result"] {
        if let Some(value) = run.get_mut(name)
            && let Some(text) = value.as_str()
        {
            *value = serde_json::from_str(text).unwrap_or_default();
        }
    }
    for (column, name) in [("started_at", "started"), ("ended_at", "ended")] {
        let at = run.get(column).and_then(Value::as_i64);
        let at = at.and_then(|at| Timestamp::from_microsecond(at).ok());
        run.insert(name.to_owned(), json!(at.map(|at| format!("{at:.6}"))));
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::question::from_pairs;
    use crate::store::Store;
    use photofinish_facts::record::{Record, RunRecord, sample};

    fn stored(numbers: std::ops::Range<i64>) -> (tempfile::TempDir, StoreReader) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let store = Store::open(&path).unwrap();
        let run = |n: i64| Record::Run(Box::new(RunRecord { label: None, ..sample::run(n) }));
        store.write(&numbers.map(run).collect::<Vec<_>>()).unwrap();
        store.close();
        let reader = StoreReader::open(&path).unwrap();
        (directory, reader)
    }

    fn asked(pairs: &[(&str, &str)]) -> RunsQuestion {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        from_pairs(&pairs).unwrap()
    }

    #[test]
    fn every_run_is_on_one_page() {
        let (_directory, reader) = stored(0..7);
        let (mut seen, mut before) = (Vec::new(), None::<String>);
        loop {
            let question = RunsQuestion { before: before.take(), ..asked(&[("limit", "3")]) };
            let page = page(&reader, &question).unwrap();
            seen.extend(page.runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()));
            assert!(page.runs.iter().all(|run| run.get("result").is_none()), "a page is small");
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..7).rev().map(sample::race_id).collect::<Vec<_>>());
    }

    #[test]
    fn an_unknown_label_has_the_nearest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let store = Store::open(&path).unwrap();
        let run =
            |n: i64, label: &str| Record::Run(Box::new(RunRecord { label: Some(label.to_owned()), ..sample::run(n) }));
        store.write(&[run(0, "nightly"), run(1, "main")]).unwrap();
        store.close();
        let unknown = one(&StoreReader::open(&path).unwrap(), "nigthly").unwrap_err().to_string();
        assert_eq!(unknown, "no run has the id or the label 'nigthly', or an id that begins so; did you mean nightly?");
    }

    #[test]
    fn one_run_has_its_result_as_json() {
        let (_directory, reader) = stored(0..2);
        let run = one(&reader, &sample::race_id(1)).unwrap();
        assert_eq!((&run["spec"]["from"], &run["result"]), (&json!("Frankfurt"), &json!({"stages": []})));
        assert_eq!(run["started"], "2026-01-02T03:04:05.001000Z");
        let unknown = one(&reader, "x").unwrap_err().to_string();
        assert!(unknown.contains("'x'") && !unknown.contains("did you mean"), "{unknown}");
        let id = sample::race_id(1);
        let mistyped = format!("{}x", &id[..id.len() - 1]);
        let unknown = one(&reader, &mistyped).unwrap_err().to_string();
        assert!(
            unknown.ends_with(&format!("did you mean {}?", sample::race_id(0)))
                || unknown.ends_with(&format!("did you mean {id}?")),
            "{unknown}"
        );
        let several = one(&reader, &sample::race_id(1)[..8]).unwrap_err().to_string();
        assert!(several.contains(&sample::race_id(0)) && several.contains(&sample::race_id(1)), "{several}");
    }
}
