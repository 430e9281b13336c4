//! What several gateways on one database exchange, a few times a second: each has a row for what it uses now, and reads those of the
//! others, the requests that they have recorded since, and what they have spent. Not for what follows from it: see the server's `replicas`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::accounts::BudgetRow;
use crate::store::columns::{DAY_US, first_race_id};
use crate::store::database::session::PostgresSession;
use crate::store::database::{self, AnswerRow, Connection, Id, params};
use crate::store::postgres;
use crate::store::reader::{ReadError, StoreReader};
use crate::store::recorded;
use crate::store::write::WriteError;
use photofinish_base::clock::wall_micros;
use photofinish_config::PostgresServer;
use photofinish_config::StoreAddress;
use photofinish_facts::record::recorded::Recorded;

/// How long one exchange with the other gateways may take: longer, and these miss this gateway.
const EXCHANGE_FOR: Duration = Duration::from_secs(2);
/// Requests that are read of one other gateway at once. Of more than that only the number is known.
const READ_MAX: i64 = 2_000;
/// A gateway without a report for this long has ended, µs.
pub const MISSED_AFTER_US: i64 = 3_000_000;
/// A gateway that could not report for this long was kept from it, µs: others may have been too.
const PAUSE_US: i64 = 1_500_000;
/// Gateways are listed for this long after their end, µs.
const LISTED_FOR_US: i64 = 86_400_000_000;
/// Rows of gateways are kept for this long, µs: their budgets may count in a month.
const KEPT_FOR_US: i64 = 63 * DAY_US;
/// Of what others record, requests that began at most this long ago are read, µs.
const RECENT_US: i64 = 7_200_000_000;
/// Gateways of one database that are read and listed.
const REPLICAS_MAX: i64 = 100;

#[derive(Clone, Debug, Default)]
pub struct ReplicaReport {
    /// Of the machine or container.
    pub name: String,
    pub version: String,
    /// How far its clock is ahead of the store's, in microseconds.
    pub clock_us: i64,
    /// Requests that run.
    pub running: usize,
    pub draining: bool,
    /// A digest of its configuration.
    pub configuration: String,
    /// What it uses of limits and upstreams, JSON.
    pub uses: String,
}

/// A gateway, as its row says.
#[derive(Clone, Debug)]
pub struct ReplicaRow {
    /// Another one after each start.
    pub number: i64,
    pub started_at: i64,
    /// When it last reported; microseconds since 1970, by the clock of the store.
    pub beat_at: i64,
    pub report: ReplicaReport,
}

/// What a gateway heard.
#[derive(Debug, Default)]
pub struct HeardReplicas {
    /// Its own number.
    pub number: i64,
    /// By the clock of the store, microseconds since 1970.
    pub store_us: i64,
    /// The others that live.
    pub others: Vec<ReplicaRow>,
    /// What all others have used of budgets, also those that ended.
    pub budgets: Vec<BudgetRow>,
    /// How far the own clock is ahead of that.
    pub clock_us: i64,
    /// The database has an older state than this gateway left: a failover lost its last report.
    pub is_older: bool,
    /// What the others recorded since, of each gateway the oldest first; their times are by the clock of the store.
    pub requests: Vec<Recorded>,
    /// Requests that were too many to be read.
    pub left_out: u64,
}

/// Since when another gateway must have reported to live. One that could not report for a while itself gives the others time to do so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attendance {
    last_us: Option<i64>,
    /// When it was back, and since when the others must have reported then.
    back: Option<(i64, i64)>,
}

impl Attendance {
    /// When this gateway last reported.
    pub fn last_us(&self) -> Option<i64> {
        self.last_us
    }

    /// It reports now, by the clock of the store.
    pub fn since(&mut self, now_us: i64) -> i64 {
        if let Some(before) = self.last_us.replace(now_us).filter(|before| (now_us - before).abs() > PAUSE_US) {
            self.back = Some((now_us, before.min(now_us) - MISSED_AFTER_US));
        }
        match self.back {
            Some((at, since)) if (0..MISSED_AFTER_US).contains(&(now_us - at)) => since,
            _ => now_us - MISSED_AFTER_US,
        }
    }
}

/// The conversation of one gateway with the others.
pub struct Replicas {
    server: Arc<PostgresServer>,
    /// Of this gateway, from its start on.
    id: String,
    session: Option<PostgresSession>,
    known: KnownReplicas,
}

/// What one remembers of it.
#[derive(Default)]
struct KnownReplicas {
    /// Of each other gateway: the last row of it that was read.
    read: HashMap<i64, i64>,
    attendance: Attendance,
}

impl Replicas {
    /// None: the store is a file, which has one gateway.
    pub fn of(store: &StoreAddress) -> Option<Replicas> {
        let StoreAddress::Server(server) = store else { return None };
        let id = uuid::Uuid::now_v7().to_string();
        Some(Replicas { server: server.clone(), id, session: None, known: KnownReplicas::default() })
    }

    /// Reports, and reads what was reported and recorded since. Blocks, for some seconds at most.
    ///
    /// # Errors
    /// The database does not answer now.
    pub fn exchange(&mut self, report: &ReplicaReport) -> Result<HeardReplicas, WriteError> {
        self.with(|session, id, known| exchange(session, id, known, report))
    }

    /// The gateway ends: the others need not wait until it is missed.
    ///
    /// # Errors
    /// As [`Replicas::exchange`].
    pub fn leave(&mut self) -> Result<(), WriteError> {
        self.with(|session, id, _| Connection::Postgres(session).execute(LEAVE, params![id]).map(drop))
    }

    fn with<T>(
        &mut self,
        run: impl FnOnce(&PostgresSession, &str, &mut KnownReplicas) -> database::Result<T>,
    ) -> Result<T, WriteError> {
        let session = match self.session.take().filter(PostgresSession::is_sound) {
            Some(session) => session,
            None => postgres::rolling(&self.server).map_err(|error| WriteError::unavailable(&error))?,
        };
        session.wait_until(Instant::now() + EXCHANGE_FOR);
        let done = run(&session, &self.id, &mut self.known);
        self.session = Some(session);
        done.map_err(WriteError::unsound)
    }
}

impl StoreReader {
    /// The gateways that reported lately, and the time by the clock of the store. A file has none.
    ///
    /// # Errors
    /// It takes too long, or the database cannot be read.
    pub fn replicas(&self) -> Result<(Vec<ReplicaRow>, i64), ReadError> {
        match self.is_on_server() {
            true => self.ask(listed),
            false => Ok((Vec::new(), 0)),
        }
    }
}

fn exchange(
    session: &PostgresSession,
    id: &str,
    known: &mut KnownReplicas,
    report: &ReplicaReport,
) -> database::Result<HeardReplicas> {
    let transaction = Connection::Postgres(session).change()?;
    let connection: &Connection<'_> = &transaction;
    let ReplicaReport { name, version, clock_us, running, draining, configuration, uses } = report;
    let parameters = params![id, name, version, *clock_us, *running, i64::from(*draining), configuration, uses];
    let beat = |row: AnswerRow<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let asked_us = wall_micros();
    let (number, store_us, before): (i64, i64, Option<i64>) = match connection.find(BEAT, parameters, beat)? {
        Some(known) => known,
        None => {
            connection.execute(FORGET, params![wall_micros() - KEPT_FOR_US])?;
            connection.one(ENTER, parameters, beat)?
        }
    };
    let clock_us = (asked_us + wall_micros()) / 2 - store_us;
    // What is known changes with the commit: rows that are lost with it are read again.
    let (mut attendance, mut read) = (known.attendance, known.read.clone());
    let is_older = attendance.last_us().is_some_and(|reported| before.is_none_or(|before| before < reported));
    let since = attendance.since(store_us);
    let others = connection.all(LIVING, params![number, since, REPLICAS_MAX], replica)?;
    if is_older {
        // What is written from now on may have places that were read already.
        read.clear();
    }
    let mut heard = HeardReplicas { number, store_us, clock_us, is_older, ..HeardReplicas::default() };
    let parameters = params![number, store_us - 2 * DAY_US, store_us - 32 * DAY_US];
    heard.budgets = connection.all(SPENT, parameters, |row| {
        Ok(BudgetRow {
            subject: row.get(0)?,
            span: row.get(1)?,
            start: row.get(2)?,
            spent: row.get(3)?,
            reserved: row.get(4)?,
            estimated: 0,
        })
    })?;
    let recent = first_race_id(store_us - RECENT_US);
    read.retain(|number, _| others.iter().any(|other| other.number == *number));
    for other in &others {
        read_others(connection, other, &recent, &mut read, &mut heard)?;
    }
    transaction.commit()?;
    *known = KnownReplicas { read, attendance };
    postgres::set_number(number);
    heard.others = others;
    Ok(heard)
}

/// What another gateway recorded since it was read last.
fn read_others(
    connection: &Connection<'_>,
    other: &ReplicaRow,
    recent: &str,
    read: &mut HashMap<i64, i64>,
    heard: &mut HeardReplicas,
) -> database::Result<()> {
    let Some(last) = read.get(&other.number).copied() else {
        // What it recorded before it was met is in the history, which a start learns from.
        let newest = connection.one(NEWEST, params![other.number], |row| row.get(0))?;
        read.insert(other.number, newest);
        return Ok(());
    };
    let (newest, upto): (i64, Option<i64>) =
        connection
            .one(UPTO, params![other.number, last, Id(recent), READ_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(upto) = upto else { return Ok(()) };
    let window = params![other.number, last, upto, Id(recent)];
    let mut hear = |request: Recorded| {
        let started_at = request.started_at - other.report.clock_us;
        heard.requests.push(Recorded { started_at, ..request });
    };
    recorded::arrived(connection, window, &mut hear)?;
    if newest > upto {
        let left_out: i64 = connection.one(BETWEEN, params![other.number, upto, newest], |row| row.get(0))?;
        heard.left_out += left_out.unsigned_abs();
    }
    read.insert(other.number, newest.max(upto));
    Ok(())
}

/// Those that reported within a day, newest first, and the time by the clock of the database.
fn listed(connection: &Connection<'_>) -> database::Result<(Vec<ReplicaRow>, i64)> {
    let store_us: i64 = connection.one(NOW, &[], |row| row.get(0))?;
    Ok((connection.all(LIVING, params![0_i64, store_us - LISTED_FOR_US, REPLICAS_MAX], replica)?, store_us))
}

fn replica(row: AnswerRow<'_>) -> database::Result<ReplicaRow> {
    let report = ReplicaReport {
        name: row.get(3)?,
        version: row.get(4)?,
        clock_us: row.get(5)?,
        running: row.get(6)?,
        draining: row.get(7)?,
        configuration: row.get(8)?,
        uses: row.get(9)?,
    };
    Ok(ReplicaRow { number: row.get(0)?, started_at: row.get(1)?, beat_at: row.get(2)?, report })
}

const NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";

const BEAT: &str = "\
    UPDATE replica SET name = ?2, version = ?3, clock_us = ?4, running = ?5, draining = ?6 <> 0, configuration = ?7, uses = ?8, \
        beat_at = CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) \
    FROM (SELECT id AS known_id, beat_at AS before FROM replica WHERE id = ?1) AS known \
    WHERE id = known_id RETURNING CAST(number AS BIGINT), beat_at, before";

/// The first time.
const ENTER: &str = "\
    INSERT INTO replica (id, name, version, clock_us, running, draining, configuration, uses, started_at, beat_at) \
    SELECT ?1, ?2, ?3, ?4, ?5, ?6 <> 0, ?7, ?8, now_us, now_us \
    FROM (SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS now_us) AS clock \
    RETURNING CAST(number AS BIGINT), beat_at, CAST(NULL AS BIGINT)";

const LIVING: &str = "\
    SELECT CAST(number AS BIGINT), started_at, beat_at, name, version, clock_us, running, draining, configuration, uses \
    FROM replica WHERE number <> ?1 AND beat_at >= ?2 ORDER BY number DESC LIMIT ?3";

const LEAVE: &str = "UPDATE replica SET beat_at = 0, uses = '' WHERE id = ?1";

/// Those that ended long ago: their budgets count no more, but those of all time.
const FORGET: &str = "\
    DELETE FROM replica WHERE started_at < ?1 AND beat_at < ?1 \
    AND NOT EXISTS (SELECT 1 FROM budget_window WHERE replica = replica.number AND span = 'total')";

/// Of periods that may still count: by a clock that is a day off too.
const SPENT: &str = "\
    SELECT subject, span, start, CAST(sum(spent) AS BIGINT), CAST(sum(reserved) AS BIGINT) FROM budget_window \
    WHERE replica <> ?1 AND start >= CASE span WHEN 'day' THEN ?2 WHEN 'total' THEN 0 ELSE ?3 END GROUP BY subject, span, start";

/// The last that a gateway wrote.
const NEWEST: &str = "SELECT coalesce(max(arrived), 0) FROM race WHERE replica = ?1";

/// The last that it wrote since, and the last of those that are read.
const UPTO: &str = "\
    SELECT coalesce((SELECT max(arrived) FROM race WHERE replica = ?1 AND arrived > ?2 AND race_id >= ?3), 0), \
           (SELECT max(arrived) FROM (SELECT arrived FROM race WHERE replica = ?1 AND arrived > ?2 AND race_id >= ?3 \
                                      ORDER BY arrived LIMIT ?4) AS few)";

const BETWEEN: &str = "SELECT count(*) FROM race WHERE replica = ?1 AND arrived > ?2 AND arrived <= ?3";
