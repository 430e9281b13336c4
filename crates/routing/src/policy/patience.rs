//! Patience: when a running attempt is late, so that another one starts whatever the budget holds. One rule for every policy but
//! `race`. Not for hedges, which are chosen: each policy has a file of its own.
//!
//! An attempt is late once it has waited for the longer of `patience` medians of the best upstream that is left, as that is now,
//! and what its own upstream sometimes takes. Without the second, a slow model before a quick one would be raced every time; measured
//! in the present speed of its own upstream, a hung one would be waited for the longer, the longer it hangs. It is late at three
//! times the second in any case, if the best one left would have answered by then: with a cached prompt all others are much slower.

use super::candidate::CandidateTurn;
use super::question::AttemptView;
use super::state::PolicyState;
use photofinish_config::Policy;

impl PolicyState {
    /// How long the running attempts are still waited for before one of `waiting` starts, µs; none: for ever. After the first each
    /// further one starts when the latest has waited for a median.
    pub(super) fn rescue_in_us(&self, running: &[AttemptView], waiting: &[usize], now_us: i64) -> Option<i64> {
        let settings = &self.parts.settings;
        if settings.patience <= 0.0 || settings.policy == Policy::Race {
            return None;
        }
        let median_us = self.soonest_us(waiting, now_us)?;
        let patience_us = (settings.patience * median_us) as i64;
        let waits = || running.iter().filter(|attempt| attempt.first_token_us.is_none());
        let late_in_us = |attempt: &AttemptView| {
            let usual_us = self.usual_wait_us(attempt.candidate, patience_us, now_us);
            let late_us = patience_us.max(usual_us.unwrap_or(0));
            let stuck_us = usual_us.map(|usual_us| (3 * usual_us).max(median_us as i64));
            stuck_us.map_or(late_us, |stuck_us| late_us.min(stuck_us)) - attempt.waited_us
        };
        let first_us = waits().map(late_in_us).min()?;
        let latest_us = waits().map(|attempt| attempt.waited_us).min()?;
        Some(first_us.max(median_us as i64 - latest_us))
    }

    /// Of these the candidates of the lowest tier that may start without doubt; or all, if there is none.
    pub(super) fn usable_of(&self, candidates: &[usize], now_us: i64) -> Vec<usize> {
        let usable: Vec<usize> = candidates.iter().copied().filter(|place| self.is_usable(*place, now_us)).collect();
        let tier = |candidate: &usize| self.parts.candidates[*candidate].tier;
        match usable.iter().map(tier).min() {
            Some(least) => usable.into_iter().filter(|candidate| tier(candidate) == least).collect(),
            None => candidates.to_vec(),
        }
    }

    /// What this candidate's upstream sometimes takes: of a hundred answers the fifth slowest, or the slowest where most are slower than
    /// the other's patience. Or a quick fallback would be asked for one in twenty answers of a slow reasoner.
    fn usual_wait_us(&self, candidate: usize, patience_us: i64, now_us: i64) -> Option<i64> {
        let sent = self.parts.candidates[candidate].conditions();
        let forecast = self.forecast(candidate);
        if forecast.usual_median_us(sent, now_us) as i64 > patience_us {
            return forecast.usual_p99_us(sent, now_us);
        }
        forecast.usual_p95_us(sent, now_us)
    }

    /// It has room, no rate limit was met there lately, it does not fail often, and no attempt waits there longer than usual. Those
    /// that cool down are no candidates.
    pub(super) fn is_usable(&self, candidate: usize, now_us: i64) -> bool {
        let state = &self.parts.candidates[candidate];
        let waits = state.known.longest_waits(state.clock(self.clock), now_us);
        let forecast = self.forecast(candidate);
        state.turn != CandidateTurn::Trial
            && !state.is_full()
            && !state.known.was_limited(now_us)
            && !state.known.throttled(now_us)
            && !waits.as_slice().iter().any(|other| forecast.is_stuck(other, now_us))
    }

    /// The least median of these, µs, as they are now: by the prior where nothing is known.
    fn soonest_us(&self, waiting: &[usize], now_us: i64) -> Option<f64> {
        self.usable_of(waiting, now_us)
            .into_iter()
            .map(|candidate| self.median_now_us(candidate, now_us))
            .reduce(f64::min)
    }

    /// The median for an attempt sent now, µs.
    pub(super) fn median_now_us(&self, candidate: usize, now_us: i64) -> f64 {
        self.forecast(candidate).median_us(self.parts.candidates[candidate].sent(), now_us)
    }
}
