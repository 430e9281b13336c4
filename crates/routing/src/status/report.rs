//! The answer of `GET /api/routing`, as it is written and as the command reads it. The comments are the descriptions in
//! the OpenAPI document. Not for computing the figures: see `mod` and `ranking`.
//!
//! Milliseconds and seconds are numbers with a fraction. Null: not known yet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of routing now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Routing")]
pub struct RoutingReport {
    /// Microseconds since 1970, UTC, by the clock that decisions use.
    #[schemars(extend("x-unit" = "µs"))]
    pub now_us: i64,
    /// The upstreams of the models first, then others that callers named, last used first.
    pub upstreams: Vec<UpstreamReport>,
    /// The configured models and their aliases.
    pub models: Vec<ModelReport>,
    /// Upstreams and models beyond 1000 of each.
    pub left_out: usize,
}

/// The state of an upstream now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "UpstreamNow")]
pub struct UpstreamReport {
    /// Provider and its name for the model: `PROVIDER/MODEL`.
    pub upstream: String,
    /// The models in this answer that list it; empty if only callers named it.
    pub models: Vec<String>,
    /// Callers without their own key can use it.
    pub on: bool,
    /// Predictions for an attempt sent now, by the size of its prompt.
    pub predicted: Vec<PredictionReport>,
    /// More was seen of whole answers than of first tokens: the next figures are of the time to whole answers, and not of TTFT.
    pub whole_answers: bool,
    /// How far ln TTFT is above its usual value now.
    pub level: f64,
    /// `level` as a factor: 2 is twice as slow as usual.
    pub level_factor: f64,
    /// ln TTFT by ln(1 + attempts in flight): at 1, three others make it four times as slow.
    pub load_slope: f64,
    /// Usual time between two tokens at the current load.
    #[schemars(extend("x-unit" = "ms"))]
    pub tpot_ms: Option<f64>,
    /// Observations behind these figures; old ones and early cancels count less.
    pub samples: f64,
    /// Attempts ever started, including those in the recorded history.
    pub launches: u64,
    /// Attempts that run there now.
    pub in_flight: u32,
    /// It fails so often that it gets no hedges.
    pub throttled: bool,
    /// Share of a repeated prompt that it reports as cached.
    pub caching: f64,
    /// `closed`, `open`, or `due`: the next request tests it.
    pub breaker: BreakerReport,
    /// Time until an open breaker allows a trial; null if it is closed or due.
    #[schemars(extend("x-unit" = "s"))]
    pub breaker_wait_s: Option<f64>,
    /// The shortest wait over its shared keys; null if one is free.
    #[schemars(extend("x-unit" = "s"))]
    pub cooling_down_s: Option<f64>,
    /// How long ago it was last used.
    #[schemars(extend("x-unit" = "s"))]
    pub last_observation_s: Option<f64>,
    /// What its refusals of the last hour taught, by surface: what its requests are without now, or how they differ.
    pub learnt: Vec<String>,
    /// Kinds of requests that it refused each of the last five times or more, while others answered them: it goes last for them.
    pub refuses: Vec<String>,
    /// How it answers requests with tools or a schema, by model: only where such answers were judged, or a fact is known.
    pub quality: Vec<QualityReport>,
}

/// How an upstream answers requests of one model with tools or a schema, compared with the other upstreams. Old answers count less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "QualityNow")]
pub struct QualityReport {
    pub model: String,
    /// Why it is worse than the others: `calls`, and names of facts; null if it is not known to be.
    pub worse: Option<String>,
    /// Its judged answers to tools that others got too.
    pub judged: f64,
    /// Share of them that is broken; null without such answers.
    pub broken_share: Option<f64>,
    /// The same share of the others, with its mix of tools.
    pub others_broken_share: Option<f64>,
}

/// The prediction for an attempt sent now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Predicted")]
pub struct PredictionReport {
    /// Size of the prompt, none of it cached.
    #[schemars(extend("x-unit" = "tokens"))]
    pub input_tokens: u32,
    /// Median of the time to first token; null if the observations do not reach it.
    #[schemars(extend("x-unit" = "ms"))]
    pub ttft_p50_ms: Option<f64>,
    /// 95th percentile of the time to first token; null if the observations do not reach it.
    #[schemars(extend("x-unit" = "ms"))]
    pub ttft_p95_ms: Option<f64>,
    /// Median of the time to the whole answer, which plain requests wait for; null if the observations do not reach it.
    #[schemars(extend("x-unit" = "ms"))]
    pub whole_p50_ms: Option<f64>,
    /// 95th percentile of the time to the whole answer; null if the observations do not reach it.
    #[schemars(extend("x-unit" = "ms"))]
    pub whole_p95_ms: Option<f64>,
}

/// The state of a breaker, as the first model with it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum BreakerReport {
    Closed,
    Open,
    Due,
}

/// How the races of a model or an alias are decided now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "ModelNow")]
pub struct ModelReport {
    /// The name that apps send: a configured model, or an alias.
    pub model: String,
    /// The model that an alias names.
    pub alias_of: Option<String>,
    /// The policy that plans its races.
    pub policy: String,
    /// The policy uses `order`.
    pub learns: bool,
    /// The objective: `auto`, `ttft`, `completion` or `goodput`.
    pub optimise: String,
    /// Maximum cost of extra attempts, as a share of single attempts.
    pub budget: f64,
    /// The amount available for extra attempts now, in `unit`; null before any cost is known.
    pub bucket: Option<f64>,
    /// The maximum of the bucket, in `unit`.
    pub bucket_capacity: f64,
    /// What chosen extra attempts of the last hour cost, as a share of single attempts; null if nothing was asked.
    pub extras_share: Option<f64>,
    /// What attempts cost that replaced failed and late ones, and breaker trials, likewise.
    pub rescues_share: Option<f64>,
    /// `usd`, or `tokens` if no upstream has a price.
    pub unit: CostUnit,
    /// The time that an extra attempt of mean cost must save to be worth its cost.
    #[schemars(extend("x-unit" = "ms"))]
    pub lambda_ms: f64,
    /// Mean cost of a race's single attempt, in `unit`; 0 before any is known.
    pub mean_cost: f64,
    /// 99th percentile of the TTFT that clients see, tracked; 2000 before one was seen.
    #[schemars(extend("x-unit" = "ms"))]
    pub ttft_p99_ms: f64,
    /// Length of a usual answer; 200 before one was seen.
    #[schemars(extend("x-unit" = "tokens"))]
    pub answer_tokens: f64,
    /// More was seen of whole answers than of first tokens: `order` and `why` compare the time to whole answers, and not TTFT.
    pub whole_answers: bool,
    /// The usable upstreams for a prompt of 500 tokens, best first.
    pub order: Vec<String>,
    /// One reason per upstream: those of `order`, then the unusable ones.
    pub why: Vec<StatusReason>,
}

/// The unit of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CostUnit {
    Usd,
    Tokens,
}

/// Why an upstream has its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Reason")]
pub struct StatusReason {
    /// `PROVIDER/MODEL`.
    pub upstream: String,
    /// A short code, for programs.
    #[schemars(extend("enum" = CODES))]
    pub code: String,
    /// The reason in words.
    pub text: String,
}

/// The values of `code`.
pub const CODES: [&str; 13] = [
    "best",
    "close",
    "slower",
    "dearer",
    "listed",
    "unknown",
    "throttled",
    "breaks",
    "breaker",
    "cooling_down",
    "unlisted",
    "off",
    "beyond",
];
