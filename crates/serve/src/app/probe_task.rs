//! Runs the probes of `[probes]` while the gateway serves: one at a time, after clients. Not for when each is due: see
//! `probe::ProbeSchedule`.

mod host;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::{GatewayHost, ProbeHost};
use photofinish_base::clock::{Instant, SECOND_US};
use photofinish_config::config::{Config, ProbeSettings};
use photofinish_history::metrics::ProbeOutcome;
use photofinish_lab::bench::LoadClient;
use photofinish_lab::probe::{DueProbe, ProbeJob, ProbeSchedule, jobs, probed, seed};
use photofinish_routing::health::LiveConfig;

/// So late a reload or a jump of the clock is noticed at most.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// After the history could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A probe waits so long for clients of its upstream to end.
const POSTPONED_US: i64 = 30 * SECOND_US;

/// Runs until the gateway drains. `path`: the database file.
pub(super) async fn run(path: PathBuf, client: LoadClient) {
    let draining = client.gateway().shutdown().draining();
    let seed = seed(&path);
    let host = GatewayHost::new(path, client);
    tokio::select! {
        () = draining => {}
        () = run_all(&host, seed) => {}
    }
}

async fn run_all(host: &impl ProbeHost, seed: u64) {
    let mut schedule = ProbeSchedule::new(seed);
    let mut is_recalled = false;
    let mut configured: Option<Arc<LiveConfig>> = None;
    loop {
        let live = host.live();
        let Some(settings) = &live.config.probes else {
            configured = None;
            schedule.configure([], host.wall_us());
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let now_us = host.wall_us();
        if !configured.as_ref().is_some_and(|known| Arc::ptr_eq(known, &live)) {
            schedule.configure(jobs(&live.config, settings), now_us);
            configured = Some(live.clone());
        }
        if !is_recalled {
            // Without the history a restart would repeat probes.
            match host.recall(settings).await {
                Ok(past) => past.iter().for_each(|(job, moment_us)| schedule.recall(job, *moment_us, now_us)),
                Err(error) => {
                    tracing::warn!(error, "probes wait: the history of probes cannot be read");
                    tokio::time::sleep(AGAIN_AFTER).await;
                    continue;
                }
            }
            is_recalled = true;
        }
        for (job, slots) in schedule.give_up(now_us) {
            let ProbeJob { upstream, workload, .. } = job;
            let why = "clients used the upstream, or the machine slept, until their time was over";
            tracing::info!(upstream, workload, slots, why, "probes were given up");
            host.given_up(slots);
        }
        match schedule.due(now_us) {
            Some(due) => probe(host, &live.config, settings, &mut schedule, &due).await,
            None => tokio::time::sleep(schedule.due_in(now_us).map_or(LOOK_EVERY, |wait| wait.min(LOOK_EVERY))).await,
        }
    }
}

async fn probe(
    host: &impl ProbeHost,
    config: &Config,
    settings: &ProbeSettings,
    schedule: &mut ProbeSchedule,
    due: &DueProbe,
) {
    let ProbeJob { model, workload, upstream } = &due.job;
    let workload = settings.workloads.iter().find(|known| known.name == *workload);
    let upstream = probed(config, model).find(|known| known.name() == *upstream);
    let (Some(workload), Some(upstream)) = (workload, upstream) else { return schedule.ended(due) };
    let now_us = host.wall_us();
    if host.is_busy(upstream) {
        return schedule.postpone(due, now_us + POSTPONED_US);
    }
    let late = Duration::from_micros(u64::try_from(now_us - due.moment_us).unwrap_or(0));
    let scheduled = Instant::now().checked_sub(late);
    let result = host.probe(model, upstream, workload, due.slot.cast_unsigned(), scheduled).await;
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

#[cfg(test)]
mod tests;
