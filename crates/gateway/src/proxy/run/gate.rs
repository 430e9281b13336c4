//! The gate: whether the limits of its caller let a request begin, and what each of its attempts reserves. Not for the state of the
//! limits: see `limits` of the routing crate.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError};

use crate::attempt::JobCost;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::request::candidate_set::CandidateSet;
use crate::proxy::state::gateway::Gateway;
use photofinish_base::clock::wall_micros;
use photofinish_config::offerings::ModelCatalogue;
use photofinish_config::{CancelBilling, ModelPattern, Unpriced, UpstreamConfig, nano_usd};
use photofinish_facts::record::{AttemptRecord, RaceOutcome, RaceRecord, Record};
use photofinish_facts::recording::RacePayer;
use photofinish_limits::{
    Admission, AnswerLengths, AttemptCost, AttemptReservation, Hold, KnownCost, LimitClock, LimitLevels, LimitRefusal,
    OwnLengths, admit,
};
use photofinish_routing::health::Candidate;
use photofinish_routing::learning::Learning;
use photofinish_translation::ApiRequest;

/// The longest answer of a model of which nothing is known, in tokens.
const LONGEST: f64 = 128_000.0;
/// Of the `max_tokens` that a request sends, at least this part is reserved.
const PART_OF_ASKED: f64 = 10.0;
/// Answers that become this many times longer than usual still cost no more than half a budget too much.
const FAR_LONGER: f64 = 15.0;

/// Whose answers, and how many of them one request asks for.
#[derive(Clone, Copy, Debug)]
pub struct AnswerKind {
    /// As hashes.
    caller_and_model: (u64, u64),
    answers: f64,
}

impl AnswerKind {
    /// Of a request whose answer teaches nothing.
    pub const NONE: AnswerKind = AnswerKind { caller_and_model: (0, 0), answers: 1.0 };
}

/// What the attempts of one request reserve.
pub struct Gate {
    admission: Admission,
    answer: AnswerBounds,
    of: AnswerKind,
    job: Option<JobCost>,
    /// From which an unknown price is assumed. None: nothing is limited.
    catalogue: Option<Arc<ModelCatalogue>>,
    /// It asks for what is stored, which was charged when it was made.
    is_call: bool,
}

/// How long its answer may be, in tokens.
#[derive(Clone, Copy, Debug)]
struct AnswerBounds {
    /// What 95 of 100 answers of the model stay below.
    usual: f64,
    /// The same of its caller's.
    own: Option<OwnLengths>,
    /// What the request allows.
    asked: Option<f64>,
    choices: f64,
    /// Its prompt may be kept for an hour.
    for_hour: bool,
}

impl AnswerBounds {
    fn of(request: &ApiRequest, usual: f64, own: Option<OwnLengths>) -> AnswerBounds {
        let choices = request.answers();
        let asked = request.max_tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens as f64 * choices);
        let for_hour = request.asks_hour();
        match request.surface.embeds() || request.call().is_some() {
            true => AnswerBounds { usual: 0.0, own: None, asked: Some(0.0), choices, for_hour },
            false => AnswerBounds { usual: usual * choices, own, asked, choices, for_hour },
        }
    }

    fn usual(self) -> f64 {
        self.asked.map_or(self.usual, |asked| asked.min(self.usual))
    }

    /// What 95 of 100 answers of its caller stay below.
    fn own(self) -> f64 {
        self.own.map_or(0.0, |own| f64::from(own.p95) * self.choices)
    }

    /// What is reserved of it: as much as it may have, until its caller has had enough answers of this model; then its own usual, and a part
    /// of what it asks for.
    fn expected(self, longest: f64) -> f64 {
        match self.own.is_some_and(|own| own.is_known) {
            true => self.own().max(self.asked.unwrap_or(0.0) / PART_OF_ASKED).min(longest),
            false => longest,
        }
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
    pub async fn pass(
        gateway: &Gateway,
        levels: LimitLevels,
        request: &ApiRequest,
        candidates: &mut CandidateSet,
        caller: u64,
    ) -> Result<Gate, Rejection> {
        if levels.is_empty() || request.surface.counts() {
            let answer = AnswerBounds { usual: 0.0, own: None, asked: None, choices: 1.0, for_hour: false };
            return Ok(Gate {
                admission: Admission::unlimited(),
                answer,
                of: AnswerKind::NONE,
                job: None,
                catalogue: None,
                is_call: false,
            });
        }
        let levels = for_models(gateway, levels, request, candidates);
        let mut model = DefaultHasher::new();
        candidates.model.hash(&mut model);
        let of = AnswerKind { caller_and_model: (caller, model.finish()), answers: request.answers() };
        let learning = gateway.learning();
        let budget = learning.cost_budget(&candidates.model, candidates.settings.budget, candidates.basis.is_money());
        let usual = budget.lock().unwrap_or_else(PoisonError::into_inner).answer_p95();
        let answer = AnswerBounds::of(request, usual, gateway.usage().lengths().of(of.caller_and_model));
        let catalogue = gateway.live().config.catalogue.clone();
        let cost = |candidate| cost((learning, Some(&catalogue)), (answer, &levels), candidate, request.len());
        let costs: Vec<AttemptCost> = candidates.each().map(cost).collect();
        let input = candidates.each().map(|candidate| input(learning, candidate, request.len()));
        let tokens = (input.fold(0.0, f64::max) + answer.usual()).ceil() as u64;
        let (admission, allowed) = enter_in_turn(gateway, levels, tokens, &costs).await?;
        candidates.keep(&allowed);
        let (job, catalogue) = (candidates.job.clone(), Some(catalogue));
        Ok(Gate { admission, answer, of, job, catalogue, is_call: request.call().is_some() })
    }

    /// Of what its answer teaches the length.
    pub fn of(&self) -> AnswerKind {
        self.of
    }

    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The right to start an attempt with a request of this number of bytes. None: a budget does not have that much left.
    pub fn reserve(
        &self,
        learning: &Learning,
        candidate: &Candidate,
        ordinal: usize,
        bytes: usize,
    ) -> Option<AttemptReservation> {
        self.admission.reserve(&candidate.name, ordinal, |levels| {
            let catalogue = self.catalogue.as_deref();
            let mut cost = cost((learning, catalogue), (self.answer, levels), candidate, bytes);
            match &self.job {
                Some(job) if self.is_call => cost.paid = job.charged(),
                Some(job) => job.charge(cost),
                None => {}
            }
            cost
        })
    }
}

/// As [`enter`]. What others' answers hold it waits for, in turn and for a moment.
async fn enter_in_turn(
    gateway: &Gateway,
    levels: LimitLevels,
    tokens: u64,
    costs: &[AttemptCost],
) -> Result<(Admission, Vec<bool>), Rejection> {
    let ask = || {
        let now = LimitClock { us: gateway.learning().now_us(), wall_us: wall_micros() };
        admit(levels.clone(), tokens, costs, now)
    };
    // What costs nothing does not wait.
    let asks_free = levels.iter().any(|level| level.limits().unpriced == Unpriced::Free);
    let is_paid = costs.iter().all(|cost| cost.max > 0 && !cost.own_key && !(cost.unpriced && asks_free));
    let lines = gateway.budget_lines();
    let held = match lines.waited_in(&levels).filter(|_| is_paid) {
        Some(level) => level,
        None => match ask() {
            Err(refusal) if refusal.is_held() => refusal.level,
            entered => return entered.map_err(|refusal| refused(gateway, &refusal)),
        },
    };
    let waited = lines.wait(&held, || {
        ask().map_or_else(|why| if why.is_held() { None } else { Some(Err(why)) }, |in_| Some(Ok(in_)))
    });
    waited.await.unwrap_or_else(ask).map_err(|refusal| refused(gateway, &refusal))
}

fn refused(gateway: &Gateway, refusal: &LimitRefusal) -> Rejection {
    gateway.totals().limited.count(&refusal.level, refusal.by.as_str());
    Rejection::limited(refusal)
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
    admit(levels, tokens, costs, now).map_err(|refusal| refused(gateway, &refusal))
}

/// With what they may spend on the models of these candidates.
fn for_models(gateway: &Gateway, levels: LimitLevels, request: &ApiRequest, candidates: &CandidateSet) -> LimitLevels {
    if levels.iter().all(|level| level.limits().model_budgets.is_empty()) {
        return levels;
    }
    let live = gateway.live();
    let asked = live.config.model(&request.model);
    let is_about = |models: &ModelPattern, candidate: &Candidate| {
        let of_model = live.config.names_of(asked, &candidate.upstream);
        of_model.chain([candidate.name.as_str(), &candidate.upstream.model]).any(|name| models.matches(name))
    };
    levels.with_models(gateway.usage(), |models| {
        let only = candidates.each().filter(|candidate| is_about(models, candidate));
        let only: Vec<String> = only.map(|candidate| candidate.name.clone()).collect();
        (!only.is_empty()).then_some(only)
    })
}

/// What an attempt there may cost.
fn cost(
    (learning, catalogue): (&Learning, Option<&ModelCatalogue>),
    (answer, levels): (AnswerBounds, &LimitLevels),
    candidate: &Candidate,
    bytes: usize,
) -> AttemptCost {
    let Candidate { upstream, keys, name, .. } = candidate;
    let (own_key, outside) = (keys.first().is_some_and(|key| key.pays), levels.outside(name));
    let assumed = || catalogue.and_then(|catalogue| upstream.assumed_price(catalogue));
    let Some(price) = upstream.price.or_else(assumed) else {
        return AttemptCost { unpriced: true, own_key, outside, ..AttemptCost::default() };
    };
    let (input, for_hour) = (input(learning, candidate, bytes), answer.for_hour && price.keeps_dearer());
    let longest = answer.longest(upstream).max(answer.usual());
    let of = |output: f64| nano_usd(price.most_usd(input, output.min(longest), for_hour));
    let (is_known, max) = (answer.own.is_some_and(|own| own.is_known), of(longest));
    let likely = of(if is_known { answer.own() } else { answer.usual().max(answer.own()) });
    AttemptCost {
        usual: of(answer.expected(longest)),
        max,
        likely,
        least: (!is_known).then_some(likely),
        exposed: if is_known { of(FAR_LONGER * answer.own()) } else { max },
        prompt: of(0.0),
        token: (max - of(0.0)) as f64 / longest.max(1.0),
        until_cut: upstream.provider.cancel_billing == CancelBilling::Stops,
        unpriced: upstream.price.is_none(),
        own_key,
        outside,
        ..AttemptCost::default()
    }
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
    lengths: Arc<AnswerLengths>,
    of: AnswerKind,
}

impl GatePayer {
    pub fn new(gateway: &Gateway, hold: Arc<Hold>, of: AnswerKind) -> GatePayer {
        let (learning, lengths) = (gateway.learning().clone(), gateway.usage().lengths().clone());
        GatePayer { hold, learning, lengths, of }
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
                // What its client left early was shorter than it is.
                if race.is_some_and(|race| is_whole_answer(race, row)) {
                    self.lengths.add(self.of.caller_and_model, (output(row) as f64 / self.of.answers).ceil() as u64);
                }
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
    input.max(0).unsigned_abs() + output(row)
}

/// It is all that its client asked for: what was left, or finished by another upstream, was longer.
fn is_whole_answer(race: &RaceRecord, row: &AttemptRecord) -> bool {
    let is_alone = race.winner == Some(row.ordinal) && race.rescued_by.is_none();
    race.outcome == RaceOutcome::Ok && is_alone && output(row) > 0
}

fn output(row: &AttemptRecord) -> u64 {
    row.output_tokens.unwrap_or(row.chars_total / 4).max(0).unsigned_abs()
}
