//! The history: one SQLite file, or a database on a Postgres server (`postgres`), that is opened, migrated, written in batches and read. The
//! only room with SQL; `database` is the seam between both.
//!
//! Everything here blocks. Not on a request's path: [`Store::write`] is for the recorder's writer task, [`StoreReader`] for questions to the
//! history, [`Roller`] for the task that limits its size.

mod accounts;
mod cells;
mod columns;
mod copy;
mod damage;
mod database;
mod header;
mod incidents;
mod looks;
mod migrations;
mod narrow;
mod open;
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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub use accounts::{AccountChange, AccountEntry, AccountKind, AuditLine, Author, BudgetRow, ChangeError};
pub use copy::{CopyError, CopyProgress, copy_history};
pub use damage::FileFinding;
use header::{FileId, Header};
pub use incidents::IncidentFilter;
#[cfg(test)]
pub(crate) use looks::LOOKS_MAX;
pub use looks::{ClientRow, LookRow, LookSeen};
use narrow::Names;
pub use open::OpenError;
use photofinish_config::config::StoreAddress;
use photofinish_facts::record::Record;
use postgres::ServerStore;
pub use postgres::stray_rows;
pub use probes::{ProbeRow, RecordedProbe};
pub use races::{ExportRow, RaceFilter};
pub use reader::{EXACT_MAX, Extent, ReadError, StoreReader};
pub use recorded::RecordedFilter;
pub use replicas::{Attendance, HeardReplicas, MISSED_AFTER_US, ReplicaReport, ReplicaRow, Replicas};
pub use rollup::{Roller, RollupError, RollupStep};
pub use runs::{RunFilter, RunSearch};
pub use selection::{AttemptFilter, Class, Coverage, Gather, RollupCell, Selection, SourceFilter};
pub use set_aside::{SetAside, set_aside_files};
pub use snapshot::{keep_snapshot, kept_snapshot};
pub use spill::{MoveError, Spill, SpillProgress};
pub use symptom::Symptom;
pub use verdicts::{FIRST_TOKENS, SampleRow, VerdictRow};
pub use write::WriteError;
use write::{RefusedRow, TableRow};

/// Races whose rows one look reads back.
const LOOKED_UP_MAX: usize = 64;

/// The database, open for writing, over one connection.
pub struct Store {
    address: StoreAddress,
    /// Largest size of the file in bytes. None: limited by the disk.
    bytes_max: Option<u64>,
    /// The file for rows that the database never takes.
    refused: PathBuf,
    slot: Mutex<FileSlot>,
    /// The server that has it, if it is in no file.
    server: Option<ServerStore>,
}

/// The connection and the header, between two writes.
#[derive(Default)]
struct FileSlot {
    /// None before the first use, and after a failure that may have left a transaction open: the next write connects
    /// again.
    opened: Option<Opened>,
    header: Header,
    /// The file that was opened last.
    file: Option<FileId>,
    /// How many files were opened, one after the other.
    files: u64,
    /// The file that was examined last.
    doubted: Option<FileId>,
}

impl FileSlot {
    /// Whether this file at the path is the gateway's.
    fn is_own(&mut self, path: &Path, file: FileId) -> bool {
        self.file == Some(file) || self.header.is_of_photofinish(path, file)
    }

    fn is_own_at(&mut self, path: &Path) -> bool {
        FileId::at(path).is_some_and(|file| self.is_own(path, file))
    }
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

impl Store {
    /// Opens the file, creates it if it is missing, and migrates it.
    pub fn open(address: impl Into<StoreAddress>) -> Result<Store, OpenError> {
        let store = Store::unopened(address);
        if let Some(server) = &store.server {
            server.open()?;
            return Ok(store);
        }
        let opened = store.connect(&mut store.slot())?;
        store.slot().opened = Some(opened);
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
        let path = match address {
            StoreAddress::Server(server) => return postgres::migrate_now(server),
            StoreAddress::File(path) => path,
        };
        let before = open::version(path);
        Store::open(address)?.close();
        Ok((before, migrations::newest(migrations::migrator())))
    }

    /// Whether this process does this for all that share the database, from now on for a few minutes. A file has one gateway.
    ///
    /// # Errors
    /// The database cannot be written now.
    pub fn holds_duty(address: &StoreAddress, duty: &str) -> Result<bool, WriteError> {
        let StoreAddress::Server(server) = address else { return Ok(true) };
        let session = postgres::rolling(server).map_err(|error| WriteError::unavailable(&error))?;
        postgres::holds_duty(&session, duty).map_err(WriteError::unsound)
    }

    /// A store that opens its file at the first write.
    pub fn unopened(address: impl Into<StoreAddress>) -> Store {
        let address = address.into();
        let (refused, server) = (write::file_of(address.local_file()), ServerStore::at(&address));
        Store { address, bytes_max: None, refused, slot: Mutex::default(), server }
    }

    pub fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Not for a store on a server.
    fn path(&self) -> &Path {
        self.address.local_file()
    }

    /// The file for rows that the database never takes.
    pub fn refused(&self) -> &Path {
        &self.refused
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.server.as_ref().map_or_else(|| self.slot().opened.is_some(), ServerStore::is_open)
    }

    /// Writes the whole batch in one transaction, or nothing. Existing records stay unchanged, so a batch may be sent
    /// again. Waits up to a second for another writer.
    pub fn write(&self, batch: &[Record]) -> Result<(), WriteError> {
        match &self.server {
            Some(server) => server.write(&batch.iter().collect::<Vec<_>>()),
            None => self.in_file(|connection, names| write::write(connection, names, batch.iter())),
        }
    }

    /// Writes the batch. If the database refuses a row for good, it writes race by race, and puts the races that are
    /// refused into a file in the same directory.
    pub fn take(&self, batch: &[Record]) -> Result<Taken, WriteError> {
        Ok(self.put_apart(batch, &self.take_rows(batch)?))
    }

    /// Returns the rows that the database will never take.
    fn take_rows<R: TableRow>(&self, batch: &[R]) -> Result<Vec<RefusedRow>, WriteError> {
        if let Some(server) = &self.server {
            return match server.write(&batch.iter().collect::<Vec<_>>()) {
                Err(error) if !error.retry => write::apart(batch, |rows| server.write(rows)),
                whole => whole.map(|()| Vec::new()),
            };
        }
        match self.in_file(|connection, names| write::write(connection, names, batch.iter())) {
            Err(error) if !error.retry => {
                let apart = |connection: &mut Connection, names: &mut Names| {
                    write::apart(batch, |rows| write::write(connection, names, rows.iter().copied()))
                };
                self.in_file(apart)
            }
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
        self.slot().files
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
        // A server answers for what it has committed.
        if self.server.is_some() {
            return Ok(ReadBack::Proven);
        }
        {
            let mut slot = self.slot();
            let opened = self.still_there(&mut slot)?;
            slot.opened = Some(opened);
            if files.is_some_and(|files| files != slot.files) {
                return Ok(ReadBack::OtherFile);
            }
        }
        let mut written: BTreeMap<&str, u64> = BTreeMap::new();
        rows.filter_map(|row| row.race_id()).for_each(|race_id| *written.entry(race_id).or_default() += 1);
        if files.is_some() {
            let step = written.len().div_ceil(LOOKED_UP_MAX).max(1);
            written = written.into_iter().step_by(step).collect();
        }
        match damage::look(self.path(), &written).map_err(WriteError::unsound)? {
            0 => Ok(ReadBack::Proven),
            missing => Ok(ReadBack::Missing(missing)),
        }
    }

    /// Renews the planner's statistics, moves the write-ahead log into the file, and closes.
    pub fn close(&self) {
        if let Some(server) = &self.server {
            server.close();
        }
        if let Some(opened) = self.slot().opened.take()
            && let Err(error) = open::close(opened.connection)
        {
            tracing::warn!(path = %self.address, %error, "the database did not close cleanly");
        }
    }

    /// Runs a transaction. Where `run` says why not, nothing is changed.
    fn change_all(
        &self,
        run: impl Fn(&database::Connection<'_>) -> database::Result<Option<String>>,
    ) -> Result<Option<String>, WriteError> {
        if let Some(server) = &self.server {
            return server.change(run);
        }
        self.in_file(|connection, _| {
            let transaction = database::Connection::Sqlite(connection).change().map_err(WriteError::sound)?;
            let refusal = run(&transaction).map_err(WriteError::unsound)?;
            if refusal.is_none() {
                transaction.commit().map_err(WriteError::unsound)?;
            }
            Ok(refusal)
        })
    }

    /// Closes, and leaves a file that seems damaged as it is, with its write-ahead log.
    pub fn abandon(&self) {
        if let Some(opened) = self.slot().opened.take() {
            opened.abandon();
        }
    }

    /// Runs a transaction on the file at the path: once more if the file was removed or replaced in the meantime,
    /// together with the rows.
    fn in_file<T>(&self, run: impl Fn(&mut Connection, &mut Names) -> Result<T, WriteError>) -> Result<T, WriteError> {
        let mut slot = self.slot();
        loop {
            let mut opened = self.still_there(&mut slot)?;
            let file = opened.file;
            let result = run(&mut opened.connection, &mut opened.names);
            match &result {
                Err(error) if error.symptom.is_some() => opened.abandon(),
                Err(error) if !error.connection_is_sound => drop(opened),
                _ => slot.opened = Some(opened),
            }
            if result.is_err() || FileId::at(self.path()) == Some(file) {
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
        if let Some(opened) = slot.opened.take_if(|opened| !opened.is_at(self.path())) {
            let path = &self.address;
            tracing::warn!(%path, "the database file or its log was removed or replaced; opening what is there now");
            if FileId::at(self.path()) != Some(opened.file) {
                slot.file = None;
            }
            opened.leave();
        }
        if let Some(opened) = slot.opened.take() {
            if slot.header.is_of_a_database(self.path(), opened.file) {
                return Ok(opened);
            }
            // It stays open: closing would write its log into the overwritten file.
            slot.opened = Some(opened);
            return Err(WriteError::unavailable(&OpenError::Overwritten { path: self.path().into() }));
        }
        self.connect(slot).map_err(|error| WriteError::unavailable(&error))
    }

    /// A new connection to the file at the path.
    fn connect(&self, slot: &mut FileSlot) -> Result<Opened, OpenError> {
        let opened = match Opened::open(self.path(), self.bytes_max) {
            Err(OpenError::NotADatabase { path }) if slot.is_own_at(&path) => {
                let reason = "its pages cannot be read".to_owned();
                return Err(OpenError::Damaged { path, reason });
            }
            opened => opened?,
        };
        if slot.file != Some(opened.file) {
            (slot.file, slot.files) = (Some(opened.file), slot.files + 1);
        }
        // A file that opens may be damaged all the same.
        if let Err(error) = damage::look(self.path(), &BTreeMap::new())
            && symptom::of_file(&error).is_some()
        {
            opened.abandon();
            return Err(OpenError::Damaged { path: self.path().into(), reason: error.to_string() });
        }
        Ok(opened)
    }
}

/// A connection and the file it was opened on.
struct Opened {
    connection: Connection,
    names: Names,
    file: FileId,
    /// Its write-ahead log, which is there as long as the connection.
    log: Option<FileId>,
}

impl Opened {
    fn open(path: &Path, bytes_max: Option<u64>) -> Result<Opened, OpenError> {
        let connection = open::writable(path, bytes_max)?;
        let file = FileId::at(path);
        let file = file.ok_or_else(|| OpenError::Unusable { path: path.into(), reason: "it went away".into() })?;
        Ok(Opened { connection, names: Names::default(), file, log: FileId::at(&open::log_of(path)) })
    }

    fn is_at(&self, path: &Path) -> bool {
        FileId::at(path) == Some(self.file) && self.log.is_none_or(|log| FileId::at(&open::log_of(path)) == Some(log))
    }

    /// Closes the connection to a file that is no longer at its path, or whose log is not.
    fn leave(self) {
        // Its `-wal` file is still at the path and would be applied to the next database there. So the log is moved
        // into the old file first; if that file was moved away, it is complete.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        // Closed before the next one opens: both would use the locks of one `-shm` file.
        drop(self.connection);
    }

    /// Closes the connection to a damaged file, and leaves file and log as they are.
    fn abandon(self) {
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        drop(self.connection);
    }
}
