//! Limits how often a log line is repeated.
//!
//! Not for counting: counters are in `state`.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use photofinish_base::clock::micros_between;

/// Shortest time between two lines of one log message.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// Lets one log line through, then none for a while. Atomic, because requests run in parallel.
pub(super) struct LogThrottle {
    start: Instant,
    /// Microseconds after `start` before which no line is logged.
    quiet_until: AtomicI64,
}

impl LogThrottle {
    pub(super) fn new() -> LogThrottle {
        LogThrottle { start: Instant::now(), quiet_until: AtomicI64::new(0) }
    }

    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        let (quiet_until, now_us) = (self.quiet_until.load(Relaxed), micros_between(self.start, now));
        now_us >= quiet_until
            && self
                .quiet_until
                .compare_exchange(quiet_until, micros_between(self.start, now + QUIET), Relaxed, Relaxed)
                .is_ok()
    }
}
