//! The product's own policies, as a rehearsal asks them: the settings of a race, the real routing code, and what it learns
//! on the way. Not for how a plan is found: that is `routing`'s.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::micros;
use crate::config::{HedgeAfter, Objective, Policy, RaceSettings};
use crate::routing::adaptive::{
    self, AdaptiveQuestion, CandidateForecast, CostBudget, LatencyForecast, Minimise, NextDecision, SendConditions,
    WAITING_MAX,
};
use crate::routing::adaptive::{AttemptView, BudgetSnapshot, Learner, rule};

use super::policy::{AskReason, ObservedProgress, PolicyAnswer, RaceView, SimulatedPolicy};
use super::simulated_race::Outcome;
use super::upstreams::SimulatedTariff;

/// Attempts of one race that the policies which learn have waiting at once.
const RUNNING: usize = 3;

/// One model's routing: its settings, and what its upstreams have shown.
#[derive(Debug)]
pub struct RoutedModel {
    settings: RaceSettings,
    tariffs: Vec<SimulatedTariff>,
    learners: Vec<Learner>,
    forecasts: Vec<LatencyForecast>,
    cost_budget: CostBudget,
    /// By request: what was taken out of the bucket for its extra attempts.
    reserved: HashMap<usize, f64>,
    draws: fastrand::Rng,
}

impl RoutedModel {
    /// `seed` decides what is left to chance: probes, and the order of `weighted`, which has no weights here.
    pub fn new(settings: RaceSettings, tariffs: &[SimulatedTariff], seed: u64) -> RoutedModel {
        let learners = vec![Learner::new(); tariffs.len()];
        RoutedModel {
            forecasts: learners.iter().map(Learner::forecast).collect(),
            learners,
            cost_budget: CostBudget::new(settings.budget),
            settings,
            tariffs: tariffs.to_vec(),
            reserved: HashMap::new(),
            draws: fastrand::Rng::with_seed(seed),
        }
    }

    /// One for each upstream.
    pub fn forecasts(&self) -> &[LatencyForecast] {
        &self.forecasts
    }

    pub fn terms(&self) -> BudgetSnapshot {
        self.cost_budget.terms()
    }

    /// A race of another life: what it tells of usual requests. Not its money: the price of time answers to what is spent, and
    /// spending that it did not decide would only lead it astray.
    pub fn recall(&mut self, outcome: &Outcome<'_>) {
        self.cost_budget.finished(outcome.ttft_us, outcome.winner.map(|_| i64::from(outcome.request.output_tokens)));
    }

    /// By the listed order, or by what was learnt: who is first, who is next.
    fn ordered(&mut self, view: &RaceView<'_>) -> Vec<usize> {
        let mut listed: Vec<usize> = (0..view.seats.len()).collect();
        match self.settings.policy {
            Policy::Race | Policy::Fallback => {}
            Policy::Weighted => self.draws.shuffle(&mut listed),
            Policy::Hedge | Policy::Fastest | Policy::Rule | Policy::Adaptive => {
                listed = self.ask(view, 1.0, |question| adaptive::order(question).iter().collect());
            }
        }
        listed.retain(|upstream| view.seats[*upstream].open);
        listed
    }

    fn hedged(&mut self, view: &RaceView<'_>) -> PolicyAnswer {
        let start: Vec<usize> = self.ordered(view).into_iter().take(1).collect();
        let tried = view.running.len() + start.len();
        let may_go_on = tried < self.settings.max_attempts;
        let leader = start.first().copied().filter(|_| may_go_on);
        let again_after_us = leader.map(|leader| self.hedge_after_us(view, leader));
        PolicyAnswer { start, again_after_us }
    }

    fn hedge_after_us(&self, view: &RaceView<'_>, leader: usize) -> i64 {
        let seat = &view.seats[leader];
        let sent = SendConditions { uncached_tokens: seat.prompt.uncached, in_flight: seat.in_flight };
        let learned = match self.settings.hedge_after {
            HedgeAfter::Quantile(q) => self.forecasts[leader].ttft_quantile_us(sent, q, view.now_us),
            HedgeAfter::After(_) => None,
        };
        learned.map_or_else(|| micros(self.settings.hedge_after.unlearned()), |quantile_us| quantile_us as i64)
    }

    fn planned(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        let is_rule = self.settings.policy == Policy::Rule;
        let draw = self.draws.f64();
        let mut running = still_waiting(view);
        let mut start = Vec::new();
        if moment == AskReason::Arrival {
            let open = if is_rule { rule::open } else { adaptive::open };
            let opening = self.ask(view, draw, open);
            start.push(opening.primary);
            start.extend(opening.also.iter().filter(|upstream| self.reserve(view, *upstream)));
            return PolicyAnswer { start, again_after_us: opening.hedge_at_us };
        }
        let next = if is_rule { rule::next } else { adaptive::next };
        while running.len() <= RUNNING {
            match self.ask(view, draw, |question| next(question, &running)).0 {
                NextDecision::Start(upstream) if running.is_empty() || self.reserve(view, upstream) => {
                    start.push(upstream);
                    running.push(AttemptView::waiting(upstream, 0));
                }
                NextDecision::AskAgain { after_us } => return PolicyAnswer { start, again_after_us: Some(after_us) },
                NextDecision::Start(_) | NextDecision::Never => break,
            }
        }
        PolicyAnswer { start, again_after_us: None }
    }

    fn reserve(&mut self, view: &RaceView<'_>, upstream: usize) -> bool {
        let cost = self.cost(view, upstream);
        let reserved = self.cost_budget.reserve(cost);
        if reserved {
            *self.reserved.entry(view.request.id).or_default() += cost;
        }
        reserved
    }

    /// Of starting it and cutting it.
    fn cost(&self, view: &RaceView<'_>, upstream: usize) -> f64 {
        let tariff = &self.tariffs[upstream];
        let goes_on = if tariff.bills_on { 0.5 * self.cost_budget.terms().answer_tokens * tariff.output } else { 0.0 };
        view.seats[upstream].input_cost + goes_on
    }

    /// Puts this race to the routing code.
    fn ask<T>(&self, view: &RaceView<'_>, draw: f64, answer: impl FnOnce(&AdaptiveQuestion<'_>) -> T) -> T {
        let waits: Vec<Vec<adaptive::OtherWaiting>> =
            (0..view.seats.len()).map(|upstream| others_waiting(view, upstream)).collect();
        let runs = |upstream| view.running.iter().any(|running| running.upstream == upstream);
        let candidates: Vec<CandidateForecast<'_>> = view
            .seats
            .iter()
            .enumerate()
            .zip(&waits)
            .map(|((upstream, seat), waiting)| CandidateForecast {
                forecast: &self.forecasts[upstream],
                sent: SendConditions { uncached_tokens: seat.prompt.uncached, in_flight: seat.in_flight },
                cost: self.cost(view, upstream),
                domain: self.tariffs[upstream].domain,
                out: !seat.open && !runs(upstream),
                waiting,
            })
            .collect();
        answer(&AdaptiveQuestion {
            candidates: &candidates,
            aim: self.aim(),
            terms: self.cost_budget.terms(),
            max_running: RUNNING.min(self.settings.max_attempts),
            now: view.now_us,
            elapsed_us: view.now_us - view.request.at_us,
            draw,
        })
    }

    fn aim(&self) -> Minimise {
        let slo = self.settings.slo;
        match self.settings.optimise {
            Objective::Ttft => Minimise::Ttft,
            Objective::Completion => Minimise::Completion,
            Objective::Goodput => Minimise::Goodput { ttft_us: micros(slo.ttft), tpot_us: micros(slo.tpot) },
        }
    }

    /// Whether it learns whom to start beside whom.
    fn plans(&self) -> bool {
        matches!(self.settings.policy, Policy::Adaptive | Policy::Rule)
    }
}

impl SimulatedPolicy for RoutedModel {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        let none = view.running.is_empty();
        match (self.settings.policy, moment) {
            (Policy::Adaptive | Policy::Rule, _) => self.planned(view, moment),
            (Policy::Race, AskReason::Arrival) => {
                let mut start = self.ordered(view);
                start.truncate(self.settings.max_attempts);
                PolicyAnswer { start, again_after_us: None }
            }
            (Policy::Hedge, _) => self.hedged(view),
            _ if none => PolicyAnswer { start: self.ordered(view).into_iter().take(1).collect(), again_after_us: None },
            _ => PolicyAnswer::default(),
        }
    }

    fn hold(&mut self, view: &RaceView<'_>, ready: usize) -> Option<i64> {
        if !self.plans() || self.settings.optimise == Objective::Ttft || self.settings.hold_max == Duration::ZERO {
            return None;
        }
        let running = still_waiting(view);
        let (ready, hold_max_us) = (view.running[ready].upstream, micros(self.settings.hold_max));
        self.ask(view, 1.0, |question| adaptive::hold(question, ready, &running, hold_max_us))
    }

    fn choose(&mut self, view: &RaceView<'_>, ready: usize) -> usize {
        if !self.plans() || self.settings.optimise == Objective::Ttft {
            return ready;
        }
        let answer = self.cost_budget.terms().answer_tokens;
        let rest_us = |place: &usize| {
            let running = &view.running[*place];
            let tpot_us = self.forecasts[running.upstream].tpot_us(running.in_flight).unwrap_or(f64::INFINITY);
            tpot_us * (answer - f64::from(running.written)).max(1.0)
        };
        let ready_ones = (0..view.running.len()).filter(|place| view.running[*place].first_token_us.is_some());
        ready_ones.min_by(|one, other| rest_us(one).total_cmp(&rest_us(other))).unwrap_or(ready)
    }

    fn hopeless(&mut self, view: &RaceView<'_>) -> Vec<usize> {
        let running: Vec<AttemptView> = view
            .running
            .iter()
            .map(|running| AttemptView {
                candidate: running.upstream,
                waited_us: view.now_us - running.sent_us,
                first_token_us: running.first_token_us.map(|at_us| at_us - running.sent_us),
                tokens: i64::from(running.written),
            })
            .collect();
        let hopeless = self.ask(view, 1.0, |question| adaptive::hopeless(question, &running));
        let places = 0..view.running.len();
        places.filter(|place| hopeless.contains(view.running[*place].upstream)).collect()
    }

    fn launched(&mut self, upstream: usize, now_us: i64) {
        self.learners[upstream].launched(now_us);
        self.forecasts[upstream] = self.learners[upstream].forecast();
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, now_us: i64) {
        let learner = &mut self.learners[upstream];
        let sent = |uncached_tokens, in_flight| SendConditions { uncached_tokens, in_flight };
        match seen {
            ObservedProgress::FirstToken { uncached, in_flight, ttft_us } => {
                learner.first_token(sent(uncached, in_flight), ttft_us, now_us);
                learner.answered(now_us);
            }
            ObservedProgress::Censored { uncached, in_flight, waited_us } => {
                learner.censored(sent(uncached, in_flight), waited_us, now_us);
            }
            ObservedProgress::Failed => learner.failed(now_us),
            ObservedProgress::Decoded { tpot_us, tokens, in_flight } => {
                learner.decoded(tpot_us, i64::from(tokens), in_flight, now_us);
            }
        }
        self.forecasts[upstream] = learner.forecast();
    }

    fn ended(&mut self, outcome: &Outcome<'_>) {
        let reserved = self.reserved.remove(&outcome.request.id).unwrap_or(0.0);
        self.cost_budget.settle(outcome.base(), reserved, outcome.extra());
        self.recall(outcome);
    }
}

/// Attempts of other requests that wait at one upstream, the longest first.
fn others_waiting(view: &RaceView<'_>, upstream: usize) -> Vec<adaptive::OtherWaiting> {
    let others = view.waiting[upstream].iter().filter(|waiting| waiting.request != view.request.id);
    let waiting = others.map(|waiting| adaptive::OtherWaiting {
        sent: SendConditions { uncached_tokens: waiting.uncached, in_flight: waiting.in_flight },
        waited_us: view.now_us - waiting.sent_us,
    });
    waiting.take(WAITING_MAX).collect()
}

/// Those of this race that have no first token yet.
fn still_waiting(view: &RaceView<'_>) -> Vec<AttemptView> {
    let waiting = view.running.iter().filter(|running| running.first_token_us.is_none());
    let waiting = waiting.map(|running| AttemptView::waiting(running.upstream, view.now_us - running.sent_us));
    waiting.collect()
}
