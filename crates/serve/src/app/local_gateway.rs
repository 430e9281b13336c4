//! A gateway without a listener. It serves requests of its own process and handles them like client requests.
//!
//! It runs no background checks: no roll-ups, no incidents, no reload.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::discovery::Discovery;
use super::{CANCEL_FOR, FLUSH_FOR, GatewayParts, Upstreams, open};
use photofinish_config::{Config, ProviderLists};
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::{RaceObserver, Recorder, WriterTask};
use photofinish_lab::bench::{LoadClient, RowFeed};
use photofinish_lab::simulate::Simulator;
use photofinish_transport::upstream::system_resolver;

/// A gateway that only its own process can send requests to.
pub struct LocalGateway {
    parts: GatewayParts,
    /// None if nothing is stored.
    writer: Option<WriterTask>,
}

impl LocalGateway {
    /// Starts the simulated providers of `config` and, if `stored`, opens its store. `race_observer` receives all race
    /// events.
    ///
    /// # Errors
    /// The store cannot be opened. The text is for an operator.
    pub async fn start(
        mut config: Config,
        stored: bool,
        race_observer: Arc<dyn RaceObserver>,
    ) -> anyhow::Result<LocalGateway> {
        // It listens nowhere, so a request to the gateway that does, on this machine, does not come back to it.
        config.server.listen.clear();
        let (recorder, writer) = if stored {
            let (recorder, writer) = Recorder::start(open(&config.store.address, &config.source)?);
            (recorder, Some(writer))
        } else {
            (Recorder::without_store(), None)
        };
        let upstreams = Upstreams::start(system_resolver()).await?;
        let parts = GatewayParts::join(config, recorder.watched(race_observer), upstreams).await?;
        // Its requests start soon and end before a token expires.
        parts.tokens.tried().await;
        parts.tokens.stop();
        Ok(LocalGateway { parts, writer })
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.parts.gateway
    }

    /// Asks each provider once for the list of its models. None of a provider that gives none.
    pub async fn lists(&self) -> ProviderLists {
        let discovery = Discovery::new(self.gateway().clone());
        discovery.ask_all_due().await;
        discovery.lists(&self.gateway().live())
    }

    pub fn recorder(&self) -> &Recorder {
        &self.parts.recorder
    }

    /// Sends measured requests through it. `feed` must observe its races.
    pub fn load_client(&self, feed: Arc<RowFeed>) -> LoadClient {
        LoadClient::new(self.gateway().clone(), self.recorder().clone(), feed)
    }

    /// The simulator of this provider. None: the provider is not simulated.
    pub async fn simulator(&self, provider: &str) -> Option<Simulator> {
        self.parts.simulated.simulator(provider).await
    }

    /// Waits until the losers that still run have ended, at most `limit`.
    pub async fn losers_ended(&self, limit: Duration) {
        self.parts.serving.finished(limit).await;
    }

    /// Cancels all running attempts and writes the rows. Returns the number of rows that could not be written.
    pub async fn stop(self) -> usize {
        self.stop_unless(pending()).await
    }

    /// The same. Rows that are not written once `hurry` resolves go to the spill file.
    pub async fn stop_unless(self, hurry: impl Future<Output = ()>) -> usize {
        let LocalGateway { parts, writer } = self;
        parts.serving.cancel();
        parts.serving.finished(CANCEL_FOR).await;
        parts.lines.cancel();
        parts.simulated.stop();
        match writer {
            Some(writer) => writer.finish_unless(FLUSH_FOR, hurry).await,
            None => 0,
        }
    }
}
