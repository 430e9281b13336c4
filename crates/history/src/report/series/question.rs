//! The questions that series answer: which figure, of what, over which steps.

use std::time::Duration;

use clap::Args;

use crate::history::goodput::SloTargets;
use crate::report::question::{RaceWindow, positive_duration, slo, time};
use crate::store::AttemptFilter;
use photofinish_base::clock::{DAY_US, SECOND_US, micros};
use photofinish_config::config::units::format_duration;

/// Most steps of one answer.
pub const STEPS_MAX: i64 = 2_000;
/// The figure of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token of an attempt, estimated with those that were cut off before theirs.
    Ttft,
    /// Time to first token that streaming clients saw.
    ClientTtft,
    /// Tokens per second after the first; a quantile of 0.05 is the slow end.
    TokS,
    /// Requests per second that met the targets.
    Goodput,
    /// Share of attempts that failed.
    Failures,
    /// US dollars.
    Cost,
}

/// What has a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SeriesDimension {
    /// Each upstream, over time.
    Upstream,
    /// Each model that apps asked for, over time.
    Model,
    /// Each caller, over time.
    User,
    /// Each upstream, over the attempts running there instead of over time.
    Concurrency,
}

/// The figure, the attempts and the steps.
#[derive(Args, Clone, Debug)]
pub struct SeriesQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// The figure.
    #[arg(long, value_enum, default_value = "ttft")]
    pub metric: Metric,
    /// Of ttft, client_ttft and tok_s: which quantile, such as 0.95 or p95; the median by default.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub quantile: Option<f64>,
    /// The length of a step: whole hours, or what an hour is divided into evenly; by default such that there are about 48
    /// to 120.
    #[arg(long, value_name = "DURATION", value_parser = step, allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// A series for each of these.
    #[arg(long, value_name = "DIMENSION", value_enum, default_value = "upstream")]
    pub by: SeriesDimension,
    /// Of goodput: what a request must keep, the client's time to first token, the time per output token, or both;
    /// ttft=1s,tpot=50ms by default.
    #[arg(long, value_name = "TARGETS", value_parser = slo)]
    pub slo: Option<SloTargets>,
    /// Read rows and no histograms, for at most 30 s, as far as rows are kept.
    #[arg(long)]
    pub exact: bool,
}

/// For goodput.
const SLO_BY_DEFAULT: SloTargets = SloTargets { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) };

/// Default steps in seconds. Each divides an hour, or is whole hours.
const ROUND_S: [i64; 20] = [
    10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800,
    1_209_600, 2_419_200,
];
/// Most steps by default.
pub(super) const CHOSEN_STEPS: i64 = 120;

impl Metric {
    /// On the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::ClientTtft => "client_ttft",
            Metric::TokS => "tok_s",
            Metric::Goodput => "goodput",
            Metric::Failures => "failures",
            Metric::Cost => "cost",
        }
    }

    /// Whether a quantile can be asked for.
    pub fn has_quantile(self) -> bool {
        matches!(self, Metric::Ttft | Metric::ClientTtft | Metric::TokS)
    }
}

impl SeriesQuestion {
    /// The share that the value does not exceed, 0 to 1; none for a metric without quantiles.
    pub fn quantile(&self) -> Option<f64> {
        self.metric.has_quantile().then_some(self.quantile.unwrap_or(0.5))
    }

    /// The targets of goodput.
    pub fn slo(&self) -> SloTargets {
        self.slo.unwrap_or(SLO_BY_DEFAULT)
    }

    /// An error in the combination of valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        if let Some(problem) = self.window.problem(now_us) {
            return Some(problem);
        }
        if self.quantile.is_some() && !self.metric.has_quantile() {
            let metric = self.metric.name();
            return Some(format!("--quantile does not go with {metric}; it goes with ttft, client_ttft and tok_s"));
        }
        if self.slo.is_some() && self.metric != Metric::Goodput {
            return Some(format!("--slo does not go with {}; it goes with goodput", self.metric.name()));
        }
        let every = self.every?;
        if self.by == SeriesDimension::Concurrency {
            return Some(
                "--every and --by concurrency exclude each other: that is a curve over load, not over time".into(),
            );
        }
        let filter = self.window.filter(now_us);
        let (from_us, until_us) = (filter.since?, end(&filter, now_us));
        if micros(every) > until_us - from_us {
            let (from, until) = (time(from_us), time(until_us));
            let every = format_duration(every);
            return Some(format!("--every {every} is longer than the whole window, from {from} to {until}"));
        }
        too_many_steps(micros(every), from_us, until_us)
    }
}

pub(super) fn end(filter: &AttemptFilter, now_us: i64) -> i64 {
    filter.until.unwrap_or(now_us).min(now_us)
}

/// The shortest round step that does not make too many.
pub(super) fn chosen_step(span_us: i64) -> i64 {
    let rounds = ROUND_S.into_iter().map(|seconds| seconds * SECOND_US);
    let mut found = rounds.filter(|step_us| span_us / step_us <= CHOSEN_STEPS);
    found.next().unwrap_or_else(|| (span_us / CHOSEN_STEPS / DAY_US + 1) * DAY_US)
}

pub(super) fn too_many_steps(every_us: i64, from_us: i64, until_us: i64) -> Option<String> {
    let steps = (until_us - 1).div_euclid(every_us) - from_us.div_euclid(every_us) + 1;
    (steps > STEPS_MAX).then(|| {
        let name = |us: i64| format_duration(Duration::from_micros(us.unsigned_abs()));
        format!(
            "--every {} makes {steps} steps from {} to {}, and there may be {STEPS_MAX} at most; ask for a shorter window, or \
             for longer steps, such as {}",
            name(every_us),
            time(from_us),
            time(until_us),
            name(chosen_step(until_us - from_us))
        )
    })
}

/// For clap: more than 0 and less than 1.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_prefix('p') {
        Some(percent) => percent.parse::<f64>().map(|percent| (percent * 1e10).round() / 1e12),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "expected a share between 0 and 1, such as 0.5 or 0.95, or the same as p50 or p95".to_owned())
}

/// For clap: steps that divide an hour, or whole hours.
fn step(text: &str) -> Result<Duration, String> {
    let duration = positive_duration(text)?;
    let seconds = duration.as_secs();
    if seconds > 0 && duration.subsec_nanos() == 0 && (3_600 % seconds == 0 || seconds % 3_600 == 0) {
        return Ok(duration);
    }
    Err("expected whole hours, or seconds or minutes that an hour is divided into evenly, such as 10s, 1m, 15m, 1h, 6h, 1d or 7d"
        .to_owned())
}
