//! The question and answer types of one decision. Not for deciding.

use crate::forecast::{LatencyForecast, SendConditions};
use crate::money::BudgetSnapshot;
use photofinish_base::clock::micros;
use photofinish_config::{Objective, RaceSettings};
use photofinish_facts::reason::DecisionReason;

/// Candidates of one decision; more are not looked at.
pub const CANDIDATES_MAX: usize = 16;

/// What the rest of an answer counts for a client that reads it as it comes: most write faster than people read.
pub const READING: f64 = 0.15;

/// What a decision minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Minimise {
    /// The time to the first token, its tail most of all.
    #[default]
    Ttft,
    /// The time to the first token, and this share of the time from it to the end of a usual answer.
    Both { rest: f64 },
    /// The time to the whole answer.
    Completion,
    /// The share of requests that miss either limit.
    Goodput {
        /// From the request to the first token, µs.
        ttft_us: i64,
        /// Between two tokens, µs.
        tpot_us: i64,
    },
}

impl Minimise {
    /// The aim of a race's settings. `for_answer`: the client can do nothing before the whole answer is there.
    pub fn of(settings: &RaceSettings, for_answer: bool) -> Minimise {
        match settings.optimise {
            Objective::Auto => Minimise::Both { rest: if for_answer { 1.0 } else { READING } },
            Objective::Ttft => Minimise::Ttft,
            Objective::Completion => Minimise::Completion,
            Objective::Goodput => {
                Minimise::Goodput { ttft_us: micros(settings.slo.ttft), tpot_us: micros(settings.slo.tpot) }
            }
        }
    }
}

/// What a unit of cost is worth, µs of a client's waiting: by `second_worth` if costs are US dollars, else 0.
pub fn us_per_cost(settings: &RaceSettings, in_usd: bool) -> f64 {
    if in_usd { 1e6 / settings.second_worth } else { 0.0 }
}

/// An upstream that may serve the request.
#[derive(Clone, Copy, Debug)]
pub struct CandidateForecast<'a> {
    pub forecast: &'a LatencyForecast,
    pub sent: SendConditions,
    /// Cost of an attempt that is started and cut: its prompt, and half a usual answer if a cancelled one is billed in full. In money,
    /// or in tokens if no price is known.
    pub cost: f64,
    /// Cost of a usual answer to this prompt, in the same unit.
    pub price: f64,
    /// Candidates of one domain never hedge each other: what slows one slows the other.
    pub domain: Option<u32>,
    /// It cannot start: it runs or failed in this race, or cools down.
    pub out: bool,
    /// It fails so often that no hedge goes to it.
    pub throttled: bool,
}

impl CandidateForecast<'_> {
    /// Usual time between two tokens, µs.
    pub(crate) fn tpot_us(&self) -> f64 {
        self.forecast.tpot_us(self.sent.in_flight).unwrap_or(TPOT_US)
    }
}

/// Time between two tokens of an upstream without timed answers, µs.
pub const TPOT_US: f64 = 20_000.0;

/// Pause before an empty budget is checked again, or whether one more rescue may start, µs.
pub const EMPTY_AGAIN_US: i64 = 500_000;

/// One decision to take.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveQuestion<'a> {
    /// At most [`CANDIDATES_MAX`]; the answer names them by their index.
    pub candidates: &'a [CandidateForecast<'a>],
    pub aim: Minimise,
    pub terms: BudgetSnapshot,
    /// p99 of what the client waits for, µs.
    pub p99_us: f64,
    /// The least time between two tokens of a candidate, µs.
    pub tpot_least_us: f64,
    /// See [`us_per_cost`].
    pub us_per_cost: f64,
    /// Attempts that may wait for their first token at once.
    pub max_running: usize,
    pub now: i64,
    /// Since the request arrived, µs.
    pub elapsed_us: i64,
}

/// A running attempt of this race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptView {
    pub candidate: usize,
    /// Since it was sent, µs.
    pub waited_us: i64,
    /// From sending to the first token, µs; none before that token.
    pub first_token_us: Option<i64>,
    /// Tokens received so far.
    pub tokens: i64,
}

impl AttemptView {
    /// An attempt without a first token.
    pub fn waiting(candidate: usize, waited_us: i64) -> AttemptView {
        AttemptView { candidate, waited_us, first_token_us: None, tokens: 0 }
    }
}

/// The answer at a request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Started at once.
    pub primary: usize,
    /// Started with the primary, each if the budget allows it: upstreams with too few samples.
    pub also: CandidateOrder,
    /// When to ask [`next`](super::adaptive::next()), µs from now; none: only after a failure.
    pub hedge_at_us: Option<i64>,
    /// The candidate that would start then, by the present forecast.
    pub hedge: Option<usize>,
    pub why: DecisionReason,
}

/// The answer at a timer, or after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextDecision {
    /// Start it, if the budget allows it. With nothing running it is not extra and needs no reservation.
    Start(usize),
    /// Ask again so much later, µs, at least 1.
    AskAgain { after_us: i64 },
    /// No extra attempt is worth its cost, unless one fails.
    Never,
}

/// Some of a question's candidates, in an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CandidateOrder {
    list: [u8; CANDIDATES_MAX],
    len: u8,
}

impl CandidateOrder {
    /// Leaves out what goes beyond [`CANDIDATES_MAX`].
    pub fn push(&mut self, candidate: usize) {
        if let (Some(place), Ok(candidate)) = (self.list.get_mut(usize::from(self.len)), u8::try_from(candidate)) {
            *place = candidate;
            self.len += 1;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.list.iter().take(self.len()).map(|candidate| usize::from(*candidate))
    }

    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    pub fn contains(&self, candidate: usize) -> bool {
        self.iter().any(|other| other == candidate)
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl FromIterator<usize> for CandidateOrder {
    fn from_iter<I: IntoIterator<Item = usize>>(candidates: I) -> CandidateOrder {
        let mut picks = CandidateOrder::default();
        candidates.into_iter().for_each(|candidate| picks.push(candidate));
        picks
    }
}

impl AdaptiveQuestion<'_> {
    /// The candidates that can be started, with their places.
    pub(crate) fn able(&self) -> impl Iterator<Item = (usize, &CandidateForecast<'_>)> {
        self.candidates.iter().enumerate().take(CANDIDATES_MAX).filter(|(_, candidate)| !candidate.out)
    }

    /// Candidates that may start while these attempts run.
    pub(crate) fn joinable<'q>(
        &'q self,
        running: &'q [AttemptView],
    ) -> impl Iterator<Item = (usize, &'q CandidateForecast<'q>)> {
        self.able().filter(|(place, _)| self.may_join(*place, running))
    }

    /// Whether this candidate may start while these attempts run.
    pub(crate) fn may_join(&self, place: usize, running: &[AttemptView]) -> bool {
        let Some(candidate) = self.candidates.get(place) else { return false };
        let apart = |other: &AttemptView| {
            let domain = self.candidates.get(other.candidate).and_then(|other| other.domain);
            other.candidate != place && (domain.is_none() || domain != candidate.domain)
        };
        !candidate.out && !candidate.throttled && running.iter().all(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_keep_their_order_and_their_bound() {
        let picks: CandidateOrder = (0..40).rev().collect();
        assert_eq!(picks.len(), CANDIDATES_MAX);
        assert!(picks.iter().eq((24..40).rev()));
        assert!(picks.contains(24) && !picks.contains(23));
        assert_eq!((picks.first(), CandidateOrder::default().first()), (Some(39), None));
    }
}
