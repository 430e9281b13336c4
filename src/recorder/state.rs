//! The counters that recorders and the writer share, and the condition of the store.
//!
//! Not for metrics: `metrics` reads them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use super::log_throttle::LogThrottle;

/// The condition of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The last batch was written; also before the first one.
    Ok,
    /// The store takes no rows now. They are kept and written later.
    Delayed,
    /// Rows are being lost.
    Failing,
}

impl Condition {
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::Ok => "ok",
            Condition::Delayed => "delayed",
            Condition::Failing => "failing",
        }
    }
}

/// Rows in memory from which on a batch is written although rows are held: half of the queue.
const HELD_MAX: usize = 32_768;

pub(super) struct StoreState {
    /// Rows in memory. Signed: rows sent during the finish may be subtracted twice.
    queued: AtomicI64,
    /// Rows in the spill file.
    spilled: AtomicU64,
    /// Those who ask that no batch is written now.
    pub holds: AtomicU64,
    pub written: AtomicU64,
    pub dropped: AtomicU64,
    pub violations: AtomicU64,
    pub condition: watch::Sender<Condition>,
    pub overflow: LogThrottle,
    pub refusal: LogThrottle,
    pub violation: LogThrottle,
}

impl StoreState {
    pub fn new() -> StoreState {
        StoreState {
            queued: AtomicI64::new(0),
            spilled: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            condition: watch::Sender::new(Condition::Ok),
            overflow: LogThrottle::new(),
            refusal: LogThrottle::new(),
            violation: LogThrottle::new(),
        }
    }

    /// Whether rows are to wait in memory, and there is room for more.
    pub fn is_held(&self) -> bool {
        self.holds.load(Relaxed) > 0 && self.queued() < HELD_MAX
    }

    pub fn queued(&self) -> usize {
        usize::try_from(self.queued.load(Relaxed)).unwrap_or(0)
    }

    pub fn spilled(&self) -> usize {
        usize::try_from(self.spilled.load(Relaxed)).unwrap_or(usize::MAX)
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Counts rows that will be queued. Returns the number before.
    pub fn add(&self, rows: usize) -> usize {
        usize::try_from(self.queued.fetch_add(rows as i64, Relaxed)).unwrap_or(0)
    }

    /// Counts rows written from memory to the database.
    pub fn keep(&self, rows: usize) {
        self.written.fetch_add(rows as u64, Relaxed);
        self.queued.fetch_sub(rows as i64, Relaxed);
    }

    /// Counts rows written from memory to the spill file.
    pub fn spill(&self, rows: usize) {
        self.spilled.fetch_add(rows as u64, Relaxed);
        self.queued.fetch_sub(rows as i64, Relaxed);
    }

    /// Sets the number of rows that an earlier run left in the spill file.
    pub fn found(&self, rows: u64) {
        self.spilled.store(rows, Relaxed);
    }

    /// Counts rows moved from the spill file to the database. `more`: more rows are left.
    pub fn bring_back(&self, rows: u64, more: bool) {
        self.written.fetch_add(rows, Relaxed);
        let left = self.spilled.load(Relaxed).saturating_sub(rows);
        self.spilled.store(if more { left.max(1) } else { 0 }, Relaxed);
    }

    pub fn lose(&self, rows: usize) {
        if rows > 0 {
            self.dropped.fetch_add(rows as u64, Relaxed);
            self.queued.fetch_sub(rows as i64, Relaxed);
            self.is(Condition::Failing);
        }
    }

    pub fn is(&self, now: Condition) {
        self.condition.send_if_modified(|condition| std::mem::replace(condition, now) != now);
    }
}
