//! The policy `fallback`: in the listed order, only after a failure.

use super::plan::RacePlan;
use super::rules::PolicyRules;
use super::state::PolicyState;
use photofinish_facts::reason::DecisionReason;

pub struct Fallback;

impl PolicyRules for Fallback {
    fn open(&self, state: &PolicyState, _plan: &mut RacePlan, _now_us: i64) {
        state.reasons.add(DecisionReason::Listed);
    }
}
