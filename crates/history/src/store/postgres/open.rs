//! Opens a database on a server: whose it is, which version it has, and how it gets the migrations that it lacks.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection as _, Executor as _};

use crate::store::OpenError;
use crate::store::database::error::PostgresError;
use crate::store::database::session::PostgresSession;
use crate::store::database::{AnswerRow, Connection, DatabaseError};
use crate::store::migrations::{self, Edition};
use crate::store::postgres::partitions::make_ahead;
use photofinish_config::PostgresServer;

static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let initial = concat!(
        include_str!("../../../migrations/postgres/0001_initial.sql"),
        include_str!("../../../migrations/views.sql")
    );
    let mut migrator = Migrator::with_migrations(vec![migrations::migration(1, "initial", initial)]);
    migrator.dangerous_set_table_name(TABLE);
    // A lock of the session would be lost behind a pooler: see `migrate`.
    migrator.set_locking(false);
    migrator
});

/// Where the migrations are entered. Its name says whose the database is.
const TABLE: &str = "_photofinish_migrations";

/// PostgreSQL 15.
const OLDEST_VERSION: i64 = 150_000;

/// How long migrations of Postgres may take, and how long they wait for another process that runs them.
const MIGRATE_FOR: Duration = Duration::from_secs(120);

/// Opens for writing. Makes the schema, or brings it up to date, unless the configuration says that this is done apart.
pub(super) fn writing(server: &Arc<PostgresServer>) -> Result<PostgresSession, OpenError> {
    let (session, version) = connect(server)?;
    if version != newest() {
        if !server.migrates {
            return Err(refused(server, "its schema is not up to date: run `photofinish migrate`"));
        }
        migrate(server, &session)?;
    }
    let may_write = "SELECT has_table_privilege('race', 'INSERT') AND has_table_privilege('rollup_span', 'UPDATE')";
    match Connection::Postgres(&session).one(may_write, &[], |row| row.get(0)) {
        Ok(true) => Ok(session),
        Ok(false) => Err(refused(
            server,
            "this user may only read: grant it the tables, or name another user in the url under [store]",
        )),
        Err(error) => Err(explain(server, &error)),
    }
}

/// Opens for roll-ups and retention.
pub(in crate::store) fn rolling(server: &Arc<PostgresServer>) -> Result<PostgresSession, OpenError> {
    current(server)
}

/// Opens for reading.
pub(in crate::store) fn reading(server: &Arc<PostgresServer>) -> Result<PostgresSession, OpenError> {
    current(server)
}

fn current(server: &Arc<PostgresServer>) -> Result<PostgresSession, OpenError> {
    let (session, version) = connect(server)?;
    match version {
        0 if server.migrates => Err(OpenError::Absent { path: server.into() }),
        version if version == newest() => Ok(session),
        _ if server.migrates => Err(OpenError::Older { path: server.into() }),
        _ => Err(refused(server, "its schema is not up to date: run `photofinish migrate`")),
    }
}

/// Makes the schema, or brings it up to date. Returns the versions before and after.
pub(in crate::store) fn migrate_now(server: &Arc<PostgresServer>) -> Result<(i64, i64), OpenError> {
    let (session, before) = connect(server)?;
    if before != newest() {
        migrate(server, &session)?;
    }
    make_ahead(&session).map_err(|error| explain(server, &error))?;
    Ok((before, newest()))
}

fn newest() -> i64 {
    migrations::newest(&MIGRATOR)
}

/// With the last migration of the database; 0: it has none.
fn connect(server: &Arc<PostgresServer>) -> Result<(PostgresSession, i64), OpenError> {
    if let Some(idle) = PostgresSession::idle(server)
        && let Ok(version) = look(server, &idle)
    {
        return Ok((idle, version));
    }
    let session = PostgresSession::connect(server).map_err(|error| explain(server, &error.into()))?;
    let version = look(server, &session)?;
    Ok((session, version))
}

fn look(server: &Arc<PostgresServer>, session: &PostgresSession) -> Result<i64, OpenError> {
    let failed = |error: DatabaseError| explain(server, &error);
    let connection = Connection::Postgres(session);
    let read = |row: AnswerRow<'_>| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<bool>(2)?));
    let (version, tables, is_own) = connection.one(OWNER, &[], read).map_err(failed)?;
    if version < OLDEST_VERSION {
        let version = version / 10_000;
        return Err(refused(server, &format!("its server is PostgreSQL {version}: 15 or newer is needed")));
    }
    if !is_own {
        return match tables {
            0 => Ok(0),
            _ => Err(refused(
                server,
                "it is the database of another program, and was not touched: name an empty one as the url under [store]",
            )),
        };
    }
    let read = |row: AnswerRow<'_>| Ok((row.get::<i64>(0)?, row.get::<&[u8]>(1)?.to_vec()));
    let entered = connection.all(ENTERED, &[], read).map_err(failed)?;
    match Edition::of(&MIGRATOR, &entered) {
        Edition::Current | Edition::Older => Ok(entered.last().map_or(0, |(version, _)| *version)),
        Edition::Newer(version) => Err(OpenError::Newer { path: server.into(), version }),
        Edition::Other => Err(refused(server, UNRELEASED)),
    }
}

const UNRELEASED: &str = "\
    it has tables of a photofinish from before 0.1.0, and was not touched: export its rows with that program \
    (`photofinish history export`) if you need them, then name an empty database as the url under [store]";

/// The version of the server, how many tables the schema has, and whether they are the gateway's.
const OWNER: &str = "\
    SELECT CAST(current_setting('server_version_num') AS BIGINT), \
           (SELECT count(*) FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace) \
                                            AND relkind IN ('r', 'p', 'v', 'm')), \
           to_regclass('_photofinish_migrations') IS NOT NULL";

const ENTERED: &str = "SELECT version, checksum FROM _photofinish_migrations ORDER BY version";

/// One transaction, and one process at a time.
fn migrate(server: &Arc<PostgresServer>, session: &PostgresSession) -> Result<(), OpenError> {
    session.wait_until(Instant::now() + MIGRATE_FOR);
    let ran = session.run(async |connection| {
        let mut transaction = connection.begin().await?;
        transaction.execute("SET LOCAL lock_timeout = '60s'").await?;
        transaction.execute("SELECT pg_advisory_xact_lock(88385570177024)").await?;
        transaction.execute("SET LOCAL lock_timeout = '5s'").await?;
        Ok(match MIGRATOR.run_direct(None, &mut *transaction, false).await {
            Ok(()) => transaction.commit().await.map_err(MigrateError::Execute),
            Err(error) => transaction.rollback().await.map_err(MigrateError::Execute).and(Err(error)),
        })
    });
    session.unlimited();
    match ran.map_err(|error| explain(server, &error.into()))? {
        Ok(()) => make_ahead(session).map_err(|error| explain(server, &error)),
        Err(MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) => {
            Err(explain(server, &PostgresError::from(cause).into()))
        }
        Err(error) => Err(refused(server, &error.to_string())),
    }
}

fn refused(server: &Arc<PostgresServer>, reason: &str) -> OpenError {
    OpenError::Server { path: server.into(), reason: reason.to_owned(), may_pass: false }
}

/// What is wrong, and what to do.
fn explain(server: &Arc<PostgresServer>, error: &DatabaseError) -> OpenError {
    let reason = error.to_string();
    let DatabaseError::Postgres(error) = error else { return refused(server, &reason) };
    let failed = |reason: String, may_pass| OpenError::Server { path: server.into(), reason, may_pass };
    match (error.code(), error) {
        ("28P01" | "28000", _) => failed(
            format!("the server refuses the user or the password: {reason}. Correct the url under [store]"),
            false,
        ),
        ("3D000", _) => failed(format!("{reason}. Create it (`createdb`), or correct the url under [store]"), false),
        ("42501", _) => failed(
            format!("{reason}. Grant this user its tables and CREATE on the schema, or name another user"),
            false,
        ),
        ("25006", _) => {
            failed(format!("{reason}: the server is a standby or read-only. Name the one that takes changes"), true)
        }
        ("42P01", _) => failed(error.advised(), false),
        (_, PostgresError::Lost(text)) if text.starts_with("TLS") || text.contains("certificate") => failed(
            format!("{text}. Correct sslmode and sslrootcert in the url under [store], or the host's name"),
            false,
        ),
        (_, PostgresError::Lost(_) | PostgresError::TimeLimit) => {
            failed(format!("{reason}. Start the server, or correct the url under [store]"), true)
        }
        (_, PostgresError::Settings(_)) => {
            failed(format!("{reason}: it is postgres://USER:PASSWORD@HOST/DATABASE"), false)
        }
        (_, error) => failed(reason, error.may_pass()),
    }
}
