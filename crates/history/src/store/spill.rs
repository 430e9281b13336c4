//! Keeps rows that the database cannot accept now in a second database in the same directory, with the same tables and
//! the same writer. Later they are moved back once, in the order of their races, and the file is removed.
//!
//! It helps while the database is locked, damaged or missing. Not for a full disk: this file cannot grow then either. Not
//! for rows that no database will take: see `refused`.

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, TransactionBehavior};
use serde_json::{Map, Value};

use crate::store::columns::names;
use crate::store::damage::FileFinding;
use crate::store::file::{FileStore, Opened};
use crate::store::header::Header;
use crate::store::narrow::{self, Narrow};
use crate::store::write::{RowTable, TableRow, WriteError, file_of};
use crate::store::{ReadBack, Store, Taken};
use photofinish_config::StoreAddress;
use photofinish_facts::record::table::{CellValue, Column, Table as _};
use photofinish_facts::record::{AttemptRecord, IncidentRecord, RaceRecord, Record, RunRecord};

/// Bytes of the spill file: about two million rows. Further rows wait in memory, and are lost once memory is full.
const BYTES_MAX: u64 = 1 << 30;

/// Races that are moved back in one transaction.
const MOVED_MAX: i64 = 1_000;

/// The file, if it exists.
pub struct Spill {
    pub(super) store: Store,
    pub(super) file: Arc<FileStore>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillProgress {
    /// Rows that have left the file.
    pub rows: u64,
    /// Those of them that the database refused.
    pub taken: Taken,
    /// More rows are left.
    pub more: bool,
}

/// Why no row was moved. Rows that were copied but not removed are not copied twice.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error(transparent)]
    Spill(WriteError),
    #[error(transparent)]
    Database(WriteError),
}

impl Spill {
    /// For this database. Does not open or create the file yet.
    pub fn of(database: impl Into<StoreAddress>) -> Spill {
        let database = database.into();
        let mut path = database.local_file().as_os_str().to_owned();
        if !database.is_server() {
            path.push(".spill");
        }
        let (store, file) = Store::of_file(Path::new(&path), Some(BYTES_MAX));
        Spill { store: Store { refused: file_of(database.local_file()), ..store }, file }
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Rows left by an earlier run.
    ///
    /// # Errors
    /// The file exists and cannot be read. It is not changed.
    pub fn rows(&self) -> Result<u64, WriteError> {
        if !self.path().try_exists().unwrap_or(true) {
            return Ok(0);
        }
        let mut slot = self.file.slot();
        let opened = self.file.still_there(&mut slot)?;
        let rows = count(&opened.connection).map_err(WriteError::unsound)?;
        slot.opened = Some(opened);
        Ok(rows)
    }

    /// See [`Store::take`].
    pub fn append(&self, batch: &[Record]) -> Result<Taken, WriteError> {
        self.store.take(batch)
    }

    /// Moves some rows into the database. Removes the file once it is empty.
    ///
    /// # Errors
    /// Either file cannot be read or written.
    pub fn move_some(&self, into: &Store) -> Result<SpillProgress, MoveError> {
        let mut slot = self.file.slot();
        let mut opened = self.file.still_there(&mut slot).map_err(MoveError::Spill)?;
        let moved = move_now(&mut opened, into)?;
        if moved.more {
            slot.opened = Some(opened);
        } else {
            self.remove(opened);
            // An open handle would keep the space of the file.
            slot.header = Header::default();
        }
        Ok(moved)
    }

    /// Moves the file itself out of the way if it is damaged, after an error that says so. False: it is not, or cannot be
    /// moved.
    pub fn set_aside(&self, stop: impl Fn() -> bool + Send + 'static) -> bool {
        let (path, finding) = (self.path().display(), self.store.examine(stop));
        let FileFinding::Damaged(reason) = finding else { return false };
        match self.store.set_aside(false) {
            Ok(Some(aside)) => {
                tracing::error!(%path, reason, aside = %aside.display(), "the file for waiting rows was damaged, and was set aside with the rows in it: `sqlite3 FILE .recover` gets out of it what is left");
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::error!(%path, reason, %error, "the file for waiting rows is damaged, and cannot be set aside");
                false
            }
        }
    }

    pub fn close(&self) {
        self.store.close();
    }

    /// Removes the empty file, unless another gateway uses it: that gateway would then write into a file without a name. The
    /// last one to empty it removes it.
    fn remove(&self, mut opened: Opened) {
        let removed = match self.remove_alone(&mut opened.connection) {
            Err(error) if is_locked(&error) => Ok(()),
            removed => removed,
        };
        if let Err(error) = removed.and(opened.connection.close().map_err(|(_, error)| error)) {
            tracing::warn!(path = %self.path().display(), %error, "cannot remove the empty file");
        }
    }

    fn remove_alone(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        // Fails while another connection has the file open. It removes the `-wal` and `-shm` files, which would be taken for
        // those of the next file of this name.
        connection.pragma_update(None, "journal_mode", "DELETE")?;
        // Whoever opens it from now on waits until it is gone, and looks for it before and after it writes.
        let alone = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        if is_empty(&alone)?
            && let Err(error) = std::fs::remove_file(self.path())
        {
            tracing::warn!(path = %self.path().display(), %error, "cannot remove the empty file");
        }
        alone.rollback()
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Copies first, reads the copies back, and only then removes the rows. A crash in between leaves rows in both files, and
/// the next copy skips them.
fn move_now(opened: &mut Opened, into: &Store) -> Result<SpillProgress, MoveError> {
    let failed = |error| MoveError::Spill(WriteError::unsound(error));
    // Locked to the end: another process may add rows.
    let here = opened.connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let here = here.map_err(|error| MoveError::Spill(WriteError::sound(error)))?;
    let until = Until::of(&here, MOVED_MAX).map_err(failed)?;
    let rows = until.rows(&here).map_err(failed)?;
    let refused = into.take_rows(&rows).map_err(MoveError::Database)?;
    let is_refused = |at: usize| refused.iter().any(|refusal| refusal.at == at);
    let written = rows.iter().enumerate().filter(|(at, _)| !is_refused(*at)).map(|(_, row)| row);
    if let ReadBack::Missing(missing) = into.look_for(None, written).map_err(MoveError::Database)? {
        return Err(MoveError::Database(WriteError::missing(missing)));
    }
    let taken = into.put_apart(&rows, &refused);
    until.remove(&here).map_err(failed)?;
    let more = !is_empty(&here).map_err(failed)?;
    if rows.is_empty() && more {
        return Err(MoveError::Spill(WriteError::out_of_order()));
    }
    here.commit().map_err(failed)?;
    Ok(SpillProgress { rows: rows.len() as u64, taken, more })
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(COUNT, [], |row| row.get(0))
}

const COUNT: &str = "\
    SELECT (SELECT count(*) FROM race) + (SELECT count(*) FROM attempt) \
         + (SELECT count(*) FROM run) + (SELECT count(*) FROM incident)";

/// Without counting: a file may hold millions of rows.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(IS_EMPTY, [], |row| row.get(0))
}

const IS_EMPTY: &str = "\
    SELECT NOT (EXISTS (SELECT 1 FROM race) OR EXISTS (SELECT 1 FROM attempt) \
             OR EXISTS (SELECT 1 FROM run) OR EXISTS (SELECT 1 FROM incident))";

/// A row with its cells in the order of the declaration.
pub(super) struct WaitingRow {
    table: RowTable,
    race_id: Option<String>,
    cells: Vec<Cell>,
    /// A text that is none. It is kept with marks in the place of what makes no sense.
    is_garbled: bool,
}

impl WaitingRow {
    /// With marks in the place of what makes no sense.
    pub fn readable_cells(&self) -> Vec<CellValue<'_>> {
        let value = |cell| match cell {
            &Cell::Integer(value) => CellValue::Integer(value),
            &Cell::Real(value) => CellValue::Real(value),
            Cell::Text(text) => CellValue::Text(text),
            Cell::Null | Cell::Blob(_) => CellValue::Null,
        };
        self.cells.iter().map(value).collect()
    }
}

impl TableRow for WaitingRow {
    fn table(&self) -> RowTable {
        self.table
    }

    fn race_id(&self) -> Option<&str> {
        self.race_id.as_deref()
    }

    fn cells(&self) -> rusqlite::Result<Vec<CellValue<'_>>> {
        if self.is_garbled {
            return Err(rusqlite::Error::ToSqlConversionFailure("a text in it is not valid UTF-8".into()));
        }
        Ok(self.readable_cells())
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
        RowTable::Incident => IncidentRecord::COLUMNS,
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

    /// The rows of these races, and all runs and incidents: they are few.
    pub fn rows(&self, connection: &Connection) -> rusqlite::Result<Vec<WaitingRow>> {
        let mut found = Vec::new();
        for table in RowTable::ALL {
            read(connection, table, self.condition(table), &[&self.0], &mut found)?;
        }
        Ok(found)
    }

    /// Removes them.
    pub fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        RowTable::ALL.into_iter().try_for_each(|table| {
            let name = narrow::of(table.name()).map_or(table.name(), Narrow::table);
            connection.execute(&format!("DELETE FROM {name} WHERE {}", self.condition(table)), [&self.0]).map(drop)
        })
    }

    fn condition(&self, table: RowTable) -> &'static str {
        match (&self.0, table) {
            (Some(_), RowTable::Race | RowTable::Attempt) => "race_id < CAST(?1 AS TEXT)",
            (Some(_), RowTable::Run | RowTable::Incident) => "?1 IS NOT NULL",
            (None, _) => "?1 IS NULL",
        }
    }
}

/// Reads the rows of a table that meet the condition.
pub(super) fn read(
    connection: &Connection,
    table: RowTable,
    condition: &str,
    parameters: &[&dyn ToSql],
    into: &mut Vec<WaitingRow>,
) -> rusqlite::Result<()> {
    let columns = match table {
        RowTable::Race => names::<RaceRecord>(),
        RowTable::Attempt => names::<AttemptRecord>(),
        RowTable::Run => names::<RunRecord>(),
        RowTable::Incident => names::<IncidentRecord>(),
    };
    let mut statement =
        connection.prepare_cached(&format!("SELECT {columns} FROM {} WHERE {condition}", table.name()))?;
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        into.push(waiting(table, row)?);
    }
    Ok(())
}

fn waiting(table: RowTable, row: &rusqlite::Row<'_>) -> rusqlite::Result<WaitingRow> {
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
        Some(Cell::Text(race_id)) if matches!(table, RowTable::Race | RowTable::Attempt) => Some(race_id.clone()),
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
