//! Why a request was decided as it was: short codes for a race's row. Not for the plan itself.

/// The reason of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The policy does not learn: as listed.
    Listed,
    /// The best alone: no hedge is worth its cost.
    Best,
    /// A hedge is planned.
    Hedge,
    /// A hedge is started.
    Hedged,
    /// Some are started at once because nobody knows them yet.
    Cold,
    /// One that was long unused is tried beside the best.
    Probe,
    /// A hedge would pay, but the bucket does not hold it.
    Budget,
    /// Every hedge would go to an upstream that fails too often.
    Throttled,
    /// There is one candidate, or one domain.
    Alone,
    /// By the simple rule.
    Rule,
    /// A first token is held back for one that should finish sooner.
    Held,
    /// The gateway is crowded: no extras, whatever the policy says.
    Crowded,
}

impl Why {
    pub const ALL: [Why; 12] = [
        Why::Listed,
        Why::Best,
        Why::Hedge,
        Why::Hedged,
        Why::Cold,
        Why::Probe,
        Why::Budget,
        Why::Throttled,
        Why::Alone,
        Why::Rule,
        Why::Held,
        Why::Crowded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Why::Listed => "listed",
            Why::Best => "best",
            Why::Hedge => "hedge",
            Why::Hedged => "hedged",
            Why::Cold => "cold",
            Why::Probe => "probe",
            Why::Budget => "budget",
            Why::Throttled => "throttled",
            Why::Alone => "alone",
            Why::Rule => "rule",
            Why::Held => "held",
            Why::Crowded => "crowded",
        }
    }
}
