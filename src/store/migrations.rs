//! The migrations of the schema: their list, and how a file gets those that it lacks.
//!
//! The table of applied migrations has the form and the checksums of `sqlx`, which applied the first ones. Not for
//! deciding whether a file belongs to the gateway: see `open`.

use std::collections::BTreeMap;

use ring::digest::{SHA384, digest};
use rusqlite::{Connection, TransactionBehavior, params};

/// One step of the schema. A released file is never edited: its checksum is stored.
pub(super) struct Migration {
    pub version: i64,
    pub description: &'static str,
    pub sql: &'static str,
}

/// Oldest first.
pub(super) const MIGRATIONS: [Migration; 8] = [
    migration(1, "race and attempt", include_str!("../../migrations/0001_race_and_attempt.sql")),
    migration(2, "rollup", include_str!("../../migrations/0002_rollup.sql")),
    migration(3, "plan and why", include_str!("../../migrations/0003_plan_and_why.sql")),
    migration(4, "cost bounds", include_str!("../../migrations/0004_cost_bounds.sql")),
    migration(5, "rescued by", include_str!("../../migrations/0005_rescued_by.sql")),
    migration(6, "left out", include_str!("../../migrations/0006_left_out.sql")),
    migration(7, "price source", include_str!("../../migrations/0007_price_source.sql")),
    migration(8, "cache write tokens", include_str!("../../migrations/0008_cache_write_tokens.sql")),
];

const fn migration(version: i64, description: &'static str, sql: &'static str) -> Migration {
    Migration { version, description, sql }
}

/// Why a file cannot be migrated. It was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    #[error("its migration {0} is unknown")]
    Unknown(i64),
    #[error("its migration {0} reads differently")]
    Different(i64),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// Whether this build has a migration of this version.
pub(super) fn is_known(version: i64) -> bool {
    MIGRATIONS.iter().any(|migration| migration.version == version)
}

/// Applies the migrations that are missing. One transaction: two processes that start on one new file wait for each
/// other, and neither sees half a schema.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(APPLIED_TABLE)?;
    let applied: BTreeMap<i64, Vec<u8>> =
        transaction.prepare(APPLIED)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    if let Some(unknown) = applied.keys().find(|version| !is_known(**version)) {
        return Err(MigrateError::Unknown(*unknown));
    }
    for Migration { version, description, sql } in &MIGRATIONS {
        let checksum = digest(&SHA384, sql.as_bytes());
        match applied.get(version) {
            Some(applied) if applied != checksum.as_ref() => return Err(MigrateError::Different(*version)),
            Some(_) => {}
            None => {
                transaction.execute_batch(sql)?;
                transaction.execute(APPLY, params![version, description, checksum.as_ref()])?;
            }
        }
    }
    Ok(transaction.commit()?)
}

const APPLIED_TABLE: &str = "\
    CREATE TABLE IF NOT EXISTS _sqlx_migrations (\
        version BIGINT PRIMARY KEY, \
        description TEXT NOT NULL, \
        installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, \
        success BOOLEAN NOT NULL, \
        checksum BLOB NOT NULL, \
        execution_time BIGINT NOT NULL)";

const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations";

/// The time that it took is not known within its transaction.
const APPLY: &str = "\
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
    VALUES (?1, ?2, TRUE, ?3, -1)";
