//! Rolls up hours and days that are over, and removes rows that are older than they are to be kept. In steps, each short:
//! the writer of the history never waits for more than one small transaction.
//!
//! Whoever writes rows says so in `rollup_span`, so an hour whose rows come late is rolled up anew. Between two steps no
//! connection is open: the file may be moved away or replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::FileId;
use super::bundle::Bundle;
use super::open::{self, OpenError};
use super::scan::{self, AttemptFilter};
use super::times::{DAY_US, HOUR_US, began_at, first_race_id, start_of};
use crate::clock::micros;

/// After an hour's end, what began in it has so long to end before it is rolled up for the first time.
const SETTLE_FOR: Duration = Duration::from_secs(300);

/// Races whose rows go in one transaction.
const REMOVED_MAX: i64 = 200;

/// Virtual machine steps of SQLite between two looks whether to go on; well under a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An hour, of so many attempts, was rolled up.
    RolledUp { attempts: u64 },
    /// A day was put together out of its hours.
    Day,
    /// Rows of so many races were removed.
    Removed { races: usize },
    /// There is nothing to do now.
    Nothing,
}

/// A roll-up, or a removal, that could not be made now.
#[derive(Debug, thiserror::Error)]
#[error("cannot roll up {path}: {reason}")]
pub struct RollupError {
    path: PathBuf,
    reason: String,
}

impl RollupError {
    pub fn new(path: &Path, reason: String) -> RollupError {
        RollupError { path: path.into(), reason }
    }
}

/// Rolls up one file. Several for one file do no harm, and no good.
pub struct Roller {
    path: PathBuf,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The file of the last step.
    file: Option<FileId>,
    /// Every hour of it with rows before this time is in `rollup_span`; microseconds since 1970, UTC. Rows of the first
    /// edition were written without.
    known_until: i64,
}

impl Roller {
    /// `stop`: whether a step is to be given up, and undone, as soon as may be; looked at while it runs.
    pub fn new(path: &Path, stop: impl Fn() -> bool + Send + Sync + 'static) -> Roller {
        Roller { path: path.into(), stop: Arc::new(stop), file: None, known_until: 0 }
    }

    /// Rolls up an hour or a day that is due, or else removes some of the rows that began before `keep_from`; times are
    /// microseconds since 1970, UTC. Blocks.
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is half done, and it may be tried again.
    pub fn step(&mut self, now_us: i64, keep_from: Option<i64>) -> Result<Step, RollupError> {
        let connected = self.connect();
        let mut connection = connected.map_err(|error| RollupError::new(&self.path, error.to_string()))?;
        let stepped = self.try_step(&mut connection, now_us, keep_from);
        stepped.map_err(|error| RollupError::new(&self.path, error.to_string()))
    }

    fn connect(&mut self) -> Result<Connection, OpenError> {
        let connection = open::roller(&self.path)?;
        let unusable = |reason: String| OpenError::Unusable { path: self.path.clone(), reason };
        let stop = Arc::clone(&self.stop);
        let looked = connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop()));
        looked.map_err(|error| unusable(error.to_string()))?;
        let found = std::fs::metadata(&self.path).map_err(|error| unusable(error.to_string()))?;
        let file = Some(FileId::of(&found));
        if self.file != file {
            (self.file, self.known_until) = (file, 0);
        }
        Ok(connection)
    }

    fn try_step(&mut self, connection: &mut Connection, now_us: i64, keep_from: Option<i64>) -> rusqlite::Result<Step> {
        let settled_us = now_us - micros(SETTLE_FOR);
        if let Some(hour) = self.due_hour(connection, settled_us)? {
            return roll_hour(connection, hour);
        }
        if let Some(day) = due(connection, 24, settled_us)? {
            return roll_day(connection, day);
        }
        keep_from.map_or(Ok(Step::Nothing), |keep_from| remove(connection, keep_from))
    }

    fn due_hour(&mut self, connection: &Connection, settled_us: i64) -> rusqlite::Result<Option<i64>> {
        if let Some(hour) = due(connection, 1, settled_us)? {
            return Ok(Some(hour));
        }
        while let Some(hour) = next_hour(connection, self.known_until)?.filter(|hour| hour + HOUR_US <= settled_us) {
            if state(connection, 1, hour)?.is_none() {
                return Ok(Some(hour));
            }
            self.known_until = hour + HOUR_US;
        }
        Ok(None)
    }
}

fn roll_hour(connection: &mut Connection, hour: i64) -> rusqlite::Result<Step> {
    let snapshot = connection.transaction()?;
    let (known, batches) = state(&snapshot, 1, hour)?.unwrap_or_default();
    let mut bundle = Bundle::default();
    // Another process may have been quicker, and have begun to remove the rows.
    if known == 0 {
        scan::scan(&snapshot, (hour, hour + HOUR_US), &AttemptFilter::default(), 0, &mut bundle)?;
        drop(snapshot);
        keep(connection, (1, hour), batches, &bundle)?;
    }
    Ok(Step::RolledUp { attempts: bundle.attempts() })
}

fn roll_day(connection: &mut Connection, day: i64) -> rusqlite::Result<Step> {
    let snapshot = connection.transaction()?;
    let (_, batches) = state(&snapshot, 24, day)?.unwrap_or_default();
    let bundle = Bundle::of_hours(&snapshot, day)?;
    drop(snapshot);
    keep(connection, (24, day), batches, &bundle)?;
    Ok(Step::Day)
}

/// Writes the cells, unless rows have come since they were read: then it is done again at the next step.
fn keep(
    connection: &mut Connection,
    (hours, start): (i64, i64),
    batches: i64,
    bundle: &Bundle,
) -> rusqlite::Result<()> {
    // Packed before the writer has to wait.
    let cells = bundle.pack();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if state(&transaction, hours, start)?.unwrap_or_default().1 == batches {
        transaction.execute(FORGET, [hours, start])?;
        cells.iter().try_for_each(|cell| cell.write(&transaction, hours, start))?;
        transaction.execute(ROLLED, params![hours, start, bundle.attempts()])?;
        if hours == 1 {
            transaction.execute(CAME, [24, start_of(start, DAY_US)])?;
        }
    }
    transaction.commit()
}

/// Some of the oldest rows, if they are older than `keep_from` and rolled up.
fn remove(connection: &mut Connection, keep_from: i64) -> rusqlite::Result<Step> {
    let Some(oldest) = next_hour(connection, 0)?.filter(|hour| hour + HOUR_US <= keep_from) else {
        return Ok(Step::Nothing);
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if state(&transaction, 1, oldest)?.is_none_or(|(state, _)| state == 0) {
        return Ok(Step::Nothing);
    }
    transaction.execute(REMOVING, [oldest])?;
    let races = remove_some(&transaction, oldest)?;
    transaction.commit()?;
    Ok(Step::Removed { races })
}

/// The first races of the hour, with their attempts. Attempts without a race count as one.
fn remove_some(transaction: &Transaction<'_>, hour: i64) -> rusqlite::Result<usize> {
    let (from, mut until) = (first_race_id(hour), first_race_id(hour + HOUR_US));
    for sql in [RACE_TO_STAY, ATTEMPT_TO_STAY] {
        let first = transaction.query_row(sql, params![from, until, REMOVED_MAX], |row| row.get(0)).optional()?;
        until = first.unwrap_or(until);
    }
    let attempts = transaction.execute(REMOVE_ATTEMPTS, [&from, &until])?;
    let races = transaction.execute(REMOVE_RACES, [&from, &until])?;
    Ok(races.max(usize::from(attempts > 0)))
}

/// The first hour or day that is over and not rolled up.
fn due(connection: &Connection, hours: i64, settled_us: i64) -> rusqlite::Result<Option<i64>> {
    connection.query_row(DUE, [hours, settled_us - hours * HOUR_US], |row| row.get(0))
}

/// The hour of the first row from `from_us` on.
fn next_hour(connection: &Connection, from_us: i64) -> rusqlite::Result<Option<i64>> {
    let id: Option<String> = connection.query_row(FIRST, [first_race_id(from_us)], |row| row.get(0))?;
    // What is no id of ours says no time.
    Ok(id.map(|id| began_at(&id)).filter(|began_at| *began_at >= from_us).map(|began_at| start_of(began_at, HOUR_US)))
}

/// State and count of batches of an hour or a day.
fn state(connection: &Connection, hours: i64, start: i64) -> rusqlite::Result<Option<(i64, i64)>> {
    connection.query_row(STATE, [hours, start], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// The first row, whichever table has it.
pub(super) const FIRST: &str = "\
    SELECT min(id) FROM (SELECT min(race_id) AS id FROM race WHERE race_id >= ?1 \
                         UNION ALL SELECT min(race_id) FROM attempt WHERE race_id >= ?1)";

pub(super) const DUE: &str =
    "SELECT min(start) FROM rollup_span INDEXED BY rollup_span_due WHERE hours = ?1 AND start <= ?2 AND state = 0";

pub(super) const STATE: &str = "SELECT state, batches FROM rollup_span WHERE hours = ?1 AND start = ?2";

pub(super) const FORGET: &str = "DELETE FROM rollup WHERE hours = ?1 AND start = ?2";

const ROLLED: &str = "\
    INSERT INTO rollup_span (hours, start, attempts, state) VALUES (?1, ?2, ?3, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET attempts = excluded.attempts, state = max(state, 1)";

pub(super) const REMOVING: &str = "UPDATE rollup_span SET state = 2 WHERE hours = 1 AND start = ?1";

/// The first race that is to stay.
pub(super) const RACE_TO_STAY: &str =
    "SELECT race_id FROM race WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id LIMIT 1 OFFSET ?3";

/// The same by the attempts: some have no race.
pub(super) const ATTEMPT_TO_STAY: &str = "\
    SELECT race_id FROM attempt WHERE race_id >= ?1 AND race_id < ?2 \
    GROUP BY race_id ORDER BY race_id LIMIT 1 OFFSET ?3";

pub(super) const REMOVE_ATTEMPTS: &str = "DELETE FROM attempt WHERE race_id >= ?1 AND race_id < ?2";

pub(super) const REMOVE_RACES: &str = "DELETE FROM race WHERE race_id >= ?1 AND race_id < ?2";

/// Told by whoever writes rows, of their hour and of its day: it is to be rolled up, or once more. Rows of an hour whose
/// rows are going are too late to be counted, by the whole retention.
pub(super) const CAME: &str = "\
    INSERT INTO rollup_span (hours, start, batches) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET batches = batches + 1, state = CASE state WHEN 2 THEN 2 ELSE 0 END";
