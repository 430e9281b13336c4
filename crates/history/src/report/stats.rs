//! The two questions of `stats`, figures of groups or a comparison, and the figures.
//!
//! Not for gathering (`groups`) or for printing (`cli::stats`).

use clap::Args;

use super::dimension::Dimension;
use super::figures::GroupFigures;
use super::groups::{GroupRules, Groups};
use super::question::{RaceWindow, TimePoint, choice, slo};
use super::spent::{self, CancelledCosts};
use crate::store::{AttemptFilter, Coverage, ReadError, Selection, SourceFilter, StoreReader};
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::goodput::{self, SloTargets};

/// The attempts and the groups.
#[derive(Args, Clone, Debug)]
pub struct StatsQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// One group for each of these, or, with commas between, for each combination.
    #[arg(long, value_name = "DIMENSION", value_parser = choice::<Dimension>(), value_delimiter = ',', default_value = "upstream")]
    pub by: Vec<Dimension>,
    /// The targets of goodput: the client's time to first token, the time per output token, or both.
    #[arg(long, value_name = "TARGETS", value_parser = slo, default_value = "ttft=1s,tpot=50ms")]
    pub slo: SloTargets,
    /// Read rows instead of roll-ups, for at most 30 s, as far back as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

/// The answer.
#[derive(Debug)]
pub struct Stats {
    pub filter: AttemptFilter,
    /// In the order of their keys.
    pub groups: Vec<GroupFigures>,
    /// Attempts read, in all groups.
    pub attempts: u64,
    /// The window that rates are divided by; microseconds since 1970, UTC.
    pub span_us: (i64, i64),
    /// Requests without an attempt.
    pub without_attempts: u64,
    /// Attempts of running races, which are left out.
    pub running: u64,
    /// Attempts that generated something, but whose tok/s is not known.
    pub without_speed: u64,
    /// Requests in time, but of unknown pace.
    pub without_verdict: f64,
    pub coverage: Coverage,
    /// Set if the window was moved to whole hours, because rows at one of its ends are gone: see
    /// [`crate::store::Coverage`].
    pub whole_hours: Option<(i64, i64)>,
    pub cancelled: CancelledCosts,
}

impl Stats {
    /// The costs of all groups, and what racing cost of them.
    pub fn cost(&self) -> [CostSum; 2] {
        let mut sums = [CostSum::default(); 2];
        for figures in &self.groups {
            sums[0].merge(&figures.cost);
            sums[1].merge(&figures.extra_cost);
        }
        sums
    }
}

impl StatsQuestion {
    /// Of each upstream, for clients, since then.
    pub fn by_upstream(since: TimePoint) -> StatsQuestion {
        let source = SourceFilter::Client;
        StatsQuestion {
            window: RaceWindow {
                since: Some(since),
                until: None,
                model: None,
                provider: None,
                user: None,
                team: None,
                source,
            },
            by: vec![Dimension::Upstream],
            slo: SloTargets { ttft_us: None, tpot_ms: None },
            exact: false,
        }
    }

    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        let again = |(at, dimension): &(usize, &Dimension)| self.by[..*at].contains(dimension);
        let twice = || self.by.iter().enumerate().find(again);
        let twice = || Some(format!("--by has {} twice; name each dimension once", twice()?.1.as_str()));
        self.window.problem(now_us).or_else(twice)
    }
}

/// Reads the answer.
///
/// # Errors
/// For an operator.
pub fn ask(reader: &StoreReader, question: &StatsQuestion, now_us: i64) -> Result<Stats, ReadError> {
    let filter = question.window.filter(now_us);
    let rules = GroupRules::new(&question.by, filter.provider.is_some(), now_us);
    let selection = Selection {
        filter: filter.clone(),
        now_us,
        classes: rules.needs_classes(),
        hourly: rules.needs_hours(),
        exact: question.exact,
    };
    let (mut groups, coverage) = spent::gather(reader, &selection, || Groups::new(&rules))?;
    let cancelled = std::mem::take(&mut groups.cancelled);
    let span_us = coverage.window(&filter, groups.oldest, now_us);
    let span = goodput::HoursWindow::new(span_us.0, span_us.1);
    let (attempts, without_attempts, running) = (groups.attempts(), groups.without_attempts, groups.running);
    let figures = groups.figures(&question.slo, &span);
    let without_speed = figures.iter().map(|figures| figures.without_speed).sum();
    let without_verdict = figures.iter().map(|figures| figures.without_verdict).sum();
    Ok(Stats {
        attempts,
        span_us,
        without_attempts: if filter.provider.is_some() { 0 } else { without_attempts },
        running,
        without_speed,
        without_verdict,
        coverage,
        whole_hours: coverage.whole_hours.map(|_| span_us),
        groups: figures,
        filter,
        cancelled,
    })
}

/// Figures of groups, or a comparison.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct ReportQuestion {
    #[command(flatten)]
    pub figures: StatsQuestion,
    /// Print instead how long each upstream alone would have taken for the requests that its model got, and what racing gained.
    #[arg(long, conflicts_with_all = ["by", "slo", "exact"])]
    pub compare: bool,
}

impl ReportQuestion {
    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        self.figures.problem(now_us)
    }
}
