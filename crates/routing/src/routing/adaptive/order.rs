//! The candidates from best to worst, for `fastest` and for the next after a failure. Not for hedging.

use super::predict::SurvivalWeights;
use super::scores::CandidateScores;
use super::{AdaptiveQuestion, CandidateOrder};

/// The startable candidates, best for the aim first; equal ones by cost, then as listed.
pub fn order(question: &AdaptiveQuestion<'_>) -> CandidateOrder {
    CandidateScores::new(question, &SurvivalWeights::alone(question)).best
}
