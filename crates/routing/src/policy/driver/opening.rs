//! The opening of a race: what the learned policies start at once and when they ask again; and whether attempts are asked for plain
//! answers. Not for what follows.

use std::time::Duration;

use super::{PolicyDriver, RUNNING_MAX, duration};
use crate::learning::LatencyClock;
use crate::policy::candidate::sort;
use crate::routing::adaptive::{self, CandidateOrder, Opening, rule};
use crate::routing::plan::{RacePlan, StartRule};
use photofinish_config::config::Policy;

impl PolicyDriver {
    /// The opening for a client that does not stream. Attempts are asked for plain answers where only one of them runs at first:
    /// see [`PolicyDriver::is_plain`].
    pub fn plan_whole(&mut self, now_us: i64) -> RacePlan {
        // These start others by the times of first tokens.
        let races = matches!(self.parts.settings.policy, Policy::Race | Policy::Hedge);
        if races && self.regular() > 1 {
            return self.plan(now_us);
        }
        self.clock = LatencyClock::WholeAnswer;
        let mut plan = self.plan(now_us);
        let at_once = plan.entries.iter().filter(|entry| !entry.trial && entry.start == StartRule::At(Duration::ZERO));
        if at_once.count() > 1 {
            self.clock = LatencyClock::FirstToken;
            for entry in &mut plan.entries {
                entry.first_token = self.parts.candidates[entry.candidate].late_after(self.clock, now_us);
            }
        }
        plan
    }

    pub(super) fn open(&self, listed: &mut RacePlan, now_us: i64) {
        let by_rule = self.parts.settings.policy == Policy::Rule;
        let opening = self.ask(
            now_us,
            |candidate| self.is_behind(candidate),
            |question| match by_rule {
                true => rule::open(question),
                false => adaptive::open(question),
            },
        );
        let Opening { primary, also, hedge_at_us, hedge, why } = opening;
        self.reasons.add(why);
        let order: CandidateOrder =
            std::iter::once(primary).chain(self.order(now_us).iter().filter(|other| *other != primary)).collect();
        sort(&mut listed.entries, self.regular(), &order);
        let mut started = vec![primary];
        for candidate in also.iter().take(RUNNING_MAX - 1) {
            self.start_extra(listed, candidate, &mut started);
        }
        listed.expected = hedge;
        let waits_us = self.forecast(primary).waits_us(self.parts.candidates[primary].sent(), now_us);
        let overdue_us = waits_us.filter(|_| self.parts.settings.budget > 0.0).map(|(_, overdue_us)| overdue_us);
        let ask_after_us = hedge_at_us.into_iter().chain(overdue_us).min();
        listed.ask_after = ask_after_us.map(duration).filter(|_| self.regular() > 1);
    }

    /// Starts this candidate at once if the budget allows it.
    fn start_extra(&self, listed: &mut RacePlan, candidate: usize, started: &mut Vec<usize>) {
        if self.reserve(candidate, started.iter().copied())
            && let Some(entry) = listed.entries.iter_mut().find(|entry| entry.candidate == candidate)
        {
            entry.start = StartRule::At(Duration::ZERO);
            started.push(candidate);
        }
    }
}
