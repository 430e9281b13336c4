//! An upstream that a request may use, with the keys that are sent to it.

use crate::config::UpstreamConfig;
use crate::protocol::Surface;
use crate::routing::breaker::BreakerScope;
use crate::routing::cooldown::{CooldownPeriod, CooldownTarget};
use crate::routing::keyring::HashedKey;
use crate::upstream::Endpoint;

/// An upstream with what it takes to ask it.
#[derive(Clone)]
pub struct Candidate {
    pub upstream: UpstreamConfig,
    /// `provider/model`
    pub name: String,
    pub endpoint: Endpoint,
    /// In the order of trying; empty where none is sent.
    pub keys: Vec<HashedKey>,
    /// The surface of it that is asked, whatever the caller's is.
    pub asked: Surface,
    /// No model of the configuration lists it: the caller named it.
    pub named: bool,
    /// Only to try it again, beside the others.
    pub extra: bool,
}

impl Candidate {
    /// What is set aside when this upstream fails with that key.
    pub fn target(&self, key: Option<&HashedKey>) -> CooldownTarget {
        target(&self.upstream, self.asked, self.named, key)
    }

    /// What its breaker is for.
    pub fn asked(&self) -> BreakerScope<'_> {
        BreakerScope { upstream: &self.name, surface: self.asked, named: self.named }
    }
}

/// The shortest wait, if every key of an upstream has to; of one without keys, its own.
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
