//! How many attempts run at each upstream, and how many races: for the rows, and for whoever asks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Upstreams that are counted apart; callers may name any. Beyond it they share one counter.
const UPSTREAMS_MAX: usize = 10_000;

/// Counts by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    counters: Arc<Mutex<HashMap<String, Arc<AtomicI64>>>>,
}

/// A place in a count; given back on drop. Not `Clone`: two would give back one place twice.
#[derive(Debug)]
pub struct Slot {
    counter: Arc<AtomicI64>,
    /// How many there were before this one.
    pub before: i64,
}

impl InFlight {
    /// Takes a place under `name`.
    pub fn enter(&self, name: &str) -> Slot {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = match counters.get(name) {
            Some(counter) => counter.clone(),
            None => {
                let name = if counters.len() < UPSTREAMS_MAX { name } else { "" };
                counters.entry(name.to_owned()).or_default().clone()
            }
        };
        drop(counters);
        Slot::enter(counter)
    }
}

impl Slot {
    /// Takes a place in a counter of one's own.
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
