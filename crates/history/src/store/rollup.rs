//! Rolls up finished hours and days, removes rows older than the retention, and gives their space back. Each step is a few small transactions,
//! so the writer of the history waits for at most one of them.
//!
//! Every writer marks its hours in `rollup_span`, so an hour with late rows is rolled up again. No connection is open
//! between two steps: the file may be moved or replaced. Failed work is postponed, so that one damaged page does not
//! stop the rest. Not for the format of a cell (`bundle`) or for writing one (`publish`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::store::cells::{self, Bundle, DayCells, PublishOutcome, RollupSpan};
use crate::store::columns::{DAY_US, HOUR_US, began_at, first_race_id, start_of};
use crate::store::database::{self, AnswerRow, Connection, Id, params};
use crate::store::header::FileId;
use crate::store::open::OpenError;
use crate::store::opened::OpenDatabase;
use crate::store::postgres;
use crate::store::scan;
use crate::store::selection::AttemptFilter;
use crate::store::symptom::symptom;
use photofinish_base::clock::micros;
use photofinish_config::StoreAddress;

/// How long races of an hour have to end before the hour is rolled up for the first time.
const SETTLE_FOR: Duration = Duration::from_secs(300);

/// Failed work is postponed for this long.
const POSTPONED_FOR: Duration = Duration::from_secs(3_600);

/// Maximum number of postponed hours and days. At this number no other is tried.
const POSTPONED_MAX: usize = 1_000;

/// Races whose rows are removed in one transaction.
const REMOVED_MAX: i64 = 200;

/// A month, in microseconds.
const LATELY_US: i64 = 30 * DAY_US;

/// The work of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupStep {
    /// An hour with this many attempts was rolled up.
    RolledUp { attempts: u64 },
    /// A day was merged from its hours.
    Day,
    /// The rows of this many races were removed.
    Removed { races: usize },
    /// This many free pages were given back to the disk.
    GivenBack { pages: u64 },
    /// Nothing is due.
    Nothing,
}

/// Rolls up one file. Several rollers on one file do no harm, but bring no benefit.
pub struct Roller {
    address: StoreAddress,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The file of the last step.
    file: Option<FileId>,
    /// Failed work and the time of the failure; microseconds since 1970, UTC.
    postponed: BTreeMap<RollupWork, i64>,
    /// Removal and roll-up alternate: a nearly full disk has no room for all roll-ups first.
    removal_is_next: bool,
}

/// The work of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RollupWork {
    RollUp(RollupSpan),
    Remove,
    GiveBack,
}

impl Roller {
    /// `stop`: whether to abandon the running step; polled while it runs.
    pub fn new(address: impl Into<StoreAddress>, stop: impl Fn() -> bool + Send + Sync + 'static) -> Roller {
        let (postponed, stop) = (BTreeMap::new(), Arc::new(stop));
        Roller { address: address.into(), stop, file: None, postponed, removal_is_next: false }
    }

    /// Rolls up an hour or a day that is due, or removes some rows that began before `keep_from`; alternates if both
    /// are due. Times are microseconds since 1970, UTC. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written. No reader sees half a roll-up, and the step may be repeated. Unless the
    /// whole file fails, the failed work is postponed.
    pub fn step(&mut self, now_us: i64, keep_from: Option<i64>) -> Result<RollupStep, RollupError> {
        let connected = self.connect();
        let mut opened = connected.map_err(|error| RollupError::unopened(&self.address, &error))?;
        if !opened.holds_rollup().map_err(|error| RollupError::of(&self.address, &error))? {
            return Ok(RollupStep::Nothing);
        }
        // The clock may have been set back.
        self.postponed.retain(|_, at_us| (0..micros(POSTPONED_FOR)).contains(&(now_us - *at_us)));
        if self.removal_is_next {
            self.removal_is_next = false;
            let step = self.remove(&mut opened, now_us, keep_from)?;
            if step != RollupStep::Nothing {
                return Ok(step);
            }
        }
        if let Some(span) = self.due(&opened.connection(), now_us)? {
            self.removal_is_next = true;
            return self.tried(RollupWork::RollUp(span), now_us, || roll_up(&opened.connection(), span));
        }
        self.remove(&mut opened, now_us, keep_from)
    }

    /// Days with rows, present or removed, in the month before `now_us`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn days_with_rows(&mut self, now_us: i64) -> Result<usize, RollupError> {
        let opened =
            OpenDatabase::rolling(&self.address).map_err(|error| RollupError::unopened(&self.address, &error))?;
        let days = opened.connection().one(DAYS, params![now_us - LATELY_US, now_us], |row| row.get(0));
        days.map_err(|error| RollupError::of(&self.address, &error))
    }

    /// Whether there are rows of hours that ended before this time. False if the file cannot be read.
    pub fn has_rows_before(&self, keep_from: i64) -> bool {
        let opened = OpenDatabase::rolling(&self.address).ok();
        let oldest = opened.and_then(|opened| next_hour(&opened.connection(), 0).ok().flatten());
        oldest.is_some_and(|hour| hour + HOUR_US <= keep_from)
    }

    fn connect(&mut self) -> Result<OpenDatabase, OpenError> {
        let opened = OpenDatabase::rolling(&self.address)?;
        let unusable = |reason: String| OpenError::Unusable { path: self.address.local_file().into(), reason };
        let stop = Arc::clone(&self.stop);
        opened.limit(None, move || stop()).map_err(|error| unusable(error.to_string()))?;
        let Some(path) = self.address.file() else { return Ok(opened) };
        let found = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
        let file = Some(FileId::of(&found));
        if self.file != file {
            self.file = file;
            self.postponed.clear();
        }
        Ok(opened)
    }

    /// Postpones failing work.
    fn tried<T>(
        &mut self,
        work: RollupWork,
        now_us: i64,
        run: impl FnOnce() -> Result<T, RollupFailure>,
    ) -> Result<T, RollupError> {
        // After a panic the connection is not used again: closing it rolls its transaction back.
        let failure = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(failure)) => failure,
            Err(_) => RollupFailure::Panic,
        };
        let is_postponed = !failure.is_of_the_file();
        if is_postponed {
            self.postponed.insert(work, now_us);
        }
        let (path, reason) = (self.address.clone(), format!("{work}: {failure}"));
        Err(RollupError { path, reason, is_postponed, is_of_damage: failure.is_of_damage() })
    }

    /// The next hour to roll up, or else the next day.
    fn due(&mut self, connection: &Connection<'_>, now_us: i64) -> Result<Option<RollupSpan>, RollupError> {
        if self.postponed.len() >= POSTPONED_MAX {
            return Ok(None);
        }
        let settled_us = now_us - micros(SETTLE_FOR);
        let next = |roller: &Roller, hours| {
            let due =
                due(connection, hours, settled_us, |span| roller.postponed.contains_key(&RollupWork::RollUp(span)));
            due.map_err(|error| RollupError::of(&roller.address, &error))
        };
        if let Some(hour) = next(self, 1)? {
            return Ok(Some(hour));
        }
        next(self, 24)
    }

    fn remove(
        &mut self,
        opened: &mut OpenDatabase,
        now_us: i64,
        keep_from: Option<i64>,
    ) -> Result<RollupStep, RollupError> {
        if let Some(keep_from) = keep_from.filter(|_| !self.postponed.contains_key(&RollupWork::Remove)) {
            let step = self.tried(RollupWork::Remove, now_us, || Ok(remove(&opened.connection(), keep_from)?))?;
            if step != RollupStep::Nothing {
                return Ok(step);
            }
        }
        if self.postponed.contains_key(&RollupWork::GiveBack) {
            return Ok(RollupStep::Nothing);
        }
        match self.tried(RollupWork::GiveBack, now_us, || Ok(opened.give_back()?))? {
            0 => Ok(RollupStep::Nothing),
            pages => Ok(RollupStep::GivenBack { pages }),
        }
    }
}

impl std::fmt::Display for RollupWork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RollupWork::RollUp(span) => {
                let what = if span.hours == 1 { "hour" } else { "day" };
                write!(formatter, "the {what} that began {} s after 1970", span.start / 1_000_000)
            }
            RollupWork::Remove => formatter.write_str("old rows"),
            RollupWork::GiveBack => formatter.write_str("free space"),
        }
    }
}

fn roll_up(connection: &Connection<'_>, span: RollupSpan) -> Result<RollupStep, RollupFailure> {
    let snapshot = connection.snapshot()?;
    let hour = span.hours == 1;
    let nothing = if hour { RollupStep::RolledUp { attempts: 0 } } else { RollupStep::Day };
    // Another process may have rolled it up, and may be removing its rows.
    let Some(batches) = span.batches(&snapshot, "")? else { return Ok(nothing) };
    let (step, kept) = if hour {
        let mut bundle = Bundle::default();
        let range = (span.start, span.start + HOUR_US);
        scan::scan(&snapshot, range, &AttemptFilter::default(), 0, &mut bundle)?;
        drop(snapshot);
        let step = RollupStep::RolledUp { attempts: bundle.attempts() };
        (step, span.publish(connection, batches, |_| Ok(bundle.next_cell()))?)
    } else {
        let mut cells = DayCells::of_hours(&snapshot, span.start)?;
        drop(snapshot);
        (RollupStep::Day, span.publish(connection, batches, |connection| cells.next_cell(connection))?)
    };
    match kept {
        PublishOutcome::Published | PublishOutcome::Outdated => Ok(step),
        PublishOutcome::Shared => Err(RollupFailure::Shared),
    }
}

/// Removes some of the oldest rows before `keep_from`, if they are rolled up; after the last of them the runs and the incidents that
/// began before.
fn remove(connection: &Connection<'_>, keep_from: i64) -> database::Result<RollupStep> {
    if let Connection::Postgres(session) = connection {
        if let Some(races) = postgres::remove_day(session, keep_from)? {
            return Ok(RollupStep::Removed { races });
        }
        return remove_runs_and_incidents(connection, keep_from);
    }
    let mut from = 0;
    while let Some(oldest) = next_hour(connection, from)?.filter(|hour| hour + HOUR_US <= keep_from) {
        let transaction = connection.change()?;
        let state = cells::state(&transaction, RollupSpan { hours: 1, start: oldest }, "")?;
        if state.is_some_and(|(state, _)| state > 0) {
            transaction.execute(REMOVING, params![oldest])?;
            let races = remove_some(&transaction, oldest)?;
            transaction.commit()?;
            return Ok(RollupStep::Removed { races });
        }
        from = oldest + HOUR_US;
    }
    remove_runs_and_incidents(connection, keep_from)
}

fn remove_runs_and_incidents(connection: &Connection<'_>, keep_from: i64) -> database::Result<RollupStep> {
    for (old, removing) in [(OLD_RUN, REMOVE_RUNS), (OLD_INCIDENT, REMOVE_INCIDENTS)] {
        if connection.find(old, params![keep_from], |_| Ok(()))?.is_some() {
            connection.execute(removing, params![keep_from])?;
        }
    }
    Ok(RollupStep::Nothing)
}

/// Removes the first races of the hour, with their attempts. Attempts without a race count as one race.
fn remove_some(transaction: &Connection<'_>, hour: i64) -> database::Result<usize> {
    let (from, mut until) = (first_race_id(hour), first_race_id(hour + HOUR_US));
    for sql in [RACE_TO_STAY, ATTEMPT_TO_STAY] {
        let first = transaction.find(sql, params![Id(&from), Id(&until), REMOVED_MAX], |row| row.get(0))?;
        until = first.unwrap_or(until);
    }
    let [attempts, races] = REMOVALS.map(|sql| transaction.execute(sql, params![Id(&from), Id(&until)]));
    let (attempts, races) = (attempts?, races?);
    Ok(races.max(usize::from(attempts > 0)))
}

/// The first finished hour or day that is not rolled up, can be rolled up, and is not postponed.
fn due(
    connection: &Connection<'_>,
    hours: i64,
    settled_us: i64,
    postponed_span: impl Fn(RollupSpan) -> bool,
) -> database::Result<Option<RollupSpan>> {
    for start in connection.all(DUE, params![hours, settled_us - hours * HOUR_US], |row| row.get(0))? {
        let span = RollupSpan { hours, start };
        if !postponed_span(span) && span.batches(connection, "")?.is_some() {
            return Ok(Some(span));
        }
    }
    Ok(None)
}

/// The hour of the first row at or after `from_us`.
fn next_hour(connection: &Connection<'_>, from_us: i64) -> database::Result<Option<i64>> {
    let (from, of) = (first_race_id(from_us), |row: AnswerRow<'_>| row.get::<String>(0));
    let [race, attempt] = FIRST.map(|sql| connection.find(sql, params![Id(&from)], of));
    let first = [race?, attempt?].into_iter().flatten().min().map(|id| began_at(&id));
    // An id of another form contains no time.
    Ok(first.filter(|began_at| *began_at >= from_us).map(|began_at| start_of(began_at, HOUR_US)))
}

/// The first row of each table.
pub(super) const FIRST: [&str; 2] = [
    "SELECT race_id FROM race WHERE race_id >= ?1 ORDER BY race_id LIMIT 1",
    "SELECT race_id FROM attempt WHERE race_id >= ?1 ORDER BY race_id LIMIT 1",
];

const DAYS: &str = "SELECT count(*) FROM rollup_span WHERE hours = 24 AND start > ?1 AND start <= ?2";

/// Unfinished hours sort last.
pub(super) const DUE: &str = "\
    SELECT start FROM rollup_span INDEXED BY rollup_span_due \
    WHERE hours = ?1 AND start <= ?2 AND state = 0 ORDER BY start";

pub(super) const REMOVING: &str = "UPDATE rollup_span SET state = 2 WHERE hours = 1 AND start = ?1";

pub(super) const REMOVALS: [&str; 2] = [
    "DELETE FROM attempt_row WHERE race_id >= ?1 AND race_id < ?2",
    "DELETE FROM race_row WHERE race_id >= ?1 AND race_id < ?2",
];

/// The first race to keep.
pub(super) const RACE_TO_STAY: &str =
    "SELECT race_id FROM race WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id LIMIT 1 OFFSET ?3";

/// The first attempt to keep: some attempts have no race.
pub(super) const ATTEMPT_TO_STAY: &str = "\
    SELECT race_id FROM attempt WHERE race_id >= ?1 AND race_id < ?2 \
    GROUP BY race_id ORDER BY race_id LIMIT 1 OFFSET ?3";

pub(super) const OLD_RUN: &str = "SELECT run_id FROM run WHERE started_at < ?1 LIMIT 1";

const REMOVE_RUNS: &str = "DELETE FROM run WHERE started_at < ?1";

const OLD_INCIDENT: &str = "SELECT incident_id FROM incident WHERE began_at < ?1 LIMIT 1";

const REMOVE_INCIDENTS: &str = "DELETE FROM incident WHERE began_at < ?1";

/// A roll-up or a removal that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot roll up {path}: {reason}")]
pub struct RollupError {
    pub(super) path: StoreAddress,
    pub(super) reason: String,
    /// The failed work is postponed: the next step does other work.
    pub is_postponed: bool,
    /// It says that the file may be damaged.
    pub is_of_damage: bool,
}

impl RollupError {
    pub fn new(path: &StoreAddress, reason: String) -> RollupError {
        RollupError { path: path.clone(), reason, is_postponed: false, is_of_damage: false }
    }

    pub(super) fn unopened(path: &StoreAddress, error: &OpenError) -> RollupError {
        RollupError { is_of_damage: error.is_of_damage(), ..RollupError::new(path, error.to_string()) }
    }

    pub(super) fn of(path: &StoreAddress, error: &database::DatabaseError) -> RollupError {
        RollupError { is_of_damage: symptom(error).is_some(), ..RollupError::new(path, error.to_string()) }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RollupFailure {
    #[error(transparent)]
    Database(#[from] database::DatabaseError),
    #[error("another process rolls it up too")]
    Shared,
    #[error("it panicked")]
    Panic,
}

impl RollupFailure {
    /// Whether the work concerns the whole file, or ends by itself soon.
    pub fn is_of_the_file(&self) -> bool {
        match self {
            RollupFailure::Database(error) => error.is_of_the_whole(),
            _ => false,
        }
    }

    pub fn is_of_damage(&self) -> bool {
        matches!(self, RollupFailure::Database(error) if symptom(error).is_some())
    }
}
