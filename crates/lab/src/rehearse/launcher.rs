//! What a simulated race asks of its surroundings: it starts simulated attempts and passes every question on to the driver.
//! The counterpart of the gateway's launcher.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::attempt::{Answering, Shared, SimulatedAttempt};
use super::health::LinedUp;
use super::simulated_race::{AttemptEnd, PlayedAttempt};
use super::stage::{SharedStage, Whom};
use super::world::{Dispatch, SimulatedRequest, SimulatedWorld};
use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::failure::{Failure, FailureKind};
use photofinish_gateway::race::retries::Retries;
use photofinish_gateway::race::{AttemptStart, Launch, RaceSide, Replan, RetryDecision, RunningAttempt};
use photofinish_routing::learning::{AttemptObserver, Learning, PrefixBlocks};
use photofinish_routing::policy::PolicyDriver;
use photofinish_routing::routing::adaptive::{AttemptView, SendConditions};
use photofinish_routing::verdict::{BreakerEffect, verdict};

/// The launcher of one simulated race.
pub(super) struct SimulatedLauncher<'w, W> {
    pub(super) stage: SharedStage<'w, W>,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) learning: Arc<Learning>,
    pub(super) request: SimulatedRequest,
    pub(super) whom: Whom,
    /// By candidate.
    pub(super) lineup: Vec<LinedUp>,
    /// None for a baseline: its plan is all it says.
    pub(super) driver: Option<PolicyDriver>,
    pub(super) retries: Retries,
    /// Trials that lost and run on; the engine takes them.
    pub(super) lost_trials: Vec<(Answering<'w, W>, Option<Instant>)>,
}

impl<'w, W: SimulatedWorld> SimulatedLauncher<'w, W> {
    fn observer(&mut self, AttemptStart { candidate, ordinal, reason, .. }: AttemptStart) -> Option<AttemptObserver> {
        let driver = self.driver.as_mut()?;
        let spec = driver.started(candidate, (ordinal, reason), &self.learning, PrefixBlocks::default(), 0);
        Some(AttemptObserver::start(spec))
    }

    fn views(&self, running: &[RunningAttempt<SimulatedAttempt<'w, W>>]) -> Vec<AttemptView> {
        let now_us = self.learning.now_us();
        let view = |running: &RunningAttempt<SimulatedAttempt<'w, W>>| {
            let answering = running.attempt().0.as_ref();
            let first_token_us = answering.and_then(|answering| answering.first_token_us);
            AttemptView {
                candidate: running.candidate(),
                waited_us: micros_between(running.started_at(), self.now()),
                first_token_us: first_token_us
                    .zip(answering)
                    .map(|(at_us, answering)| at_us - answering.dispatch.at_us),
                tokens: answering.map_or(0, |answering| answering.written(now_us)),
            }
        };
        running.iter().map(view).collect()
    }
}

impl<'w, W: SimulatedWorld> Launch for SimulatedLauncher<'w, W> {
    type Ready = Answering<'w, W>;
    type Attempt = SimulatedAttempt<'w, W>;

    fn now(&self) -> Instant {
        self.stage.borrow().now()
    }

    fn launch(&mut self, starting: AttemptStart) -> SimulatedAttempt<'w, W> {
        let LinedUp { upstream, trial, .. } = self.lineup[starting.candidate];
        let request = self.request;
        let (dispatch, fate, in_flight) = {
            let mut stage = self.stage.borrow_mut();
            let at_us = stage.now_us();
            let prompt = stage.world.prompt(&request, upstream, at_us);
            let known = &stage.known[upstream];
            let (before, in_flight) = (known.in_flight(), known.running());
            let attempts = &mut self.shared.borrow_mut().attempts;
            let retry = attempts.iter().filter(|attempt| attempt.upstream == upstream).count() as u32;
            let dispatch = Dispatch { request, upstream, prompt, at_us, in_flight: before, retry };
            let is_running = |attempt: &PlayedAttempt| attempt.ended_us == i64::MAX;
            attempts.push(PlayedAttempt {
                upstream,
                reason: starting.reason,
                beside: attempts.iter().any(is_running),
                trial,
                sent: SendConditions { uncached_tokens: prompt.uncached, in_flight: before },
                after_us: at_us - request.at_us,
                first_token_us: None,
                ended_us: i64::MAX,
                end: AttemptEnd::Lost,
                cost: 0.0,
                after_cut: 0.0,
            });
            (dispatch, stage.world.fate(&dispatch), in_flight)
        };
        let observer = self.observer(starting);
        in_flight.fetch_add(1, Relaxed);
        let answering = Answering {
            stage: self.stage.clone(),
            shared: self.shared.clone(),
            ordinal: starting.ordinal,
            dispatch,
            fate,
            observer,
            in_flight,
            first_token_us: None,
            end: AttemptEnd::Lost,
            is_recorded: false,
        };
        let wakes = &mut self.stage.borrow_mut().wakes;
        if let Some(next_us) = answering.next_us() {
            wakes.add(next_us, self.whom);
        }
        if request.whole && answering.tpot_us().is_some() {
            wakes.add(answering.pace_us(), self.whom);
            wakes.add(answering.done_us(), self.whom);
        }
        SimulatedAttempt(Some(answering))
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision {
        let LinedUp { upstream, trial, .. } = self.lineup[candidate];
        let mut stage = self.stage.borrow_mut();
        let (now, jitter) = (stage.now(), stage.draws.f64());
        let sent_us = {
            let attempts = &self.shared.borrow().attempts;
            let latest = attempts.iter().rev().find(|attempt| attempt.upstream == upstream);
            latest.map_or(0, |attempt| attempt.after_us)
        };
        let sent = stage.instant(self.request.at_us + sent_us);
        if verdict(failure).counts != BreakerEffect::Never {
            match &mut self.shared.borrow_mut().pending {
                Some(pending) => pending.push((upstream, sent)),
                None => stage.health.failed(upstream, sent, now),
            }
        }
        if failure.kind == FailureKind::RateLimited {
            stage.health.limited(upstream, failure.retry_after, now, jitter);
        }
        if stage.settings.retries == 0 || trial {
            return RetryDecision::No;
        }
        let (rest, first) = (stage.health.wait(upstream, now), stage.settings.policy.asks_in_order());
        match self.retries.next(candidate, failure, rest, jitter) {
            Some(wait) => RetryDecision::Later { wait, first },
            None => RetryDecision::No,
        }
    }

    fn affords_retry(&mut self, candidate: usize, running: &[RunningAttempt<SimulatedAttempt<'w, W>>]) -> bool {
        let (views, now_us) = (self.views(running), self.learning.now_us());
        self.driver.as_ref().is_none_or(|driver| driver.affords_retry(candidate, &views, now_us))
    }

    fn lost(&mut self, mut attempt: SimulatedAttempt<'w, W>) {
        let Some(mut answering) = attempt.0.take() else { return };
        let upstream = answering.dispatch.upstream;
        if let Some(place) = self.lineup.iter_mut().find(|place| place.upstream == upstream && place.trial) {
            answering.record();
            self.lost_trials.push((answering, place.begun.take()));
        }
    }

    fn replan(&mut self, running: &[RunningAttempt<SimulatedAttempt<'w, W>>], waiting: &[usize]) -> Replan {
        let views = self.views(running);
        let (stage, now_us) = (self.stage.borrow(), self.learning.now_us());
        let cools = |candidate: usize| stage.health.is_cooling(self.lineup[candidate].upstream, stage.now());
        let rested: Vec<usize> = waiting.iter().copied().filter(|candidate| !cools(*candidate)).collect();
        self.driver.as_mut().map_or(Replan::Never, |driver| driver.replan(&views, &rested, now_us))
    }

    fn next_after_failure(&mut self, waiting: &[usize]) -> usize {
        let now_us = self.learning.now_us();
        self.driver.as_ref().map_or(0, |driver| driver.next_after_failure(waiting, now_us))
    }

    fn hold(
        &mut self,
        ready: &RunningAttempt<Answering<'w, W>>,
        running: &[RunningAttempt<SimulatedAttempt<'w, W>>],
    ) -> Option<Duration> {
        if self.request.whole {
            return None;
        }
        let (views, now_us) = (self.views(running), self.learning.now_us());
        self.driver.as_mut()?.hold(ready.candidate(), &views, now_us)
    }

    fn prefer(&mut self, held: &RunningAttempt<Answering<'w, W>>, new: &RunningAttempt<Answering<'w, W>>) -> RaceSide {
        let now_us = self.learning.now_us();
        let prefers_new = |driver: &PolicyDriver| driver.prefers_new(held.candidate(), new.candidate(), now_us);
        if self.driver.as_ref().is_some_and(prefers_new) { RaceSide::New } else { RaceSide::Held }
    }

    fn hopeless(&mut self, running: &[RunningAttempt<SimulatedAttempt<'w, W>>]) -> Option<usize> {
        if !self.request.whole || running.len() < 2 {
            return None;
        }
        let (views, now_us) = (self.views(running), self.learning.now_us());
        self.driver.as_ref()?.hopeless(&views, now_us)
    }
}

impl<W> Drop for SimulatedLauncher<'_, W> {
    /// The race is over, and so are its trials.
    fn drop(&mut self) {
        let mut stage = self.stage.borrow_mut();
        for LinedUp { upstream, begun, .. } in &self.lineup {
            if let Some(begun) = begun {
                stage.health.end_trial(*upstream, *begun);
            }
        }
    }
}
