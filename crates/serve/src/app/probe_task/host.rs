//! What the task needs of a gateway, so that a test can run it for a month without one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::config::{ProbeSettings, ProbeWorkload, UpstreamConfig};
use photofinish_lab::bench::LoadClient;
use photofinish_lab::probe::{ProbeCaps, ProbeJob, ProbeResult, Prober, last_moments};
use photofinish_routing::health::LiveConfig;

/// The clock, the configuration, the history, and a way to send a probe.
pub(super) trait ProbeHost {
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

    /// So many probes will not be sent.
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
pub(super) struct GatewayHost {
    /// The database file.
    path: PathBuf,
    prober: Prober,
    client: LoadClient,
}

impl GatewayHost {
    pub fn new(path: PathBuf, client: LoadClient) -> GatewayHost {
        GatewayHost { prober: Prober::new(client.clone(), path.clone(), ProbeCaps::of_call(None, None)), path, client }
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
        self.client.gateway().recorder().until_stored().await;
        let (path, wanted, now_us) = (self.path.clone(), settings.clone(), wall_micros());
        let recorder = self.client.gateway().recorder().clone();
        let read = move || last_moments(&recorder.read_history(&path)?, &wanted, now_us);
        let reading = self.client.gateway().shutdown().run_blocking(read);
        reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        self.prober.is_busy(upstream)
    }

    fn given_up(&self, probes: u64) {
        self.client.gateway().recorder().metrics().probes_given_up(probes);
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
