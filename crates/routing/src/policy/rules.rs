//! What a policy is made of. Not for the policies: each has a file of its own.

use super::plan::RacePlan;
use super::question::{AdaptiveQuestion, AttemptView, NextDecision};
use super::state::PolicyState;
use photofinish_config::RaceSettings;
use photofinish_facts::reason::DecisionReason;

/// All that is known of one policy, besides its name, its order and whether it spends a budget: see `Policy`.
pub trait PolicyRules: Sync {
    /// The settings that it depends on, in the order in which they are shown.
    fn settings(&self) -> &'static [PolicySetting] {
        &[]
    }

    /// What starts attempts in addition to the first before one has failed, if more than one may start.
    fn extras(&self, _settings: &RaceSettings) -> ExtraStarts {
        ExtraStarts::Never
    }

    /// Upstreams of which too little is known run next to the best.
    fn tries_unknown(&self) -> bool {
        false
    }

    /// The opening. In `plan` the first listed candidate starts at once, and the others after a failure.
    fn open(&self, state: &PolicyState, plan: &mut RacePlan, now_us: i64);

    /// What to start at a timer of the plan, or after a failure, and why.
    fn next(&self, _question: &AdaptiveQuestion<'_>, _running: &[AttemptView]) -> (NextDecision, DecisionReason) {
        (NextDecision::Never, DecisionReason::Listed)
    }
}

/// A setting that a policy depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySetting {
    /// `optimise`, and its `slo`.
    Objective,
    HoldMax,
    HedgeAfter,
    Budget,
    /// The weight of each upstream.
    Weights,
}

/// What starts attempts in addition to the first before one has failed, by rising cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtraStarts {
    Never,
    /// The budget of the model pays for them.
    WithinBudget,
    /// The attempts before them are late.
    Late,
    /// All start at once.
    AtOnce,
}

impl ExtraStarts {
    /// Of a policy with a budget.
    pub(super) fn within(settings: &RaceSettings) -> ExtraStarts {
        if settings.budget > 0.0 { ExtraStarts::WithinBudget } else { ExtraStarts::Never }
    }
}
