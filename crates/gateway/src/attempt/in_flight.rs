//! Counts running work: attempts at an upstream, races, audits, drains. Not for limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Counts one until it is dropped. Not `Clone`: two would decrement twice.
#[derive(Debug)]
pub struct InFlightGuard {
    counter: Arc<AtomicI64>,
    /// The count before this one.
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
