//! Attempts, gathered by upstream and turned into figures. No output, no database.

use std::collections::BTreeMap;

use crate::history::AttemptOutcome;
use crate::history::survival::{Estimate, Observation, Survival, quantile};
use crate::store::AttemptSample;

/// What one upstream did.
#[derive(Debug)]
pub(super) struct Figures {
    pub upstream: String,
    pub attempts: usize,
    pub wins: usize,
    /// Failed, failed midway, timed out or refused.
    pub failures: usize,
    pub empty: usize,
    /// No first token was seen, and the attempt had not failed by then.
    pub censored: usize,
    /// p and its estimate; none where there is no observation.
    pub ttft: [(f64, Option<Estimate>); 3],
    /// First tokens that were seen.
    pub ttft_samples: usize,
    /// p and tokens per second.
    pub tok_s: [(f64, Option<f64>); 2],
    pub tpot_p95_ms: Option<f64>,
    pub tok_s_samples: usize,
}

/// By upstream.
#[derive(Default)]
pub(super) struct Tallies(BTreeMap<String, Tally>);

#[derive(Default)]
struct Tally {
    attempts: usize,
    wins: usize,
    failures: usize,
    empty: usize,
    ttft: Vec<Observation>,
    tok_s: Vec<f64>,
    tpot_ms: Vec<f64>,
}

impl Tallies {
    pub(super) fn add(&mut self, sample: &AttemptSample) {
        let is = |outcomes: &[AttemptOutcome]| outcomes.iter().any(|outcome| outcome.as_str() == sample.outcome);
        // Most samples find their upstream: only the first allocates its name.
        if !self.0.contains_key(&sample.upstream) {
            self.0.insert(sample.upstream.clone(), Tally::default());
        }
        let Some(tally) = self.0.get_mut(&sample.upstream) else { return };
        tally.attempts += 1;
        tally.wins += usize::from(is(&[AttemptOutcome::Won]));
        tally.failures += usize::from(is(&[
            AttemptOutcome::Failed,
            AttemptOutcome::FailedMid,
            AttemptOutcome::Timeout,
            AttemptOutcome::Refused,
        ]));
        tally.empty += usize::from(is(&[AttemptOutcome::Empty]));
        if let (Some(ms), Some(event)) = (sample.ttft_obs_ms, sample.ttft_event) {
            tally.ttft.push(Observation { time_us: (ms * 1e3).round() as i64, event: event == 1 });
        }
        tally.tok_s.extend(sample.tok_s);
        tally.tpot_ms.extend(sample.tpot_ms);
    }

    /// Attempts that generated something, but whose tok/s is not known.
    pub(super) fn without_speed(&self) -> usize {
        let of_one = |tally: &Tally| tally.ttft.iter().filter(|observation| observation.event).count();
        self.0.values().map(|tally| of_one(tally).saturating_sub(tally.tok_s.len())).sum()
    }

    /// In the order of the upstreams' names.
    pub(super) fn figures(self) -> Vec<Figures> {
        self.0.into_iter().map(|(upstream, tally)| tally.figures(upstream)).collect()
    }
}

impl Tally {
    fn figures(mut self, upstream: String) -> Figures {
        let ttft = Survival::new(self.ttft);
        Figures {
            upstream,
            attempts: self.attempts,
            wins: self.wins,
            failures: self.failures,
            empty: self.empty,
            censored: ttft.n - ttft.events,
            ttft: [0.50, 0.95, 0.99].map(|p| (p, ttft.quantile(p))),
            ttft_samples: ttft.events,
            tok_s: [0.50, 0.05].map(|p| (p, quantile(&mut self.tok_s, p))),
            tpot_p95_ms: quantile(&mut self.tpot_ms, 0.95),
            tok_s_samples: self.tok_s.len(),
        }
    }
}
