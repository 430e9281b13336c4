//! Reads the attempts of probes, for the report.
//!
//! Not for the figures of clients: see `scan`.

use super::columns::{RowReader, select};
use super::races::BEHIND_ALL;
use super::reader::{ReadError, StoreReader};
use super::scan::fill_decoding;
use super::source_filter::SourceFilter;
use super::times::first_race_id;
use crate::history::RaceRecord;
use crate::history::cost::Cost;
use crate::history::facts::{AttemptRow, MeasuredAttempt};
use crate::history::speed::Decoding;
use crate::history::table::subset;

subset! {
    /// Columns of a probe's race.
    pub ProbeRow of RaceRecord {
        started_at: i64,
        model: String,
        workload: Option<String>,
        max_tokens: Option<i64>,
        n_choices: Option<i64>,
    }
}

fn of_probes() -> String {
    let columns = [select::<ProbeRow>(), select::<AttemptRow>(), select::<Cost>(), select::<Decoding>()].join(", ");
    format!(
        "SELECT {columns} FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id \
         WHERE {} AND race.race_id >= ?1 AND race.race_id < ?2 ORDER BY race.race_id",
        SourceFilter::Probe.condition()
    )
}

impl StoreReader {
    /// Passes each probe to `each`, oldest first: its race, and its attempt unless none was started. Times are microseconds
    /// since 1970, UTC.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn each_probe(
        &self,
        (since, until): (i64, Option<i64>),
        mut each: impl FnMut(&ProbeRow, Option<&MeasuredAttempt>),
    ) -> Result<(), ReadError> {
        let until = until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
        self.ask(|connection| {
            let mut statement = connection.prepare(&of_probes())?;
            let mut rows = statement.query([first_race_id(since), until])?;
            let (mut probe, mut attempt) = (ProbeRow::default(), MeasuredAttempt::default());
            while let Some(row) = rows.next()? {
                let mut cells = RowReader::new(row);
                cells.fill(&mut probe)?;
                cells.fill(&mut attempt.row)?;
                cells.fill(&mut attempt.cost)?;
                fill_decoding(&mut attempt, &mut cells)?;
                each(&probe, (!attempt.row.provider.is_empty()).then_some(&attempt));
            }
            Ok(())
        })
    }
}
