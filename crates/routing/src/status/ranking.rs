//! The order of a model's upstreams, and the reason for each place. It uses the order of the decision itself. Not for deciding.

use std::sync::Arc;
use std::time::Duration;

use super::report::StatusReason;
use crate::forecast::{LatencyForecast, SendConditions};
use crate::health::breaker::BreakerStatus;
use crate::learning::LatencyClock;
use crate::money::BudgetSnapshot;
use crate::policy::question::{
    AdaptiveQuestion, CANDIDATES_MAX, CandidateForecast, Minimise, READING, TPOT_US, us_per_cost,
};
use crate::policy::{adaptive, rules};
use photofinish_base::clock::micros;
use photofinish_config::{Objective, Policy, RaceSettings};

/// From this share on broken answers are the reason.
const BREAKS: f64 = 0.03;
/// A smaller ratio counts as equal.
const EQUAL: f64 = 1.05;

/// An upstream of a model.
pub struct RankedUpstream {
    pub name: String,
    pub forecast: Arc<LatencyForecast>,
    /// It fails so often that nothing is hedged to it.
    pub throttled: bool,
    pub sent: SendConditions,
    /// Cost of an attempt, in the unit of the model's budget.
    pub cost: f64,
    /// Cost of a usual answer.
    pub price: f64,
    /// Upstreams with the same number share machines.
    pub domain: Option<u32>,
    pub obstacles: Obstacles,
}

/// Obstacles to using an upstream.
pub struct Obstacles {
    /// Why it has no key.
    pub off: Option<String>,
    /// Why its provider does not have it now.
    pub unlisted: Option<String>,
    /// Time until the first of its keys is free.
    pub cooling: Option<Duration>,
    pub breaker: BreakerStatus,
}

/// The names of the usable upstreams, best first; and the reason for each place, unusable upstreams last. `clock`: of the forecasts.
pub fn rank(
    contenders: &[RankedUpstream],
    (terms, clock): (BudgetSnapshot, LatencyClock),
    (settings, in_usd): (&RaceSettings, bool),
    now_us: i64,
) -> (Vec<String>, Vec<StatusReason>) {
    let usable =
        |contender: &&RankedUpstream| contender.obstacles.off.is_none() && contender.obstacles.cooling.is_none();
    let undoubted = |contender: &&RankedUpstream| {
        let obstacles = &contender.obstacles;
        usable(contender) && obstacles.unlisted.is_none() && obstacles.breaker == BreakerStatus::Closed
    };
    let mut able: Vec<&RankedUpstream> = contenders.iter().filter(undoubted).collect();
    // A doubtful upstream is better than none.
    let doubtful = able.is_empty();
    if doubtful {
        able = contenders.iter().filter(usable).collect();
    }
    let compared = RankedFigures { terms, clock, settings, in_usd, now_us };
    let ranked = if settings.policy.learns() { compared.order(&able) } else { able.clone() };
    let mut order = Vec::new();
    let mut why = Vec::new();
    for (place, contender) in ranked.iter().take(CANDIDATES_MAX).enumerate() {
        let (code, text) = match (doubtful, &contender.obstacles.unlisted) {
            (true, Some(why)) => ("unlisted", format!("{why}; asked all the same, for there is no other")),
            (true, None) => ("breaker", "its breaker is open; asked all the same, for there is no other".to_owned()),
            (false, _) if settings.policy.learns() => compared.why(contender, ranked[0], ranked.len() == 1),
            (false, _) => ("listed", unlearnt(settings.policy, place)),
        };
        order.push(contender.name.clone());
        why.push(reason(contender, code, text));
    }
    for contender in able.iter().skip(CANDIDATES_MAX) {
        why.push(reason(
            contender,
            "beyond",
            format!("only the first {CANDIDATES_MAX} that can be asked are looked at"),
        ));
    }
    for contender in contenders.iter().filter(|contender| !able.iter().any(|able| able.name == contender.name)) {
        let (code, text) = left_out(&contender.obstacles);
        why.push(reason(contender, code, text));
    }
    (order, why)
}

/// Why a policy that does not learn asks the upstream at this place of the list.
fn unlearnt(policy: Policy, place: usize) -> String {
    match policy {
        Policy::Race => "asked with the others at once".to_owned(),
        Policy::Weighted => "drawn by its weight".to_owned(),
        _ => format!("number {} of the list", place + 1),
    }
}

fn reason(contender: &RankedUpstream, code: &str, text: String) -> StatusReason {
    StatusReason { upstream: contender.name.clone(), code: code.to_owned(), text }
}

fn left_out(obstacles: &Obstacles) -> (&'static str, String) {
    match (&obstacles.off, obstacles.cooling, obstacles.breaker, &obstacles.unlisted) {
        (Some(why), ..) => ("off", why.clone()),
        (None, Some(wait), ..) => ("cooling_down", format!("cooling down for another {wait:.0?}")),
        (None, None, _, Some(why)) => ("unlisted", why.clone()),
        (None, None, BreakerStatus::Open(wait), None) => {
            ("breaker", format!("it kept failing: not tried for another {wait:.0?}"))
        }
        (None, None, _, None) => ("breaker", "it kept failing: the next request also tries it".to_owned()),
    }
}

struct RankedFigures<'a> {
    terms: BudgetSnapshot,
    clock: LatencyClock,
    settings: &'a RaceSettings,
    /// Costs are US dollars.
    in_usd: bool,
    now_us: i64,
}

impl RankedFigures<'_> {
    fn order<'c>(&self, able: &[&'c RankedUpstream]) -> Vec<&'c RankedUpstream> {
        let candidate = |contender: &&'c RankedUpstream| CandidateForecast {
            forecast: &contender.forecast,
            sent: contender.sent,
            cost: contender.cost,
            price: contender.price,
            domain: contender.domain,
            out: false,
            throttled: contender.throttled,
        };
        let candidates: Vec<CandidateForecast<'_>> = able.iter().map(candidate).collect();
        let question = AdaptiveQuestion {
            candidates: &candidates,
            aim: Minimise::of(self.settings, false),
            tpot_least_us: candidates.iter().map(CandidateForecast::tpot_us).fold(f64::INFINITY, f64::min),
            terms: self.terms,
            p99_us: if self.waits_for_all() { self.terms.whole_p99_us } else { self.terms.p99_us },
            us_per_cost: us_per_cost(self.settings, self.in_usd),
            max_running: self.settings.max_attempts,
            now: self.now_us,
            elapsed_us: 0,
        };
        adaptive::starts(&question).iter().filter_map(|place| able.get(place).copied()).collect()
    }

    fn waits_for_all(&self) -> bool {
        self.clock == LatencyClock::WholeAnswer
    }

    fn why(&self, contender: &RankedUpstream, best: &RankedUpstream, alone: bool) -> (&'static str, String) {
        let forecast = &contender.forecast;
        if forecast.is_unknown(self.now_us) {
            let then = match rules(self.settings.policy).tries_unknown() {
                true if contender.name == best.name => "; it is tried first",
                true => "; it runs next to the best until there are more samples",
                false => "",
            };
            return ("unknown", format!("too few samples{then}"));
        }
        if alone {
            return ("best", "the only one that can be asked".to_owned());
        }
        if contender.name == best.name {
            let aim = match (self.settings.optimise, self.waits_for_all()) {
                (Objective::Auto, true) => Objective::Completion,
                (Objective::Auto, false) => Objective::Ttft,
                (aim, _) => aim,
            };
            return ("best", format!("the best for {}", aim.as_str()));
        }
        if contender.throttled {
            return ("throttled", "it fails so often that nothing is hedged to it".to_owned());
        }
        if let Some(share) = Some(forecast.break_chance(self.now_us)).filter(|share| *share > BREAKS) {
            return ("breaks", format!("about {:.0} % of its answers break off", 100.0 * share));
        }
        if self.time_us(contender, 0.5).is_none() {
            let launches = forecast.launches();
            let seen = if self.waits_for_all() { "whole answers" } else { "first tokens" };
            return ("unknown", format!("too few {seen} seen in {launches} attempts: assumed average"));
        }
        if self.time_us(best, 0.5).is_none() {
            return ("slower", format!("behind {}, of which too little was seen to say by how much", best.name));
        }
        if let Some(text) = self.misses_target(contender).or_else(|| self.slower(contender, best)) {
            return ("slower", text);
        }
        if contender.cost > best.cost * EQUAL {
            return ("dearer", format!("as quick as {}, {:.1} × its cost", best.name, contender.cost / best.cost));
        }
        ("close", format!("about as good as {}", best.name))
    }

    fn misses_target(&self, contender: &RankedUpstream) -> Option<String> {
        let target_us = micros(self.settings.slo.tpot) as f64;
        let tpot_us = contender.forecast.tpot_us(contender.sent.in_flight)?;
        let misses = self.settings.optimise == Objective::Goodput && tpot_us > target_us;
        misses.then(|| format!("TPOT {:.0} ms, over the target of {:.0} ms", tpot_us / 1e3, target_us / 1e3))
    }

    /// The quantile by which it is slowest, if it is slower. The p99, which few samples bear out, only if nothing else differs.
    fn slower(&self, contender: &RankedUpstream, best: &RankedUpstream) -> Option<String> {
        let slower_by = |(q, name)| {
            let us = self.time_us(contender, q)?;
            Some((us / self.time_us(best, q)?, us, name)).filter(|(ratio, ..)| *ratio > EQUAL)
        };
        let shares = [(0.5, "p50"), (0.95, "p95")];
        let worst = shares.into_iter().filter_map(slower_by).max_by(|one, other| one.0.total_cmp(&other.0));
        let (ratio, us, name) = worst.or_else(|| slower_by((0.99, "p99")))?;
        let what = match self.settings.optimise {
            _ if self.waits_for_all() => "whole answer",
            Objective::Completion => "whole answer",
            Objective::Auto => "TTFT with 15 % of the rest,",
            Objective::Ttft | Objective::Goodput => "TTFT",
        };
        Some(format!("{what} {name} {:.0} ms, {ratio:.1} × that of {}", us / 1e3, best.name))
    }

    /// Time to the first token, and what the objective counts of an average answer.
    fn time_us(&self, contender: &RankedUpstream, q: f64) -> Option<f64> {
        let forecast = &contender.forecast;
        let ttft_us = forecast.ttft_quantile_us(contender.sent, q, self.now_us)?;
        match self.settings.optimise {
            Objective::Completion => {
                Some(ttft_us + self.terms.answer_tokens * forecast.tpot_us(contender.sent.in_flight)?)
            }
            Objective::Auto => {
                let tpot_us = forecast.tpot_us(contender.sent.in_flight).unwrap_or(TPOT_US);
                Some(ttft_us + READING * self.terms.answer_tokens * tpot_us)
            }
            Objective::Ttft | Objective::Goodput => Some(ttft_us),
        }
    }
}

#[cfg(test)]
mod tests;
