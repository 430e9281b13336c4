//! Rolls up hours and days that are over, and removes rows that are older than they are to be kept. In steps, each short,
//! on a connection of its own: the writer of the history never waits for more than one small transaction.
//!
//! Rows may come late, for an hour that is rolled up already: whoever writes them says so in `rollup_span`, and the hour
//! is rolled up anew.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::bundle::Bundle;
use super::open::{self, OpenError};
use super::scan::{self, AttemptFilter};
use super::times::{DAY_US, HOUR_US, began_at, first_race_id, start_of};
use crate::clock::micros;

/// After an hour's end, what began in it has so long to end before it is rolled up for the first time.
const SETTLE_FOR: Duration = Duration::from_secs(300);

/// Races whose rows go in one transaction.
const REMOVE_MAX: i64 = 200;

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An hour or a day was rolled up.
    RolledUp { attempts: u64 },
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

/// The connection that rolls up. At most one for a file.
pub struct Roller {
    path: PathBuf,
    connection: Connection,
    /// Before this hour nothing is left to be rolled up, unless rows come late; microseconds since 1970, UTC.
    done_until: i64,
}

impl Roller {
    /// # Errors
    /// When the file is not there, or not ours.
    pub fn open(path: &Path) -> Result<Roller, OpenError> {
        Ok(Roller { path: path.into(), connection: open::roller(path)?, done_until: 0 })
    }

    /// Rolls up the oldest hour or day that is due, or else removes some of the rows that began before `keep_from`; times
    /// are microseconds since 1970, UTC.
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is half done, and it may be tried again.
    pub fn step(&mut self, now_us: i64, keep_from: Option<i64>) -> Result<Step, RollupError> {
        let stepped = self.try_step(now_us, keep_from);
        stepped.map_err(|error| RollupError { path: self.path.clone(), reason: error.to_string() })
    }

    fn try_step(&mut self, now_us: i64, keep_from: Option<i64>) -> rusqlite::Result<Step> {
        let settled_us = now_us - micros(SETTLE_FOR);
        let late: Option<i64> = self.connection.query_row(OLDEST_LATE, [], |row| row.get(0))?;
        self.done_until = late.map_or(self.done_until, |late| late.min(self.done_until));
        while let Some(hour) = next_hour(&self.connection, self.done_until)? {
            if hour + HOUR_US > settled_us {
                break;
            }
            // Its day is due before the hours of the next are.
            if start_of(hour, DAY_US) > start_of(self.done_until, DAY_US)
                && let Some(step) = self.roll_day(start_of(self.done_until, DAY_US))?
            {
                return Ok(step);
            }
            if state(&self.connection, 1, hour)?.is_none_or(|(state, _)| state == 0) {
                return self.roll_hour(hour);
            }
            self.done_until = hour + HOUR_US;
        }
        let day = start_of(self.done_until - 1, DAY_US);
        if day + DAY_US <= settled_us
            && let Some(step) = self.roll_day(day)?
        {
            return Ok(step);
        }
        keep_from.map_or(Ok(Step::Nothing), |keep_from| self.remove(keep_from))
    }

    fn roll_hour(&mut self, hour: i64) -> rusqlite::Result<Step> {
        let snapshot = self.connection.transaction()?;
        let late = state(&snapshot, 1, hour)?.map_or(0, |(_, late)| late);
        let mut bundle = Bundle::default();
        scan::scan(&snapshot, (hour, hour + HOUR_US), &AttemptFilter::default(), 0, &mut bundle)?;
        drop(snapshot);
        self.keep(1, hour, late, &bundle)
    }

    /// None where the day is rolled up, or holds nothing.
    fn roll_day(&mut self, day: i64) -> rusqlite::Result<Option<Step>> {
        let snapshot = self.connection.transaction()?;
        let known = state(&snapshot, 24, day)?;
        let hours: i64 = snapshot.query_row(HOURS_OF_DAY, params![day, day + DAY_US], |row| row.get(0))?;
        if hours == 0 || known.is_some_and(|(state, _)| state > 0) {
            return Ok(None);
        }
        let bundle = Bundle::of_hours(&snapshot, day)?;
        drop(snapshot);
        self.keep(24, day, known.map_or(0, |(_, late)| late), &bundle).map(Some)
    }

    /// Writes the cells, unless rows have come late meanwhile: then it is done again at the next step.
    fn keep(&mut self, hours: i64, start: i64, late: i64, bundle: &Bundle) -> rusqlite::Result<Step> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let attempts = bundle.attempts();
        if state(&transaction, hours, start)?.map_or(0, |(_, late)| late) == late {
            transaction.execute("DELETE FROM rollup WHERE hours = ?1 AND start = ?2", [hours, start])?;
            bundle.write(&transaction, hours, start)?;
            transaction.execute(ROLLED, params![hours, start, attempts])?;
        }
        transaction.commit()?;
        Ok(Step::RolledUp { attempts })
    }

    /// Some of the oldest rows, if they are older than `keep_from` and rolled up.
    fn remove(&mut self, keep_from: i64) -> rusqlite::Result<Step> {
        let Some(oldest) = next_hour(&self.connection, 0)?.filter(|hour| hour + HOUR_US <= keep_from) else {
            return Ok(Step::Nothing);
        };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if state(&transaction, 1, oldest)?.is_none_or(|(state, _)| state == 0) {
            return Ok(Step::Nothing);
        }
        transaction.execute("UPDATE rollup_span SET state = 2 WHERE hours = 1 AND start = ?1", [oldest])?;
        let races = remove_some(&transaction, oldest)?;
        transaction.commit()?;
        Ok(Step::Removed { races })
    }
}

/// The hour of the first row from `from_us` on.
fn next_hour(connection: &Connection, from_us: i64) -> rusqlite::Result<Option<i64>> {
    let id: Option<String> = connection.query_row(FIRST, [first_race_id(from_us)], |row| row.get(0))?;
    Ok(id.map(|id| start_of(began_at(&id), HOUR_US).max(start_of(from_us, HOUR_US))))
}

/// State and count of late batches of an hour or a day.
fn state(connection: &Connection, hours: i64, start: i64) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut statement = connection.prepare_cached(STATE)?;
    statement.query_row([hours, start], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Removes the first races of the hour, with their attempts. An attempt without a race counts as one.
fn remove_some(transaction: &Transaction<'_>, hour: i64) -> rusqlite::Result<usize> {
    let (from, until) = (first_race_id(hour), first_race_id(hour + HOUR_US));
    let last: Option<String> =
        transaction.query_row(LAST_TO_REMOVE, params![from, until, REMOVE_MAX], |row| row.get(0)).optional()?;
    let until = last.unwrap_or(until);
    let attempts = transaction.execute("DELETE FROM attempt WHERE race_id >= ?1 AND race_id < ?2", [&from, &until])?;
    let races = transaction.execute("DELETE FROM race WHERE race_id >= ?1 AND race_id < ?2", [&from, &until])?;
    Ok(races.max(usize::from(attempts > 0)))
}

/// The first row, whichever table has it.
const FIRST: &str = "\
    SELECT min(id) FROM (SELECT min(race_id) AS id FROM race WHERE race_id >= ?1 \
                         UNION ALL SELECT min(race_id) FROM attempt WHERE race_id >= ?1)";

const OLDEST_LATE: &str = "SELECT min(start) FROM rollup_span WHERE hours = 1 AND state = 0";

const STATE: &str = "SELECT state, late FROM rollup_span WHERE hours = ?1 AND start = ?2";

const HOURS_OF_DAY: &str =
    "SELECT count(*) FROM rollup_span WHERE hours = 1 AND start >= ?1 AND start < ?2 AND state > 0";

const ROLLED: &str = "\
    INSERT INTO rollup_span (hours, start, attempts, state) VALUES (?1, ?2, ?3, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET attempts = excluded.attempts, state = max(state, 1)";

/// The first race that is to stay.
const LAST_TO_REMOVE: &str = "\
    SELECT race_id FROM (SELECT race_id FROM attempt WHERE race_id >= ?1 AND race_id < ?2 GROUP BY race_id LIMIT ?3 + 1) \
    ORDER BY race_id LIMIT 1 OFFSET ?3";

/// Told by whoever writes rows of an hour that is over: it, and its day, are to be rolled up anew.
pub(super) const LATE: &str = "\
    INSERT INTO rollup_span (hours, start, late) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET late = late + 1, state = CASE state WHEN 2 THEN 2 ELSE 0 END";
