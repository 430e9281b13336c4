//! The columns that the figures need of one attempt and its request. Borrowed: a scan makes millions of them.
//!
//! Not for reading rows: `store` fills [`MeasuredAttempt`] and [`RequestRow`].

use super::cost::Cost;
use super::racing::{CostedAttempt, CostedRequest, RacingKind};
use super::speed::{Decoding, came_at_once};
use super::survival::{AuditedLoser, Observation};
use crate::record::names::{AttemptOutcome, RaceOutcome, RaceSource, StartReason};
use crate::record::table::{Subset as _, subset};
use crate::record::tables::{AttemptRecord, RaceRecord};
use photofinish_base::failure::FailureKind;
use photofinish_wire::answer::judgement::{CallsVerdict, Judgement, StructuredVerdict};

subset! {
    /// Columns of an attempt.
    pub AttemptRow of AttemptRecord {
        race_id: String,
        ordinal: i64,
        provider: String,
        model_sent: String,
        dispatch_us: i64,
        p_audit: Option<f64>,
        audited: bool,
        start_reason: StartReason,
        ttft_obs_us: Option<i64>,
        ttft_event: Option<i64>,
        outcome: AttemptOutcome,
        failure: Option<FailureKind>,
        payload_events: i64,
        input_tokens: Option<i64>,
        in_flight_upstream: i64,
        eof_us: Option<i64>,
        cancel_us: Option<i64>,
        plain: bool,
        calls: Option<CallsVerdict>,
        structured: Option<StructuredVerdict>,
    }
}

subset! {
    /// Columns of a race.
    pub RequestRow of RaceRecord {
        race_id: String,
        model: String,
        user: Option<String>,
        stream: bool,
        n_choices: Option<i64>,
        input_tokens_estimate: i64,
        attempts: i64,
        winner: Option<i64>,
        rescued_by: Option<i64>,
        first_token_sent_us: Option<i64>,
        outcome: RaceOutcome,
        source: RaceSource,
        look: Option<String>,
        team: Option<String>,
        caller_key: Option<String>,
        tags: Option<String>,
    }
}

/// The columns of an attempt that figures are computed from.
#[derive(Clone, Debug, Default)]
pub struct MeasuredAttempt {
    pub row: AttemptRow,
    pub cost: Cost,
    pub decoding: Decoding,
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFacts<'a> {
    /// Numbers the races of one scan; the attempts of a race follow each other.
    pub race: u64,
    /// An earlier attempt of the race was at the same upstream.
    pub again: bool,
    /// Start of its race; microseconds since 1970, UTC.
    pub started_at: i64,
    pub provider: &'a str,
    pub model_sent: &'a str,
    /// Other attempts at this upstream at dispatch.
    pub in_flight_upstream: i64,
    pub outcome: AttemptOutcome,
    pub failure: Option<FailureKind>,
    /// None: it was the answer, or failed where no upstream answered.
    pub racing: Option<RacingKind>,
    pub ttft: Option<Observation>,
    /// Time to the whole plain answer.
    pub whole: Option<Observation>,
    /// Microseconds for each token after the first.
    pub tpot_us: Option<f64>,
    /// The answer was one token, or all tokens came in one event.
    pub at_once: bool,
    /// Of its prompt, by the provider's count.
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost: Cost,
    /// What its answer was, compared with what the request asked for.
    pub judged: Judgement,
    /// None while the row of the race is not yet written.
    pub request: Option<RequestFacts<'a>>,
    /// The provider and the model of another attempt that won the race.
    pub lost_to: Option<(&'a str, &'a str)>,
}

/// A race without a row counts as running for this long after its start; after that its row is lost. Microseconds.
pub const RUNNING_US: i64 = 3_600_000_000;

/// Passes the facts of each attempt of one race to `each`. `request`: none while its row is not written.
pub fn of_race<'a>(
    (number, started_at): (u64, i64),
    request: Option<&'a RequestRow>,
    attempts: &'a [MeasuredAttempt],
    mut each: impl FnMut(&AttemptFacts<'a>),
) {
    // A loser lost to the earliest first token or plain answer after its dispatch among the others. (If the winner of a
    // whole answer fails, its request is raced again.)
    let finished = attempts.iter().filter(|attempt| !attempt.row.outcome.is_loss());
    let tokens_us: Vec<i64> = finished.filter_map(MeasuredAttempt::ready_us).collect();
    let costed = request.map(|request| request.costed(attempts));
    let ordinal = request.and_then(|request| request.winner);
    let winner = attempts.iter().find(|attempt| Some(attempt.row.ordinal) == ordinal);
    for (place, attempt) in attempts.iter().enumerate() {
        let dispatch_us = attempt.row.dispatch_us;
        let lost_us = tokens_us.iter().filter(|token_us| **token_us >= dispatch_us).min();
        let lost_us = lost_us.map(|token_us| token_us - dispatch_us);
        let again = attempts[..place].iter().any(|before| before.upstream() == attempt.upstream());
        let look = request.and_then(|request| request.look.as_deref());
        let racing = RacingKind::of(&attempt.costed(look), costed.as_ref());
        let lost_to = winner.filter(|winner| winner.row.ordinal != attempt.row.ordinal).map(MeasuredAttempt::upstream);
        each(&AttemptFacts { race: number, again, started_at, racing, lost_to, ..attempt.facts(lost_us, request) });
    }
}

/// What each attempt of a finished race was for. `attempts`: all of them.
pub fn racing<'a>(
    race: &RaceRecord,
    attempts: impl Iterator<Item = &'a AttemptRecord> + Clone,
) -> Vec<Option<RacingKind>> {
    let outcomes = attempts.clone().map(|attempt| (attempt.ordinal, attempt.outcome));
    let request = CostedRequest::new(race.source, [race.winner, race.rescued_by], outcomes);
    let kind = |attempt: &AttemptRecord| {
        let is_look = is_look(race.look.as_deref(), &attempt.provider, &attempt.model_sent);
        let AttemptRecord { ordinal, outcome, start_reason, audited, .. } = *attempt;
        RacingKind::of(&CostedAttempt { ordinal, outcome, start_reason, audited, is_look }, Some(&request))
    };
    attempts.map(kind).collect()
}

/// `look`: the upstream that the request drew.
fn is_look(look: Option<&str>, provider: &str, model_sent: &str) -> bool {
    look.is_some_and(|look| look.split_once('/') == Some((provider, model_sent)))
}

impl MeasuredAttempt {
    pub fn of(record: &AttemptRecord) -> MeasuredAttempt {
        let mut measured = MeasuredAttempt::default();
        measured.copy(record);
        measured
    }

    /// Copies the columns of a record in memory. Strings keep their memory.
    pub fn copy(&mut self, record: &AttemptRecord) {
        self.row.copy(record);
        self.cost.copy(record);
        self.decoding.copy(record);
    }

    /// First token, or the whole plain answer; microseconds since the request was read.
    fn ready_us(&self) -> Option<i64> {
        let whole_us = self.row.eof_us.filter(|_| self.row.plain);
        Some(self.row.dispatch_us + self.decoding.first_token_us.or(whole_us)?)
    }

    /// None for a stream, and where the attempt failed or its answer was no good.
    fn whole(&self, audit: Option<AuditedLoser>) -> Option<Observation> {
        let row = &self.row;
        let is_good = matches!(row.outcome, AttemptOutcome::Won | AttemptOutcome::Drained) || row.outcome.is_cut();
        let time_us = row.eof_us.or(row.cancel_us).filter(|_| row.plain && is_good)?;
        Some(Observation { time_us, event: row.eof_us.is_some(), audit })
    }

    fn upstream(&self) -> (&str, &str) {
        (&self.row.provider, &self.row.model_sent)
    }

    /// `look`: the upstream that the request drew.
    fn costed(&self, look: Option<&str>) -> CostedAttempt {
        let AttemptRow { provider, model_sent, ordinal, outcome, start_reason, audited, .. } = &self.row;
        let is_look = is_look(look, provider, model_sent);
        let (ordinal, outcome, start_reason, audited) = (*ordinal, *outcome, *start_reason, *audited);
        CostedAttempt { ordinal, outcome, start_reason, audited, is_look }
    }

    /// `lost_us`: microseconds from its dispatch to its loss. None: it did not lose.
    fn facts<'a>(&'a self, lost_us: Option<i64>, request: Option<&'a RequestRow>) -> AttemptFacts<'a> {
        let row = &self.row;
        let audit = lost_us.zip(row.p_audit).filter(|_| row.audited);
        let audit = audit.map(|(lost_us, probability)| AuditedLoser { lost_us, probability });
        let ttft = row.ttft_obs_us.zip(row.ttft_event);
        AttemptFacts {
            race: 0,
            again: false,
            started_at: 0,
            provider: &row.provider,
            model_sent: &row.model_sent,
            in_flight_upstream: row.in_flight_upstream,
            outcome: row.outcome,
            failure: row.failure,
            racing: None,
            ttft: ttft.map(|(time_us, event)| Observation { time_us, event: event == 1, audit }),
            whole: self.whole(audit),
            tpot_us: self.decoding.tpot_us(request.and_then(|request| request.n_choices)),
            at_once: came_at_once(row.payload_events, self.decoding.output_tokens),
            input_tokens: row.input_tokens,
            output_tokens: self.decoding.tokens_out(),
            cost: self.cost,
            judged: Judgement { calls: row.calls, structured: row.structured },
            request: request.map(|request| request.facts(Some(row.ordinal))),
            lost_to: None,
        }
    }
}

impl RequestRow {
    fn costed(&self, attempts: &[MeasuredAttempt]) -> CostedRequest {
        let outcomes = attempts.iter().map(|attempt| (attempt.row.ordinal, attempt.row.outcome));
        CostedRequest::new(self.source, [self.winner, self.rescued_by], outcomes)
    }

    /// `ordinal`: the attempt that the facts are for. None: for no attempt.
    pub fn facts(&self, ordinal: Option<i64>) -> RequestFacts<'_> {
        RequestFacts {
            model: &self.model,
            user: self.user.as_deref(),
            team: self.team.as_deref(),
            caller_key: self.caller_key.as_deref(),
            tags: self.tags.as_deref(),
            stream: self.stream,
            input_tokens_estimate: self.input_tokens_estimate,
            outcome: self.outcome,
            client_ttft_us: self.first_token_sent_us,
            served: self.winner.map(|winner| Some(winner) == ordinal),
        }
    }
}

impl AttemptFacts<'_> {
    /// Whether its race still runs. Only losers of such a race are written, so each upstream would look too slow.
    pub fn is_of_a_running_race(&self, now_us: i64) -> bool {
        self.request.is_none() && self.started_at > now_us - RUNNING_US
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    pub model: &'a str,
    pub user: Option<&'a str>,
    pub team: Option<&'a str>,
    /// The id of the caller's key.
    pub caller_key: Option<&'a str>,
    /// Separated by spaces.
    pub tags: Option<&'a str>,
    pub stream: bool,
    pub input_tokens_estimate: i64,
    pub outcome: RaceOutcome,
    /// First payload byte sent to the client; microseconds since the request was read.
    pub client_ttft_us: Option<i64>,
    /// Whether this attempt served it. None: no attempt did.
    pub served: Option<bool>,
}

impl RequestFacts<'_> {
    /// The race ended without an answer.
    pub fn is_unserved(&self) -> bool {
        self.served.is_none() && self.outcome != RaceOutcome::ClientGone
    }
}
