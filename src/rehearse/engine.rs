//! The clockwork: a heap of what happens next, over many races at once. It knows the order of things and no policy.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::health::Health;
use super::policy::{
    AskReason, ObservedProgress, PolicyAnswer, RaceView, RunningView, SimulatedPolicy, SimulatedReason, UpstreamView,
    WaitingAttempt,
};
use super::simulated_race::{FinishedAttempt, FlightState, Outcome, SimulatedAttempt, SimulatedRace};
use super::upstreams::{RaceRules, SimulatedOutcome, SimulatedRequest, SimulatedStart, SimulatedUpstreams};

/// A policy that asks to be asked again at once would stop the clock.
const AGAIN_MIN_US: i64 = 1_000;

/// Plays all requests, which come in the order of their time, to the end of the last one. `heard` gets each race when it is over.
pub fn run<F: SimulatedUpstreams, S: SimulatedPolicy>(
    requests: impl IntoIterator<Item = SimulatedRequest>,
    field: &mut F,
    steering: &mut S,
    rules: &RaceRules,
    heard: &mut impl FnMut(&Outcome<'_>),
) {
    let health = Health::new(field.tariffs().len());
    let (seats, running, places, started) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let stage = EngineBuffers { seats, running, places, started };
    let (flights, free, events) = (Vec::new(), Vec::new(), BinaryHeap::new());
    let mut engine = Engine { field, steering, rules, heard, health, flights, free, events, stage, order: 0 };
    let mut requests = requests.into_iter().peekable();
    loop {
        let event_us = engine.events.peek().map(|Reverse(event)| event.at_us);
        let is_next = |request: &SimulatedRequest| event_us.is_none_or(|event_us| request.at_us < event_us);
        if let Some(request) = requests.next_if(is_next) {
            engine.arrive(request);
        } else if let Some(Reverse(event)) = engine.events.pop() {
            engine.happen(event);
        } else {
            return;
        }
    }
}

struct Engine<'a, F, S, H> {
    field: &'a mut F,
    steering: &'a mut S,
    rules: &'a RaceRules,
    heard: &'a mut H,
    health: Health,
    /// By slot; None where none is under way.
    flights: Vec<Option<SimulatedRace>>,
    free: Vec<usize>,
    events: BinaryHeap<Reverse<EngineEvent>>,
    stage: EngineBuffers,
    /// Events of one time happen in the order in which they were planned.
    order: u64,
}

/// Room for what a policy is shown, used again and again.
struct EngineBuffers {
    seats: Vec<UpstreamView>,
    running: Vec<RunningView>,
    /// For each of `running`, its place among the attempts.
    places: Vec<usize>,
    started: Vec<FinishedAttempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EngineEvent {
    at_us: i64,
    order: u64,
    slot: usize,
    /// Of the request: the slot may have been given to another since.
    id: usize,
    what: EventKind,
}

/// Attempts are told by their place in the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Token(usize),
    Fail(usize),
    GiveUp(usize),
    Look(usize),
    Done(usize),
    /// Valid while the flight's turn is this one.
    Timer(u32),
    Release(u32),
}

impl Ord for EngineEvent {
    fn cmp(&self, other: &EngineEvent) -> Ordering {
        (self.at_us, self.order).cmp(&(other.at_us, other.order))
    }
}

impl PartialOrd for EngineEvent {
    fn partial_cmp(&self, other: &EngineEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F: SimulatedUpstreams, S: SimulatedPolicy, H: FnMut(&Outcome<'_>)> Engine<'_, F, S, H> {
    fn arrive(&mut self, request: SimulatedRequest) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[slot] = Some(SimulatedRace::new(request));
        self.decide(slot, request.at_us, AskReason::Arrival);
        if self.rules.trials {
            self.try_again(slot, request.at_us);
        }
    }

    /// Those whose breaker is open are tried beside what runs.
    fn try_again(&mut self, slot: usize, now_us: i64) {
        while self.flights[slot].as_ref().is_some_and(SimulatedRace::is_running)
            && let Some(upstream) = self.health.begin_trial(self.rules, now_us)
        {
            if self.flights[slot].as_ref().is_some_and(|flight| !flight.was_tried(upstream)) {
                self.start(slot, upstream, now_us);
                let started = self.flights[slot].as_mut().and_then(|flight| flight.attempts.last_mut());
                started.into_iter().for_each(|attempt| attempt.trial = true);
            }
        }
    }

    fn happen(&mut self, event: EngineEvent) {
        let (slot, now_us) = (event.slot, event.at_us);
        let Some(flight) = self.flights[slot].as_mut().filter(|flight| flight.request.id == event.id) else { return };
        let in_state = |place: usize, state| flight.attempts[place].state == state;
        match event.what {
            EventKind::Token(place) if in_state(place, FlightState::Waits) => self.first_token(slot, place, now_us),
            EventKind::Fail(place) | EventKind::GiveUp(place) if in_state(place, FlightState::Waits) => {
                self.fail(slot, place, now_us, matches!(event.what, EventKind::GiveUp(_)));
            }
            EventKind::Look(place) if in_state(place, FlightState::Writes) => self.look(slot, now_us),
            EventKind::Done(place) if in_state(place, FlightState::Writes) => self.done(slot, place, now_us),
            EventKind::Timer(turn) if flight.turn == turn && !flight.has_first_token() => {
                self.decide(slot, now_us, AskReason::Timer);
            }
            EventKind::Release(turn) if flight.turn == turn => self.release(slot, now_us),
            _ => {}
        }
    }

    /// Asks the policy and does what it says.
    fn decide(&mut self, slot: usize, now_us: i64, moment: AskReason) {
        let Some(request) = self.set_stage(slot, now_us) else { return };
        let view = self.stage.view(&request, now_us, &self.health);
        let ask: PolicyAnswer = self.steering.decide(&view, moment);
        for upstream in ask.start {
            if self.stage.seats.get(upstream).is_some_and(|seat| seat.open) {
                self.stage.seats[upstream].open = false;
                self.start(slot, upstream, now_us);
            }
        }
        if !self.flights[slot].as_ref().is_some_and(SimulatedRace::is_running) {
            self.last_resort(slot, now_us);
        }
        let Some(flight) = &mut self.flights[slot] else { return };
        flight.turn += 1;
        let turn = flight.turn;
        if let Some(after_us) = ask.again_after_us {
            self.plan(slot, request.id, now_us + after_us.max(AGAIN_MIN_US), EventKind::Timer(turn));
        }
    }

    /// Nothing runs, and the policy knows nobody: an open one, else one that is set aside, else it has failed.
    fn last_resort(&mut self, slot: usize, now_us: i64) {
        let Some(flight) = &self.flights[slot] else { return };
        let untried = |upstream: &usize| !flight.was_tried(*upstream);
        let open = self.stage.seats.iter().position(|seat| seat.open);
        match open.or_else(|| (0..self.stage.seats.len()).find(untried)) {
            Some(upstream) => self.start(slot, upstream, now_us),
            None => self.conclude(slot, now_us),
        }
    }

    fn start(&mut self, slot: usize, upstream: usize, now_us: i64) {
        let Some(flight) = &mut self.flights[slot] else { return };
        let request = flight.request;
        let reason = match flight.attempts.is_empty() {
            true => SimulatedReason::Primary,
            false if flight.is_running() => SimulatedReason::Extra,
            false => SimulatedReason::Fallback,
        };
        let prompt = self.field.prompt(&request, upstream, now_us);
        let in_flight = self.health.in_flight(upstream);
        let launch = SimulatedStart { request, upstream, prompt, at_us: now_us, in_flight };
        let fate = self.field.fate(&launch);
        let place = flight.attempts.len();
        let attempt = SimulatedAttempt {
            launch,
            reason,
            trial: false,
            fate,
            state: FlightState::Waits,
            first_token_us: None,
            ended_us: now_us,
        };
        flight.attempts.push(attempt);
        let waiting = WaitingAttempt { request: request.id, sent_us: now_us, uncached: prompt.uncached, in_flight };
        self.health.sent(upstream, waiting);
        self.steering.launched(upstream, now_us);
        let (after_us, what) = match fate {
            SimulatedOutcome::Answers { ttft_us, .. } => (ttft_us, EventKind::Token(place)),
            SimulatedOutcome::Fails { after_us } | SimulatedOutcome::Limited { after_us, .. } => {
                (after_us, EventKind::Fail(place))
            }
            SimulatedOutcome::Hangs => (i64::MAX, EventKind::GiveUp(place)),
        };
        let timeout_us = self.rules.attempt_timeout_us;
        let what = if after_us < timeout_us { what } else { EventKind::GiveUp(place) };
        self.plan(slot, request.id, now_us + after_us.min(timeout_us), what);
    }

    fn first_token(&mut self, slot: usize, place: usize, now_us: i64) {
        let Some(flight) = &mut self.flights[slot] else { return };
        let attempt = &mut flight.attempts[place];
        (attempt.state, attempt.first_token_us) = (FlightState::Writes, Some(now_us));
        let SimulatedStart { request, upstream, prompt, at_us, in_flight } = attempt.launch;
        let tpot_us = attempt.tpot_us().unwrap_or(0.0);
        self.health.waited(upstream, request.id);
        self.health.answered(upstream);
        let seen = ObservedProgress::FirstToken { uncached: prompt.uncached, in_flight, ttft_us: now_us - at_us };
        self.steering.saw(upstream, seen, now_us);
        let after = |tokens: u32| now_us + (tpot_us * f64::from(tokens - 1)) as i64;
        self.plan(slot, request.id, after(request.output_tokens.max(1)), EventKind::Done(place));
        if !request.whole {
            self.hold_or_commit(slot, place, now_us);
        } else if request.output_tokens > self.rules.look_after_tokens {
            self.plan(slot, request.id, after(self.rules.look_after_tokens), EventKind::Look(place));
        }
    }

    /// There is a first token: it goes to the client, or waits a little for one that would be done sooner.
    fn hold_or_commit(&mut self, slot: usize, place: usize, now_us: i64) {
        let Some(request) = self.set_stage(slot, now_us) else { return };
        let Some(ready) = self.stage.places.iter().position(|at| *at == place) else { return };
        let view = self.stage.view(&request, now_us, &self.health);
        let ready = self.steering.choose(&view, ready);
        let rivals = view.running.iter().any(|running| running.first_token_us.is_none());
        let hold_us = if rivals { self.steering.hold(&view, ready) } else { None };
        let chosen = self.stage.places[ready];
        let Some(flight) = &mut self.flights[slot] else { return };
        let latest_us = *flight.hold_until_us.get_or_insert(now_us + self.rules.hold_max_us);
        let until_us = hold_us.map_or(now_us, |hold_us| (now_us + hold_us).min(latest_us));
        if until_us <= now_us {
            return self.commit(slot, chosen, now_us);
        }
        flight.turn += 1;
        let turn = flight.turn;
        self.plan(slot, request.id, until_us, EventKind::Release(turn));
    }

    /// The time is over for which a first token was held back.
    fn release(&mut self, slot: usize, now_us: i64) {
        let Some(request) = self.set_stage(slot, now_us) else { return };
        let view = self.stage.view(&request, now_us, &self.health);
        let Some(ready) = view.running.iter().position(|running| running.first_token_us.is_some()) else { return };
        let chosen = self.steering.choose(&view, ready);
        self.commit(slot, self.stage.places[chosen], now_us);
    }

    fn commit(&mut self, slot: usize, place: usize, now_us: i64) {
        let Some(flight) = &mut self.flights[slot] else { return };
        flight.winner = Some((place, now_us));
        for other in (0..flight.attempts.len()).filter(|other| *other != place) {
            self.cut(slot, other, now_us);
        }
    }

    fn cut(&mut self, slot: usize, place: usize, now_us: i64) {
        let Some(attempt) = self.flights[slot].as_mut().map(|flight| &mut flight.attempts[place]) else { return };
        let state = attempt.state;
        if !attempt.runs() {
            return;
        }
        (attempt.state, attempt.ended_us) = (FlightState::Cut, now_us);
        let (launch, trial, fate) = (attempt.launch, attempt.trial, attempt.fate);
        self.health.left(launch.upstream);
        // A trial runs on to its first token, which is a moment away.
        if let (true, SimulatedOutcome::Answers { .. }) = (trial, fate) {
            self.health.answered(launch.upstream);
        }
        if state == FlightState::Waits {
            self.health.waited(launch.upstream, launch.request.id);
            self.steering.saw(launch.upstream, censored(&launch, now_us), now_us);
        }
    }

    fn fail(&mut self, slot: usize, place: usize, now_us: i64, given_up: bool) {
        let Some(flight) = &mut self.flights[slot] else { return };
        let attempt = &mut flight.attempts[place];
        attempt.state = if given_up { FlightState::GivenUp } else { FlightState::Failed };
        attempt.ended_us = now_us;
        let (launch, fate, trial) = (attempt.launch, attempt.fate, attempt.trial);
        self.health.waited(launch.upstream, launch.request.id);
        self.health.left(launch.upstream);
        match fate {
            SimulatedOutcome::Limited { retry_after_us, .. } if !given_up => {
                self.health.limited(launch.upstream, now_us + retry_after_us);
            }
            _ => self.health.failed(launch.upstream, self.rules, now_us),
        }
        if given_up {
            self.steering.saw(launch.upstream, censored(&launch, now_us), now_us);
        }
        self.steering.saw(launch.upstream, ObservedProgress::Failed, now_us);
        let was_beside = trial && flight.is_running();
        if flight.winner.is_none() && !flight.has_first_token() && !was_beside {
            self.decide(slot, now_us, AskReason::Failure);
        }
    }

    /// Of several that write a whole answer, some may have become pointless.
    fn look(&mut self, slot: usize, now_us: i64) {
        let Some(request) = self.set_stage(slot, now_us) else { return };
        let view = self.stage.view(&request, now_us, &self.health);
        let mut hopeless = self.steering.hopeless(&view);
        hopeless.retain(|place| *place < self.stage.places.len());
        if hopeless.len() < self.stage.places.len() {
            for place in hopeless {
                self.cut(slot, self.stage.places[place], now_us);
            }
        }
    }

    fn done(&mut self, slot: usize, place: usize, now_us: i64) {
        let Some(flight) = &mut self.flights[slot] else { return };
        if flight.winner.is_none() {
            self.commit(slot, place, now_us);
        }
        let Some(attempt) = self.flights[slot].as_mut().map(|flight| &mut flight.attempts[place]) else { return };
        (attempt.state, attempt.ended_us) = (FlightState::Finished, now_us);
        let (launch, tpot_us) = (attempt.launch, attempt.tpot_us().unwrap_or(0.0));
        self.health.left(launch.upstream);
        let (tokens, in_flight) = (launch.request.output_tokens, launch.in_flight);
        self.steering.saw(launch.upstream, ObservedProgress::Decoded { tpot_us, tokens, in_flight }, now_us);
        self.conclude(slot, now_us);
    }

    fn conclude(&mut self, slot: usize, now_us: i64) {
        let Some(flight) = self.flights[slot].take() else { return };
        self.free.push(slot);
        flight.bill(self.field.tariffs(), self.rules, &mut self.stage.started);
        let request = &flight.request;
        let outcome = Outcome {
            request,
            ttft_us: flight.winner.map(|(_, at_us)| at_us - request.at_us),
            took_us: now_us - request.at_us,
            winner: flight.winner.map(|(place, _)| place),
            tpot_us: flight.winner.and_then(|(place, _)| flight.attempts[place].tpot_us()),
            started: &self.stage.started,
        };
        self.steering.ended(&outcome);
        (self.heard)(&outcome);
    }

    /// Writes down what the policy may see of this race.
    fn set_stage(&mut self, slot: usize, now_us: i64) -> Option<SimulatedRequest> {
        let flight = self.flights[slot].as_ref()?;
        let EngineBuffers { seats, running, places, .. } = &mut self.stage;
        seats.clear();
        for (upstream, tariff) in self.field.tariffs().iter().enumerate() {
            let prompt = self.field.prompt(&flight.request, upstream, now_us);
            let open = !flight.was_tried(upstream) && !self.health.is_aside(upstream, now_us);
            let in_flight = self.health.in_flight(upstream);
            seats.push(UpstreamView { prompt, input_cost: tariff.input_cost(prompt), in_flight, open });
        }
        places.clear();
        running.clear();
        for (place, attempt) in flight.running(now_us) {
            places.push(place);
            running.push(attempt);
        }
        Some(flight.request)
    }

    fn plan(&mut self, slot: usize, id: usize, at_us: i64, what: EventKind) {
        self.order += 1;
        self.events.push(Reverse(EngineEvent { at_us, order: self.order, slot, id, what }));
    }
}

impl EngineBuffers {
    fn view<'a>(&'a self, request: &'a SimulatedRequest, now_us: i64, health: &'a Health) -> RaceView<'a> {
        RaceView { request, now_us, seats: &self.seats, running: &self.running, waiting: health.waiting() }
    }
}

fn censored(launch: &SimulatedStart, now_us: i64) -> ObservedProgress {
    let waited_us = now_us - launch.at_us;
    ObservedProgress::Censored { uncached: launch.prompt.uncached, in_flight: launch.in_flight, waited_us }
}
