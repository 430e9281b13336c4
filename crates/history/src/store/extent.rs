//! The size and the content of a database, without reading all of it.
//!
//! Not for figures.

use rusqlite::{Connection, OptionalExtension as _};

use super::open;
use super::plan;
use super::reader::{ReadError, StoreReader};
use super::source_filter::SourceFilter;
use super::times::{HOUR_US, first_race_id};

/// Rows that are counted one by one.
const COUNTED_MAX: i64 = 100_000;

/// The size and content of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Size of the database file in bytes.
    pub file_bytes: u64,
    /// Size of its write-ahead log in bytes.
    pub log_bytes: u64,
    /// Free space within the file, for new rows; bytes.
    pub free_bytes: u64,
    /// Free space beyond what new rows will soon need goes back to the disk.
    pub gives_back: bool,
    /// Of clients.
    pub attempts: u64,
    /// True if there are more rows: not all rows without a roll-up were counted.
    pub more: bool,
    /// Start of the first race of a client, to the hour if it is rolled up; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// End of the newest rolled-up hour; microseconds since 1970, UTC.
    pub rolled_until: Option<i64>,
}

impl StoreReader {
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn extent(&self) -> Result<Extent, ReadError> {
        let bytes = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let (file_bytes, log_bytes) = (bytes(self.path()), bytes(&open::log_of(self.path())));
        let gives_back = self.ask(open::gives_back)?;
        self.ask(|connection| Ok(Extent { file_bytes, log_bytes, gives_back, ..inside(connection)? }))
    }
}

fn inside(connection: &Connection) -> rusqlite::Result<Extent> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    let last: Option<i64> = connection.query_row(LAST, [], |row| row.get(0)).optional()?;
    let rolled_until = last.map(|start| start + HOUR_US);
    let from = first_race_id(rolled_until.unwrap_or(0));
    let counted: u64 = connection.query_row(NEW_ROWS, rusqlite::params![from, COUNTED_MAX + 1], |row| row.get(0))?;
    Ok(Extent {
        file_bytes: 0,
        log_bytes: 0,
        gives_back: false,
        free_bytes: number("PRAGMA freelist_count")? * number("PRAGMA page_size")?,
        attempts: number(ROLLED)? + counted.min(COUNTED_MAX as u64),
        more: counted > COUNTED_MAX as u64,
        since: plan::oldest(connection, SourceFilter::Client)?,
        rolled_until,
    })
}

pub(super) const LAST: &str = "\
    SELECT start FROM rollup_span WHERE hours = 1 AND state > 0 \
      AND EXISTS (SELECT 1 FROM rollup WHERE rollup.hours = rollup_span.hours AND rollup.start = rollup_span.start) \
    ORDER BY start DESC LIMIT 1";

/// Includes hours that must be rolled up again.
pub(super) const ROLLED: &str = "SELECT coalesce(sum(attempts), 0) FROM rollup_span WHERE hours = 1";

pub(super) const NEW_ROWS: &str = "\
    SELECT count(*) FROM (\
        SELECT 1 FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id \
        WHERE attempt.race_id >= ?1 AND coalesce(race.source, 'client') = 'client' LIMIT ?2)";
