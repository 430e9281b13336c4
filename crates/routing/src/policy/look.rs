//! Looks: a fair sample of what each upstream alone would take. Before anything is decided a request draws, with a small probability, one
//! upstream of its model, each with the same chance. That one starts at once beside the leader and runs to its first token, whoever
//! wins. Not for routing: what `adaptive` learns from it, it learns as from every attempt.

use std::time::Duration;

use super::candidate::CandidateState;
use super::plan::{PlannedStart, RacePlan, StartRule};
use super::state::PolicyState;
use crate::money::RaceBudget;
use photofinish_config::config::{Policy, RaceSettings};
use photofinish_facts::reason::DecisionReason;

/// Share of the requests of a model that draw an upstream. Under `race` nearly all start anyway, so that looks cost next to nothing;
/// the other policies were chosen to ask one upstream.
const USUAL: f64 = 0.02;
const BY_DEFAULT: [Policy; 2] = [Policy::Adaptive, Policy::Race];
/// Unless `look` is set, a model's first races draw none: there is nothing to compare yet.
const AFTER: f64 = 100.0;
/// Looks of each upstream in a day: enough for a median within 4 % and a 95th percentile within 10 %.
const A_DAY: f64 = 200.0;
/// Share of the budget that they may spend on the average.
const OF_BUDGET: f64 = 0.2;

/// The draw of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookDraw {
    /// The probability of each upstream of the model.
    pub probability: f64,
    /// The drawn one, by its place.
    pub drawn: Option<usize>,
}

impl LookDraw {
    /// `candidates`: those that may start. `upstreams`: all of the model, those included. `draw`: uniform in 0..1.
    pub fn new(
        settings: &RaceSettings,
        candidates: &[CandidateState],
        upstreams: usize,
        (race_budget, now_us): (&RaceBudget, i64),
        draw: f64,
    ) -> LookDraw {
        let (lately, known) = race_budget.requests(now_us);
        let is_usual = BY_DEFAULT.contains(&settings.policy) && known >= AFTER;
        let wanted = settings.look.unwrap_or(if is_usual { USUAL } else { 0.0 });
        // With a single attempt nothing runs beside it.
        let wanted = if settings.max_attempts > 1 { wanted } else { 0.0 };
        let of_a_day = A_DAY * upstreams as f64 / (24.0 * lately).max(1.0);
        let affordable = match settings.policy.spends_budget() {
            true => OF_BUDGET * settings.budget * cheapest_of_mean(candidates, race_budget.terms().answer_tokens),
            false => 1.0,
        };
        let of_any = wanted.min(of_a_day).min(affordable);
        let probability = of_any / upstreams.max(1) as f64;
        let drawn = (draw < of_any).then(|| ((draw / probability) as usize).min(upstreams.saturating_sub(1)));
        LookDraw { probability, drawn }
    }
}

/// The cost of the cheapest candidate as a share of their mean cost. The others must often read the prompt anew.
fn cheapest_of_mean(candidates: &[CandidateState], answer_tokens: f64) -> f64 {
    let costs = || candidates.iter().map(|candidate| candidate.cost(answer_tokens));
    let mean = costs().sum::<f64>() / candidates.len().max(1) as f64;
    if mean > 0.0 { costs().fold(mean, f64::min) / mean } else { 1.0 }
}

impl PolicyState {
    /// Starts the drawn candidate beside the others, if the budget allows it. One that starts at once anyway needs nothing more.
    pub(super) fn look(&mut self, plan: &mut RacePlan) {
        let Some(drawn) = self.parts.look else { return };
        let now = StartRule::At(Duration::ZERO);
        let starts_later = |entry: &PlannedStart| entry.candidate == drawn && entry.start != now;
        let later = plan.entries.iter().position(starts_later);
        let first = plan.entries.first().map(|entry| entry.candidate);
        let pays = || !self.parts.settings.policy.spends_budget() || self.reserve(drawn, first.into_iter());
        if later.is_some() && !pays() {
            self.reasons.add(DecisionReason::Budget);
            self.parts.look = None;
            return;
        }
        self.reasons.add(DecisionReason::Look);
        let Some(place) = later else { return };
        let entry = plan.entries.remove(place);
        plan.entries.push(PlannedStart { start: now, trial: true, ..entry });
        plan.max_attempts += 1;
        plan.expected = plan.expected.filter(|expected| *expected != drawn);
        // A session stays where it is: there the drawn one is only watched.
        plan.trials_win = self.parts.pinned.is_none();
        self.beside = Some(drawn);
    }
}
