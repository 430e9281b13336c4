//! The policy `hedge`: in the listed order, each a fixed delay after the one before.

use std::time::Duration;

use super::plan::{PlannedStart, RacePlan, StartRule};
use super::rules::{ExtraStarts, PolicyRules, PolicySetting};
use super::state::PolicyState;
use photofinish_config::RaceSettings;
use photofinish_facts::reason::DecisionReason;

pub struct Hedge;

impl PolicyRules for Hedge {
    fn settings(&self) -> &'static [PolicySetting] {
        &[PolicySetting::HedgeAfter]
    }

    fn extras(&self, _settings: &RaceSettings) -> ExtraStarts {
        ExtraStarts::Late
    }

    fn open(&self, state: &PolicyState, plan: &mut RacePlan, now_us: i64) {
        let regular = state.regular();
        let settings = &state.parts.settings;
        put_off(&mut plan.entries[..regular.min(settings.max_attempts)], settings.hedge_after);
        state.reasons.add(DecisionReason::Listed);
        let mut domains: Vec<u32> = Vec::new();
        for (place, entry) in plan.entries[..regular].iter_mut().enumerate() {
            let candidate = &state.parts.candidates[entry.candidate];
            // An upstream that fails often is overloaded already.
            let throttled = place > 0 && candidate.known.throttled(now_us);
            if throttled {
                state.reasons.add(DecisionReason::Throttled);
            }
            // What slows one upstream of a domain slows the others.
            if throttled || candidate.domain.is_some_and(|domain| domains.contains(&domain)) {
                entry.start = StartRule::AfterFailure;
            } else {
                domains.extend(candidate.domain);
            }
        }
    }
}

fn put_off(entries: &mut [PlannedStart], delay: Duration) {
    (0..).zip(entries).for_each(|(place, entry)| entry.start = StartRule::At(delay.saturating_mul(place)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_for_those_before_it() {
        let second = Duration::from_secs(1);
        let mut entries = [0, 1, 2].map(|candidate| PlannedStart::listed(candidate, second, false));
        put_off(&mut entries, second);
        assert_eq!(entries.map(|entry| entry.start), [0, 1, 2].map(|seconds| StartRule::At(second * seconds)));
    }
}
