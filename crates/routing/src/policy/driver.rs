//! The driver of one race: its plan, and its answers while the race runs. Not for what a policy decides: each has a file of its own.
//!
//! Times are microseconds on the clock of [`Learning`]. Candidates are named by their index.

use std::sync::Arc;
use std::time::Duration;

use super::candidate::{CandidateState, CandidateTurn};
use super::draw::LookDraw;
use super::plan::{PlannedStart, RacePlan, Replan, StartRule};
use super::question::{AdaptiveQuestion, AttemptView, EMPTY_AGAIN_US, NextDecision, TPOT_US};
use super::state::{DecisionReasons, PolicyDriverParts, PolicyState, duration};
use super::{hold, rules, value};
use crate::learning::{LatencyClock, Learning, ObserverSpec, PrefixBlocks};
use crate::money::RaceBudget;
use photofinish_base::clock::micros;
use photofinish_config::{Objective, Policy, UpstreamOrder};
use photofinish_facts::reason::DecisionReason;
use photofinish_facts::record::StartReason;
use photofinish_wire::answer::error::ContextOverflow;

/// One race's driver.
pub struct PolicyDriver {
    state: PolicyState,
    /// When a first token was held back.
    held_us: i64,
    /// Starts after failures and of late attempts.
    failovers: usize,
    /// The candidate that starts next in place of a late attempt.
    late_next: Option<usize>,
    /// The candidate whose first start is only to show its first token.
    shows: Option<usize>,
}

impl PolicyDriver {
    pub fn new(parts: PolicyDriverParts) -> PolicyDriver {
        let (reasons, clock) = (DecisionReasons::default(), LatencyClock::FirstToken);
        PolicyDriver {
            state: PolicyState {
                parts,
                reasons,
                clock,
                extra: None,
                look: None,
                watched: None,
                compares: None,
                standings: Vec::new(),
            },
            held_us: 0,
            failovers: 0,
            late_next: None,
            shows: None,
        }
    }

    pub fn reasons(&self) -> DecisionReasons {
        self.state.reasons.clone()
    }

    /// What the request drew to be looked at. None: there was nothing to compare.
    pub fn look(&self) -> Option<LookDraw> {
        self.state.look
    }

    /// Its attempts are asked for plain answers, unless their upstreams always stream. One that is looked at shows its first token.
    pub fn is_plain(&self, candidate: usize) -> bool {
        self.state.clock == LatencyClock::WholeAnswer && !self.is_look(candidate)
    }

    /// What starts now is only to show its first token. Asked again the same candidate may serve.
    pub fn only_shows(&mut self, candidate: usize) -> bool {
        self.shows.take_if(|shows| *shows == candidate).is_some()
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
        let race_budget = self.state.parts.race_budget.clone();
        let is_rescue = self.late_next.take_if(|next| *next == candidate).is_some();
        if reason == StartReason::Hedge && !is_rescue {
            self.state.reasons.add(DecisionReason::Hedged);
        }
        let learns = rules(self.state.parts.settings.policy).tries_unknown();
        let is_new = learns && self.state.forecast(candidate).is_new();
        let state = &mut self.state.parts.candidates[candidate];
        state.is_new = is_new;
        let compares = self.state.compares.take_if(|(compared, _)| *compared == candidate);
        // A breaker's trial comes on top of the budget, like what replaces a failed or a late attempt.
        if let Some((_, expected)) = compares {
            race_budget.compares(ordinal, expected);
        } else if ordinal > 0 && !is_rescue && reason != StartReason::Fallback && state.turn != CandidateTurn::Trial {
            race_budget.chose(ordinal);
        }
        let sent = state.sent();
        state.started = Some(sent);
        if state.turn == CandidateTurn::Last {
            self.state.reasons.add(DecisionReason::LastResort);
        }
        let state = &self.state.parts.candidates[candidate];
        ObserverSpec {
            ordinal,
            learning: learning.clone(),
            known: state.known.clone(),
            clock: if self.is_look(candidate) && !state.plain {
                LatencyClock::FirstToken
            } else {
                state.clock(self.state.clock)
            },
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
        let is_alone = self.state.parts.candidates.len() < 2;
        self.state.look_for_room();
        let PolicyState { parts: PolicyDriverParts { settings, candidates, crowded, .. }, clock, .. } = &self.state;
        let crowded = *crowded;
        let entries = candidates.iter().enumerate().map(|(place, candidate)| {
            PlannedStart::listed(place, candidate.late_after(*clock, now_us), candidate.turn == CandidateTurn::Trial)
        });
        let (last, entries): (Vec<_>, Vec<_>) =
            entries.partition(|entry| candidates[entry.candidate].turn == CandidateTurn::Last);
        let mut plan = RacePlan::listed(settings, entries);
        self.state.parts.race_budget.requested(now_us);
        rules(settings.policy).open(&self.state, &mut plan, now_us);
        if is_alone {
            self.state.draw_look(&mut plan, now_us);
        } else {
            self.order_for_all(&mut plan, now_us);
        }
        if crowded {
            self.leave_out_extras(&mut plan);
        }
        plan.entries.extend(last.into_iter().map(|entry| PlannedStart { start: StartRule::Last, ..entry }));
        plan
    }

    /// What holds under every policy: tiers, windows, sessions; and what is never refused.
    fn order_for_all(&mut self, plan: &mut RacePlan, now_us: i64) {
        self.state.put_later_behind(&mut plan.entries);
        self.state.parts.fits.put_behind(&mut plan.entries);
        if self.state.parts.settings.policy != Policy::Race {
            self.state.put_pinned_first(plan, now_us);
        }
        self.state.draw_look(plan, now_us);
        let is_free = self.state.extra.is_none() && !self.state.parts.crowded;
        if is_free && self.state.parts.settings.policy.learns() {
            self.state.revisit(plan, now_us);
        }
        plan.ask_after = plan.ask_after.into_iter().chain(self.first_rescue(plan, now_us)).min();
        let trials = plan.entries.iter().filter(|entry| entry.trial && self.state.extra != Some(entry.candidate));
        trials.for_each(|trial| self.state.charge(trial.candidate));
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
        self.shows = plan.entries.iter().find(|entry| entry.only_shows).map(|entry| entry.candidate);
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
        let mut rescue_in_us = self.state.rescue_in_us(running, waiting, now_us);
        if rescue_in_us.is_some_and(|in_us| in_us <= 0) {
            if let Some(candidate) = self.next_after_failure(waiting, false, now_us).map(|place| waiting[place]) {
                self.state.reasons.add(DecisionReason::Overdue);
                self.late_next = Some(candidate);
                return Replan::Rescue(candidate);
            }
            rescue_in_us = Some(EMPTY_AGAIN_US);
        }
        let rules = rules(self.state.parts.settings.policy);
        let (next, why) = self.state.ask(
            now_us,
            |candidate| !waiting.contains(&candidate) || self.state.is_later(candidate),
            |question| rules.next(question, running),
        );
        let rescue_in = rescue_in_us.map(duration);
        let again = |after: Duration| Replan::Again(rescue_in.map_or(after, |rescue_in| rescue_in.min(after)));
        match next {
            NextDecision::Start(candidate)
                if self.state.reserve(candidate, running.iter().map(|running| running.candidate)) =>
            {
                Replan::Start(candidate)
            }
            NextDecision::Start(_) => {
                self.state.reasons.add(DecisionReason::Budget);
                again(duration(EMPTY_AGAIN_US))
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
                rescue_in.map_or(Replan::Never, Replan::Again)
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

    /// The next candidate after a failure, or because an attempt is late, as an index into `waiting`. None: as many as may start have
    /// started, or too many of this model started lately. `must`: nothing else runs for the client.
    pub fn next_after_failure(&mut self, waiting: &[usize], must: bool, now_us: i64) -> Option<usize> {
        if waiting.is_empty() || self.failovers >= self.state.parts.settings.failovers {
            return None;
        }
        if !self.state.parts.race_budget.rescue(must, now_us) {
            self.state.reasons.add(DecisionReason::Capped);
            return None;
        }
        self.failovers += 1;
        let next = self.best_of(waiting, now_us);
        // It is an extra attempt if others run. If not, the charge comes back when the race is settled.
        self.state.charge(waiting[next]);
        Some(next)
    }

    fn best_of(&self, waiting: &[usize], now_us: i64) -> usize {
        let suited: Vec<usize> =
            self.state.parts.fits.best_of(waiting).into_iter().map(|place| waiting[place]).collect();
        let usable = self.state.usable_of(&suited, now_us);
        let suited: Vec<usize> = (0..waiting.len()).filter(|place| usable.contains(&waiting[*place])).collect();
        let place_of = |candidate: usize| suited.iter().copied().find(|place| waiting[*place] == candidate);
        // Trials come last, whatever is predicted for them.
        let best = || {
            let out = |candidate: usize| {
                place_of(candidate).is_none() || self.state.parts.candidates[candidate].turn == CandidateTurn::Trial
            };
            self.state.ask(now_us, out, value::order).first().and_then(place_of)
        };
        let listed = suited.first().copied().unwrap_or(0);
        if self.state.parts.settings.policy.learns() { best().unwrap_or(listed) } else { listed }
    }

    /// How long a loser that runs on may take: to its timeout, and a revisit no longer than twice what is usual there.
    pub fn runs_on_for(&self, candidate: usize, now_us: i64) -> Duration {
        let timeout = self.state.parts.candidates[candidate].first_token;
        let usual = self.twice_usual(candidate, now_us).filter(|_| self.is_revisit(candidate));
        usual.map_or(timeout, |usual| usual.min(timeout))
    }

    fn twice_usual(&self, candidate: usize, now_us: i64) -> Option<Duration> {
        let sent = self.state.parts.candidates[candidate].conditions();
        self.state.forecast(candidate).usual_p99_us(sent, now_us).map(|usual_us| duration(2 * usual_us))
    }

    /// It is asked to find out whether it is as it was.
    fn is_revisit(&self, candidate: usize) -> bool {
        self.state.extra == Some(candidate) && !self.is_look(candidate)
    }

    /// The request drew it.
    fn is_look(&self, candidate: usize) -> bool {
        self.state.watched == Some(candidate)
    }

    /// As many attempts run there as may.
    pub fn is_full(&self, candidate: usize) -> bool {
        self.state.parts.candidates.get(candidate).is_some_and(CandidateState::is_full)
    }

    /// It was started to be looked at.
    pub fn is_watched(&self, candidate: usize) -> bool {
        self.state.extra == Some(candidate) || self.is_look(candidate)
    }

    /// It is read to its end if it runs on: too few of its answers were judged.
    pub fn reads_on(&self, candidate: usize) -> bool {
        self.state.parts.candidates[candidate].reads_on
    }

    /// It runs on to its first token if it loses: it is looked at, or hardly anything was seen of it.
    pub fn runs_on(&self, candidate: usize) -> bool {
        self.is_watched(candidate) || self.state.parts.candidates[candidate].is_new
    }

    /// When the first attempt of a plan is late.
    fn first_rescue(&self, plan: &RacePlan, now_us: i64) -> Option<Duration> {
        let starts = |entry: &PlannedStart| !entry.trial && entry.start == StartRule::At(Duration::ZERO);
        let (running, waiting): (Vec<&PlannedStart>, Vec<&PlannedStart>) =
            plan.entries.iter().filter(|entry| !entry.trial).partition(|entry| starts(entry));
        let running: Vec<AttemptView> = running.iter().map(|entry| AttemptView::waiting(entry.candidate, 0)).collect();
        let waiting: Vec<usize> = waiting.iter().map(|entry| entry.candidate).collect();
        self.state.rescue_in_us(&running, &waiting, now_us).map(duration)
    }

    /// This candidate refused the prompt as too long: candidates with a larger window are next.
    pub fn too_long(&mut self, candidate: usize, overflow: ContextOverflow) {
        self.state.parts.fits.refused(candidate, overflow);
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
        let is_held = matches!(self.state.parts.settings.optimise, Objective::Completion | Objective::Goodput);
        if !is_held || hold_max_us == 0 || running.is_empty() {
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
        let decodes_us = |candidate: usize| self.tpot_us(candidate) * answer_tokens;
        decodes_us(new) < decodes_us(held) - (now_us - self.held_us) as f64
    }

    /// Whether a loser should end within `limit`, if its answer has at most `tokens_max` tokens.
    pub fn ends_within(&self, loser: &AttemptView, tokens_max: Option<i64>, limit: Duration, now_us: i64) -> bool {
        let usual = self.state.parts.race_budget.terms().answer_tokens;
        let tokens = tokens_max.map_or(usual, |most| usual.min(most as f64)) - loser.tokens as f64;
        let decode_us = match self.state.clock {
            LatencyClock::FirstToken => tokens.max(0.0) * self.tpot_us(loser.candidate),
            LatencyClock::WholeAnswer => 0.0,
        };
        let left_us = micros(limit) as f64 - decode_us;
        let first_token_us = || self.state.ask(now_us, |_| false, |question| hold::first_token_us(question, loser));
        // Most answers are too long whenever they begin.
        left_us >= 0.0 && (loser.first_token_us.is_some() || first_token_us().is_some_and(|rest| rest <= left_us))
    }

    /// Per token of this candidate's latest start.
    fn tpot_us(&self, candidate: usize) -> f64 {
        let in_flight = self.state.parts.candidates[candidate].started.map_or(0, |sent| sent.in_flight);
        self.state.forecast(candidate).tpot_us(in_flight).unwrap_or(TPOT_US)
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

    fn regular_of(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        running.iter().filter(|attempt| !self.state.is_trial(attempt.candidate)).copied().collect()
    }

    /// The attempts that a client can count on: trials only if nothing else runs.
    fn carrying(&self, running: &[AttemptView]) -> Vec<AttemptView> {
        let regular = self.regular_of(running);
        if regular.is_empty() { running.to_vec() } else { regular }
    }
}

#[cfg(test)]
mod tests;
