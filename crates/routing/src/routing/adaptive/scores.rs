//! What each candidate is worth alone, for all who choose among candidates. Not for hedges: see `optimiser`.

use super::predict::{AttemptForecast, SurvivalWeights};
use super::{AdaptiveQuestion, CANDIDATES_MAX, CandidateOrder};

/// A candidate of mean price counts as slower by this share of its predicted time. So the cheaper of two equal ones is taken although
/// their predictions differ by chance.
const DEARER: f32 = 0.1;

/// The value of each candidate alone.
pub(super) struct CandidateScores {
    /// Weighed time, and a little for its cost.
    pub(super) value: [f32; CANDIDATES_MAX],
    pub(super) prospects: [AttemptForecast; CANDIDATES_MAX],
    /// Startable candidates, best first.
    pub(super) best: CandidateOrder,
}

impl CandidateScores {
    pub(super) fn new(question: &AdaptiveQuestion<'_>, weights: &SurvivalWeights) -> CandidateScores {
        let mut scores = CandidateScores {
            value: [f32::INFINITY; CANDIDATES_MAX],
            prospects: [AttemptForecast::NONE; CANDIDATES_MAX],
            best: CandidateOrder::default(),
        };
        let mut order = [(f32::INFINITY, 0_usize); CANDIDATES_MAX];
        let mut count = 0;
        for (place, candidate) in question.able() {
            let prospect = &mut scores.prospects[place];
            *prospect = AttemptForecast::new(question, candidate, 0);
            let dearer = DEARER * share_of_mean(question, candidate.price);
            scores.value[place] =
                weights.cost(&prospect.missing) * (1.0 + dearer) + (candidate.price * question.us_per_cost) as f32;
            order[count] = (scores.value[place], place);
            count += 1;
        }
        let order = &mut order[..count];
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        scores.best = order.iter().map(|(_, place)| *place).collect();
        scores
    }
}

pub(super) fn share_of_mean(question: &AdaptiveQuestion<'_>, cost: f64) -> f32 {
    if question.terms.mean_cost > 0.0 { (cost.max(0.0) / question.terms.mean_cost) as f32 } else { 0.0 }
}
