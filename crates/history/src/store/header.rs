//! The beginning of the database file: whether it is one, and the gateway's. SQLite does not read cached pages again, so
//! rows would go to an overwritten file that no process can open again.
//!
//! Not for a replaced file: `Store` detects a new inode.

use std::fs::{File, Metadata, TryLockError};
use std::io::{Read as _, Seek as _};
use std::path::Path;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Position of the number of the program that a database belongs to. <https://www.sqlite.org/fileformat.html>
const APPLICATION_ID: std::ops::Range<usize> = 68..72;

/// "PHOT"; the first migration sets it.
pub(super) const PHOTOFINISH: i32 = 0x5048_4F54;

/// Reads the beginning of a file.
///
/// The handle stays open as long as the file is the same: closing any handle of a file drops the locks that SQLite
/// holds on it in this process.
#[derive(Default)]
pub(super) struct Header {
    file: Option<(FileId, File)>,
}

impl Header {
    /// False only if it was read and is not a database.
    pub(super) fn is_of_a_database(&mut self, path: &Path, id: FileId) -> bool {
        self.begin(path, id).is_none_or(|begin| begin.starts_with(MAGIC))
    }

    /// Whether it was read and is a database of the gateway.
    pub(super) fn is_of_photofinish(&mut self, path: &Path, id: FileId) -> bool {
        let begin = self.begin(path, id).unwrap_or_default();
        begin.starts_with(MAGIC) && begin.get(APPLICATION_ID) == Some(&PHOTOFINISH.to_be_bytes())
    }

    /// Locks the file against other gateways that would move it away, until the handle is closed. False: another one
    /// does so now. SQLite has locks of another kind, so no reader and no writer waits.
    pub(super) fn lock(&mut self, path: &Path, id: FileId) -> bool {
        let locked = self.handle(path, id).map(|file| file.try_lock());
        // Not every file system has such locks.
        !matches!(locked, Some(Err(TryLockError::WouldBlock)))
    }

    /// None: it cannot be read.
    fn begin(&mut self, path: &Path, id: FileId) -> Option<Vec<u8>> {
        let file = self.handle(path, id)?;
        let mut begin = Vec::with_capacity(APPLICATION_ID.end);
        file.rewind().ok()?;
        file.take(APPLICATION_ID.end as u64).read_to_end(&mut begin).ok()?;
        Some(begin)
    }

    fn handle(&mut self, path: &Path, id: FileId) -> Option<&mut File> {
        if self.file.as_ref().is_none_or(|(of, _)| *of != id) {
            self.file = File::open(path).ok().map(|file| (id, file));
        }
        self.file.as_mut().map(|(_, file)| file)
    }
}

/// Device and inode: a new file under the same name is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// The file at the path; none if there is no file.
    pub(super) fn at(path: &Path) -> Option<FileId> {
        std::fs::metadata(path).ok().map(|metadata| FileId::of(&metadata))
    }

    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt as _;
        FileId(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> FileId {
        FileId(0, 0)
    }
}
