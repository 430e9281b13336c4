//! Revisits: an upstream that lost the lead is asked again from time to time, so that it is found again soon after it has healed.
//! Not for breakers, which try an upstream that fails.

use std::time::Duration;

use super::plan::{PlannedStart, RacePlan, StartRule};
use super::state::PolicyState;
use super::value::{BUSY, is_far_slower};
use photofinish_facts::reason::DecisionReason;

/// It is asked again after this share of the time since it answered last, in addition to the first, or in its place where there is no
/// budget: then a client waits for it, though no longer than patience allows.
const EXTRA: f64 = 0.05;
const IN_PLACE: f64 = 0.5;
/// The least and the most of that time, µs.
const EXTRA_US: (f64, f64) = (1e6, 15e6);
const IN_PLACE_US: (f64, f64) = (5e6, 300e6);
/// Of its usual median the median of one that is slower than drift explains.
const UNUSUAL: f64 = 2.0;

impl PolicyState {
    /// Adds a revisit to this plan of a policy that learns, if one is due.
    pub(super) fn revisit(&mut self, plan: &mut RacePlan, now_us: i64) {
        let Some(primary) = plan.entries.first().map(|entry| entry.candidate) else { return };
        let starts = |candidate: usize| {
            plan.entries.iter().any(|entry| entry.candidate == candidate && entry.start != StartRule::AfterFailure)
        };
        let is_free = self.parts.settings.budget <= 0.0;
        let (share, (least, most)) = if is_free { (IN_PLACE, IN_PLACE_US) } else { (EXTRA, EXTRA_US) };
        let leads_us = self.median_now_us(primary, now_us);
        let sent = self.parts.candidates[primary].sent();
        // All are slow: none has lost a lead.
        if sent.in_flight >= BUSY && is_far_slower(&self.forecast(primary), sent, now_us) {
            return;
        }
        let usual_us = |candidate: usize| {
            self.forecast(candidate).usual_median_us(self.parts.candidates[candidate].sent(), now_us)
        };
        let is_due = |candidate: &usize| {
            let forecast = self.forecast(*candidate);
            let Some(last_us) = forecast.last_us().filter(|_| !forecast.is_unknown(now_us)) else { return false };
            let away_us = now_us.saturating_sub(forecast.answered_us()) as f64;
            now_us.saturating_sub(last_us) as f64 >= (share * away_us).clamp(least, most)
        };
        let is_unusual = |candidate: usize| self.median_now_us(candidate, now_us) > UNUSUAL * usual_us(candidate);
        // It would lead if it were as usual, and is far slower, or was so several times in a row. Less is drift: upstreams that are nearly
        // alike lose and win the lead all the time, and asking each of them again cost two points of p99 at a budget of 2 %.
        let lost = |candidate: &usize| {
            let state = &self.parts.candidates[*candidate];
            !starts(*candidate)
                && !self.is_behind(*candidate)
                && (state.domain.is_none() || state.domain != self.parts.candidates[primary].domain)
                && usual_us(*candidate) < leads_us
                && (self.forecast(*candidate).is_surely_slow() || is_unusual(*candidate))
        };
        let best = (0..self.regular())
            .filter(|candidate| *candidate != primary && is_due(candidate) && lost(candidate))
            .min_by(|one, other| usual_us(*one).total_cmp(&usual_us(*other)));
        let Some(place) = best.and_then(|best| plan.entries.iter().position(|entry| entry.candidate == best)) else {
            return;
        };
        if is_free {
            let entry = plan.entries.remove(place);
            plan.entries.insert(0, PlannedStart { start: StartRule::At(Duration::ZERO), ..entry });
            plan.entries[1].start = StartRule::AfterFailure;
            self.reasons.add(DecisionReason::Revisit);
        } else if self.parts.settings.max_attempts > 1 && self.pays_revisit(plan.entries[place].candidate) {
            let mut entry = plan.entries.remove(place);
            (entry.start, entry.trial) = (StartRule::At(Duration::ZERO), true);
            self.extra = Some(entry.candidate);
            plan.entries.push(entry);
            plan.max_attempts += 1;
            self.reasons.add(DecisionReason::Revisit);
        }
    }

    fn pays_revisit(&self, candidate: usize) -> bool {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        self.parts.race_budget.revisit(self.parts.candidates[candidate].worst(answer_tokens))
    }
}
