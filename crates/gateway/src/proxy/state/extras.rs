//! Places for what runs in addition to the answers of clients. Not for clients' requests: see `places`.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::attempt::InFlightGuard;

/// Audited losers that run at the same time.
const AUDITS_MAX: i64 = 512;
/// Shadow requests at once.
const SHADOWS_MAX: i64 = 16;

/// How many of each run.
#[derive(Default)]
pub struct ExtraPlaces {
    audits: Arc<AtomicI64>,
    drains: Arc<AtomicI64>,
    shadows: Arc<AtomicI64>,
}

impl ExtraPlaces {
    /// A place among the audited losers, if one is free.
    pub fn enter_audit(&self) -> Option<InFlightGuard> {
        let slot = InFlightGuard::enter(self.audits.clone());
        (slot.before < AUDITS_MAX).then_some(slot)
    }

    /// A place among the shadow requests, if one is free.
    pub fn enter_shadow(&self) -> Option<InFlightGuard> {
        let slot = InFlightGuard::enter(self.shadows.clone());
        (slot.before < SHADOWS_MAX).then_some(slot)
    }

    /// A place among the drained losers, if fewer than `running` are taken.
    pub fn enter_drain(&self, running: usize) -> Option<InFlightGuard> {
        let slot = InFlightGuard::enter(self.drains.clone());
        usize::try_from(slot.before).is_ok_and(|before| before < running).then_some(slot)
    }
}
