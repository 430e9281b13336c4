//! What a rehearsal runs against: requests, upstreams, and what becomes of each attempt; policies that are not the gateway's, to
//! compare its own with; and a finished race with its costs.

use std::time::Duration;

use photofinish_facts::reason::DecisionReason;
use photofinish_facts::record::StartReason;
use photofinish_routing::forecast::SendConditions;
use photofinish_routing::money::tariff::{PromptTokens, Tariff};
use photofinish_routing::policy::DecisionReasons;
use photofinish_routing::policy::plan::StartRule;

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
    /// It is asked when none of a lower tier is usable.
    pub tier: u32,
    /// While this number of attempts run there, others are asked first.
    pub in_flight_max: Option<u32>,
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
pub enum SimulatedResponse {
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

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse;

    /// Whether this upstream breaks its answer to this request. None: such requests are not judged.
    fn breaks(&self, _request: &SimulatedRequest, _upstream: usize) -> Option<bool> {
        None
    }

    /// It is known to answer worse than others, and the request has tools or a schema.
    fn is_worse(&self, _request: &SimulatedRequest, _upstream: usize) -> bool {
        false
    }
}

/// A policy of the comparison.
pub trait Baseline {
    /// Upstreams out of `view.able` with their starts, first one first. The others follow after failures.
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)>;

    fn saw(&mut self, _upstream: usize, _shown: Shown, _now_us: i64) {}
}

/// What a baseline knows when a request arrives.
#[derive(Clone, Copy, Debug)]
pub struct OpeningView<'a> {
    pub request: &'a SimulatedRequest,
    /// Upstreams that may be started, as listed.
    pub able: &'a [usize],
    /// By upstream: attempts that run there.
    pub in_flight: &'a [u32],
    /// By upstream: the request's prompt there.
    pub prompts: &'a [PromptTokens],
}

/// What one attempt showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its first token, this many microseconds after its start.
    FirstToken(i64),
    Failed,
    /// No first token for this many microseconds; then it was cut.
    Cut(i64),
}

/// A finished race.
#[derive(Clone, Copy, Debug)]
pub struct PlayedRace<'a> {
    pub request: &'a SimulatedRequest,
    /// From the request to the first token that the client saw, microseconds; for a client that waits for the whole answer,
    /// to its end. None: the request failed.
    pub ttft_us: Option<i64>,
    /// From the request to the end of its answer or to its failure, microseconds.
    pub took_us: i64,
    /// Index into `attempts`.
    pub winner: Option<usize>,
    /// Of the winner's answer, microseconds.
    pub tpot_us: Option<f64>,
    /// In the order of their starts.
    pub attempts: &'a [PlayedAttempt],
    /// Why the policy decided as it did.
    pub reasons: &'a DecisionReasons,
    /// None: it could not look.
    pub look: Option<PlayedLook>,
}

/// What a request drew to be looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayedLook {
    /// Of this upstream; of each on the average if none was drawn.
    pub probability: f64,
    pub upstream: Option<usize>,
    /// It could start, and the budget allowed it.
    pub started: bool,
}

/// A finished attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayedAttempt {
    pub upstream: usize,
    pub reason: StartReason,
    /// Another attempt of its race ran when it started.
    pub concurrent: bool,
    /// Its breaker was open: it tested the upstream.
    pub trial: bool,
    /// It lost and ran on to its first token. Its end is that of the race.
    pub ran_on: bool,
    pub sent: SendConditions,
    /// Its start, microseconds after the request.
    pub after_us: i64,
    /// From its start to its first token, microseconds; none if that never came.
    pub first_token_us: Option<i64>,
    /// Its end, microseconds after the request.
    pub ended_us: i64,
    pub end: AttemptEnd,
    /// The whole bill, in the unit of the tariffs.
    pub cost: f64,
    /// The part of it for what the provider wrote after the cut, which the gateway does not see.
    pub after_cut: f64,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    Won,
    /// Cut because another won.
    Lost,
    /// Cut by its own timeout, or by the race's.
    TimedOut,
    /// Failed before its first token.
    Failed,
}

impl PlayedRace<'_> {
    /// The cost of the answer itself.
    pub fn base(&self) -> f64 {
        self.winner.map_or(0.0, |winner| self.attempts[winner].cost)
    }

    /// The cost beyond a single attempt. An attempt that failed alone does not count: every policy has to replace it.
    pub fn extra(&self) -> f64 {
        self.extras().map(|attempt| attempt.cost).sum()
    }

    /// The part of it that the budget may refuse, as far as the gateway sees it: without breaker probes, and without races in which
    /// an attempt failed or was overdue, so that the next one had to start. If the chosen extra won, it is what the others cost.
    pub fn bought(&self) -> f64 {
        let replaced = self.attempts.iter().any(|attempt| attempt.reason == StartReason::Fallback);
        if replaced || self.reasons.contains(DecisionReason::Overdue) {
            return 0.0;
        }
        let seen = |attempt: &PlayedAttempt| attempt.cost - attempt.after_cut;
        let chosen = self.attempts.iter().skip(1).filter(|attempt| !attempt.trial).map(seen).sum::<f64>();
        chosen.min(self.extras().filter(|attempt| !attempt.trial).map(seen).sum())
    }

    fn extras(&self) -> impl Iterator<Item = &PlayedAttempt> {
        let is_extra = |(place, attempt): &(usize, &PlayedAttempt)| {
            let failed = matches!(attempt.end, AttemptEnd::Failed | AttemptEnd::TimedOut);
            Some(*place) != self.winner && (attempt.concurrent || !failed)
        };
        self.attempts.iter().enumerate().filter(is_extra).map(|(_, attempt)| attempt)
    }
}
