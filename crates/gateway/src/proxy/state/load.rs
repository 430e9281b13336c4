//! The current use of the gateway, and the room that it leaves for one more request. Not for letting requests in: see
//! `admission`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::proxy::refusals::shed::ShedReason;
use photofinish_limits::LevelName;

/// How much is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLoad {
    /// Requests that are served, without the new one.
    pub in_flight: usize,
    pub max_in_flight: usize,
    /// Bytes.
    pub memory_used: usize,
    pub memory_max: usize,
    /// File descriptors are running out.
    pub scarce: bool,
}

/// The room that is left for one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionRoom {
    /// Enough for extra attempts too.
    Enough,
    /// At least three quarters are in use: enough for the request and for fallbacks after failures.
    Scant,
    None(ShedReason),
}

impl AdmissionLoad {
    pub fn room(self) -> AdmissionRoom {
        let AdmissionLoad { in_flight, max_in_flight, memory_used, memory_max, scarce } = self;
        let is_scant = |used: usize, max: usize| used >= max - max / 4;
        if scarce {
            AdmissionRoom::None(ShedReason::Descriptors)
        } else if in_flight >= max_in_flight {
            AdmissionRoom::None(ShedReason::InFlight)
        } else if memory_used >= memory_max {
            AdmissionRoom::None(ShedReason::Memory)
        } else if is_scant(in_flight, max_in_flight) || is_scant(memory_used, memory_max) {
            AdmissionRoom::Scant
        } else {
            AdmissionRoom::Enough
        }
    }
}

/// Shed requests since the start, in the order of [`ShedReason::ALL`].
#[derive(Debug, Default)]
pub struct ShedCounts([AtomicU64; ShedReason::ALL.len()]);

impl ShedCounts {
    pub(crate) fn count(&self, shed: ShedReason) {
        self.0[shed as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts by label of the reason.
    pub fn so_far(&self) -> Vec<(&'static str, u64)> {
        ShedReason::ALL.iter().map(|shed| (shed.as_str(), self.0[*shed as usize].load(Ordering::Relaxed))).collect()
    }
}

/// What was counted of limits since the start, by level and limit.
#[derive(Debug, Default)]
pub struct LimitedCounts(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl LimitedCounts {
    /// `kind`: the limit.
    pub fn count(&self, level: &LevelName, kind: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((level.kind(), kind)).or_default() += 1;
    }

    /// By level and kind.
    pub fn so_far(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_attempts_go_first_then_requests() {
        let load = |in_flight, memory_used, scarce| {
            AdmissionLoad { in_flight, max_in_flight: 1_000, memory_used, memory_max: 64 << 20, scarce }.room()
        };
        for (in_flight, used, scarce, room) in [
            (0, 0, false, AdmissionRoom::Enough),
            (749, 0, false, AdmissionRoom::Enough),
            (750, 0, false, AdmissionRoom::Scant),
            (999, 0, false, AdmissionRoom::Scant),
            (1_000, 0, false, AdmissionRoom::None(ShedReason::InFlight)),
            (0, (48 << 20) - 1, false, AdmissionRoom::Enough),
            (0, 48 << 20, false, AdmissionRoom::Scant),
            (0, 64 << 20, false, AdmissionRoom::None(ShedReason::Memory)),
            (0, 0, true, AdmissionRoom::None(ShedReason::Descriptors)),
        ] {
            assert_eq!(load(in_flight, used, scarce), room, "{in_flight} {used} {scarce}");
        }
        let one = |in_flight| {
            AdmissionLoad { in_flight, max_in_flight: 1, memory_used: 0, memory_max: 4, scarce: false }.room()
        };
        assert_eq!((one(0), one(1)), (AdmissionRoom::Enough, AdmissionRoom::None(ShedReason::InFlight)));
    }
}
