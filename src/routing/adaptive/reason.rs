//! The reasons of a decision: short codes for a race's row. Not for the plan itself.

/// The reason of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    /// The policy does not learn: as listed.
    Listed,
    /// The best alone: no hedge is worth its cost.
    Best,
    /// A hedge is planned.
    Hedge,
    /// A hedge is started.
    Hedged,
    /// Some start at once because they have too few samples.
    Cold,
    /// A long unused upstream runs in addition to the best.
    Probe,
    /// A hedge would pay, but the bucket does not hold it.
    Budget,
    /// Every hedge would go to an upstream that fails too often.
    Throttled,
    /// There is one candidate, or one domain.
    Alone,
    /// The simple rule decided.
    Rule,
    /// A first token is held back for one that should finish sooner.
    Held,
    /// The gateway is crowded: no extras, whatever the policy says.
    Crowded,
}

impl DecisionReason {
    pub const ALL: [DecisionReason; 12] = [
        DecisionReason::Listed,
        DecisionReason::Best,
        DecisionReason::Hedge,
        DecisionReason::Hedged,
        DecisionReason::Cold,
        DecisionReason::Probe,
        DecisionReason::Budget,
        DecisionReason::Throttled,
        DecisionReason::Alone,
        DecisionReason::Rule,
        DecisionReason::Held,
        DecisionReason::Crowded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DecisionReason::Listed => "listed",
            DecisionReason::Best => "best",
            DecisionReason::Hedge => "hedge",
            DecisionReason::Hedged => "hedged",
            DecisionReason::Cold => "cold",
            DecisionReason::Probe => "probe",
            DecisionReason::Budget => "budget",
            DecisionReason::Throttled => "throttled",
            DecisionReason::Alone => "alone",
            DecisionReason::Rule => "rule",
            DecisionReason::Held => "held",
            DecisionReason::Crowded => "crowded",
        }
    }
}
