//! The keys of `simulate = { … }`, and how a simulated provider can fail. Not for the provider itself: see `crate::simulate`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::keys::keys;
use super::kinds::{RealNumber, TimeSpan, WholeNumber, choice};
use super::names::names;

keys! {
    /// `simulate = { … }`: a simulated provider over real HTTP on loopback. Distributions are log-normal.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Simulation {
        /// Median time to first token, 0s to 1h.
        ttft: Duration = TimeSpan(Simulation::TTFT), or Duration::from_millis(200);
        /// Standard deviation of the logarithm of the TTFT and of each gap; 0 is exact.
        jitter: f64 = RealNumber(Simulation::JITTER), or 0.2;
        /// Share of requests whose TTFT is multiplied by a Pareto draw: at least 2, with a median of 3.6.
        tail: f64 = RealNumber(Simulation::TAIL), or 0.0;
        /// Median decode speed.
        tokens_per_second: f64 = RealNumber(Simulation::TOKENS_PER_SECOND), or 50.0;
        /// Tokens in an answer, unless the request's `max_tokens` is smaller.
        tokens: u32 = WholeNumber(Simulation::TOKENS), or 40;
        /// Share of requests that fail.
        failures: f64 = RealNumber(Simulation::FAILURES), or 0.0;
        /// How they fail.
        failure: SimulatedFailure = choice(), or SimulatedFailure::ServerError;
        /// Seeds the draws: the same seed gives the same sequence. A request with a `seed` of its own always gets the same answer.
        /// Without it the clock seeds them.
        seed: Option<u64> = WholeNumber(0..=i64::MAX.unsigned_abs());
    }
}

impl Simulation {
    pub const TTFT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);
    pub const JITTER: RangeInclusive<f64> = 0.0..=5.0;
    pub const TAIL: RangeInclusive<f64> = 0.0..=1.0;
    pub const TOKENS_PER_SECOND: RangeInclusive<f64> = 0.01..=1e6;
    pub const TOKENS: RangeInclusive<u32> = 1..=100_000;
    pub const FAILURES: RangeInclusive<f64> = 0.0..=1.0;
}

names! {
    /// How a simulated provider fails. A request for the model `fail-NAME` always fails like that.
    pub enum SimulatedFailure {
        /// 429 with Retry-After.
        RateLimit = "429",
        /// 401.
        Unauthorized = "401",
        /// 400.
        BadRequest = "400",
        /// 500.
        ServerError = "500",
        /// Takes the request and never answers.
        Hang = "hang",
        /// Sends headers and a role chunk, then nothing.
        Stall = "stall",
        /// Closes the connection without an answer.
        Reset = "reset",
        /// Breaks off in the middle of the stream.
        Cut = "cut",
        /// An error frame in a 200, before any token.
        ErrorFrame = "error-frame",
        /// A stream that finishes without a token.
        Empty = "empty",
    }
}
