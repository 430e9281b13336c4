//! A simulated race asks its launcher to start simulated attempts, and the launcher passes every question on to the driver, as the
//! gateway's launcher does. An attempt becomes ready, fails or hangs as its world says, and reports to the same observer as a
//! real one. Dropping it cuts it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use super::stage::{MODEL, SharedStage, SimulatedCandidate, WakeTarget};
use super::world::{AttemptEnd, Dispatch, PlayedAttempt, Shown, SimulatedRequest, SimulatedResponse, SimulatedWorld};
use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_race::retries::Retries;
use photofinish_race::{
    AttemptStart, CutReason, HeldAttempt, Launch, RaceSide, RacingAttempt, Replan, RetryDecision, RunningAttempt,
};
use photofinish_routing::forecast::SendConditions;
use photofinish_routing::learning::{AttemptObserver, Learning, ObservedEnd, PrefixBlocks};
use photofinish_routing::policy::question::AttemptView;
use photofinish_routing::policy::{CandidateTurn, PACE_TOKENS, PolicyDriver};
use photofinish_routing::quality::JudgedAnswer;
use photofinish_routing::verdict::{BreakerEffect, verdict};

/// The records of one race's attempts.
pub(super) struct Shared {
    pub(super) attempts: Vec<PlayedAttempt>,
    /// Failures that breakers count once it is clear that not all attempts of the race share them: upstream and start.
    /// None: it is clear.
    pub(super) pending: Option<Vec<(usize, Instant)>>,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared { attempts: Vec::new(), pending: Some(Vec::new()) }
    }
}

/// A running attempt; none once it is ready or has failed.
pub(super) struct SimulatedAttempt<'w, W>(pub(super) Option<Answering<'w, W>>);

/// An attempt and its answer.
pub(super) struct Answering<'w, W> {
    pub(super) stage: SharedStage<'w, W>,
    pub(super) shared: Rc<RefCell<Shared>>,
    /// Index into the race's attempts.
    pub(super) ordinal: usize,
    pub(super) dispatch: Dispatch,
    pub(super) response: SimulatedResponse,
    /// None for a baseline, which learns for itself.
    pub(super) observer: Option<AttemptObserver>,
    /// Attempts that run at the upstream, this one included.
    pub(super) in_flight: Arc<AtomicI64>,
    pub(super) first_token_us: Option<i64>,
    pub(super) end: AttemptEnd,
    /// Its end is recorded already.
    pub(super) is_recorded: bool,
    /// A look whose answer is read to its end, because it is judged.
    pub(super) reads_on: bool,
}

enum Look {
    Nothing,
    Ready,
    Failed(Failure),
}

impl<W> Answering<'_, W> {
    /// When something happens to it next, if it is not cut; microseconds. None: never.
    pub(super) fn next_us(&self) -> Option<i64> {
        let Dispatch { request, at_us, .. } = self.dispatch;
        match (self.response, self.first_token_us) {
            (SimulatedResponse::Hangs, _) => None,
            (SimulatedResponse::Fails { after_us } | SimulatedResponse::Limited { after_us, .. }, _) => {
                Some(at_us + after_us)
            }
            (SimulatedResponse::Answers { ttft_us, .. }, None) => Some(at_us + ttft_us),
            (SimulatedResponse::Answers { .. }, Some(_)) => Some(self.token_us(request.output_tokens)),
        }
    }

    /// When its pace is known.
    pub(super) fn pace_us(&self) -> i64 {
        self.token_us(self.dispatch.request.output_tokens.min(PACE_TOKENS as u32))
    }

    /// When its answer is complete.
    pub(super) fn done_us(&self) -> i64 {
        self.token_us(self.dispatch.request.output_tokens)
    }

    /// Tokens written by `by_us`, if it is not cut.
    pub(super) fn written(&self, by_us: i64) -> i64 {
        let SimulatedResponse::Answers { ttft_us, tpot_us } = self.response else { return 0 };
        let writing_us = by_us - self.dispatch.at_us - ttft_us;
        let whole = i64::from(self.dispatch.request.output_tokens);
        if writing_us < 0 { 0 } else { (1 + (writing_us as f64 / tpot_us.max(1.0)) as i64).min(whole) }
    }

    pub(super) fn tpot_us(&self) -> Option<f64> {
        if let SimulatedResponse::Answers { tpot_us, .. } = self.response { Some(tpot_us) } else { None }
    }

    /// It wins or has won.
    pub(super) fn serves(&mut self) {
        self.end = AttemptEnd::Won;
        self.stage.borrow_mut().health.ended_well(self.dispatch.upstream);
    }

    /// Records its end. Later calls change nothing.
    pub(super) fn record(&mut self) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let stage = self.stage.borrow();
        let now_us = stage.now_us();
        let tariff = stage.upstreams[self.dispatch.upstream].tariff;
        let whole = i64::from(self.dispatch.request.output_tokens);
        let answers = self.tpot_us().is_some();
        let written = self.written(now_us);
        let (output, after_cut) = match self.end {
            AttemptEnd::Won => (whole, 0),
            AttemptEnd::Lost | AttemptEnd::TimedOut if answers && (tariff.billed_on || self.reads_on) => (whole, 0),
            AttemptEnd::Lost | AttemptEnd::TimedOut => {
                let billed = self.written(now_us + stage.cut_lag_us);
                (billed, billed - written)
            }
            AttemptEnd::Failed => (0, 0),
        };
        let failed = self.end == AttemptEnd::Failed;
        let attempt = &mut self.shared.borrow_mut().attempts[self.ordinal];
        attempt.ended_us = now_us - self.dispatch.request.at_us;
        attempt.end = self.end;
        attempt.cost = if failed { 0.0 } else { tariff.whole(self.dispatch.prompt, output as f64) };
        attempt.after_cut = after_cut as f64 * tariff.output;
    }

    /// For a lost trial: notes its first token if that is there, or gives its failure.
    pub(super) fn runs_out(&mut self) -> Option<Failure> {
        let Look::Failed(failure) = self.look() else { return None };
        self.end = AttemptEnd::Failed;
        Some(failure)
    }

    fn look(&mut self) -> Look {
        let now_us = self.stage.borrow().now_us();
        if self.first_token_us.is_none() && self.next_us().is_none_or(|next_us| now_us < next_us) {
            return Look::Nothing;
        }
        match self.response {
            SimulatedResponse::Hangs => Look::Nothing,
            SimulatedResponse::Fails { .. } => {
                Look::Failed(Failure::new(FailureKind::ServerError, Phase::Headers, "simulated"))
            }
            SimulatedResponse::Limited { retry_after_us, .. } => {
                let mut failure = Failure::new(FailureKind::RateLimited, Phase::Headers, "simulated");
                failure.retry_after = retry_after_us.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros);
                Look::Failed(failure)
            }
            SimulatedResponse::Answers { .. } => {
                if self.first_token_us.is_none() {
                    self.begin(now_us);
                }
                let whole = self.dispatch.request.whole;
                if !whole || self.next_us().is_some_and(|done_us| done_us <= now_us) {
                    Look::Ready
                } else {
                    Look::Nothing
                }
            }
        }
    }

    /// Its first token arrived.
    fn begin(&mut self, now_us: i64) {
        let ttft_us = now_us - self.dispatch.at_us;
        self.first_token_us = Some(now_us);
        self.shared.borrow_mut().attempts[self.ordinal].first_token_us = Some(ttft_us);
        if let Some(observer) = &mut self.observer {
            observer.first_token(ttft_us);
        }
        let pending = self.shared.borrow_mut().pending.take();
        let mut stage = self.stage.borrow_mut();
        let (now, sent) = (stage.now(), stage.instant(self.dispatch.at_us));
        for (upstream, sent) in pending.into_iter().flatten() {
            stage.health.failed(upstream, sent, now);
        }
        stage.health.first_token(self.dispatch.upstream, sent, now);
        stage.shows(self.dispatch.upstream, Shown::FirstToken(ttft_us));
    }

    fn token_us(&self, token: u32) -> i64 {
        let SimulatedResponse::Answers { ttft_us, tpot_us } = self.response else { return i64::MAX };
        self.dispatch.at_us + ttft_us + (tpot_us * f64::from(token.saturating_sub(1))) as i64
    }

    fn ending(&self, now_us: i64, drains: bool) -> ObservedEnd {
        let served = self.end == AttemptEnd::Won;
        let waited_us = Some(now_us - self.dispatch.at_us);
        let (whole, generated) = (i64::from(self.dispatch.request.output_tokens), self.written(now_us));
        // A loser whose first token was held back may have written its whole answer by then.
        let complete = served || generated == whole;
        let counted = complete || drains && self.tpot_us().is_some();
        ObservedEnd {
            waited_us: waited_us.filter(|_| self.first_token_us.is_none() && self.end != AttemptEnd::Failed),
            limited: matches!(self.response, SimulatedResponse::Limited { .. }) && self.end == AttemptEnd::Failed,
            failed: match self.end {
                AttemptEnd::Failed => true,
                AttemptEnd::TimedOut => self.first_token_us.is_none(),
                AttemptEnd::Won | AttemptEnd::Lost => false,
            },
            billed: self.end != AttemptEnd::Failed,
            served,
            tpot_us: self.tpot_us().filter(|_| complete && whole > 1),
            output_tokens: counted.then_some(whole),
            generated,
            ..ObservedEnd::default()
        }
    }
}

impl<W: SimulatedWorld> Answering<'_, W> {
    /// Its answer is judged.
    pub(super) fn judge(&self) {
        let (stage, Dispatch { request, upstream, .. }) = (self.stage.borrow(), self.dispatch);
        if let Some(broken) = stage.world.breaks(&request, upstream) {
            let (upstream, at_us) = (stage.upstreams[upstream].name.as_str(), stage.now_us());
            stage.learning.quality().judged(&JudgedAnswer { model: MODEL, upstream, class: 0, broken, at_us });
        }
    }
}

impl<W> Drop for Answering<'_, W> {
    fn drop(&mut self) {
        self.record();
        let mut stage = self.stage.borrow_mut();
        let (now_us, upstream) = (stage.now_us(), self.dispatch.upstream);
        // The gateway reads a loser to its end that is billed in full anyway, and so knows its tokens.
        let drains = self.reads_on || stage.upstreams[upstream].tariff.billed_on && stage.settings.drains.running > 0;
        let ending = self.ending(now_us, drains);
        if ending.failed {
            stage.shows(upstream, Shown::Failed);
        } else if let Some(waited_us) = ending.waited_us {
            stage.shows(upstream, Shown::Cut(waited_us));
        }
        drop(stage);
        if let Some(mut observer) = self.observer.take() {
            observer.ended(&ending);
        }
        self.in_flight.fetch_sub(1, Relaxed);
    }
}

impl<W> Unpin for SimulatedAttempt<'_, W> {}

impl<'w, W> Future for SimulatedAttempt<'w, W> {
    type Output = Result<Answering<'w, W>, Failure>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut answering) = self.0.take() else { return Poll::Pending };
        match answering.look() {
            Look::Nothing => {
                self.0 = Some(answering);
                Poll::Pending
            }
            Look::Ready => Poll::Ready(Ok(answering)),
            Look::Failed(failure) => {
                answering.end = AttemptEnd::Failed;
                Poll::Ready(Err(failure))
            }
        }
    }
}

impl<'w, W> RacingAttempt for SimulatedAttempt<'w, W> {
    type Ready = Answering<'w, W>;

    fn cut(&mut self, cut: CutReason) {
        if let Some(answering) = &mut self.0 {
            answering.cut(cut);
        }
    }

    fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|answering| answering.first_token_us.is_some())
    }
}

impl<W> HeldAttempt for Answering<'_, W> {
    fn poll_held(&mut self, _: &mut Context<'_>) -> Poll<Failure> {
        Poll::Pending
    }

    fn cut(&mut self, cut: CutReason) {
        self.end = if cut == CutReason::Lost { AttemptEnd::Lost } else { AttemptEnd::TimedOut };
    }
}

/// The launcher of one simulated race.
pub(super) struct SimulatedLauncher<'w, W> {
    pub(super) stage: SharedStage<'w, W>,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) learning: Arc<Learning>,
    pub(super) request: SimulatedRequest,
    pub(super) target: WakeTarget,
    /// By candidate.
    pub(super) candidates: Vec<SimulatedCandidate>,
    /// None for a baseline: its plan is all it says.
    pub(super) driver: Option<PolicyDriver>,
    pub(super) retries: Retries,
    /// Trials and revisits that lost and run on, for how long at most; the engine takes them.
    pub(super) lost_trials: Vec<(Answering<'w, W>, Option<Instant>, Duration)>,
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
            let answering = running.attempt.0.as_ref();
            let first_token_us = answering.and_then(|answering| answering.first_token_us);
            AttemptView {
                candidate: running.candidate(),
                waited_us: micros_between(running.started_at, self.now()),
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

    fn launch(&mut self, starting: AttemptStart) -> Option<SimulatedAttempt<'w, W>> {
        let SimulatedCandidate { upstream, begun, .. } = self.candidates[starting.candidate];
        let trial = begun.is_some();
        let request = self.request;
        let (dispatch, response, in_flight) = {
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
                concurrent: attempts.iter().any(is_running),
                trial,
                ran_on: false,
                sent: SendConditions { uncached_tokens: prompt.uncached, in_flight: before },
                after_us: at_us - request.at_us,
                first_token_us: None,
                ended_us: i64::MAX,
                end: AttemptEnd::Lost,
                cost: 0.0,
                after_cut: 0.0,
            });
            (dispatch, stage.world.response(&dispatch), in_flight)
        };
        let observer = self.observer(starting);
        in_flight.fetch_add(1, Relaxed);
        let answering = Answering {
            stage: self.stage.clone(),
            shared: self.shared.clone(),
            ordinal: starting.ordinal,
            dispatch,
            response,
            observer,
            in_flight,
            first_token_us: None,
            end: AttemptEnd::Lost,
            is_recorded: false,
            reads_on: false,
        };
        let wakes = &mut self.stage.borrow_mut().wakes;
        if let Some(next_us) = answering.next_us() {
            wakes.add(next_us, self.target);
        }
        if request.whole && answering.tpot_us().is_some() {
            wakes.add(answering.pace_us(), self.target);
            wakes.add(answering.done_us(), self.target);
        }
        Some(SimulatedAttempt(Some(answering)))
    }

    fn failed(&mut self, candidate: usize, failure: &Failure) -> RetryDecision {
        let SimulatedCandidate { upstream, turn, .. } = self.candidates[candidate];
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
        if stage.settings.retries == 0 || turn == CandidateTurn::Trial {
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
        let Some(candidate) = self.candidates.iter().position(|place| place.upstream == upstream) else { return };
        let is_watched = self.driver.as_ref().is_some_and(|driver| driver.runs_on(candidate));
        if is_watched || self.candidates[candidate].begun.is_some() {
            answering.reads_on =
                self.driver.as_ref().is_some_and(|driver| driver.is_watched(candidate) && driver.reads_on(candidate));
            answering.record();
            if answering.reads_on {
                answering.judge();
            }
            self.shared.borrow_mut().attempts[answering.ordinal].ran_on = true;
            let timeout = self.stage.borrow().upstreams[upstream].first_token;
            let now_us = self.learning.now_us();
            let limit = self.driver.as_ref().map_or(timeout, |driver| driver.runs_on_for(candidate, now_us));
            self.lost_trials.push((answering, self.candidates[candidate].begun.take(), limit));
        }
    }

    fn replan(&mut self, running: &[RunningAttempt<SimulatedAttempt<'w, W>>], waiting: &[usize]) -> Replan {
        let views = self.views(running);
        let (stage, now_us) = (self.stage.borrow(), self.learning.now_us());
        let cools = |candidate: usize| stage.health.is_cooling(self.candidates[candidate].upstream, stage.now());
        let rested: Vec<usize> = waiting.iter().copied().filter(|candidate| !cools(*candidate)).collect();
        self.driver.as_mut().map_or(Replan::Never, |driver| driver.replan(&views, &rested, now_us))
    }

    fn next_after_failure(&mut self, waiting: &[usize], must: bool) -> Option<usize> {
        let now_us = self.learning.now_us();
        self.driver.as_mut().map_or(Some(0), |driver| driver.next_after_failure(waiting, must, now_us))
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
        for SimulatedCandidate { upstream, begun, .. } in &self.candidates {
            if let Some(begun) = begun {
                stage.health.end_trial(*upstream, *begun);
            }
        }
    }
}
