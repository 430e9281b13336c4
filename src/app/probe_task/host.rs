//! What the task needs of a gateway, so that a test can run it for a month without one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::bench::LoadClient;
use crate::clock::{Instant, wall_micros};
use crate::config::{ProbeSettings, ProbeWorkload, UpstreamConfig};
use crate::health::LiveConfig;
use crate::probe::{PastProbes, ProbeResult, Prober};

/// The clock, the configuration, the history, and a way to send a probe.
pub(super) trait ProbeHost {
    /// Microseconds since 1970, UTC.
    fn wall_us(&self) -> i64;

    fn live(&self) -> Arc<LiveConfig>;

    /// What ran before.
    ///
    /// # Errors
    /// The history cannot be read. The text is for an operator.
    async fn recall(&self, settings: &ProbeSettings) -> Result<PastProbes, String>;

    /// Whether clients use the upstream now.
    fn is_busy(&self, upstream: &UpstreamConfig) -> bool;

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
        GatewayHost { path, prober: Prober::new(client.clone()), client }
    }
}

impl ProbeHost for GatewayHost {
    fn wall_us(&self) -> i64 {
        wall_micros()
    }

    fn live(&self) -> Arc<LiveConfig> {
        self.client.gateway().live()
    }

    async fn recall(&self, settings: &ProbeSettings) -> Result<PastProbes, String> {
        self.client.gateway().recorder().until_stored().await;
        let (path, wanted, now_us) = (self.path.clone(), settings.clone(), wall_micros());
        let reading = self.client.gateway().shutdown().run_blocking(move || PastProbes::read(&path, &wanted, now_us));
        let past = reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.prober.caps().configure(settings, now_us);
        self.prober.caps().recall(past.usd_today, past.tokens_today, now_us);
        Ok(past)
    }

    fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        self.prober.is_busy(upstream)
    }

    async fn probe(
        &self,
        model: &str,
        upstream: &UpstreamConfig,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> ProbeResult {
        if let Some(settings) = &self.client.gateway().live().config.probes {
            // A reload may have changed them.
            self.prober.caps().configure(settings, wall_micros());
        }
        self.prober.probe(model, upstream, workload, number, scheduled).await
    }
}
