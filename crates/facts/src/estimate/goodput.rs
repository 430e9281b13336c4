//! Goodput: the targets of client requests, the requests stored so that any target can be applied later, and the time that a
//! rate is divided by.
//!
//! Pure.

use std::collections::HashMap;

use super::facts::AttemptFacts;
use super::grid::{self, ByteReader, ShortBytes, put};
use crate::record::names::RaceOutcome;
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

/// Four fine buckets form one bucket here, so targets are exact to 9 %. Within a bucket, requests are assumed to be
/// evenly spread.
const COARSER: u32 = 2;
/// Stored instead of a bucket: the time per token is unknown.
const UNKNOWN: u16 = 0;
/// Stored instead of a bucket: there was no time between tokens.
const AT_ONCE: u16 = 1;
/// The first real bucket.
const FIRST: u16 = 2;

/// Speed after the first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestSpeed {
    /// Microseconds per token.
    Tpot(f64),
    /// The answer was one token, or came in one event.
    AtOnce,
    Unknown,
}

/// Requests that a group answered, and requests that the group tried and no upstream answered.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Requests answered well: client TTFT in microseconds, and speed.
    exact: Vec<(i64, RequestSpeed)>,
    /// Requests answered well, by bucket.
    grid: HashMap<(u16, u16), u64>,
    /// Requests answered, but not to a good end.
    missed: u64,
    /// Unanswered requests, each counted once.
    unserved: u64,
    /// The last race counted in `unserved`, so that several attempts count once.
    last_unserved: Option<u64>,
}

/// How many requests met the targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestOutcomes {
    /// Not a whole number if a target lies within a bucket.
    pub met: f64,
    pub missed: f64,
    /// In time and finished, but of unknown speed: neither met nor missed.
    pub unknown: f64,
}

impl Requests {
    /// A request counts for the attempt that served it. An unserved request counts once for each group that tried, at
    /// its first try with each upstream.
    pub fn add(&mut self, facts: &AttemptFacts<'_>, coarse: bool) {
        let Some(request) = &facts.request else { return };
        if request.served == Some(false) || request.outcome == RaceOutcome::ClientGone {
            return;
        }
        if request.served.is_none() {
            self.unserved += u64::from(!facts.again && self.last_unserved != Some(facts.race));
            self.last_unserved = Some(facts.race);
            return;
        }
        let Some(client_ttft_us) = request.client_ttft_us.filter(|_| request.outcome == RaceOutcome::Ok) else {
            self.missed += 1;
            return;
        };
        let pace = match facts.tpot_us {
            Some(tpot_us) => RequestSpeed::Tpot(tpot_us),
            None if facts.at_once => RequestSpeed::AtOnce,
            None => RequestSpeed::Unknown,
        };
        if coarse {
            *self.grid.entry((coarser(client_ttft_us), pace.code())).or_default() += 1;
        } else {
            self.exact.push((client_ttft_us, pace));
        }
    }

    /// Counts an unserved request again for the next attempt, if it is the first at its upstream.
    pub fn count_by_upstream(&mut self) {
        self.last_unserved = None;
    }

    /// Counts an unserved request without an attempt.
    pub fn add_unserved(&mut self) {
        self.unserved += 1;
    }

    pub fn merge(&mut self, other: Requests) {
        self.exact.extend(other.exact);
        other.grid.into_iter().for_each(|(key, count)| *self.grid.entry(key).or_default() += count);
        self.missed += other.missed;
        self.unserved += other.unserved;
    }

    /// All requests, whatever the targets.
    pub fn total(&self) -> u64 {
        self.exact.len() as u64 + self.grid.values().sum::<u64>() + self.missed + self.unserved
    }

    pub fn judged(&self, slo: &SloTargets) -> RequestOutcomes {
        let mut judged = RequestOutcomes { missed: (self.missed + self.unserved) as f64, ..RequestOutcomes::default() };
        for (client_ttft_us, pace) in &self.exact {
            let in_time = slo.ttft_us.is_none_or(|limit| *client_ttft_us <= limit);
            let kept = match (slo.tpot_ms, pace) {
                (None, _) | (Some(_), RequestSpeed::AtOnce) => Some(true),
                (Some(limit), RequestSpeed::Tpot(us)) => Some(us / 1e3 <= limit),
                (Some(_), RequestSpeed::Unknown) => None,
            };
            judged.count(1.0, f64::from(u8::from(in_time)), kept.map(|kept| f64::from(u8::from(kept))));
        }
        for ((ttft, pace), count) in &self.grid {
            let in_time = slo.ttft_us.map_or(1.0, |limit| share_below(*ttft, limit));
            let kept = match (slo.tpot_ms, *pace) {
                (None, _) | (Some(_), AT_ONCE) => Some(1.0),
                (Some(_), UNKNOWN) => None,
                (Some(limit), pace) => Some(share_below(pace - FIRST, (limit * 1e6) as i64)),
            };
            judged.count(*count as f64, in_time, kept);
        }
        judged
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.missed);
        put(bytes, self.unserved);
        put(bytes, self.grid.len() as u64);
        let mut sorted: Vec<_> = self.grid.iter().collect();
        sorted.sort_unstable();
        for ((ttft, pace), count) in sorted {
            [u64::from(*ttft), u64::from(*pace), *count].into_iter().for_each(|number| put(bytes, number));
        }
    }

    /// `unserved`: include unanswered requests.
    pub(super) fn absorb(&mut self, bytes: &mut ByteReader<'_>, unserved: bool) -> Result<(), ShortBytes> {
        self.missed += bytes.take()?;
        let unanswered = bytes.take()?;
        self.unserved += if unserved { unanswered } else { 0 };
        for _ in 0..bytes.take()? {
            let place = |number: u64| u16::try_from(number).map_err(|_| ShortBytes);
            let key = (place(bytes.take()?)?, place(bytes.take()?)?);
            *self.grid.entry(key).or_default() += bytes.take()?;
        }
        Ok(())
    }
}

impl RequestOutcomes {
    /// `kept`: the share that met the target per token. None: the speed is unknown.
    fn count(&mut self, requests: f64, in_time: f64, kept: Option<f64>) {
        let met = requests * in_time * kept.unwrap_or(0.0);
        self.met += met;
        self.unknown += if kept.is_none() { requests * in_time } else { 0.0 };
        self.missed += if kept.is_none() { requests * (1.0 - in_time) } else { requests - met };
    }
}

impl RequestSpeed {
    fn code(self) -> u16 {
        match self {
            RequestSpeed::Unknown => UNKNOWN,
            RequestSpeed::AtOnce => AT_ONCE,
            RequestSpeed::Tpot(us) => FIRST + coarser((us * 1e3) as i64),
        }
    }
}

fn coarser(value: i64) -> u16 {
    (grid::bucket(value) >> COARSER) as u16
}

/// The share of a coarse bucket that is within the limit.
fn share_below(place: u16, limit: i64) -> f64 {
    let first = usize::from(place) << COARSER;
    let (lower, upper) = (grid::lower(first), grid::lower(first + (1 << COARSER)));
    ((limit + 1 - lower) as f64 / (upper - lower) as f64).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_weekdays_are_utc() {
        let friday = crate::record::sample::STARTED_AT; // 2026-01-02T03:04:05Z
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
