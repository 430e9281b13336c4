//! Writes a batch of records as one transaction, with one prepared statement for each table.
//!
//! An existing race or attempt stays unchanged, so a batch can be sent again when it is unclear whether its commit
//! succeeded. A run is written when it begins and again when it ends.
//! Not for reading.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rusqlite::{Connection, TransactionBehavior, params_from_iter};

use super::OpenError;
use super::columns;
use super::times::{DAY_US, HOUR_US, began_at, start_of};
use crate::history::table::Table;
use crate::history::{AttemptRecord, RaceRecord, RunRecord};

/// One row to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Race(Box<RaceRecord>),
    Attempt(Box<AttemptRecord>),
    /// Replaces an earlier record of the run, unless that one has ended and this one has not.
    Run(Box<RunRecord>),
}

impl Record {
    /// The columns by name, as they are read back from the database.
    pub fn row(&self) -> super::ExportRow {
        match self {
            Record::Race(race) => columns::object(&**race),
            Record::Attempt(attempt) => columns::object(&**attempt),
            Record::Run(run) => columns::object(&**run),
        }
    }
}

/// No part of the batch was written.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WriteError {
    /// Whether the same batch may succeed later: the database is locked or damaged, or its disk is full or gone.
    pub retry: bool,
    reason: String,
    /// Whether the connection is unchanged: no transaction had begun.
    pub(super) connection_is_sound: bool,
}

impl WriteError {
    /// The database cannot be opened now.
    pub(super) fn unavailable(error: &OpenError) -> WriteError {
        WriteError { retry: true, reason: error.to_string(), connection_is_sound: false }
    }

    /// It panicked.
    pub fn panicked() -> WriteError {
        WriteError { retry: true, reason: "it panicked".to_owned(), connection_is_sound: false }
    }

    /// No transaction had begun.
    pub(super) fn sound(error: rusqlite::Error) -> WriteError {
        WriteError { connection_is_sound: true, ..WriteError::unsound(error) }
    }

    /// A transaction had begun.
    pub(super) fn unsound(error: rusqlite::Error) -> WriteError {
        WriteError { retry: may_pass(&error), reason: error.to_string(), connection_is_sound: false }
    }
}

/// Writes the whole batch or nothing.
pub(super) fn write(connection: &mut Connection, batch: &[Record]) -> Result<(), WriteError> {
    // A deferred transaction would fail at its first write, despite the busy timeout, if another process had written.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(WriteError::sound)?;
    rows(&transaction, batch).and_then(|()| transaction.commit()).map_err(WriteError::unsound)
}

fn rows(connection: &Connection, batch: &[Record]) -> rusqlite::Result<()> {
    static RACE: LazyLock<String> = LazyLock::new(insert_into::<RaceRecord>);
    static ATTEMPT: LazyLock<String> = LazyLock::new(insert_into::<AttemptRecord>);
    insert(connection, &RACE, batch.iter().filter_map(Record::race))?;
    static RUN: LazyLock<String> =
        LazyLock::new(|| format!("{} {}", into::<RunRecord>(), columns::replaces_unended::<RunRecord>()));
    insert(connection, &ATTEMPT, batch.iter().filter_map(Record::attempt))?;
    insert(connection, &RUN, batch.iter().filter_map(Record::run))?;
    came(connection, batch.iter().filter_map(Record::race_id))
}

/// Without records nothing is prepared: its table may be missing.
fn insert<'r, T: Table + 'r>(
    connection: &Connection,
    sql: &str,
    records: impl Iterator<Item = &'r T>,
) -> rusqlite::Result<()> {
    let mut records = records.peekable();
    if records.peek().is_none() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(sql)?;
    records.try_for_each(|record| statement.execute(params_from_iter(record.cells())).map(drop))
}

fn insert_into<T: Table>() -> String {
    format!("{} ON CONFLICT DO NOTHING", into::<T>())
}

fn into<T: Table>() -> String {
    let values = vec!["?"; T::COLUMNS.len()].join(",");
    format!("INSERT INTO {} ({}) VALUES ({values})", T::NAME, columns::names::<T>())
}

impl Record {
    /// None: it is of no race.
    pub fn race_id(&self) -> Option<&str> {
        match self {
            Record::Race(race) => Some(&race.race_id),
            Record::Attempt(attempt) => Some(&attempt.race_id),
            Record::Run(_) => None,
        }
    }

    fn race(&self) -> Option<&RaceRecord> {
        match self {
            Record::Race(race) => Some(race),
            Record::Attempt(_) | Record::Run(_) => None,
        }
    }

    fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Record::Attempt(attempt) => Some(attempt),
            Record::Race(_) | Record::Run(_) => None,
        }
    }

    fn run(&self) -> Option<&RunRecord> {
        match self {
            Record::Run(run) => Some(run),
            Record::Race(_) | Record::Attempt(_) => None,
        }
    }
}

/// Marks the hours and days of these races, also unfinished ones: if the clock of another process is ahead, or this
/// clock was set back, they may be rolled up already.
pub(super) fn came<'i>(connection: &Connection, race_ids: impl Iterator<Item = &'i str>) -> rusqlite::Result<()> {
    let spans = race_ids.map(began_at).flat_map(|at_us| [(1, start_of(at_us, HOUR_US)), (24, start_of(at_us, DAY_US))]);
    let mut came = connection.prepare_cached(CAME)?;
    spans.collect::<BTreeSet<(i64, i64)>>().into_iter().try_for_each(|span| came.execute(span).map(drop))
}

/// Whether the error may pass with time, or after the operator acts.
fn may_pass(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
    };
    matches!(
        error.sqlite_error_code(),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseCorrupt
                | DatabaseLocked
                | DiskFull
                | NotADatabase
                | ReadOnly
                | SystemIoFailure
        )
    )
}

/// Marks an hour or a day as having new rows, so that it is rolled up, or rolled up again. An hour whose old rows are
/// being removed (state 2) is not marked: its new rows are late by the whole retention, so they do not count.
pub(super) const CAME: &str = "\
    INSERT INTO rollup_span (hours, start, batches) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET batches = batches + 1, state = CASE state WHEN 2 THEN 2 ELSE 0 END";
