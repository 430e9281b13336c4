//! Learns from recorded requests at the start, as if they were happening. Not for reading them, which is `store`'s.

use super::{LatencyClock, Learning};
use crate::forecast::SendConditions;
use crate::money::{SharedCostBudget, lock};
use photofinish_base::failure::FailureKind;
use photofinish_facts::record::AttemptOutcome;
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};

/// How a recorded request is read back.
pub struct RequestMemory<'a> {
    /// Whether a failure is held against its upstream.
    pub counts: &'a dyn Fn(FailureKind) -> bool,
    /// The cost budget of its model. None if the configuration does not have the model.
    pub cost_budget: Option<SharedCostBudget>,
    /// Cost of the attempt that served, in the unit of the budget.
    pub cost: &'a dyn Fn(&RecordedAttempt) -> Option<f64>,
}

impl Learning {
    /// Requests come oldest first; [`Learning::publish`] follows the last.
    pub fn remember(&self, recorded: &Recorded, by: &RequestMemory<'_>) {
        let now_us = self.now_us();
        for attempt in &recorded.attempts {
            let known = self.upstream(&format!("{}/{}", attempt.provider, attempt.model_sent));
            let cached = attempt.cached_input_tokens.unwrap_or(0);
            let sent = SendConditions {
                uncached_tokens: (recorded.input_tokens_estimate - cached).max(0) as f64,
                in_flight: u32::try_from(attempt.in_flight).unwrap_or(0),
            };
            if let Some(tokens) = attempt.input_tokens {
                self.counted(&known, tokens, recorded.input_tokens_estimate.saturating_mul(4));
            }
            // A wall clock that was ahead when this was recorded must not stop what fades with time.
            let at_us = |after_us: i64| (recorded.started_at + attempt.dispatch_us + after_us).min(now_us);
            let served = attempt.outcome == AttemptOutcome::Won;
            let (after_us, seen, clock) = if attempt.plain {
                let came = served || attempt.outcome == AttemptOutcome::Drained;
                let waited = came || attempt.outcome.is_cut();
                (waited.then_some(attempt.ended_us), came, LatencyClock::WholeAnswer)
            } else {
                (attempt.ttft_obs_us, attempt.seen, LatencyClock::FirstToken)
            };
            let ended_us = at_us(attempt.ended_us);
            known.learn_quietly(clock, |learner| {
                learner.launched(at_us(0));
                match after_us {
                    Some(after_us) if seen => learner.first_token(sent, after_us, at_us(after_us)),
                    Some(waited_us) => learner.censored(sent, waited_us, at_us(waited_us)),
                    None => {}
                }
            });
            known.learn_quietly(LatencyClock::FirstToken, |learner| {
                if let Some(after_us) = after_us.filter(|_| seen && attempt.plain) {
                    learner.answered(at_us(after_us));
                }
                if attempt.failure.is_some_and(by.counts) {
                    learner.failed(ended_us);
                }
                if let (Some(tpot_us), Some(tokens)) = (attempt.tpot_us, attempt.output_tokens) {
                    learner.decoded(tpot_us, tokens, sent.in_flight, ended_us);
                }
            });
            if !recorded.stream && !attempt.plain && served {
                known.learn_quietly(LatencyClock::WholeAnswer, |learner| {
                    learner.launched(at_us(0));
                    learner.first_token(sent, attempt.ended_us, ended_us);
                });
            }
        }
        if let Some(cost_budget) = &by.cost_budget {
            usual(recorded, cost_budget, by.cost);
        }
    }

    /// Lets what was remembered be seen by decisions.
    pub fn publish(&self) {
        self.upstreams().iter().for_each(|known| known.publish());
    }
}

/// Learns the usual cost and answer, not the spending: λ must only react to spending that it decided.
fn usual(recorded: &Recorded, cost_budget: &SharedCostBudget, cost: &dyn Fn(&RecordedAttempt) -> Option<f64>) {
    let served = recorded.attempts.iter().find(|attempt| recorded.winner == Some(attempt.ordinal));
    // A client that waits for the whole answer sees no first token.
    let token_us = served.and_then(|served| Some(served.dispatch_us + served.ttft_obs_us?));
    let whole_us =
        served.filter(|served| served.plain && !recorded.stream).map(|served| served.dispatch_us + served.ended_us);
    let ttft_us = if recorded.stream { recorded.client_ttft_us } else { token_us };
    let mut cost_budget = lock(cost_budget);
    whole_us.into_iter().for_each(|us| cost_budget.took_whole(us));
    cost_budget.finished(ttft_us, served.and_then(|served| served.output_tokens));
    if let Some(cost) = served.and_then(cost) {
        cost_budget.remember(cost);
    }
    let is_at = |look: &&String| {
        recorded.attempts.iter().any(|attempt| look.split_once('/') == Some((&attempt.provider, &attempt.model_sent)))
    };
    if let Some(look) = recorded.look.as_ref().filter(is_at) {
        cost_budget.looks().took(look, recorded.started_at);
    }
}
