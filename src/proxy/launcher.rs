//! Starts the attempts of one race and hears of their failures: what is set aside, what is asked once more, which losers run on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;

use super::breakers::Trial;
use super::entrant::{Begun, Entrant, Stage};
use super::field::{Field, Runner};
use super::gateway::Gateway;
use super::pilot::{Pilot, Seen};
use super::race_guard::RaceGuard;
use crate::attempt::{self, Attempt, Slot, Spec};
use crate::clock::Instant;
use crate::config::{Breaker, CancelBilling, Drains, RaceSettings};
use crate::failure::{Failure, FailureKind, Phase};
use crate::learning::Sighting;
use crate::protocol::error::rejects_stream_options;
use crate::protocol::request::ChatRequest;
use crate::race::verdict::{is_the_requests_fault, verdict};
use crate::race::{Arrival, Launch, Replan, Running, Starting, Which};
use crate::routing::cooldown::Aside;
use crate::routing::keyring::Key;

/// Client headers that go up to every provider.
const FORWARDED: [&str; 3] = ["anthropic-version", "anthropic-beta", "openai-beta"];
/// These name the caller's own account, so they go up only beside the caller's own key.
const FORWARDED_WITH_OWN_KEY: [&str; 2] = ["openai-organization", "openai-project"];

pub struct Launcher {
    judge: Arc<Judge>,
    request: Arc<ChatRequest>,
    settings: RaceSettings,
    pilot: Pilot,
    /// The first whole answer wins, and not the first token.
    whole: bool,
    /// Those of the client's that may go up to any of the runners.
    client_headers: HeaderMap,
    race_id: String,
    /// Raised with every start.
    attempts: Arc<AtomicUsize>,
    read_at: Instant,
    /// Held until the race is over, or until its candidate has lost and ended.
    trials: Vec<(usize, Trial)>,
}

/// What an answer is judged by, also that of a loser that runs on after the race.
pub struct Judge {
    gateway: Arc<Gateway>,
    runners: Arc<Vec<Runner>>,
    breaker: Breaker,
    /// By candidate: its latest start.
    sent: Mutex<Vec<Sent>>,
}

/// What went up.
#[derive(Clone)]
struct Sent {
    at: Instant,
    key: Option<Key>,
    stream_options: bool,
    /// In this race it has complained about `stream_options`. Whether that was meant, an answer without them tells.
    complained: bool,
}

impl Launcher {
    pub fn new(
        gateway: &Arc<Gateway>,
        headers: &HeaderMap,
        request: &Arc<ChatRequest>,
        field: &mut Field,
        guard: &RaceGuard,
        pilot: Pilot,
        read_at: Instant,
    ) -> Launcher {
        let nothing = Sent { at: read_at, key: None, stream_options: false, complained: false };
        let sent = Mutex::new(vec![nothing; field.runners.len()]);
        Launcher {
            judge: Arc::new(Judge {
                gateway: gateway.clone(),
                runners: field.runners.clone(),
                breaker: field.settings.breaker,
                sent,
            }),
            request: request.clone(),
            settings: field.settings.clone(),
            pilot,
            whole: races_whole_answers(&field.settings, request),
            client_headers: forwardable(headers, &field.runners),
            race_id: guard.race_id().to_owned(),
            attempts: guard.attempts(),
            read_at,
            trials: std::mem::take(&mut field.trials),
        }
    }

    /// Whoever takes the winner tells it.
    pub fn judge(&self) -> Arc<Judge> {
        self.judge.clone()
    }
}

impl Launch for Launcher {
    type Ready = Begun;
    type Attempt = Entrant;

    fn launch(&mut self, starting: Starting) -> Entrant {
        let runner = &self.judge.runners[starting.candidate];
        let gateway = &self.judge.gateway;
        let key = runner.key(gateway).cloned();
        let complained = self.judge.sent(starting.candidate).complained;
        let stream_options =
            !complained && runner.upstream.provider.stream_options && gateway.takes_stream_options(&runner.name);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let sent = Sent { at: Instant::now(), key: key.clone(), stream_options, complained };
        self.judge.note(starting.candidate, sent);
        let spotted = self.pilot.spotted(starting.candidate);
        let attempt = attempt::start(Spec {
            client: gateway.client().clone(),
            recorder: gateway.recorder().clone(),
            shutdown: gateway.shutdown().clone(),
            race_id: self.race_id.clone(),
            read_at: self.read_at,
            starting,
            upstream: runner.upstream.clone(),
            endpoint: runner.endpoint.clone(),
            headers: forwarded(&self.client_headers, runner, key.as_ref()),
            key,
            request: self.request.clone(),
            stream_options,
            p_audit: self.settings.audit,
            slot: Some(Slot::enter(spotted.known.running())),
            sighting: Some(Sighting::start(spotted)),
        });
        let idle = self.whole.then_some(runner.upstream.timeouts.idle);
        Entrant::new(attempt, starting.candidate, idle, self.judge.clone())
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> bool {
        self.judge.failed(candidate, &self.judge.sent(candidate), failure)
    }

    fn lost(&mut self, entrant: Entrant) {
        let candidate = entrant.candidate();
        match entrant.into_stage() {
            Stage::Asking(attempt) => self.lost_asking(candidate, attempt),
            Stage::Answering(answering) => self.lost_ready(candidate, answering.0),
            Stage::Over => {}
        }
    }

    fn lost_ready(&mut self, candidate: usize, begun: Begun) {
        let trial = self.take_trial(candidate);
        let Drains { time, bytes, .. } = self.settings.drains;
        // Its first token is there, so an audit would tell nothing more.
        if let Some(place) = self.enter_drain(candidate) {
            self.beside((place, trial), time, begun.ready.stream.drain(bytes));
        }
    }

    fn replan(&mut self, running: &[Running<Entrant>], waiting: &[usize]) -> Replan {
        self.pilot.replan(&seen(running), waiting)
    }

    fn next_after_failure(&mut self, waiting: &[usize]) -> usize {
        self.pilot.next_after_failure(waiting)
    }

    fn hold(&mut self, ready: &Arrival<Begun>, running: &[Running<Entrant>]) -> Option<Duration> {
        // A whole answer has nothing to wait for.
        if self.whole { None } else { self.pilot.hold(ready.candidate(), &seen(running)) }
    }

    fn prefer(&mut self, held: &Arrival<Begun>, new: &Arrival<Begun>) -> Which {
        self.pilot.prefer(held.candidate(), new.candidate())
    }

    fn hopeless(&mut self, running: &[Running<Entrant>]) -> Option<usize> {
        if self.whole { self.pilot.hopeless(&seen(running)) } else { None }
    }
}

impl Launcher {
    fn lost_asking(&mut self, candidate: usize, mut attempt: Attempt) {
        let trial = self.take_trial(candidate);
        let Drains { time, bytes, .. } = self.settings.drains;
        if let Some(place) = self.enter_drain(candidate) {
            attempt.drain();
            let run = self.run_on(candidate, attempt, Some(bytes));
            self.beside((place, trial), time, run);
        } else if fastrand::f64() < self.settings.audit
            && let Some(place) = self.judge.gateway.enter_audit()
        {
            attempt.audit();
            let limit = self.judge.runners[candidate].upstream.timeouts.first_token;
            let run = self.run_on(candidate, attempt, None);
            self.beside((place, trial), limit, run);
        }
    }

    fn take_trial(&mut self, candidate: usize) -> Option<Trial> {
        let position = self.trials.iter().position(|(on_trial, _)| *on_trial == candidate)?;
        Some(self.trials.swap_remove(position).1)
    }

    /// A place to read a loser to its end, where a hang-up saves nothing, so that its figures may as well be had.
    fn enter_drain(&self, candidate: usize) -> Option<Slot> {
        let billed_anyway = self.judge.runners[candidate].upstream.provider.cancel_billing == CancelBilling::BillsFull;
        if billed_anyway { self.judge.gateway.enter_drain(self.settings.drains.running) } else { None }
    }

    /// A loser that runs to its first token, or to its end where `bytes` bounds it.
    fn run_on(
        &self,
        candidate: usize,
        attempt: Attempt,
        bytes: Option<usize>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let judge = self.judge.clone();
        // The race may start the same candidate once more.
        let sent = self.judge.sent(candidate);
        async move {
            match attempt.await {
                Err(failure) => {
                    judge.failed(candidate, &sent, &failure);
                }
                Ok(ready) => {
                    judge.first_token(candidate, &sent);
                    if let Some(bytes) = bytes {
                        ready.stream.drain(bytes).await;
                    }
                }
            }
        }
    }

    /// Runs beside everything, for at most `limit`, and gives back then what it holds.
    fn beside(&self, held: (Slot, Option<Trial>), limit: Duration, run: impl Future<Output = ()> + Send + 'static) {
        let draining = self.judge.gateway.shutdown().draining();
        self.judge.gateway.shutdown().spawn(async move {
            let _held = held;
            tokio::select! {
                _ = tokio::time::timeout(limit, run) => {}
                () = draining => {}
            }
        });
    }
}

impl Judge {
    /// The first token of this candidate's latest start is there.
    pub fn answered(&self, candidate: usize) {
        self.first_token(candidate, &self.sent(candidate));
    }

    /// An answer of this candidate's latest start ended, by the failure that broke it or well.
    pub fn ended(&self, candidate: usize, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.charge(candidate, &self.sent(candidate), failure),
            None => self.gateway.ended_well(&self.runners[candidate].name),
        }
    }

    fn note(&self, candidate: usize, sent: Sent) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate] = sent;
    }

    fn sent(&self, candidate: usize) -> Sent {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].clone()
    }

    fn first_token(&self, candidate: usize, sent: &Sent) {
        self.heard_well(candidate, sent);
        self.gateway.close_breaker(&self.runners[candidate].name, sent.at);
    }

    fn charge(&self, candidate: usize, sent: &Sent, failure: &Failure) {
        if verdict(failure).counts {
            let broke = failure.phase == Phase::Stream;
            self.gateway.charge(&self.runners[candidate].name, &self.breaker, broke, sent.at);
        }
    }

    fn heard_well(&self, candidate: usize, sent: &Sent) {
        self.forgive(candidate, sent);
        if sent.complained && !sent.stream_options {
            self.gateway.leave_off_stream_options(&self.runners[candidate].name);
        }
    }

    fn forgive(&self, candidate: usize, sent: &Sent) {
        let key_id = || sent.key.as_ref().map(|key| key.id().to_owned());
        self.gateway.forgive(|| self.runners[candidate].target(key_id()), sent.at);
    }

    /// True: ask the same candidate once more, for the request to it has changed.
    fn failed(&self, candidate: usize, sent: &Sent, failure: &Failure) -> bool {
        self.log(candidate, sent, failure);
        self.charge(candidate, sent, failure);
        let runner = &self.runners[candidate];
        let aside = verdict(failure).aside;
        if let Some(aside) = aside {
            let target = runner.target(sent.key.as_ref().map(|key| key.id().to_owned()));
            let wait = self.gateway.set_aside(aside, &target, failure.retry_after);
            tracing::info!(upstream = runner.name, ?aside, ?wait, "set aside");
        }
        if failure.kind == FailureKind::Empty {
            self.heard_well(candidate, sent);
        } else if is_the_requests_fault(failure.kind) {
            // It was let in and read.
            self.forgive(candidate, sent);
        }
        let complains = failure.kind == FailureKind::BadRequest
            && sent.stream_options
            && failure.answer.as_ref().is_some_and(|answer| rejects_stream_options(&answer.body));
        if complains {
            tracing::info!(upstream = runner.name, "rejects stream_options: asked again without");
            self.sent.lock().unwrap_or_else(PoisonError::into_inner)[candidate].complained = true;
        }
        // Another key makes it another request. A wait may already have run out, so the key itself is looked at too.
        let of_the_key = matches!(aside, Some(Aside::KeyRateLimited | Aside::KeyRefused));
        let other_key = of_the_key && runner.has_rested_key_but(&self.gateway, sent.key.as_ref());
        complains || other_key
    }

    fn log(&self, candidate: usize, sent: &Sent, failure: &Failure) {
        let upstream = &self.runners[candidate].name;
        // The message is not logged: vendors quote the prompt in it.
        let (kind, phase, status) = (failure.kind.as_str(), failure.phase.as_str(), failure.status);
        if verdict(failure).loud {
            let key = sent.key.as_ref().map(Key::id).unwrap_or("none");
            tracing::warn!(
                upstream,
                failure = kind,
                status,
                key,
                "an upstream refuses us: look at its key and its model"
            );
        } else {
            tracing::info!(upstream, failure = kind, phase, status, "an attempt failed");
        }
    }
}

/// Whether the first whole answer is to win: where it is the answer that counts, and the client sees nothing before all of it.
fn races_whole_answers(_settings: &RaceSettings, _request: &ChatRequest) -> bool {
    false
}

fn seen(running: &[Running<Entrant>]) -> Vec<Seen> {
    let seen = |running: &Running<Entrant>| Seen {
        candidate: running.candidate(),
        waited: running.waited(),
        progress: running.attempt().progress(),
    };
    running.iter().map(seen).collect()
}

/// What of the client's headers may go up to any of them: a race, and its audits, keep no more.
fn forwardable(client: &HeaderMap, runners: &[Runner]) -> HeaderMap {
    let anybody = |name: &str| runners.iter().any(|runner| goes_up(name, runner, true));
    selected(client, anybody)
}

/// What of the client's headers goes up.
fn forwarded(client: &HeaderMap, runner: &Runner, key: Option<&Key>) -> HeaderMap {
    selected(client, |name| goes_up(name, runner, key.is_some_and(|key| key.own)))
}

fn goes_up(name: &str, runner: &Runner, own_key: bool) -> bool {
    FORWARDED.contains(&name)
        || own_key && FORWARDED_WITH_OWN_KEY.contains(&name)
        || runner.upstream.provider.forward_headers.iter().any(|configured| configured == name)
}

fn selected(headers: &HeaderMap, goes: impl Fn(&str) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| goes(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}
