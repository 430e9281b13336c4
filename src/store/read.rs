//! Reading the history, for commands: on a connection of its own, read-only, with a time limit.
//!
//! Never on a request's path, and not for routing, which keeps what it needs in memory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::code;
use super::open::{self, OpenError};

/// A query may take this long. Dropping one does not interrupt SQLite; this does.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A query reads at most this many attempts, the newest.
pub const ATTEMPTS_MAX: usize = 2_000_000;

/// Virtual machine steps of SQLite between two looks at the clock; well under a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// A read-only connection. Works while a gateway writes to the same file.
pub struct Reader {
    path: PathBuf,
    connection: SqliteConnection,
    pub(super) time_limit: Duration,
}

/// Which attempts are wanted; all that is set must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptFilter {
    /// Of races that began at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Of races that began before this time; microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// The model that was asked for.
    pub model: Option<String>,
    pub provider: Option<String>,
    /// The caller's name under `[users]`.
    pub user: Option<String>,
}

/// What the statistics need of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptSample {
    pub race_id: String,
    /// When its race began, by the id of it, so to the millisecond; microseconds since 1970, UTC.
    pub started_at: i64,
    pub upstream: String,
    /// Other attempts that ran at this upstream at dispatch.
    pub in_flight_upstream: i64,
    /// The stored name of an `AttemptOutcome`.
    pub outcome: String,
    /// How long the first token took, or (`ttft_event` 0) for how long there was none; milliseconds.
    pub ttft_obs_ms: Option<f64>,
    pub ttft_event: Option<i64>,
    /// Milliseconds for each token after the first.
    pub tpot_ms: Option<f64>,
    /// Tokens per second, decode.
    pub tok_s: Option<f64>,
    /// One token, or all of them in one event.
    pub at_once: bool,
    pub cost_usd: Option<f64>,
    /// The stored name of a `CostBasis`.
    pub cost_basis: String,
    /// None while the race's own row is not written yet.
    pub request: Option<RequestSample>,
}

/// What the statistics need of the request that an attempt was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSample {
    pub model: String,
    pub user: Option<String>,
    pub input_tokens_estimate: i64,
    /// The stored name of a `RaceOutcome`.
    pub outcome: String,
    /// First payload byte handed to the client; microseconds since the request was read.
    pub client_ttft_us: Option<i64>,
    /// Whether this attempt served it; none where no attempt did.
    pub served: Option<bool>,
}

/// For the operator.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading {path} took longer than {} s; ask for less, e.g. --since 24h", TIME_LIMIT.as_secs())]
    TimeLimit { path: PathBuf },
    #[error("cannot read {path}: {reason}")]
    Failed { path: PathBuf, reason: String },
}

impl Reader {
    pub(super) async fn open(path: &Path) -> Result<Reader, OpenError> {
        Ok(Reader { path: path.into(), connection: open::readable(path).await?, time_limit: TIME_LIMIT })
    }

    /// Hands each attempt that the filter lets through to `each`, newest race first, at most [`ATTEMPTS_MAX`]. Returns
    /// how many there were.
    pub async fn attempts(
        &mut self,
        filter: &AttemptFilter,
        mut each: impl FnMut(AttemptSample),
    ) -> Result<usize, ReadError> {
        self.limit_time().await.map_err(|error| self.explain(&error))?;
        let query = sqlx::query(ATTEMPTS)
            .bind(first_wanted(filter))
            .bind(first_unwanted(filter))
            .bind(filter.model.as_deref())
            .bind(filter.provider.as_deref())
            .bind(filter.user.as_deref())
            .bind(i64::try_from(ATTEMPTS_MAX).unwrap_or(i64::MAX));
        let mut rows = query.fetch(&mut self.connection);
        let mut count = 0;
        let ended = loop {
            match rows.try_next().await {
                Ok(Some(row)) => match sample(&row) {
                    Ok(sample) => each(sample),
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            count += 1;
        };
        drop(rows);
        ended.map(|()| count).map_err(|error| self.explain(&error))
    }

    /// Requests that no attempt was started for: the gateway rejected them, or every upstream was cooling down. The
    /// filter's provider says nothing about them.
    pub async fn requests_without_attempts(&mut self, filter: &AttemptFilter) -> Result<i64, ReadError> {
        self.limit_time().await.map_err(|error| self.explain(&error))?;
        let query = sqlx::query_scalar(WITHOUT_ATTEMPTS)
            .bind(first_wanted(filter))
            .bind(first_unwanted(filter))
            .bind(filter.model.as_deref())
            .bind(filter.user.as_deref());
        query.fetch_one(&mut self.connection).await.map_err(|error| self.explain(&error))
    }

    pub async fn close(self) {
        // Nothing is lost with a read-only connection, whatever it says at the end.
        let _ = self.connection.close().await;
    }

    async fn limit_time(&mut self) -> Result<(), sqlx::Error> {
        let deadline = Instant::now() + self.time_limit;
        self.connection
            .lock_handle()
            .await?
            .set_progress_handler(STEPS_BETWEEN_LOOKS, move || Instant::now() < deadline);
        Ok(())
    }

    fn explain(&self, error: &sqlx::Error) -> ReadError {
        let path = self.path.clone();
        match code::primary(error) {
            Some(code::INTERRUPT) => ReadError::TimeLimit { path },
            _ => ReadError::Failed { path, reason: error.to_string() },
        }
    }
}

/// `race_id` bounds the time, so that the primary key is searched and nothing before or after it is read.
pub(super) const ATTEMPTS: &str = "\
    SELECT speed.race_id, speed.upstream, facts.in_flight_upstream, speed.outcome, speed.ttft_obs_ms, speed.ttft_event, \
           speed.tpot_ms, speed.tok_s, facts.payload_events = 1 OR facts.output_tokens = 1, facts.cost_usd, \
           facts.cost_basis, race.model, race.user, race.input_tokens_estimate, race.outcome, race.first_token_sent_us, \
           race.winner = speed.ordinal \
    FROM attempt_speed AS speed \
    CROSS JOIN attempt AS facts ON facts.race_id = speed.race_id AND facts.ordinal = speed.ordinal \
    LEFT JOIN race ON race.race_id = speed.race_id \
    WHERE speed.race_id >= ?1 AND speed.race_id < ?2 AND (?3 IS NULL OR speed.model = ?3) \
      AND (?4 IS NULL OR speed.provider = ?4) AND (?5 IS NULL OR race.user = ?5) \
    ORDER BY speed.race_id DESC LIMIT ?6";

const WITHOUT_ATTEMPTS: &str = "\
    SELECT count(*) FROM race WHERE race_id >= ?1 AND race_id < ?2 AND attempts = 0 \
      AND (?3 IS NULL OR model = ?3) AND (?4 IS NULL OR user = ?4)";

fn first_wanted(filter: &AttemptFilter) -> String {
    filter.since.map(first_race_id).unwrap_or_default()
}

fn first_unwanted(filter: &AttemptFilter) -> String {
    // Behind every hexadecimal digit.
    filter.until.map_or_else(|| "~".to_owned(), first_race_id)
}

/// The smallest text that a UUID v7 made at this time can begin with.
pub(super) fn first_race_id(since_us: i64) -> String {
    let ms = since_us.max(0) / 1_000;
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

/// The reverse of [`first_race_id`].
fn began_at(race_id: &str) -> i64 {
    let digits: String = race_id.chars().filter(|c| *c != '-').take(12).collect();
    i64::from_str_radix(&digits, 16).unwrap_or_default() * 1_000
}

fn sample(row: &sqlx::sqlite::SqliteRow) -> Result<AttemptSample, sqlx::Error> {
    let race_id: String = row.try_get(0)?;
    Ok(AttemptSample {
        started_at: began_at(&race_id),
        race_id,
        upstream: row.try_get(1)?,
        in_flight_upstream: row.try_get(2)?,
        outcome: row.try_get(3)?,
        ttft_obs_ms: row.try_get(4)?,
        ttft_event: row.try_get(5)?,
        tpot_ms: row.try_get(6)?,
        tok_s: row.try_get(7)?,
        at_once: row.try_get::<Option<bool>, _>(8)?.unwrap_or(false),
        cost_usd: row.try_get(9)?,
        cost_basis: row.try_get(10)?,
        request: request(row)?,
    })
}

fn request(row: &sqlx::sqlite::SqliteRow) -> Result<Option<RequestSample>, sqlx::Error> {
    let Some(model) = row.try_get(11)? else { return Ok(None) };
    Ok(Some(RequestSample {
        model,
        user: row.try_get(12)?,
        input_tokens_estimate: row.try_get(13)?,
        outcome: row.try_get(14)?,
        client_ttft_us: row.try_get(15)?,
        served: row.try_get(16)?,
    }))
}
