//! Decides whether the wall clock is reliable enough to remove old rows. A clock that has jumped far ahead makes the
//! whole history look old, and removed rows cannot be restored.

use std::time::Duration;

use photofinish_base::clock::{Instant, micros_between};

/// The wall clock is trusted once it has agreed with the monotonic clock for this long.
const STEADY_FOR: Duration = Duration::from_secs(86_400);
/// The wall clock has jumped if it gains or loses more than this against the monotonic clock between two checks;
/// microseconds. Ordinary corrections are smaller. Sleep of the machine counts as a jump, but then the history has rows
/// from the days before.
const JUMP_US: i64 = 3_600 * 1_000_000;
/// The wall clock is trusted at once if the history has rows from this many recent days. If the clock is wrong from the
/// start, the history has rows from at most one such day: today.
const DAYS: usize = 3;

/// Compares the two clocks.
#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    /// When the clocks were first compared, or first compared after a jump.
    since: Option<Instant>,
    last: Option<(i64, Instant)>,
}

impl ClockCheck {
    /// How long the wall clock (microseconds since 1970, UTC) has agreed with the monotonic one.
    pub fn steady_for(&mut self, wall_us: i64, now: Instant) -> Duration {
        if let Some((last_us, last)) = self.last.replace((wall_us, now)) {
            let apart = (wall_us - last_us).saturating_sub(micros_between(last, now));
            if apart.abs() > JUMP_US {
                self.since = None;
            }
        }
        now.saturating_duration_since(*self.since.get_or_insert(now))
    }
}

/// `days`: the number of days within the last month (by the wall clock) for which the history has rows.
pub(super) fn is_believed(steady_for: Duration, days: usize) -> bool {
    steady_for >= STEADY_FOR || days >= DAYS
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_history_of_several_days_or_a_day_of_steady_running_is_enough() {
        for (steady_for, days, expected) in [
            (Duration::ZERO, 0, false),
            (Duration::ZERO, 1, false),
            (Duration::ZERO, 2, false),
            (Duration::ZERO, 3, true),
            (DAY / 2, 1, false),
            (DAY, 0, true),
        ] {
            assert_eq!(is_believed(steady_for, days), expected, "{steady_for:?}, {days} days");
        }
    }

    #[test]
    fn a_jump_begins_the_day_anew() {
        let minute = Duration::from_secs(60);
        let days_us = |days: i64| days * 86_400 * 1_000_000;
        // How much the wall clock gains on the monotonic clock per minute, and how long it counts as steady after that
        // minute.
        for (gains_us, steady_for) in [
            (0, 2 * minute),
            (5_000_000, 2 * minute),
            (-5_000_000, 2 * minute),
            (days_us(400), Duration::ZERO),
            (-days_us(400), Duration::ZERO),
            (2 * JUMP_US, Duration::ZERO),
        ] {
            let (mut clocks, began) = (ClockCheck::default(), Instant::now());
            assert_eq!(clocks.steady_for(1_000, began), Duration::ZERO);
            assert_eq!(clocks.steady_for(1_000 + 60_000_000, began + minute), minute);
            let wall_us = 1_000 + 2 * 60_000_000 + gains_us;
            assert_eq!(clocks.steady_for(wall_us, began + 2 * minute), steady_for, "{gains_us}");
            assert_eq!(clocks.steady_for(wall_us + days_us(1), began + 2 * minute + DAY), steady_for + DAY);
        }
    }
}
