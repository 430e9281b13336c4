//! What probes and benchmarks measured, for publishing: each upstream at the same work, and what load it took.
//!
//! Not for how it is written: see `cli::report`.

mod figures;
mod loads;
mod public_names;

pub use figures::{HourMedian, PingedUpstream, ProbedFigure, ProbedUpstream, StepMedian};
pub use loads::{FoundGoodput, LoadLevel, MeasuredLoad};

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use self::figures::ProbeSamples;
use self::public_names::PublicNames;
use super::question::{TimePoint, moment, time};
use crate::history::record::DEFINITION_VERSION;
use crate::store::{ReadError, StoreReader};
use photofinish_base::clock::{DAY_US, HOUR_US};
use photofinish_config::config::{Config, PING};

/// The hour of the day is told from so long a window on: each hour has some days.
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
    /// What all probes cost, with their pings: no less than this, and no more; null where nothing bounds it.
    pub cost_usd_min: Option<f64>,
    pub cost_usd_max: Option<f64>,
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
    /// Whether there is nothing to tell.
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
    let costs = || samples.values().chain(pings.values()).map(ProbeSamples::cost);
    let (cost_usd_min, cost_usd_max) = (costs().map(|cost| cost.0).sum(), costs().map(|cost| cost.1).sum());
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
        cost_usd_min,
        cost_usd_max,
        loads,
    })
}

#[cfg(test)]
mod tests;
