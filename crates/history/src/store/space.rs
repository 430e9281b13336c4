//! Gives disk space back while the gateway runs: of the write-ahead log, and of removed rows.
//!
//! Not for removing rows: see `rollup`.

use std::time::Duration;

use rusqlite::Connection;

use crate::store::file::FileStore;
use crate::store::open::{self, BUSY_TIMEOUT, LOG_KEPT};
use crate::store::write::WriteError;

/// How long a checkpoint waits for readers and other writers. The writer of the history waits as long.
const CHECKPOINT_FOR: Duration = Duration::from_millis(50);

/// Pages that are given back in one transaction: a few milliseconds.
const GIVEN_BACK_MAX: u64 = 200;

/// Free pages that stay for new rows: one in this number, and at least [`KEPT_MIN`].
const KEPT_SHARE: u64 = 10;

/// 4 MiB.
const KEPT_MIN: u64 = 1_024;

impl FileStore {
    /// See [`Store::truncate_log`](crate::store::Store::truncate_log).
    ///
    /// # Errors
    /// The log cannot be read, or the file cannot be written.
    pub fn shorten_log(&self) -> Result<bool, WriteError> {
        let path = self.path();
        let is_small = || std::fs::metadata(open::log_of(path)).map_or(0, |log| log.len()) <= LOG_KEPT;
        if is_small() {
            return Ok(true);
        }
        if let Some(opened) = self.slot().opened.as_ref().filter(|opened| opened.is_at(path)) {
            truncate(&opened.connection).map_err(WriteError::sound)?;
        }
        Ok(is_small())
    }
}

fn truncate(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(CHECKPOINT_FOR)?;
    // A row says whether it was busy.
    let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(BUSY_TIMEOUT)?;
    done
}

/// Gives some free pages back to the disk, if there are more than new rows will soon need. Returns their number.
pub(super) fn give_back(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let free = number("freelist_count")?;
    let kept = (number("page_count")? / KEPT_SHARE).max(KEPT_MIN);
    let pages = free.saturating_sub(kept).min(GIVEN_BACK_MAX);
    if pages > 0 {
        // It returns a row for each page.
        let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(pages)
}
