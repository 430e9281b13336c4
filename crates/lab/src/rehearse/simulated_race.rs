//! One simulated race: its attempts, what each costs, and the result. Not for running it.

use photofinish_history::reason::DecisionReason;
use photofinish_history::record::StartReason;
use photofinish_routing::policy::DecisionReasons;
use photofinish_routing::routing::adaptive::SendConditions;

use super::world::SimulatedRequest;

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
}

/// A finished attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayedAttempt {
    pub upstream: usize,
    pub reason: StartReason,
    /// Another attempt of its race ran when it started.
    pub beside: bool,
    /// Its breaker was open: it tested the upstream. If it lost, it ran on to its first token, and its end is that of the race.
    pub trial: bool,
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
    /// an attempt failed or was overdue, so that the next one had to start.
    pub fn bought(&self) -> f64 {
        let replaced = self.attempts.iter().any(|attempt| attempt.reason == StartReason::Fallback);
        if replaced || self.reasons.contains(DecisionReason::Overdue) {
            return 0.0;
        }
        self.extras().filter(|attempt| !attempt.trial).map(|attempt| attempt.cost - attempt.after_cut).sum()
    }

    fn extras(&self) -> impl Iterator<Item = &PlayedAttempt> {
        let is_extra = |(place, attempt): &(usize, &PlayedAttempt)| {
            let failed = matches!(attempt.end, AttemptEnd::Failed | AttemptEnd::TimedOut);
            Some(*place) != self.winner && (attempt.beside || !failed)
        };
        self.attempts.iter().enumerate().filter(is_extra).map(|(_, attempt)| attempt)
    }
}
