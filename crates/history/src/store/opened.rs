//! An open database, for whoever reads it or rolls it up, and what differs there between a file and a server. Not for who writes: see
//! `engine`.

use std::path::Path;
use std::time::Instant;

use crate::store::database::session::PostgresSession;
use crate::store::database::{Connection, Result};
use crate::store::open::{self, OpenError};
use crate::store::{postgres, space};
use photofinish_config::StoreAddress;

/// Threads that read rows for one question.
const THREADS_MAX: usize = 4;

/// Connections to Postgres that read rows for one question: the server has others to answer.
const CONNECTIONS_MAX: usize = 2;

/// Virtual machine steps of SQLite between two checks of the clock and of `stop`; well under a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// An open database.
pub(super) enum OpenDatabase {
    Sqlite(rusqlite::Connection),
    Postgres(PostgresSession),
}

impl OpenDatabase {
    pub fn reading(address: &StoreAddress) -> Result<OpenDatabase, OpenError> {
        match address {
            StoreAddress::Server(server) => postgres::reading(server).map(OpenDatabase::Postgres),
            StoreAddress::File(path) => open::readable(path).map(OpenDatabase::Sqlite),
        }
    }

    /// For roll-ups.
    pub fn rolling(address: &StoreAddress) -> Result<OpenDatabase, OpenError> {
        match address {
            StoreAddress::Server(server) => postgres::rolling(server).map(OpenDatabase::Postgres),
            StoreAddress::File(path) => open::roller(path).map(OpenDatabase::Sqlite),
        }
    }

    /// For a question that another connection reads too. None: the server gives no more.
    pub fn another(address: &StoreAddress) -> Result<Option<OpenDatabase>> {
        Ok(match address {
            StoreAddress::Server(server) => postgres::reading(server).ok().map(OpenDatabase::Postgres),
            StoreAddress::File(path) => Some(OpenDatabase::Sqlite(open::connect(path)?)),
        })
    }

    pub fn connection(&self) -> Connection<'_> {
        match self {
            OpenDatabase::Sqlite(connection) => Connection::Sqlite(connection),
            OpenDatabase::Postgres(session) => Connection::Postgres(session),
        }
    }

    /// Limits what runs from now on by the deadline and by `stop`.
    pub fn limit(&self, deadline: Option<Instant>, stop: impl Fn() -> bool + Send + 'static) -> Result<()> {
        match self {
            OpenDatabase::Sqlite(connection) => {
                let is_over = move || stop() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
                connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
            }
            OpenDatabase::Postgres(session) => session.limit(deadline, stop),
        }
        Ok(())
    }

    /// The answer of one query.
    pub fn ask<T>(&self, query: impl FnOnce(&Connection<'_>) -> Result<T>) -> Result<T> {
        match self.connection() {
            file @ Connection::Sqlite(_) => query(&file),
            // Its cursors live in a transaction.
            server @ Connection::Postgres(_) => query(&*server.snapshot()?),
        }
    }

    /// How many connections may read for one question.
    pub fn readers_max(&self) -> usize {
        match self {
            OpenDatabase::Sqlite(_) => THREADS_MAX,
            OpenDatabase::Postgres(_) => CONNECTIONS_MAX,
        }
    }

    /// Whether this process rolls up for all that share the database.
    pub fn holds_rollup(&self) -> Result<bool> {
        match self {
            OpenDatabase::Sqlite(_) => Ok(true),
            OpenDatabase::Postgres(session) => postgres::holds_duty(session, "rollup"),
        }
    }

    /// Gives some free pages back to the disk; returns how many. Postgres takes care of its space.
    pub fn give_back(&mut self) -> Result<u64> {
        match self {
            OpenDatabase::Sqlite(connection) => Ok(space::give_back(connection)?),
            OpenDatabase::Postgres(_) => Ok(0),
        }
    }
}

/// Bytes that a database takes.
pub(super) struct DatabaseSize {
    pub file_bytes: u64,
    pub log_bytes: u64,
    /// Free space within it.
    pub free_bytes: u64,
}

impl DatabaseSize {
    /// `path`: where its file would be.
    pub fn of(connection: &Connection<'_>, path: &Path) -> Result<DatabaseSize> {
        let number = |sql: &str| connection.one(sql, &[], |row| row.get::<u64>(0));
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(match connection {
            Connection::Sqlite(_) => DatabaseSize {
                file_bytes: bytes(path),
                log_bytes: bytes(&open::log_of(path)),
                free_bytes: number("PRAGMA freelist_count")? * number("PRAGMA page_size")?,
            },
            Connection::Postgres(_) => {
                DatabaseSize { file_bytes: number(postgres::BYTES)?, log_bytes: 0, free_bytes: 0 }
            }
        })
    }
}
