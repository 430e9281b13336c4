//! What the figures need of one attempt and of the request that it was made for. Borrowed: millions of these pass by.

use super::record::{AttemptOutcome, CostBasis, RaceOutcome};
use super::survival::Observation;
use crate::failure::FailureKind;

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Counts the races of one reading; all attempts of a race come one after the other.
    pub race: u64,
    /// Another attempt of the race came before at the same upstream.
    pub again: bool,
    /// When its race began, by the id of it, so to the millisecond; microseconds since 1970, UTC.
    pub started_at: i64,
    pub provider: &'a str,
    pub model_sent: &'a str,
    /// Other attempts that ran at this upstream at dispatch.
    pub in_flight_upstream: i64,
    pub outcome: AttemptOutcome,
    pub failure: Option<FailureKind>,
    pub ttft: Option<Observation>,
    /// Microseconds for each token after the first.
    pub tpot_us: Option<f64>,
    /// One token, or all of them in one event.
    pub at_once: bool,
    pub output_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    pub cost_basis: CostBasis,
    /// None while the race's own row is not written yet.
    pub request: Option<RequestFacts<'a>>,
}

/// A race that began so short a while ago and has no row yet is taken to be running.
const RUNNING_US: i64 = 3_600_000_000;

impl Facts<'_> {
    /// Whether its race still runs: of such a race the losers are written and the winner is not, so that each upstream
    /// would look slower than it is.
    pub fn is_of_a_running_race(&self, now_us: i64) -> bool {
        self.request.is_none() && self.started_at > now_us - RUNNING_US
    }
}

/// The request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    pub model: &'a str,
    pub user: Option<&'a str>,
    pub stream: bool,
    pub input_tokens_estimate: i64,
    pub outcome: RaceOutcome,
    /// First payload byte handed to the client; microseconds since the request was read.
    pub client_ttft_us: Option<i64>,
    /// Whether this attempt served it; none where no attempt did.
    pub served: Option<bool>,
}

impl RequestFacts<'_> {
    /// It had an end, and nobody answered it.
    pub fn is_unserved(&self) -> bool {
        self.served.is_none() && self.outcome != RaceOutcome::ClientGone
    }
}
