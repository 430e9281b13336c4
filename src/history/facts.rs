//! What the figures need of one attempt and of the request that it was made for. Borrowed: millions of these pass by.

use super::cost::Cost;
use super::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord};
use super::speed::Decoding;
use super::survival::{Audit, Observation};
use crate::failure::FailureKind;

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Counts the races of one reading; all attempts of a race come one after the other.
    pub race: u64,
    /// Another attempt of the race came before at the same upstream.
    pub again: bool,
    /// When its race began, by the id of it, so to the millisecond; microseconds since 1970, UTC.
    pub started_at: i64,
    pub provider: &'a str,
    pub model_sent: &'a str,
    /// Other attempts that ran at this upstream at dispatch.
    pub in_flight_upstream: i64,
    pub outcome: AttemptOutcome,
    pub failure: Option<FailureKind>,
    pub ttft: Option<Observation>,
    /// Microseconds for each token after the first.
    pub tpot_us: Option<f64>,
    /// One token, or all of them in one event.
    pub at_once: bool,
    pub output_tokens: Option<i64>,
    pub cost: Cost,
    /// None while the race's own row is not written yet.
    pub request: Option<RequestFacts<'a>>,
}

/// A race that began so short a while ago and has no row yet is taken to be running.
const RUNNING_US: i64 = 3_600_000_000;

/// Those of one race, whose rows are at hand: the same as `store` makes of the database's. `number`: of the race.
pub fn of_race<'a>(number: u64, race: &'a RaceRecord, attempts: &'a [AttemptRecord]) -> Vec<Facts<'a>> {
    let lost = |row: &AttemptRecord| matches!(row.outcome, AttemptOutcome::Lost | AttemptOutcome::Drained);
    let finished = attempts.iter().filter(|row| !lost(row));
    let tokens_us: Vec<i64> = finished.filter_map(|row| Some(row.dispatch_us + row.first_token_us?)).collect();
    let upstream = |row: &'a AttemptRecord| (&row.provider, &row.model_sent);
    let facts = attempts.iter().enumerate().map(|(place, row)| {
        let decided_us = tokens_us.iter().copied().filter(|token_us| *token_us >= row.dispatch_us).min();
        let again = attempts[..place].iter().any(|before| upstream(before) == upstream(row));
        Facts { race: number, again, ..of_attempt(race, row, decided_us) }
    });
    facts.collect()
}

/// `decided_us`: when it lost, if it did; since the request was read.
fn of_attempt<'a>(race: &'a RaceRecord, row: &'a AttemptRecord, decided_us: Option<i64>) -> Facts<'a> {
    let lost_us = decided_us.map(|decided_us| decided_us - row.dispatch_us);
    let audit = lost_us.zip(row.p_audit).filter(|_| row.audited);
    let audit = audit.map(|(lost_us, probability)| Audit { lost_us, probability });
    let decoding = Decoding::from(row);
    Facts {
        race: 0,
        again: false,
        started_at: race.started_at,
        provider: &row.provider,
        model_sent: &row.model_sent,
        in_flight_upstream: row.in_flight_upstream,
        outcome: row.outcome,
        failure: row.failure.and_then(FailureKind::from_name),
        ttft: row.ttft_obs_us.zip(row.ttft_event).map(|(time_us, event)| Observation {
            time_us,
            event: event == 1,
            audit,
        }),
        tpot_us: decoding.tpot_us(race.n_choices),
        at_once: row.payload_events == 1 || row.output_tokens == Some(1),
        output_tokens: decoding.tokens_out(),
        cost: Cost::of(row),
        request: Some(RequestFacts {
            model: &race.model,
            user: race.user.as_deref(),
            stream: race.stream,
            input_tokens_estimate: race.input_tokens_estimate,
            outcome: race.outcome,
            client_ttft_us: race.first_token_sent_us,
            served: race.winner.map(|winner| winner == row.ordinal),
        }),
    }
}

impl Facts<'_> {
    /// Whether its race still runs: of such a race the losers are written and the winner is not, so that each upstream
    /// would look slower than it is.
    pub fn is_of_a_running_race(&self, now_us: i64) -> bool {
        self.request.is_none() && self.started_at > now_us - RUNNING_US
    }
}

/// The request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    pub model: &'a str,
    pub user: Option<&'a str>,
    pub stream: bool,
    pub input_tokens_estimate: i64,
    pub outcome: RaceOutcome,
    /// First payload byte handed to the client; microseconds since the request was read.
    pub client_ttft_us: Option<i64>,
    /// Whether this attempt served it; none where no attempt did.
    pub served: Option<bool>,
}

impl RequestFacts<'_> {
    /// It had an end, and nobody answered it.
    pub fn is_unserved(&self) -> bool {
        self.served.is_none() && self.outcome != RaceOutcome::ClientGone
    }
}
