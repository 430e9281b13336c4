//! The two questions of `stats`: figures, or regressions. Not for answering them.

use clap::Args;

use super::{regressions, stats};

/// Figures of groups, or regressions.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct ReportQuestion {
    #[command(flatten)]
    pub figures: stats::StatsQuestion,
    /// Print instead what is worse since --since (default 1h, at most 24h) than in the same hours of the 7 days before.
    #[arg(long, conflicts_with_all = ["by", "slo", "min_samples", "half_life", "strata", "exact"])]
    pub regressions: bool,
}

impl ReportQuestion {
    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        match self.of_regressions() {
            Some(question) => question.problem(now_us),
            None => self.figures.problem(now_us),
        }
    }

    /// None if the question is for figures.
    pub fn of_regressions(&self) -> Option<regressions::RegressionsQuestion> {
        let window = || self.figures.window.clone();
        self.regressions.then(|| regressions::RegressionsQuestion { window: window() })
    }
}
