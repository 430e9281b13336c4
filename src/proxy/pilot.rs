//! Steers one race by what was learnt: makes its plan, and answers what the race asks while it runs.
//!
//! What is best is decided in `routing::adaptive`; here the request is put into its words, and its answers into the race's.

use std::sync::Arc;
use std::time::Duration;

use super::field::{Field, Runner};
use super::fits::Fits;
use super::steered::{Looked, Reasons, Seen, Steered, aim, carrying, progress_of, regular_of, running_of};
use crate::clock::{Instant, micros};
use crate::config::{HedgeAfter, Objective, Policy, RaceSettings};
use crate::learning::{Blocks, Learning, Purse, Spotted};
use crate::protocol::error::TooLong;
use crate::protocol::request::ApiRequest;
use crate::race::{Replan, Which};
use crate::routing::adaptive::{self, CANDIDATES_MAX, Candidate, Next, Opening, Picks, Question, Why, rule};
use crate::routing::plan::{self, Entry, Plan, Start, plan};
use crate::routing::tariff::Prompt;

/// Attempts that may wait for their first token at once, where the policy decides how many.
const RUNNING_MAX: usize = 3;

/// When an empty bucket is looked into again.
const EMPTY_AGAIN: Duration = Duration::from_millis(500);

/// One race's.
pub struct Pilot {
    learning: Arc<Learning>,
    settings: RaceSettings,
    /// By candidate.
    steered: Vec<Steered>,
    purse: Arc<Purse>,
    blocks: Blocks,
    /// Of the request.
    bytes: usize,
    began_us: i64,
    /// Drawn once: whether this request is one to probe with.
    draw: f64,
    reasons: Reasons,
    fits: Fits,
    /// Nothing is started but the first, and others after failures.
    crowded: bool,
    /// When a first token was held back.
    held_us: i64,
}

impl Pilot {
    pub fn new(learning: &Arc<Learning>, field: &Field, request: &ApiRequest, read_at: Instant) -> Pilot {
        let began_us = learning.at_us(read_at);
        let blocks = learning.blocks(&request.prompt());
        let tokens = request.len() as f64 / 4.0;
        let domains: Vec<Option<&str>> =
            field.runners.iter().map(|runner| runner.upstream.provider.domain.as_deref()).collect();
        let steer = |(place, runner): (usize, &Runner)| {
            let known = learning.upstream(&runner.name);
            let known_tokens = learning.known_tokens(&known, &blocks, began_us).min(tokens);
            let cached = known_tokens * known.caching();
            Steered {
                tariff: field.basis.tariff(runner.upstream.billing()),
                prompt: Prompt { uncached: tokens - cached, cached },
                known_tokens,
                // The place of the first of a domain stands for it.
                domain: domains[place]
                    .and_then(|domain| domains.iter().position(|other| *other == Some(domain)))
                    .and_then(|place| u32::try_from(place).ok()),
                runner: runner.for_plan(),
                started: None,
                known,
            }
        };
        let steered = field.runners.iter().enumerate().map(steer).collect();
        Pilot {
            learning: learning.clone(),
            settings: field.settings.clone(),
            steered,
            purse: Arc::new(Purse::new(
                learning.ledger(&field.model, field.settings.budget, field.basis.is_money()),
                field.settings.policy.spends_budget(),
            )),
            blocks,
            bytes: request.len(),
            began_us,
            draw: fastrand::f64(),
            reasons: Reasons::default(),
            fits: Fits::new(field, request),
            crowded: field.crowded,
            held_us: 0,
        }
    }

    pub fn reasons(&self) -> Reasons {
        self.reasons.clone()
    }

    pub fn purse(&self) -> Arc<Purse> {
        self.purse.clone()
    }

    /// How to tell of an attempt at this candidate that is started now.
    pub fn spotted(&mut self, candidate: usize, ordinal: usize) -> Spotted {
        let steered = &mut self.steered[candidate];
        let sent = steered.sent();
        steered.started = Some(sent);
        Spotted {
            ordinal,
            learning: self.learning.clone(),
            known: steered.known.clone(),
            purse: self.purse.clone(),
            tariff: steered.tariff,
            sent,
            prompt: steered.prompt,
            blocks: self.blocks.clone(),
            known_tokens: steered.known_tokens,
            bytes: self.bytes,
        }
    }

    /// The plan of the policy.
    pub fn plan(&mut self) -> Plan {
        let runners: Vec<plan::Runner> = self.steered.iter().map(|steered| steered.runner).collect();
        // Nobody else needs to know the leader.
        let delay = if self.settings.policy == Policy::Hedge { self.hedge_delay() } else { Duration::ZERO };
        let mut listed = plan(&self.settings, &runners, delay, fastrand::f64());
        match self.settings.policy {
            Policy::Race | Policy::Fallback | Policy::Weighted => self.reasons.add(Why::Listed),
            Policy::Hedge => self.hedge(&mut listed.entries),
            Policy::Fastest => {
                let order = self.unknown_first(self.order());
                self.reasons.add(if self.regular() == 1 { Why::Alone } else { self.why_first(&order) });
                sort(&mut listed.entries, self.regular(), &order);
            }
            Policy::Adaptive | Policy::Rule => self.open(&mut listed),
        }
        self.fits.put_behind(&mut listed.entries);
        if self.crowded {
            self.leave_out_extras(&mut listed);
        }
        listed
    }

    /// Of those that would start at once only the first does; the others, trials too, wait for a failure.
    fn leave_out_extras(&self, listed: &mut Plan) {
        for entry in listed.entries.iter_mut().skip(1) {
            (entry.start, entry.trial) = (Start::AfterFailure, false);
        }
        listed.max_attempts = self.settings.max_attempts;
        (listed.ask_after, listed.expected) = (None, None);
        self.reasons.add(Why::Crowded);
    }

    /// At a timer of the plan, or after a failure.
    pub fn replan(&mut self, running: &[Seen], waiting: &[usize]) -> Replan {
        if self.crowded {
            return Replan::Never;
        }
        let running = &running_of(&carrying(&self.steered, running))[..];
        let by_rule = self.settings.policy == Policy::Rule;
        let (next, why) = self.ask(
            |candidate| !waiting.contains(&candidate),
            |question| match by_rule {
                true => rule::next(question, running),
                false => adaptive::next(question, running),
            },
        );
        match next {
            Next::Start(candidate) if self.reserve(candidate, running.iter().map(|running| running.candidate)) => {
                Replan::Start(candidate)
            }
            Next::Start(_) => {
                self.reasons.add(Why::Budget);
                Replan::Again(EMPTY_AGAIN)
            }
            Next::AskAgain { after_us } => {
                if why == Why::Budget {
                    self.reasons.add(why);
                }
                Replan::Again(Duration::from_micros(u64::try_from(after_us).unwrap_or(0).max(1)))
            }
            Next::Never => {
                if matches!(why, Why::Alone | Why::Throttled) {
                    self.reasons.add(why);
                }
                Replan::Never
            }
        }
    }

    /// Whether a candidate may be asked again beside those that run: an extra attempt, as a hedge is one.
    pub fn affords_retry(&self, candidate: usize, running: &[Seen]) -> bool {
        let throttled = || self.steered[candidate].known.outlook().throttled(self.learning.now_us());
        if self.crowded || throttled() {
            return false;
        }
        let running = running.iter().map(|running| running.candidate);
        !self.settings.policy.spends_budget() || self.reserve(candidate, running)
    }

    /// Which of those that wait is next, by its place among them.
    pub fn next_after_failure(&self, waiting: &[usize]) -> usize {
        let learns = matches!(self.settings.policy, Policy::Adaptive | Policy::Rule | Policy::Fastest);
        let suited = self.fits.best_of(waiting);
        let place_of = |candidate: usize| suited.iter().copied().find(|place| waiting[*place] == candidate);
        // Those on trial stand behind the others, whatever they seem to be.
        let best = || {
            let out = |candidate: usize| place_of(candidate).is_none() || self.steered[candidate].extra();
            self.ask(out, adaptive::order).first().and_then(place_of)
        };
        let listed = suited.first().copied().unwrap_or(0);
        if learns { best().unwrap_or(listed) } else { listed }
    }

    /// This candidate has refused the prompt as too long: those with more room are next.
    pub fn too_long(&mut self, candidate: usize, told: TooLong) {
        self.fits.refused(candidate, told);
    }

    /// It surely has no room for the prompt, and others may.
    pub fn is_too_small(&self, candidate: usize) -> bool {
        self.fits.is_too_small(candidate)
    }

    /// Not among the first: on trial, or too small for the prompt.
    fn is_behind(&self, candidate: usize) -> bool {
        self.steered[candidate].extra() || self.fits.is_too_small(candidate)
    }

    /// How long to hold back the first token of `ready` for those that run.
    pub fn hold(&mut self, ready: usize, running: &[Seen]) -> Option<Duration> {
        // Nothing waits for a trial.
        let running = &running_of(&regular_of(&self.steered, running))[..];
        let hold_max_us = micros(self.settings.hold_max);
        if self.settings.optimise == Objective::Ttft || hold_max_us == 0 || running.is_empty() {
            return None;
        }
        let held_us = self.ask(|_| false, |question| adaptive::hold(question, ready, running, hold_max_us))?;
        self.reasons.add(Why::Held);
        self.held_us = self.learning.now_us();
        Some(Duration::from_micros(u64::try_from(held_us.min(hold_max_us)).unwrap_or(0)))
    }

    /// The one that should finish first: the held one has begun earlier.
    pub fn prefer(&self, held: usize, new: usize) -> Which {
        let answer_tokens = self.purse.terms().answer_tokens;
        let decodes_us = |candidate: usize| {
            let steered = &self.steered[candidate];
            let in_flight = steered.started.map_or(0, |sent| sent.in_flight);
            steered.known.outlook().tpot_us(in_flight).unwrap_or(adaptive::TPOT_US) * answer_tokens
        };
        let ahead_us = (self.learning.now_us() - self.held_us) as f64;
        if decodes_us(new) < decodes_us(held) - ahead_us { Which::New } else { Which::Held }
    }

    /// One of a race to the whole answer, by its place among those that run, that will end too late to wait for.
    pub fn hopeless(&self, running: &[Seen]) -> Option<usize> {
        // Asked with every event: most of the time nothing has changed that matters.
        if running.len() < 2 || running.iter().all(|seen| seen.progress.is_none()) {
            return None;
        }
        let progress: Vec<adaptive::Progress> = regular_of(&self.steered, running).iter().map(progress_of).collect();
        let hopeless = self.ask(|_| false, |question| adaptive::hopeless(question, &progress)).first()?;
        running.iter().position(|seen| seen.candidate == hopeless)
    }

    /// A delay that is given leaves the order as it is given; one that is learnt goes with the order that is learnt.
    fn hedge(&mut self, entries: &mut [Entry]) {
        if let HedgeAfter::After(_) = self.settings.hedge_after {
            self.reasons.add(Why::Listed);
        } else {
            self.reasons.add(if entries.len() > 1 { Why::Hedge } else { Why::Alone });
            sort(entries, self.regular(), &self.order());
        }
        // Whoever fails often has too much to do already.
        let now = self.learning.now_us();
        let mut parks: Vec<u32> = Vec::new();
        for (place, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.trial) {
            let steered = &self.steered[entry.candidate];
            let throttled = place > 0 && steered.known.outlook().throttled(now);
            if throttled {
                self.reasons.add(Why::Throttled);
            }
            // What slows one of a machine park slows the other.
            if throttled || steered.domain.is_some_and(|domain| parks.contains(&domain)) {
                entry.start = Start::AfterFailure;
            } else {
                parks.extend(steered.domain);
            }
        }
    }

    fn open(&mut self, listed: &mut Plan) {
        let by_rule = self.settings.policy == Policy::Rule;
        let opening = self.ask(
            |candidate| self.is_behind(candidate),
            |question| match by_rule {
                true => rule::open(question),
                false => adaptive::open(question),
            },
        );
        let Opening { primary, also, hedge_at_us, hedge, why } = opening;
        self.reasons.add(why);
        let order: Picks =
            std::iter::once(primary).chain(self.order().iter().filter(|other| *other != primary)).collect();
        sort(&mut listed.entries, self.regular(), &order);
        let mut started = vec![primary];
        for candidate in also.iter().take(RUNNING_MAX - 1) {
            self.start_beside(listed, candidate, &mut started);
        }
        let after = hedge_at_us.map(|after_us| Duration::from_micros(u64::try_from(after_us).unwrap_or(0)));
        listed.expected = hedge;
        listed.ask_after = after.filter(|_| self.regular() > 1);
    }

    /// At once, if there is money for it.
    fn start_beside(&self, listed: &mut Plan, candidate: usize, started: &mut Vec<usize>) {
        if self.reserve(candidate, started.iter().copied())
            && let Some(entry) = listed.entries.iter_mut().find(|entry| entry.candidate == candidate)
        {
            entry.start = Start::At(Duration::ZERO);
            started.push(candidate);
        }
    }

    /// For an attempt beside these. Whichever of all wins is no extra, so what they may cost beyond it is all but the cheapest.
    fn reserve(&self, candidate: usize, beside: impl Iterator<Item = usize>) -> bool {
        let answer_tokens = self.purse.terms().answer_tokens;
        let cost = |candidate: usize| self.steered[candidate].cost(answer_tokens);
        let least = beside.map(cost).reduce(f64::min);
        least.is_none_or(|least| self.purse.reserve(cost(candidate).max(least)))
    }

    /// How many candidates are not on trial.
    fn regular(&self) -> usize {
        self.steered.iter().take_while(|steered| !steered.extra()).count()
    }

    /// Who would never be tried, for the prior makes them slower than the best, goes before it a few times.
    fn unknown_first(&self, order: Picks) -> Picks {
        // Without another attempt behind it a request is not one to try with.
        let may = self.settings.max_attempts > 1;
        let unknown = |candidate: &usize| may && self.steered[*candidate].known.outlook().is_unknown();
        order.iter().filter(unknown).chain(order.iter().filter(|candidate| !unknown(candidate))).collect()
    }

    fn why_first(&self, order: &Picks) -> Why {
        let unknown = order.first().is_some_and(|first| self.steered[first].known.outlook().is_unknown());
        if unknown { Why::Cold } else { Why::Best }
    }

    fn order(&self) -> Picks {
        self.ask(|candidate| self.is_behind(candidate), adaptive::order)
    }

    /// The delay of a hedge: where it is a quantile, the leader's for this prompt, if enough is known of it.
    fn hedge_delay(&self) -> Duration {
        let HedgeAfter::Quantile(quantile) = self.settings.hedge_after else {
            return self.settings.hedge_after.unlearned();
        };
        let leader = self.order().first().and_then(|leader| self.steered.get(leader));
        let learned = leader.and_then(|leader| {
            let known = leader.known.outlook();
            known.ttft_quantile_us(leader.sent(), quantile, self.learning.now_us())
        });
        learned.map_or(self.settings.hedge_after.unlearned(), |us| Duration::from_micros(us as u64))
    }

    /// Puts the question, to whoever answers it.
    fn ask<A>(&self, out: impl Fn(usize) -> bool, answer: impl FnOnce(&Question<'_>) -> A) -> A {
        let now = self.learning.now_us();
        let terms = self.purse.terms();
        let looked: Vec<Looked> =
            self.steered.iter().take(CANDIDATES_MAX).map(|steered| steered.look(self.began_us, now)).collect();
        let candidates: Vec<Candidate<'_>> = self
            .steered
            .iter()
            .zip(&looked)
            .enumerate()
            .map(|(place, (steered, looked))| steered.candidate(looked, out(place), terms.answer_tokens))
            .collect();
        answer(&Question {
            candidates: &candidates,
            aim: aim(&self.settings),
            terms,
            max_running: RUNNING_MAX.min(self.settings.max_attempts),
            now,
            elapsed_us: now - self.began_us,
            draw: self.draw,
        })
    }
}

/// Puts the first `regular` candidates into this order; those that are not in it stay behind it as they stood. When each place
/// starts stays as it is.
fn sort(entries: &mut [Entry], regular: usize, order: &Picks) {
    let starts: Vec<Start> = entries.iter().map(|entry| entry.start).collect();
    let place = |entry: &Entry| order.iter().position(|candidate| candidate == entry.candidate).unwrap_or(usize::MAX);
    entries[..regular].sort_by_key(place);
    entries.iter_mut().zip(starts).for_each(|(entry, start)| entry.start = start);
}
