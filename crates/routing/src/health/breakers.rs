//! Circuit breakers in use: read before a race, updated by its attempts, logged when one opens or closes. Not for the rules:
//! those are in `routing::breaker`.

use std::sync::Arc;

use super::candidate::wait_for_all;
use super::state::lock;
use super::{CallerId, Candidate, CooldownState, UpstreamHealth};
use crate::routing::breaker::{BreakerScope, BreakerStatus, ProbeScope};
use crate::routing::cooldown::CooldownReason;
use photofinish_base::clock::Instant;
use photofinish_config::config::{BreakerSettings, RaceSettings};
use photofinish_wire::RequestTranslation;

/// Permission to probe an upstream whose breaker is open; returned on drop. Not `Clone`: one probe at a time.
pub struct ProbePermit {
    health: Arc<UpstreamHealth>,
    candidate: Candidate,
    begun: Instant,
}

impl Drop for ProbePermit {
    fn drop(&mut self) {
        lock(&self.health.breakers).end_trial(self.candidate.breaker_scope(), self.begun);
    }
}

/// The candidates that breakers allow.
pub struct BreakerAdmission<'a> {
    health: &'a Arc<UpstreamHealth>,
    settings: &'a RaceSettings,
    caller: CallerId,
    /// Whether a probe runs in addition to the first attempt or instead of it.
    trying: ProbeScope,
    pub candidates: Vec<Candidate>,
    /// The request to each of them.
    pub uploads: Vec<Arc<RequestTranslation>>,
    /// Permits, by the candidate's index.
    pub probes: Vec<(usize, ProbePermit)>,
    /// In the listed order: candidates that may only be probed, or not started at all.
    suspects: Vec<Suspect>,
}

/// A candidate that may only be probed, or not started at all.
struct Suspect {
    candidate: Candidate,
    request_translation: Arc<RequestTranslation>,
    standing: BreakerStatus,
    /// None if its breaker is open.
    why: Option<CooldownReason>,
}

impl<'a> BreakerAdmission<'a> {
    /// `beside`: one more attempt may run in addition to the first.
    pub fn new(
        health: &'a Arc<UpstreamHealth>,
        settings: &'a RaceSettings,
        caller: CallerId,
        beside: bool,
        upstreams: usize,
    ) -> BreakerAdmission<'a> {
        // A candidate is large, and lives as long as the answer: no room for more of them than there can be.
        let (candidates, uploads) = (Vec::with_capacity(upstreams), Vec::with_capacity(upstreams));
        let (probes, suspects) = Default::default();
        let trying = if beside { ProbeScope::Beside } else { ProbeScope::InPlace };
        BreakerAdmission { health, settings, caller, trying, candidates, uploads, probes, suspects }
    }

    /// A candidate whose rate limits are used up is treated as if its breaker were open.
    pub fn add(&mut self, candidate: Candidate, request_translation: Arc<RequestTranslation>) {
        let resting = wait_for_all(&candidate.keys, |key| self.health.resting(|| candidate.target(key)));
        let (scope, settings, caller) = (candidate.breaker_scope(), &self.settings.breaker, self.caller.for_breaker());
        let now = Instant::now();
        let breaker = || lock(&self.health.breakers).standing(scope, settings, caller, self.trying, now);
        let why = resting.map(|held| held.why);
        let standing = resting.map_or_else(breaker, |held| BreakerStatus::Open(held.wait));
        let in_its_place = match standing {
            BreakerStatus::Closed => true,
            BreakerStatus::Due => self.trying == ProbeScope::InPlace && self.begin_trial(&candidate),
            BreakerStatus::Open(_) => false,
        };
        if in_its_place {
            self.candidates.push(candidate);
            self.uploads.push(request_translation);
        } else {
            self.suspects.push(Suspect { candidate, request_translation, standing, why });
        }
    }

    /// A candidate that starts only if there is no other.
    pub fn add_doubtful(&mut self, candidate: Candidate, request_translation: Arc<RequestTranslation>) {
        let standing = BreakerStatus::Closed;
        self.suspects.push(Suspect { candidate, request_translation, standing, why: None });
    }

    /// Whether at least one candidate may start as usual.
    pub fn has_well(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Adds probes for breakers that are half open. Without any healthy candidate all are added: a doubtful upstream is better
    /// than none. Returns the names of the rest, and why they do not start.
    pub fn finish(&mut self) -> Vec<(String, CooldownState)> {
        let alone = !self.has_well();
        let mut left_out = Vec::new();
        for Suspect { candidate, request_translation, standing, why } in std::mem::take(&mut self.suspects) {
            let due = standing == BreakerStatus::Due && self.trying == ProbeScope::Beside;
            let is_probe = (alone || due) && self.begin_trial(&candidate);
            if alone || is_probe {
                self.candidates.push(Candidate { extra: !alone, ..candidate });
                self.uploads.push(request_translation);
            } else {
                left_out.push((candidate.name, CooldownState { wait: standing.wait(), why }));
            }
        }
        left_out
    }

    /// For the candidate that is added next. False if a probe of it runs already.
    fn begin_trial(&mut self, candidate: &Candidate) -> bool {
        let begun =
            lock(&self.health.breakers).begin_trial(candidate.breaker_scope(), &self.settings.breaker, Instant::now());
        let trial = |begun| ProbePermit { health: self.health.clone(), candidate: candidate.clone(), begun };
        self.probes.extend(begun.map(|begun| (self.candidates.len(), trial(begun))));
        begun.is_some()
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
        }
    }

    /// The first token of a request sent at `sent` arrived.
    pub(super) fn close_breaker(&self, scope: BreakerScope<'_>, sent: Instant) {
        if lock(&self.breakers).first_token(scope, sent) {
            tracing::info!(upstream = scope.upstream, "an upstream answers again: its breaker is closed");
        }
    }

    pub(super) fn ended_well(&self, scope: BreakerScope<'_>) {
        lock(&self.breakers).ended_well(scope);
    }
}
