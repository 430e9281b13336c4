//! Writes a batch of records as one transaction of few statements.
//!
//! Statements cost more than rows. So a statement writes many rows, in one of three fixed sizes, and six prepared
//! statements serve every batch. An existing record stays unchanged, so a batch can be sent again when it is unclear
//! whether its commit succeeded. Not for reading.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::OpenError;
use super::columns;
use super::times::{DAY_US, HOUR_US, began_at, start_of};
use crate::history::table::Table;
use crate::history::{AttemptRecord, RaceRecord};

/// One row to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Race(Box<RaceRecord>),
    Attempt(Box<AttemptRecord>),
}

impl Record {
    /// The columns by name, as they are read back from the database.
    pub fn row(&self) -> super::ExportRow {
        match self {
            Record::Race(race) => columns::object(&**race),
            Record::Attempt(attempt) => columns::object(&**attempt),
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

    /// No transaction had begun.
    pub(super) fn sound(error: sqlx::Error) -> WriteError {
        WriteError { connection_is_sound: true, ..WriteError::unsound(error) }
    }

    /// A transaction may be open.
    pub(super) fn unsound(error: sqlx::Error) -> WriteError {
        WriteError { retry: may_pass(&error), reason: error.to_string(), connection_is_sound: false }
    }
}

/// The prepared statements, most rows first.
pub(super) struct Statements {
    race: [Statement; 3],
    attempt: [Statement; 3],
}

struct Statement {
    rows: usize,
    sql: Arc<str>,
}

impl Statements {
    pub(super) fn new() -> Statements {
        const ROWS: [usize; 3] = [100, 10, 1];
        Statements { race: ROWS.map(Statement::new::<RaceRecord>), attempt: ROWS.map(Statement::new::<AttemptRecord>) }
    }

    /// Writes the whole batch or nothing.
    pub(super) async fn write(&self, connection: &mut SqliteConnection, batch: &[Record]) -> Result<(), WriteError> {
        // A deferred transaction would fail at its first write, despite the busy timeout, if another process had
        // written.
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(WriteError::sound)?;
        let failed = WriteError::unsound;
        insert(&mut transaction, &self.race, batch.iter().filter_map(Record::race)).await.map_err(failed)?;
        insert(&mut transaction, &self.attempt, batch.iter().filter_map(Record::attempt)).await.map_err(failed)?;
        came(&mut transaction, batch.iter().map(Record::race_id)).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }
}

impl Statement {
    fn new<T: Table>(rows: usize) -> Statement {
        let row = format!("({})", vec!["?"; T::COLUMNS.len()].join(","));
        let values = vec![row; rows].join(",");
        let (table, columns) = (T::NAME, columns::names::<T>());
        Statement {
            rows,
            sql: format!("INSERT INTO {table} ({columns}) VALUES {values} ON CONFLICT DO NOTHING").into(),
        }
    }
}

impl Record {
    fn race_id(&self) -> &str {
        match self {
            Record::Race(race) => &race.race_id,
            Record::Attempt(attempt) => &attempt.race_id,
        }
    }

    fn race(&self) -> Option<&RaceRecord> {
        match self {
            Record::Race(race) => Some(race),
            Record::Attempt(_) => None,
        }
    }

    fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Record::Race(_) => None,
            Record::Attempt(attempt) => Some(attempt),
        }
    }
}

/// Marks the hours and days of these races, also unfinished ones: if the clock of another process is ahead, or this
/// clock was set back, they may be rolled up already.
pub(super) async fn came<'i>(
    connection: &mut SqliteConnection,
    race_ids: impl Iterator<Item = &'i str>,
) -> Result<(), sqlx::Error> {
    let spans = race_ids.map(began_at).flat_map(|at_us| [(1, start_of(at_us, HOUR_US)), (24, start_of(at_us, DAY_US))]);
    for (hours, start) in spans.collect::<BTreeSet<_>>() {
        sqlx::query(CAME).bind(hours).bind(start).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn insert<'r, T: Table + 'r>(
    connection: &mut SqliteConnection,
    statements: &[Statement; 3],
    records: impl Iterator<Item = &'r T>,
) -> Result<(), sqlx::Error> {
    let records: Vec<&T> = records.collect();
    let mut rest = records.as_slice();
    for statement in statements {
        while let Some((rows, left)) = rest.split_at_checked(statement.rows) {
            let arguments = bound(rows).map_err(sqlx::Error::Encode)?;
            sqlx::query_with(AssertSqlSafe(statement.sql.clone()), arguments).execute(&mut *connection).await?;
            rest = left;
        }
    }
    Ok(())
}

fn bound<T: Table>(rows: &[&T]) -> Result<SqliteArguments, BoxDynError> {
    let mut arguments = SqliteArguments::default();
    for row in rows {
        columns::bind(*row, &mut arguments)?;
    }
    Ok(arguments)
}

/// Whether the error may pass with time, or after the operator acts.
fn may_pass(error: &sqlx::Error) -> bool {
    use super::code::{BUSY, CANTOPEN, CORRUPT, FULL, IOERR, LOCKED, NOTADB, READONLY};
    match error {
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => true,
        error => super::code::primary(error)
            .is_some_and(|code| [BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN, CORRUPT, NOTADB].contains(&code)),
    }
}

/// Marks an hour or a day as having new rows, so that it is rolled up, or rolled up again. An hour whose old rows are
/// being removed (state 2) is not marked: its new rows are late by the whole retention, so they do not count.
pub(super) const CAME: &str = "\
    INSERT INTO rollup_span (hours, start, batches) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET batches = batches + 1, state = CASE state WHEN 2 THEN 2 ELSE 0 END";
