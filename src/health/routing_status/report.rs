//! What `GET /api/routing` tells, as it is written and as the command reads it. Not how it is come by.
//!
//! Milliseconds and seconds are numbers with a fraction. None is what is not known yet.

use serde::{Deserialize, Serialize};

/// The whole answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoutingReport {
    /// When it was so, µs since 1970, by the clock that decisions are taken by.
    pub now_us: i64,
    /// Those of the models first, then others that callers named, last used first.
    pub upstreams: Vec<UpstreamReport>,
    /// Configured ones.
    pub models: Vec<ModelReport>,
    /// Upstreams and models beyond the bound of the answer.
    pub left_out: usize,
}

/// One upstream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpstreamReport {
    /// `provider/model`
    pub upstream: String,
    /// Those in this answer that list it.
    pub models: Vec<String>,
    /// There is a key for callers without one of their own, or none is needed.
    pub on: bool,
    /// For an attempt sent now, by the size of its prompt.
    pub predicted: Vec<PredictionReport>,
    /// How far ln TTFT is above its usual just now.
    pub level: f64,
    /// The same as a factor: 2 is twice as slow as usual.
    pub level_factor: f64,
    /// ln TTFT by ln(1 + attempts in flight).
    pub load_slope: f64,
    /// Usual time between two tokens at what is in flight.
    pub tpot_ms: Option<f64>,
    /// Observations behind all this; old ones and early cancels count less.
    pub samples: f64,
    /// Attempts that were ever started, the remembered history included.
    pub launches: u64,
    /// Attempts that run there now.
    pub in_flight: u32,
    /// It fails so often that nothing is hedged to it.
    pub throttled: bool,
    /// Share of a prompt it has read before that it reports as cached.
    pub caching: f64,
    pub breaker: BreakerReport,
    /// Until it may be tried; none where it is closed, or tried already.
    pub breaker_wait_s: Option<f64>,
    /// The shortest wait over its shared keys; none where one is free.
    pub cooling_down_s: Option<f64>,
    /// How long ago it was last used.
    pub last_observation_s: Option<f64>,
}

/// What is expected of a prompt of this size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionReport {
    pub input_tokens: u32,
    /// None where what was seen does not reach so far.
    pub ttft_p50_ms: Option<f64>,
    pub ttft_p95_ms: Option<f64>,
}

/// A breaker, as the first model with it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerReport {
    Closed,
    Open,
    /// Its time is over: the next request tries it beside the others.
    Due,
}

/// One model, or an alias.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelReport {
    /// As apps ask for it.
    pub model: String,
    /// The model that it stands for.
    pub alias_of: Option<String>,
    pub policy: String,
    /// The policy goes by `order`.
    pub learns: bool,
    pub optimise: String,
    /// What extras may cost, as a share of single attempts.
    pub budget: f64,
    /// What may be spent on extras now, in `unit`; none before any cost is known.
    pub bucket: Option<f64>,
    pub bucket_capacity: f64,
    pub unit: CostUnit,
    /// What a single attempt of mean cost must save to be worth it.
    pub lambda_ms: f64,
    /// Of a race's single attempt, in `unit`; 0 before any is known.
    pub mean_cost: f64,
    /// Tracked, of what clients see; 2,000 before one was seen.
    pub ttft_p99_ms: f64,
    /// Of a usual answer; 200 before one was seen.
    pub answer_tokens: f64,
    /// Upstreams that can be asked now, best first, for a prompt of 500 tokens.
    pub order: Vec<String>,
    /// For each upstream: those of `order`, then those that cannot be asked.
    pub why: Vec<StatusReason>,
}

/// What costs are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostUnit {
    Usd,
    /// No upstream of the model has a price.
    Tokens,
}

/// Why an upstream stands where it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReason {
    pub upstream: String,
    /// One of [`CODES`].
    pub code: String,
    /// The same in words.
    pub text: String,
}

/// What `code` may be.
pub const CODES: [&str; 10] =
    ["best", "close", "slower", "dearer", "unknown", "throttled", "breaker", "cooling_down", "off", "beyond"];
