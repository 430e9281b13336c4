//! The opening of a race for a client that does not stream. Not for choosing candidates.

use std::time::Duration;

use super::PolicyDriver;
use crate::config::Policy;
use crate::learning::LatencyClock;
use crate::routing::plan::{RacePlan, StartRule};

impl PolicyDriver {
    /// The opening for a client that does not stream: the plan, and whether its attempts are asked for plain answers. They are
    /// where only one of them runs at first.
    pub fn plan_whole(&mut self, now_us: i64) -> (RacePlan, bool) {
        // These start others by the times of first tokens.
        let races = matches!(self.parts.settings.policy, Policy::Race | Policy::Hedge);
        if races && self.regular() > 1 {
            return (self.plan(now_us), false);
        }
        self.set_clock(LatencyClock::WholeAnswer);
        let plan = self.plan(now_us);
        let at_once = plan.entries.iter().filter(|entry| !entry.trial && entry.start == StartRule::At(Duration::ZERO));
        let plain = at_once.count() < 2;
        if !plain {
            self.set_clock(LatencyClock::FirstToken);
        }
        (plan, plain)
    }

    fn set_clock(&mut self, clock: LatencyClock) {
        for state in self.parts.candidates.iter_mut().filter(|state| !state.plain) {
            state.clock = clock;
        }
        self.clock = clock;
    }
}
