//! Reads incidents. Not for finding them: see `estimate::incident`.

use crate::store::columns::{RowReader, select};
use crate::store::database::params;
use crate::store::reader::{ReadError, StoreReader};
use photofinish_facts::record::IncidentRecord;

/// The selected incidents: all conditions that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct IncidentFilter {
    /// Open, or not over at this time; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Begun before; microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// Those of the gateway are of every provider.
    pub provider: Option<String>,
    /// At most this many, the newest.
    pub limit: usize,
}

impl StoreReader {
    /// Newest first.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn incidents(&self, filter: &IncidentFilter) -> Result<Vec<IncidentRecord>, ReadError> {
        let sql = format!(
            "SELECT {} FROM incident \
             WHERE began_at < ?2 AND (state = 'open' OR coalesce(ended_at, last_at) >= ?1) \
               AND (CAST(?3 AS TEXT) IS NULL OR upstream IS NULL OR substr(upstream, 1, length(?3) + 1) = ?3 || '/') \
             ORDER BY began_at DESC, incident_id DESC LIMIT ?4",
            select::<IncidentRecord>()
        );
        let (since, until) = (filter.since.unwrap_or(i64::MIN), filter.until.unwrap_or(i64::MAX));
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        self.ask(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query_few(params![since, until, filter.provider.as_deref(), limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let mut record = IncidentRecord::default();
                RowReader::new(row).fill(&mut record)?;
                found.push(record);
            }
            Ok(found)
        })
    }
}
