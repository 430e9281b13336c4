//! The seam between what reads and changes the history, and the engine that has it: SQLite in a file, or a Postgres server. It has the
//! few calls that the readers need, and nothing of either dialect but what [`super::postgres::dialect`] rewrites.
//!
//! Not for writing rows in bulk, nor for opening: each engine has its own way.

use std::ops::Deref;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use super::postgres::{self, Session};
use crate::record::table::{CellValue, SqlType};

/// An error of the engine, or of what it returned.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// It returned something else than was asked for.
    #[error("{0}")]
    Content(String),
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

/// The type of a parameter or a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Real,
    Text,
    Blob,
}

impl From<SqlType> for Kind {
    fn from(of: SqlType) -> Kind {
        match of {
            SqlType::Integer => Kind::Integer,
            SqlType::Real => Kind::Real,
            SqlType::Text => Kind::Text,
        }
    }
}

/// A parameter of a statement, or a cell of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'v> {
    Null(Kind),
    Integer(i64),
    Real(f64),
    Text(&'v str),
    Blob(&'v [u8]),
    /// A `race_id`, or the beginning of one: a text in SQLite, a `uuid` in Postgres.
    Id(&'v str),
}

/// A `race_id` as a parameter.
pub(super) struct Id<T>(pub T);

impl<'v> From<Id<&'v str>> for Value<'v> {
    fn from(id: Id<&'v str>) -> Value<'v> {
        Value::Id(id.0)
    }
}

impl<'v> From<Id<&'v String>> for Value<'v> {
    fn from(id: Id<&'v String>) -> Value<'v> {
        Value::Id(id.0)
    }
}

macro_rules! parameter {
    ($($type:ty: $kind:ident, |$value:ident| $converted:expr;)+) => { $(
        impl<'v> From<$type> for Value<'v> {
            fn from($value: $type) -> Value<'v> {
                Value::$kind($converted)
            }
        }

        impl<'v> From<Option<$type>> for Value<'v> {
            fn from(value: Option<$type>) -> Value<'v> {
                value.map_or(Value::Null(Kind::$kind), Value::from)
            }
        }
    )+ };
}

parameter! {
    i64: Integer, |value| value;
    u8: Integer, |value| i64::from(value);
    u16: Integer, |value| i64::from(value);
    u64: Integer, |value| i64::try_from(value).unwrap_or(i64::MAX);
    usize: Integer, |value| i64::try_from(value).unwrap_or(i64::MAX);
    bool: Integer, |value| i64::from(value);
    f64: Real, |value| value;
    &'v str: Text, |value| value;
    &'v String: Text, |value| value;
    &'v [u8]: Blob, |value| value;
    &'v [u8; 32]: Blob, |value| value;
    &'v Vec<u8>: Blob, |value| value;
}

/// The parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::store::database::Value::from($value)),*] };
}

pub(super) use params;

impl<'v> Value<'v> {
    /// A cell of a record, of a column of this type.
    pub fn of(cell: CellValue<'v>, kind: Kind) -> Value<'v> {
        match cell {
            CellValue::Null => Value::Null(kind),
            CellValue::Integer(value) => Value::Integer(value),
            CellValue::Real(value) => Value::Real(value),
            CellValue::Text(value) => Value::Text(value),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Null(_) => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(value),
            Value::Real(value) => ValueRef::Real(value),
            Value::Text(value) | Value::Id(value) => ValueRef::Text(value.as_bytes()),
            Value::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

/// What a cell can be read as.
pub(super) trait FromValue<'r>: Sized {
    /// None: it is of another type.
    fn from_value(value: Value<'r>) -> Option<Self>;
}

macro_rules! readable {
    ($($type:ty: $pattern:pat => $read:expr;)+) => { $(impl<'r> FromValue<'r> for $type {
        fn from_value(value: Value<'r>) -> Option<$type> {
            if let $pattern = value { $read } else { None }
        }
    })+ };
}

readable! {
    i64: Value::Integer(value) => Some(value);
    u64: Value::Integer(value) => u64::try_from(value).ok();
    usize: Value::Integer(value) => usize::try_from(value).ok();
    bool: Value::Integer(value) => Some(value != 0);
    f64: Value::Real(value) => Some(value);
    &'r str: Value::Text(value) => Some(value);
    String: Value::Text(value) => Some(value.to_owned());
    &'r [u8]: Value::Blob(value) => Some(value);
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn from_value(value: Value<'r>) -> Option<Option<T>> {
        match value {
            Value::Null(_) => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// An open connection of one of the engines.
#[derive(Clone, Copy)]
pub(super) enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c Session),
}

impl<'c> Connection<'c> {
    pub fn prepare(&self, sql: &str) -> Result<Statement<'c>> {
        Ok(match *self {
            Connection::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Connection::Postgres(session) => Statement::Postgres(session, postgres::dialect(sql)),
        })
    }

    /// What `read` makes of the first row. None: there is none.
    pub fn find<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        read: impl FnOnce(Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        statement.query_few(parameters)?.next()?.map(read).transpose()
    }

    /// What `read` makes of the only row.
    pub fn one<T>(&self, sql: &str, parameters: &[Value<'_>], read: impl FnOnce(Row<'_>) -> Result<T>) -> Result<T> {
        self.find(sql, parameters, read)?.ok_or_else(|| Error::Content("the answer has no row".to_owned()))
    }

    /// What `read` makes of each row: for few rows.
    pub fn all<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T>,
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
        self.begin("BEGIN", postgres::READING)
    }

    /// A transaction that changes something. It is rolled back unless it is committed.
    pub fn change(&self) -> Result<Transaction<'c>> {
        self.begin("BEGIN IMMEDIATE", postgres::WRITING)
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
                Connection::Sqlite(connection) => connection.execute_batch("ROLLBACK").map_err(Error::from),
                Connection::Postgres(session) => session.end("ROLLBACK").map_err(Error::from),
            };
        }
    }
}

pub(super) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c Session, String),
}

impl Statement<'_> {
    /// The rows, which Postgres sends in pieces of bounded size.
    pub fn query(&mut self, parameters: &[Value<'_>]) -> Result<Rows<'_>> {
        Ok(match self {
            Statement::Sqlite(statement) => Rows::Sqlite(statement.query(rusqlite::params_from_iter(parameters))?),
            Statement::Postgres(session, sql) => Rows::Postgres(session.query(sql, parameters)?),
        })
    }

    /// The same for rows that are few: Postgres sends them at once.
    pub fn query_few(&mut self, parameters: &[Value<'_>]) -> Result<Rows<'_>> {
        match self {
            Statement::Sqlite(_) => self.query(parameters),
            Statement::Postgres(session, sql) => Ok(Rows::Postgres(session.query_few(sql, parameters)?)),
        }
    }

    pub fn execute(&mut self, parameters: &[Value<'_>]) -> Result<usize> {
        Ok(match self {
            Statement::Sqlite(statement) => statement.execute(rusqlite::params_from_iter(parameters))?,
            Statement::Postgres(session, sql) => session.execute(sql, parameters)?,
        })
    }
}

pub(super) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres(postgres::Rows<'s>),
}

impl Rows<'_> {
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(match self {
            Rows::Sqlite(rows) => rows.next()?.map(Row::Sqlite),
            Rows::Postgres(rows) => rows.next()?.map(Row::Postgres),
        })
    }
}

#[derive(Clone, Copy)]
pub(super) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r postgres::DecodedRow),
}

impl<'r> Row<'r> {
    pub fn get<T: FromValue<'r>>(&self, at: usize) -> Result<T> {
        let value = match self {
            Row::Sqlite(row) => match row.get_ref(at)? {
                ValueRef::Null => Value::Null(Kind::Text),
                ValueRef::Integer(value) => Value::Integer(value),
                ValueRef::Real(value) => Value::Real(value),
                text @ ValueRef::Text(_) => Value::Text(text.as_str().map_err(rusqlite::Error::from)?),
                ValueRef::Blob(value) => Value::Blob(value),
            },
            Row::Postgres(row) => row.value(at),
        };
        T::from_value(value).ok_or_else(|| Error::Content(format!("column {at} of the answer has an unknown form")))
    }

    /// As [`Row::get`], for cells of records.
    pub fn cell(&self, at: usize) -> Result<CellValue<'r>> {
        Ok(match self {
            Row::Sqlite(row) => match row.get_ref(at)? {
                ValueRef::Integer(value) => CellValue::Integer(value),
                ValueRef::Real(value) => CellValue::Real(value),
                text @ ValueRef::Text(_) => CellValue::Text(text.as_str().map_err(rusqlite::Error::from)?),
                ValueRef::Null | ValueRef::Blob(_) => CellValue::Null,
            },
            Row::Postgres(row) => match row.value(at) {
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
            Row::Sqlite(row) => row.as_ref().column_names().into_iter().map(str::to_owned).collect(),
            Row::Postgres(row) => row.names(),
        }
    }
}
