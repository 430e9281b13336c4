//! Runs the probes of `[probes]` while the gateway serves: one at a time, after clients. Not for when each is due: see
//! `probe::ProbeSchedule`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::duty;
use photofinish_base::clock::{Instant, SECOND_US, wall_micros};
use photofinish_config::{Config, ProbeSettings, ProbeWorkload, StoreAddress, UpstreamConfig};
use photofinish_facts::estimate::cost::Cost;
use photofinish_lab::bench::LoadClient;
use photofinish_lab::probe::{
    DueProbe, ProbeCaps, ProbeJob, ProbeResult, ProbeSchedule, Prober, jobs, last_moments, probed, seed,
};
use photofinish_metrics::ProbeOutcome;
use photofinish_routing::health::LiveConfig;

/// So late a reload or a jump of the clock is noticed at most.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// After the history could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A probe waits so long for clients of its upstream to end.
const POSTPONED_US: i64 = 30 * SECOND_US;

/// Runs until the gateway drains.
pub(super) async fn run(store: StoreAddress, client: LoadClient) {
    let draining = client.gateway().shutdown().draining();
    let seed = seed(&store);
    let host = GatewayHost::new(store, client);
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
    if !host.is_ours().await {
        return schedule.ended(due);
    }
    if host.is_busy(upstream) {
        return schedule.postpone(due, now_us + POSTPONED_US);
    }
    let late = Duration::from_micros(u64::try_from(now_us - due.moment_us).unwrap_or(0));
    let scheduled = Instant::now().checked_sub(late);
    let result = host.probe(model, upstream, workload, due.slot.cast_unsigned(), scheduled).await;
    schedule.ended(due);
    let (name, why) = (upstream.name(), result.why.as_deref().unwrap_or_default());
    let (workload, ttft_ms) = (&workload.name, result.ttft_ms);
    let Cost { cost_usd_min, cost_usd_max } = result.cost;
    match result.outcome {
        ProbeOutcome::Answered => {
            tracing::debug!(upstream = name, workload, ttft_ms, cost_usd_min, cost_usd_max, "probed")
        }
        outcome => {
            tracing::info!(upstream = name, workload, outcome = outcome.as_str(), why, "a probe was not answered")
        }
    }
}

/// The clock, the configuration, the history, and a way to send a probe.
trait ProbeHost {
    /// Microseconds since 1970, UTC.
    fn wall_us(&self) -> i64;

    fn live(&self) -> Arc<LiveConfig>;

    /// The last moment of each job that is over.
    ///
    /// # Errors
    /// The history cannot be read. The text is for an operator.
    async fn recall(&self, settings: &ProbeSettings) -> Result<BTreeMap<ProbeJob, i64>, String>;

    /// Whether clients use the upstream now.
    fn is_busy(&self, upstream: &UpstreamConfig) -> bool;

    /// Whether no other gateway on the same database probes.
    async fn is_ours(&self) -> bool {
        true
    }

    /// Counts probes that will not be sent.
    fn given_up(&self, probes: u64);

    /// Sends one probe: see [`Prober::probe`].
    async fn probe(
        &self,
        model: &str,
        upstream: &UpstreamConfig,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> ProbeResult;
}

/// A running gateway.
struct GatewayHost {
    /// The database file.
    store: StoreAddress,
    prober: Prober,
    client: LoadClient,
}

impl GatewayHost {
    pub fn new(store: StoreAddress, client: LoadClient) -> GatewayHost {
        GatewayHost {
            prober: Prober::new(client.clone(), store.clone(), ProbeCaps::of_call(None, None)),
            store,
            client,
        }
    }
}

impl ProbeHost for GatewayHost {
    fn wall_us(&self) -> i64 {
        wall_micros()
    }

    fn live(&self) -> Arc<LiveConfig> {
        self.client.gateway().live()
    }

    async fn recall(&self, settings: &ProbeSettings) -> Result<BTreeMap<ProbeJob, i64>, String> {
        self.client.recorder().until_stored().await;
        let (store, wanted, now_us) = (self.store.clone(), settings.clone(), wall_micros());
        let recorder = self.client.recorder().clone();
        let read = move || last_moments(&recorder.read_history(&store)?, &wanted, now_us);
        let reading = self.client.gateway().shutdown().run_blocking(read);
        reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        self.prober.is_busy(upstream)
    }

    async fn is_ours(&self) -> bool {
        duty::is_ours(self.client.gateway().shutdown(), &self.store, "probes").await == Some(true)
    }

    fn given_up(&self, probes: u64) {
        self.client.recorder().metrics().probes_given_up(probes);
    }

    async fn probe(
        &self,
        model: &str,
        upstream: &UpstreamConfig,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> ProbeResult {
        self.prober.probe(model, upstream, workload, number, scheduled).await
    }
}
