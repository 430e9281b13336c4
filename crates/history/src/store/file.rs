//! The engine of a file: an SQLite database that may be removed, replaced or damaged while it is in use. Not for what opening means:
//! see `open`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::store::damage::{self, FileFinding};
use crate::store::database;
use crate::store::engine::{Change, ReadBack, StoreEngine};
use crate::store::header::{FileId, Header};
use crate::store::narrow::Names;
use crate::store::open::{self, OpenError};
use crate::store::write::{self, RefusedRow, TableRow, WriteError};
use crate::store::{migrations, symptom};

/// Races whose rows one look reads back.
const LOOKED_UP_MAX: usize = 64;

/// The database in a file, written over one connection.
pub(super) struct FileStore {
    path: PathBuf,
    /// Largest size of the file in bytes. None: limited by the disk.
    bytes_max: Option<u64>,
    slot: Mutex<FileSlot>,
}

/// The connection and the header, between two writes.
#[derive(Default)]
pub(super) struct FileSlot {
    /// None before the first use, and after a failure that may have left a transaction open: the next write connects
    /// again.
    pub opened: Option<Opened>,
    pub header: Header,
    /// The file that was opened last.
    pub file: Option<FileId>,
    /// How many files were opened, one after the other.
    pub files: u64,
    /// The file that was examined last.
    pub doubted: Option<FileId>,
}

impl FileSlot {
    /// Whether this file at the path is the gateway's.
    pub fn is_own(&mut self, path: &Path, file: FileId) -> bool {
        self.file == Some(file) || self.header.is_of_photofinish(path, file)
    }

    fn is_own_at(&mut self, path: &Path) -> bool {
        FileId::at(path).is_some_and(|file| self.is_own(path, file))
    }
}

impl FileStore {
    /// Opens the file at the first write.
    pub fn new(path: PathBuf, bytes_max: Option<u64>) -> FileStore {
        FileStore { path, bytes_max, slot: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
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
            if result.is_err() || FileId::at(&self.path) == Some(file) {
                return result;
            }
        }
    }

    /// After a panic in a transaction the slot is empty.
    pub fn slot(&self) -> MutexGuard<'_, FileSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection if its file is still the one at the path, else a new one. It is taken out of the slot, so
    /// that a panic drops it: then its transaction is rolled back.
    pub fn still_there(&self, slot: &mut FileSlot) -> Result<Opened, WriteError> {
        if let Some(opened) = slot.opened.take_if(|opened| !opened.is_at(&self.path)) {
            let path = self.path.display();
            tracing::warn!(%path, "the database file or its log was removed or replaced; opening what is there now");
            if FileId::at(&self.path) != Some(opened.file) {
                slot.file = None;
            }
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
        self.connect(slot).map_err(|error| WriteError::unavailable(&error))
    }

    /// A new connection to the file at the path.
    fn connect(&self, slot: &mut FileSlot) -> Result<Opened, OpenError> {
        let opened = match Opened::open(&self.path, self.bytes_max) {
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
        if let Err(error) = damage::look(&self.path, &BTreeMap::new())
            && symptom::of_file(&error).is_some()
        {
            opened.abandon();
            return Err(OpenError::Damaged { path: self.path.clone(), reason: error.to_string() });
        }
        Ok(opened)
    }
}

impl StoreEngine for FileStore {
    fn open(&self) -> Result<(), OpenError> {
        let mut slot = self.slot();
        slot.opened = Some(self.connect(&mut slot)?);
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.slot().opened.is_some()
    }

    fn migrate(&self) -> Result<(i64, i64), OpenError> {
        let before = open::version(&self.path);
        self.open()?;
        self.close();
        Ok((before, migrations::newest(migrations::migrator())))
    }

    fn write(&self, rows: &[&dyn TableRow]) -> Result<(), WriteError> {
        self.in_file(|connection, names| write::write(connection, names, rows))
    }

    fn write_apart(&self, rows: &[&dyn TableRow]) -> Result<Vec<RefusedRow>, WriteError> {
        self.in_file(|connection, names| write::apart(rows, |rows| write::write(connection, names, rows)))
    }

    fn change(&self, run: &Change<'_>) -> Result<Option<String>, WriteError> {
        self.in_file(|connection, _| {
            let transaction = database::Connection::Sqlite(connection).change().map_err(WriteError::sound)?;
            let refusal = run(&transaction).map_err(WriteError::unsound)?;
            if refusal.is_none() {
                transaction.commit().map_err(WriteError::unsound)?;
            }
            Ok(refusal)
        })
    }

    /// Renews the planner's statistics, and moves the write-ahead log into the file.
    fn close(&self) {
        if let Some(opened) = self.slot().opened.take()
            && let Err(error) = open::close(opened.connection)
        {
            tracing::warn!(path = %self.path.display(), %error, "the database did not close cleanly");
        }
    }

    fn files(&self) -> u64 {
        self.slot().files
    }

    fn look(&self, files: Option<u64>, race_ids: &mut dyn Iterator<Item = &str>) -> Result<ReadBack, WriteError> {
        {
            let mut slot = self.slot();
            let opened = self.still_there(&mut slot)?;
            slot.opened = Some(opened);
            if files.is_some_and(|files| files != slot.files) {
                return Ok(ReadBack::OtherFile);
            }
        }
        let mut written: BTreeMap<&str, u64> = BTreeMap::new();
        race_ids.for_each(|race_id| *written.entry(race_id).or_default() += 1);
        if files.is_some() {
            let step = written.len().div_ceil(LOOKED_UP_MAX).max(1);
            written = written.into_iter().step_by(step).collect();
        }
        match damage::look(&self.path, &written).map_err(WriteError::unsound)? {
            0 => Ok(ReadBack::Proven),
            missing => Ok(ReadBack::Missing(missing)),
        }
    }

    fn abandon(&self) {
        if let Some(opened) = self.slot().opened.take() {
            opened.abandon();
        }
    }

    fn examine(&self, stop: Box<dyn Fn() -> bool + Send>) -> FileFinding {
        self.examine_now(stop)
    }

    fn set_aside(&self, anew: bool) -> Result<Option<PathBuf>, OpenError> {
        self.move_aside(anew)
    }

    fn truncate_log(&self) -> Result<bool, WriteError> {
        self.shorten_log()
    }
}

/// A connection and the file it was opened on.
pub(super) struct Opened {
    pub connection: Connection,
    pub names: Names,
    pub file: FileId,
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

    pub fn is_at(&self, path: &Path) -> bool {
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
    pub fn abandon(self) {
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        drop(self.connection);
    }
}
