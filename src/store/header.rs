//! Detects that the database file was overwritten. SQLite does not read cached pages again, so rows would go to a file
//! that no process can open again.
//!
//! Not for a replaced file: `Store` detects a new inode.

use std::fs::{File, Metadata};
use std::io::{Read as _, Seek as _};
use std::path::Path;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

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
        if self.file.as_ref().is_none_or(|(of, _)| *of != id) {
            self.file = File::open(path).ok().map(|file| (id, file));
        }
        let Some((_, file)) = &mut self.file else { return true };
        let mut begin = [0; MAGIC.len()];
        match file.rewind().and_then(|()| file.read_exact(&mut begin)) {
            Ok(()) => begin == *MAGIC,
            Err(error) => error.kind() != std::io::ErrorKind::UnexpectedEof,
        }
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
