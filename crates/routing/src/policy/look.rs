//! Looks: a fair sample of what each upstream alone would take. When the plan is made, and whatever it is, a request draws with a small
//! probability one upstream of its model. That one starts at once together with the leader and runs to its first token, whoever wins. What
//! starts at once anyway costs nothing more, so it is drawn more often; of the others those with the fewest looks are, and at cheap requests.
//! Not for routing: what `adaptive` learns from it, it learns as from every attempt.

use std::time::Duration;

use super::candidate::{CandidateState, CandidateTurn};
use super::draw::{LookDraw, LookTicket};
use super::plan::{PlannedStart, RacePlan, StartRule};
use super::state::PolicyState;
use crate::learning::LatencyClock;
use photofinish_config::Policy;
use photofinish_facts::reason::DecisionReason;

/// Policies that draw unless `look` is set. The others were chosen to ask one upstream.
const BY_DEFAULT: [Policy; 2] = [Policy::Adaptive, Policy::Race];
/// Share of the requests that draw an upstream which would not start otherwise.
const USUAL: f64 = 0.02;
/// The same until each upstream has had [`ENOUGH`] looks within a week. Then it falls to the usual one as their number grows: if it fell
/// at once, the few later looks would outweigh all earlier ones.
const FIRST: f64 = 0.1;
const ENOUGH: f64 = 40.0;
/// The same while answers of others are wanted, because a host of the model may break more of them. It is paid outside the budget.
const IN_DOUBT: f64 = 0.75;
/// Share of the requests that draw an upstream which starts at once anyway, for each of them, and for all together.
const FREE: f64 = 0.1;
const FREE_MOST: f64 = 0.5;
/// Looks within a week that are enough for a median within 4 % and a 95th percentile within 10 %. From there on all shares fall as
/// their number grows.
const PLENTY: f64 = 200.0;

impl PolicyState {
    /// Draws, and starts the drawn candidate together with the others, if the budget allows it.
    pub(super) fn draw_look(&mut self, plan: &mut RacePlan, now_us: i64) {
        let Some(mut ticket) = self.parts.look else { return };
        let settings = &self.parts.settings;
        ticket.in_doubt &= settings.look.is_none();
        ticket.in_doubt &=
            !settings.policy.spends_budget() || self.parts.race_budget.looks(|looks| looks.affords_comparison());
        let drawn = LookDraw::new(&self.look_shares(plan, &ticket, now_us), ticket.draw);
        self.look = Some(drawn);
        let may_start = |place: &usize| {
            self.parts.candidates.get(*place).is_some_and(|at| at.turn != CandidateTurn::Last && !at.is_full())
        };
        if let Some(candidate) = drawn.drawn.filter(may_start) {
            self.look_at(candidate, ticket.in_doubt, plan, now_us);
        }
    }

    /// By place, with what probability each upstream is drawn.
    pub(super) fn look_shares(&self, plan: &RacePlan, ticket: &LookTicket, now_us: i64) -> Vec<f64> {
        let LookTicket { upstreams, in_doubt, .. } = *ticket;
        let (settings, race_budget) = (&self.parts.settings, &self.parts.race_budget);
        // With a single attempt no look runs.
        if settings.max_attempts < 2 || settings.look.is_none() && !BY_DEFAULT.contains(&settings.policy) {
            return vec![0.0; upstreams];
        }
        let starts = |entry: &PlannedStart| !entry.trial && entry.start == StartRule::At(Duration::ZERO);
        let is_free = |place: usize| plan.entries.iter().any(|entry| entry.candidate == place && starts(entry));
        let mut shares = match settings.look {
            Some(look) => vec![look / upstreams as f64; upstreams],
            None => self.usual_shares(ticket, is_free, now_us),
        };
        shares.iter_mut().enumerate().filter(|(place, _)| self.is_mute(*place)).for_each(|(_, share)| *share = 0.0);
        if settings.policy.spends_budget() {
            let costs = self.parts.candidates.iter().map(|state| self.look_cost(state));
            let cost = costs.sum::<f64>() / self.parts.candidates.len().max(1) as f64;
            let (likelier, affordable) = race_budget.looks(|looks| {
                let likelier = looks.asked(cost);
                let affordable = if in_doubt { 1.0 } else { looks.affordable() };
                (likelier, affordable)
            });
            if affordable <= 0.0 {
                return vec![0.0; upstreams];
            }
            let paid: f64 = (0..upstreams).filter(|place| !is_free(*place)).map(|place| shares[place]).sum();
            let of_wanted = (affordable / paid.max(f64::MIN_POSITIVE)).min(1.0);
            let likelier = if settings.look.is_none() { likelier } else { 1.0 };
            (0..upstreams).filter(|place| !is_free(*place)).for_each(|place| shares[place] *= likelier * of_wanted);
        }
        let all: f64 = shares.iter().sum();
        if all > 1.0 {
            shares.iter_mut().for_each(|share| *share /= all);
        }
        shares
    }

    /// Without `look`.
    fn usual_shares(&self, ticket: &LookTicket, is_free: impl Fn(usize) -> bool, now_us: i64) -> Vec<f64> {
        let LookTicket { upstreams, in_doubt, .. } = *ticket;
        let free = (0..upstreams).filter(|place| is_free(*place)).count() as f64;
        let paying = upstreams as f64 - free;
        let each: Vec<f64> = (0..upstreams).map(|place| self.looks_taken(place, now_us)).collect();
        let taken = |place: usize| each[place];
        let paid = || (0..upstreams).filter(|place| !is_free(*place)).map(taken);
        let usual = FIRST * paid().map(|taken| (ENOUGH / taken).min(1.0)).fold(0.0, f64::max);
        let wanted = if in_doubt { IN_DOUBT } else { usual };
        let all: f64 = paid().map(|taken| 1.0 / (1.0 + taken)).sum();
        let share = |place: usize| {
            let share = match is_free(place) {
                true => FREE.min(FREE_MOST / free),
                false => (wanted / (1.0 + taken(place)) / all).max(USUAL / paying),
            };
            if in_doubt { share } else { share * (PLENTY / taken(place)).min(1.0) }
        };
        (0..upstreams).map(share).collect()
    }

    /// Its answer can only be plain, and has no first token.
    fn is_mute(&self, place: usize) -> bool {
        self.clock == LatencyClock::WholeAnswer && self.parts.candidates.get(place).is_some_and(|state| state.plain)
    }

    /// Within the last week. What cannot start has had enough.
    fn looks_taken(&self, place: usize, now_us: i64) -> f64 {
        let may_start = |state: &&CandidateState| state.turn == CandidateTurn::Usual;
        let taken =
            |state: &CandidateState| self.parts.race_budget.looks(|looks| looks.taken(state.known.name(), now_us));
        self.parts.candidates.get(place).filter(may_start).map_or(PLENTY, taken)
    }

    /// What a look costs, a prompt and a first token or the whole answer, as a share of a mean attempt.
    fn look_cost(&self, state: &CandidateState) -> f64 {
        let answer_tokens = self.parts.race_budget.terms().answer_tokens;
        self.parts.race_budget.of_mean(state.cost(answer_tokens) + state.tariff.output + self.rest_cost(state))
    }

    /// What it costs to read a look to its end.
    fn rest_cost(&self, state: &CandidateState) -> f64 {
        if state.reads_on { self.parts.race_budget.terms().answer_tokens * state.tariff.output } else { 0.0 }
    }

    /// One that starts at once anyway needs nothing more.
    fn look_at(&mut self, drawn: usize, in_doubt: bool, plan: &mut RacePlan, now_us: i64) {
        let now = StartRule::At(Duration::ZERO);
        let starts_later = |entry: &PlannedStart| entry.candidate == drawn && entry.start != now;
        let later = plan.entries.iter().position(starts_later);
        let first = plan.entries.first().map(|entry| entry.candidate);
        let spends = self.parts.settings.policy.spends_budget();
        let rest = self.rest_cost(&self.parts.candidates[drawn]);
        let compares = later.is_some() && in_doubt;
        if later.is_some() && spends && !compares && !self.reserve_with(drawn, first.into_iter(), rest) {
            self.reasons.add(DecisionReason::Budget);
            return;
        }
        self.reasons.add(DecisionReason::Look);
        self.watched = Some(drawn);
        let state = &self.parts.candidates[drawn];
        let cost = if later.is_some() { self.look_cost(state) } else { 0.0 };
        self.parts.race_budget.looks(|looks| {
            looks.took(state.known.name(), now_us);
            if compares { looks.spend_on_doubt(cost) } else { looks.spend(cost) }
        });
        self.compares = compares.then_some((drawn, cost));
        let Some(place) = later else { return };
        let entry = plan.entries.remove(place);
        let only_shows = self.clock == LatencyClock::WholeAnswer;
        plan.entries.push(PlannedStart { start: now, trial: true, only_shows, ..entry });
        plan.max_attempts += 1;
        plan.expected = plan.expected.filter(|expected| *expected != drawn);
        // A session stays where it is: there the drawn one is only watched.
        plan.trials_win = self.parts.pinned.is_none();
        self.extra = Some(drawn);
    }
}
