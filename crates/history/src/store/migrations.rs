//! The migrations of the schema: their list, and how a file gets those that it lacks.
//!
//! `sqlx` applies them and keeps their checksums in the file. Not for deciding whether a file belongs to the gateway: see
//! `open`.

use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqlSafeStr as _};

/// Every migration. A start needs their checksums three times.
static MIGRATOR: LazyLock<Migrator> = LazyLock::new(released);

pub(super) fn migrator() -> &'static Migrator {
    &MIGRATOR
}

/// Oldest first. A released file is never edited: its checksum is stored.
fn released() -> Migrator {
    let migration = |version, description: &'static str, sql: &'static str| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        migration(1, "race and attempt", include_str!("../../migrations/0001_race_and_attempt.sql")),
        migration(2, "rollup", include_str!("../../migrations/0002_rollup.sql")),
        migration(3, "plan and why", include_str!("../../migrations/0003_plan_and_why.sql")),
        migration(4, "cost bounds", include_str!("../../migrations/0004_cost_bounds.sql")),
        migration(5, "rescued by", include_str!("../../migrations/0005_rescued_by.sql")),
        migration(6, "left out", include_str!("../../migrations/0006_left_out.sql")),
        migration(7, "price source", include_str!("../../migrations/0007_price_source.sql")),
        migration(8, "cache write tokens", include_str!("../../migrations/0008_cache_write_tokens.sql")),
        migration(9, "source and run", include_str!("../../migrations/0009_source_and_run.sql")),
        migration(10, "service tier", include_str!("../../migrations/0010_service_tier.sql")),
        migration(11, "plain", include_str!("../../migrations/0011_plain.sql")),
        migration(12, "look", include_str!("../../migrations/0012_look.sql")),
        migration(13, "incident", include_str!("../../migrations/0013_incident.sql")),
        migration(14, "not_ok", include_str!("../../migrations/0014_not_ok.sql")),
        migration(15, "predicted", include_str!("../../migrations/0015_predicted.sql")),
        migration(16, "caller", include_str!("../../migrations/0016_caller.sql")),
        migration(17, "keys", include_str!("../../migrations/0017_keys.sql")),
        migration(18, "calls", include_str!("../../migrations/0018_calls.sql")),
        migration(19, "verdict", include_str!("../../migrations/0019_verdict.sql")),
        migration(20, "audit", include_str!("../../migrations/0020_audit.sql")),
        migration(21, "narrow", include_str!("../../migrations/0021_narrow.sql")),
        migration(22, "cost steps", include_str!("../../migrations/0022_cost_steps.sql")),
        migration(23, "rare races", include_str!("../../migrations/0023_rare_races.sql")),
    ])
}

/// From this edition on a file has every column and view that is read.
pub(super) const READABLE_FROM: i64 = 20;

pub(super) fn newest() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// What all migrations together make of an empty file, once its views are in place (`views`). SQLite reads the whole schema again at every
/// step that renames something, which was half of a first start. A test makes it of the migrations.
const SCHEMA: &str = include_str!("../../migrations/schema.sql");

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
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut *transaction).await?;
    let is_new = tables == 0;
    if is_new {
        sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
    }
    // A new file has them all: they are entered without being run.
    migrator().run_direct(None, &mut *transaction, is_new).await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(())
}

fn unavailable(error: io::Error) -> MigrateError {
    MigrateError::Execute(sqlx::Error::Io(error))
}
