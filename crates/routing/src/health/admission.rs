//! Cool-downs and circuit breakers in use: read before a race, updated by its attempts, logged when a breaker opens or closes. Not
//! for the rules: those are in `breaker` and `cooldown`.

use std::sync::Arc;

use super::breaker::{BreakerScope, BreakerStatus, TrialScope};
use super::candidate::{LastResort, wait_for_all};
use super::windows::ContextWindow;
use super::{CallerId, Candidate, CooldownState, UpstreamHealth};
use crate::money::lock;
use crate::verdict::CooldownReason;
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_config::{BreakerSettings, RaceSettings};
use photofinish_translation::RequestTranslation;

/// Permission to test an upstream whose breaker is open; returned on drop. Not `Clone`: one trial at a time.
pub struct TrialPermit {
    health: Arc<UpstreamHealth>,
    candidate: Candidate,
    begun: Instant,
}

impl Drop for TrialPermit {
    fn drop(&mut self) {
        lock(&self.health.breakers).end_trial(self.candidate.breaker_scope(), self.begun);
    }
}

/// A candidate of one race, with all that is its own.
pub struct RaceCandidate {
    /// Lives as long as the answer.
    pub candidate: Arc<Candidate>,
    /// The request to it: it is large, and freed once an answer is streamed.
    pub upload: Arc<RequestTranslation>,
    pub window: ContextWindow,
    /// The permit, if it starts as a trial.
    pub trial: Option<TrialPermit>,
}

/// A candidate, and the request to it.
type OfferedCandidate = (Candidate, Arc<RequestTranslation>);

/// The candidates that cool-downs and breakers allow.
pub struct BreakerAdmission<'a> {
    health: &'a Arc<UpstreamHealth>,
    settings: &'a RaceSettings,
    caller: CallerId,
    /// Whether a trial runs in addition to the first attempt or instead of it.
    trying: TrialScope,
    pub candidates: Vec<RaceCandidate>,
    /// Those that run when all others have failed.
    held: Vec<OfferedCandidate>,
}

/// A candidate that may only be tested, or not started at all; and why, if that is not its breaker.
type DoubtfulCandidate = (OfferedCandidate, BreakerStatus, Option<CooldownReason>);

impl<'a> BreakerAdmission<'a> {
    /// `in_addition`: one more attempt may run in addition to the first.
    pub fn new(
        health: &'a Arc<UpstreamHealth>,
        settings: &'a RaceSettings,
        caller: CallerId,
        in_addition: bool,
        upstreams: usize,
    ) -> BreakerAdmission<'a> {
        let trying = if in_addition { TrialScope::InAddition } else { TrialScope::InPlace };
        let candidates = Vec::with_capacity(upstreams);
        BreakerAdmission { health, settings, caller, trying, candidates, held: Vec::new() }
    }

    /// Admits those of `offered` that may start, with trials for breakers that are half open. Others that do not cool down are a last
    /// resort, or run at once where no candidate is healthy: a doubtful upstream is better than none. Returns the names of those that
    /// cool down.
    pub fn admit(&mut self, offered: Vec<OfferedCandidate>) -> Vec<(String, CooldownState)> {
        let (mut cooled_down, mut doubtful, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for offered in offered {
            match self.health.held(&offered.0) {
                Some(held) => cooled_down.push((offered, held)),
                None => doubtful.extend(self.add(offered)),
            }
        }
        let alone = self.candidates.is_empty();
        for ((mut candidate, request_translation), held) in cooled_down {
            // A refusal may be over, and it has no Retry-After: refused ones are tried again, one request at a time.
            match if alone { self.health.let_through(&candidate) } else { None } {
                Some(place) => {
                    // The first key is used if all cool down.
                    if !candidate.keys.is_empty() {
                        candidate.keys.rotate_left(place);
                    }
                    doubtful.push(((candidate, request_translation), BreakerStatus::Closed, None));
                }
                None => left_out.push((candidate.name, CooldownState { wait: held.wait, why: Some(held.why) })),
            }
        }
        for ((candidate, request_translation), status, why) in doubtful {
            let is_half_open = status == BreakerStatus::HalfOpen && self.trying == TrialScope::InAddition;
            let trial = if alone || is_half_open { self.begin_trial(&candidate) } else { None };
            if alone || trial.is_some() {
                self.push(Candidate { trial: !alone, ..candidate }, request_translation, trial);
            } else {
                let last = Some(LastResort::Held(CooldownState { wait: status.wait(), why }));
                self.held.push((Candidate { last, ..candidate }, request_translation));
            }
        }
        left_out
    }

    /// Call last: admits as the last resort those of `offered`, which answer worse or refuse, that may start as usual; and behind them
    /// those that were held.
    pub fn admit_last(&mut self, offered: impl IntoIterator<Item = OfferedCandidate>) {
        for (candidate, request_translation) in offered {
            if self.health.held(&candidate).is_none() {
                let last = candidate.last.or(Some(LastResort::Worse));
                self.add((Candidate { last, ..candidate }, request_translation));
            }
        }
        for (candidate, request_translation) in std::mem::take(&mut self.held) {
            self.push(candidate, request_translation, None);
        }
    }

    /// Returned if it may not start as usual. A candidate whose rate limits are used up is treated as if its breaker were open.
    fn add(&mut self, offered: OfferedCandidate) -> Option<DoubtfulCandidate> {
        let candidate = &offered.0;
        let resting = wait_for_all(&candidate.keys, |key| self.health.resting(|| candidate.target(key)));
        let (scope, settings, caller) = (candidate.breaker_scope(), &self.settings.breaker, self.caller.for_breaker());
        let now = Instant::now();
        let (breaker, room) = {
            let breakers = lock(&self.health.breakers);
            (breakers.status(scope, settings, caller, self.trying, now), breakers.room(scope, now))
        };
        let status = resting.map_or(breaker, |held| BreakerStatus::Open(held.wait));
        let trial = match status {
            BreakerStatus::HalfOpen if self.trying == TrialScope::InPlace => self.begin_trial(candidate),
            _ => None,
        };
        if status != BreakerStatus::Closed && trial.is_none() {
            return Some((offered, status, resting.map(|held| held.why)));
        }
        self.push(Candidate { room, ..offered.0 }, offered.1, trial);
        None
    }

    fn push(&mut self, candidate: Candidate, upload: Arc<RequestTranslation>, trial: Option<TrialPermit>) {
        let window = self.health.window_of(&candidate);
        self.candidates.push(RaceCandidate { candidate: Arc::new(candidate), upload, window, trial });
    }

    /// None: a trial of it runs already.
    fn begin_trial(&self, candidate: &Candidate) -> Option<TrialPermit> {
        let begun =
            lock(&self.health.breakers).begin_trial(candidate.breaker_scope(), &self.settings.breaker, Instant::now());
        begun.map(|begun| TrialPermit { health: self.health.clone(), candidate: candidate.clone(), begun })
    }
}

impl UpstreamHealth {
    /// An attempt sent at `sent` failed by the upstream's own fault; `broke`: after its first token. `caller`: the caller whose
    /// request may have caused it.
    pub(super) fn charge(
        &self,
        scope: BreakerScope<'_>,
        breaker: &BreakerSettings,
        broke: bool,
        caller: Option<u64>,
        sent: Instant,
    ) {
        let opened = lock(&self.breakers).failed(scope, breaker, broke, caller, sent, Instant::now());
        if let Some(open) = opened {
            let (upstream, surface, failures) = (scope.upstream, scope.surface.path(), breaker.failures);
            tracing::warn!(upstream, surface, failures, ?open, "an upstream keeps failing: its breaker is open");
            self.note_breaker(scope);
        }
    }

    /// The first token of a request sent at `sent` arrived.
    pub(super) fn close_breaker(&self, scope: BreakerScope<'_>, sent: Instant) {
        if lock(&self.breakers).first_token(scope, sent, Instant::now()) {
            tracing::info!(upstream = scope.upstream, "an upstream answers again: its breaker is closed");
        }
    }

    pub(super) fn ended_well(&self, scope: BreakerScope<'_>) {
        lock(&self.breakers).ended_well(scope);
    }
}

/// The failure that a client sees for a candidate that was not started.
pub fn cooling_down(cooling: CooldownState) -> Failure {
    let CooldownState { wait, why } = cooling;
    let why = match why {
        Some(CooldownReason::KeyRefused) => "the provider refused its key (401, unauthorized)",
        Some(CooldownReason::Forbidden) => "the provider gives it no access or no credit (402 or 403, forbidden)",
        Some(CooldownReason::NotFound) => "the provider does not have its model (404 or 501, not_found)",
        Some(CooldownReason::RateLimited) => "a rate limit of its model",
        Some(CooldownReason::AccountRateLimited) => "a rate limit of its account",
        Some(CooldownReason::Exhausted) => "its rate limit is used up",
        None => "it kept failing",
    };
    let mut failure =
        Failure::new(FailureKind::CoolingDown, Phase::Connect, format!("cooling down for another {wait:.0?}: {why}"));
    failure.retry_after = Some(wait);
    failure
}
