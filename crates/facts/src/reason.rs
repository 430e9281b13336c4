//! The reasons of a decision: short codes for a race's row. Not for the plan itself.

use photofinish_config::config::names::names;

names! {
    /// The reason of one decision.
    pub enum DecisionReason {
        /// The policy does not learn: as listed.
        Listed = "listed",
        /// The best alone: no hedge is worth its cost.
        Best = "best",
        /// A hedge is planned.
        Hedge = "hedge",
        /// A hedge is started.
        Hedged = "hedged",
        /// The upstream that answered the session before goes first.
        Session = "session",
        /// Some start at once because they have too few samples.
        Cold = "cold",
        /// An upstream that used to lead runs in addition to the best, to find out whether it is as it was.
        Revisit = "revisit",
        /// The request drew an upstream to ask it too.
        Look = "look",
        /// An attempt is late, so the next one starts.
        Overdue = "overdue",
        /// An attempt is late, but too many rescues of this model started lately.
        Capped = "capped",
        /// A hedge would pay, but the bucket does not hold it.
        Budget = "budget",
        /// Every hedge would go to an upstream that fails too often.
        Throttled = "throttled",
        /// There is one candidate, or one domain.
        Alone = "alone",
        /// The simple rule decided.
        Rule = "rule",
        /// A first token is held back for one that should finish sooner.
        Held = "held",
        /// The gateway is crowded: no extras, whatever the policy says.
        Crowded = "crowded",
        /// A budget of its caller has too little left for all that it would have started.
        Narrowed = "narrowed",
        /// An upstream that answers worse than the others starts after them.
        Quality = "quality",
        /// No other candidate was left, so one was asked that answers worse than the others and was left out.
        LastResort = "last_resort",
    }
}
