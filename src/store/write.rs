//! Writes a batch of records as one transaction of few statements.
//!
//! The cost is in the statements, not in the rows. So a statement writes many rows, in one of three fixed sizes, and
//! six prepared statements serve every batch. A record that is there already stays as it is, so a batch can be sent
//! again when nobody knows whether its commit succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::OpenError;
use super::columns::Row;
use super::times::{DAY_US, HOUR_US, began_at, start_of};
use crate::history::{AttemptRecord, RaceRecord};

/// One row to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Race(Box<RaceRecord>),
    Attempt(Box<AttemptRecord>),
}

impl Record {
    /// As it is read back from the database: the columns by their names.
    pub fn row(&self) -> super::Row {
        match self {
            Record::Race(race) => race.row(),
            Record::Attempt(attempt) => attempt.row(),
        }
    }
}

/// A batch was not written; no part of it was.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WriteError {
    /// Whether the same batch may succeed later: the database is locked or damaged, or its disk full or gone.
    pub retry: bool,
    reason: String,
    /// Whether the connection is as it was before: nothing had begun.
    pub(super) connection_is_sound: bool,
}

impl WriteError {
    /// The database cannot be opened at present.
    pub(super) fn unavailable(error: &OpenError) -> WriteError {
        WriteError { retry: true, reason: error.to_string(), connection_is_sound: false }
    }

    /// Nothing had begun.
    pub(super) fn sound(error: sqlx::Error) -> WriteError {
        WriteError { connection_is_sound: true, ..WriteError::unsound(error) }
    }

    /// The connection may be in the middle of something.
    pub(super) fn unsound(error: sqlx::Error) -> WriteError {
        WriteError { retry: may_pass(&error), reason: error.to_string(), connection_is_sound: false }
    }
}

/// The prepared texts, most rows first.
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

    /// Writes all of the batch or nothing of it.
    pub(super) async fn write(&self, connection: &mut SqliteConnection, batch: &[Record]) -> Result<(), WriteError> {
        // A deferred transaction would fail at its first write, whatever the busy timeout, if another had written.
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(WriteError::sound)?;
        let failed = WriteError::unsound;
        insert(&mut transaction, &self.race, batch.iter().filter_map(Record::race)).await.map_err(failed)?;
        insert(&mut transaction, &self.attempt, batch.iter().filter_map(Record::attempt)).await.map_err(failed)?;
        came(&mut transaction, batch.iter().map(Record::race_id)).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }
}

impl Statement {
    fn new<R: Row>(rows: usize) -> Statement {
        let row = format!("({})", vec!["?"; R::COLUMNS.len()].join(","));
        let values = vec![row; rows].join(",");
        let (table, columns) = (R::TABLE, R::COLUMNS.join(","));
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

/// Notes the hours and days that got rows of these races, also those that are not over: if another process's clock is
/// ahead, or this one was set back, they may be rolled up already.
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

async fn insert<'r, R: Row + 'r>(
    connection: &mut SqliteConnection,
    statements: &[Statement; 3],
    records: impl Iterator<Item = &'r R>,
) -> Result<(), sqlx::Error> {
    let records: Vec<&R> = records.collect();
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

fn bound<R: Row>(rows: &[&R]) -> Result<SqliteArguments, BoxDynError> {
    let mut arguments = SqliteArguments::default();
    for row in rows {
        row.bind(&mut arguments)?;
    }
    Ok(arguments)
}

/// Whether the error may pass with time, or by what the operator does.
fn may_pass(error: &sqlx::Error) -> bool {
    use super::code::{BUSY, CANTOPEN, CORRUPT, FULL, IOERR, LOCKED, NOTADB, READONLY};
    match error {
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => true,
        error => super::code::primary(error)
            .is_some_and(|code| [BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN, CORRUPT, NOTADB].contains(&code)),
    }
}

/// Marks an hour, or a day, as having new rows, so that it is rolled up, if need be again. An hour whose old rows are
/// being removed (state 2) stays as it is: these rows are late by the whole retention, too late to be counted.
pub(super) const CAME: &str = "\
    INSERT INTO rollup_span (hours, start, batches) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET batches = batches + 1, state = CASE state WHEN 2 THEN 2 ELSE 0 END";
