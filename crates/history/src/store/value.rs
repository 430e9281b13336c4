//! The parameters and the cells of statements, for both engines.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use photofinish_facts::record::table::{CellValue, SqlType};

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
    ($($value:expr),* $(,)?) => { &[$($crate::store::value::Value::from($value)),*] };
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
