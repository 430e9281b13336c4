//! What a rehearsal runs against: requests, upstreams, and what becomes of each attempt.

use std::time::Duration;

use photofinish_routing::routing::tariff::{PromptTokens, Tariff};

/// One client's request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedRequest {
    /// Its number, as the world knows it.
    pub id: usize,
    /// Arrival, microseconds on the rehearsal's clock. Requests come in this order.
    pub at_us: i64,
    /// Tokens of the answer, whichever upstream gives it; at least 1.
    pub output_tokens: u32,
    /// The client waits for the whole answer: the first finished answer wins, not the first token.
    pub whole: bool,
}

/// One upstream of the simulated model.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedUpstream {
    /// `provider/model`
    pub name: String,
    /// The unit of money does not matter: only relations count.
    pub tariff: Tariff,
    /// Upstreams with the same number run on the same machines.
    pub domain: Option<u32>,
    /// For the policy `weighted`.
    pub weight: f64,
    /// Timeout from a start to its first token.
    pub first_token: Duration,
}

/// The start of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    pub request: SimulatedRequest,
    pub upstream: usize,
    pub prompt: PromptTokens,
    pub at_us: i64,
    /// Attempts that this upstream serves already.
    pub in_flight: u32,
    /// Earlier attempts of this request at this upstream.
    pub retry: u32,
}

/// What becomes of an attempt that is not cut; times are microseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SimulatedFate {
    Answers {
        ttft_us: i64,
        /// Mean time between two tokens.
        tpot_us: f64,
    },
    /// An error before the first token.
    Fails {
        after_us: i64,
    },
    /// A 429 with this Retry-After; none if the upstream gave no time.
    Limited {
        after_us: i64,
        retry_after_us: Option<i64>,
    },
    Hangs,
}

/// The upstreams, by index. The same question gets the same answer for every policy, so that policies can be compared.
pub trait SimulatedWorld {
    fn upstreams(&self) -> &[SimulatedUpstream];

    /// The request's prompt if it were sent to this upstream now.
    fn prompt(&self, request: &SimulatedRequest, upstream: usize, at_us: i64) -> PromptTokens;

    fn fate(&mut self, dispatch: &Dispatch) -> SimulatedFate;
}
