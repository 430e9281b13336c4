//! The policy `fastest`: the best by what was learnt; the others only after a failure.

use super::plan::RacePlan;
use super::rules::{PolicyRules, PolicySetting};
use super::state::PolicyState;
use photofinish_history::reason::DecisionReason;

pub struct Fastest;

impl PolicyRules for Fastest {
    fn settings(&self) -> &'static [PolicySetting] {
        &[PolicySetting::Objective]
    }

    fn open(&self, state: &PolicyState, plan: &mut RacePlan, now_us: i64) {
        let order = state.unknown_first(now_us);
        let is_unknown = order.first().is_some_and(|first| state.forecast(first).is_unknown(now_us));
        state.reasons.add(match state.regular() {
            1 => DecisionReason::Alone,
            _ if is_unknown => DecisionReason::Cold,
            _ => DecisionReason::Best,
        });
        state.sort(&mut plan.entries, &order);
    }
}
