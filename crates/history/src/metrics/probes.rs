//! Counts of probes. Their requests are in no other metric.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::text::MetricsText;

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    Answered,
    Failed,
    /// Nothing was sent: no money is left, the upstream cools down, or clients used it until the slot was over.
    Skipped,
}

impl ProbeOutcome {
    pub const ALL: [ProbeOutcome; 3] = [ProbeOutcome::Answered, ProbeOutcome::Failed, ProbeOutcome::Skipped];

    pub fn as_str(self) -> &'static str {
        match self {
            ProbeOutcome::Answered => "answered",
            ProbeOutcome::Failed => "failed",
            ProbeOutcome::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ProbeCounts {
    runs: [AtomicU64; ProbeOutcome::ALL.len()],
    cost_usd: Mutex<f64>,
}

impl ProbeCounts {
    pub(super) fn count(&self, outcome: ProbeOutcome, cost_usd: f64) {
        self.runs[outcome as usize].fetch_add(1, Relaxed);
        *self.cost_usd.lock().unwrap_or_else(PoisonError::into_inner) += cost_usd.max(0.0);
    }

    pub(super) fn count_skipped(&self, probes: u64) {
        self.runs[ProbeOutcome::Skipped as usize].fetch_add(probes, Relaxed);
    }

    pub(super) fn render(&self, text: &mut MetricsText) {
        text.family("probe_runs_total", "counter", "Probes that ended, by outcome; see the page on probes.");
        for (outcome, count) in ProbeOutcome::ALL.iter().zip(&self.runs) {
            text.sample(&[("outcome", outcome.as_str())], count.load(Relaxed));
        }
        let cost = *self.cost_usd.lock().unwrap_or_else(PoisonError::into_inner);
        text.single("probe_cost_usd_total", "counter", "US dollars that probes cost, at most.", cost);
    }
}
