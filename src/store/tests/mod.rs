//! The store over real files: opening, writing, views, and the queries of the documentation.

mod documentation;
mod opening;
mod views;
mod writing;

use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use tempfile::TempDir;

use super::*;
use crate::history::{AttemptRecord, RaceRecord};

/// A new database in a directory that goes with the first value.
async fn new_store() -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).await.unwrap();
    (directory, path, store)
}

/// As another program would open it.
async fn plain(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

fn race(record: RaceRecord) -> Record {
    Record::Race(Box::new(record))
}

fn attempt(record: AttemptRecord) -> Record {
    Record::Attempt(Box::new(record))
}
