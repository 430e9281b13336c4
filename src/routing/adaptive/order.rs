//! The candidates from best to worst: for `fastest`, and for who is next after a failure. Not for hedging.

use super::{Picks, Question};

/// Those that can be started, the best first; of equal ones the cheaper, then the one listed first.
pub fn order(question: &Question<'_>) -> Picks {
    let mut left: Picks = question.able().map(|(place, _)| place).collect();
    let mut ordered = Picks::default();
    let median = |place: usize| {
        let candidate = &question.candidates[place];
        candidate.outlook.ttft_quantile_us(candidate.sent, 0.5, question.now).unwrap_or(f64::INFINITY)
    };
    while let Some(best) = left.iter().min_by(|one, other| median(*one).total_cmp(&median(*other))) {
        ordered.push(best);
        left = left.iter().filter(|place| *place != best).collect();
    }
    ordered
}
