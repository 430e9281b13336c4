//! A place in a count of what runs: attempts at an upstream, races, audits, drains.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Given back on drop. Not `Clone`: two would give back one place twice.
#[derive(Debug)]
pub struct Slot {
    counter: Arc<AtomicI64>,
    /// How many there were before this one.
    pub before: i64,
}

impl Slot {
    pub fn enter(counter: Arc<AtomicI64>) -> Slot {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        Slot { counter, before }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}
