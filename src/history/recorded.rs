//! Requests as they were recorded, each with its attempts in the order of starting: for whoever learns from them again, or
//! plays them under another policy.
//!
//! Not for figures: those are gathered out of `facts`, which pass by without being kept.

use super::names::{AttemptOutcome, RaceOutcome};
use crate::failure::FailureKind;

/// One request. Times are microseconds after it was read unless the field says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub race_id: String,
    /// Microseconds since 1970, UTC.
    pub started_at: i64,
    /// As asked for.
    pub model: String,
    /// By which it was planned.
    pub policy: Option<String>,
    pub stream: bool,
    /// Bytes of the request / 4.
    pub input_tokens_estimate: i64,
    /// Ordinal of the attempt that the client's response was bound to.
    pub winner: Option<i64>,
    /// First payload byte handed to the client.
    pub client_ttft_us: Option<i64>,
    pub done_us: Option<i64>,
    pub outcome: RaceOutcome,
    pub attempts: Vec<RecordedAttempt>,
}

/// One attempt. Times are microseconds after its dispatch unless the field says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedAttempt {
    pub ordinal: i64,
    pub provider: String,
    pub model_sent: String,
    /// After the request was read.
    pub dispatch_us: i64,
    /// Other attempts that ran at this upstream at dispatch.
    pub in_flight: i64,
    /// The time to the first token, or how long there was none; none where it failed.
    pub ttft_obs_us: Option<i64>,
    /// Whether the first token was seen.
    pub seen: bool,
    pub outcome: AttemptOutcome,
    pub failure: Option<FailureKind>,
    /// For each token after the first.
    pub tpot_us: Option<f64>,
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// Where it is exact.
    pub cost_usd: Option<f64>,
    /// When its end was known: the end of the body, the cancel, or the last that is known of it.
    pub ended_us: i64,
}
