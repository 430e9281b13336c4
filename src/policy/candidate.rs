//! One candidate of a race: what it costs, what it depends on, and its shared statistics. Not for choosing between
//! candidates: that is the driver.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use crate::learning::{LongestWaiting, UpstreamStats};
use crate::routing::adaptive::{CandidateForecast, LatencyForecast, SendConditions};
use crate::routing::plan::PlannedStart;
use crate::routing::tariff::{PromptTokens, Tariff};

/// A candidate as the driver keeps it for the whole race.
pub struct CandidateState {
    pub known: Arc<UpstreamStats>,
    pub tariff: Tariff,
    /// The prompt as this upstream would bill it, tokens.
    pub prompt: PromptTokens,
    /// Tokens of the prompt that this upstream has read lately, cached or not.
    pub known_tokens: f64,
    /// Candidates with the same number run on the same machines.
    pub domain: Option<u32>,
    /// For the policy `weighted`.
    pub weight: f64,
    /// Timeout from its start to its first token.
    pub first_token: Duration,
    /// Its breaker is half open: it starts in addition to the others and replaces none of them.
    pub trial: bool,
    /// Its latest start. The current in-flight count includes that attempt, so predictions use this instead.
    pub started: Option<SendConditions>,
    /// The median predicted for it then and when it counts as failed, microseconds; none if too little was known, or
    /// under a policy that replaces no overdue attempt.
    pub waits_us: Option<(i64, i64)>,
}

/// A candidate's shared statistics at one moment.
pub(super) struct Observed {
    forecast: Guard<Arc<LatencyForecast>>,
    waits: LongestWaiting,
}

impl CandidateState {
    /// An attempt sent now.
    pub fn sent(&self) -> SendConditions {
        SendConditions { uncached_tokens: self.prompt.uncached, in_flight: self.known.in_flight() }
    }

    /// Cost of starting it and cutting it again.
    pub(super) fn cost(&self, answer_tokens: f64) -> f64 {
        self.tariff.started(self.prompt, answer_tokens)
    }

    pub(super) fn is_unknown(&self, now_us: i64) -> bool {
        self.known.forecast().is_unknown(now_us)
    }

    pub(super) fn entry(&self, candidate: usize) -> PlannedStart {
        PlannedStart::listed(candidate, self.first_token, self.trial)
    }

    /// Reads the statistics; of the waiting attempts only those sent before `began_us`.
    pub(super) fn observe(&self, began_us: i64, now_us: i64) -> Observed {
        Observed { forecast: self.known.forecast(), waits: self.known.longest_waits(began_us, now_us) }
    }

    pub(super) fn view<'o>(&self, observed: &'o Observed, out: bool, answer_tokens: f64) -> CandidateForecast<'o> {
        CandidateForecast {
            forecast: &observed.forecast,
            sent: self.started.unwrap_or_else(|| self.sent()),
            cost: self.cost(answer_tokens),
            price: self.tariff.whole(self.prompt, answer_tokens),
            domain: self.domain,
            out,
            waiting: observed.waits.as_slice(),
        }
    }
}
