//! Reading the history, for commands and pages: on connections of its own, read-only, with a time limit. Blocks: not for
//! a task of the runtime.
//!
//! Never on a request's path, and not for routing, which keeps what it needs in memory. Rows are read by another driver than
//! they are written with: to hand over a value, that one sends a copy of it from thread to thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::cells;
use super::open::{self, OpenError};
use super::plan::{self, Piece, Plan};
use super::scan::{self, AttemptFilter};
use crate::history::Short;
use crate::history::class::{Concurrency, Input};
use crate::history::facts::{Facts, RequestFacts};

/// One question to the history may take this long.
const QUERY_FOR: Duration = Duration::from_secs(30);

/// A window with at most so many attempts is read row by row, and so exact; a larger one out of what was rolled up, but
/// for its newest hour.
pub const EXACT_MAX: u64 = 400_000;

/// Threads that read rows for one question.
const THREADS_MAX: usize = 4;

/// Virtual machine steps of SQLite between two looks at the clock; well under a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Race numbers that each piece has for itself.
const RACES_OF_PIECE: u64 = 1 << 32;

/// What a question gathers. Every thread has one; in the end they are one.
pub trait Gather: Send {
    /// The attempts of a race come one after the other.
    fn attempt(&mut self, facts: &Facts<'_>);

    /// A request that no attempt was started for: it was rejected, or every upstream was cooling down. `started_at`:
    /// microseconds since 1970, UTC.
    fn without_attempts(&mut self, started_at: i64, request: &RequestFacts<'_>);

    /// What was rolled up.
    ///
    /// # Errors
    /// When the summary is damaged.
    fn cell(&mut self, cell: &Cell<'_>) -> Result<(), Short>;

    fn merge(&mut self, other: Self);
}

/// The summary of one hour or day.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// Microseconds since 1970, UTC.
    pub start_us: i64,
    /// Microseconds.
    pub span_us: i64,
    /// None: requests that no attempt served, each once; only these are in the summary then.
    pub upstream: Option<(&'a str, &'a str)>,
    pub model: Option<&'a str>,
    pub user: Option<&'a str>,
    /// Of what class; none where classes were not asked for.
    pub class: Option<Class>,
    /// Attempts; without an upstream, the requests that none was started for.
    pub count: u64,
    /// As [`crate::history::summary::Summary::encode`] made it.
    pub summary: &'a [u8],
}

/// By what an hour is parted within itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    pub input: Input,
    pub concurrency: Concurrency,
    pub stream: bool,
}

/// What is to be read.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub filter: AttemptFilter,
    /// Microseconds since 1970, UTC.
    pub now_us: i64,
    /// Cells by class are needed.
    pub classes: bool,
    /// Cells of a whole day will not do.
    pub hourly: bool,
    /// Rows only, however many, as far as there are any.
    pub exact: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Out of rolled-up hours and days before this time; microseconds since 1970, UTC. None: all out of rows.
    pub rolled_until: Option<i64>,
    /// Where an end of the window lies in an hour whose rows are gone: the window of whole hours that was read instead,
    /// those that begin in the one that was asked for. A window within a single such hour holds nothing, and this is that
    /// hour. Microseconds since 1970, UTC.
    pub whole_hours: Option<(i64, i64)>,
}

impl Coverage {
    /// The window that was read: from the beginning of the filter's, or else the oldest race that was found, to its end or
    /// now. Microseconds since 1970, UTC.
    pub fn window(&self, filter: &AttemptFilter, oldest: Option<i64>, now_us: i64) -> (i64, i64) {
        let (from_us, until_us) = self.whole_hours.unzip();
        let until_us = until_us.or(filter.until).unwrap_or(now_us).min(now_us);
        let from_us = filter.since.and(from_us).or(filter.since).or(oldest).or(from_us);
        (from_us.unwrap_or(until_us), until_us)
    }
}

/// For the operator.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading {path} took longer than {} s; ask for less, such as the last 24 hours (since 24h)", QUERY_FOR.as_secs())]
    TimeLimit { path: PathBuf },
    #[error("reading {path} was stopped")]
    Stopped { path: PathBuf },
    #[error("cannot read {path}: {reason}")]
    Failed { path: PathBuf, reason: String },
}

/// A read-only connection. Works while a gateway writes to the same file.
pub struct Reader {
    path: PathBuf,
    pub(super) connection: Connection,
    pub(super) time_limit: Duration,
    /// See [`EXACT_MAX`].
    exact_max: u64,
    /// Nobody waits for the answer any more.
    stop: Arc<AtomicBool>,
}

impl Reader {
    /// # Errors
    /// In words for an operator, when the file is not there, not ours or of another edition.
    pub fn open(path: &Path) -> Result<Reader, OpenError> {
        let connection = open::readable(path)?;
        Ok(Reader { path: path.into(), connection, time_limit: QUERY_FOR, stop: Arc::default(), exact_max: EXACT_MAX })
    }

    /// Reads a window of more attempts than these out of what was rolled up, instead of [`EXACT_MAX`].
    #[cfg(test)]
    pub fn with_exact_max(self, exact_max: u64) -> Reader {
        Reader { exact_max, ..self }
    }

    /// Once `stop` is set, what is read ends within milliseconds, as [`ReadError::Stopped`].
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Reader {
        Reader { stop, ..self }
    }

    /// Reads what is selected, with several threads where there is much.
    ///
    /// # Errors
    /// When it takes too long, or the file cannot be read.
    pub fn gather<G: Gather>(
        &self,
        selection: &Selection,
        make: impl Fn() -> G + Sync,
    ) -> Result<(G, Coverage), ReadError> {
        let deadline = self.limit_time()?;
        self.gather_until(selection, &make, deadline).map_err(|error| self.explain(&error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// When the first race began that is known of, to the hour where it is rolled up; microseconds since 1970, UTC.
    ///
    /// # Errors
    /// When it takes too long, or the file cannot be read.
    pub fn oldest(&self) -> Result<Option<i64>, ReadError> {
        self.ask(plan::oldest)
    }

    /// Runs one query of the store's own under the time limit.
    pub(super) fn ask<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ReadError> {
        self.limit_time()?;
        query(&self.connection).map_err(|error| self.explain(&error))
    }

    fn gather_until<G: Gather>(
        &self,
        selection: &Selection,
        make: &(impl Fn() -> G + Sync),
        deadline: Instant,
    ) -> rusqlite::Result<(G, Coverage)> {
        let mut gathered = make();
        // The plan and the cells are of one state of the file.
        let state = self.connection.unchecked_transaction()?;
        let plan = Plan::new(&state, selection, self.exact_max)?;
        cells::read(&state, selection, &plan, &mut gathered)?;
        let pieces = &plan.pieces;
        let others = match std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX) {
            _ if plan.rows_expected < EXACT_MAX / 20 => 0,
            threads => threads.min(pieces.len()).saturating_sub(1),
        };
        let next = AtomicUsize::new(0);
        let work = |connection: &Connection, gathered: &mut G| -> rusqlite::Result<()> {
            loop {
                let place = next.fetch_add(1, Relaxed);
                let Some(Piece { from_us, until_us }) = pieces.get(place).copied() else { return Ok(()) };
                let first_race = place as u64 * RACES_OF_PIECE;
                scan::scan(connection, (from_us, until_us), &selection.filter, first_race, gathered)?;
            }
        };
        let (path, stop) = (&self.path, &self.stop);
        std::thread::scope(|scope| {
            let helper = || -> rusqlite::Result<G> {
                let mut gathered = make();
                let connection = open::connect(path)?;
                interrupt(&connection, deadline, stop)?;
                let state = connection.unchecked_transaction()?;
                // Rows of the plan that were removed since are still in the state of the file that the first thread reads.
                if plan::removed(&state)? == plan.removed {
                    work(&state, &mut gathered)?;
                }
                Ok(gathered)
            };
            let helpers: Vec<_> = (0..others).map(|_| scope.spawn(helper)).collect();
            work(&state, &mut gathered)?;
            for helper in helpers {
                gathered.merge(helper.join().map_err(|_| rusqlite::Error::InvalidQuery)??);
            }
            Ok::<(), rusqlite::Error>(())
        })?;
        Ok((gathered, Coverage { rolled_until: plan.rolled_until, whole_hours: plan.whole_hours }))
    }

    fn limit_time(&self) -> Result<Instant, ReadError> {
        // A short query ends before it is looked at.
        if self.stop.load(Relaxed) {
            return Err(ReadError::Stopped { path: self.path.clone() });
        }
        let deadline = Instant::now() + self.time_limit;
        interrupt(&self.connection, deadline, &self.stop).map_err(|error| self.explain(&error))?;
        Ok(deadline)
    }

    fn explain(&self, error: &rusqlite::Error) -> ReadError {
        let path = self.path.clone();
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) if self.stop.load(Relaxed) => ReadError::Stopped { path },
            Some(rusqlite::ErrorCode::OperationInterrupted) => ReadError::TimeLimit { path },
            _ => ReadError::Failed { path, reason: error.to_string() },
        }
    }
}

/// Lets what runs on the connection run until the deadline, or until `stop` is set.
fn interrupt(connection: &Connection, deadline: Instant, stop: &Arc<AtomicBool>) -> rusqlite::Result<()> {
    let stop = stop.clone();
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop.load(Relaxed) || Instant::now() >= deadline))
}
