//! The reasons of a decision: short codes for a race's row. Not for the plan itself.

use photofinish_config::names::names;

names! {
    /// The reason of one decision.
    pub enum DecisionReason {
        /// The policy does not learn, so the order is that of the configuration.
        Listed = "listed",
        /// The best one alone: another was not worth its cost.
        Best = "best",
        /// Another one was planned for when the first is late, at the time in `plan`.
        Hedge = "hedge",
        /// The first was late, so another one was started.
        Hedged = "hedged",
        /// The upstream that answered the session before went first.
        Session = "session",
        /// Too little is known of some upstreams, so they started at once or were tried first.
        Cold = "cold",
        /// An upstream that used to lead was asked in addition to the best, to find out whether it is as it was.
        Revisit = "revisit",
        /// The request drew an upstream to ask it too, so that upstreams can be compared.
        Look = "look",
        /// An attempt was late, so the next one started.
        Overdue = "overdue",
        /// An attempt was late, but this model had too many such starts lately.
        Capped = "capped",
        /// Another one would have paid, but the budget for extras did not hold its price.
        Budget = "budget",
        /// No extra was started: it would have gone to an upstream that fails too often.
        Throttled = "throttled",
        /// There was only one to choose, or only one `domain`.
        Alone = "alone",
        /// The simple rule decided: the budget is below 3 %.
        Rule = "rule",
        /// A first token was held back for one that should end sooner.
        Held = "held",
        /// The gateway was crowded, so extras started only after a failure.
        Crowded = "crowded",
        /// A budget of the caller had too little left for all that would have been started.
        Narrowed = "narrowed",
        /// An upstream that answers worse than the others started after them.
        Quality = "quality",
        /// No other upstream was left, so one was asked that had been left out: its breaker is open, or it answers worse.
        LastResort = "last_resort",
    }
}
