//! The history on disk: one SQLite file, opened, migrated, written in batches and read back. The only place with SQL.
//!
//! Not for a request's path: [`Store::write`] belongs to the recorder's one writer task, [`Reader`] to whoever asks the
//! history, and [`Roller`] to whoever keeps it small.

mod bundle;
mod cells;
mod code;
mod columns;
mod extent;
mod open;
mod plan;
mod publish;
mod races;
mod reader;
mod recorded;
mod rollup;
mod scan;
mod times;
mod write;

#[cfg(test)]
mod tests;

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::Mutex;

pub use extent::Extent;
pub use open::OpenError;
pub use races::{RaceFilter, Row};
pub use reader::{Cell, Class, Coverage, EXACT_MAX, Gather, ReadError, Reader, Selection};
pub use recorded::RecordedFilter;
pub use rollup::{Roller, RollupError, Step};
pub use scan::AttemptFilter;
pub use write::{Record, WriteError};

use write::Statements;

/// The database, open for writing, over one connection.
pub struct Store {
    path: PathBuf,
    statements: Statements,
    /// None after a failure that may have left the connection in the middle of something: the next write opens another.
    opened: Mutex<Option<Opened>>,
}

impl Store {
    /// Opens the file, creates it if it is not there, and brings its tables up to date.
    pub async fn open(path: &Path) -> Result<Store, OpenError> {
        let opened = Opened::open(path).await?;
        Ok(Store { path: path.into(), statements: Statements::new(), opened: Mutex::new(Some(opened)) })
    }

    /// Writes the whole batch in one transaction, or nothing of it. Records that are there already are left as they
    /// are, so the same batch may be sent again. Waits up to a second for another writer.
    pub async fn write(&self, batch: &[Record]) -> Result<(), WriteError> {
        let mut slot = self.opened.lock().await;
        // Taken out: if this future is dropped halfway, the connection goes with it, and its transaction is undone.
        let mut opened = self.still_there(slot.take()).await?;
        let written = self.statements.write(&mut opened.connection, batch).await;
        if written.as_ref().err().is_none_or(|error| error.connection_is_sound) {
            *slot = Some(opened);
        }
        written
    }

    /// Renews the planner's statistics, empties the write-ahead log into the file, and closes.
    pub async fn close(self) {
        if let Some(opened) = self.opened.into_inner()
            && let Err(error) = opened.connection.close().await
        {
            tracing::warn!(path = %self.path.display(), %error, "the database did not close cleanly");
        }
    }

    /// The open connection, if the file that it writes to is still the one at the path; else a new one.
    async fn still_there(&self, opened: Option<Opened>) -> Result<Opened, WriteError> {
        let found = tokio::fs::metadata(&self.path).await.ok().map(|metadata| FileId::of(&metadata));
        match opened {
            Some(opened) if found == Some(opened.file) => return Ok(opened),
            Some(opened) => {
                let path = self.path.display();
                tracing::warn!(%path, "the database file was removed or replaced; opening what is there now");
                opened.leave().await;
            }
            None => {}
        }
        Opened::open(&self.path).await.map_err(|error| WriteError::unavailable(error.to_string()))
    }
}

/// A connection and the file that it was opened on.
struct Opened {
    connection: SqliteConnection,
    file: FileId,
}

impl Opened {
    async fn open(path: &Path) -> Result<Opened, OpenError> {
        let connection = open::writable(path).await?;
        let metadata = tokio::fs::metadata(path)
            .await
            .map_err(|error| OpenError::Unusable { path: path.into(), reason: error.to_string() })?;
        Ok(Opened { connection, file: FileId::of(&metadata) })
    }

    /// Closes a connection to a file that is no longer at its path.
    async fn leave(mut self) {
        // Its `-wal` file is still there, and would be played into whatever database stands at the path next. Emptied
        // into the old file it does no harm, and one that was moved away is complete.
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.connection).await;
        // Closed before the next one opens: they would share the locks of one `-shm` file.
        let _ = self.connection.close().await;
    }
}

/// Device and inode: a file under the same name is not the same file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt as _;
        FileId(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> FileId {
        FileId(0, 0)
    }
}
