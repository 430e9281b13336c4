//! Reads whole requests with their attempts, oldest first, for learning at start-up and for replay.
//!
//! Not for figures: `scan` reads only their columns.

use std::collections::{BTreeSet, HashMap};

use crate::store::columns::{RowReader, began_at, first_race_id, select};
use crate::store::database::{AnswerRows, Connection, Id, Result, params};
use crate::store::races::BEHIND_ALL;
use crate::store::reader::{ReadError, StoreReader};
use crate::store::scan::fill_decoding;
use crate::store::selection::SourceFilter;
use crate::store::value::Value;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::facts::{AttemptRow, MeasuredAttempt};
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::table::subset;
use photofinish_facts::record::{AttemptRecord, RaceOutcome, RaceRecord, RaceSource};

subset! {
    /// The columns of a race that a recorded request needs.
    RecordedRow of RaceRecord {
        race_id: String,
        model: String,
        policy: Option<String>,
        stream: bool,
        has_tools: bool,
        n_choices: Option<i64>,
        input_tokens_estimate: i64,
        winner: Option<i64>,
        first_token_sent_us: Option<i64>,
        done_us: Option<i64>,
        outcome: RaceOutcome,
        source: RaceSource,
        look: Option<String>,
    }
}

subset! {
    /// Further columns of a recorded attempt.
    EndingColumns of AttemptRecord {
        input_tokens: Option<i64>,
        cached_input_tokens: Option<i64>,
        headers_us: Option<i64>,
        last_token_us: Option<i64>,
        tool_set: Option<i64>,
    }
}

/// Searches the primary keys of both tables.
fn select_recorded(condition: &str) -> String {
    let columns = [
        select::<AttemptRow>(),
        select::<Cost>(),
        select::<EndingColumns>(),
        select::<RecordedRow>(),
        select::<Decoding>(),
    ];
    format!(
        "SELECT {} FROM race CROSS JOIN attempt ON attempt.race_id = race.race_id WHERE {condition}",
        columns.join(", ")
    )
}

const OF_WINDOW: &str = "\
    race.race_id >= ?1 AND race.race_id < ?2 AND (CAST(?3 AS TEXT) IS NULL OR race.model = ?3) ORDER BY race.race_id, ordinal";

/// What a gateway (`?1`) wrote after and up to these places; no older than `?4`. Not of benchmarks.
const ARRIVED: &str = "\
    race.replica = ?1 AND race.arrived > ?2 AND race.arrived <= ?3 AND race.race_id >= ?4 \
    AND coalesce(race.source, 'client') <> 'bench' ORDER BY race.arrived, ordinal";

/// Races that one statement reads: each exchange with a server takes its time.
const RACES_OF_PAGE: usize = 1_000;

/// The races with these ids, in order. By the bounds a server skips partitions.
fn of_page() -> String {
    let ids: Vec<String> = (1..=RACES_OF_PAGE).map(|number| format!("?{number}")).collect();
    let within = format!("attempt.race_id >= ?1 AND attempt.race_id <= ?{RACES_OF_PAGE}");
    format!("race.race_id IN ({}) AND {within} ORDER BY race.race_id, ordinal", ids.join(", "))
}

/// Attempts of these upstreams (`?1`, a JSON list) with a time to first token, seen or censored, or to a plain answer; newest first. Searches
/// the newest `?2` attempts of all upstreams, except those of benchmarks: their load says nothing about that of clients.
const NEWEST_OF: &str = "\
    SELECT race_id, provider || '/' || model_sent FROM \
        (SELECT race_id, provider, model_sent, ttft_obs_us, plain FROM attempt \
         WHERE NOT EXISTS (SELECT 1 FROM race WHERE race.source <> 'client' AND race.source = 'bench' \
                                                AND race.race_id = attempt.race_id) \
         ORDER BY race_id DESC, ordinal DESC LIMIT ?2) AS newest \
    WHERE (ttft_obs_us IS NOT NULL OR plain = 1) AND provider || '/' || model_sent IN (SELECT value FROM json_each(?1))";

/// Maximum attempts searched for the selected upstreams, about half a second. A start waits for the search, and without
/// the limit a rarely used upstream would make it read the whole history.
const LOOKED_AT_MAX: i64 = 200_000;

/// The id of the race before `?1` with `?2` newer races of the same source between them.
fn oldest_of_newest(source: SourceFilter) -> String {
    let condition = source.condition();
    format!("SELECT race_id FROM race WHERE {condition} AND race_id < ?1 ORDER BY race_id DESC LIMIT 1 OFFSET ?2")
}

/// The selected requests: all conditions that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct RecordedFilter {
    /// Begun at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Begun before this time; microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// The model that the client requested.
    pub model: Option<String>,
    /// Maximum number of requests in the window, newest first, of any model.
    pub newest: usize,
    /// Who asked.
    pub source: SourceFilter,
}

impl StoreReader {
    /// Passes each request with at least one attempt to `each`, oldest first.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn recorded(&self, filter: &RecordedFilter, mut each: impl FnMut(Recorded)) -> Result<(), ReadError> {
        let until = filter.until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
        let behind = filter.newest.saturating_sub(1);
        self.ask(|connection| {
            let state = connection.snapshot()?;
            let oldest = oldest_of_newest(filter.source);
            let oldest: Option<String> = state.find(&oldest, params![Id(&until), behind], |row| row.get(0))?;
            let since = first_race_id(filter.since.unwrap_or(0)).max(oldest.unwrap_or_default());
            let condition = format!("{} AND {OF_WINDOW}", filter.source.condition());
            let mut statement = state.prepare(&select_recorded(&condition))?;
            read(statement.query(params![Id(&since), Id(&until), filter.model.as_deref()])?, &mut each)
        })
    }

    /// Passes to `each` the requests with times of these upstreams (`provider/model`), oldest first: for each upstream
    /// its newest attempts with a time, at most `newest`. Those of benchmarks are left out.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn recorded_of(
        &self,
        upstreams: &[String],
        newest: usize,
        mut each: impl FnMut(Recorded),
    ) -> Result<(), ReadError> {
        self.ask(|connection| {
            let state = connection.snapshot()?;
            let mut statement = state.prepare(&select_recorded(&of_page()))?;
            let races: Vec<String> = newest_of(&state, upstreams, newest)?.into_iter().collect();
            for page in races.chunks(RACES_OF_PAGE) {
                // The last page has its last race several times.
                let last = page.last().into_iter().cycle();
                let ids: Vec<Value<'_>> = page.iter().chain(last).take(RACES_OF_PAGE).map(|id| Id(id).into()).collect();
                read(statement.query_few(&ids)?, &mut each)?;
            }
            Ok(())
        })
    }
}

/// Passes to `each` what a gateway on a server wrote lately: see [`ARRIVED`].
pub(super) fn arrived(
    connection: &Connection<'_>,
    window: &[Value<'_>],
    each: &mut impl FnMut(Recorded),
) -> Result<()> {
    read(connection.prepare(&select_recorded(ARRIVED))?.query_few(window)?, each)
}

/// The ids of the requests of these attempts, oldest first.
fn newest_of(connection: &Connection<'_>, upstreams: &[String], newest: usize) -> Result<BTreeSet<String>> {
    let mut missing: HashMap<&str, usize> = upstreams.iter().map(|upstream| (upstream.as_str(), newest)).collect();
    let mut statement = connection.prepare(NEWEST_OF)?;
    let mut rows = statement.query(params![&serde_json::json!(upstreams).to_string(), LOOKED_AT_MAX])?;
    let mut races = BTreeSet::new();
    while !missing.is_empty() {
        let Some(row) = rows.next()? else { break };
        let upstream: &str = row.get(1)?;
        let Some(places) = missing.get_mut(upstream) else { continue };
        *places = places.saturating_sub(1);
        if *places == 0 {
            missing.remove(upstream);
        }
        races.insert(row.get(0)?);
    }
    Ok(races)
}

/// Passes each request of these rows to `each`. The attempts of a race follow each other.
fn read(mut rows: AnswerRows<'_>, each: &mut impl FnMut(Recorded)) -> Result<()> {
    let (mut attempt, mut ending) = (MeasuredAttempt::default(), EndingColumns::default());
    let mut race = RecordedRow::default();
    let mut request: Option<Recorded> = None;
    while let Some(row) = rows.next()? {
        let mut cells = RowReader::new(row);
        cells.fill(&mut attempt.row)?;
        cells.fill(&mut attempt.cost)?;
        cells.fill(&mut ending)?;
        if request.as_ref().is_some_and(|request| request.race_id == attempt.row.race_id) {
            cells.skip::<RecordedRow>();
        } else {
            cells.fill(&mut race)?;
            request.replace(recorded(&race)).map(&mut *each);
        }
        fill_decoding(&mut attempt, &mut cells)?;
        if let Some(request) = &mut request {
            request.attempts.push(recorded_attempt(&attempt, &ending, race.n_choices));
        }
    }
    request.map(each);
    Ok(())
}

fn recorded(race: &RecordedRow) -> Recorded {
    Recorded {
        race_id: race.race_id.clone(),
        started_at: began_at(&race.race_id),
        model: race.model.clone(),
        policy: race.policy.clone(),
        stream: race.stream,
        has_tools: race.has_tools,
        input_tokens_estimate: race.input_tokens_estimate,
        winner: race.winner,
        client_ttft_us: race.first_token_sent_us,
        done_us: race.done_us,
        outcome: race.outcome,
        source: race.source,
        look: race.look.clone(),
        attempts: Vec::new(),
    }
}

fn recorded_attempt(attempt: &MeasuredAttempt, ending: &EndingColumns, n_choices: Option<i64>) -> RecordedAttempt {
    let MeasuredAttempt { row, cost, decoding } = attempt;
    let ends = [ending.headers_us, ending.last_token_us, row.eof_us, row.cancel_us];
    RecordedAttempt {
        ordinal: row.ordinal,
        provider: row.provider.clone(),
        model_sent: row.model_sent.clone(),
        dispatch_us: row.dispatch_us,
        in_flight: row.in_flight_upstream,
        ttft_obs_us: row.ttft_obs_us,
        seen: row.ttft_event == Some(1),
        plain: row.plain,
        outcome: row.outcome,
        failure: row.failure,
        tpot_us: decoding.tpot_us(n_choices),
        input_tokens: ending.input_tokens,
        cached_input_tokens: ending.cached_input_tokens,
        output_tokens: decoding.tokens_out(),
        cost_usd: cost.exact(),
        ended_us: ends.into_iter().flatten().max().unwrap_or(0).max(0),
        calls: row.calls,
        structured: row.structured,
        tool_set: ending.tool_set,
    }
}
