//! What has the history, for whoever changes it: a file (`file`), or a database on a server (`postgres`). Not for reading: see `opened`.

use std::path::PathBuf;

use crate::store::damage::FileFinding;
use crate::store::database::{Connection, Result};
use crate::store::open::OpenError;
use crate::store::write::{RefusedRow, TableRow, WriteError};

/// Runs in a transaction. Where it says why not, nothing is changed.
pub(super) type Change<'c> = dyn Fn(&Connection<'_>) -> Result<Option<String>> + 'c;

/// A database that is written over one connection. Everything blocks.
pub(super) trait StoreEngine: Send + Sync {
    /// Opens it, makes it if it is missing, and migrates it.
    fn open(&self) -> Result<(), OpenError>;

    fn is_open(&self) -> bool;

    /// Makes the schema, or brings it up to date. Returns the versions before and after.
    fn migrate(&self) -> Result<(i64, i64), OpenError>;

    /// Writes all of the rows in one transaction, or nothing.
    fn write(&self, rows: &[&dyn TableRow]) -> Result<(), WriteError>;

    /// Writes each race, and each run, in a transaction of its own. Returns the rows of those that are refused.
    fn write_apart(&self, rows: &[&dyn TableRow]) -> Result<Vec<RefusedRow>, WriteError>;

    fn change(&self, run: &Change<'_>) -> Result<Option<String>, WriteError>;

    fn close(&self);

    /// Whether this process does this for all that share the database, from now on for a few minutes. A file has one gateway.
    fn holds_duty(&self, _duty: &str) -> Result<bool, WriteError> {
        Ok(true)
    }

    /// See [`Store::files`](crate::store::Store::files). A server has none, and what follows is of files alone.
    fn files(&self) -> u64 {
        0
    }

    /// Looks whether the rows of these races can be read back. A server answers for what it has committed.
    fn look(&self, _files: Option<u64>, _race_ids: &mut dyn Iterator<Item = &str>) -> Result<ReadBack, WriteError> {
        Ok(ReadBack::Proven)
    }

    /// Closes, and leaves a file that seems damaged as it is, with its write-ahead log.
    fn abandon(&self) {
        self.close();
    }

    /// Checks the whole file. `stop` ends the check.
    fn examine(&self, _stop: Box<dyn Fn() -> bool + Send>) -> FileFinding {
        FileFinding::Unknown("it is on a server".to_owned())
    }

    /// See [`Store::set_aside`](crate::store::Store::set_aside).
    fn set_aside(&self, _anew: bool) -> Result<Option<PathBuf>, OpenError> {
        Ok(None)
    }

    /// See [`Store::truncate_log`](crate::store::Store::truncate_log).
    fn truncate_log(&self) -> Result<bool, WriteError> {
        Ok(true)
    }
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBack {
    /// Every row is there.
    Proven,
    /// The number of rows that are not.
    Missing(u64),
    /// They were written into another file.
    OtherFile,
}
