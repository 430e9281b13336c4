//! The policy `race`: all start at once, and the first token wins.

use std::time::Duration;

use super::plan::{RacePlan, StartRule};
use super::rules::{ExtraStarts, PolicyRules};
use super::state::PolicyState;
use photofinish_config::RaceSettings;
use photofinish_facts::reason::DecisionReason;

pub struct All;

impl PolicyRules for All {
    fn extras(&self, _settings: &RaceSettings) -> ExtraStarts {
        ExtraStarts::AtOnce
    }

    fn open(&self, state: &PolicyState, plan: &mut RacePlan, _now_us: i64) {
        state.reasons.add(DecisionReason::Listed);
        let regular = plan.entries[..state.regular()].iter_mut();
        regular.take(state.parts.settings.max_attempts).for_each(|entry| entry.start = StartRule::At(Duration::ZERO));
    }
}
