//! The driver of one race: its plan, and its answers while the race runs. Every policy is decided here.
//!
//! Times are microseconds on the clock of [`Learning`]. Candidates are named by their index.

mod extras;
mod opening;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;

use super::candidate::{CandidateState, Observed, sort};
use super::context_fit::ContextFits;
use super::reasons::DecisionReasons;
use crate::learning::{LatencyClock, Learning, ObserverSpec, PrefixBlocks, RaceBudget};
use crate::routing::adaptive::{
    self, AdaptiveQuestion, AttemptView, CANDIDATES_MAX, CandidateForecast, CandidateOrder, LatencyForecast, Minimise,
    NextDecision, rule,
};
use crate::routing::plan::{PlannedStart, RacePlan, Replan, StartRule, plan};
use photofinish_base::clock::micros;
use photofinish_config::config::{HedgeAfter, Objective, Policy, RaceSettings, UpstreamOrder};
use photofinish_history::reason::DecisionReason;
use photofinish_history::record::StartReason;
use photofinish_wire::answer::error::ContextOverflow;

/// Attempts that may wait for a first token at once under `adaptive` and `rule`.
const RUNNING_MAX: usize = 4;

/// Pause before an empty budget is checked again.
const EMPTY_AGAIN: Duration = Duration::from_millis(500);

/// What a driver is made of.
pub struct PolicyDriverParts {
    pub settings: RaceSettings,
    /// At least one; trials at the end.
    pub candidates: Vec<CandidateState>,
    pub race_budget: Arc<RaceBudget>,
    pub fits: ContextFits,
    /// When the request arrived.
    pub began_us: i64,
    /// Uniform in 0..1: whether this request may probe, and the first of `weighted`.
    pub draws: [f64; 2],
    /// The tariffs are in US dollars.
    pub in_usd: bool,
    /// The gateway is overloaded: only the first attempt starts, others after a failure.
    pub crowded: bool,
}

/// One race's driver.
pub struct PolicyDriver {
    parts: PolicyDriverParts,
    reasons: DecisionReasons,
    /// When a first token was held back.
    held_us: i64,
    /// What attempts are waited for: the whole answer where they are asked for plain ones.
    clock: LatencyClock,
}

impl PolicyDriver {
    pub fn new(parts: PolicyDriverParts) -> PolicyDriver {
        PolicyDriver { parts, reasons: DecisionReasons::default(), held_us: 0, clock: LatencyClock::FirstToken }
    }

    pub fn reasons(&self) -> DecisionReasons {
        self.reasons.clone()
    }

    /// Attempts are asked for plain answers, unless their upstreams always stream.
    pub fn is_plain(&self) -> bool {
        self.clock == LatencyClock::WholeAnswer
    }

    pub fn race_budget(&self) -> &Arc<RaceBudget> {
        &self.parts.race_budget
    }

    /// An attempt starts now. Returns what its observer needs; `blocks` and `bytes` are the request's.
    pub fn started(
        &mut self,
        candidate: usize,
        (ordinal, reason): (usize, StartReason),
        learning: &Arc<Learning>,
        blocks: PrefixBlocks,
        bytes: usize,
    ) -> ObserverSpec {
        if reason == StartReason::Hedge {
            self.reasons.add(DecisionReason::Hedged);
        }
        let race_budget = self.parts.race_budget.clone();
        let sent = self.parts.candidates[candidate].sent();
        // Only these policies replace an overdue attempt.
        let spends = self.parts.settings.policy.spends_budget();
        let waits_us = if spends { self.forecast(candidate).waits_us(sent, learning.now_us()) } else { None };
        let state = &mut self.parts.candidates[candidate];
        (state.started, state.waits_us) = (Some(sent), waits_us);
        ObserverSpec {
            ordinal,
            learning: learning.clone(),
            known: state.known.clone(),
            clock: state.clock(self.clock),
            race_budget,
            tariff: state.tariff,
            sent,
            prompt: state.prompt,
            blocks,
            known_tokens: state.known_tokens,
            bytes,
        }
    }

    /// The opening: who starts first, in which order, with which delays.
    pub fn plan(&mut self, now_us: i64) -> RacePlan {
        let PolicyDriverParts { settings, candidates, draws, .. } = &self.parts;
        let entry = |(place, state): (usize, &CandidateState)| {
            PlannedStart::listed(place, state.late_after(self.clock, now_us), state.trial)
        };
        let entries: Vec<PlannedStart> = candidates.iter().enumerate().map(entry).collect();
        let weights: Vec<f64> = candidates.iter().map(|state| state.weight).collect();
        // Only `hedge` needs the leader.
        let delay = if settings.policy == Policy::Hedge { self.hedge_delay(now_us) } else { Duration::ZERO };
        let mut listed = plan(settings, entries, &weights, delay, draws[1]);
        match settings.policy {
            Policy::Race | Policy::Fallback | Policy::Weighted => self.reasons.add(DecisionReason::Listed),
            Policy::Hedge => self.hedge(&mut listed.entries, now_us),
            Policy::Fastest => {
                let order = self.unknown_first(now_us);
                let why = self.why_first(&order, now_us);
                self.reasons.add(if self.regular() == 1 { DecisionReason::Alone } else { why });
                sort(&mut listed.entries, self.regular(), &order);
            }
            Policy::Adaptive | Policy::Rule => self.open(&mut listed, now_us),
        }
        self.parts.fits.put_behind(&mut listed.entries);
        let trials = listed.entries.iter().filter(|entry| entry.trial);
        trials.for_each(|trial| self.charge(trial.candidate));
        if self.parts.crowded {
            self.leave_out_extras(&mut listed);
        }
        listed
    }

    /// At a timer of the plan, or after a failure. `waiting`: candidates that may start as a hedge.
    pub fn replan(&mut self, running: &[AttemptView], waiting: &[usize], now_us: i64) -> Replan {
        if self.parts.crowded {
            return Replan::Never;
        }
        let running = &self.carrying(running)[..];
        if self.is_overdue(running) && !waiting.is_empty() {
            self.reasons.add(DecisionReason::Overdue);
            return Replan::Start(waiting[self.next_after_failure(waiting, now_us)]);
        }
        let by_rule = self.parts.settings.policy == Policy::Rule;
        let (next, why) = self.ask(
            now_us,
            |candidate| !waiting.contains(&candidate),
            |question| match by_rule {
                true => rule::next(question, running),
                false => adaptive::next(question, running),
            },
        );
        let overdue = self.overdue_in_us(running).filter(|_| !waiting.is_empty()).map(duration);
        let again = |after: Duration| Replan::Again(overdue.map_or(after, |overdue| overdue.min(after)));
        match next {
            NextDecision::Start(candidate)
                if self.reserve(candidate, running.iter().map(|running| running.candidate)) =>
            {
                Replan::Start(candidate)
            }
            NextDecision::Start(_) => {
                self.reasons.add(DecisionReason::Budget);
                again(EMPTY_AGAIN)
            }
            NextDecision::AskAgain { after_us } => {
                if why == DecisionReason::Budget {
                    self.reasons.add(why);
                }
                again(duration(after_us.max(1)))
            }
            NextDecision::Never => {
                if matches!(why, DecisionReason::Alone | DecisionReason::Throttled) {
                    self.reasons.add(why);
                }
                overdue.map_or(Replan::Never, Replan::Again)
            }
        }
    }

    /// Whether a candidate may be retried while others run. Such a retry is an extra attempt, like a hedge.
    pub fn affords_retry(&self, candidate: usize, running: &[AttemptView], now_us: i64) -> bool {
        let throttled = || self.parts.candidates[candidate].known.throttled(now_us);
        if self.parts.crowded || throttled() {
            return false;
        }
        let running = running.iter().map(|running| running.candidate);
        !self.parts.settings.policy.spends_budget() || self.reserve(candidate, running)
    }

    /// The next candidate after a failure, as an index into `waiting`.
    pub fn next_after_failure(&self, waiting: &[usize], now_us: i64) -> usize {
        let learns = self.parts.settings.policy.order() == UpstreamOrder::Learned;
        let suited = self.parts.fits.best_of(waiting);
        let place_of = |candidate: usize| suited.iter().copied().find(|place| waiting[*place] == candidate);
        // Trials come last, whatever is predicted for them.
        let best = || {
            let out = |candidate: usize| place_of(candidate).is_none() || self.parts.candidates[candidate].trial;
            self.ask(now_us, out, adaptive::order).first().and_then(place_of)
        };
        let listed = suited.first().copied().unwrap_or(0);
        let next = if learns { best().unwrap_or(listed) } else { listed };
        // It is an extra attempt if others run. If not, the charge comes back when the race is settled.
        if let Some(candidate) = waiting.get(next) {
            self.charge(*candidate);
        }
        next
    }

    /// This candidate refused the prompt as too long: candidates with a larger window are next.
    pub fn too_long(&mut self, candidate: usize, told: ContextOverflow) {
        self.parts.fits.refused(candidate, told);
    }

    /// The prompt is too long for this candidate, and not for all of them.
    pub fn is_too_small(&self, candidate: usize) -> bool {
        self.parts.fits.is_too_small(candidate)
    }

    /// How long to hold back the first token of `ready` for the running attempts.
    pub fn hold(&mut self, ready: usize, running: &[AttemptView], now_us: i64) -> Option<Duration> {
        // No client waits for a trial.
        let running = &self.regular_of(running)[..];
        let hold_max_us = micros(self.parts.settings.hold_max);
        if self.parts.settings.optimise == Objective::Ttft || hold_max_us == 0 || running.is_empty() {
            return None;
        }
        let hold = |question: &AdaptiveQuestion<'_>| adaptive::hold(question, ready, running, hold_max_us);
        let held_us = self.ask(now_us, |_| false, hold)?;
        self.reasons.add(DecisionReason::Held);
        self.held_us = now_us;
        Some(duration(held_us.min(hold_max_us)))
    }

    /// True if `new` should finish before `held`, which began earlier.
    pub fn prefers_new(&self, held: usize, new: usize, now_us: i64) -> bool {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        let decodes_us = |candidate: usize| {
            let state = &self.parts.candidates[candidate];
            let in_flight = state.started.map_or(0, |sent| sent.in_flight);
            self.forecast(candidate).tpot_us(in_flight).unwrap_or(adaptive::TPOT_US) * answer_tokens
        };
        decodes_us(new) < decodes_us(held) - (now_us - self.held_us) as f64
    }

    /// In a race to the whole answer: an attempt that would finish too late, as an index into `running`.
    pub fn hopeless(&self, running: &[AttemptView], now_us: i64) -> Option<usize> {
        // The race asks after every event. Before a first token nothing has changed.
        if running.len() < 2 || running.iter().all(|attempt| attempt.first_token_us.is_none()) {
            return None;
        }
        let regular = self.regular_of(running);
        let hopeless = self.ask(now_us, |_| false, |question| adaptive::hopeless(question, &regular)).first()?;
        running.iter().position(|attempt| attempt.candidate == hopeless)
    }

    /// `hedge`: a configured delay keeps the listed order, a learned one comes with the learned order.
    fn hedge(&self, entries: &mut [PlannedStart], now_us: i64) {
        if let HedgeAfter::After(_) = self.parts.settings.hedge_after {
            self.reasons.add(DecisionReason::Listed);
        } else {
            self.reasons.add(if entries.len() > 1 { DecisionReason::Hedge } else { DecisionReason::Alone });
            sort(entries, self.regular(), &self.unknown_first(now_us));
        }
        let mut domains: Vec<u32> = Vec::new();
        for (place, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.trial) {
            let state = &self.parts.candidates[entry.candidate];
            // An upstream that fails often is overloaded already.
            let throttled = place > 0 && state.known.throttled(now_us);
            if throttled {
                self.reasons.add(DecisionReason::Throttled);
            }
            // What slows one upstream of a domain slows the others.
            if throttled || state.domain.is_some_and(|domain| domains.contains(&domain)) {
                entry.start = StartRule::AfterFailure;
            } else {
                domains.extend(state.domain);
            }
        }
    }

    /// The number of candidates that are not trials.
    fn regular(&self) -> usize {
        self.parts.candidates.iter().take_while(|state| !state.trial).count()
    }

    fn regular_of(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        running.iter().filter(|attempt| !self.parts.candidates[attempt.candidate].trial).copied().collect()
    }

    /// The attempts that a client can count on: trials only if nothing else runs.
    fn carrying(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        let regular = self.regular_of(running);
        if regular.is_empty() { running.to_vec() } else { regular }
    }

    /// Not first: a trial, or a window that is too small for the prompt.
    fn is_behind(&self, candidate: usize) -> bool {
        self.parts.candidates[candidate].trial || self.is_too_small(candidate)
    }

    /// Upstreams with too few samples go first a few times: the prior alone might keep them last for ever.
    fn unknown_first(&self, now_us: i64) -> CandidateOrder {
        let order = self.order(now_us);
        // Without a second attempt a request must not be used for trying.
        let may = self.parts.settings.max_attempts > 1;
        let unknown = |candidate: &usize| may && self.forecast(*candidate).is_unknown(now_us);
        order.iter().filter(unknown).chain(order.iter().filter(|candidate| !unknown(candidate))).collect()
    }

    fn why_first(&self, order: &CandidateOrder, now_us: i64) -> DecisionReason {
        let unknown = order.first().is_some_and(|first| self.forecast(first).is_unknown(now_us));
        if unknown { DecisionReason::Cold } else { DecisionReason::Best }
    }

    fn order(&self, now_us: i64) -> CandidateOrder {
        self.ask(now_us, |candidate| self.is_behind(candidate), adaptive::order)
    }

    /// A quantile is the leader's for this prompt, if the leader has enough samples.
    fn hedge_delay(&self, now_us: i64) -> Duration {
        let hedge_after = self.parts.settings.hedge_after;
        let HedgeAfter::Quantile(quantile) = hedge_after else { return hedge_after.unlearned() };
        let quantile_us = |leader: usize| {
            self.forecast(leader).hedge_quantile_us(self.parts.candidates[leader].sent(), quantile, now_us)
        };
        let learned = self.unknown_first(now_us).first().and_then(quantile_us);
        learned.map_or(hedge_after.unlearned(), |us| Duration::from_micros(us as u64))
    }

    /// Of what its attempts are waited for.
    fn forecast(&self, candidate: usize) -> Guard<Arc<LatencyForecast>> {
        let state = &self.parts.candidates[candidate];
        state.known.forecast_by(state.clock(self.clock))
    }

    /// Puts one question to the routing code. `out`: candidates that may not start.
    fn ask<A>(&self, now_us: i64, out: impl Fn(usize) -> bool, answer: impl FnOnce(&AdaptiveQuestion<'_>) -> A) -> A {
        let PolicyDriverParts { settings, candidates, race_budget, began_us, draws, in_usd, .. } = &self.parts;
        let terms = race_budget.terms();
        let observed: Vec<Observed> =
            candidates.iter().take(CANDIDATES_MAX).map(|state| state.observe(self.clock, *began_us, now_us)).collect();
        let views: Vec<CandidateForecast<'_>> = candidates
            .iter()
            .zip(&observed)
            .enumerate()
            .map(|(place, (state, observed))| state.view(observed, out(place), terms.answer_tokens))
            .collect();
        answer(&AdaptiveQuestion {
            candidates: &views,
            aim: Minimise::of(settings),
            terms,
            p99_us: if self.is_plain() { terms.whole_p99_us } else { terms.p99_us },
            max_running: RUNNING_MAX.min(settings.max_attempts),
            now: now_us,
            elapsed_us: now_us - began_us,
            draw: draws[0],
            us_per_cost: adaptive::us_per_cost(settings, *in_usd),
        })
    }
}

fn duration(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

#[cfg(test)]
mod tests;
