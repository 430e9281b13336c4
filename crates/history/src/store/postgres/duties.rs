//! What one gateway of several does for all: roll-ups with partitions and retention, probes, incidents. A row says whose duty it is, until when;
//! who holds it takes it again before that. Doing the same twice does no harm.

use std::sync::LazyLock;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use crate::store::columns::DAY_US;
use crate::store::database::session::PostgresSession;
use crate::store::database::{self, Connection, params};
use crate::store::postgres::partitions::make_ahead;
use photofinish_base::clock::wall_micros;

pub(in crate::store) use crate::store::postgres::partitions::remove_day;

/// This process.
static REPLICA: LazyLock<String> = LazyLock::new(|| uuid::Uuid::now_v7().to_string());

/// How long a duty is held: longer than the pause between two rounds. From one probe to the next it may be long.
fn held_us(duty: &str) -> i64 {
    if duty == "probes" { 3_600_000_000 } else { 150_000_000 }
}

/// Takes the duty, or takes it again. False: another replica has it.
pub(in crate::store) fn holds_duty(session: &PostgresSession, duty: &str) -> database::Result<bool> {
    let taken =
        Connection::Postgres(session).find(TAKE, params![duty, &*REPLICA, held_us(duty)], |_| Ok(()))?.is_some();
    if taken && duty == "rollup" {
        make_days(session)?;
    }
    Ok(taken)
}

/// Once a day.
fn make_days(session: &PostgresSession) -> database::Result<()> {
    static MADE: AtomicI64 = AtomicI64::new(i64::MIN);
    let today = wall_micros().div_euclid(DAY_US);
    if MADE.load(Relaxed) != today {
        make_ahead(session)?;
        MADE.store(today, Relaxed);
    }
    Ok(())
}

/// By the clock of the database.
const TAKE: &str = "\
    INSERT INTO duty (name, epoch, replica, until) \
    VALUES (?1, 1, ?2, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) + ?3) \
    ON CONFLICT (name) DO UPDATE SET replica = excluded.replica, until = excluded.until, \
        epoch = duty.epoch + CASE WHEN duty.replica = excluded.replica THEN 0 ELSE 1 END \
    WHERE duty.replica = excluded.replica OR duty.until < excluded.until - ?3 RETURNING epoch";
