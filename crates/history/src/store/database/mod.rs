//! The seam between what reads and changes the history, and the engine that has it: SQLite in a file, or a Postgres server. It has the
//! few calls that the readers need, and nothing of either dialect but what [`crate::store::database::dialect`] rewrites.
//!
//! Not for writing rows in bulk, nor for opening: each engine has its own way.

pub(super) mod decoded;
pub(super) mod dialect;
pub(super) mod error;
pub(super) mod session;
mod waiting;

use std::ops::Deref;

use rusqlite::types::ValueRef;

pub(super) use crate::store::value::{FromValue, Id, Kind, Value, params};
use decoded::DecodedRow;
use dialect::dialect;
use error::PostgresError;
use photofinish_facts::record::table::CellValue;
use session::{CursorRows, PostgresSession, READING, WRITING};

/// An error of the engine, or of what it returned.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// It returned something else than was asked for.
    #[error("{0}")]
    Content(String),
}

impl DatabaseError {
    /// Whether it may pass with time, or after the operator acts.
    pub fn may_pass(&self) -> bool {
        match self {
            DatabaseError::Sqlite(error) => may_pass(error),
            DatabaseError::Postgres(error) => error.may_pass(),
            DatabaseError::Content(_) => false,
        }
    }

    /// Whether it concerns the whole database, or ends by itself soon.
    pub fn is_of_the_whole(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, OperationInterrupted, ReadOnly};
        match self {
            DatabaseError::Sqlite(error) => {
                let code = error.sqlite_error_code();
                matches!(code, Some(DatabaseBusy | DatabaseLocked | OperationInterrupted | CannotOpen | ReadOnly))
            }
            DatabaseError::Postgres(error) => error.is_of_the_server(),
            DatabaseError::Content(_) => false,
        }
    }

    /// Whether its deadline, or who asked, ended the statement.
    pub fn is_over(&self) -> bool {
        match self {
            DatabaseError::Sqlite(error) => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
            }
            DatabaseError::Postgres(error) => error.is_time_limit() || *error == PostgresError::Stopped,
            DatabaseError::Content(_) => false,
        }
    }

    /// With what a reader can do about it.
    pub fn advised(&self) -> String {
        match self {
            DatabaseError::Postgres(error) => error.advised(),
            error => error.to_string(),
        }
    }
}

/// Of SQLite.
fn may_pass(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, FileLockingProtocolFailed, NotADatabase,
        OperationInterrupted, OutOfMemory, PermissionDenied, ReadOnly, SchemaChanged, SystemIoFailure,
    };
    matches!(
        error.sqlite_error_code(),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseCorrupt
                | DatabaseLocked
                | DiskFull
                | FileLockingProtocolFailed
                | NotADatabase
                | OperationInterrupted
                | OutOfMemory
                | PermissionDenied
                | ReadOnly
                | SchemaChanged
                | SystemIoFailure
        )
    )
}

pub(super) type Result<T, E = DatabaseError> = std::result::Result<T, E>;

/// An open connection of one of the engines.
#[derive(Clone, Copy)]
pub(super) enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c PostgresSession),
}

impl<'c> Connection<'c> {
    pub fn prepare(&self, sql: &str) -> Result<Statement<'c>> {
        Ok(match *self {
            Connection::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Connection::Postgres(session) => Statement::Postgres(session, dialect(sql)),
        })
    }

    /// What `read` makes of the first row. None: there is none.
    pub fn find<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        read: impl FnOnce(AnswerRow<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        statement.query_few(parameters)?.next()?.map(read).transpose()
    }

    /// What `read` makes of the only row.
    pub fn one<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        read: impl FnOnce(AnswerRow<'_>) -> Result<T>,
    ) -> Result<T> {
        self.find(sql, parameters, read)?.ok_or_else(|| DatabaseError::Content("the answer has no row".to_owned()))
    }

    /// What `read` makes of each row: for few rows.
    pub fn all<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut read: impl FnMut(AnswerRow<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (mut statement, mut found) = (self.prepare(sql)?, Vec::new());
        let mut rows = statement.query_few(parameters)?;
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// The number of changed rows.
    pub fn execute(&self, sql: &str, parameters: &[Value<'_>]) -> Result<usize> {
        self.prepare(sql)?.execute(parameters)
    }

    /// One state of the database for all that is read until it is dropped.
    pub fn snapshot(&self) -> Result<Transaction<'c>> {
        self.begin("BEGIN", READING)
    }

    /// A transaction that changes something. It is rolled back unless it is committed.
    pub fn change(&self) -> Result<Transaction<'c>> {
        self.begin("BEGIN IMMEDIATE", WRITING)
    }

    fn begin(&self, sqlite: &str, postgres: &str) -> Result<Transaction<'c>> {
        let is_own = match *self {
            Connection::Sqlite(connection) => {
                connection.is_autocommit() && connection.execute_batch(sqlite).map(|()| true)?
            }
            Connection::Postgres(session) => session.begin(postgres)?,
        };
        Ok(Transaction { connection: *self, is_own })
    }

    /// Keeps others from changing this table until the end of the transaction. In SQLite the whole file is locked by then.
    pub fn lock(&self, table: &str) -> Result<()> {
        match self {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(session) => Ok(session.batch(&format!("LOCK TABLE {table} IN EXCLUSIVE MODE"))?),
        }
    }

    /// What locks the rows that a `SELECT` finds until the end of the transaction, at the end of its text. In SQLite the whole file is
    /// locked by then.
    pub fn for_update(&self) -> &'static str {
        match self {
            Connection::Sqlite(_) => "",
            Connection::Postgres(_) => " FOR UPDATE",
        }
    }
}

/// A transaction, or the part of one that has begun already.
pub(super) struct Transaction<'c> {
    connection: Connection<'c>,
    is_own: bool,
}

impl<'c> Deref for Transaction<'c> {
    type Target = Connection<'c>;

    fn deref(&self) -> &Connection<'c> {
        &self.connection
    }
}

impl Transaction<'_> {
    pub fn commit(mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_own) {
            return Ok(());
        }
        match self.connection {
            Connection::Sqlite(connection) => {
                let committed = connection.execute_batch("COMMIT");
                // One that failed goes on.
                self.is_own = !connection.is_autocommit();
                Ok(committed?)
            }
            Connection::Postgres(session) => Ok(session.end("COMMIT")?),
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_own {
            // Where it fails, the connection has failed, and with it the transaction.
            let _ = match self.connection {
                Connection::Sqlite(connection) => connection.execute_batch("ROLLBACK").map_err(DatabaseError::from),
                Connection::Postgres(session) => session.end("ROLLBACK").map_err(DatabaseError::from),
            };
        }
    }
}

pub(super) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c PostgresSession, String),
}

impl Statement<'_> {
    /// The rows, which Postgres sends in pieces of bounded size.
    pub fn query(&mut self, parameters: &[Value<'_>]) -> Result<AnswerRows<'_>> {
        Ok(match self {
            Statement::Sqlite(statement) => {
                AnswerRows::Sqlite(statement.query(rusqlite::params_from_iter(parameters))?)
            }
            Statement::Postgres(session, sql) => AnswerRows::Postgres(session.query(sql, parameters)?),
        })
    }

    /// The same for rows that are few: Postgres sends them at once.
    pub fn query_few(&mut self, parameters: &[Value<'_>]) -> Result<AnswerRows<'_>> {
        match self {
            Statement::Sqlite(_) => self.query(parameters),
            Statement::Postgres(session, sql) => Ok(AnswerRows::Postgres(session.query_few(sql, parameters)?)),
        }
    }

    pub fn execute(&mut self, parameters: &[Value<'_>]) -> Result<usize> {
        Ok(match self {
            Statement::Sqlite(statement) => statement.execute(rusqlite::params_from_iter(parameters))?,
            Statement::Postgres(session, sql) => session.execute(sql, parameters)?,
        })
    }
}

pub(super) enum AnswerRows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres(CursorRows<'s>),
}

impl AnswerRows<'_> {
    pub fn next(&mut self) -> Result<Option<AnswerRow<'_>>> {
        Ok(match self {
            AnswerRows::Sqlite(rows) => rows.next()?.map(AnswerRow::Sqlite),
            AnswerRows::Postgres(rows) => rows.next()?.map(AnswerRow::Postgres),
        })
    }
}

#[derive(Clone, Copy)]
pub(super) enum AnswerRow<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r DecodedRow),
}

impl<'r> AnswerRow<'r> {
    pub fn get<T: FromValue<'r>>(&self, at: usize) -> Result<T> {
        let value = match self {
            AnswerRow::Sqlite(row) => match row.get_ref(at)? {
                ValueRef::Null => Value::Null(Kind::Text),
                ValueRef::Integer(value) => Value::Integer(value),
                ValueRef::Real(value) => Value::Real(value),
                text @ ValueRef::Text(_) => Value::Text(text.as_str().map_err(rusqlite::Error::from)?),
                ValueRef::Blob(value) => Value::Blob(value),
            },
            AnswerRow::Postgres(row) => row.value(at),
        };
        T::from_value(value)
            .ok_or_else(|| DatabaseError::Content(format!("column {at} of the answer has an unknown form")))
    }

    /// As [`AnswerRow::get`], for cells of records.
    pub fn cell(&self, at: usize) -> Result<CellValue<'r>> {
        Ok(match self {
            AnswerRow::Sqlite(row) => match row.get_ref(at)? {
                ValueRef::Integer(value) => CellValue::Integer(value),
                ValueRef::Real(value) => CellValue::Real(value),
                text @ ValueRef::Text(_) => CellValue::Text(text.as_str().map_err(rusqlite::Error::from)?),
                ValueRef::Null | ValueRef::Blob(_) => CellValue::Null,
            },
            AnswerRow::Postgres(row) => match row.value(at) {
                Value::Integer(value) => CellValue::Integer(value),
                Value::Real(value) => CellValue::Real(value),
                Value::Text(value) | Value::Id(value) => CellValue::Text(value),
                Value::Null(_) | Value::Blob(_) => CellValue::Null,
            },
        })
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        match self {
            AnswerRow::Sqlite(row) => row.as_ref().column_names().into_iter().map(str::to_owned).collect(),
            AnswerRow::Postgres(row) => row.names(),
        }
    }
}
