//! The candidates from best to worst: for `fastest`, and for who is next after a failure. Not for hedging.

use super::optimiser::CandidateScores;
use super::predict::SurvivalWeights;
use super::{AdaptiveQuestion, CandidateOrder};

/// Those that can be started, the best for the aim first; of equal ones the cheaper, then the one listed first.
pub fn order(question: &AdaptiveQuestion<'_>) -> CandidateOrder {
    CandidateScores::new(question, &SurvivalWeights::alone(question)).best
}
