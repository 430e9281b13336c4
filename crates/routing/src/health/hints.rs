//! What a gateway reports of upstreams to others on the same database, from when it begins: keys that cool down, and open breakers.
//!
//! Not for when it is noted and what others make of it: see `hint_exchange`.

use std::collections::VecDeque;

use super::cooldown::{CooldownPeriod, CooldownTarget};
use crate::verdict::CooldownReason;
use photofinish_base::clock::Instant;

/// Hints that are sent, the newest.
pub(super) const HINTS_MAX: usize = 100;

/// Something about an upstream that other gateways need not find out themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthHint {
    /// Later ones have larger numbers.
    pub number: u64,
    pub target: CooldownTarget,
    /// What is left of its cool-down. None: its breaker is open.
    pub cooldown: Option<CooldownPeriod>,
}

/// The hints of this gateway, the oldest first.
#[derive(Debug, Default)]
pub(super) struct HintLog {
    last: u64,
    pub kept: VecDeque<KeptHint>,
}

#[derive(Debug)]
pub(super) struct KeptHint {
    pub number: u64,
    pub target: CooldownTarget,
    /// Why it cools down, and until when. None: a breaker.
    pub cooldown: Option<(CooldownReason, Instant)>,
}

impl HintLog {
    pub fn note(&mut self, target: CooldownTarget, cooldown: Option<(CooldownReason, Instant)>) {
        let why = |cooldown: Option<(CooldownReason, Instant)>| cooldown.map(|(why, _)| why);
        self.kept.retain(|kept| kept.target != target || why(kept.cooldown) != why(cooldown));
        self.last += 1;
        self.kept.push_back(KeptHint { number: self.last, target, cooldown });
        self.kept.drain(..self.kept.len().saturating_sub(HINTS_MAX));
    }
}
