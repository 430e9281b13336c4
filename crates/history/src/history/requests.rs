//! Client requests, stored so that any target can be applied later.
//!
//! Not for the targets themselves: see `goodput`.

use std::collections::HashMap;

use super::bytes::{ByteReader, ShortBytes, put};
use super::facts::AttemptFacts;
use super::goodput::SloTargets;
use super::grid;
use super::names::RaceOutcome;

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
