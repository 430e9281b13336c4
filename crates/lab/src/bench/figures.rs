//! What the figures of a stage are, and what they are asked with. Not for how they come about: see `stage`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::block::Load;
use super::measured::RequestEnd;
use super::slo::{LoadSlo, SloTarget};
use super::statistics::IntervalEstimate;
use super::trust::ClientLoad;
use super::workload::Workload;

/// How a stage is judged.
#[derive(Clone, Debug)]
pub struct StageQuestion<'q> {
    pub workload: &'q Workload,
    /// Prompts are made and differ from their first token on.
    pub unique: bool,
    /// Prompts are made, so their lengths are the workload's.
    pub made: bool,
    /// None: it is found.
    pub warm_up: Option<Duration>,
    pub slo: Option<LoadSlo>,
    /// The client's own error, µs.
    pub calibration_us: Option<f64>,
}

/// What ended a stage before its plan. A trial of a search that was decided is not ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageEnd {
    /// The cap of spending.
    Spent,
    /// The cap of spending did not cover so many requests at once.
    Uncovered,
    /// The server answers nothing, or nothing any more.
    Failing,
    RateLimited,
    /// A signal.
    Interrupted,
}

/// Quantiles with 95 % intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub n: usize,
    /// Independent values with the same information.
    pub effective: f64,
    pub mean: f64,
    pub p5: f64,
    pub p25: f64,
    pub p50: IntervalEstimate,
    pub p75: f64,
    pub p90: IntervalEstimate,
    pub p95: IntervalEstimate,
    pub p99: IntervalEstimate,
}

/// The figures of a stage, as they are stored and printed. Times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    pub target: String,
    /// Closed loop.
    pub users: Option<usize>,
    /// Open loop: arrivals per second that were asked for.
    pub request_rate: Option<f64>,
    pub arrivals: Option<Arrivals>,
    /// Seconds of the window.
    pub seconds: f64,
    /// Requests that were left out as warm-up.
    pub warm_up: usize,
    /// Requests in the window, by how they ended.
    pub ends: BTreeMap<RequestEnd, usize>,
    pub failures: BTreeMap<String, usize>,
    /// Share of the requests that got no whole answer, without those that the end of the run cut short.
    pub failed_share: Option<IntervalEstimate>,
    /// From dispatch to the first token, as the rows have it.
    pub ttft_ms: Option<Quantiles>,
    /// From the scheduled time to the first token; open loop only.
    pub client_ttft_ms: Option<Quantiles>,
    pub tpot_ms: Option<Quantiles>,
    /// Of one user.
    pub tok_s: Option<Quantiles>,
    pub e2e_ms: Option<Quantiles>,
    /// Of all: tokens that came within the window, per second.
    pub tok_s_all: Option<f64>,
    /// Answers per second.
    pub answers_per_second: f64,
    /// Share of requests that met every target at once.
    pub attainment: Option<IntervalEstimate>,
    /// The same per second.
    pub goodput: Option<f64>,
    /// The target that was missed most.
    pub first_missed: Option<SloTarget>,
    /// Least and most.
    pub cost_usd: (f64, f64),
    pub usd_per_million: Option<f64>,
    pub in_flight: f64,
    /// Requests in flight per second, over the last half: above 0, the backlog grows.
    pub backlog_slope: Option<IntervalEstimate>,
    /// How late requests left; open loop only.
    pub lag_p50_ms: Option<f64>,
    pub lag_p99_ms: Option<f64>,
    pub input_tokens: Option<f64>,
    pub cached_share: Option<f64>,
    pub client: ClientLoad,
    /// What to know when reading the figures.
    pub notes: Vec<String>,
    /// Why they are not trusted.
    pub doubts: Vec<String>,
    /// Why it ended early, in words.
    pub ended: Option<String>,
    pub ended_by: Option<StageEnd>,
}

impl StageFigures {
    pub fn is_trusted(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Whether it may stand in a curve: trusted, and not ended by the server's limits.
    pub fn counts(&self) -> bool {
        self.why_not().is_none()
    }

    pub fn count(&self, end: RequestEnd) -> usize {
        self.ends.get(&end).copied().unwrap_or(0)
    }

    pub fn requests(&self) -> usize {
        self.ends.values().sum()
    }

    /// Requests of the window that got no whole answer.
    pub fn failed(&self) -> usize {
        self.requests() - self.count(RequestEnd::Answered) - self.count(RequestEnd::CutShort)
    }

    pub fn is_open_loop(&self) -> bool {
        self.request_rate.is_some()
    }

    /// None: it had no block.
    pub fn load(&self) -> Option<Load> {
        let rate =
            self.request_rate.map(|per_second| Load::Rate { per_second, arrivals: self.arrivals.unwrap_or_default() });
        self.users.map(Load::Users).or(rate)
    }

    /// Such as `a/m, 10 users`.
    pub fn name(&self) -> String {
        self.load().map_or_else(|| self.target.clone(), |load| format!("{}, {load}", self.target))
    }

    /// Why its figures count for nothing; none if they count.
    pub fn why_not(&self) -> Option<String> {
        let doubts = (!self.is_trusted()).then(|| format!("not trusted: {}", self.doubts.join("; ")));
        let unanswered = || self.ttft_ms.is_none().then(|| "nothing was answered".to_owned());
        doubts.or_else(|| self.ended.clone()).or_else(unanswered)
    }
}
