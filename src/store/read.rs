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
#[derive(Clone, Debug, Default)]
pub struct AttemptFilter {
    /// Of races that began at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// The model that was asked for.
    pub model: Option<String>,
    pub provider: Option<String>,
}

/// What the statistics need of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptSample {
    pub upstream: String,
    /// The stored name of an `AttemptOutcome`.
    pub outcome: String,
    /// How long the first token took, or (`ttft_event` 0) for how long there was none; milliseconds.
    pub ttft_obs_ms: Option<f64>,
    pub ttft_event: Option<i64>,
    /// Milliseconds for each token after the first.
    pub tpot_ms: Option<f64>,
    /// Tokens per second, decode.
    pub tok_s: Option<f64>,
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
            .bind(filter.since.map(first_race_id).unwrap_or_default())
            .bind(filter.model.as_deref())
            .bind(filter.provider.as_deref())
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

/// `race_id` bounds the time, so that the primary key is searched and nothing before it is read.
pub(super) const ATTEMPTS: &str = "\
    SELECT upstream, outcome, ttft_obs_ms, ttft_event, tpot_ms, tok_s FROM attempt_speed \
    WHERE race_id >= ?1 AND (?2 IS NULL OR model = ?2) AND (?3 IS NULL OR provider = ?3) \
    ORDER BY race_id DESC LIMIT ?4";

/// The smallest text that a UUID v7 made at this time can begin with.
pub(super) fn first_race_id(since_us: i64) -> String {
    let ms = since_us.max(0) / 1_000;
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

fn sample(row: &sqlx::sqlite::SqliteRow) -> Result<AttemptSample, sqlx::Error> {
    Ok(AttemptSample {
        upstream: row.try_get(0)?,
        outcome: row.try_get(1)?,
        ttft_obs_ms: row.try_get(2)?,
        ttft_event: row.try_get(3)?,
        tpot_ms: row.try_get(4)?,
        tok_s: row.try_get(5)?,
    })
}
