//! Which upstreams are probed, and what the history knows of earlier probes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use super::schedule::ProbeJob;
use crate::clock::{DAY_US, micros};
use crate::config::{Config, ProbeSettings, ProbeWorkload, UpstreamConfig};
use crate::store::StoreReader;

/// The probes before a start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastProbes {
    /// The last moment of each job.
    pub last: BTreeMap<ProbeJob, i64>,
    /// Spent on the present day (UTC), at most.
    pub usd_today: f64,
    pub tokens_today: f64,
}

impl PastProbes {
    /// Reads the database file; it blocks.
    ///
    /// # Errors
    /// The file cannot be read. The text is for an operator.
    pub fn read(path: &Path, settings: &ProbeSettings, now_us: i64) -> anyhow::Result<PastProbes> {
        let today_us = now_us - now_us.rem_euclid(DAY_US);
        let longest = settings.workloads.iter().map(|workload| workload.every).max().unwrap_or_default();
        let rows = StoreReader::open(path)?.probes(today_us.min(now_us - 3 * micros(longest)))?;
        let mut past = PastProbes::default();
        for row in rows {
            if row.started_at >= today_us {
                past.usd_today += row.cost_usd;
                past.tokens_today += row.tokens as f64;
            }
            let Some(moment_us) = row.scheduled_at else { continue };
            let job = ProbeJob { model: row.model, workload: row.workload, upstream: row.upstream };
            let last = past.last.entry(job).or_insert(moment_us);
            *last = moment_us.max(*last);
        }
        Ok(past)
    }
}

/// What is measured: each workload at each upstream that is on.
pub fn jobs(config: &Config, settings: &ProbeSettings) -> Vec<(ProbeJob, Duration)> {
    let of_model = |model: &String, workload: &ProbeWorkload| {
        let job = |upstream: &UpstreamConfig| {
            let (model, workload) = (model.clone(), workload.name.clone());
            ProbeJob { model, workload, upstream: upstream.name() }
        };
        probed(config, model).map(|upstream| (job(upstream), workload.every)).collect::<Vec<_>>()
    };
    let pairs =
        settings.models.iter().flat_map(|model| settings.workloads.iter().map(move |workload| (model, workload)));
    pairs.flat_map(|(model, workload)| of_model(model, workload)).collect()
}

/// The upstreams of a model that are on.
pub fn probed<'c>(config: &'c Config, model: &str) -> impl Iterator<Item = &'c UpstreamConfig> {
    let upstreams = config.model(model).map(|model| model.upstreams.as_slice()).unwrap_or_default();
    upstreams.iter().filter(|upstream| upstream.unlisted.is_none() && config.provider_is_on(&upstream.provider))
}

/// Of this history: gateways with different ones probe at different moments.
pub fn seed(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
