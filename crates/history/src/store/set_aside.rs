//! Moves a damaged file out of the way, under a name of its own, and puts a new one in its place.
//!
//! Nothing is deleted and no earlier file is overwritten. Whoever has the old file open keeps it; a gateway notices at its
//! next batch that another one is at the path. Not for finding damage: see `look` and `damage`.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::store::damage::{FileFinding, examine};
use crate::store::file::FileStore;
use crate::store::header::{FileId, Header};
use crate::store::open::{self, OpenError};
use photofinish_base::clock::wall_micros;

/// Damaged files in the directory of a database. No further one is moved, so that whatever damages them does not fill the
/// disk.
const ASIDE_MAX: usize = 10;

/// Entries of the directory that are looked through for them.
const ENTRIES_MAX: usize = 10_000;

/// Between the name of the database and the time.
const MARK: &str = ".damaged-";

/// Of one database, the one with the name of the file last.
const SUFFIXES: [&str; 3] = ["-wal", "-shm", ""];

/// A damaged file that was moved out of the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetAside {
    /// When; microseconds since 1970, UTC.
    pub at_us: i64,
    /// In the directory of the database.
    pub name: String,
}

impl FileStore {
    /// Checks the whole file at the path. `stop` ends the check.
    pub fn examine_now(&self, stop: impl Fn() -> bool + Send + 'static) -> FileFinding {
        let path = self.path();
        let Some(file) = FileId::at(path) else { return FileFinding::Unknown("the file is gone".to_owned()) };
        let is_database = {
            let mut slot = self.slot();
            slot.doubted = Some(file);
            slot.header.is_of_a_database(path, file)
        };
        match is_database {
            true => examine(path, stop),
            false => FileFinding::Damaged("it does not begin as a database".to_owned()),
        }
    }

    /// Moves the file that was examined last out of the way. `anew`: puts a new database in its place. None: another file
    /// is there by now.
    ///
    /// # Errors
    /// It is not known to be the gateway's, there are too many such files, or the disk is full. Nothing was moved.
    pub fn move_aside(&self, anew: bool) -> Result<Option<PathBuf>, OpenError> {
        let path = self.path();
        let failed = |error: io::Error| OpenError::Unusable { path: path.into(), reason: error.to_string() };
        let mut slot = self.slot();
        let Some(file) = slot.doubted.filter(|file| FileId::at(path) == Some(*file)) else { return Ok(None) };
        if !slot.is_own(path, file) {
            return Err(OpenError::NotADatabase { path: path.into() });
        }
        let count = set_aside_files(path).len();
        if count >= ASIDE_MAX {
            return Err(OpenError::TooManyAside { path: path.into(), count });
        }
        if !slot.header.lock(path, file) {
            return Err(OpenError::Locked { path: path.into() });
        }
        // Made before anything is moved: a full disk has no room for it.
        let new = anew.then(|| new_file(path)).transpose()?;
        if let Some(opened) = slot.opened.take() {
            opened.abandon();
        }
        let _moving = open::moving();
        // Another gateway may have been faster.
        if FileId::at(path) != Some(file) {
            return Ok(None);
        }
        let aside = move_away(path, wall_micros()).map_err(failed)?;
        if let Some(new) = new {
            std::fs::rename(new, path).map_err(failed)?;
        }
        (slot.file, slot.doubted, slot.header) = (None, None, Header::default());
        Ok(Some(aside))
    }
}

/// The damaged files in the directory of a database, oldest first.
pub fn set_aside_files(database: &Path) -> Vec<SetAside> {
    let Some(name) = database.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let begin = format!("{name}{MARK}");
    let directory = database.parent().filter(|directory| !directory.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(directory.unwrap_or(Path::new("."))) else { return Vec::new() };
    let found = entries.take(ENTRIES_MAX).flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        // The time alone: the names of its logs have more behind it.
        let (time, number) = name.strip_prefix(&begin)?.split_at_checked(LENGTH)?;
        let is_whole =
            number.is_empty() || number.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok());
        let at_us = time.parse::<Timestamp>().ok().filter(|_| is_whole)?.as_microsecond();
        Some(SetAside { at_us, name })
    });
    let mut found: Vec<SetAside> = found.collect();
    found.sort();
    found
}

/// Of a time in a name.
const LENGTH: usize = "20260102T030405Z".len();

/// An empty database in the directory of the one at the path.
fn new_file(path: &Path) -> Result<PathBuf, OpenError> {
    let new = PathBuf::from(with_suffix(path, ".new"));
    // Left by a crash.
    for suffix in SUFFIXES {
        let _ = std::fs::remove_file(with_suffix(&new, suffix));
    }
    let connection = open::writable(&new, None)?;
    // Closed, it has no log.
    open::close(connection).map_err(|error| OpenError::Disk { path: new.clone(), reason: error.to_string() })?;
    Ok(new)
}

/// Renames the file with its logs. The logs go first: SQLite would apply one that is left behind to the next file of that
/// name.
fn move_away(path: &Path, at_us: i64) -> io::Result<PathBuf> {
    let aside = free_name(path, at_us)?;
    let mut moved = Vec::new();
    for suffix in SUFFIXES {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&aside, suffix));
        match std::fs::rename(&from, &to) {
            Ok(()) => moved.push((from, to)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => {}
            Err(error) => {
                for (from, to) in moved {
                    std::fs::rename(to, from)?;
                }
                return Err(error);
            }
        }
    }
    Ok(aside)
}

/// A name that neither a file nor a log of one has.
fn free_name(path: &Path, at_us: i64) -> io::Result<PathBuf> {
    let time = Timestamp::from_microsecond(at_us).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ").to_string();
    let names = (1..=ASIDE_MAX).map(|number| match number {
        1 => PathBuf::from(with_suffix(path, &format!("{MARK}{time}"))),
        number => PathBuf::from(with_suffix(path, &format!("{MARK}{time}-{number}"))),
    });
    let is_free = |name: &PathBuf| SUFFIXES.iter().all(|suffix| !Path::new(&with_suffix(name, suffix)).exists());
    names.into_iter().find(is_free).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

fn with_suffix(path: &Path, suffix: &str) -> std::ffi::OsString {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_moved_with_its_logs_and_overwrites_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        for name in
            ["history.db.damaged-notes", "history.db.damaged-20260102T030405Z-shm", "other.db.damaged-20260102T030405Z"]
        {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(set_aside_files(&path), []);
        let at_us = 1_767_323_045_000_000;
        for (number, name) in
            ["history.db.damaged-20260102T030405Z-2", "history.db.damaged-20260102T030405Z-3"].into_iter().enumerate()
        {
            std::fs::write(&path, format!("{number}")).unwrap();
            std::fs::write(with_suffix(&path, "-wal"), format!("log {number}")).unwrap();
            let aside = move_away(&path, at_us).unwrap();
            assert_eq!(aside, directory.path().join(name));
            assert_eq!(std::fs::read_to_string(&aside).unwrap(), format!("{number}"));
            assert_eq!(std::fs::read_to_string(with_suffix(&aside, "-wal")).unwrap(), format!("log {number}"));
            assert!(!path.exists() && !Path::new(&with_suffix(&path, "-wal")).exists());
            let last = set_aside_files(&path).pop().unwrap();
            assert_eq!((last.at_us, last.name.as_str()), (at_us, name));
        }
        assert_eq!(set_aside_files(&path).len(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_moved_keeps_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        std::fs::write(with_suffix(&path, "-wal"), "log").unwrap();
        assert!(move_away(&path, 0).is_err());
        assert_eq!(std::fs::read_to_string(with_suffix(&path, "-wal")).unwrap(), "log");
    }
}
