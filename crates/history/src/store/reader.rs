//! Reads the history for commands and pages, on read-only connections with a time limit. Blocks: do not call it from an
//! async task.
//!
//! Not for a request's path or for routing, which keeps its statistics in memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use crate::store::columns::{HOUR_US, first_race_id};
use crate::store::database::{self, Connection, DatabaseError, Id, params};
use crate::store::open::OpenError;
use crate::store::opened::{DatabaseSize, OpenDatabase};
use crate::store::plan::{self, ReadPlan, RowStretch};
use crate::store::selection::{Coverage, Gather, Selection, SourceFilter};
use crate::store::symptom::symptom;
use crate::store::{cells, scan};
use photofinish_config::StoreAddress;

/// How long one question to the history may take.
const QUERY_FOR: Duration = Duration::from_secs(30);

/// Attempts of a window that is read as rows, so that it is exact. A larger one is read from roll-ups, except its newest
/// hour. A question about 233,000 rows took 0.66 s, and a page asks several.
pub const EXACT_MAX: u64 = 150_000;

/// Race numbers reserved for each piece.
const RACES_OF_PIECE: u64 = 1 << 32;

/// For the operator.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading {path} took longer than {} s; ask for less, such as the last 24 hours (since 24h)", QUERY_FOR.as_secs())]
    TimeLimit { path: StoreAddress },
    #[error("reading {path} was stopped")]
    Stopped { path: StoreAddress },
    #[error("cannot read {path}: {reason}")]
    Failed { path: StoreAddress, reason: String },
}

/// A read-only connection. Works while a gateway writes to the same database.
pub struct StoreReader {
    address: StoreAddress,
    pub(super) opened: OpenDatabase,
    pub(super) time_limit: Duration,
    /// See [`EXACT_MAX`].
    exact_max: u64,
    /// The caller no longer waits for the answer.
    stop: Arc<AtomicBool>,
    /// Gets the reason when the file seems damaged.
    on_damage: Option<OnDamage>,
}

/// Takes a text for the operator.
pub type OnDamage = Arc<dyn Fn(String) + Send + Sync>;

impl StoreReader {
    /// # Errors
    /// The file is missing, or belongs to another program or another version. The text is for an operator.
    pub fn open(address: impl Into<StoreAddress>) -> Result<StoreReader, OpenError> {
        let address = address.into();
        Ok(StoreReader {
            opened: OpenDatabase::reading(&address)?,
            address,
            time_limit: QUERY_FOR,
            stop: Arc::default(),
            on_damage: None,
            exact_max: EXACT_MAX,
        })
    }

    /// Uses this limit instead of [`EXACT_MAX`].
    #[cfg(test)]
    pub fn with_exact_max(self, exact_max: u64) -> StoreReader {
        StoreReader { exact_max, ..self }
    }

    /// Once `stop` is set, reading ends within milliseconds with [`ReadError::Stopped`].
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> StoreReader {
        StoreReader { stop, ..self }
    }

    /// Calls `on_damage` with each error that says that the file is damaged.
    pub fn on_damage(self, on_damage: OnDamage) -> StoreReader {
        StoreReader { on_damage: Some(on_damage), ..self }
    }

    /// Whether the caller no longer waits for the answer.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Reads the selection, with several threads if it is large.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn gather<G: Gather>(
        &self,
        selection: &Selection,
        make: impl Fn() -> G + Sync,
    ) -> Result<(G, Coverage), ReadError> {
        let deadline = self.limit_time()?;
        self.gather_until(selection, &make, deadline).map_err(|error| self.explain(error))
    }

    pub(super) fn is_on_server(&self) -> bool {
        self.address.is_server()
    }

    /// Start of the first known race of this source, to the hour if it is rolled up; microseconds since 1970, UTC.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn oldest(&self, source: SourceFilter) -> Result<Option<i64>, ReadError> {
        self.ask(|connection| plan::oldest(connection, source))
    }

    /// Runs one query under the time limit.
    pub(super) fn ask<T>(&self, query: impl FnOnce(&Connection<'_>) -> database::Result<T>) -> Result<T, ReadError> {
        self.limit_time()?;
        self.opened.ask(query).map_err(|error| self.explain(error))
    }

    fn gather_until<G: Gather>(
        &self,
        selection: &Selection,
        make: &(impl Fn() -> G + Sync),
        deadline: Instant,
    ) -> database::Result<(G, Coverage)> {
        let mut gathered = make();
        // The plan and the cells come from one snapshot.
        let state = self.opened.connection().snapshot()?;
        let plan = ReadPlan::new(&state, selection, self.exact_max)?;
        let pieces = &plan.pieces;
        let (next, (address, stop)) = (AtomicUsize::new(0), (&self.address, &self.stop));
        let work = |connection: &Connection<'_>, gathered: &mut G| -> database::Result<()> {
            loop {
                let place = next.fetch_add(1, Relaxed);
                let Some(RowStretch { from_us, until_us }) = pieces.get(place).copied() else { return Ok(()) };
                let first_race = place as u64 * RACES_OF_PIECE;
                scan::scan(connection, (from_us, until_us), &selection.filter, first_race, gathered)?;
            }
        };
        std::thread::scope(|scope| {
            let helper = || -> database::Result<G> {
                let mut gathered = make();
                let Some(opened) = OpenDatabase::another(address)? else { return Ok(gathered) };
                let stop = Arc::clone(stop);
                opened.limit(Some(deadline), move || stop.load(Relaxed))?;
                let state = opened.connection().snapshot()?;
                // If planned rows were removed since, only the snapshot of the first thread still has them.
                if plan::removed(&state)? == plan.removed {
                    work(&state, &mut gathered)?;
                }
                Ok(gathered)
            };
            let helpers: Vec<_> = (0..self.helpers(&plan)).map(|_| scope.spawn(helper)).collect();
            let own = cells::read(&state, selection, &plan, &mut gathered).and_then(|()| work(&state, &mut gathered));
            if own.is_err() {
                // The others need not go on.
                next.store(pieces.len(), Relaxed);
            }
            own?;
            for helper in helpers {
                let joined = helper.join().map_err(|_| DatabaseError::Content("a thread panicked".to_owned()))?;
                gathered.merge(joined?);
            }
            Ok::<(), DatabaseError>(())
        })?;
        let ReadPlan { rolled_until, whole_hours, ahead_until, .. } = plan;
        Ok((gathered, Coverage { rolled_until, whole_hours, ahead_until }))
    }

    /// How many other threads read rows too.
    fn helpers(&self, plan: &ReadPlan) -> usize {
        if plan.rows_expected < EXACT_MAX / 20 {
            return 0;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(self.opened.readers_max());
        threads.min(plan.pieces.len()).saturating_sub(1)
    }

    fn limit_time(&self) -> Result<Instant, ReadError> {
        // A short query may end before its first check.
        if self.stop.load(Relaxed) {
            return Err(ReadError::Stopped { path: self.address.clone() });
        }
        let deadline = Instant::now() + self.time_limit;
        let stop = Arc::clone(&self.stop);
        let limited = self.opened.limit(Some(deadline), move || stop.load(Relaxed));
        limited.map_err(|error| self.explain(error))?;
        Ok(deadline)
    }

    fn explain(&self, error: DatabaseError) -> ReadError {
        let (path, is_over) = (self.address.clone(), error.is_over());
        if is_over && self.stop.load(Relaxed) {
            return ReadError::Stopped { path };
        }
        if is_over {
            return ReadError::TimeLimit { path };
        }
        let reason = error.advised();
        if let Some(on_damage) = self.on_damage.as_ref().filter(|_| symptom(&error).is_some()) {
            on_damage(reason.clone());
        }
        ReadError::Failed { path, reason }
    }
}

/// Rows that `check` counts one by one.
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
        self.ask(|connection| inside(connection, self.address.local_file()))
    }
}

fn inside(connection: &Connection<'_>, file: &Path) -> database::Result<Extent> {
    let number = |sql: &str| connection.one(sql, &[], |row| row.get::<u64>(0));
    let last: Option<i64> = connection.find(LAST, &[], |row| row.get(0))?;
    let rolled_until = last.map(|start| start + HOUR_US);
    let from = first_race_id(rolled_until.unwrap_or(0));
    let counted: u64 = connection.one(NEW_ROWS, params![Id(&from), COUNTED_MAX + 1], |row| row.get(0))?;
    let DatabaseSize { file_bytes, log_bytes, free_bytes } = DatabaseSize::of(connection, file)?;
    Ok(Extent {
        file_bytes,
        log_bytes,
        free_bytes,
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
pub(super) const ROLLED: &str = "SELECT CAST(coalesce(sum(attempts), 0) AS BIGINT) FROM rollup_span WHERE hours = 1";

pub(super) const NEW_ROWS: &str = "\
    SELECT count(*) FROM (\
        SELECT 1 FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id \
        WHERE attempt.race_id >= ?1 AND coalesce(race.source, 'client') = 'client' LIMIT ?2) AS counted";
