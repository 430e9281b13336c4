//! The simple rule of `adaptive` with a small budget: the best prediction first, and the second as a hedge after 1.5 predicted
//! medians or more. Below three per cent it gains more than the optimiser, whose λ is then hardly known. Not for weighing money against time.

use super::question::{AdaptiveQuestion, AttemptView, CandidateOrder, EMPTY_AGAIN_US, NextDecision, Opening};
use super::value::{CandidateScores, SurvivalWeights};
use photofinish_facts::reason::DecisionReason;

/// A hedge starts after this many predicted medians of the previous attempt, and up to one more the emptier the bucket is.
const HEDGE_MEDIANS: f64 = 1.5;

/// Like [`open`](super::adaptive::open()).
pub fn open(question: &AdaptiveQuestion<'_>) -> Opening {
    let scores = scores(question);
    let ordered = &scores.best;
    let unknown = ordered.iter().find(|place| question.candidates[*place].forecast.is_unknown(question.now));
    let primary = unknown.or(ordered.first()).unwrap_or(0);
    let (next, why) = hedge(question, &scores, &[AttemptView::waiting(primary, 0)]);
    let hedge_at_us = if let NextDecision::AskAgain { after_us } = next { Some(after_us) } else { None };
    let hedge = hedge_at_us.and(ordered.iter().find(|place| *place != primary));
    Opening { primary, also: CandidateOrder::default(), hedge_at_us, hedge, why }
}

/// Like [`next`](super::adaptive::next()).
pub fn next(question: &AdaptiveQuestion<'_>, running: &[AttemptView]) -> (NextDecision, DecisionReason) {
    hedge(question, &scores(question), running)
}

/// By the optimiser's weights: there are few hedges to make up for a primary with stragglers. Where there is none at all, by the mean.
fn scores(question: &AdaptiveQuestion<'_>) -> CandidateScores {
    let may_hedge = question.terms.budget > 0.0;
    let weights = if may_hedge { SurvivalWeights::new(question) } else { SurvivalWeights::alone(question) };
    CandidateScores::new(question, &weights)
}

fn hedge(
    question: &AdaptiveQuestion<'_>,
    scores: &CandidateScores,
    running: &[AttemptView],
) -> (NextDecision, DecisionReason) {
    let ordered = &scores.best;
    let Some(latest) = running.iter().min_by_key(|running| running.waited_us) else {
        return (ordered.first().map_or(NextDecision::Never, NextDecision::Start), DecisionReason::Rule);
    };
    let best = ordered.iter().find(|place| question.may_join(*place, running));
    let Some(best) = best.filter(|_| running.len() < question.max_running && question.terms.budget > 0.0) else {
        return (NextDecision::Never, DecisionReason::Alone);
    };
    // It would make the queues longer.
    if scores.queue {
        return (NextDecision::AskAgain { after_us: EMPTY_AGAIN_US }, DecisionReason::Rule);
    }
    // The emptier the bucket, the later: what is left is for those that wait longest.
    let level = question.terms.bucket / question.terms.capacity.max(f64::MIN_POSITIVE);
    let medians = HEDGE_MEDIANS + 1.0 - level.clamp(0.0, 1.0);
    let patience_us = question
        .candidates
        .get(latest.candidate)
        .map(|candidate| (candidate.forecast.median_us(candidate.sent, question.now) * medians) as i64);
    match patience_us.map(|patience_us| patience_us - latest.waited_us) {
        Some(after_us) if after_us > 0 => (NextDecision::AskAgain { after_us }, DecisionReason::Rule),
        _ if question.candidates[best].cost > question.terms.bucket => {
            (NextDecision::AskAgain { after_us: EMPTY_AGAIN_US }, DecisionReason::Budget)
        }
        _ => (NextDecision::Start(best), DecisionReason::Rule),
    }
}
