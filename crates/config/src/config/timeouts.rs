//! `timeouts`: of a race, and what an upstream sets of its own.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::keys::keys;
use super::kinds::TimeSpan;
use super::units::DURATION_MAX;

/// Not zero: such a timeout would expire at once.
pub(super) const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=DURATION_MAX;

keys! {
    /// `timeouts = { … }`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts {
        /// Name look-up, TCP and TLS together.
        connect: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(3);
        /// From dispatch to the first token; comments and headers do not stop it.
        first_token: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(30);
        /// Without a byte, after the first token. Unless set 5 minutes, 10 for the last attempt alive, and 30 seconds where
        /// another upstream continues the answer (`rescue`).
        idle: Option<Duration> = TimeSpan(TIMEOUTS);
        /// From the request to the client's first token; for a client that does not stream, to the whole answer.
        total: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(600);
        /// From the request to the end of a streamed answer. The default is longer than any honest answer takes.
        stream_total: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(86_400);
    }
}

keys! {
    /// `timeouts = { … }` of one upstream: overrides of the race's timeouts. The totals cannot be overridden.
    #[derive(Clone, Copy)]
    pub(super) struct UpstreamTimeouts {
        /// Name look-up, TCP and TLS together.
        connect: Option<Duration> = TimeSpan(TIMEOUTS);
        /// From dispatch to the first token; comments and headers do not stop it.
        first_token: Option<Duration> = TimeSpan(TIMEOUTS);
        /// Without a byte, after the first token.
        idle: Option<Duration> = TimeSpan(TIMEOUTS);
    }
}

impl Timeouts {
    /// The same, for a request that ends within this time.
    pub fn within(self, limit: Duration) -> Timeouts {
        Timeouts { total: self.total.min(limit), stream_total: self.stream_total.min(limit), ..self }
    }

    /// How long its answer may be silent, if a silent one `is_rescued`, or else if `others` may replace it. Servers that hold a
    /// whole call back are silent for minutes, and so are models between thinking and answer.
    pub fn silence(self, is_rescued: bool, others: bool) -> Duration {
        const RESCUED_FOR: Duration = Duration::from_secs(30);
        const REPLACED_FOR: Duration = Duration::from_secs(300);
        const ALONE_FOR: Duration = Duration::from_secs(600);
        self.idle.unwrap_or(match (is_rescued, others) {
            (true, _) => RESCUED_FOR,
            (false, true) => REPLACED_FOR,
            (false, false) => ALONE_FOR,
        })
    }

    /// An upstream's, in a race with these. A `whole` answer ends with its race, at `total`, and not sooner.
    pub fn in_race(self, race: Timeouts, whole: bool) -> Timeouts {
        let stream_total = if whole { 2 * race.total } else { race.stream_total };
        Timeouts { stream_total, ..self }
    }
}

impl UpstreamTimeouts {
    pub(super) fn over(self, race: Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(race.connect),
            first_token: self.first_token.unwrap_or(race.first_token),
            idle: self.idle.or(race.idle),
            total: race.total,
            stream_total: race.stream_total,
        }
    }
}
