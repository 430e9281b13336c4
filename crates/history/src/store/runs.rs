//! Reads runs of benchmarks, and the rows that they made.
//!
//! Not for figures.

use std::ops::ControlFlow;

use crate::store::columns::{first_race_id, whole};
use crate::store::database::{Connection, Id, Result, params};
use crate::store::races::{BEHIND_ALL, ExportRow, each_row, rows};
use crate::store::reader::{ReadError, StoreReader};
use crate::store::selection::SourceFilter;
use photofinish_facts::record::AttemptRecord;

/// The selected runs: all conditions that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Begun at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// With a smaller id than this.
    pub before: Option<String>,
    /// At most this many, the newest.
    pub limit: usize,
}

/// The run that a name means.
#[derive(Clone, Debug, PartialEq)]
pub enum RunSearch {
    Found(Box<ExportRow>),
    /// Several ids begin so: the newest, two at least.
    Several(Vec<ExportRow>),
    Nothing,
}

pub(super) const PAGE: &str = "\
    SELECT * FROM run WHERE run_id < ?1 AND started_at >= ?2 ORDER BY run_id DESC LIMIT ?3";

const OF_ID: &str = "SELECT * FROM run WHERE run_id = ?1";

const OF_LABEL: &str = "SELECT * FROM run WHERE label = ?1 ORDER BY run_id DESC LIMIT 1";

/// `?2` sorts after every id that begins with `?1`.
const OF_PREFIX: &str = "SELECT * FROM run WHERE run_id >= ?1 AND run_id < ?2 ORDER BY run_id DESC LIMIT ?3";

const NAMES: &str = "SELECT run_id, label FROM run ORDER BY run_id DESC LIMIT ?1";

/// Runs of one name that a search lists.
const LISTED_MAX: u8 = 10;
/// Runs whose names are read at most: the newest.
const NAMES_MAX: u16 = 500;

/// Each attempt with the columns of its race that only the race has.
fn of_run() -> String {
    format!(
        "SELECT {}, race.started_at, race.model, race.workload, race.scheduled_us, race.done_us, \
                race.outcome AS race_outcome, speed.ttft_ms, speed.tpot_ms, speed.tok_s \
         FROM race JOIN attempt ON attempt.race_id = race.race_id \
              JOIN attempt_speed_all AS speed ON speed.race_id = attempt.race_id AND speed.ordinal = attempt.ordinal \
         WHERE {} AND race.race_id >= ?1 AND race.race_id < ?2 AND race.run_id = ?3 \
         ORDER BY race.race_id, attempt.ordinal",
        whole::<AttemptRecord>(),
        SourceFilter::Bench.condition()
    )
}

impl StoreReader {
    /// Newest first.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<ExportRow>, ReadError> {
        let before = filter.before.as_deref().unwrap_or(BEHIND_ALL);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let since = filter.since.unwrap_or(i64::MIN);
        self.ask(|connection| rows(connection, PAGE, params![before, since, limit]))
    }

    /// The run with this id, else the newest with this label, else the one whose id begins so.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn run(&self, name: &str) -> Result<RunSearch, ReadError> {
        self.ask(|connection| search(connection, name))
    }

    /// The labels and the ids of the newest runs.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn run_names(&self) -> Result<Vec<String>, ReadError> {
        let runs = self.ask(|connection| rows(connection, NAMES, params![NAMES_MAX]))?;
        let text = |run: &ExportRow, name: &str| run.get(name)?.as_str().map(str::to_owned);
        Ok(runs.iter().flat_map(|run| [text(run, "label"), text(run, "run_id")]).flatten().collect())
    }

    /// Passes each attempt of a run to `each`, oldest first, until it breaks. `began_at`, `ended_at`: of the run;
    /// microseconds since 1970, UTC.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn rows_of_run(
        &self,
        run_id: &str,
        (began_at, ended_at): (i64, Option<i64>),
        each: impl FnMut(ExportRow) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let until = ended_at.map_or_else(|| BEHIND_ALL.to_owned(), |at| first_race_id(at.saturating_add(SPARE_US)));
        let since = first_race_id(began_at.saturating_sub(SPARE_US));
        self.ask(|connection| each_row(connection, &of_run(), params![Id(&since), Id(&until), run_id], each))
    }
}

/// Rows are searched this long before and after their run: the wall clock may have been set meanwhile. Microseconds.
const SPARE_US: i64 = 3_600_000_000;

fn search(connection: &Connection<'_>, name: &str) -> Result<RunSearch> {
    for sql in [OF_ID, OF_LABEL] {
        if let Some(run) = rows(connection, sql, params![name])?.pop() {
            return Ok(RunSearch::Found(Box::new(run)));
        }
    }
    let is_prefix = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_prefix {
        return Ok(RunSearch::Nothing);
    }
    let name = name.to_ascii_lowercase();
    let mut found = rows(connection, OF_PREFIX, params![&name, &format!("{name}{BEHIND_ALL}"), LISTED_MAX])?;
    Ok(match found.len() {
        0 => RunSearch::Nothing,
        1 => found.pop().map_or(RunSearch::Nothing, |run| RunSearch::Found(Box::new(run))),
        _ => RunSearch::Several(found),
    })
}
