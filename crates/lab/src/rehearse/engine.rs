//! The rehearsal: runs many races at once on simulated time. It decides nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::attempt::{Answering, Shared, SimulatedLauncher};
use super::stage::{EngineBuffers, MODEL, SharedStage, SimulatedCandidate, Wake, WakeTarget};
use super::world::{Baseline, PlayedLook, PlayedRace, SimulatedRequest, SimulatedWorld};
use photofinish_base::clock::Instant;
use photofinish_base::failure::FailureKind;
use photofinish_config::{QualityRule, RaceSettings};
use photofinish_race::retries::Retries;
use photofinish_race::{Race, RaceFinish};
use photofinish_routing::learning::Learning;
use photofinish_routing::money::RaceBudget;
use photofinish_routing::policy::plan::{PlannedStart, RacePlan, StartRule};
use photofinish_routing::policy::{
    CandidateState, CandidateTurn, ContextFits, DecisionReasons, LookTicket, PolicyDriver, PolicyDriverParts,
};
use photofinish_routing::verdict::{BreakerEffect, is_shared_by_all, verdict};

/// A model's traffic under one policy.
pub struct Rehearsal<'w> {
    pub settings: RaceSettings,
    /// On a stopped clock ([`Learning::stopped`]); what it has learned already counts.
    pub learning: Arc<Learning>,
    /// Played instead of the policy of `settings`.
    pub baseline: Option<Box<dyn Baseline + 'w>>,
    /// Decides what is random: `weighted`, jitter.
    pub seed: u64,
    /// The tariffs are in US dollars, so that `second_worth` counts.
    pub in_usd: bool,
    /// A provider goes on writing, and billing, this long after a cut, microseconds.
    pub cut_lag_us: i64,
}

impl<'w> Rehearsal<'w> {
    /// The gateway's policy with these settings, with nothing learned.
    pub fn new(settings: RaceSettings, seed: u64) -> Rehearsal<'w> {
        let learning = Arc::new(Learning::stopped());
        Rehearsal { settings, learning, baseline: None, seed, in_usd: false, cut_lag_us: 0 }
    }

    /// Runs all requests, which come in the order of their arrival. `heard` gets each race when it is over.
    pub fn run<W: SimulatedWorld>(
        self,
        requests: impl IntoIterator<Item = SimulatedRequest>,
        world: &'w mut W,
        heard: &mut impl FnMut(&PlayedRace<'_>),
    ) {
        let upstreams = world.upstreams().to_vec();
        let mut requests = requests.into_iter().peekable();
        let begin_us = requests.peek().map_or(0, |first| first.at_us);
        self.learning.set_now_us(begin_us);
        let Rehearsal { settings, learning, baseline, seed, in_usd, cut_lag_us } = self;
        let mut stage = EngineBuffers::new(world, upstreams, learning.clone(), settings, seed);
        (stage.baseline, stage.cut_lag_us) = (baseline, cut_lag_us);
        let stage = Rc::new(RefCell::new(stage));
        let (flights, free, trials) = Default::default();
        let mut engine = Engine { stage, learning, seed, in_usd, heard, flights, free, trials, trial: 0 };
        loop {
            let wake_us = engine.stage.borrow().wakes.next_us();
            let is_next = |request: &SimulatedRequest| wake_us.is_none_or(|wake_us| request.at_us < wake_us);
            if let Some(request) = requests.next_if(is_next) {
                engine.arrive(request);
                continue;
            }
            let wake = engine.stage.borrow_mut().wakes.pop();
            match wake {
                Some(wake) => engine.wake(wake),
                None => return,
            }
        }
    }
}

struct Engine<'w, 'h, W: SimulatedWorld, H> {
    stage: SharedStage<'w, W>,
    learning: Arc<Learning>,
    seed: u64,
    in_usd: bool,
    heard: &'h mut H,
    /// By slot; None if no race runs there.
    flights: Vec<Option<SimulatedRace<'w, W>>>,
    free: Vec<usize>,
    /// Trials that lost their race and run on to their first token.
    trials: HashMap<u64, LostTrial<'w, W>>,
    trial: u64,
}

struct LostTrial<'w, W> {
    answering: Answering<'w, W>,
    begun: Option<Instant>,
    /// It is given up then.
    until_us: i64,
}

/// A race under way.
struct SimulatedRace<'w, W: SimulatedWorld> {
    request: SimulatedRequest,
    shared: Rc<RefCell<Shared>>,
    race: Option<Box<Race<SimulatedLauncher<'w, W>>>>,
    /// The winner, once the race is over, and when the client got it.
    serving: Option<(Answering<'w, W>, i64)>,
    reasons: DecisionReasons,
    race_budget: Option<Arc<RaceBudget>>,
    look: Option<PlayedLook>,
    /// The next timer that is queued.
    timer_us: i64,
}

impl<'w, W: SimulatedWorld, H: FnMut(&PlayedRace<'_>)> Engine<'w, '_, W, H> {
    fn arrive(&mut self, request: SimulatedRequest) {
        self.stage.borrow_mut().set_now_us(request.at_us);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        let shared = Rc::new(RefCell::new(Shared::new()));
        let candidates = {
            let mut stage = self.stage.borrow_mut();
            let (with_trials, now) = (stage.settings.max_attempts > 1, stage.now());
            let mut candidates = stage.health.candidates(with_trials, now);
            if stage.settings.quality == QualityRule::Exclude {
                let is_worse = |place: &SimulatedCandidate| stage.world.is_worse(&request, place.upstream);
                if candidates.iter().any(|place| place.turn == CandidateTurn::Usual && !is_worse(place)) {
                    candidates.retain(|place| place.turn != CandidateTurn::Trial || !is_worse(place));
                    candidates
                        .iter_mut()
                        .filter(|place| is_worse(place))
                        .for_each(|place| place.turn = CandidateTurn::Last);
                    candidates.sort_by_key(|place| place.turn);
                }
            }
            candidates
        };
        let (race, reasons, race_budget, look) = match candidates.is_empty() {
            true => (None, DecisionReasons::default(), None, None),
            false => {
                let (plan, driver) = self.opening(&request, &candidates);
                let reasons = driver.as_ref().map(PolicyDriver::reasons).unwrap_or_default();
                let race_budget = driver.as_ref().map(|driver| driver.race_budget().clone());
                let look = driver.as_ref().and_then(|driver| played_look(driver, &candidates));
                let stage = self.stage.borrow();
                let retries = Retries::new(stage.settings.retries, stage.settings.retry_wait, candidates.len());
                let launcher = SimulatedLauncher {
                    stage: self.stage.clone(),
                    shared: shared.clone(),
                    learning: self.learning.clone(),
                    request,
                    target: WakeTarget::Race { slot, request: request.id },
                    candidates,
                    driver,
                    retries,
                    lost_trials: Vec::new(),
                };
                (Some(Box::new(Race::new(plan, launcher, stage.now()))), reasons, race_budget, look)
            }
        };
        self.flights[slot] = Some(SimulatedRace {
            request,
            shared,
            race,
            serving: None,
            reasons,
            race_budget,
            look,
            timer_us: request.at_us,
        });
        self.advance(slot);
    }

    /// The plan, and the driver of the gateway's policies.
    fn opening(
        &self,
        request: &SimulatedRequest,
        candidates: &[SimulatedCandidate],
    ) -> (RacePlan, Option<PolicyDriver>) {
        let mut stage = self.stage.borrow_mut();
        let is_usual = |place: &&SimulatedCandidate| place.turn == CandidateTurn::Usual;
        let able: Vec<usize> = candidates.iter().filter(is_usual).map(|place| place.upstream).collect();
        if let Some(starts) = stage.baseline_plan(request, &able) {
            return (baseline_plan(&stage, candidates, &starts), None);
        }
        let now_us = stage.now_us();
        let (quality, judged) = (self.learning.quality(), stage.world.breaks(request, 0).is_some());
        let state = |place: &SimulatedCandidate| {
            let upstream = &stage.upstreams[place.upstream];
            CandidateState {
                plain: false,
                known: stage.known[place.upstream].clone(),
                tariff: upstream.tariff,
                prompt: stage.world.prompt(request, place.upstream, now_us),
                known_tokens: 0.0,
                domain: upstream.domain,
                weight: upstream.weight,
                tier: upstream.tier,
                in_flight_max: upstream.in_flight_max.into_iter().chain(place.room).min(),
                worse: stage.settings.quality == QualityRule::Prefer && stage.world.is_worse(request, place.upstream),
                first_token: upstream.first_token,
                reads_on: judged && quality.wants_answers(MODEL, &upstream.name, now_us),
                turn: place.turn,
                started: None,
                is_new: false,
            }
        };
        let settings = &stage.settings;
        let cost_budget = self.learning.cost_budget(MODEL, settings.budget, true);
        let mut draws = fastrand::Rng::with_seed(self.seed ^ (request.id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Neighbouring seeds begin alike.
        draws.u64(..);
        let states: Vec<CandidateState> = candidates.iter().map(state).collect();
        let race_budget = RaceBudget::new(cost_budget, settings.policy.spends_budget());
        let upstreams = stage.upstreams.len();
        let in_doubt = judged && quality.is_in_doubt(MODEL);
        let look = (upstreams > 1 && !request.whole).then(|| LookTicket { upstreams, draw: draws.f64(), in_doubt });
        let mut driver = PolicyDriver::new(PolicyDriverParts {
            settings: settings.clone(),
            look,
            candidates: states,
            race_budget: Arc::new(race_budget),
            fits: ContextFits::default(),
            began_us: now_us,
            draw: draws.f64(),
            in_usd: self.in_usd,
            for_answer: request.whole,
            pinned: None,
            crowded: false,
        });
        (driver.plan(now_us), Some(driver))
    }

    fn wake(&mut self, wake: Wake) {
        let Wake { at_us, target, .. } = wake;
        let slot = match target {
            WakeTarget::Trial(trial) => {
                self.stage.borrow_mut().set_now_us(at_us);
                return self.end_trial(trial, at_us);
            }
            WakeTarget::Race { slot, request } => {
                let flight = self.flights[slot].as_ref();
                if flight.is_none_or(|flight| flight.request.id != request) {
                    return;
                }
                slot
            }
        };
        self.stage.borrow_mut().set_now_us(at_us);
        self.advance(slot);
    }

    /// A lost trial has its first token, fails, or is given up.
    fn end_trial(&mut self, trial: u64, now_us: i64) {
        let Some(mut lost) = self.trials.remove(&trial) else { return };
        let failure = if now_us < lost.until_us { lost.answering.runs_out() } else { None };
        let (upstream, sent_us) = (lost.answering.dispatch.upstream, lost.answering.dispatch.at_us);
        {
            let mut stage = self.stage.borrow_mut();
            let (now, sent) = (stage.now(), stage.instant(sent_us));
            if let Some(failure) = failure {
                if verdict(&failure).counts != BreakerEffect::Never {
                    stage.health.failed(upstream, sent, now);
                }
                if failure.kind == FailureKind::RateLimited {
                    let jitter = stage.draws.f64();
                    stage.health.limited(upstream, failure.retry_after, now, jitter);
                }
            }
            if let Some(begun) = lost.begun {
                stage.health.end_trial(upstream, begun);
            }
        }
        drop(lost);
    }

    fn advance(&mut self, slot: usize) {
        let now_us = self.stage.borrow().now_us();
        let Some(flight) = &mut self.flights[slot] else { return };
        if let Some((answering, _)) = &flight.serving {
            if answering.done_us() <= now_us {
                self.conclude(slot);
            }
            return;
        }
        let Some(race) = &mut flight.race else { return self.conclude(slot) };
        match race.advance(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                let mut stage = self.stage.borrow_mut();
                let timer_us = stage.tick_us(race.next_wake()).max(now_us + 1);
                if timer_us < flight.timer_us || flight.timer_us <= now_us {
                    flight.timer_us = timer_us;
                    stage.wakes.add(timer_us, WakeTarget::Race { slot, request: flight.request.id });
                }
                return;
            }
            Poll::Ready(RaceFinish::Won { ready, ordinal, .. }) => {
                if let Some(race_budget) = &flight.race_budget {
                    race_budget.won(ordinal);
                }
                self.stage
                    .borrow_mut()
                    .wakes
                    .add(ready.done_us().max(now_us), WakeTarget::Race { slot, request: flight.request.id });
                flight.serving = Some((ready, now_us));
            }
            Poll::Ready(RaceFinish::Failed | RaceFinish::Deadline) => {
                let shared_by_all = is_shared_by_all(race.failures());
                let pending = flight.shared.borrow_mut().pending.take().filter(|_| !shared_by_all);
                let mut stage = self.stage.borrow_mut();
                let now = stage.now();
                for (upstream, sent) in pending.into_iter().flatten() {
                    stage.health.failed(upstream, sent, now);
                }
            }
        }
        let serves = flight.serving.is_some();
        self.keep_lost_trials(slot);
        if !serves {
            self.conclude(slot);
        }
    }

    /// Takes the lost trials out of a race that is over, and ends it.
    fn keep_lost_trials(&mut self, slot: usize) {
        let Some(race) = self.flights[slot].as_mut().and_then(|flight| flight.race.take()) else { return };
        let mut launcher = race.into_launch();
        for (answering, begun, limit) in std::mem::take(&mut launcher.lost_trials) {
            let mut stage = self.stage.borrow_mut();
            let until_us = stage.now_us() + photofinish_base::clock::micros(limit);
            self.trial += 1;
            stage.wakes.add(answering.next_us().unwrap_or(i64::MAX).min(until_us), WakeTarget::Trial(self.trial));
            self.trials.insert(self.trial, LostTrial { answering, begun, until_us });
        }
    }

    fn conclude(&mut self, slot: usize) {
        let Some(flight) = self.flights[slot].take() else { return };
        self.free.push(slot);
        let SimulatedRace { request, shared, serving, reasons, race_budget, look, .. } = flight;
        let now_us = self.stage.borrow().now_us();
        let (mut ttft_us, mut token_us, mut winner, mut tpot_us) = (None, None, None, None);
        if let Some((mut answering, won_us)) = serving {
            answering.serves();
            answering.judge();
            let client_us = if request.whole { now_us } else { won_us };
            ttft_us = Some(client_us - request.at_us);
            token_us = answering.first_token_us.map(|at_us| at_us - request.at_us);
            (winner, tpot_us) = (Some(answering.ordinal), answering.tpot_us());
        }
        if let Some(race_budget) = race_budget {
            race_budget.finished(if request.whole { token_us } else { ttft_us }, None);
        }
        let attempts = &shared.borrow().attempts;
        (self.heard)(&PlayedRace {
            request: &request,
            ttft_us,
            took_us: now_us - request.at_us,
            winner,
            tpot_us,
            attempts,
            reasons: &reasons,
            look,
        });
    }
}

fn played_look(driver: &PolicyDriver, candidates: &[SimulatedCandidate]) -> Option<PlayedLook> {
    let look = driver.look()?;
    let upstream = look.drawn.and_then(|place| candidates.get(place)).map(|candidate| candidate.upstream);
    let started = look.drawn.is_some_and(|place| driver.is_watched(place));
    Some(PlayedLook { probability: look.probability, upstream, started })
}

/// A baseline's starts as a plan; candidates that it does not name follow after failures.
fn baseline_plan<W>(
    stage: &EngineBuffers<'_, W>,
    candidates: &[SimulatedCandidate],
    starts: &[(usize, StartRule)],
) -> RacePlan {
    let entry = |candidate: usize| {
        let SimulatedCandidate { upstream, turn, .. } = candidates[candidate];
        PlannedStart::listed(candidate, stage.upstreams[upstream].first_token, turn == CandidateTurn::Trial)
    };
    let place = |candidate: usize| starts.iter().position(|(upstream, _)| *upstream == candidates[candidate].upstream);
    let mut entries: Vec<PlannedStart> = (0..candidates.len()).map(entry).collect();
    entries.sort_by_key(|entry| (entry.trial, place(entry.candidate).unwrap_or(usize::MAX)));
    let mut plan = RacePlan::listed(&stage.settings, entries);
    for entry in &mut plan.entries {
        if let Some(place) = place(entry.candidate).filter(|_| !entry.trial) {
            entry.start = starts[place].1;
        } else if candidates[entry.candidate].turn == CandidateTurn::Last {
            entry.start = StartRule::Last;
        }
    }
    plan
}
