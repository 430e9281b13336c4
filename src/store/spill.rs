//! Keeps rows that the database cannot accept now in a second database in the same directory, with the same tables and
//! the same writer. Later they are moved back once, in the order of their races, and the file is removed.
//!
//! It helps while the database is locked, damaged or missing. Not for a full disk: this file cannot grow then either.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::columns::{names, replaces_unended};
use super::header::Header;
use super::write::{self, Record, WriteError};
use super::{OpenError, Opened, Store};
use crate::history::table::Table as _;
use crate::history::{AttemptRecord, RaceRecord, RunRecord};

/// Largest size of the file in bytes: about two million rows. Further rows wait in memory, and are lost once memory is
/// full.
const BYTES_MAX: u64 = 1 << 30;

/// Races that are moved back in one transaction.
const MOVED_MAX: i64 = 300;

/// The file, if it exists.
pub struct Spill {
    pub(super) store: Store,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillProgress {
    pub rows: u64,
    /// More rows are left.
    pub more: bool,
}

impl Spill {
    /// For the database at this path. Does not open or create the file yet.
    pub fn of(database: &Path) -> Spill {
        let mut path = database.as_os_str().to_owned();
        path.push(".spill");
        Spill { store: Store { bytes_max: Some(BYTES_MAX), ..Store::unopened(Path::new(&path)) } }
    }

    pub fn path(&self) -> &Path {
        &self.store.path
    }

    /// Rows left by an earlier run.
    ///
    /// # Errors
    /// The file exists and cannot be read. It is not changed.
    pub fn rows(&self) -> Result<u64, WriteError> {
        if !self.path().try_exists().unwrap_or(true) {
            return Ok(0);
        }
        let mut slot = self.store.slot();
        let opened = self.store.still_there(&mut slot)?;
        let rows = count(&opened.connection).map_err(WriteError::unsound)?;
        slot.opened = Some(opened);
        Ok(rows)
    }

    /// Writes the whole batch, or nothing.
    pub fn append(&self, batch: &[Record]) -> Result<(), WriteError> {
        self.store.write(batch)
    }

    /// Moves some rows into the database. Removes the file once it is empty.
    ///
    /// # Errors
    /// Either file cannot be read or written. Rows that were copied but not removed are not copied twice.
    pub fn move_some(&self, into: &Store) -> Result<SpillProgress, WriteError> {
        let mut slot = self.store.slot();
        let mut opened = self.store.still_there(&mut slot)?;
        let moved = self.move_now(&mut opened, into)?;
        if moved.more {
            slot.opened = Some(opened);
        } else {
            self.remove(opened);
            // An open handle would keep the space of the file.
            slot.header = Header::default();
        }
        Ok(moved)
    }

    pub fn close(&self) {
        self.store.close();
    }

    /// Copies first and removes afterwards. A crash in between leaves rows in both files, and the next copy skips them.
    fn move_now(&self, opened: &mut Opened, into: &Store) -> Result<SpillProgress, WriteError> {
        let failed = WriteError::unsound;
        // Locked to the end: another process may add rows.
        let here =
            opened.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(WriteError::sound)?;
        let until: Option<String> = here.query_row(FIRST_TO_STAY, [MOVED_MAX], |row| row.get(0)).map_err(failed)?;
        // Sorts after every id.
        let until = until.unwrap_or_else(|| "g".to_owned());
        let ids = ids(&here, &until).map_err(failed)?;
        into.in_file(|connection| copy(connection, self.path(), &until, &ids))?;
        let mut rows = 0;
        for sql in REMOVE {
            rows += here.execute(sql, [&until]).map_err(failed)? as u64;
        }
        rows += here.execute(REMOVE_RUNS, []).map_err(failed)? as u64;
        let left = count(&here).map_err(failed)?;
        here.commit().map_err(failed)?;
        Ok(SpillProgress { rows, more: left > 0 })
    }

    /// Removes the empty file, unless another gateway uses it: that one would write into a file that nobody finds again. The
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
        if count(&alone)? == 0
            && let Err(error) = std::fs::remove_file(self.path())
        {
            tracing::warn!(path = %self.path().display(), %error, "cannot remove the empty file");
        }
        alone.rollback()
    }
}

/// Copies the rows of all races before `until` from the database at `from`. `ids`: the ids of these races.
fn copy(connection: &mut Connection, from: &Path, until: &str, ids: &[String]) -> Result<(), WriteError> {
    let failed = WriteError::unsound;
    let from = from.to_str().ok_or_else(|| WriteError::unavailable(&not_text(from)))?;
    connection.execute("ATTACH ? AS spill", [from]).map_err(failed)?;
    // Not immediate: that would lock the other file too. The first statement writes, so it takes the lock at once.
    let transaction = connection.transaction().map_err(failed)?;
    for (table, columns) in [(RaceRecord::NAME, names::<RaceRecord>()), (AttemptRecord::NAME, names::<AttemptRecord>())]
    {
        let sql = format!(
            "INSERT INTO main.{table} ({columns}) SELECT {columns} FROM spill.{table} WHERE race_id < ? \
             ON CONFLICT DO NOTHING"
        );
        transaction.execute(&sql, [until]).map_err(failed)?;
    }
    let (run, columns) = (RunRecord::NAME, names::<RunRecord>());
    let replaces = replaces_unended::<RunRecord>();
    let sql = format!("INSERT INTO main.{run} ({columns}) SELECT {columns} FROM spill.{run} WHERE true {replaces}");
    transaction.execute(&sql, []).map_err(failed)?;
    write::came(&transaction, ids.iter().map(String::as_str)).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    connection.execute("DETACH spill", []).map_err(failed)?;
    Ok(())
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn not_text(path: &Path) -> OpenError {
    OpenError::Unusable { path: PathBuf::from(path), reason: "its name is not valid UTF-8".to_owned() }
}

fn ids(connection: &Connection, until: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare(IDS)?.query_map([until], |row| row.get(0))?.collect()
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(COUNT, [], |row| row.get(0))
}

const COUNT: &str = "SELECT (SELECT count(*) FROM race) + (SELECT count(*) FROM attempt) + (SELECT count(*) FROM run)";

/// Searches both tables: an attempt may be here without its race.
const FIRST_TO_STAY: &str = "\
    SELECT min(id) FROM (\
        SELECT * FROM (SELECT race_id AS id FROM race ORDER BY race_id LIMIT 1 OFFSET ?1) \
        UNION ALL \
        SELECT * FROM (SELECT DISTINCT race_id FROM attempt ORDER BY race_id LIMIT 1 OFFSET ?1))";

const IDS: &str = "\
    SELECT race_id FROM race WHERE race_id < ?1 UNION SELECT race_id FROM attempt WHERE race_id < ?1";

const REMOVE: [&str; 2] = ["DELETE FROM attempt WHERE race_id < ?1", "DELETE FROM race WHERE race_id < ?1"];

/// Few: all of them are moved at once.
const REMOVE_RUNS: &str = "DELETE FROM run";
