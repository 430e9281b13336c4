//! The figures of one upstream at one workload.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::{HOUR_US, SECOND_US};
use crate::history::AttemptOutcome;
use crate::history::cost::CostSum;
use crate::history::facts::MeasuredAttempt;
use crate::history::interval::quantile_ranks;
use crate::report::question::time;
use crate::store::ProbeRow;

/// An answer below this share of the length that was asked for is short.
const SHORT: f64 = 0.8;

/// One upstream, asked one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbedUpstream {
    pub model: String,
    pub workload: String,
    pub upstream: String,
    /// Probes that were answered to their end.
    pub answered: usize,
    pub failed: usize,
    /// By kind.
    pub failures: BTreeMap<String, usize>,
    /// Answered with less than 80 % of the tokens that were asked for.
    pub short: usize,
    /// What its probes cost: no less than this, and no more; null where nothing bounds it.
    pub cost_usd_min: Option<f64>,
    pub cost_usd_max: Option<f64>,
    pub ttft_ms: ProbedFigure,
    pub tok_s: ProbedFigure,
    /// From dispatch to the last token.
    pub end_to_end_ms: ProbedFigure,
}

/// One figure. A quantile is the smallest value that at least its share of the values does not exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbedFigure {
    pub samples: usize,
    pub p5: Option<f64>,
    pub p25: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p95: Option<f64>,
    /// The 95 % interval of the median; null below 6 samples.
    pub p50_low: Option<f64>,
    pub p50_high: Option<f64>,
    /// The 95 % interval of p95; null below 72 samples.
    pub p95_low: Option<f64>,
    pub p95_high: Option<f64>,
    pub steps: Vec<StepMedian>,
    /// By hour of the day, UTC, from windows of 14 days on.
    pub by_hour: Vec<HourMedian>,
}

/// The median of an hour, or in windows above four days of a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepMedian {
    pub start: String,
    #[serde(skip)]
    pub start_us: i64,
    pub p50: f64,
    pub samples: usize,
}

/// The median of one hour of the day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HourMedian {
    pub hour: i64,
    pub p50: f64,
    pub samples: usize,
}

/// What was seen of one upstream at one workload.
#[derive(Default)]
pub(super) struct ProbeSamples {
    answered: usize,
    failed: usize,
    failures: BTreeMap<String, usize>,
    short: usize,
    cost: CostSum,
    /// Start of the race, microseconds since 1970, and the value.
    ttft_ms: Vec<(i64, f64)>,
    tok_s: Vec<(i64, f64)>,
    end_to_end_ms: Vec<(i64, f64)>,
}

impl ProbeSamples {
    pub fn add(&mut self, probe: &ProbeRow, attempt: &MeasuredAttempt) {
        self.cost.add(&attempt.cost);
        match attempt.row.outcome {
            AttemptOutcome::Won => self.answered += 1,
            // It says nothing about the upstream.
            AttemptOutcome::ClientGone | AttemptOutcome::Shutdown | AttemptOutcome::Shed | AttemptOutcome::Lost => {
                return;
            }
            other => {
                self.failed += 1;
                let kind = attempt.row.failure.map_or(other.as_str(), |failure| failure.as_str());
                *self.failures.entry(kind.to_owned()).or_default() += 1;
                return;
            }
        }
        let wanted = probe.max_tokens.filter(|wanted| *wanted > 0);
        if let Some((written, wanted)) = attempt.decoding.tokens_out().zip(wanted)
            && (written as f64) < SHORT * wanted as f64
        {
            self.short += 1;
        }
        let at_us = probe.started_at;
        self.ttft_ms.extend(attempt.decoding.first_token_us.map(|us| (at_us, us as f64 / 1e3)));
        self.tok_s.extend(attempt.decoding.tpot_us(probe.n_choices).map(|us| (at_us, SECOND_US as f64 / us)));
        self.end_to_end_ms.extend(attempt.decoding.last_token_us.map(|us| (at_us, us as f64 / 1e3)));
    }

    /// The bounds.
    pub fn cost(&self) -> (Option<f64>, Option<f64>) {
        (self.cost.min_usd(), self.cost.max_usd())
    }

    pub fn figures(
        self,
        (model, workload, upstream): (String, String, String),
        step_us: i64,
        by_hour: bool,
    ) -> ProbedUpstream {
        let (cost_usd_min, cost_usd_max) = self.cost();
        ProbedUpstream {
            model,
            workload,
            upstream,
            answered: self.answered,
            failed: self.failed,
            failures: self.failures,
            short: self.short,
            cost_usd_min,
            cost_usd_max,
            ttft_ms: figure(&self.ttft_ms, step_us, by_hour),
            tok_s: figure(&self.tok_s, step_us, by_hour),
            end_to_end_ms: figure(&self.end_to_end_ms, step_us, by_hour),
        }
    }
}

fn figure(values: &[(i64, f64)], step_us: i64, by_hour: bool) -> ProbedFigure {
    let sorted = sorted(values.iter().map(|(_, value)| *value));
    let (p50_low, p50_high) = interval(&sorted, 0.5).unzip();
    let (p95_low, p95_high) = interval(&sorted, 0.95).unzip();
    let steps = medians(values, |at_us| at_us.div_euclid(step_us) * step_us);
    let steps = steps.map(|(start_us, p50, samples)| StepMedian { start: time(start_us), start_us, p50, samples });
    let hours = medians(values, |at_us| at_us.div_euclid(HOUR_US).rem_euclid(24));
    let hours = hours.filter(|_| by_hour).map(|(hour, p50, samples)| HourMedian { hour, p50, samples });
    ProbedFigure {
        samples: sorted.len(),
        p5: quantile(&sorted, 0.05),
        p25: quantile(&sorted, 0.25),
        p50: quantile(&sorted, 0.5),
        p75: quantile(&sorted, 0.75),
        p95: quantile(&sorted, 0.95),
        p50_low,
        p50_high,
        p95_low,
        p95_high,
        steps: steps.collect(),
        by_hour: hours.collect(),
    }
}

/// The median and the number of values of each group, in the order of the groups.
fn medians(values: &[(i64, f64)], group: impl Fn(i64) -> i64) -> impl Iterator<Item = (i64, f64, usize)> {
    let mut groups: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    values.iter().for_each(|(at_us, value)| groups.entry(group(*at_us)).or_default().push(*value));
    groups.into_iter().filter_map(|(of, values)| {
        let sorted = sorted(values.into_iter());
        Some((of, quantile(&sorted, 0.5)?, sorted.len()))
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// By rank, as everywhere.
fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

fn interval(sorted: &[f64], p: f64) -> Option<(f64, f64)> {
    let (low, high) = quantile_ranks(sorted.len(), p)?;
    Some((*sorted.get(low - 1)?, *sorted.get(high - 1)?))
}
