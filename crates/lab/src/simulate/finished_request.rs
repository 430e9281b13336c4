//! What is known of a request that has ended.

use photofinish_base::clock::Instant;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Completed,
    Cancelled,
    Failed,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct FinishedRequest {
    /// Requests are counted from 1.
    pub number: u64,
    /// The request's `user` member, at most 64 characters: tests find their requests by it.
    pub user: Option<String>,
    /// The last `bench-…` in the prompt; only for a truth file.
    pub marker: Option<String>,
    pub end: RequestOutcome,
    /// When the request had been read.
    pub started: Instant,
    /// When a slot was free for it. None: it failed at once, or the client hung up before.
    pub began: Option<Instant>,
    /// When the connection got the first token. None: no token, or an answer without streaming.
    pub first_token: Option<Instant>,
    /// When the connection got the last token so far.
    pub last_token: Option<Instant>,
    /// When the connection got the last part, or the client hung up.
    pub ended: Instant,
    /// When its slot was free again: the last part was due, even if a timer told so late. None: it had no slot.
    pub freed: Option<Instant>,
    /// Tokens of each choice that the connection got.
    pub tokens: u32,
    /// Tokens of the prompt; 0 for a request that was refused as invalid.
    pub input_tokens: u64,
    /// Those of them that were in the prefix cache.
    pub cached_tokens: u64,
    /// When the connection got each event with tokens, in microseconds since the simulator's start; only for a truth file.
    pub(super) events_us: Vec<i64>,
}

impl FinishedRequest {
    /// The `x-request-id` of the answer.
    pub fn id(&self) -> String {
        request_id(self.number)
    }
}

pub(super) fn request_id(number: u64) -> String {
    format!("req-simulated-{number}")
}
