//! What one upstream has shown: every attempt is told here, winner or loser. Not for deciding: that reads the [`Outlook`].

use super::{Outlook, Sent};

/// One upstream's state. `now` never goes back; one that does counts as no time passed.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    outlook: Outlook,
}

impl Learner {
    /// Knows nothing: the prior.
    pub fn new() -> Learner {
        Learner::default()
    }

    /// An attempt was started.
    pub fn launched(&mut self, now: i64) {
        self.outlook.launches += 1;
        self.outlook.last_us = Some(now);
    }

    /// An attempt's first token was there after `ttft_us`.
    pub fn first_token(&mut self, _sent: Sent, ttft_us: i64, _now: i64) {
        let ttft_us = ttft_us.max(1) as f64;
        let share = if self.outlook.seen > 0.0 { 0.1 } else { 1.0 };
        self.outlook.seen += 1.0;
        self.outlook.median_us += share * (ttft_us - self.outlook.median_us);
    }

    /// An attempt was cut, or gave up, with still no token after `waited_us`.
    pub fn censored(&mut self, _sent: Sent, waited_us: i64, _now: i64) {
        self.outlook.median_us = self.outlook.median_us.max(waited_us as f64);
    }

    /// An answer came at `tpot_us` between tokens, over `tokens`, while so many others were in flight there.
    pub fn decoded(&mut self, tpot_us: f64, _tokens: i64, _in_flight: u32, _now: i64) {
        self.outlook.tpot_us = Some(tpot_us);
    }

    /// An attempt failed by the upstream's own fault, or was answered 429; never one that we cut.
    pub fn failed(&mut self, _now: i64) {}

    /// An attempt was answered.
    pub fn answered(&mut self, _now: i64) {}

    /// What deciding needs, to be published after every change.
    pub fn outlook(&self) -> Outlook {
        self.outlook.clone()
    }
}
