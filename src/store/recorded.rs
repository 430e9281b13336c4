//! Reads whole requests with their attempts, oldest first: to learn from them at a start, and to replay them.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, Row};

use super::races::BEHIND_ALL;
use super::reader::{ReadError, Reader};
use super::scan::{Run, text};
use super::times::{began_at, first_race_id};
use crate::history::recorded::{Recorded, RecordedAttempt};
use crate::history::{AttemptOutcome, RaceOutcome};

/// By the primary keys of both; the columns of an attempt come first, as in `scan`.
const RECORDED: &str = "\
    SELECT attempt.race_id, ordinal, provider, model_sent, dispatch_us, p_audit, audited, first_token_us, \
           first_answer_us, last_token_us, ttft_obs_us, ttft_event, attempt.outcome, failure, payload_events, \
           reasoning_events, chars_total, chars_first, burst, output_tokens, reasoning_tokens, tok_src, cost_usd, \
           cost_basis, in_flight_upstream, cost_usd_min, cost_usd_max, input_tokens, cached_input_tokens, \
           max(coalesce(eof_us, 0), coalesce(cancel_us, 0), coalesce(last_token_us, 0), coalesce(headers_us, 0)), \
           race.model, race.stream, race.input_tokens_estimate, race.winner, race.first_token_sent_us, race.done_us, \
           race.outcome, race.n_choices, race.policy \
    FROM race JOIN attempt ON attempt.race_id = race.race_id WHERE ";
const OF_WINDOW: &str = "\
    race.race_id >= ?1 AND race.race_id < ?2 AND (?3 IS NULL OR race.model = ?3) ORDER BY race.race_id, ordinal";

/// One of these requests; columns as in `RECORDED`.
const ONE_RECORDED: &str = "race.race_id = ?1 ORDER BY ordinal";

/// Attempts of these upstreams (`?1`, a JSON list) that show how long a token took or was waited for, newest first. At
/// most `?2` attempts of any upstream are looked at.
const NEWEST_OF: &str = "\
    SELECT race_id, provider || '/' || model_sent FROM \
        (SELECT race_id, provider, model_sent, ttft_obs_us FROM attempt ORDER BY race_id DESC, ordinal DESC LIMIT ?2) \
    WHERE ttft_obs_us IS NOT NULL AND provider || '/' || model_sent IN (SELECT value FROM json_each(?1))";

/// Attempts of any upstream that are read in search of the wanted ones. A start waits for it, and an upstream that is rarely
/// used would have it read the whole history: this many take about half a second.
const LOOKED_AT_MAX: i64 = 200_000;

/// Of the races before `?1`, the id of the one with `?2` newer ones.
const OLDEST_OF_NEWEST: &str = "\
    SELECT race_id FROM race WHERE race_id < ?1 ORDER BY race_id DESC LIMIT 1 OFFSET ?2";

/// Which requests are wanted; all that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct RecordedFilter {
    /// Begun at this time or later; microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Begun before this time; microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// How many requests are looked at, whatever their model: the newest of the window.
    pub newest: usize,
}

impl Reader {
    /// Passes each request with at least one attempt to `each`, oldest first.
    ///
    /// # Errors
    /// When it takes too long, or the file cannot be read.
    pub fn recorded(&self, filter: &RecordedFilter, mut each: impl FnMut(Recorded)) -> Result<(), ReadError> {
        let until = filter.until.map_or_else(|| BEHIND_ALL.to_owned(), first_race_id);
        let behind = filter.newest.saturating_sub(1);
        self.ask(|connection| {
            let state = connection.unchecked_transaction()?;
            let oldest =
                state.query_row(OLDEST_OF_NEWEST, (&until, i64::try_from(behind).unwrap_or(i64::MAX)), |row| {
                    row.get::<_, String>(0)
                });
            let oldest = match oldest {
                Err(rusqlite::Error::QueryReturnedNoRows) => String::new(),
                oldest => oldest?,
            };
            let since = first_race_id(filter.since.unwrap_or(0)).max(oldest);
            let mut statement = state.prepare(&format!("{RECORDED}{OF_WINDOW}"))?;
            let mut rows = statement.query((since, until, filter.model.as_deref()))?;
            let mut request: Option<Recorded> = None;
            while let Some(row) = rows.next()? {
                if request.as_ref().is_none_or(|request| text(row, 0).is_ok_and(|id| id != request.race_id)) {
                    request.replace(recorded(row)?).map(&mut each);
                }
                if let Some(request) = &mut request {
                    request.attempts.push(attempt(row)?);
                }
            }
            request.map(&mut each);
            Ok(())
        })
    }

    /// Passes to `each` the requests that show times of these upstreams (`provider/model`), oldest first: for each
    /// upstream its newest attempts with a time, at most `newest` of them, whatever else was recorded since.
    ///
    /// # Errors
    /// When it takes too long, or the file cannot be read.
    pub fn recorded_of(
        &self,
        upstreams: &[String],
        newest: usize,
        mut each: impl FnMut(Recorded),
    ) -> Result<(), ReadError> {
        self.ask(|connection| {
            let state = connection.unchecked_transaction()?;
            let mut statement = state.prepare(&format!("{RECORDED}{ONE_RECORDED}"))?;
            for race_id in newest_of(&state, upstreams, newest)? {
                let mut rows = statement.query([&race_id])?;
                let mut request: Option<Recorded> = None;
                while let Some(row) = rows.next()? {
                    if request.is_none() {
                        request = Some(recorded(row)?);
                    }
                    if let Some(request) = &mut request {
                        request.attempts.push(attempt(row)?);
                    }
                }
                request.map(&mut each);
            }
            Ok(())
        })
    }
}

/// The ids of the requests that had these attempts, oldest first.
fn newest_of(connection: &Connection, upstreams: &[String], newest: usize) -> rusqlite::Result<BTreeSet<String>> {
    let mut missing: HashMap<&str, usize> = upstreams.iter().map(|upstream| (upstream.as_str(), newest)).collect();
    let mut statement = connection.prepare(NEWEST_OF)?;
    let mut rows = statement.query((serde_json::json!(upstreams).to_string(), LOOKED_AT_MAX))?;
    let mut races = BTreeSet::new();
    while !missing.is_empty() {
        let Some(row) = rows.next()? else { break };
        let upstream = text(row, 1)?;
        let Some(places) = missing.get_mut(upstream) else { continue };
        *places = places.saturating_sub(1);
        if *places == 0 {
            missing.remove(upstream);
        }
        races.insert(row.get(0)?);
    }
    Ok(races)
}

fn recorded(row: &Row<'_>) -> rusqlite::Result<Recorded> {
    let race_id: String = row.get(0)?;
    Ok(Recorded {
        started_at: began_at(&race_id),
        race_id,
        model: row.get(30)?,
        policy: row.get(38)?,
        stream: row.get(31)?,
        input_tokens_estimate: row.get(32)?,
        winner: row.get(33)?,
        client_ttft_us: row.get(34)?,
        done_us: row.get(35)?,
        outcome: RaceOutcome::from_name(text(row, 36)?).unwrap_or(RaceOutcome::Error),
        attempts: Vec::new(),
    })
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<RecordedAttempt> {
    let run = Run::new(row)?;
    Ok(RecordedAttempt {
        ordinal: run.ordinal,
        dispatch_us: run.dispatch_us,
        in_flight: run.in_flight_upstream,
        ttft_obs_us: run.ttft_obs_us,
        seen: run.ttft_event == Some(1),
        outcome: run.outcome.unwrap_or(AttemptOutcome::Failed),
        failure: run.failure,
        tpot_us: run.decoding.tpot_us(row.get(37)?),
        input_tokens: row.get(27)?,
        cached_input_tokens: row.get(28)?,
        output_tokens: run.decoding.tokens_out(),
        cost_usd: run.cost.usd.filter(|_| run.cost.is_exact()),
        ended_us: row.get(29)?,
        provider: run.provider,
        model_sent: run.model_sent,
    })
}
