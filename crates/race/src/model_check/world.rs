//! What the attempts of a modelled race do.

use std::time::Duration;

use photofinish_base::failure::FailureKind;

/// The behaviour of one candidate at each start.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Until its first token, or until it fails.
    pub delay: Duration,
    pub behaviour: Behaviour,
    /// From its first token to its whole answer.
    pub lasts: Duration,
    /// It breaks this long after its first token, unless its answer is complete by then.
    pub breaks: Option<Duration>,
    /// The Retry-After of its failure.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    Ready,
    Fail(FailureKind),
    Hang,
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub courses: Vec<Course>,
    /// An attempt is ready with its whole answer.
    pub whole: bool,
    /// Once a whole answer has begun, all others are hopeless.
    pub first_decides: bool,
    /// The candidate that asks for one repetition when it fails.
    pub asks_again: Option<usize>,
    /// Retries of each candidate, the longest wait before one, and whether no other candidate starts during it.
    pub retries: (u32, Duration, bool),
    /// Some losers run on, like audits.
    pub audits: bool,
    pub leaves_at: Option<Duration>,
}
