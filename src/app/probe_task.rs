//! Runs the probes of `[probes]` while the gateway serves: one at a time, after clients. Not for when each is due: see
//! `probe::ProbeSchedule`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::LoadClient;
use crate::clock::{Instant, SECOND_US, wall_micros};
use crate::config::{Config, ProbeSettings};
use crate::metrics::ProbeOutcome;
use crate::probe::{DueProbe, PastProbes, ProbeJob, ProbeSchedule, Prober, jobs, probed, seed};
use crate::proxy::Gateway;

/// From one look at the schedule to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After the history could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A probe waits so long for clients of its upstream to end.
const POSTPONED_US: i64 = 30 * SECOND_US;

/// Runs until the gateway drains. `path`: the database file.
pub(super) async fn run(path: PathBuf, client: LoadClient) {
    let draining = client.gateway().shutdown().draining();
    tokio::select! {
        () = draining => {}
        () = run_all(&path, &client) => {}
    }
}

async fn run_all(path: &Path, client: &LoadClient) {
    let (gateway, prober) = (client.gateway(), Prober::new(client.clone()));
    let mut schedule = ProbeSchedule::new(seed(path));
    let mut is_recalled = false;
    loop {
        let live = gateway.live();
        let Some(settings) = &live.config.probes else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        prober.caps().configure(settings, wall_micros());
        schedule.configure(jobs(&live.config, settings), wall_micros());
        if !is_recalled {
            // Without the history a restart would repeat probes, and spend a day's money twice.
            gateway.recorder().until_stored().await;
            if let Err(error) = recall(path, gateway, settings, &mut schedule, &prober).await {
                tracing::warn!(error, "probes wait: the history of probes cannot be read");
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            is_recalled = true;
        }
        match schedule.due(wall_micros()) {
            Some(due) => probe(&prober, &live.config, settings, &mut schedule, &due).await,
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

async fn probe(
    prober: &Prober,
    config: &Config,
    settings: &ProbeSettings,
    schedule: &mut ProbeSchedule,
    due: &DueProbe,
) {
    let ProbeJob { model, workload, upstream } = &due.job;
    let workload = settings.workloads.iter().find(|known| known.name == *workload);
    let upstream = probed(config, model).find(|known| known.name() == *upstream);
    let (Some(workload), Some(upstream)) = (workload, upstream) else { return schedule.ended(due) };
    let now_us = wall_micros();
    if prober.is_busy(upstream) {
        return schedule.postpone(due, now_us + POSTPONED_US);
    }
    let late = Duration::from_micros(u64::try_from(now_us - due.moment_us).unwrap_or(0));
    let scheduled = Instant::now().checked_sub(late);
    let result = prober.probe(model, upstream, workload, due.slot.cast_unsigned(), scheduled).await;
    schedule.ended(due);
    let (name, why) = (upstream.name(), result.why.as_deref().unwrap_or_default());
    let (workload, ttft_ms, cost_usd) = (&workload.name, result.ttft_ms, result.cost_usd);
    match result.outcome {
        ProbeOutcome::Answered => tracing::debug!(upstream = name, workload, ttft_ms, cost_usd, "probed"),
        outcome => {
            tracing::info!(upstream = name, workload, outcome = outcome.as_str(), why, "a probe was not answered")
        }
    }
}

/// Reads what ran before the start.
async fn recall(
    path: &Path,
    gateway: &Gateway,
    settings: &ProbeSettings,
    schedule: &mut ProbeSchedule,
    prober: &Prober,
) -> Result<(), String> {
    let (path, settings, now_us) = (path.to_owned(), settings.clone(), wall_micros());
    let reading = gateway.shutdown().run_blocking(move || PastProbes::read(&path, &settings, now_us));
    let past = reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    prober.caps().recall(past.usd_today, past.tokens_today, now_us);
    past.last.iter().for_each(|(job, moment_us)| schedule.recall(job, *moment_us, now_us));
    Ok(())
}
