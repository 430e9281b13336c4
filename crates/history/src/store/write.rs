//! Writes a batch of records as one transaction, with one prepared statement for each table; or race by race, if the
//! database refuses one of them. Rows that it will never take go into a file in the same directory, one line of JSON for each.
//!
//! An existing race or attempt stays unchanged, so a batch can be sent again when it is unclear whether its commit
//! succeeded. A run is written when it begins and again when it ends, an incident whenever it changes. Not for reading, nor for rows that wait: see `spill`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rusqlite::{Connection, Statement, TransactionBehavior};
use serde_json::{Map, Value, json};

use crate::store::columns::{self, DAY_US, HOUR_US, began_at, bound, start_of};
use crate::store::narrow::{self, Names, Narrow};
use crate::store::symptom::{Symptom, symptom};
use crate::store::{OpenError, database};
use photofinish_facts::record::table::{CellValue, Table, object};
use photofinish_facts::record::{AttemptRecord, IncidentRecord, RaceRecord, Record, RunRecord};

/// A row of one of the tables.
pub(super) trait TableRow {
    fn table(&self) -> RowTable;

    /// None: it is of no race.
    fn race_id(&self) -> Option<&str>;

    /// One value for each declared column of its table.
    fn cells(&self) -> rusqlite::Result<Vec<CellValue<'_>>>;

    /// The columns by name, as they are read back from the database.
    fn shown(&self) -> Map<String, Value>;
}

/// The tables that rows come into, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowTable {
    Race,
    Attempt,
    Run,
    Incident,
}

impl RowTable {
    pub const ALL: [RowTable; 4] = [RowTable::Race, RowTable::Attempt, RowTable::Run, RowTable::Incident];

    pub fn name(self) -> &'static str {
        match self {
            RowTable::Race => RaceRecord::NAME,
            RowTable::Attempt => AttemptRecord::NAME,
            RowTable::Run => RunRecord::NAME,
            RowTable::Incident => IncidentRecord::NAME,
        }
    }

    pub fn insert(self) -> &'static str {
        static RACE: LazyLock<String> = LazyLock::new(|| format!("{} ON CONFLICT DO NOTHING", into::<RaceRecord>()));
        static ATTEMPT: LazyLock<String> =
            LazyLock::new(|| format!("{} ON CONFLICT DO NOTHING", into::<AttemptRecord>()));
        static RUN: LazyLock<String> = LazyLock::new(|| {
            // Not one that has ended by one that has not.
            let may = "run.ended_at IS NULL OR excluded.ended_at IS NOT NULL";
            format!("{} {}", into::<RunRecord>(), columns::replaces_where::<RunRecord>(may))
        });
        static INCIDENT: LazyLock<String> = LazyLock::new(|| {
            // An older one may come from the spill file.
            let may = "excluded.updated_at >= incident.updated_at";
            format!("{} {}", into::<IncidentRecord>(), columns::replaces_where::<IncidentRecord>(may))
        });
        match self {
            RowTable::Race => &RACE,
            RowTable::Attempt => &ATTEMPT,
            RowTable::Run => &RUN,
            RowTable::Incident => &INCIDENT,
        }
    }
}

impl TableRow for Record {
    fn table(&self) -> RowTable {
        match self {
            Record::Race(_) => RowTable::Race,
            Record::Attempt(_) => RowTable::Attempt,
            Record::Run(_) => RowTable::Run,
            Record::Incident(_) => RowTable::Incident,
        }
    }

    fn race_id(&self) -> Option<&str> {
        self.race_id()
    }

    fn cells(&self) -> rusqlite::Result<Vec<CellValue<'_>>> {
        Ok(match self {
            Record::Race(race) => race.cells().collect(),
            Record::Attempt(attempt) => attempt.cells().collect(),
            Record::Run(row) => row.cells().collect(),
            Record::Incident(row) => row.cells().collect(),
        })
    }

    fn shown(&self) -> Map<String, Value> {
        match self {
            Record::Race(race) => object(&**race),
            Record::Attempt(attempt) => object(&**attempt),
            Record::Run(run) => object(&**run),
            Record::Incident(incident) => object(&**incident),
        }
    }
}

/// Runs an insert. Most cells of a row are null, and a parameter that is not bound is null.
pub(super) fn run(statement: &mut Statement<'_>, cells: &[CellValue<'_>]) -> rusqlite::Result<usize> {
    statement.clear_bindings();
    for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| **cell != CellValue::Null) {
        statement.raw_bind_parameter(column + 1, bound(*cell))?;
    }
    statement.raw_execute()
}

/// No part of the batch was written.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WriteError {
    /// Whether the same batch may succeed later: the database is locked or damaged, or its disk is full or gone.
    pub retry: bool,
    pub reason: String,
    /// What it says about the file.
    pub symptom: Option<Symptom>,
    /// Whether the connection is unchanged: no transaction had begun.
    pub(super) connection_is_sound: bool,
}

impl WriteError {
    /// The database cannot be opened now.
    pub(super) fn unavailable(error: &OpenError) -> WriteError {
        let symptom = error.symptom();
        WriteError { retry: true, reason: error.to_string(), symptom, connection_is_sound: false }
    }

    /// Rows that were written cannot be found.
    pub(super) fn missing(rows: u64) -> WriteError {
        let reason = format!("{rows} rows that were written cannot be read back");
        WriteError { retry: true, reason, symptom: None, connection_is_sound: true }
    }

    /// A table does not return a row that it has.
    pub(super) fn out_of_order() -> WriteError {
        let reason = "its rows are not in order".to_owned();
        WriteError { retry: true, reason, symptom: Some(Symptom::Damaged), connection_is_sound: false }
    }

    /// This gateway is not known to the others on its database yet.
    pub(super) fn early() -> WriteError {
        let reason = "this gateway has not met the others of its database yet".to_owned();
        WriteError { retry: true, reason, symptom: None, connection_is_sound: true }
    }

    /// It panicked.
    pub fn panicked() -> WriteError {
        WriteError { retry: true, reason: "it panicked".to_owned(), symptom: None, connection_is_sound: false }
    }

    /// No transaction had begun.
    pub(super) fn sound(error: impl Into<database::DatabaseError>) -> WriteError {
        WriteError { connection_is_sound: true, ..WriteError::unsound(error) }
    }

    /// A transaction had begun.
    pub(super) fn unsound(error: impl Into<database::DatabaseError>) -> WriteError {
        let error = error.into();
        WriteError {
            retry: error.may_pass(),
            reason: error.to_string(),
            symptom: symptom(&error),
            connection_is_sound: false,
        }
    }
}

/// A row that the database will never take.
#[derive(Clone, Debug)]
pub(super) struct RefusedRow {
    /// Its place in the batch.
    pub at: usize,
    pub reason: String,
}

/// Writes the whole batch or nothing.
pub(super) fn write(connection: &mut Connection, names: &mut Names, batch: &[&dyn TableRow]) -> Result<(), WriteError> {
    // A deferred transaction would fail at its first write, despite the busy timeout, if another process had written.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(WriteError::sound)?;
    let written = rows(&transaction, names, batch).and_then(|()| transaction.commit());
    if written.is_err() {
        names.forget();
    }
    written.map_err(WriteError::unsound)
}

/// Writes each race, and each run, in a transaction of its own. Returns the rows of those that are refused.
pub(super) fn apart(
    batch: &[&dyn TableRow],
    mut write: impl FnMut(&[&dyn TableRow]) -> Result<(), WriteError>,
) -> Result<Vec<RefusedRow>, WriteError> {
    let (mut races, mut runs): (BTreeMap<&str, Vec<usize>>, Vec<Vec<usize>>) = Default::default();
    for (at, row) in batch.iter().enumerate() {
        match row.race_id() {
            Some(race_id) => races.entry(race_id).or_default().push(at),
            None => runs.push(vec![at]),
        }
    }
    let mut refused = Vec::new();
    for places in races.into_values().chain(runs) {
        let rows: Vec<&dyn TableRow> = places.iter().filter_map(|at| batch.get(*at).copied()).collect();
        match write(&rows) {
            Err(error) if error.retry => return Err(error),
            Err(error) => refused.extend(places.iter().map(|at| RefusedRow { at: *at, reason: error.reason.clone() })),
            Ok(()) => {}
        }
    }
    Ok(refused)
}

fn rows(connection: &Connection, names: &mut Names, batch: &[&dyn TableRow]) -> rusqlite::Result<()> {
    for table in RowTable::ALL {
        // In the order of the table: rows that come between others leave its pages half full.
        let mut of_table: Vec<&dyn TableRow> = batch.iter().copied().filter(|row| row.table() == table).collect();
        of_table.sort_by_key(|row| row.race_id());
        // Without rows nothing is prepared: the table may be missing.
        if !of_table.is_empty() {
            let narrow = narrow::of(table.name());
            let mut statement = connection.prepare_cached(narrow.map_or(table.insert(), Narrow::insert))?;
            for row in of_table {
                let mut cells = row.cells()?;
                narrow.map_or(Ok(()), |narrow| narrow.narrow(connection, names, &mut cells))?;
                run(&mut statement, &cells)?;
            }
        }
    }
    came(connection, batch.iter().filter_map(|row| row.race_id()))
}

fn into<T: Table>() -> String {
    let values = vec!["?"; T::COLUMNS.len()].join(",");
    format!("INSERT INTO {} ({}) VALUES ({values})", T::NAME, columns::names::<T>())
}

/// Marks the hours and days of these races, also unfinished ones: if the clock of another process is ahead, or this
/// clock was set back, they may be rolled up already.
fn came<'i>(connection: &Connection, race_ids: impl Iterator<Item = &'i str>) -> rusqlite::Result<()> {
    let mut came = connection.prepare_cached(CAME)?;
    spans(race_ids).into_iter().try_for_each(|span| came.execute(span).map(drop))
}

/// The hours and days of these races, each with its length in hours.
pub(super) fn spans<'i>(race_ids: impl Iterator<Item = &'i str>) -> BTreeSet<(i64, i64)> {
    race_ids.map(began_at).flat_map(|at_us| [(1, start_of(at_us, HOUR_US)), (24, start_of(at_us, DAY_US))]).collect()
}

/// Marks an hour or a day as having new rows, so that it is rolled up, or rolled up again. An hour whose old rows are
/// being removed (state 2) is not marked: its new rows are late by the whole retention, so they do not count.
pub(super) const CAME: &str = "\
    INSERT INTO rollup_span (hours, start, batches) VALUES (?1, ?2, 1) \
    ON CONFLICT (hours, start) DO UPDATE SET batches = rollup_span.batches + 1, \
        state = CASE rollup_span.state WHEN 2 THEN 2 ELSE 0 END";

/// Bytes of the file of refused rows: about ten thousand rows. Further ones are lost.
const BYTES_MAX: u64 = 16 << 20;

/// The file of the database at this path.
pub(super) fn file_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".refused");
    path.into()
}

/// Appends the rows. Returns the number of those that there was no room for.
pub(super) fn append<'r, R: TableRow + 'r>(
    path: &Path,
    rows: impl Iterator<Item = (&'r R, &'r str)>,
) -> io::Result<usize> {
    let mut open = OpenOptions::new();
    open.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    let mut file = open.open(path)?;
    let (mut room, mut lines, mut lost) = (BYTES_MAX.saturating_sub(file.metadata()?.len()), Vec::new(), 0);
    for (row, reason) in rows {
        let line = format!("{}\n", json!({ "table": row.table().name(), "reason": reason, "row": row.shown() }));
        match room.checked_sub(line.len() as u64) {
            Some(left) => {
                room = left;
                lines.extend_from_slice(line.as_bytes());
            }
            None => lost += 1,
        }
    }
    file.write_all(&lines)?;
    Ok(lost)
}
