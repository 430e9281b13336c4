//! The gate: whether the limits of its caller let a request begin, and what each of its attempts reserves. Not for the state of the
//! limits: see `limits` of the routing crate.

use std::sync::{Arc, PoisonError};

use crate::attempt::JobCost;
use crate::proxy::gateway::Gateway;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::request::candidate_set::CandidateSet;
use photofinish_config::config::{UpstreamConfig, nano_usd};
use photofinish_history::record::{AttemptRecord, RaceRecord};
use photofinish_history::recorder::RacePayer;
use photofinish_history::store::Record;
use photofinish_routing::health::Candidate;
use photofinish_routing::learning::Learning;
use photofinish_routing::limits::{
    Admission, AttemptCost, AttemptReservation, Hold, KnownCost, LimitClock, LimitLevels, admit,
};
use photofinish_wire::ApiRequest;

/// The longest answer of a model of which nothing is known, in tokens.
const LONGEST: f64 = 128_000.0;

/// What the attempts of one request reserve.
pub struct Gate {
    admission: Admission,
    answer: AnswerBounds,
    job: Option<JobCost>,
    /// It asks for what is stored, which was charged when it was made.
    is_call: bool,
}

/// How long its answer may be, in tokens.
#[derive(Clone, Copy, Debug)]
struct AnswerBounds {
    /// What 95 of 100 answers stay below.
    usual: f64,
    /// What the request allows.
    asked: Option<f64>,
    choices: f64,
    /// Its prompt may be kept for an hour.
    for_hour: bool,
}

impl AnswerBounds {
    fn of(request: &ApiRequest, usual: f64) -> AnswerBounds {
        let choices = request.n_choices.unwrap_or(1).max(1) as f64;
        let asked = request.max_tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens as f64 * choices);
        let for_hour = request.asks_hour();
        match request.surface.embeds() || request.call().is_some() {
            true => AnswerBounds { usual: 0.0, asked: Some(0.0), choices, for_hour },
            false => AnswerBounds { usual: usual * choices, asked, choices, for_hour },
        }
    }

    fn usual(self) -> f64 {
        self.asked.map_or(self.usual, |asked| asked.min(self.usual))
    }

    fn longest(self, upstream: &UpstreamConfig) -> f64 {
        let of_model = upstream.offering.as_deref().and_then(|offering| offering.max_output).or(upstream.context);
        let of_model = of_model.map(|tokens| tokens as f64 * self.choices);
        [self.asked, of_model].into_iter().flatten().reduce(f64::min).unwrap_or(LONGEST * self.choices)
    }
}

impl Gate {
    /// Lets the request begin, or refuses it before anything is sent. Upstreams that its budgets do not allow leave the candidates.
    ///
    /// # Errors
    /// 429 or 403, which says what limits it.
    pub fn pass(
        gateway: &Gateway,
        levels: LimitLevels,
        request: &ApiRequest,
        candidates: &mut CandidateSet,
        now: LimitClock,
    ) -> Result<Gate, Rejection> {
        if levels.is_empty() || request.surface.counts() {
            let answer = AnswerBounds { usual: 0.0, asked: None, choices: 1.0, for_hour: false };
            return Ok(Gate { admission: Admission::unlimited(), answer, job: None, is_call: false });
        }
        let learning = gateway.learning();
        let budget = learning.cost_budget(&candidates.model, candidates.settings.budget, candidates.basis.is_money());
        let usual = budget.lock().unwrap_or_else(PoisonError::into_inner).answer_p95();
        let answer = AnswerBounds::of(request, usual);
        let costs: Vec<AttemptCost> =
            candidates.list.iter().map(|candidate| cost(learning, answer, candidate, request.len())).collect();
        let input = candidates.list.iter().map(|candidate| input(learning, candidate, request.len()));
        let tokens = (input.fold(0.0, f64::max) + answer.usual()).ceil() as u64;
        let (admission, allowed) = enter(gateway, levels, tokens, &costs, now)?;
        candidates.keep(&allowed);
        Ok(Gate { admission, answer, job: candidates.job.clone(), is_call: request.call().is_some() })
    }

    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The right to start an attempt with a request of so many bytes. None: a budget does not have that much left.
    pub fn reserve(
        &self,
        learning: &Learning,
        candidate: &Candidate,
        ordinal: usize,
        bytes: usize,
    ) -> Option<AttemptReservation> {
        self.admission.reserve(&candidate.name, ordinal, || {
            let mut cost = cost(learning, self.answer, candidate, bytes);
            match &self.job {
                Some(job) if self.is_call => cost.paid = job.charged(),
                Some(job) => job.charge(cost),
                None => {}
            }
            cost
        })
    }
}

/// Lets a request begin whose attempts may cost this; says which of them may start.
///
/// # Errors
/// As [`Gate::pass`].
pub fn enter(
    gateway: &Gateway,
    levels: LimitLevels,
    tokens: u64,
    costs: &[AttemptCost],
    now: LimitClock,
) -> Result<(Admission, Vec<bool>), Rejection> {
    admit(levels, tokens, costs, now).map_err(|refusal| {
        gateway.totals().limited.count(&refusal.level, refusal.by.as_str());
        Rejection::limited(&refusal)
    })
}

/// What an attempt there may cost.
fn cost(learning: &Learning, answer: AnswerBounds, candidate: &Candidate, bytes: usize) -> AttemptCost {
    let Candidate { upstream, keys, .. } = candidate;
    let own_key = keys.first().is_some_and(|key| key.pays);
    let Some(price) = upstream.price else {
        return AttemptCost { unpriced: true, own_key, ..AttemptCost::default() };
    };
    let (input, for_hour) = (input(learning, candidate, bytes), answer.for_hour && price.keeps_dearer());
    let [usual, max] =
        [answer.usual(), answer.longest(upstream)].map(|output| nano_usd(price.most_usd(input, output, for_hour)));
    AttemptCost { usual, max: max.max(usual), own_key, ..AttemptCost::default() }
}

/// Tokens of its prompt.
fn input(learning: &Learning, candidate: &Candidate, bytes: usize) -> f64 {
    let tokens = learning.most_tokens(&candidate.name, bytes);
    candidate.upstream.context.map_or(tokens, |context| tokens.min(context as f64))
}

/// Settles what a race took of its caller's limits.
pub struct GatePayer {
    hold: Arc<Hold>,
    learning: Arc<Learning>,
}

impl GatePayer {
    pub fn new(gateway: &Gateway, hold: Arc<Hold>) -> GatePayer {
        GatePayer { hold, learning: gateway.learning().clone() }
    }
}

impl RacePayer for GatePayer {
    fn settled(&self, rows: &[Record]) {
        let race = rows.iter().find_map(|row| if let Record::Race(race) = row { Some(&**race) } else { None });
        let mut tokens = 0;
        for row in rows {
            if let Record::Attempt(row) = row {
                self.hold.book(row.ordinal, KnownCost::of(row));
                tokens += race.map_or(0, |race| delivered(race, row));
            }
        }
        self.hold.count_tokens(tokens, self.learning.now_us());
    }
}

/// Tokens of this attempt that the client got, with those of its prompt.
fn delivered(race: &RaceRecord, row: &AttemptRecord) -> u64 {
    if ![race.winner, race.rescued_by].contains(&Some(row.ordinal)) {
        return 0;
    }
    let input = row.input_tokens.unwrap_or(race.input_tokens_estimate);
    let output = row.output_tokens.unwrap_or(row.chars_total / 4);
    input.max(0).unsigned_abs() + output.max(0).unsigned_abs()
}
