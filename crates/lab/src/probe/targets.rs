//! Which upstreams are probed, and what the history knows of earlier probes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use super::caps::tokens_used;
use super::schedule::ProbeJob;
use photofinish_base::clock::{DAY_US, micros};
use photofinish_config::config::{Config, ProbeSettings, ProbeWorkload, UpstreamConfig};
use photofinish_history::record::AttemptOutcome;
use photofinish_history::store::StoreReader;

/// The last moment of each job that is over, by the rows. It blocks.
///
/// # Errors
/// The database file cannot be read. The text is for an operator.
pub fn last_moments(
    history: &StoreReader,
    settings: &ProbeSettings,
    now_us: i64,
) -> anyhow::Result<BTreeMap<ProbeJob, i64>> {
    let longest = settings.workloads.iter().map(|workload| workload.every).max().unwrap_or_default();
    let mut moments = BTreeMap::new();
    history.each_probe((now_us - 3 * micros(longest), None), |probe| {
        let (model, workload) = (probe.race.model.clone(), probe.race.workload.clone().unwrap_or_default());
        let every = settings.workloads.iter().find(|known| known.name == workload).map(|known| known.every);
        let (Some(attempt), Some(scheduled_us), Some(every)) = (probe.attempt(), probe.race.scheduled_us, every) else {
            return;
        };
        let again_us = if was_cut_off(attempt.row.outcome) { micros(every) } else { 0 };
        let moment_us = probe.race.started_at + scheduled_us - again_us;
        let last = moments.entry(ProbeJob { model, workload, upstream: probe.upstream() }).or_insert(moment_us);
        *last = moment_us.max(*last);
    })?;
    Ok(moments)
}

/// USD and tokens of the present day (UTC), by the rows: at most, and where a server reports no usage by what was asked for.
/// It blocks.
///
/// # Errors
/// The database file cannot be read. The text is for an operator.
pub(super) fn spent_today(history: &StoreReader, config: &Config, now_us: i64) -> anyhow::Result<(f64, f64)> {
    let (mut usd, mut tokens) = (0.0, 0.0);
    history.each_probe((now_us - now_us.rem_euclid(DAY_US), None), |probe| {
        let Some(attempt) = probe.attempt() else { return };
        let asked = (probe.race.input_tokens_estimate as f64, probe.race.max_tokens.unwrap_or(0) as f64);
        let at_most = || {
            let upstream = probed(config, &probe.race.model).find(|upstream| upstream.name() == probe.upstream())?;
            Some(upstream.price?.most_usd(asked.0, asked.1))
        };
        usd += attempt.cost.cost_usd_max.or_else(at_most).unwrap_or(0.0);
        tokens += tokens_used(probe.counted(), asked, attempt.row.failure);
    })?;
    Ok((usd, tokens))
}

/// By the end of its gateway. It measured nothing, so that only the slot before is over.
fn was_cut_off(outcome: AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::ClientGone | AttemptOutcome::Shutdown | AttemptOutcome::Shed)
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
