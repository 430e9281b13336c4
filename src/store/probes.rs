//! Reads which probes ran, so that a restart repeats none and keeps the cap of the day.

use super::reader::{ReadError, StoreReader};
use super::times::first_race_id;

/// The condition on `<>` lets it search the index of what is not of clients.
const QUERY: &str = "\
    SELECT race.model, coalesce(race.workload, ''), attempt.provider || '/' || attempt.model_sent, race.started_at, \
           race.started_at + race.scheduled_us, coalesce(attempt.cost_usd_max, 0), \
           coalesce(attempt.input_tokens, 0) + coalesce(attempt.output_tokens, 0) \
    FROM race JOIN attempt ON attempt.race_id = race.race_id \
    WHERE race.source <> 'client' AND race.source = 'probe' AND race.race_id >= ?1 ORDER BY race.race_id";

/// A request of a probe that has a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedProbe {
    pub model: String,
    pub workload: String,
    /// `provider/model`
    pub upstream: String,
    /// Microseconds since 1970, UTC.
    pub started_at: i64,
    /// When it was to leave; null for a ping.
    pub scheduled_at: Option<i64>,
    /// USD at most; 0 if unknown.
    pub cost_usd: f64,
    /// In and out; 0 if unknown.
    pub tokens: i64,
}

impl StoreReader {
    /// The requests of probes that began at this time or later, in microseconds since 1970, UTC; oldest first.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn probes(&self, since: i64) -> Result<Vec<RecordedProbe>, ReadError> {
        self.ask(|connection| {
            let mut statement = connection.prepare(QUERY)?;
            let rows = statement.query_map([first_race_id(since)], |row| {
                Ok(RecordedProbe {
                    model: row.get(0)?,
                    workload: row.get(1)?,
                    upstream: row.get(2)?,
                    started_at: row.get(3)?,
                    scheduled_at: row.get(4)?,
                    cost_usd: row.get(5)?,
                    tokens: row.get(6)?,
                })
            })?;
            rows.collect()
        })
    }
}
