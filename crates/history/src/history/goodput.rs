//! Goodput: the targets of client requests, and the time that a rate is divided by.
//!
//! Pure. Not for judging requests: that is `requests`.

use photofinish_base::clock::{DAY_US, HOUR_US, SECOND_US};

/// The targets of a request. None: no target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SloTargets {
    /// Longest client TTFT; microseconds.
    pub ttft_us: Option<i64>,
    /// Longest time per output token after the first; milliseconds.
    pub tpot_ms: Option<f64>,
}

/// Hour of the day, 0 to 23, UTC.
pub fn hour(at_us: i64) -> i64 {
    at_us.rem_euclid(DAY_US) / HOUR_US
}

/// Weekday, 0 for Monday to 6 for Sunday, UTC.
pub fn weekday(at_us: i64) -> i64 {
    // 1970 began on a Thursday.
    (at_us.div_euclid(DAY_US) + 3).rem_euclid(7)
}

/// A stretch of time by hour of the week: the rate of "Mondays at 9" is divided by the Mondays at 9 within it.
#[derive(Clone, Debug)]
pub struct HoursWindow {
    /// Microseconds, by weekday and hour.
    hours: [[i64; 24]; 7],
}

impl HoursWindow {
    /// Microseconds since 1970. Empty if the end is before the start.
    pub fn new(from_us: i64, until_us: i64) -> HoursWindow {
        const WEEK_US: i64 = 7 * DAY_US;
        let length = until_us.saturating_sub(from_us).max(0);
        let mut hours = [[length / WEEK_US * HOUR_US; 24]; 7];
        let mut at = until_us.saturating_sub(length % WEEK_US);
        while at < until_us {
            let next = (at.div_euclid(HOUR_US) + 1).saturating_mul(HOUR_US).min(until_us);
            if let Some(sum) = hours.get_mut(weekday(at) as usize).and_then(|day| day.get_mut(hour(at) as usize)) {
                *sum += next - at;
            }
            at = next;
        }
        HoursWindow { hours }
    }

    /// Its seconds in that hour and on that weekday. None: any hour or weekday.
    pub fn seconds(&self, hour: Option<i64>, weekday: Option<i64>) -> f64 {
        let wanted = |wanted: Option<i64>, at: usize| wanted.is_none_or(|wanted| wanted == at as i64);
        let days = self.hours.iter().enumerate().filter(|(day, _)| wanted(weekday, *day));
        let hours = days.flat_map(|(_, day)| day.iter().enumerate());
        let sum: i64 = hours.filter(|(at, _)| wanted(hour, *at)).map(|(_, us)| us).sum();
        sum as f64 / SECOND_US as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_weekdays_are_utc() {
        let friday = crate::history::sample::STARTED_AT; // 2026-01-02T03:04:05Z
        assert_eq!((hour(friday), weekday(friday)), (3, 4));
        assert_eq!((hour(0), weekday(0), weekday(-1)), (0, 3, 2));
    }

    #[test]
    fn a_window_knows_how_long_each_hour_was_in_it() {
        // Thursday 00:30 to Friday 01:15, and two weeks more.
        let window = HoursWindow::new(HOUR_US / 2, DAY_US + HOUR_US * 5 / 4 + 14 * DAY_US);
        assert_eq!(window.seconds(None, None), 15.0 * 86_400.0 + 2_700.0);
        assert_eq!(window.seconds(Some(0), Some(3)), 2.0 * 3_600.0 + 1_800.0);
        assert_eq!(window.seconds(Some(1), Some(4)), 2.0 * 3_600.0 + 900.0);
        assert_eq!(window.seconds(Some(5), None), 15.0 * 3_600.0);
        assert_eq!(HoursWindow::new(5, 4).seconds(None, None), 0.0);
    }
}
