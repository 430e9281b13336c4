//! A connection to a Postgres server for a thread that may block. Each wait ends at the deadline, or when the caller stops it; then the
//! connection is closed, and the server ends the statement by its own time limit.
//!
//! Statements are not kept by name: a pooler in front of the server may give each transaction another connection of its own, and a plan
//! that was made before a migration would fail.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::vec;

use secrecy::ExposeSecret as _;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnectOptions, PgConnection, PgRow, PgTypeInfo};
use sqlx::{Arguments as _, AssertSqlSafe, ConnectOptions as _, Encode, Executor as _, Postgres, Type};

use crate::store::database::decoded::{DecodedRow, oid};
use crate::store::database::error::PostgresError;
use crate::store::database::waiting::wait;
use crate::store::value::{Kind, Value};
use photofinish_config::PostgresServer;

/// How a transaction begins that only reads. Cursors are planned for all of their rows.
pub(in crate::store) const READING: &str = "\
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '30s'; SET LOCAL cursor_tuple_fraction = 1; SET LOCAL jit = off";

/// How one begins that writes.
pub(in crate::store) const WRITING: &str = "BEGIN; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '2s'";

/// How long a connection to Postgres may take to be made, and a statement of a writer.
const WAIT_FOR: Duration = Duration::from_secs(5);

type Stop = Box<dyn Fn() -> bool + Send>;

pub(in crate::store) struct PostgresSession {
    server: Arc<PostgresServer>,
    /// None: it has failed.
    connection: RefCell<Option<PgConnection>>,
    is_in_transaction: Cell<bool>,
    /// Cursors that were opened.
    cursors: Cell<u64>,
    /// None: each call has [`WAIT_FOR`].
    deadline: Cell<Option<Instant>>,
    stop: RefCell<Option<Stop>>,
}

impl PostgresSession {
    pub fn connect(server: &Arc<PostgresServer>) -> Result<PostgresSession, PostgresError> {
        let options = options(server)?;
        let until = Instant::now() + WAIT_FOR;
        let late = || (Instant::now() >= until).then_some(PostgresError::TimeLimit);
        let connection = wait(async { options.connect().await.map_err(PostgresError::from) }, late)?;
        Ok(PostgresSession::over(server.clone(), connection))
    }

    /// One that was used a moment ago, which may be broken by now.
    pub fn idle(server: &Arc<PostgresServer>) -> Option<PostgresSession> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|one| one.since.elapsed() < IDLE_FOR);
        let at = idle.iter().position(|one| one.server == *server)?;
        idle.remove(at).map(|one| PostgresSession::over(one.server, one.connection))
    }

    fn over(server: Arc<PostgresServer>, connection: PgConnection) -> PostgresSession {
        PostgresSession {
            server,
            connection: RefCell::new(Some(connection)),
            is_in_transaction: Cell::new(false),
            cursors: Cell::new(0),
            deadline: Cell::new(None),
            stop: RefCell::new(None),
        }
    }

    /// From now on nothing is waited for after the deadline, or once `stop` says so.
    pub fn limit(&self, deadline: Option<Instant>, stop: impl Fn() -> bool + Send + 'static) {
        self.deadline.set(deadline);
        *self.stop.borrow_mut() = Some(Box::new(stop));
    }

    /// From now on nothing is waited for after the deadline.
    pub fn wait_until(&self, deadline: Instant) {
        self.deadline.set(Some(deadline));
    }

    /// Each call has its usual time again.
    pub fn unlimited(&self) {
        self.deadline.set(None);
    }

    /// Whether it can be used.
    pub fn is_sound(&self) -> bool {
        self.connection.borrow().is_some() && !self.is_in_transaction.get()
    }

    /// False: a transaction has begun already.
    pub fn begin(&self, text: &str) -> Result<bool, PostgresError> {
        if self.is_in_transaction.get() {
            return Ok(false);
        }
        self.batch(text)?;
        self.is_in_transaction.set(true);
        Ok(true)
    }

    pub fn end(&self, text: &str) -> Result<(), PostgresError> {
        self.is_in_transaction.set(false);
        self.batch(text)
    }

    /// Statements without parameters and without an answer.
    pub fn batch(&self, sql: &str) -> Result<(), PostgresError> {
        self.run(async |connection| connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.map(drop))
    }

    pub fn execute(&self, sql: &str, parameters: &[Value<'_>]) -> Result<usize, PostgresError> {
        let arguments = arguments(parameters)?;
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments).persistent(false);
        let done = self.in_transaction(|| self.run(async |connection| query.execute(connection).await))?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    /// A statement with parameters takes two exchanges with the server. Between them a pooler may take another server, unless a
    /// transaction has begun.
    fn in_transaction<T>(&self, run: impl FnOnce() -> Result<T, PostgresError>) -> Result<T, PostgresError> {
        let is_own = self.begin("BEGIN")?;
        let done = run();
        if is_own && self.connection.borrow().is_some() {
            self.end(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        }
        done
    }

    pub fn query(&self, sql: &str, parameters: &[Value<'_>]) -> Result<CursorRows<'_>, PostgresError> {
        self.cursors.set(self.cursors.get() + 1);
        let cursor = format!("piece_{}", self.cursors.get());
        self.execute(&format!("DECLARE {cursor} BINARY NO SCROLL CURSOR FOR {sql}"), parameters)?;
        Ok(CursorRows::new(self, Some(cursor), Vec::new()))
    }

    pub fn query_few(&self, sql: &str, parameters: &[Value<'_>]) -> Result<CursorRows<'_>, PostgresError> {
        Ok(CursorRows::new(self, None, self.fetch(sql, parameters)?))
    }

    pub(in crate::store) fn fetch(&self, sql: &str, parameters: &[Value<'_>]) -> Result<Vec<PgRow>, PostgresError> {
        let arguments = arguments(parameters)?;
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments).persistent(false);
        self.in_transaction(|| self.run(async |connection| query.fetch_all(connection).await))
    }

    /// Sends rows in the binary form of `COPY`.
    pub fn copy(&self, statement: &str, rows: &[u8]) -> Result<(), PostgresError> {
        self.run(async |connection| {
            let mut copy = connection.copy_in_raw(statement).await?;
            copy.send(rows).await?;
            copy.finish().await.map(drop)
        })
    }

    pub(in crate::store) fn run<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, PostgresError> {
        let mut slot = self.connection.borrow_mut();
        // It is put back only if it can be used again.
        let mut connection = slot.take().ok_or_else(|| PostgresError::Lost("it was closed".to_owned()))?;
        let until = self.deadline.get().unwrap_or_else(|| Instant::now() + WAIT_FOR);
        let stop = self.stop.borrow();
        let stops = || match &*stop {
            Some(stop) if stop() => Some(PostgresError::Stopped),
            _ => (Instant::now() >= until).then_some(PostgresError::TimeLimit),
        };
        let done = match stops() {
            Some(error) => Err(error),
            None => wait(async { work(&mut connection).await.map_err(PostgresError::from) }, stops),
        };
        if !done.as_ref().is_err_and(PostgresError::ends_connection) {
            *slot = Some(connection);
        }
        done
    }
}

/// Rows that are sent at once: their cells take about a megabyte.
const PIECE: usize = 2_000;

/// The rows of a query, one after the other.
pub(in crate::store) struct CursorRows<'s> {
    session: &'s PostgresSession,
    /// None: there are no more than those of `piece`.
    cursor: Option<String>,
    piece: vec::IntoIter<PgRow>,
    current: DecodedRow,
}

impl<'s> CursorRows<'s> {
    pub(in crate::store) fn new(
        session: &'s PostgresSession,
        cursor: Option<String>,
        piece: Vec<PgRow>,
    ) -> CursorRows<'s> {
        CursorRows { session, cursor, piece: piece.into_iter(), current: DecodedRow::default() }
    }

    pub fn next(&mut self) -> Result<Option<&DecodedRow>, PostgresError> {
        if self.piece.len() == 0
            && let Some(cursor) = &self.cursor
        {
            // One exchange, as it has no parameters; the cursor sends the binary form.
            let fetch = sqlx::raw_sql(AssertSqlSafe(format!("FETCH {PIECE} FROM {cursor}")));
            let piece = self.session.run(async |connection| connection.fetch_all(fetch).await)?;
            if piece.len() < PIECE {
                self.cursor = None;
            }
            self.piece = piece.into_iter();
        }
        let Some(row) = self.piece.next() else { return Ok(None) };
        self.current.fill(&row)?;
        Ok(Some(&self.current))
    }
}

/// Idle connections. A page of the dashboard asks several questions, each over its own; making one takes ten milliseconds.
static IDLE: Mutex<VecDeque<IdleSession>> = Mutex::new(VecDeque::new());

struct IdleSession {
    server: Arc<PostgresServer>,
    connection: PgConnection,
    since: Instant,
}

/// Connections to Postgres that are kept idle.
const IDLE_MAX: usize = 3;
/// How long they are kept.
const IDLE_FOR: Duration = Duration::from_secs(30);

impl Drop for PostgresSession {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| !self.is_in_transaction.get()) {
            let one = IdleSession { server: self.server.clone(), connection, since: Instant::now() };
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push_back(one);
            if idle.len() > IDLE_MAX {
                idle.pop_front();
            }
        }
    }
}

fn options(server: &PostgresServer) -> Result<PgConnectOptions, PostgresError> {
    let options: PgConnectOptions = server.url.whole().expose_secret().parse()?;
    Ok(options
        .application_name("photofinish")
        .extra_float_digits(None)
        .statement_cache_capacity(0)
        .disable_statement_logging())
}

fn arguments(parameters: &[Value<'_>]) -> Result<PgArguments, PostgresError> {
    let mut arguments = PgArguments::default();
    for parameter in parameters {
        arguments.add(*parameter).map_err(|error| PostgresError::Settings(error.to_string()))?;
    }
    Ok(arguments)
}

impl Type<Postgres> for Value<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(oid::TEXT))
    }

    fn compatible(_: &PgTypeInfo) -> bool {
        true
    }
}

impl Encode<'_, Postgres> for Value<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match self {
            Value::Null(_) => return Ok(IsNull::Yes),
            Value::Integer(value) => buffer.extend_from_slice(&value.to_be_bytes()),
            Value::Real(value) => buffer.extend_from_slice(&value.to_be_bytes()),
            Value::Text(value) => buffer.extend_from_slice(without_nul(value).as_bytes()),
            Value::Blob(value) => buffer.extend_from_slice(value),
            Value::Id(value) => buffer.extend_from_slice(&bound(value)),
        }
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        let oid = match self {
            Value::Integer(_) | Value::Null(Kind::Integer) => oid::INT8,
            Value::Real(_) | Value::Null(Kind::Real) => oid::FLOAT8,
            Value::Text(_) | Value::Null(Kind::Text) => oid::TEXT,
            Value::Blob(_) | Value::Null(Kind::Blob) => oid::BYTEA,
            Value::Id(_) => oid::UUID,
        };
        Some(PgTypeInfo::with_oid(Oid(oid)))
    }
}

/// Postgres has no text with a zero byte.
pub(in crate::store) fn without_nul(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// The id that a text means where ids are compared: the smallest that begins so, or for [`crate::store::races::BEHIND_ALL`] the largest.
fn bound(text: &str) -> [u8; 16] {
    let mut id = [0; 16];
    if text.starts_with('~') {
        return [0xff; 16];
    }
    let digits = text.chars().filter(|letter| *letter != '-').map_while(|letter| letter.to_digit(16)).take(32);
    for (at, digit) in digits.enumerate() {
        if let Some(byte) = id.get_mut(at / 2) {
            *byte |= (digit as u8) << if at % 2 == 0 { 4 } else { 0 };
        }
    }
    id
}

/// The bytes of a UUID. None: the text is none.
pub(in crate::store) fn uuid(text: &str) -> Option<[u8; 16]> {
    uuid::Uuid::try_parse(text).ok().map(uuid::Uuid::into_bytes)
}
