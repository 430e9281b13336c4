//! Whether old rows may be removed by what the wall clock says now. A clock that has jumped far ahead makes the whole history
//! look old, and what is removed is gone.

use std::time::Duration;

use crate::clock::{Instant, micros_between};

/// The wall clock is believed once it has run beside the monotonic one for so long.
const STEADY_FOR: Duration = Duration::from_secs(86_400);
/// Two looks at which the clocks differ by more, in microseconds, have a jump between them. Setting a clock right differs by
/// less; a machine that slept differs by more, but its history has rows of the days before.
const JUMP_US: i64 = 3_600 * 1_000_000;
/// Or at once where the history has rows of so many days lately. A wrong clock at a start has one at most: today.
const DAYS: usize = 3;

/// Looks at both clocks.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// Of the first look, or of the first one after a jump.
    since: Option<Instant>,
    last: Option<(i64, Instant)>,
}

impl Clocks {
    /// How long the wall clock (microseconds since 1970, UTC) has gone as the monotonic one does.
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

/// `days`: of how many days within the last month, by the wall clock, the history has rows.
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
        // What the wall clock gains on the monotonic one in a minute; for how long it is steady after it.
        for (gains_us, steady_for) in [
            (0, 2 * minute),
            (5_000_000, 2 * minute),
            (-5_000_000, 2 * minute),
            (days_us(400), Duration::ZERO),
            (-days_us(400), Duration::ZERO),
            (2 * JUMP_US, Duration::ZERO),
        ] {
            let (mut clocks, began) = (Clocks::default(), Instant::now());
            assert_eq!(clocks.steady_for(1_000, began), Duration::ZERO);
            assert_eq!(clocks.steady_for(1_000 + 60_000_000, began + minute), minute);
            let wall_us = 1_000 + 2 * 60_000_000 + gains_us;
            assert_eq!(clocks.steady_for(wall_us, began + 2 * minute), steady_for, "{gains_us}");
            assert_eq!(clocks.steady_for(wall_us + days_us(1), began + 2 * minute + DAY), steady_for + DAY);
        }
    }
}
