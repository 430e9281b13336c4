//! One race as its policy sees it: the candidates, the clock, the budget, and the questions put to the forecasts. Not for what a policy
//! decides: each has a file of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc_swap::Guard;

use super::candidate::{CandidateState, CandidateTurn, Observed};
use super::context_fit::ContextFits;
use super::draw::{LookDraw, LookTicket};
use super::plan::{PlannedStart, RacePlan, StartRule};
use super::question::{
    AdaptiveQuestion, CANDIDATES_MAX, CandidateForecast, CandidateOrder, Minimise, Opening, us_per_cost,
};
use super::value;
use crate::forecast::LatencyForecast;
use crate::learning::LatencyClock;
use crate::money::RaceBudget;
use photofinish_config::RaceSettings;
use photofinish_facts::reason::DecisionReason;

/// Attempts that may wait for a first token at once under policies with a budget.
pub(super) const RUNNING_MAX: usize = 4;

/// What a driver is made of.
pub struct PolicyDriverParts {
    pub settings: RaceSettings,
    /// At least one; behind the usual ones trials, and at the end those of the last resort.
    pub candidates: Vec<CandidateState>,
    pub race_budget: Arc<RaceBudget>,
    pub fits: ContextFits,
    /// When the request arrived.
    pub began_us: i64,
    /// Uniform in 0..1: the first of `weighted`.
    pub draw: f64,
    /// It may draw an upstream to be looked at. None: there is nothing to compare.
    pub look: Option<LookTicket>,
    /// The tariffs are in US dollars.
    pub in_usd: bool,
    /// The client can do nothing before the whole answer is there.
    pub for_answer: bool,
    /// The candidate that answered the session of the request before.
    pub pinned: Option<usize>,
    /// The gateway is overloaded: only the first attempt starts, others after a failure.
    pub crowded: bool,
}

/// One race, for its policy.
pub struct PolicyState {
    pub(super) parts: PolicyDriverParts,
    pub(super) reasons: DecisionReasons,
    /// What attempts are waited for: the whole answer where they are asked for plain ones.
    pub(super) clock: LatencyClock,
    /// The candidate that is asked in addition: the drawn one, or one that may be again as it was.
    pub(super) extra: Option<usize>,
    /// What was drawn, and the drawn candidate if it starts.
    pub(super) look: Option<LookDraw>,
    pub(super) watched: Option<usize>,
    /// The candidate that starts only to be compared, and what that is expected to cost, as a share of a mean attempt.
    pub(super) compares: Option<(usize, f64)>,
    /// By candidate: whether it was full when the race began, whether it answers worse, and its tier. Higher ones go later.
    pub(super) standings: Vec<(bool, bool, u32)>,
}

impl PolicyState {
    /// The number of candidates that are neither trials nor of the last resort.
    pub(super) fn regular(&self) -> usize {
        self.parts.candidates.iter().take_while(|state| state.turn == CandidateTurn::Usual).count()
    }

    /// It runs in addition to the others: no client counts on it.
    pub(super) fn is_trial(&self, candidate: usize) -> bool {
        self.parts.candidates[candidate].turn == CandidateTurn::Trial || self.extra == Some(candidate)
    }

    /// Looks which candidates have room.
    pub(super) fn look_for_room(&mut self) {
        let standing = |state: &CandidateState| (state.is_full(), state.worse, state.tier);
        if self.parts.candidates.len() > 1 {
            let regular = &self.parts.candidates[..self.regular()];
            if regular.iter().any(|state| state.worse) && !regular.iter().all(|state| state.worse) {
                self.reasons.add(DecisionReason::Quality);
            }
            self.standings = self.parts.candidates.iter().map(standing).collect();
        }
    }

    /// Others go first: they are of a lower tier, answer better, or have room.
    pub(super) fn is_later(&self, candidate: usize) -> bool {
        let least = self.standings.iter().take(self.regular()).min();
        least.is_some_and(|least| self.standings.get(candidate) > Some(least))
    }

    /// Not first: a trial, the last resort, a window that is too small for the prompt, or another tier.
    pub(super) fn is_behind(&self, candidate: usize) -> bool {
        let state = &self.parts.candidates[candidate];
        state.turn > CandidateTurn::Usual || self.parts.fits.is_too_small(candidate) || self.is_later(candidate)
    }

    /// The upstream that answered the session before goes first while it is well; the policy's own first takes its place.
    pub(super) fn put_pinned_first(&self, plan: &mut RacePlan, now_us: i64) {
        let is_well = |candidate: &usize| !self.is_behind(*candidate) && self.is_usable(*candidate, now_us);
        let Some(pinned) = self.parts.pinned.filter(is_well) else { return };
        let Some(place) = plan.entries.iter().position(|entry| entry.candidate == pinned) else { return };
        self.reasons.add(DecisionReason::Session);
        if place > 0 {
            let entry = plan.entries.remove(place);
            plan.entries[0].start = entry.start;
            plan.entries.insert(0, PlannedStart { start: StartRule::At(Duration::ZERO), ..entry });
            plan.expected = plan.expected.filter(|expected| *expected != pinned);
        }
    }

    /// Moves those that are later to the end of the regular ones, to start only after a failure.
    pub(super) fn put_later_behind(&self, entries: &mut [PlannedStart]) {
        let regular = self.regular();
        let Some(entries) = entries.get_mut(..regular) else { return };
        if !entries.iter().any(|entry| self.is_later(entry.candidate)) {
            return;
        }
        // The starts stay in their order: another one goes first in place of one that is later.
        let mut starts: Vec<StartRule> = entries.iter().map(|entry| entry.start).collect();
        entries.sort_by_key(|entry| self.standings.get(entry.candidate).copied());
        let first = entries.iter().filter(|entry| !self.is_later(entry.candidate)).count();
        starts[first..].fill(StartRule::AfterFailure);
        entries.iter_mut().zip(starts).for_each(|(entry, start)| entry.start = start);
    }

    /// Of what its attempts are waited for.
    pub(super) fn forecast(&self, candidate: usize) -> Guard<Arc<LatencyForecast>> {
        let state = &self.parts.candidates[candidate];
        state.known.forecast_by(state.clock(self.clock))
    }

    /// Sorts the regular starts of a plan; those outside `order` follow as listed. The start of each place stays.
    pub(super) fn sort(&self, entries: &mut [PlannedStart], order: &CandidateOrder) {
        let starts: Vec<StartRule> = entries.iter().map(|entry| entry.start).collect();
        let place = |entry: &PlannedStart| {
            order.iter().position(|candidate| candidate == entry.candidate).unwrap_or(usize::MAX)
        };
        entries[..self.regular()].sort_by_key(place);
        entries.iter_mut().zip(starts).for_each(|(entry, start)| entry.start = start);
    }

    /// Fills in the plan of a policy that predicts.
    pub(super) fn begin(&self, plan: &mut RacePlan, opening: Opening, now_us: i64) {
        let Opening { primary, also, hedge_at_us, hedge, why } = opening;
        self.reasons.add(why);
        let order = self.ask_first(now_us, |question| value::order_from(primary, question));
        self.sort(&mut plan.entries, &order);
        let mut started = vec![primary];
        for candidate in also.iter().take(RUNNING_MAX - 1) {
            self.start_extra(plan, candidate, &mut started);
        }
        plan.expected = hedge;
        plan.ask_after = hedge_at_us.map(duration).filter(|_| self.regular() > 1);
    }

    /// Starts this candidate at once if the budget allows it.
    fn start_extra(&self, plan: &mut RacePlan, candidate: usize, started: &mut Vec<usize>) {
        if self.reserve(candidate, started.iter().copied())
            && let Some(entry) = plan.entries.iter_mut().find(|entry| entry.candidate == candidate)
        {
            entry.start = StartRule::At(Duration::ZERO);
            started.push(candidate);
        }
    }

    /// Reserves the most that an extra attempt may cost. The winner is not extra, whichever it is, so the cheapest of all stays free.
    pub(super) fn reserve(&self, candidate: usize, running: impl Iterator<Item = usize>) -> bool {
        self.reserve_with(candidate, running, 0.0)
    }

    /// The same for one that may cost so much more.
    pub(super) fn reserve_with(&self, candidate: usize, running: impl Iterator<Item = usize>, more: f64) -> bool {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        let worst = |candidate: usize| self.parts.candidates[candidate].worst(answer_tokens);
        let least = running.map(worst).reduce(f64::min);
        least.is_none_or(|least| self.parts.race_budget.reserve((worst(candidate) + more).max(least)))
    }

    /// Charges a start that is never refused.
    pub(super) fn charge(&self, candidate: usize) {
        if self.parts.settings.policy.spends_budget() {
            self.parts.race_budget.charge(self.costs()(candidate));
        }
    }

    fn costs(&self) -> impl Fn(usize) -> f64 {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        move |candidate| self.parts.candidates[candidate].cost(answer_tokens)
    }

    /// Puts a question about the candidates that may go first.
    pub(super) fn ask_first<A>(&self, now_us: i64, answer: impl FnOnce(&AdaptiveQuestion<'_>) -> A) -> A {
        self.ask(now_us, |candidate| self.is_behind(candidate), answer)
    }

    /// Puts one question to the routing code. `out`: candidates that may not start.
    pub(super) fn ask<A>(
        &self,
        now_us: i64,
        out: impl Fn(usize) -> bool,
        answer: impl FnOnce(&AdaptiveQuestion<'_>) -> A,
    ) -> A {
        let PolicyDriverParts { settings, candidates, race_budget, began_us, in_usd, for_answer, .. } = &self.parts;
        let terms = race_budget.terms();
        let observed: Vec<Observed> =
            candidates.iter().take(CANDIDATES_MAX).map(|state| state.observe(self.clock, now_us)).collect();
        let views: Vec<CandidateForecast<'_>> = candidates
            .iter()
            .zip(&observed)
            .enumerate()
            .map(|(place, (state, observed))| state.view(observed, out(place), terms.answer_tokens))
            .collect();
        let tpot_least_us = views.iter().map(CandidateForecast::tpot_us).fold(f64::INFINITY, f64::min);
        answer(&AdaptiveQuestion {
            candidates: &views,
            aim: Minimise::of(settings, *for_answer),
            tpot_least_us,
            terms,
            p99_us: if self.clock == LatencyClock::WholeAnswer { terms.whole_p99_us } else { terms.p99_us },
            max_running: RUNNING_MAX.min(settings.max_attempts),
            now: now_us,
            elapsed_us: now_us - began_us,
            us_per_cost: us_per_cost(settings, *in_usd),
        })
    }
}

pub(super) fn duration(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// A set of [`DecisionReason`]. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct DecisionReasons {
    bits: Arc<AtomicU32>,
}

impl DecisionReasons {
    pub fn add(&self, why: DecisionReason) {
        self.bits.fetch_or(bit(why), Relaxed);
    }

    pub fn contains(&self, why: DecisionReason) -> bool {
        self.bits.load(Relaxed) & bit(why) != 0
    }

    /// The codes, separated by spaces; none if the set is empty.
    pub fn text(&self) -> Option<String> {
        let codes: Vec<&str> =
            DecisionReason::ALL.into_iter().filter(|why| self.contains(*why)).map(DecisionReason::as_str).collect();
        (!codes.is_empty()).then(|| codes.join(" "))
    }
}

const _: () = assert!(DecisionReason::ALL.len() <= u32::BITS as usize);

fn bit(why: DecisionReason) -> u32 {
    DecisionReason::ALL.iter().position(|other| *other == why).map_or(0, |place| 1 << place)
}
