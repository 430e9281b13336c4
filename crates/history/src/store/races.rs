//! Reads rows as they are stored: pages of races, and one race with its attempts. Figures come from the views.
//!
//! Not for groups or quantiles: see `reader`.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::store::columns::{self, first_race_id, whole};
use crate::store::database::{Connection, Id, Result, Value as Parameter, params};
use crate::store::reader::{ReadError, StoreReader};
use crate::store::selection::{AttemptFilter, SourceFilter};
use photofinish_config::names::names;
use photofinish_facts::record::table::{Table, json};
use photofinish_facts::record::{AttemptRecord, LeftOutReason, RaceOutcome, RaceRecord, left_out};

/// A row by column name, in the order of the columns. Values as they are stored.
pub type ExportRow = Map<String, Value>;

/// The selected races: all conditions that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct RaceFilter {
    /// Their time, model, user, team and source; with an attempt at this provider.
    pub races: AttemptFilter,
    /// With an attempt at this provider and model.
    pub upstream: Option<(String, String)>,
    pub outcome: Option<RaceOutcome>,
    /// Whose time took longer: to the first token where that decides the order, else to the end; microseconds.
    pub longer_us: Option<i64>,
    /// The race's, or a provider's id of one of its answers: then the newest race of the window that has it.
    pub id: Option<String>,
    pub order: RaceOrder,
    /// With a smaller id than this.
    pub before: Option<String>,
    /// At most this many, the first in this order.
    pub limit: usize,
}

names! {
    /// Which races come first.
    pub enum RaceOrder or Newest {
        /// The newest, page by page.
        Newest = "newest",
        /// The longest times to the client's first token.
        Ttft = "ttft",
        /// The longest times to the end of the answer.
        Duration = "duration",
    }
}

/// Figures of a race, after its columns: the winner's and its tokens, and the cost of all attempts.
const FIGURES: &str = "speed.upstream, speed.client_ttft_ms, speed.overhead_ms, speed.duration_ms, \
    (SELECT input_tokens FROM attempt WHERE attempt.race_id = race.race_id AND ordinal = race.winner) AS input_tokens, \
    (SELECT output_tokens FROM attempt WHERE attempt.race_id = race.race_id AND ordinal = race.winner) AS output_tokens, \
    (SELECT sum(cost_usd_min) FROM attempt WHERE attempt.race_id = race.race_id) AS cost_usd_min, \
    (SELECT CASE WHEN count(cost_usd_max) = count(*) THEN sum(cost_usd_max) END FROM attempt WHERE attempt.race_id = race.race_id) \
        AS cost_usd_max";

/// Newest first by the primary key, or by the index of this source or of races that are not `ok`, so that a page reads only what it
/// needs. In the other orders all of the window are read; for a provider's id what is newer than the answer.
pub(super) fn page(filter: &RaceFilter) -> String {
    let (source, outcome) = (filter.races.source, filter.outcome);
    let is_rare = outcome.is_some_and(|outcome| outcome != RaceOutcome::Ok) && !source.is_apart();
    let rare = if is_rare { "race.outcome <> 'ok'" } else { "true" };
    let time = if filter.order == RaceOrder::Ttft { "race.first_token_sent_us" } else { "race.done_us" };
    let (ordered, order) = match filter.order {
        RaceOrder::Newest => ("true".to_owned(), String::new()),
        RaceOrder::Ttft | RaceOrder::Duration => (format!("{time} IS NOT NULL"), format!("{time} DESC, ")),
    };
    let longer =
        if filter.longer_us.is_some() { format!("{time} > ?10") } else { "CAST(?10 AS BIGINT) IS NULL".to_owned() };
    let of_id = match &filter.id {
        Some(id) if is_race_id(id) => "race.race_id = ?11",
        // Newest first, to the first hit.
        Some(_) => {
            "race.race_id = (SELECT race_id FROM attempt WHERE response_id = ?11 AND race_id >= ?1 AND race_id < ?2 \
             ORDER BY race_id DESC LIMIT 1)"
        }
        None => "CAST(?11 AS TEXT) IS NULL",
    };
    format!(
        "SELECT {}, {FIGURES} \
         FROM race JOIN race_speed_all AS speed ON speed.race_id = race.race_id \
         WHERE {} AND {rare} AND {ordered} AND {longer} AND {of_id} AND race.race_id >= ?1 AND race.race_id < ?2 \
           AND (CAST(?3 AS TEXT) IS NULL OR race.model = ?3) AND (CAST(?4 AS TEXT) IS NULL OR race.caller = ?4) AND {} \
           AND (CAST(?12 AS TEXT) IS NULL OR race.team = ?12) \
           AND (CAST(?6 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM attempt WHERE attempt.race_id = race.race_id AND provider = ?6)) \
           AND (CAST(?7 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM attempt WHERE attempt.race_id = race.race_id AND provider = ?7 \
                                                                  AND model_sent = ?8)) \
         ORDER BY {order}race.race_id DESC LIMIT ?9",
        whole::<RaceRecord>(),
        source.condition(),
        if outcome.is_some() { "race.outcome = ?5" } else { "CAST(?5 AS TEXT) IS NULL" },
    )
}

fn is_race_id(id: &str) -> bool {
    uuid::Uuid::try_parse(id).is_ok()
}

pub(super) static RACE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, {FIGURES} \
         FROM race JOIN race_speed_all AS speed ON speed.race_id = race.race_id WHERE race.race_id = ?1",
        whole::<RaceRecord>()
    )
});

pub(super) static ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, speed.upstream, speed.ttft_ms, speed.tpot_ms, speed.tok_s \
         FROM attempt JOIN attempt_speed_all AS speed \
              ON speed.race_id = attempt.race_id AND speed.ordinal = attempt.ordinal \
         WHERE attempt.race_id = ?1 ORDER BY attempt.ordinal",
        whole::<AttemptRecord>()
    )
});

/// All rows of a table, by its primary key or by the index of this source.
fn all_attempts(source: SourceFilter) -> String {
    let (attempts, condition) = source.attempts();
    let id = if source.is_apart() { "race.race_id" } else { "attempt.race_id" };
    format!(
        "SELECT {} FROM {attempts} \
         WHERE {condition} AND {id} >= ?1 AND {id} < ?2 AND (CAST(?3 AS TEXT) IS NULL OR race.model = ?3) \
           AND (CAST(?4 AS TEXT) IS NULL OR race.caller = ?4) AND (CAST(?5 AS TEXT) IS NULL OR attempt.provider = ?5) \
           AND (CAST(?6 AS TEXT) IS NULL OR race.team = ?6) \
         ORDER BY {id}, attempt.ordinal",
        whole::<AttemptRecord>()
    )
}

fn all_races(source: SourceFilter) -> String {
    format!(
        "SELECT {} FROM race \
         WHERE {} AND race_id >= ?1 AND race_id < ?2 AND (CAST(?3 AS TEXT) IS NULL OR model = ?3) \
           AND (CAST(?4 AS TEXT) IS NULL OR caller = ?4) AND (CAST(?6 AS TEXT) IS NULL OR team = ?6) \
           AND (CAST(?5 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM attempt WHERE attempt.race_id = race.race_id AND provider = ?5)) \
         ORDER BY race_id",
        whole::<RaceRecord>(),
        source.condition()
    )
}

/// By the text of the column, since the same upstreams are left out again and again.
fn left_out_texts(source: SourceFilter) -> String {
    format!(
        "SELECT left_out, count(*) FROM race WHERE {} AND race_id >= ?1 AND race_id < ?2 AND left_out IS NOT NULL \
           AND (CAST(?3 AS TEXT) IS NULL OR model = ?3) AND (CAST(?4 AS TEXT) IS NULL OR caller = ?4) \
           AND (CAST(?5 AS TEXT) IS NULL OR team = ?5) GROUP BY left_out",
        source.condition()
    )
}

/// Sorts after every id.
pub(super) const BEHIND_ALL: &str = "~";

impl StoreReader {
    /// In the order of the filter.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn races(&self, filter: &RaceFilter) -> Result<Vec<ExportRow>, ReadError> {
        let races = &filter.races;
        let until = races.until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
        let behind = filter.before.iter().fold(until, |until, before| until.min(before.clone()));
        let (provider, model) = filter.upstream.clone().unzip();
        let since = first_race_id(races.since.unwrap_or(0));
        let id = match filter.id.as_deref() {
            Some(id) if is_race_id(id) => Parameter::from(Id(id)),
            id => Parameter::from(id),
        };
        let parameters = params![
            Id(&since),
            Id(&behind),
            races.model.as_deref(),
            races.user.as_deref(),
            filter.outcome.map(RaceOutcome::as_str),
            races.provider.as_deref(),
            provider.as_deref(),
            model.as_deref(),
            filter.limit,
            filter.longer_us,
            id,
            races.team.as_deref(),
        ];
        self.ask(|connection| rows(connection, &page(filter), parameters))
    }

    /// The race and its attempts, as far as they are written.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn race(&self, race_id: &str) -> Result<(Option<ExportRow>, Vec<ExportRow>), ReadError> {
        self.ask(|connection| {
            // Both come from one snapshot.
            let state = connection.snapshot()?;
            let race = rows(&state, &RACE, params![Id(race_id)])?.pop();
            Ok((race, rows(&state, &ATTEMPTS, params![Id(race_id)])?))
        })
    }

    /// How often each reason kept an upstream out of the races of the filter, as far back as rows are kept; the most
    /// frequent first.
    ///
    /// # Errors
    /// When it takes too long, or the file cannot be read.
    pub fn left_out(&self, filter: &AttemptFilter) -> Result<Vec<(LeftOutReason, u64)>, ReadError> {
        let (since, until) = bounds(filter);
        let (model, user, team) = (filter.model.as_deref(), filter.user.as_deref(), filter.team.as_deref());
        let parameters = params![Id(&since), Id(&until), model, user, team];
        let mut counts = LeftOutReason::ALL.iter().map(|reason| (*reason, 0)).collect::<Vec<_>>();
        self.ask(|connection| {
            let mut statement = connection.prepare(&left_out_texts(filter.source))?;
            let mut rows = statement.query(parameters)?;
            while let Some(row) = rows.next()? {
                let (text, races): (&str, u64) = (row.get(0)?, row.get(1)?);
                left_out::reasons(text).for_each(|reason| counts[reason as usize].1 += races);
            }
            Ok(())
        })?;
        counts.retain(|(_, count)| *count > 0);
        counts.sort_by_key(|(_, count)| Reverse(*count));
        Ok(counts)
    }

    /// Passes every row of a table whose race matches the filter to `each`, oldest first, until it breaks.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn rows<T: Table>(
        &self,
        filter: &AttemptFilter,
        each: impl FnMut(ExportRow) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let (since, until) = bounds(filter);
        let (model, user, provider) = (filter.model.as_deref(), filter.user.as_deref(), filter.provider.as_deref());
        let parameters = params![Id(&since), Id(&until), model, user, provider, filter.team.as_deref()];
        let sql = if T::NAME == RaceRecord::NAME { all_races(filter.source) } else { all_attempts(filter.source) };
        self.ask(|connection| each_row(connection, &sql, parameters, each))
    }
}

/// The ids that the races of a filter are between.
fn bounds(filter: &AttemptFilter) -> (String, String) {
    let until = filter.until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
    (first_race_id(filter.since.unwrap_or(0)), until)
}

pub(super) fn rows(connection: &Connection<'_>, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<ExportRow>> {
    let mut rows = Vec::new();
    each_row(connection, sql, parameters, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

pub(super) fn each_row(
    connection: &Connection<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
    mut each: impl FnMut(ExportRow) -> ControlFlow<()>,
) -> Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut found = statement.query(parameters)?;
    let mut names = Vec::new();
    while let Some(row) = found.next()? {
        if names.is_empty() {
            names = row.names().iter().map(|name| columns::shown(name).to_owned()).collect();
        }
        let named = |(at, name): (usize, &String)| Ok((name.clone(), json(row.cell(at)?)));
        if each(names.iter().enumerate().map(named).collect::<Result<ExportRow>>()?).is_break() {
            break;
        }
    }
    Ok(())
}
