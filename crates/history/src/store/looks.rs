//! Reads looks, and what clients saw at the same moments. Not for figures: see `report::compare`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::store::columns::first_race_id;
use crate::store::database::{AnswerRow, Connection, Id, Result, params};
use crate::store::reader::{ReadError, StoreReader};
use crate::store::selection::AttemptFilter;
use photofinish_config::TokenCounts;
use photofinish_facts::record::{AttemptOutcome, CensorCause};

/// Looks of one comparison. Of more, every second one counts, or every third, and so on, so that they are of the whole
/// window.
pub(crate) const LOOKS_MAX: i64 = 10_000;
/// Looks around which the requests of clients are read, of all models together.
const AROUND_MAX: i64 = 1_000;
/// Requests of the look's model that are read before each, and the races that are searched for them.
const AT_EACH: usize = 6;
const SEARCHED: usize = 200;

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRow {
    pub model: String,
    /// When its first token was handed over, if it streamed; microseconds since it was read.
    pub first_token_us: Option<i64>,
    /// The number of requests that it represents.
    pub weight: f64,
    /// Of its prompt, estimated.
    pub prompt_tokens: i64,
    /// As the provider that answered it counted them.
    pub tokens: Option<TokenCounts>,
}

/// One look.
#[derive(Clone, Debug, PartialEq)]
pub struct LookRow {
    /// As the client asked for it.
    pub model: String,
    /// `provider/model`
    pub upstream: String,
    /// The number of requests that it represents.
    pub weight: f64,
    /// Microseconds since 1970, UTC.
    pub started_at: i64,
    /// Of the prompt, estimated.
    pub prompt_tokens: i64,
    /// Whether its client streams.
    pub streams: bool,
    pub seen: LookSeen,
}

/// What became of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookSeen {
    /// The first token came after this time, or the timeout; microseconds.
    Token(i64),
    Failed,
    /// It did not start: left out, cooling down, its breaker open, or the budget used up.
    Out,
    /// The client left, or the gateway stopped.
    Cut,
}

/// The first attempt at the drawn upstream.
const LOOKS: &str = "\
    SELECT race.model, race.look, race.p_look, race.started_at, race.look_out, \
           attempt.outcome, attempt.censor_cause, attempt.ttft_obs_us, attempt.ttft_event, \
           race.input_tokens_estimate, race.stream \
    FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id AND attempt.ordinal = (\
        SELECT min(ordinal) FROM attempt AS tried \
        WHERE tried.race_id = race.race_id AND tried.provider || '/' || tried.model_sent = race.look) \
    WHERE race.look IS NOT NULL AND race.started_at >= ?1 AND race.started_at < ?2 AND race.started_at % ?5 = 0 \
      AND race.source = 'client' AND (CAST(?3 AS TEXT) IS NULL OR race.model = ?3) AND (CAST(?4 AS TEXT) IS NULL OR race.caller = ?4) \
      AND (CAST(?6 AS TEXT) IS NULL OR race.team = ?6) \
    ORDER BY race.started_at DESC";

/// Of the index alone.
const COUNT: &str = "SELECT count(*) FROM race WHERE look IS NOT NULL AND started_at >= ?1 AND started_at < ?2";

/// Clients of one model shortly before a look, in races without one. Constant limits: SQLite prepares a statement anew each time a
/// limit is bound.
static AROUND: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT first_token_sent_us, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, input_tokens_estimate, \
                stream, recent.race_id FROM (\
             SELECT race_id, winner, model, source, caller, team, p_look, look, first_token_sent_us, input_tokens_estimate, stream \
             FROM race WHERE race_id < ?1 ORDER BY race_id DESC LIMIT {SEARCHED}) AS recent \
         LEFT JOIN attempt ON attempt.race_id = recent.race_id AND attempt.ordinal = recent.winner AND tok_src = 'usage' \
         WHERE model = ?2 AND (CAST(?3 AS TEXT) IS NULL OR caller = ?3) AND (CAST(?4 AS TEXT) IS NULL OR team = ?4) AND source = 'client' AND p_look > 0 AND look IS NULL \
           AND first_token_sent_us IS NOT NULL LIMIT {AT_EACH}"
    )
});

impl StoreReader {
    /// The newest first.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn looks(&self, filter: &AttemptFilter) -> Result<Vec<LookRow>, ReadError> {
        let (since, until) = (filter.since.unwrap_or(0), filter.until.unwrap_or(i64::MAX));
        self.ask(|connection| {
            let (every, _) = thinned(connection, filter)?;
            let (user, team) = (filter.user.as_deref(), filter.team.as_deref());
            let parameters = params![since, until, filter.model.as_deref(), user, every, team];
            connection.all(LOOKS, parameters, look)
        })
    }

    /// Requests of clients in races without a look, each of the model of a look, shortly before it. Of one window they are the same
    /// ones whether one model is asked for or all.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn clients_around(&self, looks: &[LookRow], filter: &AttemptFilter) -> Result<Vec<ClientRow>, ReadError> {
        let read = |connection: &Connection<'_>| {
            let (_, every) = thinned(connection, filter)?;
            // Looks that are close together have the same neighbours.
            let mut all = BTreeMap::<String, ClientRow>::new();
            for look in looks.iter().filter(|look| look.started_at % every == 0) {
                let before = first_race_id(look.started_at);
                let of_client = |row: AnswerRow<'_>| {
                    let (model, tokens, prompt_tokens) = (look.model.clone(), tokens(row)?, row.get(5)?);
                    let first_token_us = if row.get(6)? { row.get(0)? } else { None };
                    Ok((row.get(7)?, ClientRow { model, first_token_us, weight: 0.0, prompt_tokens, tokens }))
                };
                let parameters = params![Id(&before), &look.model, filter.user.as_deref(), filter.team.as_deref()];
                for (race_id, client) in connection.all(&AROUND, parameters, of_client)? {
                    all.entry(race_id).or_insert(client).weight += look.weight;
                }
            }
            Ok(all.into_values().collect())
        };
        self.ask(read)
    }
}

/// Which looks of the window count, and around which of them clients are read: those whose time is a multiple. The last digits of a time in
/// microseconds are as good as drawn.
fn thinned(connection: &Connection<'_>, filter: &AttemptFilter) -> Result<(i64, i64)> {
    let window = params![filter.since.unwrap_or(0), filter.until.unwrap_or(i64::MAX)];
    let all: i64 = connection.one(COUNT, window, |row| row.get(0))?;
    let every = 1 + (all - 1).max(0) / LOOKS_MAX;
    Ok((every, every * (1 + (all / every - 1).max(0) / AROUND_MAX)))
}

/// None: they were not counted.
fn tokens(row: AnswerRow<'_>) -> Result<Option<TokenCounts>> {
    let (Some(input), Some(output)) = (row.get(1)?, row.get(4)?) else { return Ok(None) };
    let [cached, written] = [row.get::<Option<i64>>(2)?, row.get(3)?].map(Option::unwrap_or_default);
    Ok(Some(TokenCounts { input, cached, written, output, hour: 0 }))
}

fn look(row: AnswerRow<'_>) -> Result<LookRow> {
    let probability: f64 = row.get(2)?;
    let (out, outcome): (Option<String>, Option<String>) = (row.get(4)?, row.get(5)?);
    let (cause, waited_us): (Option<String>, Option<i64>) = (row.get(6)?, row.get(7)?);
    let is_token = row.get::<Option<i64>>(8)? == Some(1) || cause.as_deref() == Some(CensorCause::Timeout.as_str());
    let is_cut = |outcome: &str| {
        [AttemptOutcome::Lost, AttemptOutcome::ClientGone, AttemptOutcome::Shutdown, AttemptOutcome::Shed]
            .iter()
            .any(|cut| cut.as_str() == outcome)
    };
    let seen = match (out, outcome, waited_us) {
        (Some(_), ..) => LookSeen::Out,
        (None, Some(_), Some(waited_us)) if is_token => LookSeen::Token(waited_us),
        (None, Some(outcome), _) if !is_cut(&outcome) => LookSeen::Failed,
        _ => LookSeen::Cut,
    };
    Ok(LookRow {
        model: row.get(0)?,
        upstream: row.get(1)?,
        weight: 1.0 / probability.max(f64::MIN_POSITIVE),
        started_at: row.get(3)?,
        prompt_tokens: row.get(9)?,
        streams: row.get(10)?,
        seen,
    })
}
