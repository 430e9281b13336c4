//! Writes batches to a server: a `COPY` into each table, in one transaction. Rows that are there already are left out, so a batch may be sent
//! again.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;

use crate::store::OpenError;
use crate::store::columns::{DAY_US, began_at, names, start_of};
use crate::store::database::error::PostgresError;
use crate::store::database::session::{PostgresSession, uuid};
use crate::store::database::{self, Connection, DatabaseError, Value, params};
use crate::store::engine::{Change, StoreEngine};
use crate::store::postgres::{duties, open, partitions, replica_number, tables};
use crate::store::write::{CAME, RefusedRow, RowTable, TableRow, WriteError, apart, spans};
use photofinish_config::PostgresServer;
use photofinish_facts::record::table::{CellValue, Column, Table};
use photofinish_facts::record::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord};

/// The database on a server, written over one connection.
pub(in crate::store) struct ServerStore {
    server: Arc<PostgresServer>,
    slot: Mutex<ServerSlot>,
}

#[derive(Default)]
struct ServerSlot {
    session: Option<PostgresSession>,
    /// Days whose partitions are there, unless somebody removed them since.
    days: BTreeSet<i64>,
}

/// Tries of one batch: without a conflict; without rows that are there; with partitions that were missing.
const TRIES: usize = 4;

impl StoreEngine for ServerStore {
    fn open(&self) -> Result<(), OpenError> {
        let session = open::writing(&self.server)?;
        self.slot().session = Some(session);
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.slot().session.is_some()
    }

    fn migrate(&self) -> Result<(i64, i64), OpenError> {
        open::migrate_now(&self.server)
    }

    fn write(&self, rows: &[&dyn TableRow]) -> Result<(), WriteError> {
        // An empty batch asks whether the server is back.
        self.with(
            |session, days| if rows.is_empty() { Ok(session.batch("SELECT 1")?) } else { write(session, days, rows) },
        )
    }

    fn write_apart(&self, rows: &[&dyn TableRow]) -> Result<Vec<RefusedRow>, WriteError> {
        apart(rows, |rows| self.write(rows))
    }

    fn change(&self, run: &Change<'_>) -> Result<Option<String>, WriteError> {
        self.with(|session, _| {
            let transaction = Connection::Postgres(session).change()?;
            let refusal = run(&transaction)?;
            if refusal.is_none() {
                transaction.commit()?;
            }
            Ok(refusal)
        })
    }

    fn close(&self) {
        self.slot().session = None;
    }

    fn holds_duty(&self, duty: &str) -> Result<bool, WriteError> {
        let session = open::rolling(&self.server).map_err(|error| WriteError::unavailable(&error))?;
        duties::holds_duty(&session, duty).map_err(WriteError::unsound)
    }
}

impl ServerStore {
    pub fn new(server: Arc<PostgresServer>) -> ServerStore {
        ServerStore { server, slot: Mutex::default() }
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&PostgresSession, &mut BTreeSet<i64>) -> database::Result<T>,
    ) -> Result<T, WriteError> {
        let mut slot = self.slot();
        let session = match slot.session.take() {
            Some(session) if session.is_sound() => session,
            _ => open::writing(&self.server).map_err(|error| WriteError::unavailable(&error))?,
        };
        let done = run(&session, &mut slot.days);
        if session.is_sound() {
            slot.session = Some(session);
        }
        done.map_err(WriteError::unsound)
    }

    fn slot(&self) -> MutexGuard<'_, ServerSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(session: &PostgresSession, days: &mut BTreeSet<i64>, rows: &[&dyn TableRow]) -> database::Result<()> {
    let day =
        |row: &dyn TableRow| row.race_id().filter(|id| uuid(id).is_some()).map(|id| start_of(began_at(id), DAY_US));
    let (kept, stray): (Vec<&dyn TableRow>, Vec<&dyn TableRow>) =
        rows.iter().partition(|row| day(**row).is_none_or(partitions::is_in_range));
    let wanted: BTreeSet<i64> = kept.iter().filter_map(|row| day(*row)).collect();
    let mut known = KnownRows::default();
    for tries in 1.. {
        for day in wanted.difference(&days.clone()) {
            partitions::make(session, *day)?;
            days.insert(*day);
        }
        match write_once(session, &kept, &stray, &known) {
            Err(DatabaseError::Postgres(error)) if tries < TRIES && partitions::is_missing(&error) => days.clear(),
            Err(DatabaseError::Postgres(error)) if tries < TRIES && error.code() == UNIQUE => {
                known = KnownRows::of(session, &kept)?;
            }
            done => return done,
        }
    }
    Ok(())
}

/// A row with this key is there.
const UNIQUE: &str = "23505";

/// Rows that are there already.
#[derive(Default)]
struct KnownRows {
    races: HashSet<String>,
    attempts: HashSet<(String, i64)>,
}

impl KnownRows {
    fn of(session: &PostgresSession, rows: &[&dyn TableRow]) -> database::Result<KnownRows> {
        let ids: BTreeSet<&str> = rows.iter().filter_map(|row| row.race_id()).collect();
        let (list, connection) = (serde_json::json!(ids).to_string(), Connection::Postgres(session));
        let races = connection.all(RACES, params![&list], |row| row.get(0))?;
        let attempts = connection.all(ATTEMPTS, params![&list], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(KnownRows { races: races.into_iter().collect(), attempts: attempts.into_iter().collect() })
    }
}

const RACES: &str = "SELECT race_id FROM race WHERE race_id IN (SELECT CAST(value AS uuid) FROM json_each(?1))";

const ATTEMPTS: &str =
    "SELECT race_id, ordinal FROM attempt WHERE race_id IN (SELECT CAST(value AS uuid) FROM json_each(?1))";

fn write_once(
    session: &PostgresSession,
    rows: &[&dyn TableRow],
    stray: &[&dyn TableRow],
    known: &KnownRows,
) -> database::Result<()> {
    let connection = Connection::Postgres(session);
    let transaction = connection.change()?;
    let (mut races, mut attempts) = (Copied::new::<RaceRecord>(), Copied::new::<AttemptRecord>());
    let mut seen = HashSet::new();
    for row in rows {
        let (table, cells) = (row.table(), row.cells()?);
        let ordinal = match cells.get(1) {
            Some(CellValue::Integer(ordinal)) if table == RowTable::Attempt => *ordinal,
            _ => 0,
        };
        let is_known = match (table, row.race_id()) {
            (RowTable::Race, Some(id)) => known.races.contains(id) || !seen.insert((id, -1)),
            (RowTable::Attempt, Some(id)) => {
                (!known.attempts.is_empty() && known.attempts.contains(&(id.to_owned(), ordinal)))
                    || !seen.insert((id, ordinal))
            }
            _ => false,
        };
        match table {
            _ if is_known => {}
            RowTable::Race => races.add(&cells)?,
            RowTable::Attempt => attempts.add(&cells)?,
            RowTable::Run | RowTable::Incident => {
                let columns = if table == RowTable::Run { RunRecord::COLUMNS } else { IncidentRecord::COLUMNS };
                let values: Vec<Value<'_>> =
                    cells.iter().zip(columns).map(|(cell, column)| Value::of(*cell, column.sql_type.into())).collect();
                transaction.execute(&numbered(table.insert()), &values)?;
            }
        }
    }
    races.send(session)?;
    attempts.send(session)?;
    put_stray(&transaction, stray)?;
    // Last: others wait for these rows.
    for (hours, start) in spans(rows.iter().filter_map(|row| row.race_id())) {
        transaction.execute(CAME, params![hours, start])?;
    }
    transaction.commit()?;
    STRAY_ROWS.fetch_add(stray.len() as u64, Relaxed);
    Ok(())
}

static STRAY_ROWS: AtomicU64 = AtomicU64::new(0);

/// Rows that this process put into the table `stray`.
pub fn stray_rows() -> u64 {
    STRAY_ROWS.load(Relaxed)
}

/// With numbers behind its question marks.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.enumerate().fold(first, |text, (at, part)| format!("{text}?{}{part}", at + 1))
}

fn put_stray(connection: &Connection<'_>, stray: &[&dyn TableRow]) -> database::Result<()> {
    if let Some(first) = stray.first() {
        let (rows, race) = (stray.len(), first.race_id());
        tracing::warn!(rows, race, "rows of times far away from now go into the table stray: is a clock wrong?");
    }
    for row in stray {
        let shown = row.shown();
        let ordinal = shown.get("ordinal").and_then(Json::as_i64).unwrap_or(-1);
        let text = Json::Object(shown).to_string();
        connection.execute(STRAY, params![row.table().name(), row.race_id(), ordinal, &text])?;
    }
    Ok(())
}

const STRAY: &str = "\
    INSERT INTO stray (kind, race_id, ordinal, content) VALUES (?1, ?2, ?3, CAST(CAST(?4 AS TEXT) AS jsonb)) \
    ON CONFLICT DO NOTHING";

/// Rows of a table on their way.
struct Copied {
    statement: String,
    columns: &'static [Column],
    /// Of a race: which gateway writes it.
    replica: Option<i32>,
    bytes: Vec<u8>,
}

impl Copied {
    fn new<T: Table>() -> Copied {
        let replica = replica_number::number().filter(|_| T::NAME == RaceRecord::NAME);
        let more = if replica.is_some() { ", replica" } else { "" };
        let statement = format!("COPY {} ({}{more}) FROM STDIN (FORMAT binary)", T::NAME, names::<T>());
        Copied { statement, columns: T::COLUMNS, replica, bytes: tables::BEGIN.to_vec() }
    }

    fn add(&mut self, cells: &[CellValue<'_>]) -> database::Result<()> {
        tables::append(&mut self.bytes, self.columns, cells, self.replica)
            .map_err(|id| DatabaseError::Content(format!("its id is no UUID: {id:?}")))
    }

    fn send(mut self, session: &PostgresSession) -> Result<(), PostgresError> {
        if self.bytes.len() == tables::BEGIN.len() {
            return Ok(());
        }
        self.bytes.extend(tables::END);
        session.copy(&self.statement, &self.bytes)
    }
}
