//! The clock of measurements: one monotonic clock, integer microseconds. Wall-clock time is only for `started_at`.
//!
//! Not a timer: deadlines are `tokio::time` instants, so that tests stop the clock for both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// Durations in microseconds, the unit of every stored time.
pub const SECOND_US: i64 = 1_000_000;
pub const HOUR_US: i64 = 3_600 * SECOND_US;
pub const DAY_US: i64 = 24 * HOUR_US;

/// Microseconds from `start` to `end`; 0 when `end` is earlier.
pub fn micros_between(start: Instant, end: Instant) -> i64 {
    micros(end.saturating_duration_since(start))
}

/// Microseconds from `start` to `end`, negative when `end` is earlier.
pub fn signed_micros_between(start: Instant, end: Instant) -> i64 {
    match end.checked_duration_since(start) {
        Some(after) => micros(after),
        None => -micros_between(end, start),
    }
}

/// A duration as whole microseconds, the unit of every stored time.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970 in UTC; 0 if the clock shows an earlier time.
pub fn wall_micros() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}
