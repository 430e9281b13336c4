//! The rows of a spill file as they are read, to be written into another database: see `spill`.

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};
use serde_json::{Map, Value};

use super::columns::names;
use super::write::{RowTable, TableRow};
use crate::history::table::{Column, Table as _};
use crate::history::{AttemptRecord, RaceRecord, RunRecord};

/// A row with its cells in the order of the declaration.
pub(super) struct WaitingRow {
    table: RowTable,
    race_id: Option<String>,
    cells: Vec<Cell>,
    /// A text that is none. It is kept with marks in the place of what makes no sense.
    is_garbled: bool,
}

impl TableRow for WaitingRow {
    fn table(&self) -> RowTable {
        self.table
    }

    fn race_id(&self) -> Option<&str> {
        self.race_id.as_deref()
    }

    fn insert(&self, statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
        if self.is_garbled {
            return Err(rusqlite::Error::ToSqlConversionFailure("a text in it is not valid UTF-8".into()));
        }
        statement.execute(params_from_iter(&self.cells))
    }

    fn shown(&self) -> Map<String, Value> {
        let shown = |cell: &Cell| match cell {
            Cell::Integer(value) => Value::from(*value),
            Cell::Real(value) => Value::from(*value),
            Cell::Text(value) => Value::from(value.as_str()),
            Cell::Null | Cell::Blob(_) => Value::Null,
        };
        columns(self.table)
            .iter()
            .zip(&self.cells)
            .map(|(column, cell)| (column.name.to_owned(), shown(cell)))
            .collect()
    }
}

fn columns(table: RowTable) -> &'static [Column] {
    match table {
        RowTable::Race => RaceRecord::COLUMNS,
        RowTable::Attempt => AttemptRecord::COLUMNS,
        RowTable::Run => RunRecord::COLUMNS,
    }
}

/// The races before this id; none: all. It is read as bytes, which may be no text.
pub(super) struct Until(Option<Vec<u8>>);

impl Until {
    /// So that `races` races are moved.
    pub fn of(connection: &Connection, races: i64) -> rusqlite::Result<Until> {
        let first = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes_or_null()?.map(<[u8]>::to_vec));
        connection.query_row(FIRST_TO_STAY, [races], first).map(Until)
    }

    /// The rows of these races, and all runs: they are few.
    pub fn rows(&self, connection: &Connection) -> rusqlite::Result<Vec<WaitingRow>> {
        let mut found = Vec::new();
        for table in RowTable::ALL {
            let columns = match table {
                RowTable::Race => names::<RaceRecord>(),
                RowTable::Attempt => names::<AttemptRecord>(),
                RowTable::Run => names::<RunRecord>(),
            };
            let sql = format!("SELECT {columns} FROM {} WHERE {}", table.name(), self.condition(table));
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([&self.0])?;
            while let Some(row) = rows.next()? {
                found.push(read(table, row)?);
            }
        }
        Ok(found)
    }

    /// Removes them.
    pub fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        RowTable::ALL.into_iter().try_for_each(|table| {
            let sql = format!("DELETE FROM {} WHERE {}", table.name(), self.condition(table));
            connection.execute(&sql, [&self.0]).map(drop)
        })
    }

    fn condition(&self, table: RowTable) -> &'static str {
        match (&self.0, table) {
            (Some(_), RowTable::Race | RowTable::Attempt) => "race_id < CAST(?1 AS TEXT)",
            (Some(_), RowTable::Run) => "?1 IS NOT NULL",
            (None, _) => "?1 IS NULL",
        }
    }
}

fn read(table: RowTable, row: &rusqlite::Row<'_>) -> rusqlite::Result<WaitingRow> {
    let (mut cells, mut is_garbled) = (Vec::with_capacity(columns(table).len()), false);
    for at in 0..columns(table).len() {
        cells.push(match row.get_ref(at)? {
            ValueRef::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                is_garbled |= matches!(text, std::borrow::Cow::Owned(_));
                Cell::Text(text.into_owned())
            }
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Null | ValueRef::Blob(_) => Cell::Null,
        });
    }
    let race_id = match cells.first() {
        Some(Cell::Text(race_id)) if table != RowTable::Run => Some(race_id.clone()),
        _ => None,
    };
    Ok(WaitingRow { table, race_id, cells, is_garbled })
}

/// Searches both tables: an attempt may be here without its race.
const FIRST_TO_STAY: &str = "\
    SELECT CAST(min(id) AS BLOB) FROM (\
        SELECT * FROM (SELECT race_id AS id FROM race ORDER BY race_id LIMIT 1 OFFSET ?1) \
        UNION ALL \
        SELECT * FROM (SELECT DISTINCT race_id FROM attempt ORDER BY race_id LIMIT 1 OFFSET ?1))";
