//! The history on disk: one SQLite file that is opened, migrated, written in batches and read. The only room with SQL.
//!
//! Everything here blocks. Not on a request's path: [`Store::write`] is for the recorder's writer task, [`StoreReader`] for questions to the
//! history, [`Roller`] for the task that limits its size.

mod bundle;
mod cells;
mod columns;
mod extent;
mod gather;
mod header;
mod migrations;
mod open;
mod plan;
mod probes;
mod publish;
mod races;
mod reader;
mod recorded;
mod rollup;
mod runs;
mod scan;
mod source_filter;
mod spill;
mod times;
mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

pub use extent::Extent;
pub use gather::{AttemptFilter, Class, Coverage, Gather, RollupCell, Selection};
pub use open::OpenError;
pub use probes::{ProbeRow, RecordedProbe};
pub use races::{ExportRow, RaceFilter};
pub use reader::{EXACT_MAX, ReadError, StoreReader};
pub use recorded::RecordedFilter;
pub use rollup::{Roller, RollupError, RollupStep};
pub use runs::{RunFilter, RunSearch};
pub use source_filter::SourceFilter;
pub use spill::{Spill, SpillProgress};
pub use write::{Record, WriteError};

use header::{FileId, Header};

/// The database, open for writing, over one connection.
pub struct Store {
    path: PathBuf,
    /// Largest size of the file in bytes. None: limited by the disk.
    bytes_max: Option<u64>,
    slot: Mutex<FileSlot>,
}

/// The connection and the header, between two writes.
#[derive(Default)]
struct FileSlot {
    /// None before the first use, and after a failure that may have left a transaction open: the next write connects
    /// again.
    opened: Option<Opened>,
    header: Header,
}

impl Store {
    /// Opens the file, creates it if it is missing, and migrates it.
    pub fn open(path: &Path) -> Result<Store, OpenError> {
        let store = Store::unopened(path);
        store.slot().opened = Some(Opened::open(path, None)?);
        Ok(store)
    }

    /// The same, and first makes the directory of the file. Without it [`Store::open`] says what is wrong.
    pub fn open_in_new_directory(path: &Path) -> Result<Store, OpenError> {
        if let Some(Err(error)) = path.parent().map(std::fs::create_dir_all) {
            tracing::debug!(%error, "the directory of the store cannot be made");
        }
        Store::open(path)
    }

    /// A store that opens its file at the first write.
    pub fn unopened(path: &Path) -> Store {
        Store { path: path.into(), bytes_max: None, slot: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.slot().opened.is_some()
    }

    /// Writes the whole batch in one transaction, or nothing. Existing records stay unchanged, so a batch may be sent
    /// again. Waits up to a second for another writer.
    pub fn write(&self, batch: &[Record]) -> Result<(), WriteError> {
        self.in_file(|connection| write::write(connection, batch))
    }

    /// Renews the planner's statistics, moves the write-ahead log into the file, and closes.
    pub fn close(&self) {
        if let Some(opened) = self.slot().opened.take()
            && let Err(error) = open::close(opened.connection)
        {
            tracing::warn!(path = %self.path.display(), %error, "the database did not close cleanly");
        }
    }

    /// Runs a transaction on the file at the path: once more if the file was removed or replaced in the meantime,
    /// together with the rows.
    fn in_file<T>(&self, run: impl Fn(&mut Connection) -> Result<T, WriteError>) -> Result<T, WriteError> {
        let mut slot = self.slot();
        loop {
            let mut opened = self.still_there(&mut slot)?;
            let file = opened.file;
            let result = run(&mut opened.connection);
            if result.as_ref().err().is_none_or(|error| error.connection_is_sound) {
                slot.opened = Some(opened);
            }
            if result.is_err() || FileId::at(&self.path) == Some(file) {
                return result;
            }
        }
    }

    /// After a panic in a transaction the slot is empty.
    fn slot(&self) -> MutexGuard<'_, FileSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection if its file is still the one at the path, else a new one. It is taken out of the slot, so
    /// that a panic drops it: then its transaction is rolled back.
    fn still_there(&self, slot: &mut FileSlot) -> Result<Opened, WriteError> {
        let found = FileId::at(&self.path);
        if let Some(opened) = slot.opened.take_if(|opened| found != Some(opened.file)) {
            let path = self.path.display();
            tracing::warn!(%path, "the database file was removed or replaced; opening what is there now");
            opened.leave();
        }
        if let Some(opened) = slot.opened.take() {
            if slot.header.is_of_a_database(&self.path, opened.file) {
                return Ok(opened);
            }
            // It stays open: closing would write its log into the overwritten file.
            slot.opened = Some(opened);
            return Err(WriteError::unavailable(&OpenError::Overwritten { path: self.path.clone() }));
        }
        Opened::open(&self.path, self.bytes_max).map_err(|error| WriteError::unavailable(&error))
    }
}

/// A connection and the file it was opened on.
struct Opened {
    connection: Connection,
    file: FileId,
}

impl Opened {
    fn open(path: &Path, bytes_max: Option<u64>) -> Result<Opened, OpenError> {
        let connection = open::writable(path, bytes_max)?;
        let file = FileId::at(path);
        let file = file.ok_or_else(|| OpenError::Unusable { path: path.into(), reason: "it went away".into() })?;
        Ok(Opened { connection, file })
    }

    /// Closes the connection to a file that is no longer at its path.
    fn leave(self) {
        // Its `-wal` file is still at the path and would be applied to the next database there. So the log is moved
        // into the old file first; if that file was moved away, it is complete.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        // Closed before the next one opens: both would use the locks of one `-shm` file.
        drop(self.connection);
    }
}
