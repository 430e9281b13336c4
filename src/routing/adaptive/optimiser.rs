//! The decision: whom to start at arrival, and whom at a timer or after a failure, weighing time against money.

use super::{Next, Opening, Question, Running, Why, rule};

/// At a request's arrival. With no candidate that can be started the answer names the first.
pub fn open(question: &Question<'_>) -> Opening {
    rule::open(question)
}

/// At a timer, or after a failure. With none running it names the best that is left.
pub fn next(question: &Question<'_>, running: &[Running]) -> (Next, Why) {
    rule::next(question, running)
}
