//! Whether overridden settings may cost more than the model's own. A user without `overrides` may not ask for those. Pure.
//! Not for reading headers: see `overrides`.

use photofinish_config::config::units::format_duration;
use photofinish_config::config::{HedgeAfter, Objective, Override, Policy, RaceSettings};

/// What lets attempts start beside the first while none has failed, by rising cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extras {
    Never,
    /// The budget of the model pays for them.
    WithinBudget,
    /// The attempts before them are late.
    Late,
    /// All start at once.
    AtOnce,
}

impl Extras {
    fn of(settings: &RaceSettings) -> Extras {
        match settings.policy {
            _ if settings.max_attempts == 1 => Extras::Never,
            Policy::Race => Extras::AtOnce,
            Policy::Hedge => Extras::Late,
            Policy::Adaptive | Policy::Rule if settings.budget > 0.0 => Extras::WithinBudget,
            Policy::Adaptive | Policy::Rule | Policy::Fastest | Policy::Fallback | Policy::Weighted => Extras::Never,
        }
    }

    /// Losers cost what they run on, and no budget counts it.
    fn are_unpaid(self) -> bool {
        self >= Extras::Late
    }
}

/// The first override in `asked` that may raise the cost above `allowed`, and what the model's settings allow.
pub fn raised(allowed: &RaceSettings, asked: &RaceSettings) -> Option<(Override, String)> {
    if asked.max_attempts > allowed.max_attempts {
        return Some((Override::MaxAttempts, format!("max_attempts = {}", allowed.max_attempts)));
    }
    if asked.budget > allowed.budget {
        return Some((Override::Budget, format!("budget = {}", allowed.budget)));
    }
    let (before, after) = (Extras::of(allowed), Extras::of(asked));
    if after > before {
        return Some((Override::Policy, spelt(allowed)));
    }
    if after == Extras::Late && before == Extras::Late && is_earlier(asked.hedge_after, allowed.hedge_after) {
        return Some((Override::HedgeAfter, format!("hedge_after = {:?}", allowed.hedge_after.text())));
    }
    if !after.are_unpaid() {
        return None;
    }
    // With another objective than the first token, losers run on until the better answer is known.
    if asked.optimise != Objective::Ttft && allowed.optimise == Objective::Ttft {
        return Some((Override::Optimise, format!("optimise = {:?}", allowed.optimise.as_str())));
    }
    let holds_longer = asked.optimise != Objective::Ttft && asked.hold_max > allowed.hold_max;
    holds_longer.then(|| (Override::HoldMax, format!("hold_max = {:?}", format_duration(allowed.hold_max))))
}

/// What the cost of a policy depends on.
fn spelt(settings: &RaceSettings) -> String {
    let RaceSettings { policy, max_attempts, budget, .. } = settings;
    let budget = if policy.spends_budget() { format!(", budget = {budget}") } else { String::new() };
    format!("policy = {:?}, max_attempts = {max_attempts}{budget}", policy.as_str())
}

/// Whether hedges may start earlier. A duration and a quantile cannot be compared, because quantiles are learned.
fn is_earlier(asked: HedgeAfter, allowed: HedgeAfter) -> bool {
    match (asked, allowed) {
        (HedgeAfter::After(asked), HedgeAfter::After(allowed)) => asked < allowed,
        (HedgeAfter::Quantile(asked), HedgeAfter::Quantile(allowed)) => asked < allowed,
        (HedgeAfter::After(_), HedgeAfter::Quantile(_)) | (HedgeAfter::Quantile(_), HedgeAfter::After(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The settings of these keys of `[race]`.
    fn settings(keys: &str) -> RaceSettings {
        let text = format!("[race]\n{}", keys.replace("; ", "\n"));
        photofinish_config::config::parse(&text, Path::new("x"), &|_| None)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .race
    }

    #[test]
    fn what_may_cost_more_is_told_by_the_override_that_raises_it() {
        use Override::{Budget, HedgeAfter, HoldMax, MaxAttempts, Optimise, Policy};
        const RACE: &str = "policy = \"race\"";
        const HEDGE: &str = "policy = \"hedge\"; hedge_after = \"500ms\"";
        const ADAPTIVE: &str = "policy = \"adaptive\"; budget = 0.1";
        const FREE: &str = "policy = \"adaptive\"; budget = 0.0";
        const ONE: &str = "policy = \"race\"; max_attempts = 1";
        const FALLBACK: &str = "policy = \"fallback\"";
        for (allowed, asked, expected) in [
            (RACE, "policy = \"hedge\"; hedge_after = \"0s\"", None),
            (RACE, ADAPTIVE, None),
            (RACE, FALLBACK, None),
            (RACE, "policy = \"race\"; max_attempts = 2", None),
            (RACE, "policy = \"race\"; max_attempts = 5", Some(MaxAttempts)),
            (RACE, "policy = \"race\"; optimise = \"completion\"", Some(Optimise)),
            ("policy = \"race\"; optimise = \"goodput\"", "policy = \"race\"; optimise = \"completion\"", None),
            (
                "policy = \"race\"; optimise = \"goodput\"; hold_max = \"1s\"",
                "policy = \"race\"; optimise = \"goodput\"; hold_max = \"2s\"",
                Some(HoldMax),
            ),
            (RACE, "policy = \"race\"; hold_max = \"5s\"", None),
            (RACE, "policy = \"fallback\"; optimise = \"completion\"; hold_max = \"5s\"", None),
            (HEDGE, RACE, Some(Policy)),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"501ms\"", None),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"499ms\"", Some(HedgeAfter)),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"p99\"", Some(HedgeAfter)),
            (HEDGE, "policy = \"hedge\"; hedge_after = \"1ms\"; max_attempts = 1", None),
            ("policy = \"hedge\"", "policy = \"hedge\"; hedge_after = \"p99\"", None),
            ("policy = \"hedge\"", "policy = \"hedge\"; hedge_after = \"p90\"", Some(HedgeAfter)),
            ("policy = \"hedge\"", "policy = \"hedge\"; hedge_after = \"10s\"", Some(HedgeAfter)),
            (HEDGE, ADAPTIVE, None),
            (ADAPTIVE, RACE, Some(Policy)),
            (ADAPTIVE, HEDGE, Some(Policy)),
            (ADAPTIVE, "policy = \"race\"; max_attempts = 1", None),
            (ADAPTIVE, "policy = \"rule\"; budget = 0.1; hedge_after = \"1ms\"", None),
            (ADAPTIVE, "policy = \"adaptive\"; budget = 0.05; optimise = \"completion\"; hold_max = \"5s\"", None),
            (ADAPTIVE, "policy = \"adaptive\"; budget = 0.2", Some(Budget)),
            (FREE, "policy = \"race\"; budget = 0.0", Some(Policy)),
            (FREE, "policy = \"rule\"; budget = 0.0", None),
            (FREE, "policy = \"adaptive\"; budget = 0.01", Some(Budget)),
            (FALLBACK, ADAPTIVE, Some(Policy)),
            (FALLBACK, "policy = \"weighted\"", None),
            (FALLBACK, "policy = \"fastest\"", None),
            (ONE, RACE, Some(MaxAttempts)),
            (ONE, "policy = \"hedge\"; max_attempts = 1; hedge_after = \"0s\"", None),
        ] {
            let raised = raised(&settings(allowed), &settings(asked));
            assert_eq!(raised.as_ref().map(|(override_, _)| *override_), expected, "{allowed} -> {asked}: {raised:?}");
        }
    }

    #[test]
    fn the_message_has_what_the_model_allows() {
        for (allowed, asked, expected) in [
            (
                "policy = \"adaptive\"; budget = 0.0; max_attempts = 2",
                "policy = \"race\"; budget = 0.0; max_attempts = 2",
                "policy = \"adaptive\", max_attempts = 2, budget = 0",
            ),
            ("policy = \"fallback\"", "policy = \"race\"", "policy = \"fallback\", max_attempts = 4"),
            ("policy = \"hedge\"", "policy = \"hedge\"; hedge_after = \"p50\"", "hedge_after = \"p95\""),
            ("max_attempts = 1", "max_attempts = 16", "max_attempts = 1"),
            ("budget = 0.1", "budget = 0.5", "budget = 0.1"),
        ] {
            assert_eq!(raised(&settings(allowed), &settings(asked)).unwrap().1, expected);
        }
    }
}
