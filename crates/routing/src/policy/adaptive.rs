//! The decision of `adaptive`: which upstreams to start at arrival, at a timer and after a failure, weighing time against money. Not
//! for the simple rule, which decides with a small budget: that is `rule`.
//!
//! A hedge to `k` at time `a` gains what is still open at `a` and would be met by `k`. It costs `λ · cost / mean cost` with the
//! probability that it starts. Everything is a sum over one grid of times, and only likely optima are evaluated: the best two
//! candidates, and five timers around the primary's median.

use super::plan::RacePlan;
use super::question::{AdaptiveQuestion, AttemptView, CandidateOrder, NextDecision, Opening};
use super::rule;
use super::rules::{ExtraStarts, PolicyRules, PolicySetting};
use super::state::PolicyState;
use super::value::{self, AttemptForecast, CandidateScores, SurvivalWeights, share_of_mean};
use crate::forecast::grid::{self, GridRow, TIMES, grid};
use photofinish_config::RaceSettings;
use photofinish_facts::reason::DecisionReason;

/// Primaries that are tried at arrival.
const PRIMARIES: usize = 2;
/// Candidates that are tried as the hedge of each. At arrival the primary itself is one of them.
const HEDGE_CANDIDATES: usize = 2;
/// Timers of the first pass, and their distance in points of the grid.
const TIMERS: usize = 5;
const APART: usize = 3;
/// Points of the grid between the first timer and the median.
const EARLIER: usize = 2;
/// The least time until the next question, µs. It is also at least half of the time waited so far.
const AGAIN_US: i64 = 100_000;
/// The latest first question, µs: by then the attempt may hang.
const LATEST_US: i64 = 2_000_000;

/// From this budget on the optimiser decides, below it the simple rule, which needs no λ. At 2 % the rule gains more, at 5 % the
/// optimiser: see the section "Patience" of `docs/records/benchmarks.md`.
const OPTIMISED_FROM: f64 = 0.03;

pub struct Adaptive;

impl PolicyRules for Adaptive {
    fn settings(&self) -> &'static [PolicySetting] {
        &[PolicySetting::Objective, PolicySetting::HoldMax, PolicySetting::Budget]
    }

    fn extras(&self, settings: &RaceSettings) -> ExtraStarts {
        ExtraStarts::within(settings)
    }

    fn tries_unknown(&self) -> bool {
        true
    }

    fn open(&self, state: &PolicyState, plan: &mut RacePlan, now_us: i64) {
        state.begin(plan, state.ask_first(now_us, open), now_us);
    }

    fn next(&self, question: &AdaptiveQuestion<'_>, running: &[AttemptView]) -> (NextDecision, DecisionReason) {
        next(question, running)
    }
}

/// At a request's arrival. With no candidate that can be started the answer names the first.
pub fn open(question: &AdaptiveQuestion<'_>) -> Opening {
    let weights = SurvivalWeights::new(question);
    let scores = CandidateScores::new(question, &weights);
    let Some(best) = scores.best.first() else {
        return Opening {
            primary: 0,
            also: CandidateOrder::default(),
            hedge_at_us: None,
            hedge: None,
            why: DecisionReason::Alone,
        };
    };
    if !scores.value[best].is_finite() {
        return rule::open(question);
    }
    let unknown: CandidateOrder =
        scores.best.iter().filter(|place| question.candidates[*place].forecast.is_unknown(question.now)).collect();
    if !unknown.is_empty() {
        return cold(question, &scores, &unknown);
    }
    if question.terms.budget < OPTIMISED_FROM {
        return rule::open(question);
    }
    if scores.queue {
        return opening(question, best, None);
    }
    let hedges = HedgeOptions::new(question, &scores, &scores.prospects[best], &[]);
    let mut chosen = (best, f32::INFINITY, None);
    for primary in scores.best.iter().take(PRIMARIES) {
        let running = [AttemptView::waiting(primary, 0)];
        let hedge = hedges.best(question, &weights, &scores.prospects[primary], &running);
        let total = scores.value[primary] - hedge.map_or(0.0, |hedge| hedge.gain);
        if total < chosen.1 {
            chosen = (primary, total, hedge);
        }
    }
    let (primary, _, hedge) = chosen;
    opening(question, primary, hedge)
}

/// The opening's first, then the others in the order in which they replace it if it fails.
pub fn starts(question: &AdaptiveQuestion<'_>) -> CandidateOrder {
    value::order_from(open(question).primary, question)
}

/// At a timer, or after a failure. With none running it names the best that is left.
pub fn next(question: &AdaptiveQuestion<'_>, running: &[AttemptView]) -> (NextDecision, DecisionReason) {
    if question.terms.budget < OPTIMISED_FROM {
        return rule::next(question, running);
    }
    let weights = SurvivalWeights::new(question);
    let scores = CandidateScores::new(question, &weights);
    let mut waiting = running.iter().filter_map(|running| {
        let candidate = question.candidates.get(running.candidate)?;
        Some(AttemptForecast::new(question, candidate, running.waited_us))
    });
    let Some(first) = waiting.next() else {
        return scores.best.first().map_or((NextDecision::Never, DecisionReason::Alone), |best| {
            (NextDecision::Start(best), DecisionReason::Best)
        });
    };
    if running.len() >= question.max_running {
        return (NextDecision::Never, DecisionReason::Best);
    }
    let all = waiting.fold(first, |all, other| all.with(&other));
    let later = NextDecision::AskAgain { after_us: (question.elapsed_us / 2).max(AGAIN_US) };
    if scores.queue {
        return (later, DecisionReason::Best);
    }
    let hedges = HedgeOptions::new(question, &scores, &all, running);
    match hedges.best(question, &weights, &all, running) {
        Some(hedge) if !affordable(question, hedge.candidate) => (later, DecisionReason::Budget),
        Some(HedgeChoice { candidate, from: None, .. }) => (NextDecision::Start(candidate), DecisionReason::Hedged),
        Some(hedge) => (NextDecision::AskAgain { after_us: hedge.after_us() }, DecisionReason::Hedge),
        None => match why_alone(question, running) {
            DecisionReason::Best => (later, DecisionReason::Best),
            why => (NextDecision::Never, why),
        },
    }
}

/// A hedge that pays.
#[derive(Clone, Copy)]
struct HedgeChoice {
    candidate: usize,
    /// The point of the grid at which it is started; none: now.
    from: Option<usize>,
    /// µs of weighed time, its cost taken off.
    gain: f32,
}

impl HedgeChoice {
    fn after_us(&self) -> i64 {
        self.from.map_or(1, |from| grid().times[from] as i64)
    }
}

/// The hedges that are looked at: what each would have met by each time, started now or at one of the timers.
struct HedgeOptions<'s> {
    scores: &'s CandidateScores,
    candidates: CandidateOrder,
    /// The first timer, a point of the grid.
    first: usize,
    met: [[GridRow; TIMERS]; HEDGE_CANDIDATES],
}

impl<'s> HedgeOptions<'s> {
    /// The best few candidates that may join `running`, and timers around the median of `leader`.
    fn new(
        question: &AdaptiveQuestion<'_>,
        scores: &'s CandidateScores,
        leader: &AttemptForecast,
        running: &[AttemptView],
    ) -> HedgeOptions<'s> {
        let median = leader.alive.partition_point(|alive| *alive > 0.5);
        // At arrival one of the same domain as the best would take the place of one that may run at the same time.
        let best = scores.best.iter().next().filter(|_| running.is_empty()).map(|best| [AttemptView::waiting(best, 0)]);
        let stands_apart = |place: &usize| {
            best.as_ref().is_none_or(|best| best[0].candidate == *place || question.may_join(*place, best))
        };
        let joinable = joinable(question, scores, running);
        let candidates: CandidateOrder = joinable.iter().filter(stands_apart).take(HEDGE_CANDIDATES).collect();
        let first = median.saturating_sub(EARLIER);
        let mut hedges = HedgeOptions { scores, candidates, first, met: [[[0.0; TIMES]; TIMERS]; HEDGE_CANDIDATES] };
        for (candidate, met) in candidates.iter().zip(&mut hedges.met) {
            for (timer, met) in met.iter_mut().enumerate() {
                if let Some(from) = point(first, timer) {
                    grid::met(&scores.prospects[candidate].missing, from, met);
                }
            }
        }
        hedges
    }

    /// The hedge with the largest gain over the running attempts `all`. None if none is worth its cost.
    fn best(
        &self,
        question: &AdaptiveQuestion<'_>,
        weights: &SurvivalWeights,
        all: &AttemptForecast,
        running: &[AttemptView],
    ) -> Option<HedgeChoice> {
        let now = all.open_at(weights, None);
        let later: [GridRow; TIMERS] = std::array::from_fn(|timer| all.open_at(weights, point(self.first, timer)));
        let (mut at_once, mut at_timer): (Option<HedgeChoice>, Option<HedgeChoice>) = (None, None);
        for (candidate, met) in self.candidates.iter().zip(&self.met) {
            if !question.may_join(candidate, running) {
                continue;
            }
            let price = self.price(question, weights, candidate, running);
            let missing = &self.scores.prospects[candidate].missing;
            let gain = grid::dot(&now, &missing.map(|missing| 1.0 - missing)) - price;
            at_once = better(at_once, HedgeChoice { candidate, from: None, gain });
            for (timer, (open, met)) in later.iter().zip(met).enumerate() {
                let Some(from) = point(self.first, timer) else { break };
                let gain = grid::dot(open, met) - price * all.alive[from];
                at_timer = better(at_timer, HedgeChoice { candidate, from: Some(from), gain });
            }
        }
        let at_once = at_once?;
        let best = at_timer.filter(|at_timer| at_timer.gain > at_once.gain).unwrap_or(at_once);
        (best.gain > 0.0).then_some(best)
    }

    /// The gain that pays for a hedge, µs: its cost by λ, what its answer would cost more than that of the cheapest running attempt,
    /// what other attempts at its upstream lose by it, and what a break of its answer costs.
    fn price(
        &self,
        question: &AdaptiveQuestion<'_>,
        weights: &SurvivalWeights,
        candidate: usize,
        running: &[AttemptView],
    ) -> f32 {
        let hedge = &question.candidates[candidate];
        let prices = running.iter().filter_map(|attempt| Some(question.candidates.get(attempt.candidate)?.price));
        let dearer = (hedge.price - prices.fold(hedge.price, f64::min)) * question.us_per_cost;
        let slows = hedge.forecast.load.burden(hedge.sent.in_flight) as f32;
        let lost = slows * weights.cost(&self.scores.prospects[candidate].alive);
        let breaks = weights.breaks(question, hedge);
        question.terms.lambda_us as f32 * share_of_mean(question, hedge.cost) + dearer as f32 + lost + breaks
    }
}

/// The timer's point of the grid.
fn point(first: usize, timer: usize) -> Option<usize> {
    Some(first + timer * APART).filter(|point| *point < TIMES)
}

fn better(one: Option<HedgeChoice>, other: HedgeChoice) -> Option<HedgeChoice> {
    one.filter(|one| one.gain >= other.gain).or(Some(other))
}

/// Candidates that may join the running attempts, best first.
fn joinable(question: &AdaptiveQuestion<'_>, scores: &CandidateScores, running: &[AttemptView]) -> CandidateOrder {
    scores.best.iter().filter(|place| question.may_join(*place, running)).collect()
}

fn opening(question: &AdaptiveQuestion<'_>, primary: usize, hedge: Option<HedgeChoice>) -> Opening {
    let alone =
        Opening { primary, also: CandidateOrder::default(), hedge_at_us: None, hedge: None, why: DecisionReason::Best };
    let running = [AttemptView::waiting(primary, 0)];
    if question.max_running < 2 {
        return alone;
    }
    let Some(hedge) = hedge else {
        let why = why_alone(question, &running);
        return Opening { why, hedge_at_us: (why == DecisionReason::Best).then_some(LATEST_US), ..alone };
    };
    if !affordable(question, hedge.candidate) {
        let hedge_at_us = Some(hedge.after_us().max(AGAIN_US));
        return Opening { why: DecisionReason::Budget, hedge_at_us, ..alone };
    }
    let hedge_at_us = Some(hedge.after_us());
    Opening { hedge_at_us, hedge: Some(hedge.candidate), why: DecisionReason::Hedge, ..alone }
}

/// Unknown upstreams are tried alongside the best, as many as may run and the bucket holds. If it holds none, one is tried in place of
/// the best, which costs nothing extra.
fn cold(question: &AdaptiveQuestion<'_>, scores: &CandidateScores, unknown: &CandidateOrder) -> Opening {
    let best = scores.best.first().unwrap_or(0);
    let with_best = cold_with_best(question, scores, unknown, best);
    // Without another attempt behind it a request is not one to try with.
    let instead = with_best.is_empty() && question.max_running > 1;
    let primary = if instead { unknown.first().unwrap_or(best) } else { best };
    let also = if primary == best { with_best } else { CandidateOrder::default() };
    let running = [AttemptView::waiting(primary, 0)];
    let all = &scores.prospects[primary];
    let hedge = HedgeOptions::new(question, scores, all, &running).best(
        question,
        &SurvivalWeights::new(question),
        all,
        &running,
    );
    Opening { also, why: DecisionReason::Cold, ..opening(question, primary, hedge) }
}

fn cold_with_best(
    question: &AdaptiveQuestion<'_>,
    scores: &CandidateScores,
    unknown: &CandidateOrder,
    best: usize,
) -> CandidateOrder {
    let mut also = CandidateOrder::default();
    let mut left = question.terms.bucket;
    let running = [AttemptView::waiting(best, 0)];
    for place in joinable(question, scores, &running).iter().filter(|place| unknown.contains(*place)) {
        let cost = question.candidates[place].cost;
        if also.len() + 1 < question.max_running && cost <= left {
            also.push(place);
            left -= cost;
        }
    }
    also
}

fn affordable(question: &AdaptiveQuestion<'_>, place: usize) -> bool {
    question.candidates[place].cost <= question.terms.bucket.max(0.0)
}

/// Why there is no hedge.
fn why_alone(question: &AdaptiveQuestion<'_>, running: &[AttemptView]) -> DecisionReason {
    if question.joinable(running).next().is_some() {
        return DecisionReason::Best;
    }
    let others = || question.able().filter(|(place, _)| running.iter().all(|running| running.candidate != *place));
    if others().any(|(_, candidate)| candidate.throttled) { DecisionReason::Throttled } else { DecisionReason::Alone }
}

#[cfg(test)]
mod tests;
