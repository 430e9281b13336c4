//! Rows as facts: the attempts of a stretch of time, race by race, each beside the row of its race.
//!
//! Two scans in the order of the primary keys, joined here: SQL would look up the race for each attempt anew. TPOT is
//! computed here too, by the same definition as in the view `attempt_speed`.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows};

use super::reader::Gather;
use super::times::{began_at, first_race_id};
use crate::failure::FailureKind;
use crate::history::cost::Cost;
use crate::history::facts::{Facts, RequestFacts};
use crate::history::speed::Decoding;
use crate::history::survival::{Audit, Observation};
use crate::history::{AttemptOutcome, CostBasis, RaceOutcome, TokenSource};

/// By `race_id`, so that the primary key is searched, and nothing before or after the stretch is read.
pub(super) const ATTEMPTS: &str = "\
    SELECT race_id, ordinal, provider, model_sent, dispatch_us, p_audit, audited, first_token_us, first_answer_us, \
           last_token_us, ttft_obs_us, ttft_event, outcome, failure, payload_events, reasoning_events, chars_total, \
           chars_first, burst, output_tokens, reasoning_tokens, tok_src, cost_usd, cost_basis, in_flight_upstream, \
           cost_usd_min, cost_usd_max \
    FROM attempt WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id";

pub(super) const RACES: &str = "\
    SELECT race_id, model, user, stream, n_choices, input_tokens_estimate, attempts, winner, first_token_sent_us, \
           outcome \
    FROM race WHERE race_id >= ?1 AND race_id < ?2 ORDER BY race_id";

/// Which rows are wanted; all that is set must hold.
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

impl AttemptFilter {
    /// Of model and user; none is what is not known.
    pub(super) fn wants_request(&self, model: Option<&str>, user: Option<&str>) -> bool {
        self.model.as_deref().is_none_or(|wanted| model == Some(wanted))
            && self.user.as_deref().is_none_or(|wanted| user == Some(wanted))
    }

    pub(super) fn wants_provider(&self, provider: &str) -> bool {
        self.provider.as_deref().is_none_or(|wanted| provider == wanted)
    }
}

/// Hands every attempt of races begun from `from_us` on and before `until_us` to `gather`, and every request without one.
/// `first_race`: the number that the first race gets. Returns how many races there were.
pub(super) fn scan(
    connection: &Connection,
    (from_us, until_us): (i64, i64),
    filter: &AttemptFilter,
    first_race: u64,
    gather: &mut impl Gather,
) -> rusqlite::Result<u64> {
    let range = [first_race_id(from_us), first_race_id(until_us)];
    let (mut races, mut attempts) = (connection.prepare_cached(RACES)?, connection.prepare_cached(ATTEMPTS)?);
    let (mut races, mut attempts) = (races.query([&range[0], &range[1]])?, attempts.query([&range[0], &range[1]])?);
    let mut race = Race::default();
    let mut runs = Runs::default();
    race.next(&mut races)?;
    runs.look(&mut attempts)?;
    let mut number = first_race;
    loop {
        // Both lists are in the order of the ids; the smaller is next.
        let of_race = race.known && runs.coming.as_ref().is_none_or(|coming| race.id <= coming.id);
        let id = match (&runs.coming, of_race) {
            (_, true) => race.id.clone(),
            (Some(coming), false) => coming.id.clone(),
            (None, false) => return Ok(number - first_race),
        };
        runs.take(&id, &mut attempts)?;
        number += 1;
        runs.hand_over(number, of_race.then_some(&race), filter, gather);
        if of_race {
            race.next(&mut races)?;
        }
    }
}

/// The row of a race.
#[derive(Default)]
struct Race {
    /// Whether there is one; false behind the last.
    known: bool,
    id: String,
    model: String,
    user: Option<String>,
    stream: bool,
    n_choices: Option<i64>,
    input_tokens_estimate: i64,
    attempts: i64,
    winner: Option<i64>,
    first_token_sent_us: Option<i64>,
    outcome: Option<RaceOutcome>,
}

impl Race {
    fn next(&mut self, rows: &mut Rows<'_>) -> rusqlite::Result<()> {
        let Some(row) = rows.next()? else {
            self.known = false;
            return Ok(());
        };
        self.known = true;
        text_into(&mut self.id, row, 0)?;
        text_into(&mut self.model, row, 1)?;
        self.user = row.get(2)?;
        self.stream = row.get(3)?;
        self.n_choices = row.get(4)?;
        self.input_tokens_estimate = row.get(5)?;
        self.attempts = row.get(6)?;
        self.winner = row.get(7)?;
        self.first_token_sent_us = row.get(8)?;
        self.outcome = RaceOutcome::from_name(text(row, 9)?);
        Ok(())
    }

    /// Beside the attempt of this ordinal.
    fn facts(&self, ordinal: Option<i64>) -> RequestFacts<'_> {
        RequestFacts {
            model: &self.model,
            user: self.user.as_deref(),
            stream: self.stream,
            input_tokens_estimate: self.input_tokens_estimate,
            outcome: self.outcome.unwrap_or(RaceOutcome::Error),
            client_ttft_us: self.first_token_sent_us,
            served: self.winner.map(|winner| Some(winner) == ordinal),
        }
    }
}

/// The row of an attempt.
pub(super) struct Run {
    id: String,
    pub ordinal: i64,
    pub provider: String,
    pub model_sent: String,
    pub dispatch_us: i64,
    p_audit: Option<f64>,
    audited: bool,
    pub ttft_obs_us: Option<i64>,
    pub ttft_event: Option<i64>,
    pub outcome: Option<AttemptOutcome>,
    pub failure: Option<FailureKind>,
    payload_events: i64,
    pub decoding: Decoding,
    pub cost: Cost,
    pub in_flight_upstream: i64,
}

/// The attempts of one race, and the first one of the race that comes next.
#[derive(Default)]
struct Runs {
    coming: Option<Run>,
    of_race: Vec<Run>,
}

impl Runs {
    fn look(&mut self, rows: &mut Rows<'_>) -> rusqlite::Result<()> {
        self.coming = rows.next()?.map(Run::new).transpose()?;
        Ok(())
    }

    fn take(&mut self, id: &str, rows: &mut Rows<'_>) -> rusqlite::Result<()> {
        self.of_race.clear();
        while let Some(run) = self.coming.take_if(|coming| coming.id == id) {
            self.of_race.push(run);
            self.look(rows)?;
        }
        Ok(())
    }

    fn hand_over(&self, number: u64, race: Option<&Race>, filter: &AttemptFilter, gather: &mut impl Gather) {
        let known = race.map(|race| (race.model.as_str(), race.user.as_deref()));
        if !filter.wants_request(known.map(|(model, _)| model), known.and_then(|(_, user)| user)) {
            return;
        }
        if let Some(race) = race.filter(|race| race.attempts == 0 && filter.provider.is_none()) {
            gather.without_attempts(began_at(&race.id), &race.facts(None));
        }
        // What a loser lost to: the first token after its dispatch of those that did not lose. (A whole answer whose
        // winner dies is raced for anew.)
        let finished = self.of_race.iter().filter(|run| !run.lost());
        let tokens_us: Vec<i64> =
            finished.filter_map(|run| Some(run.dispatch_us + run.decoding.first_token_us?)).collect();
        for (place, run) in self.of_race.iter().enumerate().filter(|(_, run)| filter.wants_provider(&run.provider)) {
            let again = self.of_race[..place].iter().any(|before| before.is_at_upstream_of(run));
            let decided_us = tokens_us.iter().copied().filter(|token_us| *token_us >= run.dispatch_us).min();
            gather.attempt(&Facts { again, ..run.facts(number, decided_us, race) });
        }
    }
}

impl Run {
    /// Of a row that begins with the columns of [`ATTEMPTS`].
    pub fn new(row: &Row<'_>) -> rusqlite::Result<Run> {
        let (first_token_us, outcome) = (row.get(7)?, AttemptOutcome::from_name(text(row, 12)?));
        Ok(Run {
            id: text(row, 0)?.to_owned(),
            ordinal: row.get(1)?,
            provider: text(row, 2)?.to_owned(),
            model_sent: text(row, 3)?.to_owned(),
            dispatch_us: row.get(4)?,
            p_audit: row.get(5)?,
            audited: row.get(6)?,
            ttft_obs_us: row.get(10)?,
            ttft_event: row.get(11)?,
            outcome,
            failure: name(row, 13)?.and_then(FailureKind::from_name),
            payload_events: row.get(14)?,
            decoding: decoding(first_token_us, outcome, row)?,
            cost: Cost {
                usd: row.get(22)?,
                basis: CostBasis::from_name(text(row, 23)?).unwrap_or(CostBasis::Unknown),
                min_usd: row.get(25)?,
                max_usd: row.get(26)?,
            },
            in_flight_upstream: row.get(24)?,
        })
    }

    fn lost(&self) -> bool {
        matches!(self.outcome, Some(AttemptOutcome::Lost | AttemptOutcome::Drained))
    }

    fn is_at_upstream_of(&self, other: &Run) -> bool {
        (&self.provider, &self.model_sent) == (&other.provider, &other.model_sent)
    }

    fn facts<'a>(&'a self, number: u64, decided_us: Option<i64>, race: Option<&'a Race>) -> Facts<'a> {
        let lost_us = decided_us.map(|decided_us| decided_us - self.dispatch_us);
        let audit = lost_us.zip(self.p_audit).filter(|_| self.audited);
        let audit = audit.map(|(lost_us, probability)| Audit { lost_us, probability });
        let ttft = self.ttft_obs_us.zip(self.ttft_event);
        Facts {
            race: number,
            again: false,
            started_at: began_at(&self.id),
            provider: &self.provider,
            model_sent: &self.model_sent,
            in_flight_upstream: self.in_flight_upstream,
            outcome: self.outcome.unwrap_or(AttemptOutcome::Failed),
            failure: self.failure,
            ttft: ttft.map(|(time_us, event)| Observation { time_us, event: event == 1, audit }),
            tpot_us: self.decoding.tpot_us(race.and_then(|race| race.n_choices)),
            at_once: self.payload_events == 1 || self.decoding.output_tokens == Some(1),
            output_tokens: self.decoding.tokens_out(),
            cost: self.cost,
            request: race.map(|race| race.facts(Some(self.ordinal))),
        }
    }
}

/// Most attempts lose before their first token, and what would come after it need not be read.
fn decoding(first_token_us: Option<i64>, outcome: Option<AttemptOutcome>, row: &Row<'_>) -> rusqlite::Result<Decoding> {
    if first_token_us.is_none() && outcome == Some(AttemptOutcome::Lost) {
        return Ok(Decoding::NOTHING);
    }
    Ok(Decoding {
        first_token_us,
        first_answer_us: row.get(8)?,
        last_token_us: row.get(9)?,
        reasoning_events: row.get(15)?,
        chars_total: row.get(16)?,
        chars_first: row.get(17)?,
        burst: row.get(18)?,
        output_tokens: row.get(19)?,
        reasoning_tokens: row.get(20)?,
        tok_src: TokenSource::from_name(text(row, 21)?).unwrap_or(TokenSource::None),
    })
}

pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn text_into(into: &mut String, row: &Row<'_>, column: usize) -> rusqlite::Result<()> {
    into.clear();
    into.push_str(text(row, column)?);
    Ok(())
}

fn name<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Option<&'r str>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}
