//! Copies a history from a file into another database: its rows, the figures of hours whose rows are gone, runs, incidents, accounts, the
//! audit, budgets and verdicts. It may be interrupted and repeated: what is there already stays as it is.
//!
//! Hours that have their rows are rolled up by the gateway of the other database.

use std::path::Path;

use rusqlite::types::Value as Cell;

use crate::store::accounts;
use crate::store::columns::{DAY_US, began_at, first_race_id, start_of};
use crate::store::database::{AnswerRow, Connection, DatabaseError, Kind, Result, Value, params};
use crate::store::open::{self, OpenError};
use crate::store::races::BEHIND_ALL;
use crate::store::rollup::{ATTEMPT_TO_STAY, RACE_TO_STAY};
use crate::store::spill::{self, WaitingRow};
use crate::store::write::{CAME, RowTable, WriteError};
use crate::store::{Store, Taken};
use photofinish_base::clock::wall_micros;
use photofinish_config::StoreAddress;

/// Races of one transaction.
const RACES_MAX: i64 = 1_000;

/// Rows of one statement of another table.
const LINES_MAX: usize = 500;

/// Older rows are not copied; the figures of their hours are. Postgres keeps no rows of a day that is this old.
const ROWS_KEPT_US: i64 = 399 * DAY_US;

/// What was copied so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Rows of races, attempts, runs and incidents that were read; those that are there already are among them.
    pub rows: u64,
    /// Those of them that the other database never takes.
    pub refused: u64,
    /// Hours whose figures were copied.
    pub hours: u64,
    /// Lines of other tables that were not there.
    pub lines: u64,
    /// Everything before this time is copied; microseconds since 1970, UTC.
    pub until_us: i64,
}

/// Why it ended early. What was copied stays.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the history to be copied: {0}")]
    Read(String),
    #[error("cannot write the copy: {0}")]
    Write(#[from] WriteError),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> CopyError {
        CopyError::Read(error.to_string())
    }
}

impl From<DatabaseError> for CopyError {
    fn from(error: DatabaseError) -> CopyError {
        CopyError::Read(error.to_string())
    }
}

/// Copies the history of the file `from` into `to`, which is made if need be. Blocks. `report` is called after each transaction.
///
/// # Errors
/// One of them cannot be opened, read or written.
pub fn copy_history(
    from: &Path,
    to: &StoreAddress,
    mut report: impl FnMut(CopyProgress),
) -> std::result::Result<CopyProgress, CopyError> {
    let (file, store) = (open::readable(from)?, Store::open(to)?);
    let source = Connection::Sqlite(&file);
    let mut progress = CopyProgress::default();
    let rows_from = start_of(wall_micros() - ROWS_KEPT_US, DAY_US);
    copy_hours(&file, &store, rows_from, &mut progress)?;
    for table in &OTHERS {
        progress.lines += copy_table(&file, &store, table)?;
    }
    report(progress);
    let mut rows = Vec::new();
    for table in [RowTable::Run, RowTable::Incident] {
        spill::read(&file, table, "true", &[], &mut rows)?;
    }
    put(&store, &rows, &mut progress)?;
    let mut next = Some(first_race_id(rows_from));
    while let Some(first) = next {
        let mut until = BEHIND_ALL.to_owned();
        for sql in [RACE_TO_STAY, ATTEMPT_TO_STAY] {
            let first = source.find(sql, params![&first, &until, RACES_MAX], |row| row.get(0))?;
            until = first.unwrap_or(until);
        }
        let mut rows = Vec::new();
        for table in [RowTable::Race, RowTable::Attempt] {
            spill::read(&file, table, "race_id >= ?1 AND race_id < ?2", &[&first, &until], &mut rows)?;
        }
        put(&store, &rows, &mut progress)?;
        progress.until_us = if until == BEHIND_ALL { wall_micros() } else { began_at(&until) };
        report(progress);
        next = (until != BEHIND_ALL).then_some(until);
    }
    store.close();
    Ok(progress)
}

fn put(store: &Store, rows: &[WaitingRow], progress: &mut CopyProgress) -> std::result::Result<(), WriteError> {
    if !rows.is_empty() {
        let refused = store.take_rows(rows)?;
        let Taken { refused, .. } = store.put_apart(rows, &refused);
        progress.refused += refused as u64;
        progress.rows += rows.len() as u64;
    }
    Ok(())
}

/// The figures of hours whose rows are gone, or too old to be copied.
fn copy_hours(
    file: &rusqlite::Connection,
    store: &Store,
    rows_from: i64,
    progress: &mut CopyProgress,
) -> std::result::Result<(), CopyError> {
    let read = |row: AnswerRow<'_>| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?));
    for (start, attempts) in Connection::Sqlite(file).all(GONE, params![rows_from], read)? {
        let cells = lines(file, &CELLS, &format!("hours = 1 AND start = {start}"))?;
        let there = store.change_all(|target| {
            if target.find(IS_COPIED, params![start], |_| Ok(()))?.is_some() {
                return Ok(Some("it is there".to_owned()));
            }
            target.execute("DELETE FROM rollup WHERE hours = 1 AND start = ?1", params![start])?;
            insert(target, &CELLS, &cells)?;
            target.execute(COPIED, params![start, attempts])?;
            target.execute(CAME, params![24_i64, start_of(start, DAY_US)])?;
            Ok(None)
        })?;
        progress.hours += u64::from(there.is_none());
    }
    Ok(())
}

const GONE: &str = "\
    SELECT start, attempts FROM rollup_span WHERE hours = 1 AND (state = 2 OR state = 1 AND start < ?1) ORDER BY start";

const IS_COPIED: &str = "SELECT start FROM rollup_span WHERE hours = 1 AND start = ?1 AND state = 2";

const COPIED: &str = "\
    INSERT INTO rollup_span (hours, start, attempts, batches, state) VALUES (1, ?1, ?2, 1, 2) \
    ON CONFLICT (hours, start) DO UPDATE SET attempts = excluded.attempts, state = 2";

/// A table that is copied as it is.
struct PlainTable {
    name: &'static str,
    columns: &'static str,
}

const CELLS: PlainTable = PlainTable {
    name: "rollup",
    columns: "hours, start, provider, model_sent, model, caller, team, caller_key, tags, attempts, wins, failures, empty, censored, ttft_samples, \
              cost_usd_min, cost_usd_max, extra_cost_usd_min, extra_cost_usd_max, total, parts",
};

const AUDIT: PlainTable = PlainTable { name: "audit", columns: "id, at, who, origin, subject, before, after" };

/// The audit first: running gateways see what follows by a line of it.
const OTHERS: [PlainTable; 7] = [
    AUDIT,
    PlainTable { name: "team", columns: "id, settings, version, changed_at" },
    PlainTable { name: "account", columns: "id, settings, version, changed_at" },
    PlainTable { name: "key", columns: "id, settings, version, changed_at, sha256" },
    PlainTable { name: "budget_window", columns: "subject, span, start, spent, reserved, estimated" },
    PlainTable { name: "verdict", columns: "at, model, host, fact, answer, reference, detail, wrong" },
    PlainTable { name: "sample", columns: "at, model, host, prompt, number, letters" },
];

/// Tables whose lines running gateways know.
const ACCOUNTS: [&str; 3] = ["team", "account", "key"];

/// The next number of the audit's lines, which were copied with theirs.
const GO_ON: &str = "SELECT setval(pg_get_serial_sequence('audit', 'id'), (SELECT max(id) FROM audit))";

/// Returns how many lines were not there.
fn copy_table(file: &rusqlite::Connection, store: &Store, table: &PlainTable) -> std::result::Result<u64, CopyError> {
    let all = lines(file, table, "true")?;
    let mut copied = 0;
    for some in all.chunks(LINES_MAX) {
        let count = std::cell::Cell::new(0);
        store.change_all(|target| {
            let (is_audit, is_account) = (table.name == AUDIT.name, ACCOUNTS.contains(&table.name));
            if is_audit || is_account {
                accounts::lock_audit(target)?;
            }
            count.set(if is_audit { insert_audit(target, some)? } else { insert(target, table, some)? });
            if is_account && count.get() > 0 {
                accounts::enter_copy(target, wall_micros())?;
            }
            Ok(None)
        })?;
        copied += count.get() as u64;
    }
    Ok(copied)
}

type Line = Vec<Cell>;

fn lines(file: &rusqlite::Connection, table: &PlainTable, condition: &str) -> Result<Vec<Line>> {
    let mut statement = file.prepare(&format!("SELECT {} FROM {} WHERE {condition}", table.columns, table.name))?;
    let count = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| (0..count).map(|at| row.get(at)).collect::<rusqlite::Result<Line>>();
    let lines = statement.query_map([], read)?.collect::<rusqlite::Result<Vec<Line>>>()?;
    Ok(lines)
}

/// As [`insert`], but both databases may have given the same number to different lines. So a line is left out if one that is equal in all but
/// its number is there, and gets a new number if its own is taken.
fn insert_audit(target: &Connection<'_>, lines: &[Line]) -> Result<usize> {
    let times =
        lines.iter().filter_map(|line| if let Some(Cell::Integer(at)) = line.get(1) { Some(*at) } else { None });
    let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    let there = target.all(SAME_TIME, params![first, last], |row| {
        let text = |at| row.get::<Option<&str>>(at).map(|text| text.map_or(Cell::Null, |text| Cell::Text(text.into())));
        Ok([Cell::Integer(row.get(0)?), text(1)?, text(2)?, text(3)?, text(4)?, text(5)?])
    })?;
    let mut next: i64 = target.one("SELECT coalesce(max(id), 0) + 1 FROM audit", &[], |row| row.get(0))?;
    let mut missing = Vec::new();
    for line in lines.iter().filter(|line| !there.iter().any(|there| line.ends_with(there))) {
        let mut line = line.clone();
        if let Some(Cell::Integer(id)) = line.first_mut() {
            *id = next.max(*id);
            next = *id + 1;
        }
        missing.push(line);
    }
    let count = insert(target, &AUDIT, &missing)?;
    if count > 0 && matches!(target, Connection::Postgres(_)) {
        target.find(GO_ON, &[], |_| Ok(()))?;
    }
    Ok(count)
}

const SAME_TIME: &str = "SELECT at, who, origin, subject, before, after FROM audit WHERE at BETWEEN ?1 AND ?2";

/// Returns how many of the lines were not there.
fn insert(target: &Connection<'_>, table: &PlainTable, lines: &[Line]) -> Result<usize> {
    let columns: Vec<&str> = table.columns.split(", ").map(str::trim).collect();
    let places: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    let (names, places) = (table.columns, places.join(", "));
    let sql = format!("INSERT INTO {} ({names}) VALUES ({places}) ON CONFLICT DO NOTHING", table.name);
    let mut statement = target.prepare(&sql)?;
    let mut count = 0;
    for line in lines {
        let null = |column: &&str| Value::Null(if column.contains("_usd") { Kind::Real } else { Kind::Text });
        let values = line.iter().zip(&columns).map(|(cell, column)| match cell {
            Cell::Null => null(column),
            Cell::Integer(value) => Value::Integer(*value),
            Cell::Real(value) => Value::Real(*value),
            Cell::Text(value) => Value::Text(value),
            Cell::Blob(value) => Value::Blob(value),
        });
        count += statement.execute(&values.collect::<Vec<_>>())?;
    }
    Ok(count)
}
