//! The history: one SQLite file, or a database on a Postgres server (`postgres`), that is opened, migrated, written in batches and read. The
//! only room with SQL. What differs between both: for who writes `engine`, with `file` and `postgres`; for who opens it to read `opened`; in
//! what is asked `database`.
//!
//! Everything here blocks. Not on a request's path: [`Store::write`] is for the recorder's writer task, [`StoreReader`] for questions to the
//! history, [`Roller`] for the task that limits its size.

mod accounts;
mod cells;
mod columns;
mod copy;
mod damage;
mod database;
mod engine;
mod file;
mod header;
mod incidents;
mod looks;
mod migrations;
mod narrow;
mod open;
mod opened;
mod plan;
mod postgres;
mod probes;
mod races;
mod reader;
mod recorded;
mod replicas;
mod rollup;
mod runs;
mod scan;
mod selection;
mod set_aside;
mod snapshot;
mod space;
mod spill;
mod symptom;
#[cfg(test)]
mod tests;
mod value;
mod verdicts;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use accounts::{AccountChange, AccountEntry, AccountKind, AuditLine, Author, BudgetRow, ChangeError, FileChange};
pub use cells::OTHERS;
pub use copy::{CopyError, CopyProgress, copy_history};
pub use damage::FileFinding;
pub use engine::ReadBack;
use engine::StoreEngine;
use file::FileStore;
pub use incidents::IncidentFilter;
#[cfg(test)]
pub(crate) use looks::LOOKS_MAX;
pub use looks::{ClientRow, LookRow, LookSeen};
pub use open::OpenError;
use photofinish_config::StoreAddress;
use photofinish_facts::record::Record;
use postgres::ServerStore;
pub use postgres::stray_rows;
pub use probes::{ProbeRow, RecordedProbe};
pub use races::{ExportRow, RaceFilter, RaceOrder};
pub use reader::{EXACT_MAX, Extent, ReadError, StoreReader};
pub use recorded::RecordedFilter;
pub use replicas::{Attendance, HeardReplicas, MISSED_AFTER_US, ReplicaReport, ReplicaRow, Replicas};
pub use rollup::{Roller, RollupError, RollupStep};
pub use runs::{RunFilter, RunSearch};
pub use selection::{AHEAD_US, AttemptFilter, Class, Coverage, Gather, RollupCell, Selection, SourceFilter};
pub use set_aside::{SetAside, set_aside_files};
pub use snapshot::{keep_snapshot, kept_snapshot};
pub use spill::{MoveError, Spill, SpillProgress};
pub use symptom::Symptom;
pub use verdicts::{FIRST_TOKENS, SampleRow, VerdictRow};
pub use write::WriteError;
use write::{RefusedRow, TableRow};

/// The database, open for writing, over one connection.
pub struct Store {
    address: StoreAddress,
    /// The file for rows that the database never takes.
    refused: PathBuf,
    engine: Arc<dyn StoreEngine>,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Rows that the database will never take. They are in a file in the same directory, except those that are lost.
    pub refused: usize,
    /// Rows of these that are lost.
    pub lost: usize,
    /// Why the first of them was refused.
    pub reason: String,
}

impl Store {
    /// Opens the file, creates it if it is missing, and migrates it.
    pub fn open(address: impl Into<StoreAddress>) -> Result<Store, OpenError> {
        let store = Store::unopened(address);
        store.engine.open()?;
        Ok(store)
    }

    /// The same, and first makes the directory of the file. Without it [`Store::open`] says what is wrong.
    pub fn open_in_new_directory(address: &StoreAddress) -> Result<Store, OpenError> {
        if let Some(Err(error)) = address.local_file().parent().map(std::fs::create_dir_all) {
            tracing::debug!(%error, "the directory of the store cannot be made");
        }
        Store::open(address)
    }

    /// Makes the schema, or brings it up to date. Returns the version before, 0 for none, and after.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn migrate(address: &StoreAddress) -> Result<(i64, i64), OpenError> {
        Store::unopened(address).engine.migrate()
    }

    /// Whether this process does this for all that share the database, from now on for a few minutes. A file has one gateway.
    ///
    /// # Errors
    /// The database cannot be written now.
    pub fn holds_duty(address: &StoreAddress, duty: &str) -> Result<bool, WriteError> {
        Store::unopened(address).engine.holds_duty(duty)
    }

    /// A store that opens its file at the first write.
    pub fn unopened(address: impl Into<StoreAddress>) -> Store {
        let address = address.into();
        let engine: Arc<dyn StoreEngine> = match &address {
            StoreAddress::File(path) => Arc::new(FileStore::new(path.clone(), None)),
            StoreAddress::Server(server) => Arc::new(ServerStore::new(server.clone())),
        };
        Store { refused: write::file_of(address.local_file()), address, engine }
    }

    /// The same for a file of this size at most, with its engine.
    fn of_file(path: &Path, bytes_max: Option<u64>) -> (Store, Arc<FileStore>) {
        let file = Arc::new(FileStore::new(path.into(), bytes_max));
        (Store { engine: file.clone(), ..Store::unopened(path) }, file)
    }

    pub fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// The file for rows that the database never takes.
    pub fn refused(&self) -> &Path {
        &self.refused
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.engine.is_open()
    }

    /// Writes the whole batch in one transaction, or nothing. Existing records stay unchanged, so a batch may be sent
    /// again. Waits up to a second for another writer.
    pub fn write(&self, batch: &[Record]) -> Result<(), WriteError> {
        self.engine.write(&as_rows(batch))
    }

    /// Writes the batch. If the database refuses a row for good, it writes race by race, and puts the races that are
    /// refused into a file in the same directory.
    pub fn take(&self, batch: &[Record]) -> Result<Taken, WriteError> {
        Ok(self.put_apart(batch, &self.take_rows(batch)?))
    }

    /// Returns the rows that the database will never take.
    fn take_rows<R: TableRow>(&self, batch: &[R]) -> Result<Vec<RefusedRow>, WriteError> {
        let rows = as_rows(batch);
        match self.engine.write(&rows) {
            Err(error) if !error.retry => self.engine.write_apart(&rows),
            whole => whole.map(|()| Vec::new()),
        }
    }

    fn put_apart<R: TableRow>(&self, batch: &[R], refused: &[RefusedRow]) -> Taken {
        let Some(first) = refused.first() else { return Taken::default() };
        let rows = refused.iter().filter_map(|refusal| Some((batch.get(refusal.at)?, refusal.reason.as_str())));
        let lost = write::append(&self.refused, rows).unwrap_or(refused.len());
        Taken { refused: refused.len(), lost, reason: first.reason.clone() }
    }

    /// How many files it has opened, one after the other. A change means: rows that were written before are in another file
    /// than those that come now.
    pub fn files(&self) -> u64 {
        self.engine.files()
    }

    /// Looks whether these rows can be read back, and the newest part of the file with them: all rows of a few races, and
    /// some of many, because damage hits pages, which hold many. `files`: see [`Store::files`], when they were written.
    pub fn look<'r>(&self, files: u64, rows: impl Iterator<Item = &'r Record>) -> Result<ReadBack, WriteError> {
        self.look_for(Some(files), rows)
    }

    /// Never inlined: `scripts/instructions` leaves this function out of its counts by its name.
    #[inline(never)]
    fn look_for<'r, R: TableRow + 'r>(
        &self,
        files: Option<u64>,
        rows: impl Iterator<Item = &'r R>,
    ) -> Result<ReadBack, WriteError> {
        self.engine.look(files, &mut rows.filter_map(|row| row.race_id()))
    }

    /// Renews the planner's statistics, moves the write-ahead log into the file, and closes.
    pub fn close(&self) {
        self.engine.close();
    }

    /// Closes, and leaves a file that seems damaged as it is, with its write-ahead log.
    pub fn abandon(&self) {
        self.engine.abandon();
    }

    /// Checks the whole file at the path. Blocks, for minutes if it is large. `stop` ends the check.
    pub fn examine(&self, stop: impl Fn() -> bool + Send + 'static) -> FileFinding {
        self.engine.examine(Box::new(stop))
    }

    /// Moves the file that was examined last out of the way. `anew`: puts a new database in its place. None: another file
    /// is there by now.
    ///
    /// # Errors
    /// It is not known to be the gateway's, there are too many such files, or the disk is full. Nothing was moved.
    pub fn set_aside(&self, anew: bool) -> Result<Option<PathBuf>, WriteError> {
        self.engine.set_aside(anew).map_err(|error| WriteError::unavailable(&error))
    }

    /// Moves a write-ahead log that has grown large into the file, and truncates it. It grows while a reader needs its
    /// rows, and does not shrink by itself. False: one still does.
    ///
    /// # Errors
    /// The log cannot be read, or the file cannot be written.
    pub fn truncate_log(&self) -> Result<bool, WriteError> {
        self.engine.truncate_log()
    }

    /// Runs a transaction. Where `run` says why not, nothing is changed.
    fn change_all(
        &self,
        run: impl Fn(&database::Connection<'_>) -> database::Result<Option<String>>,
    ) -> Result<Option<String>, WriteError> {
        self.engine.change(&run)
    }
}

fn as_rows<R: TableRow>(batch: &[R]) -> Vec<&dyn TableRow> {
    batch.iter().map(|row| row as &dyn TableRow).collect()
}
