//! A block of a stage: the target of its requests, when those of an open loop arrive, and the results. All arrivals are
//! drawn before a stage begins, and nothing moves them later. Not for sending: see `generator`.

use std::fmt;
use std::sync::MutexGuard;
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::measured::{MeasuredRequest, RequestEnd};
use super::trust::ClientLoad;
use photofinish_config::Price;

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
    /// This number of users, each of which asks again once answered.
    Users(usize),
    /// Arrivals per second, whatever came back.
    Rate { per_second: f64, arrivals: Arrivals },
}

impl fmt::Display for Load {
    /// Such as `10 users` or `0.5/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Users(1) => f.write_str("1 user"),
            Load::Users(users) => write!(f, "{users} users"),
            Load::Rate { per_second, arrivals } => {
                let rate = format!("{per_second:.3}");
                let equal = if *arrivals == Arrivals::Constant { ", equal gaps" } else { "" };
                write!(f, "{}/s{equal}", rate.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
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
    /// An arrival is dropped if this number of requests is in flight. Open loop only.
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
    /// The cap does not cover the requests in flight: an open loop ended, a closed one went on with fewer.
    Uncovered,
    /// The first ones all failed, or those of the last second: with this.
    Failing(&'static str),
    RateLimited,
    /// Its observer has seen enough.
    Decided,
    /// A signal.
    Interrupted,
}

impl BlockStop {
    /// Whether it ended because of the cap.
    pub fn is_of_money(&self) -> bool {
        matches!(self, BlockStop::Spent | BlockStop::Uncovered)
    }
}

/// The results of a block.
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

/// A running block, for its observer.
pub struct Progress<'b> {
    pub elapsed: Duration,
    pub in_flight: usize,
    /// The load of the client.
    pub client: ClientLoad,
    pub ended: MutexGuard<'b, Vec<MeasuredRequest>>,
}

/// A block ends when this number of requests failed in a row, over this time. A server that restarts sooner is still measured.
const FAILED_IN_A_ROW: usize = 100;
const FAILED_FOR_US: i64 = 1_000_000;

/// The failure of a server that answers nothing any more: it would be asked as fast as it fails. As many as are in flight may fail
/// at once that they alone do not count.
pub fn failing_alone(progress: &Progress<'_>) -> Option<&'static str> {
    let least = FAILED_IN_A_ROW.max(4 * progress.in_flight);
    let ended = &progress.ended;
    let row = ended.iter().rev().take_while(|request| matches!(request.end, RequestEnd::Failed | RequestEnd::TimedOut));
    let now_us = photofinish_base::clock::micros(progress.elapsed);
    // The oldest of those that are needed: what failed earlier does not matter.
    let since = row.enumerate().find(|(at, request)| *at + 1 >= least && now_us - request.ended_us >= FAILED_FOR_US);
    since.map(|_| ended.last().and_then(|last| last.failure).unwrap_or("failed"))
}

/// The time that users need to begin, so that they do not ask in step: the length of an answer, 5 s at most.
pub fn ramp(answer: Duration) -> Duration {
    answer.min(Duration::from_secs(5))
}

/// Arrivals of one stage at most: their times are in memory.
pub const ARRIVALS_MAX: usize = 2_000_000;

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// A Poisson process: gaps are exponential, as of many users who know nothing of each other.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

impl Arrivals {
    /// Microseconds after the beginning of the stage, rising, until `length` is over or there are `most`. The gaps of a
    /// Poisson process are not rescaled afterwards, so the rate that was drawn differs from `rate` as it does in nature.
    pub fn draw(self, rate: f64, length: Duration, most: usize, seed: u64) -> Vec<i64> {
        let mut rng = Rng::with_seed(seed);
        let (end, gap) = (length.as_micros() as f64, 1e6 / rate);
        let mut at = 0.0;
        let mut times = Vec::new();
        while times.len() < most.min(ARRIVALS_MAX) {
            at += match self {
                Arrivals::Poisson => -(1.0 - rng.f64()).ln() * gap,
                Arrivals::Constant if times.is_empty() => 0.0,
                Arrivals::Constant => gap,
            };
            if at >= end {
                break;
            }
            times.push(at as i64);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_server_that_answers_nothing_any_more_ends_a_block() {
        let request = |end, ended_us| MeasuredRequest {
            end,
            ended_us,
            failure: (end == RequestEnd::Failed).then_some("connect"),
            ..MeasuredRequest::default()
        };
        let failing = |failed: i64, every_us: i64, in_flight: usize, last: RequestEnd| {
            let mut ended = vec![request(RequestEnd::Answered, 0)];
            ended.extend((1..=failed).map(|at| request(RequestEnd::Failed, at * every_us)));
            ended.push(request(last, failed * every_us));
            let ended = Mutex::new(ended);
            let elapsed = Duration::from_micros(u64::try_from((failed + 1) * every_us).unwrap());
            failing_alone(&Progress { elapsed, in_flight, client: ClientLoad::default(), ended: ended.lock().unwrap() })
        };
        assert_eq!(failing(7_000, 150, 4, RequestEnd::Failed), Some("connect"));
        assert_eq!(failing(150, 10_000, 4, RequestEnd::Failed), Some("connect"));
        assert_eq!(failing(6_000, 150, 4, RequestEnd::Failed), None, "for less than a second");
        assert_eq!(failing(60, 100_000, 4, RequestEnd::Failed), None, "too few");
        assert_eq!(failing(500, 10_000, 500, RequestEnd::Failed), None, "all that were in flight, once");
        assert_eq!(failing(7_000, 150, 4, RequestEnd::Answered), None);
    }
}

#[cfg(test)]
mod arrivals_tests {
    use super::*;

    #[test]
    fn equal_gaps_begin_at_once() {
        let times = Arrivals::Constant.draw(4.0, Duration::from_secs(1), usize::MAX, 1);
        assert_eq!(times, [0, 250_000, 500_000, 750_000]);
        assert_eq!(Arrivals::Constant.draw(4.0, Duration::from_secs(1), 2, 1).len(), 2);
    }

    #[test]
    fn a_poisson_process_has_its_rate_its_variance_and_its_seed() {
        let of = |seed| Arrivals::Poisson.draw(100.0, Duration::from_secs(100), usize::MAX, seed);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let counts: Vec<f64> = (0..200).map(|seed| of(seed).len() as f64).collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        // The mean of 200 draws of 10,000 lies within 5 standard errors; a rescaled process has no variance at all.
        assert!((mean - 10_000.0).abs() < 36.0, "{mean}");
        assert!((0.6..1.5).contains(&(variance / 10_000.0)), "{variance}");
        assert!(of(3).is_sorted());
    }
}
