//! The candidates from best to worst: for `fastest`, and for who is next after a failure. Not for hedging.

use super::optimiser::Scores;
use super::predict::Weights;
use super::{Picks, Question};

/// Those that can be started, the best for the aim first; of equal ones the cheaper, then the one listed first.
pub fn order(question: &Question<'_>) -> Picks {
    Scores::new(question, &Weights::alone(question)).best
}
