//! Attempts by the reason they were started for: how many, how many won, and how many the budget refused; and upstreams that
//! races could not start, by reason.
//!
//! Not for the cost of extra attempts: see `report`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::text::MetricsText;
use crate::history::{AttemptOutcome, AttemptRecord, LeftOutReason, RaceRecord, StartReason, left_out};
use crate::reason::DecisionReason;

/// Each array is in the order of [`StartReason::ALL`].
#[derive(Debug, Default)]
pub(super) struct Starts {
    started: [AtomicU64; StartReason::ALL.len()],
    won: [AtomicU64; StartReason::ALL.len()],
    /// Races with a worthwhile hedge that the budget did not allow.
    refused_hedges: AtomicU64,
    /// In the order of [`LeftOutReason::ALL`].
    left_out: [AtomicU64; LeftOutReason::ALL.len()],
}

impl Starts {
    pub fn race(&self, race: &RaceRecord) {
        let codes = race.why.as_deref().unwrap_or_default();
        if codes.split(' ').any(|code| code == DecisionReason::Budget.as_str()) {
            self.refused_hedges.fetch_add(1, Relaxed);
        }
        for reason in race.left_out.iter().flat_map(|text| left_out::reasons(text)) {
            self.left_out[reason as usize].fetch_add(1, Relaxed);
        }
    }

    pub fn attempt(&self, attempt: &AttemptRecord) {
        let reason = attempt.start_reason as usize;
        self.started[reason].fetch_add(1, Relaxed);
        if attempt.outcome == AttemptOutcome::Won {
            self.won[reason].fetch_add(1, Relaxed);
        }
    }

    pub fn render(&self, text: &mut MetricsText) {
        text.family("starts_total", "counter", "Attempts that ended, by the reason they were started for.");
        render_counts(&self.started, text);
        text.family("starts_won_total", "counter", "Attempts that won, by the reason they were started for.");
        render_counts(&self.won, text);
        let help = "Races with a hedge that would have paid but that the budget did not allow; one for each race.";
        text.family("starts_refused_total", "counter", help);
        text.sample(&[("reason", StartReason::Hedge.as_str())], self.refused_hedges.load(Relaxed));
        let help = "Upstreams with a key that a race could not start, by reason; one for each race and upstream.";
        text.family("left_out_total", "counter", help);
        for (reason, count) in LeftOutReason::ALL.iter().zip(&self.left_out) {
            text.sample(&[("reason", reason.as_str())], count.load(Relaxed));
        }
    }
}

fn render_counts(counts: &[AtomicU64], text: &mut MetricsText) {
    for (reason, count) in StartReason::ALL.iter().zip(counts) {
        text.sample(&[("reason", reason.as_str())], count.load(Relaxed));
    }
}
