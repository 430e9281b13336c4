//! An upstream that a request may use, and why it may not start now. Not for its statistics: see `policy::CandidateState`.

use std::sync::Arc;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::breaker::BreakerScope;
use super::cooldown::{CooldownPeriod, CooldownTarget};
use crate::verdict::CooldownReason;
use photofinish_config::UpstreamConfig;
use photofinish_config::keyring::HashedKey;
use photofinish_facts::record::LeftOutReason;
use photofinish_transport::upstream::Endpoint;
use photofinish_wire::Surface;

/// An upstream, with everything that a request to it needs.
#[derive(Clone)]
pub struct Candidate {
    pub upstream: UpstreamConfig,
    /// `provider/model`
    pub name: String,
    pub endpoint: Endpoint,
    /// In the order of use; empty if the provider needs none.
    pub keys: Vec<HashedKey>,
    /// The upstream's surface. It may differ from the caller's.
    pub surface: Surface,
    /// The caller named it; no configured model lists it.
    pub named: bool,
    /// Of its breaker: it starts in addition to the others.
    pub trial: bool,
    /// Why it answers worse than others of the model, if the request has tools or a schema.
    pub worse: Option<Arc<str>>,
    /// It is asked only when no other is left, and why.
    pub last: Option<LastResort>,
    /// Of its breaker: how many attempts may run there at once before others go first. None: any number.
    pub room: Option<u32>,
}

impl Candidate {
    /// What cools down if this upstream fails with this key.
    pub fn target(&self, key: Option<&HashedKey>) -> CooldownTarget {
        target(&self.upstream, self.surface, self.named, key)
    }

    /// The scope of its breaker.
    pub fn breaker_scope(&self) -> BreakerScope<'_> {
        BreakerScope { upstream: &self.name, surface: self.surface, named: self.named }
    }
}

/// Why an upstream is asked only when no other is left.
#[derive(Clone, Copy, Debug)]
pub enum LastResort {
    /// It answers worse than the others.
    Worse,
    /// It refused the last requests of this kind, and others answered them.
    Refuses,
    /// Its breaker is open, or its rate limits are used up.
    Held(CooldownState),
}

impl LastResort {
    pub fn reason(self) -> LeftOutReason {
        match self {
            LastResort::Worse => LeftOutReason::Quality,
            LastResort::Refuses => LeftOutReason::Refuses,
            LastResort::Held(cooling) => cooling.reason(),
        }
    }
}

/// Why an upstream is not started, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct CooldownState {
    pub wait: Duration,
    /// None if its breaker is open.
    pub why: Option<CooldownReason>,
}

impl CooldownState {
    pub fn reason(self) -> LeftOutReason {
        if self.why.is_some() { LeftOutReason::CoolingDown } else { LeftOutReason::Breaker }
    }
}

/// The shortest wait if every key has one; for an upstream without keys, its own.
pub fn wait_for_all(
    keys: &[HashedKey],
    wait: impl Fn(Option<&HashedKey>) -> Option<CooldownPeriod>,
) -> Option<CooldownPeriod> {
    if keys.is_empty() {
        return wait(None);
    }
    let waits: Option<Vec<CooldownPeriod>> = keys.iter().map(|key| wait(Some(key))).collect();
    waits.and_then(|waits| waits.into_iter().min_by_key(|held| held.wait))
}

pub fn target(upstream: &UpstreamConfig, surface: Surface, named: bool, key: Option<&HashedKey>) -> CooldownTarget {
    CooldownTarget {
        provider: upstream.provider.name.clone(),
        model: upstream.model.clone(),
        surface,
        key_id: key.map(|key| key.id().to_owned()),
        own_key: key.is_some_and(|key| key.own),
        named,
    }
}

/// A hash of the user's name.
#[derive(Clone, Copy, Debug)]
pub struct CallerId {
    id: u64,
    /// The configuration has fewer than two users, so one caller's failures concern all requests.
    alone: bool,
}

impl CallerId {
    /// `user`: None if the configuration has no users. `users`: their number.
    pub fn new(user: Option<&str>, users: usize) -> CallerId {
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        CallerId { id: hasher.finish(), alone: users < 2 }
    }

    pub fn id(self) -> u64 {
        self.id
    }

    /// None if there is only one caller.
    pub(super) fn for_breaker(self) -> Option<u64> {
        (!self.alone).then_some(self.id)
    }

    /// How many callers must meet the same failure before it applies to all callers.
    pub(super) fn witnesses(self) -> usize {
        if self.alone { 1 } else { 2 }
    }
}
