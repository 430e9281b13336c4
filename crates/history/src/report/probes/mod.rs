//! What probes and benchmarks measured, for publishing: each upstream at the same work, and what load it took.
//!
//! Not for how it is written: see `cli::report`.

mod loads;
mod public_names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::question::{TimePoint, moment, time};
use crate::store::{ProbeRow, ReadError, StoreReader};
pub use loads::{FoundGoodput, LoadLevel, MeasuredLoad};
use photofinish_base::clock::{DAY_US, HOUR_US, SECOND_US};
use photofinish_config::{Config, PING};
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::facts::MeasuredAttempt;
use photofinish_facts::estimate::interval::{quantile, quantile_ranks};
use photofinish_facts::estimate::speed::SHORT_ANSWER;
use photofinish_facts::record::AttemptOutcome;
use photofinish_facts::record::tables::DEFINITION_VERSION;
use public_names::PublicNames;

/// The shortest window that shows the hour of the day: each hour then has several days.
const HOURS_FROM_US: i64 = 14 * DAY_US;
/// Up to this window each probe is a point; in a longer one each day is.
const SINGLE_UP_TO_US: i64 = 4 * DAY_US;

/// Which probes.
#[derive(Args, Clone, Debug)]
pub struct ProbesQuestion {
    /// Only probes and runs begun since: an age (72h), a day (2026-01-31) or a time (2026-01-31T09:00:00Z), UTC.
    #[arg(long, value_name = "TIME", default_value = "72h", value_parser = moment, allow_hyphen_values = true)]
    pub since: TimePoint,
    /// For everyone: names that are not of the catalogue become server-1, model-1, workload-1; no labels, no machine.
    #[arg(long)]
    pub public: bool,
}

/// What was measured. Times are RFC 3339, in UTC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    pub since: String,
    pub until: String,
    /// The same in microseconds since 1970.
    #[serde(skip)]
    pub since_us: i64,
    #[serde(skip)]
    pub until_us: i64,
    /// Length of the window.
    pub hours: f64,
    /// Where the probes were sent from, as the configuration says.
    pub place: Option<String>,
    /// Edition of the definitions of the figures.
    pub definitions: i64,
    /// By model, workload and upstream.
    pub upstreams: Vec<ProbedUpstream>,
    /// By model and upstream: the pings before the probes, which are in none of their figures.
    pub pings: Vec<PingedUpstream>,
    /// Probes that were not sent, by model: no upstream was left, or the gateway had no room.
    pub skipped: BTreeMap<String, usize>,
    /// What all probes cost, with their pings.
    #[serde(flatten)]
    pub cost: Cost,
    /// The last runs of benchmarks, newest first.
    pub loads: Vec<MeasuredLoad>,
}

impl ProbesQuestion {
    /// An error in the valid parts.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        let since = self.since.micros(now_us);
        (since > now_us).then(|| format!("--since {} lies in the future; it must be before now", time(since)))
    }
}

impl ProbeReport {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty() && self.pings.is_empty() && self.loads.is_empty() && self.skipped.is_empty()
    }
}

/// Reads the answer. The configuration says where this runs, and its catalogue which names are public.
///
/// # Errors
/// For an operator.
pub fn ask(
    reader: &StoreReader,
    question: &ProbesQuestion,
    config: &Config,
    now_us: i64,
) -> Result<ProbeReport, ReadError> {
    let since_us = question.since.micros(now_us);
    let window_us = now_us - since_us;
    let mut samples: BTreeMap<(String, String, String), ProbeSamples> = BTreeMap::new();
    let mut pings: BTreeMap<(String, String), ProbeSamples> = BTreeMap::new();
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    reader.each_probe((since_us, None), |probe| {
        let race = &probe.race;
        let Some(attempt) = probe.attempt() else {
            *skipped.entry(race.model.clone()).or_default() += 1;
            return;
        };
        let workload = race.workload.clone().unwrap_or_default();
        if workload == PING.0 {
            return pings.entry((race.model.clone(), probe.upstream())).or_default().add_ping(race, attempt);
        }
        let is_alone = config.workloads.get(&workload).is_none_or(|known| known.at_once == 1);
        samples.entry((race.model.clone(), workload, probe.upstream())).or_default().add(race, attempt, is_alone);
    })?;
    let step_us = if window_us > SINGLE_UP_TO_US { DAY_US } else { HOUR_US };
    let by_hour = window_us >= HOURS_FROM_US;
    let mut cost = CostSum::default();
    samples.values().chain(pings.values()).for_each(|samples| cost.merge(&samples.cost));
    let mut names = question.public.then(|| PublicNames::new(&config.catalogue));
    let upstreams = samples.into_iter().map(|((model, workload, upstream), samples)| {
        let named = match &mut names {
            Some(names) => (names.model(&model), names.workload(&workload), names.upstream(&upstream)),
            None => (model, workload, upstream),
        };
        samples.figures(named, step_us, by_hour)
    });
    let upstreams = upstreams.collect();
    let pings = pings.into_iter().map(|((model, upstream), samples)| {
        let named = match &mut names {
            Some(names) => (names.model(&model), names.upstream(&upstream)),
            None => (model, upstream),
        };
        samples.pings(named)
    });
    let pings = pings.collect();
    if let Some(names) = &mut names {
        skipped = skipped.into_iter().map(|(model, count)| (names.model(&model), count)).collect();
    }
    let loads = loads::newest(reader, since_us, names.as_mut())?;
    Ok(ProbeReport {
        since: time(since_us),
        until: time(now_us),
        since_us,
        until_us: now_us,
        hours: window_us as f64 / HOUR_US as f64,
        place: config.probes.as_ref().and_then(|probes| probes.from.clone()),
        definitions: DEFINITION_VERSION,
        upstreams,
        pings,
        skipped,
        cost: cost.cost(),
        loads,
    })
}

/// The requests of one probe that sends several at once begin within this time; the next probe comes later.
const ROUND_US: i64 = SECOND_US;

/// One upstream, asked one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbedUpstream {
    pub model: String,
    pub workload: String,
    pub upstream: String,
    /// Probes that were answered to their end. One of several requests at once is one probe: its figures are their medians.
    pub answered: usize,
    /// Probes of which a request failed.
    pub failed: usize,
    /// By kind.
    pub failures: BTreeMap<String, usize>,
    /// Answered with less than 80 % of the tokens that were asked for.
    pub short: usize,
    /// What its probes cost.
    #[serde(flatten)]
    pub cost: Cost,
    pub ttft_ms: ProbedFigure,
    pub tok_s: ProbedFigure,
    /// From dispatch to the last token.
    pub end_to_end_ms: ProbedFigure,
}

/// The pings of one upstream, which open the connection before each probe: how fast it is after idle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PingedUpstream {
    pub model: String,
    pub upstream: String,
    /// Pings after which nothing more was sent.
    pub failed: usize,
    /// By kind.
    pub failures: BTreeMap<String, usize>,
    /// Pings with a first token.
    pub samples: usize,
    /// With the handshake, and what the upstream must do after idle.
    pub ttft_p50_ms: Option<f64>,
    /// Its 95 % interval; null below 6 samples.
    pub ttft_p50_low_ms: Option<f64>,
    pub ttft_p50_high_ms: Option<f64>,
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
struct ProbeSamples {
    answered: usize,
    failed: usize,
    failures: BTreeMap<String, usize>,
    short: usize,
    cost: CostSum,
    /// Start of the probe, microseconds since 1970, and the value.
    ttft_ms: Vec<(i64, f64)>,
    tok_s: Vec<(i64, f64)>,
    end_to_end_ms: Vec<(i64, f64)>,
    /// The probe whose requests are being read.
    open: ProbeRound,
}

/// The requests of one probe.
#[derive(Default)]
struct ProbeRound {
    began_us: i64,
    answered: usize,
    failure: Option<String>,
    is_short: bool,
    ttft_ms: Vec<f64>,
    tok_s: Vec<f64>,
    end_to_end_ms: Vec<f64>,
}

impl ProbeSamples {
    /// Adds one request, in the order of their start. `is_alone`: it is a whole probe.
    pub fn add(&mut self, probe: &ProbeRow, attempt: &MeasuredAttempt, is_alone: bool) {
        self.cost.add(&attempt.cost);
        if is_alone || probe.started_at - self.open.began_us >= ROUND_US {
            self.end_probe();
            self.open.began_us = probe.started_at;
        }
        self.open.add(probe, attempt);
    }

    /// Adds a ping. An empty answer has opened the connection, too: a model that thinks in secret had no token left.
    pub fn add_ping(&mut self, probe: &ProbeRow, attempt: &MeasuredAttempt) {
        match attempt.row.outcome {
            AttemptOutcome::Empty => self.cost.add(&attempt.cost),
            _ => self.add(probe, attempt, true),
        }
    }

    /// Requests of one probe share the state of their upstream: they are one sample of it.
    fn end_probe(&mut self) {
        let ProbeRound { began_us, answered, failure, is_short, ttft_ms, tok_s, end_to_end_ms } =
            std::mem::take(&mut self.open);
        if let Some(kind) = failure {
            self.failed += 1;
            *self.failures.entry(kind).or_default() += 1;
        } else if answered > 0 {
            self.answered += 1;
            self.short += usize::from(is_short);
            let median = |values: Vec<f64>| Some((began_us, quantile(&sorted(values.into_iter()), 0.5)?));
            self.ttft_ms.extend(median(ttft_ms));
            self.tok_s.extend(median(tok_s));
            self.end_to_end_ms.extend(median(end_to_end_ms));
        }
    }

    pub fn pings(mut self, (model, upstream): (String, String)) -> PingedUpstream {
        self.end_probe();
        let ttft_ms = sorted(self.ttft_ms.iter().map(|(_, value)| *value));
        let (ttft_p50_low_ms, ttft_p50_high_ms) = interval(&ttft_ms, 0.5).unzip();
        PingedUpstream {
            model,
            upstream,
            failed: self.failed,
            failures: self.failures,
            samples: ttft_ms.len(),
            ttft_p50_ms: quantile(&ttft_ms, 0.5),
            ttft_p50_low_ms,
            ttft_p50_high_ms,
        }
    }

    pub fn figures(
        mut self,
        (model, workload, upstream): (String, String, String),
        step_us: i64,
        by_hour: bool,
    ) -> ProbedUpstream {
        self.end_probe();
        ProbedUpstream {
            model,
            workload,
            upstream,
            answered: self.answered,
            failed: self.failed,
            failures: self.failures,
            short: self.short,
            cost: self.cost.cost(),
            ttft_ms: figure(&self.ttft_ms, step_us, by_hour),
            tok_s: figure(&self.tok_s, step_us, by_hour),
            end_to_end_ms: figure(&self.end_to_end_ms, step_us, by_hour),
        }
    }
}

impl ProbeRound {
    fn add(&mut self, probe: &ProbeRow, attempt: &MeasuredAttempt) {
        match attempt.row.outcome {
            AttemptOutcome::Won => self.answered += 1,
            // It says nothing about the upstream.
            AttemptOutcome::ClientGone | AttemptOutcome::Shutdown | AttemptOutcome::Shed | AttemptOutcome::Lost => {
                return;
            }
            other => {
                let kind = attempt.row.failure.map_or(other.as_str(), |failure| failure.as_str());
                self.failure.get_or_insert_with(|| kind.to_owned());
                return;
            }
        }
        let wanted = probe.max_tokens.filter(|wanted| *wanted > 0);
        if let Some((written, wanted)) = attempt.decoding.tokens_out().zip(wanted)
            && (written as f64) < SHORT_ANSWER * wanted as f64
        {
            self.is_short = true;
        }
        self.ttft_ms.extend(attempt.decoding.first_token_us.map(|us| us as f64 / 1e3));
        self.tok_s.extend(attempt.decoding.tpot_us(probe.n_choices).map(|us| SECOND_US as f64 / us));
        self.end_to_end_ms.extend(attempt.decoding.last_token_us.map(|us| us as f64 / 1e3));
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

fn interval(sorted: &[f64], p: f64) -> Option<(f64, f64)> {
    let (low, high) = quantile_ranks(sorted.len(), p)?;
    Some((*sorted.get(low - 1)?, *sorted.get(high - 1)?))
}
