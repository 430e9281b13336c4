//! The declared columns for SQLite and for JSON: binds, reads and displays a cell.
//!
//! Not for the list of columns: see `history::record`.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use serde_json::{Map, Value};

use crate::history::table::{CellValue, Subset, Table};

/// The columns of a record, as a list for SQL.
pub(super) fn names<T: Table>() -> String {
    T::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(",")
}

/// Some columns, as a list for SQL, each with its table.
pub(super) fn select<S: Subset>() -> String {
    let table = <S::Record as Table>::NAME;
    S::NAMES.iter().map(|name| format!("{table}.{name}")).collect::<Vec<_>>().join(", ")
}

/// What an insert does where the record, the first column, is there already: it replaces one that has not ended.
pub(super) fn replaces_unended<T: Table>() -> String {
    let others = T::COLUMNS.iter().skip(1).map(|column| format!("{0} = excluded.{0}", column.name));
    let id = T::COLUMNS.first().map_or("", |column| column.name);
    format!(
        "ON CONFLICT ({id}) DO UPDATE SET {} WHERE {}.ended_at IS NULL OR excluded.ended_at IS NOT NULL",
        others.collect::<Vec<_>>().join(", "),
        T::NAME
    )
}

impl ToSql for CellValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            CellValue::Null => ValueRef::Null,
            CellValue::Integer(value) => ValueRef::Integer(value),
            CellValue::Real(value) => ValueRef::Real(value),
            CellValue::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

/// A record as the database would return it.
pub(super) fn object<T: Table>(record: &T) -> Map<String, Value> {
    T::COLUMNS.iter().zip(record.cells()).map(|(column, cell)| (column.name.to_owned(), json(cell))).collect()
}

pub(super) fn json(cell: CellValue<'_>) -> Value {
    match cell {
        CellValue::Null => Value::Null,
        CellValue::Integer(value) => value.into(),
        CellValue::Real(value) => value.into(),
        CellValue::Text(value) => value.into(),
    }
}

pub(super) fn cell<'r>(row: &'r rusqlite::Row<'_>, at: usize) -> rusqlite::Result<CellValue<'r>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(value) => CellValue::Integer(value),
        ValueRef::Real(value) => CellValue::Real(value),
        text @ ValueRef::Text(_) => CellValue::Text(text.as_str()?),
        ValueRef::Null | ValueRef::Blob(_) => CellValue::Null,
    })
}

/// A row whose columns were selected by [`select`], read from the first column on.
pub(super) struct RowReader<'r> {
    row: &'r rusqlite::Row<'r>,
    next: usize,
}

impl<'r> RowReader<'r> {
    pub(super) fn new(row: &'r rusqlite::Row<'r>) -> RowReader<'r> {
        RowReader { row, next: 0 }
    }

    /// Reads the columns of `subset`.
    pub(super) fn fill<S: Subset>(&mut self, subset: &mut S) -> rusqlite::Result<()> {
        subset.fill(|| {
            let cell = cell(self.row, self.next)?;
            self.next += 1;
            Ok(cell)
        })
    }

    pub(super) fn skip<S: Subset>(&mut self) {
        self.next += S::NAMES.len();
    }
}
