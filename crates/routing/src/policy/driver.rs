//! The driver of one race: its plan, and its answers while the race runs. Not for what a policy decides: each has a file of its own.
//!
//! Times are microseconds on the clock of [`Learning`]. Candidates are named by their index.

use std::sync::Arc;
use std::time::Duration;

use super::plan::{PlannedStart, RacePlan, Replan, StartRule};
use super::question::{AdaptiveQuestion, AttemptView, NextDecision};
use super::state::{DecisionReasons, PolicyDriverParts, PolicyState, duration};
use super::{hold, rules, value};
use crate::learning::{LatencyClock, Learning, ObserverSpec, PrefixBlocks};
use crate::money::RaceBudget;
use photofinish_base::clock::micros;
use photofinish_config::config::{Objective, UpstreamOrder};
use photofinish_history::reason::DecisionReason;
use photofinish_history::record::StartReason;
use photofinish_wire::answer::error::ContextOverflow;

/// Pause before an empty budget is checked again.
const EMPTY_AGAIN: Duration = Duration::from_millis(500);

/// One race's driver.
pub struct PolicyDriver {
    state: PolicyState,
    /// When a first token was held back.
    held_us: i64,
}

impl PolicyDriver {
    pub fn new(parts: PolicyDriverParts) -> PolicyDriver {
        let (reasons, clock) = (DecisionReasons::default(), LatencyClock::FirstToken);
        PolicyDriver { state: PolicyState { parts, reasons, clock }, held_us: 0 }
    }

    pub fn reasons(&self) -> DecisionReasons {
        self.state.reasons.clone()
    }

    /// Attempts are asked for plain answers, unless their upstreams always stream.
    pub fn is_plain(&self) -> bool {
        self.state.clock == LatencyClock::WholeAnswer
    }

    pub fn race_budget(&self) -> &Arc<RaceBudget> {
        &self.state.parts.race_budget
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
            self.state.reasons.add(DecisionReason::Hedged);
        }
        let race_budget = self.state.parts.race_budget.clone();
        let sent = self.state.parts.candidates[candidate].sent();
        // Only these policies replace an overdue attempt.
        let spends = self.state.parts.settings.policy.spends_budget();
        let waits_us = if spends { self.state.forecast(candidate).waits_us(sent, learning.now_us()) } else { None };
        let state = &mut self.state.parts.candidates[candidate];
        (state.started, state.waits_us) = (Some(sent), waits_us);
        ObserverSpec {
            ordinal,
            learning: learning.clone(),
            known: state.known.clone(),
            clock: state.clock(self.state.clock),
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
        let PolicyState { parts: PolicyDriverParts { settings, candidates, fits, crowded, .. }, clock, .. } =
            &self.state;
        let entries = candidates.iter().enumerate().map(|(place, candidate)| {
            PlannedStart::listed(place, candidate.late_after(*clock, now_us), candidate.trial)
        });
        let mut plan = RacePlan::listed(settings, entries.collect());
        rules(settings.policy).open(&self.state, &mut plan, now_us);
        fits.put_behind(&mut plan.entries);
        let trials = plan.entries.iter().filter(|entry| entry.trial);
        trials.for_each(|trial| self.state.charge(trial.candidate));
        if *crowded {
            self.leave_out_extras(&mut plan);
        }
        plan
    }

    /// The opening for a client that does not stream. Attempts are asked for plain answers where only one of them runs at first:
    /// see [`PolicyDriver::is_plain`].
    pub fn plan_whole(&mut self, now_us: i64) -> RacePlan {
        // These start others by the times of first tokens.
        let order = self.state.parts.settings.policy.order();
        let races = matches!(order, UpstreamOrder::AllAtOnce | UpstreamOrder::ByDelay);
        if races && self.state.regular() > 1 {
            return self.plan(now_us);
        }
        self.state.clock = LatencyClock::WholeAnswer;
        let mut plan = self.plan(now_us);
        let at_once = plan.entries.iter().filter(|entry| !entry.trial && entry.start == StartRule::At(Duration::ZERO));
        if at_once.count() > 1 {
            self.state.clock = LatencyClock::FirstToken;
            for entry in &mut plan.entries {
                entry.first_token = self.state.parts.candidates[entry.candidate].late_after(self.state.clock, now_us);
            }
        }
        plan
    }

    /// At a timer of the plan, or after a failure. `waiting`: candidates that may start as a hedge.
    pub fn replan(&mut self, running: &[AttemptView], waiting: &[usize], now_us: i64) -> Replan {
        if self.state.parts.crowded {
            return Replan::Never;
        }
        let running = &self.carrying(running)[..];
        if self.is_overdue(running) && !waiting.is_empty() {
            self.state.reasons.add(DecisionReason::Overdue);
            return Replan::Start(waiting[self.next_after_failure(waiting, now_us)]);
        }
        let rules = rules(self.state.parts.settings.policy);
        let (next, why) =
            self.state.ask(now_us, |candidate| !waiting.contains(&candidate), |question| rules.next(question, running));
        let overdue = self.overdue_in_us(running).filter(|_| !waiting.is_empty()).map(duration);
        let again = |after: Duration| Replan::Again(overdue.map_or(after, |overdue| overdue.min(after)));
        match next {
            NextDecision::Start(candidate)
                if self.state.reserve(candidate, running.iter().map(|running| running.candidate)) =>
            {
                Replan::Start(candidate)
            }
            NextDecision::Start(_) => {
                self.state.reasons.add(DecisionReason::Budget);
                again(EMPTY_AGAIN)
            }
            NextDecision::AskAgain { after_us } => {
                if why == DecisionReason::Budget {
                    self.state.reasons.add(why);
                }
                again(duration(after_us.max(1)))
            }
            NextDecision::Never => {
                if matches!(why, DecisionReason::Alone | DecisionReason::Throttled) {
                    self.state.reasons.add(why);
                }
                overdue.map_or(Replan::Never, Replan::Again)
            }
        }
    }

    /// Whether a candidate may be retried while others run. Such a retry is an extra attempt, like a hedge.
    pub fn affords_retry(&self, candidate: usize, running: &[AttemptView], now_us: i64) -> bool {
        let throttled = || self.state.parts.candidates[candidate].known.throttled(now_us);
        if self.state.parts.crowded || throttled() {
            return false;
        }
        let running = running.iter().map(|running| running.candidate);
        !self.state.parts.settings.policy.spends_budget() || self.state.reserve(candidate, running)
    }

    /// The next candidate after a failure, as an index into `waiting`.
    pub fn next_after_failure(&self, waiting: &[usize], now_us: i64) -> usize {
        let learns = self.state.parts.settings.policy.order() == UpstreamOrder::Learned;
        let suited = self.state.parts.fits.best_of(waiting);
        let place_of = |candidate: usize| suited.iter().copied().find(|place| waiting[*place] == candidate);
        // Trials come last, whatever is predicted for them.
        let best = || {
            let out = |candidate: usize| place_of(candidate).is_none() || self.state.parts.candidates[candidate].trial;
            self.state.ask(now_us, out, value::order).first().and_then(place_of)
        };
        let listed = suited.first().copied().unwrap_or(0);
        let next = if learns { best().unwrap_or(listed) } else { listed };
        // It is an extra attempt if others run. If not, the charge comes back when the race is settled.
        if let Some(candidate) = waiting.get(next) {
            self.state.charge(*candidate);
        }
        next
    }

    /// This candidate refused the prompt as too long: candidates with a larger window are next.
    pub fn too_long(&mut self, candidate: usize, told: ContextOverflow) {
        self.state.parts.fits.refused(candidate, told);
    }

    /// The prompt is too long for this candidate, and not for all of them.
    pub fn is_too_small(&self, candidate: usize) -> bool {
        self.state.parts.fits.is_too_small(candidate)
    }

    /// How long to hold back the first token of `ready` for the running attempts.
    pub fn hold(&mut self, ready: usize, running: &[AttemptView], now_us: i64) -> Option<Duration> {
        // No client waits for a trial.
        let running = &self.regular_of(running)[..];
        let hold_max_us = micros(self.state.parts.settings.hold_max);
        if self.state.parts.settings.optimise == Objective::Ttft || hold_max_us == 0 || running.is_empty() {
            return None;
        }
        let hold = |question: &AdaptiveQuestion<'_>| hold::hold(question, ready, running, hold_max_us);
        let held_us = self.state.ask(now_us, |_| false, hold)?;
        self.state.reasons.add(DecisionReason::Held);
        self.held_us = now_us;
        Some(duration(held_us.min(hold_max_us)))
    }

    /// True if `new` should finish before `held`, which began earlier.
    pub fn prefers_new(&self, held: usize, new: usize, now_us: i64) -> bool {
        let answer_tokens = self.state.parts.race_budget.terms().answer_tokens;
        let decodes_us = |candidate: usize| {
            let state = &self.state.parts.candidates[candidate];
            let in_flight = state.started.map_or(0, |sent| sent.in_flight);
            self.state.forecast(candidate).tpot_us(in_flight).unwrap_or(value::TPOT_US) * answer_tokens
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
        let hopeless = self.state.ask(now_us, |_| false, |question| hold::hopeless(question, &regular)).first()?;
        running.iter().position(|attempt| attempt.candidate == hopeless)
    }

    /// Only the first entry starts at once; the others, trials too, wait for a failure.
    fn leave_out_extras(&self, plan: &mut RacePlan) {
        for entry in plan.entries.iter_mut().skip(1) {
            (entry.start, entry.trial) = (StartRule::AfterFailure, false);
        }
        plan.max_attempts = self.state.parts.settings.max_attempts;
        (plan.ask_after, plan.expected) = (None, None);
        self.state.reasons.add(DecisionReason::Crowded);
    }

    /// Whether another attempt starts without asking the budget, as after a failure. Without this rule a request would wait for a
    /// hung upstream until the timeout.
    fn is_overdue(&self, running: &[AttemptView]) -> bool {
        self.overdue_in_us(running).is_some_and(|left_us| left_us <= 0)
    }

    /// The time until then, microseconds. The first extra starts when an attempt is overdue, each further one when the latest attempt
    /// has waited its median. None without a budget, or if too little is known.
    fn overdue_in_us(&self, running: &[AttemptView]) -> Option<i64> {
        let waits_us = |attempt: &AttemptView| self.state.parts.candidates[attempt.candidate].waits_us;
        let waiting = || running.iter().filter(|attempt| attempt.first_token_us.is_none());
        let left = |attempt: &AttemptView| waits_us(attempt).map(|(_, overdue_us)| overdue_us - attempt.waited_us);
        let first_us = waiting().filter_map(left).min().filter(|_| self.state.parts.settings.budget > 0.0)?;
        let latest = waiting().min_by_key(|attempt| attempt.waited_us)?;
        let again_us = waits_us(latest).map_or(0, |(median_us, _)| median_us - latest.waited_us);
        Some(first_us.max(again_us))
    }

    fn regular_of(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        running.iter().filter(|attempt| !self.state.parts.candidates[attempt.candidate].trial).copied().collect()
    }

    /// The attempts that a client can count on: trials only if nothing else runs.
    fn carrying(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        let regular = self.regular_of(running);
        if regular.is_empty() { running.to_vec() } else { regular }
    }
}

#[cfg(test)]
mod tests;
