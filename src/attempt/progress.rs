//! How far an answer has come, as whoever decides about it sees it from outside. Not for rows: these have every stamp.

/// All counts are of generated output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// Microseconds from the dispatch to the first event with output.
    pub first_token_us: i64,
    /// And to the latest one.
    pub last_token_us: i64,
    /// Events with output: tokens, where the provider sends each by itself.
    pub events: i64,
    /// Characters of output: comparable between providers that put different numbers of tokens into an event.
    pub chars: i64,
}
