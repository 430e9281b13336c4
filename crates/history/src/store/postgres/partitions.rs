//! The partitions of `race` and `attempt`, one of each for each UTC day: made a week ahead, and by the writer where one is missing; detached
//! and dropped once a day is older than the retention and rolled up.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::store::columns::{DAY_US, first_race_id};
use crate::store::database::error::PostgresError;
use crate::store::database::session::PostgresSession;
use crate::store::database::{self, Connection, params};
use photofinish_base::clock::wall_micros;

/// Days that have their partitions before they begin.
const AHEAD_DAYS: i64 = 7;

/// Rows of other days go into the table `stray`: their clock is wrong, or their id has no time.
const OLDEST_DAYS: i64 = if cfg!(test) { 10_000 } else { 400 };
const NEWEST_DAYS: i64 = 8;

/// How long detaching a day in Postgres may wait for those who read.
const DETACH_FOR: Duration = Duration::from_secs(60);

/// One at a time makes partitions.
const MAKING: i64 = 0x5048_4F54_0001;

const TABLES: [&str; 2] = ["race", "attempt"];

/// Whether rows of this day are kept in partitions.
pub(super) fn is_in_range(day: i64) -> bool {
    let now = wall_micros();
    (now - OLDEST_DAYS * DAY_US..now + NEWEST_DAYS * DAY_US).contains(&day)
}

/// Makes the partitions of a day that are missing.
pub(super) fn make(session: &PostgresSession, day: i64) -> database::Result<()> {
    let connection = Connection::Postgres(session);
    let transaction = connection.change()?;
    transaction.execute("SELECT pg_advisory_xact_lock(?1)", params![MAKING])?;
    for table in TABLES {
        let name = name(table, day);
        let is_there = "SELECT to_regclass(?1) IS NOT NULL";
        if transaction.one(is_there, params![&name], |row| row.get(0))? {
            continue;
        }
        let [from, until] = [day, day + DAY_US].map(|at| format!("'{}-0000-0000-000000000000'", first_race_id(at)));
        // Attached, and not made as a partition: that would wait for all who use the table.
        session.batch(&format!(
            "CREATE TABLE {name} (LIKE {table} INCLUDING ALL, CHECK (race_id >= {from} AND race_id < {until})); \
             ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({until})"
        ))?;
    }
    transaction.commit()
}

/// Makes those of today and of the next days.
pub(super) fn make_ahead(session: &PostgresSession) -> database::Result<()> {
    let today = wall_micros().div_euclid(DAY_US) * DAY_US;
    (0..=AHEAD_DAYS).try_for_each(|ahead| make(session, today + ahead * DAY_US))
}

/// Removes the oldest day that ended before `keep_from`, if all of its hours are rolled up; returns about how many races it had. None: there is
/// no such day.
pub(in crate::store) fn remove_day(session: &PostgresSession, keep_from: i64) -> database::Result<Option<usize>> {
    let connection = Connection::Postgres(session);
    let last = wall_micros().min(keep_from) - DAY_US;
    let found = connection.all(PARTITIONS, params![&name("race", last)["race_".len()..]], |row| {
        Ok((row.get::<String>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?))
    })?;
    for (day, start, races) in found {
        let transaction = connection.change()?;
        if transaction.one(WAITING, params![start, start + DAY_US], |row| row.get::<bool>(0))? {
            continue;
        }
        transaction.execute(REMOVING, params![start, start + DAY_US])?;
        transaction.commit()?;
        session.wait_until(Instant::now() + DETACH_FOR);
        for table in TABLES {
            drop_partition(session, table, &format!("{table}_{day}"))?;
        }
        return Ok(Some(usize::try_from(races).unwrap_or(0)));
    }
    Ok(None)
}

/// It may have been interrupted anywhere before.
fn drop_partition(session: &PostgresSession, table: &str, partition: &str) -> database::Result<()> {
    let connection = Connection::Postgres(session);
    let state: Option<bool> = connection.find(DETACHING, params![table, partition], |row| row.get(0))?;
    let how = match state {
        None => None,
        Some(true) => Some("FINALIZE"),
        Some(false) => Some("CONCURRENTLY"),
    };
    if let Some(how) = how {
        session.batch(&format!("ALTER TABLE {table} DETACH PARTITION {partition} {how}"))?;
    }
    session.batch(&format!("DROP TABLE IF EXISTS {partition}"))?;
    Ok(())
}

/// The error of a row whose partition is missing.
pub(super) fn is_missing(error: &PostgresError) -> bool {
    error.code() == "23514"
}

fn name(table: &str, day: i64) -> String {
    let at = Timestamp::from_microsecond(day).unwrap_or_default().to_zoned(TimeZone::UTC);
    format!("{table}_{}", at.strftime("%Y%m%d"))
}

/// Days up to this one, with their starts and about how many races they have; also those that are detached and not dropped yet.
const PARTITIONS: &str = "\
    SELECT DISTINCT ON (day) day, \
           CAST(extract(epoch FROM to_date(day, 'YYYYMMDD')) AS BIGINT) * 1000000 AS start, races \
    FROM (SELECT substr(relname, length(relname) - 7) AS day, \
                 CAST(CASE WHEN relname LIKE 'race%' THEN greatest(reltuples, 0) ELSE 0 END AS BIGINT) AS races \
          FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r' \
                          AND relname ~ '^(race|attempt)_[0-9]{8}$') AS days \
    WHERE day <= ?1 ORDER BY day, races DESC";

/// Whether an hour of the day is still to be rolled up.
const WAITING: &str = "\
    SELECT EXISTS (SELECT 1 FROM rollup_span WHERE hours = 1 AND start >= ?1 AND start < ?2 AND state = 0)";

const REMOVING: &str = "UPDATE rollup_span SET state = 2 WHERE hours = 1 AND start >= ?1 AND start < ?2 AND state = 1";

/// Whether detaching has begun. No row: it is no partition, or no more.
const DETACHING: &str = "\
    SELECT inhdetachpending FROM pg_inherits \
    WHERE inhparent = CAST(CAST(?1 AS TEXT) AS regclass) AND inhrelid = to_regclass(CAST(?2 AS TEXT))";
