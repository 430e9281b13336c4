//! A place in a count of what runs: attempts at an upstream, races, audits, drains.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Given back on drop. Not `Clone`: two would give back one place twice.
#[derive(Debug)]
pub struct InFlightGuard {
    counter: Arc<AtomicI64>,
    /// How many there were before this one.
    pub before: i64,
}

impl InFlightGuard {
    pub fn enter(counter: Arc<AtomicI64>) -> InFlightGuard {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        InFlightGuard { counter, before }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}
