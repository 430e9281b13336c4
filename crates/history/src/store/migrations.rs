//! The migrations of the schema: their list, how a file gets those that it lacks, and what the list of a database says about it.
//!
//! `sqlx` applies them and keeps their checksums in the database. Not for deciding whether a file belongs to the gateway: see `open`.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqlSafeStr as _};

/// Of a file.
static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let initial =
        concat!(include_str!("../../migrations/0001_initial.sql"), include_str!("../../migrations/views.sql"));
    Migrator::with_migrations(vec![migration(1, "initial", initial)])
});

pub(super) fn migrator() -> &'static Migrator {
    &MIGRATOR
}

/// One of a list, oldest first. A released one is never edited: its checksum is stored.
pub(super) fn migration(version: i64, description: &'static str, sql: &'static str) -> Migration {
    Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
}

pub(super) fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// What the migrations that a database has say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    /// It has all of this program.
    Current,
    /// It lacks the last ones.
    Older,
    /// It has others in addition to them, the last of which is this.
    Newer(i64),
    /// It was made by others.
    Other,
}

impl Edition {
    /// `entered`: version and checksum of each, oldest first.
    pub fn of(migrator: &Migrator, entered: &[(i64, Vec<u8>)]) -> Edition {
        let own: Vec<&Migration> = migrator.iter().collect();
        let is_own = |((version, checksum), own): (&(i64, Vec<u8>), &&Migration)| {
            *version == own.version && Cow::Borrowed(checksum.as_slice()) == own.checksum
        };
        match entered.last() {
            Some((last, _)) if entered.iter().zip(&own).all(is_own) => match entered.len().cmp(&own.len()) {
                std::cmp::Ordering::Less => Edition::Older,
                std::cmp::Ordering::Equal => Edition::Current,
                std::cmp::Ordering::Greater => Edition::Newer(*last),
            },
            _ => Edition::Other,
        }
    }
}

/// Applies the migrations that are missing. Blocks: `sqlx` waits on a runtime, so it gets a thread with one.
/// An `empty` file need not wait for the disk. In others a transaction that is only in the log is lost as a whole or not at all.
pub(super) fn migrate(path: &Path, busy_timeout: Duration, empty: bool) -> Result<(), MigrateError> {
    let synchronous = if empty { SqliteSynchronous::Off } else { SqliteSynchronous::Normal };
    let on_runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(unavailable)?;
        runtime.block_on(apply(path, busy_timeout, synchronous))
    };
    std::thread::scope(|scope| {
        let panicked = |_| Err(unavailable(io::Error::other("the migrations panicked")));
        scope.spawn(on_runtime).join().unwrap_or_else(panicked)
    })
}

/// One transaction: two processes that start on one new file wait for each other, and neither sees half a schema.
async fn apply(path: &Path, busy_timeout: Duration, synchronous: SqliteSynchronous) -> Result<(), MigrateError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(busy_timeout)
        .synchronous(synchronous)
        .disable_statement_logging();
    let mut connection = options.connect().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    migrator().run_direct(None, &mut *transaction, false).await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(())
}

fn unavailable(error: io::Error) -> MigrateError {
    MigrateError::Execute(sqlx::Error::Io(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_migrations_says_whose_it_is() {
        let list = |sql: &[&'static str]| {
            Migrator::with_migrations((1..).zip(sql).map(|(version, sql)| migration(version, "", sql)).collect())
        };
        let entered = |sql: &[&'static str]| -> Vec<(i64, Vec<u8>)> {
            list(sql).iter().map(|migration| (migration.version, migration.checksum.to_vec())).collect()
        };
        for (of_database, edition) in [
            (&["a", "b"][..], Edition::Current),
            (&["a"], Edition::Older),
            (&["a", "b", "c"], Edition::Newer(3)),
            (&[], Edition::Other),
            (&["x"], Edition::Other),
            (&["a", "x"], Edition::Other),
            (&["x", "b", "c"], Edition::Other),
        ] {
            assert_eq!(Edition::of(&list(&["a", "b"]), &entered(of_database)), edition, "{of_database:?}");
        }
    }
}
