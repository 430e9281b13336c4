//! A block of a stage: what is sent to whom, and what came of it. Not for sending: see `generator`.

use std::sync::MutexGuard;
use std::time::Duration;

use http::HeaderMap;

use super::arrivals::Arrivals;
use super::measured::MeasuredRequest;
use super::trust::ClientLoad;
use crate::config::Price;

/// Where the requests of a block go.
#[derive(Clone, Debug)]
pub struct LoadTarget {
    /// `provider/model`, or `model NAME` with its policy.
    pub name: String,
    /// `model` of a request.
    pub model: String,
    /// The overrides of the gateway.
    pub headers: HeaderMap,
    /// The prices of the upstreams that one request may start. None of an entry: unknown.
    pub prices: Vec<Option<Price>>,
    /// Another salt for the same prompts.
    pub lane: u64,
}

/// How a block is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many users, each of whom asks again once answered.
    Users(usize),
    /// Arrivals per second, whatever came back.
    Rate { per_second: f64, arrivals: Arrivals },
}

/// One block of a stage.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    pub load: Load,
    pub duration: Duration,
    /// Requests at most.
    pub requests: usize,
    /// The number of its first prompt.
    pub first: u64,
    /// Arrivals that find so many in flight are dropped. Open loop only.
    pub in_flight_max: usize,
    /// The users begin within this time, one after the other. Closed loop only.
    pub ramp: Duration,
    pub seed: u64,
}

/// Why a block ended before its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockStop {
    /// The cap of spending.
    Spent,
    /// All failed, with this.
    Failing(&'static str),
    RateLimited,
    /// Whoever watched it said so.
    Decided,
}

/// What came of a block.
#[derive(Clone, Debug)]
pub struct BlockResult {
    pub load: Load,
    /// In the order in which they were sent.
    pub requests: Vec<MeasuredRequest>,
    /// Microseconds until no more were sent.
    pub issued_us: i64,
    pub stop: Option<BlockStop>,
    pub client: ClientLoad,
}

/// A running block, for whoever watches it.
pub struct Progress<'b> {
    pub elapsed: Duration,
    pub in_flight: usize,
    pub ended: MutexGuard<'b, Vec<MeasuredRequest>>,
}

/// The time that users need to begin, so that they do not ask in step: the length of an answer, 5 s at most.
pub fn ramp(answer: Duration) -> Duration {
    answer.min(Duration::from_secs(5))
}
