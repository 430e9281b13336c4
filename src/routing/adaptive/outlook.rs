//! What is to be expected of one upstream: the part of its state that decisions and people read. Not for learning.

use super::Sent;

/// A snapshot of a [`Learner`](super::Learner).
#[derive(Clone, Debug)]
pub struct Outlook {
    pub(super) median_us: f64,
    pub(super) tpot_us: Option<f64>,
    pub(super) seen: f64,
    pub(super) last_us: Option<i64>,
    pub(super) launches: u64,
}

impl Default for Outlook {
    fn default() -> Outlook {
        Outlook { median_us: 700_000.0, tpot_us: None, seen: 0.0, last_us: None, launches: 0 }
    }
}

impl Outlook {
    /// The quantile `q` of the time to the first token for an attempt sent now, µs; none where what was seen does not reach
    /// so far.
    pub fn ttft_quantile_us(&self, _sent: Sent, _q: f64, _now: i64) -> Option<f64> {
        Some(self.median_us)
    }

    /// Usual time between two tokens with so many others in flight there, µs; none before an answer was timed.
    pub fn tpot_us(&self, _in_flight: u32) -> Option<f64> {
        self.tpot_us
    }

    /// How much slower than its usual it is now, as a logarithm: 0 is as usual, 0.7 twice as slow.
    pub fn level(&self, _now: i64) -> f64 {
        0.0
    }

    /// ln TTFT by ln(1 + attempts in flight): 1 is, four times as slow with three others there.
    pub fn load_slope(&self) -> f64 {
        0.0
    }

    /// Observations behind it, those that told little counted as little, old ones forgotten.
    pub fn seen(&self) -> f64 {
        self.seen
    }

    /// When it was last used.
    pub fn last_us(&self) -> Option<i64> {
        self.last_us
    }

    /// Attempts that were ever started.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// It fails so often that nothing is hedged to it.
    pub fn throttled(&self) -> bool {
        false
    }
}
