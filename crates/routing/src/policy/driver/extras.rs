//! Extra attempts of one race: when a late attempt counts as failed, and what the budget is charged. Not for choosing candidates.

use super::PolicyDriver;
use crate::routing::adaptive::AttemptView;
use crate::routing::plan::{RacePlan, StartRule};
use photofinish_history::reason::DecisionReason;

impl PolicyDriver {
    /// Only the first entry starts at once; the others, trials too, wait for a failure.
    pub(super) fn leave_out_extras(&self, listed: &mut RacePlan) {
        for entry in listed.entries.iter_mut().skip(1) {
            (entry.start, entry.trial) = (StartRule::AfterFailure, false);
        }
        listed.max_attempts = self.parts.settings.max_attempts;
        (listed.ask_after, listed.expected) = (None, None);
        self.reasons.add(DecisionReason::Crowded);
    }

    /// Whether another attempt starts without asking the budget, as after a failure. Without this rule a request would wait for a
    /// hung upstream until the timeout.
    pub(super) fn is_overdue(&self, running: &[AttemptView]) -> bool {
        self.overdue_in_us(running).is_some_and(|left_us| left_us <= 0)
    }

    /// The time until then, microseconds. The first extra starts when an attempt is overdue, each further one when the latest attempt
    /// has waited its median. None without a budget, or if too little is known.
    pub(super) fn overdue_in_us(&self, running: &[AttemptView]) -> Option<i64> {
        let waits_us = |attempt: &AttemptView| self.parts.candidates[attempt.candidate].waits_us;
        let waiting = || running.iter().filter(|attempt| attempt.first_token_us.is_none());
        let left = |attempt: &AttemptView| waits_us(attempt).map(|(_, overdue_us)| overdue_us - attempt.waited_us);
        let first_us = waiting().filter_map(left).min().filter(|_| self.parts.settings.budget > 0.0)?;
        let latest = waiting().min_by_key(|attempt| attempt.waited_us)?;
        let again_us = waits_us(latest).map_or(0, |(median_us, _)| median_us - latest.waited_us);
        Some(first_us.max(again_us))
    }

    /// Reserves budget for an extra attempt. The winner is not extra, whichever it is, so the cheapest of all stays free.
    pub(super) fn reserve(&self, candidate: usize, running: impl Iterator<Item = usize>) -> bool {
        let cost = self.costs();
        let least = running.map(&cost).reduce(f64::min);
        least.is_none_or(|least| self.parts.race_budget.reserve(cost(candidate).max(least)))
    }

    /// Charges a start that is never refused.
    pub(super) fn charge(&self, candidate: usize) {
        if self.parts.settings.policy.spends_budget() {
            self.parts.race_budget.charge(self.costs()(candidate));
        }
    }

    fn costs(&self) -> impl Fn(usize) -> f64 {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        move |candidate| self.parts.candidates[candidate].cost(answer_tokens)
    }
}
