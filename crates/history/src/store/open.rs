//! Opens the database file: checks its owner and version, and explains to the operator why it cannot be used.
//!
//! Changes nothing in a file before it is known to belong to the gateway. Not for reading or writing rows.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sqlx::migrate::MigrateError;

use crate::store::header::PHOTOFINISH;
use crate::store::migrations::{Edition, migrate, migrator};
use crate::store::symptom::{Symptom, of_file};
use photofinish_base::clock::Instant;
use photofinish_config::StoreAddress;

/// Why a database cannot be used, and what to do. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no database at {path}: `photofinish serve` makes one; or name the config that points to yours")]
    Absent { path: StoreAddress },
    #[error(
        "cannot create or open the database {path}: {reason}. Make its directory, and let this user write there, or \
         set another url under [store]"
    )]
    Unusable { path: PathBuf, reason: String },
    #[error("cannot read {path}: {reason}. Let this user read it, and enter its directory")]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "cannot read {path}: it has a write-ahead log (-wal), which can only be read where this user may write. \
         Copy both to such a place"
    )]
    Logged { path: PathBuf },
    #[error("{path} is a directory, not a database: name a file in it as the url under [store]")]
    Directory { path: PathBuf },
    #[error("{path} is empty: `photofinish serve` makes a database of it")]
    Empty { path: PathBuf },
    #[error(
        "{path} is not an SQLite database, or it is damaged. Move it away, or set another url under [store]; a file \
         that is missing is created"
    )]
    NotADatabase { path: PathBuf },
    #[error("{path} is the database of another program; it was not touched. Set another url under [store]")]
    Foreign { path: PathBuf },
    #[error(
        "{path} was written by a newer photofinish (its migration {version} is unknown here). Run that version, or \
         set another url under [store]"
    )]
    Newer { path: StoreAddress, version: i64 },
    #[error("{path} was written by an older photofinish: start `photofinish serve` once to bring it up to date")]
    Older { path: StoreAddress },
    #[error(
        "{path} has tables of a photofinish from before 0.1.0, and was not touched: export its rows with that program \
         (`photofinish history export`) if you need them, then move the file away or set another url under [store]"
    )]
    Unreleased { path: PathBuf },
    #[error("{path} is locked by another process. End that one, or wait until it is done, and try again")]
    Locked { path: PathBuf },
    #[error("cannot write {path}: {reason}. The disk is full or failing: make room on it")]
    Disk { path: PathBuf, reason: String },
    #[error("cannot read {path}: {reason}. The disk may be failing")]
    Failing { path: PathBuf, reason: String },
    #[error("{path} was overwritten while it was in use, and is no longer a database")]
    Overwritten { path: PathBuf },
    #[error(
        "{path} is damaged: {reason}. `photofinish serve` moves it aside and begins a new one; \
         `sqlite3 FILE .recover` gets out of it what is left"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "{path} is damaged, and its directory already has {count} damaged files: find out what damages them, and move them \
         away"
    )]
    TooManyAside { path: PathBuf, count: usize },
    /// Of a database on a server.
    #[error("{path}: {reason}")]
    Server { path: StoreAddress, reason: String, may_pass: bool },
}

impl OpenError {
    /// Whether it may pass by itself or after the operator acts elsewhere. False: the configuration is wrong.
    pub fn may_pass(&self) -> bool {
        use OpenError::{Damaged, Disk, Failing, Locked, Server};
        matches!(self, Locked { .. } | Disk { .. } | Failing { .. } | Damaged { .. } | Server { may_pass: true, .. })
    }

    /// What it says about a file of the gateway.
    pub(super) fn symptom(&self) -> Option<Symptom> {
        match self {
            OpenError::Damaged { .. } | OpenError::Overwritten { .. } => Some(Symptom::Damaged),
            OpenError::Failing { .. } => Some(Symptom::Unreadable),
            _ => None,
        }
    }

    /// Whether a reader says by it that the file may be damaged.
    pub fn is_of_damage(&self) -> bool {
        self.symptom().is_some() || matches!(self, OpenError::NotADatabase { .. })
    }
}

/// Between two tries to open a locked file.
const LOCKED_AGAIN: Duration = Duration::from_millis(20);

/// How long SQLite waits for a lock. Short: the recorder tries again and logs it.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// The write-ahead log is truncated to this size, in bytes, when it begins anew: twice the size at which SQLite moves it
/// into the file.
pub(super) const LOG_KEPT: u64 = 8 << 20;

/// Read-only flags.
const READING: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX).union(OpenFlags::SQLITE_OPEN_URI);

/// Rows of each index that are sampled for the planner's statistics on close.
const ANALYSIS_LIMIT: u32 = 400;

/// A connection opens the file first and its write-ahead log later, both by name. Whoever moves them away keeps all of this
/// process from opening one of the old and one of the new.
static MOVING: RwLock<()> = RwLock::new(());

/// Waits until no file is being opened, and keeps others from opening one.
pub(super) fn moving() -> RwLockWriteGuard<'static, ()> {
    MOVING.write().unwrap_or_else(PoisonError::into_inner)
}

fn opening() -> RwLockReadGuard<'static, ()> {
    MOVING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Opens for writing. Creates the file, readable for its owner only, and migrates it. Blocks.
///
/// SQLite ignores the busy timeout when it switches to a write-ahead log. If two processes start on one new file, one
/// finds it locked, so this function waits.
///
/// `bytes_max`: largest size of the file while this connection writes to it.
#[expect(clippy::disallowed_methods, reason = "everything in this room blocks: its callers use a thread for such work")]
pub(super) fn writable(path: &Path, bytes_max: Option<u64>) -> Result<Connection, OpenError> {
    let until = Instant::now() + BUSY_TIMEOUT;
    loop {
        match writable_now(path, bytes_max) {
            Err(OpenError::Locked { .. }) if Instant::now() < until => std::thread::sleep(LOCKED_AGAIN),
            result => return result,
        }
    }
}

fn writable_now(path: &Path, bytes_max: Option<u64>) -> Result<Connection, OpenError> {
    let _opening = opening();
    create_private(path).map_err(|error| explain_io(path, &error))?;
    let connection = connect_writing(path).map_err(|error| explain(path, &error))?;
    let owner = owner(&connection).map_err(|error| explain(path, &error))?;
    match owner {
        FileOwner::Other => return Err(OpenError::Foreign { path: path.into() }),
        FileOwner::None => connection.execute_batch(EMPTY_FILE).map_err(|error| explain(path, &error))?,
        FileOwner::Photofinish => {}
    }
    let is_empty = matches!(owner, FileOwner::None);
    let lacks = is_empty || lacks_migrations(path, &connection)?;
    // It is the gateway's from here on.
    let explained = |error| explain_own(path, &error);
    connection.pragma_update(None, "journal_mode", "WAL").map_err(explained)?;
    // Opens the log, which then stays until this connection closes. Without it, closing the connection of the migrations moves the log
    // into the file, which waits for the disk five times.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(explained)?;
    if lacks {
        migrate(path, BUSY_TIMEOUT, is_empty).map_err(|error| explain_migration(path, &error))?;
    }
    if let Some(bytes_max) = bytes_max {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(explained)?;
        connection.pragma_update(None, "max_page_count", bytes_max / page.max(512)).map_err(explained)?;
    }
    Ok(connection)
}

/// A file without a table has nothing to lose, so its first page needs no journal. The change to a write-ahead log, which comes next,
/// waits until the disk has that page.
const EMPTY_FILE: &str = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA synchronous = NORMAL";

/// Renews the planner's statistics, moves the write-ahead log into the file, and closes.
pub(super) fn close(connection: Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "analysis_limit", ANALYSIS_LIMIT)?;
    connection.execute_batch("PRAGMA optimize")?;
    connection.close().map_err(|(_, error)| error)
}

fn connect_writing(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // The first statement that reads the file opens its log too.
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    Ok(connection)
}

/// The last migration of the file; 0: it has none, or cannot be read.
pub(super) fn version(path: &Path) -> i64 {
    let _opening = opening();
    let read = |connection: Connection| {
        connection.query_row("SELECT max(version) FROM _sqlx_migrations", [], |row| row.get(0))
    };
    Connection::open_with_flags(path, READING).and_then(read).unwrap_or(0)
}

/// Opens for reading. The file must exist, belong to the gateway, and have the current schema.
pub(super) fn readable(path: &Path) -> Result<Connection, OpenError> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => OpenError::Absent { path: path.into() },
        _ => OpenError::Unreadable { path: path.into(), reason: error.to_string() },
    })?;
    if metadata.is_dir() {
        return Err(OpenError::Directory { path: path.into() });
    }
    if metadata.len() == 0 && !has_log(path) {
        return Err(OpenError::Empty { path: path.into() });
    }
    let _opening = opening();
    // Only through SQLite: closing another handle would drop the locks of this process.
    let opened = Connection::open_with_flags(path, READING).map(drop);
    opened.map_err(|error| explain_read(path, &error))?;
    let connection = connect_reading(path).map_err(|error| match cannot_write_directory(&error) && has_log(path) {
        true => OpenError::Logged { path: path.into() },
        false => explain_read(path, &error),
    })?;
    current(path, &connection).map_err(for_reading)?;
    Ok(connection)
}

/// Opens a file that [`writable`] has migrated, for roll-ups.
pub(super) fn roller(path: &Path) -> Result<Connection, OpenError> {
    let _opening = opening();
    let connection = connect_writing(path).map_err(|error| explain(path, &error))?;
    current(path, &connection)?;
    Ok(connection)
}

/// Another reading connection to a file that [`readable`] or [`writable`] has checked.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let _opening = opening();
    connect_reading(path)
}

fn connect_reading(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, READING)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let looked = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    match looked {
        // In a directory without write permission, a database in WAL mode can only be read as an immutable one.
        Err(error) if cannot_write_directory(&error) && !has_log(path) => {
            let uri = format!("file:{}?immutable=1", uri_path(path));
            Connection::open_with_flags(uri, READING)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(connection),
    }
}

fn cannot_write_directory(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// The write-ahead log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Whether the write-ahead log has content.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(log_of(path)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Escapes what would end the path within a URI or begin an escape.
fn uri_path(path: &Path) -> String {
    path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// The file must belong to the gateway and have all migrations.
fn current(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    match owner(connection).map_err(|error| explain(path, &error))? {
        FileOwner::Photofinish => {}
        FileOwner::None => return Err(OpenError::Empty { path: path.into() }),
        FileOwner::Other => return Err(OpenError::Foreign { path: path.into() }),
    }
    if lacks_migrations(path, connection)? { Err(OpenError::Older { path: path.into() }) } else { Ok(()) }
}

/// Whether a file of the gateway lacks migrations.
///
/// # Errors
/// It has others.
fn lacks_migrations(path: &Path, connection: &Connection) -> Result<bool, OpenError> {
    match Edition::of(migrator(), &entered(connection).map_err(|error| explain_own(path, &error))?) {
        Edition::Current => Ok(false),
        Edition::Older => Ok(true),
        Edition::Newer(version) => Err(OpenError::Newer { path: path.into(), version }),
        Edition::Other => Err(OpenError::Unreleased { path: path.into() }),
    }
}

/// The migrations of a file.
fn entered(connection: &Connection) -> rusqlite::Result<Vec<(i64, Vec<u8>)>> {
    if !connection.table_exists(None, "_sqlx_migrations")? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare("SELECT version, checksum FROM _sqlx_migrations ORDER BY version")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn explain_read(path: &Path, error: &rusqlite::Error) -> OpenError {
    for_reading(explain(path, error))
}

/// Removes advice about creating directories or writing, which a reader does not need.
fn for_reading(error: OpenError) -> OpenError {
    match error {
        OpenError::Unusable { path, reason } | OpenError::Disk { path, reason } => {
            OpenError::Unreadable { path, reason }
        }
        error => error,
    }
}

/// [`explain`] for a file of the gateway.
fn explain_own(path: &Path, error: &rusqlite::Error) -> OpenError {
    match explain(path, error) {
        OpenError::NotADatabase { path } => OpenError::Damaged { path, reason: error.to_string() },
        error => error,
    }
}

fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, SystemIoFailure};
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        _ if of_file(error) == Some(Symptom::Unreadable) => OpenError::Failing { path, reason: error.to_string() },
        Some(NotADatabase | DatabaseCorrupt) => OpenError::NotADatabase { path },
        Some(DatabaseBusy | DatabaseLocked) => OpenError::Locked { path },
        Some(DiskFull | SystemIoFailure) => OpenError::Disk { path, reason: error.to_string() },
        _ => OpenError::Unusable { path, reason: error.to_string() },
    }
}

/// SQLite gives its `-wal` and `-shm` files the mode of this one. An existing file is not opened: closing it would drop
/// the locks of other connections of this process.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    match open.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

enum FileOwner {
    /// No table yet.
    None,
    Photofinish,
    Other,
}

fn owner(connection: &Connection) -> rusqlite::Result<FileOwner> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    // In this order: another process may just have made the tables.
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    Ok(match (number("PRAGMA application_id")?, tables) {
        (id, _) if id == i64::from(PHOTOFINISH) => FileOwner::Photofinish,
        (0, 0) => FileOwner::None,
        _ => FileOwner::Other,
    })
}

fn explain_io(path: &Path, error: &std::io::Error) -> OpenError {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let (path, reason) = (path.to_path_buf(), error.to_string());
    match error.kind() {
        StorageFull | QuotaExceeded => OpenError::Disk { path, reason },
        _ => OpenError::Unusable { path, reason },
    }
}

fn explain_migration(path: &Path, error: &MigrateError) -> OpenError {
    match error {
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => match result_code(cause) {
            Some(code) => {
                let error = rusqlite::ffi::Error::new(code);
                explain_own(path, &rusqlite::Error::SqliteFailure(error, Some(cause.to_string())))
            }
            None => OpenError::Unusable { path: path.into(), reason: cause.to_string() },
        },
        error => OpenError::Unusable { path: path.into(), reason: error.to_string() },
    }
}

/// SQLite's extended result code. <https://www.sqlite.org/rescode.html>
fn result_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}
