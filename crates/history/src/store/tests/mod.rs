//! The store over real files: opening, writing, views, and the queries of the documentation.

mod accounts;
mod apart;
mod damage;
pub(super) mod documentation;
mod incidents;
mod narrow_rows;
mod opening;
mod races;
mod recorded;
mod removal;
pub(super) mod rollup;
mod runs;
mod space;
mod spill;
mod trouble;
mod views;
pub(super) mod world;
mod writing;

use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;

use super::*;
use photofinish_base::clock::wall_micros;
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};
use photofinish_facts::record::{AttemptRecord, IncidentRecord, RaceRecord, RunRecord};

/// A new database in a directory that is removed when the first value is dropped.
async fn new_store() -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    (directory, path, store)
}

/// Opens it as another program would.
async fn plain(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

/// Whether this step of a plan looks up the name of a number.
fn is_of_a_name(step: &str) -> bool {
    step == "SEARCH name USING INTEGER PRIMARY KEY (rowid=?)" || step.starts_with("CORRELATED SCALAR SUBQUERY")
}

/// Counts the attempts, and the requests without an attempt, that match the filter.
#[derive(Default)]
struct Counted {
    attempts: u64,
    without_attempts: u64,
}

impl Gather for Counted {
    fn attempt(&mut self, _: &AttemptFacts<'_>) {
        self.attempts += 1;
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {
        self.without_attempts += 1;
    }

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        match cell.upstream {
            Some(_) => self.attempts += cell.count,
            None => self.without_attempts += cell.count,
        }
        Ok(())
    }

    fn merge(&mut self, other: Counted) {
        self.attempts += other.attempts;
        self.without_attempts += other.without_attempts;
    }
}

fn counted(reader: &StoreReader, filter: &AttemptFilter) -> Result<u64, ReadError> {
    let selection = Selection { filter: filter.clone(), now_us: wall_micros(), ..Selection::default() };
    Ok(reader.gather(&selection, Counted::default)?.0.attempts)
}

fn race(record: RaceRecord) -> Record {
    Record::Race(Box::new(record))
}

fn attempt(record: AttemptRecord) -> Record {
    Record::Attempt(Box::new(record))
}

fn run(record: RunRecord) -> Record {
    Record::Run(Box::new(record))
}

fn incident(record: IncidentRecord) -> Record {
    Record::Incident(Box::new(record))
}
