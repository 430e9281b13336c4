//! Reads the requests of probes: for the report, and for what a gateway must know of earlier ones.
//!
//! Not for the figures of clients: see `scan`.

use crate::store::columns::{RowReader, first_race_id, select};
use crate::store::database::{Id, params};
use crate::store::races::BEHIND_ALL;
use crate::store::reader::{ReadError, StoreReader};
use crate::store::scan::fill_decoding;
use crate::store::selection::SourceFilter;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::facts::{AttemptRow, MeasuredAttempt};
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::table::subset;
use photofinish_facts::record::{AttemptRecord, RaceRecord};

subset! {
    /// Columns of a probe's race.
    pub ProbeRow of RaceRecord {
        started_at: i64,
        model: String,
        workload: Option<String>,
        /// Null for a ping, and for a probe by hand.
        scheduled_us: Option<i64>,
        max_tokens: Option<i64>,
        n_choices: Option<i64>,
        input_tokens_estimate: i64,
    }
}

subset! {
    /// The length of a prompt, as its provider counts it.
    pub PromptLength of AttemptRecord {
        input_tokens: Option<i64>,
    }
}

/// One request of a probe: its race and its attempt.
#[derive(Debug, Default)]
pub struct RecordedProbe {
    pub race: ProbeRow,
    attempt: MeasuredAttempt,
    prompt: PromptLength,
}

impl RecordedProbe {
    /// None: none was started.
    pub fn attempt(&self) -> Option<&MeasuredAttempt> {
        (!self.attempt.row.provider.is_empty()).then_some(&self.attempt)
    }

    /// `provider/model`
    pub fn upstream(&self) -> String {
        format!("{}/{}", self.attempt.row.provider, self.attempt.row.model_sent)
    }

    /// Tokens in and out, as its provider counts them.
    pub fn counted(&self) -> (Option<i64>, Option<i64>) {
        (self.prompt.input_tokens, self.attempt.decoding.tokens_out())
    }
}

fn of_probes() -> String {
    let columns = [
        select::<ProbeRow>(),
        select::<AttemptRow>(),
        select::<Cost>(),
        select::<PromptLength>(),
        select::<Decoding>(),
    ];
    format!(
        "SELECT {} FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id \
         WHERE {} AND coalesce(race.workload, '') NOT LIKE 'verify:%' AND race.race_id >= ?1 AND race.race_id < ?2 ORDER BY race.race_id",
        columns.join(", "),
        SourceFilter::Probe.condition()
    )
}

impl StoreReader {
    /// Passes each request of a probe to `each`, oldest first; not those of `photofinish verify`. Times are microseconds since 1970, UTC.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn each_probe(
        &self,
        (since, until): (i64, Option<i64>),
        mut each: impl FnMut(&RecordedProbe),
    ) -> Result<(), ReadError> {
        let until = until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
        self.ask(|connection| {
            let mut statement = connection.prepare(&of_probes())?;
            let mut rows = statement.query(params![Id(&first_race_id(since)), Id(&until)])?;
            let mut probe = RecordedProbe::default();
            while let Some(row) = rows.next()? {
                let mut cells = RowReader::new(row);
                cells.fill(&mut probe.race)?;
                cells.fill(&mut probe.attempt.row)?;
                cells.fill(&mut probe.attempt.cost)?;
                cells.fill(&mut probe.prompt)?;
                fill_decoding(&mut probe.attempt, &mut cells)?;
                each(&probe);
            }
            Ok(())
        })
    }
}
