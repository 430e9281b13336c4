//! Builds the gateway and joins its parts: the order of the start, of a reload and of the end.

mod reload;
mod simulated;
mod welcome;

pub use reload::Watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;

use crate::clock::Instant;
use crate::config::Config;
use crate::proxy::{Gateway, Live};
use crate::recorder::{Recorder, Writer};
use crate::server;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::upstream::Client;
use simulated::Simulated;

/// How long what was cancelled may take to end.
const CANCEL_FOR: Duration = Duration::from_secs(3);
/// How long the recorder may take to write what is queued.
const FLUSH_FOR: Duration = Duration::from_secs(30);

/// A running gateway.
pub struct App {
    addr: SocketAddr,
    gateway: Arc<Gateway>,
    writer: Writer,
    /// Client connections and everything that serves them.
    serving: Shutdown,
    /// Connections to upstreams: they must outlive what is served over them.
    lines: Shutdown,
    simulated: Simulated,
}

impl App {
    /// Starts everything that `config` asks for; returns once it listens.
    ///
    /// # Errors
    /// When the store cannot be opened or the address cannot be listened on, in words for an operator.
    pub async fn start(config: Config) -> anyhow::Result<App> {
        welcome::configuration(&config);
        let listen = config.server.listen;
        let listener = TcpListener::bind(listen).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {listen}: choose another `listen` under [server]"))?;
        let addr = listener.local_addr()?;
        let store = Store::open(&config.store.path).await?;
        tracing::info!(path = %config.store.path.display(), "store open");
        let (recorder, writer) = Recorder::start(store);
        let (serving, lines) = (Shutdown::new(), Shutdown::new());
        let simulated = Simulated::default();
        let addresses = simulated.follow(&config).await?;
        let client = Client::new(lines.clone()).context("cannot set up TLS")?;
        let gateway = Arc::new(Gateway::new(Live::new(config, &addresses)?, client, recorder, serving.clone()));
        let router = server::router(gateway.clone());
        serving.spawn(server::serve(listener, router, serving.clone()));
        tracing::info!("listening on http://{addr}");
        Ok(App { addr, gateway, writer, serving, lines, simulated })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Reloads the config on SIGHUP and whenever the file has changed.
    pub fn watch(&self, watch: Watch) {
        self.serving.spawn(watch.run(self.gateway.clone(), self.simulated.clone()));
    }

    /// Reads the config anew. A bad one is reported, and the old one stays in force.
    pub async fn reload(&self) {
        let path = self.gateway.live().config.path.clone();
        reload::reload(&path, &self.gateway, &self.simulated).await;
    }

    /// Ends it: no new connections, running streams to their end for at most `drain`, what is left cancelled, rows flushed.
    /// Gives the number of records that could not be written.
    pub async fn stop(self) -> usize {
        let began = Instant::now();
        let step = |what: &str| tracing::info!(after = ?began.elapsed(), "{what}");
        let drain = self.gateway.live().config.server.drain;
        tracing::info!(races = self.gateway.races(), ?drain, "stopping: no new connections, running streams go on");
        self.serving.drain();
        if self.serving.finished(drain).await {
            step("every stream has ended");
        } else {
            tracing::warn!(races = self.gateway.races(), after = ?began.elapsed(), "the drain ran out: cancelling what still runs");
            self.serving.cancel();
            if !self.serving.finished(CANCEL_FOR).await {
                tracing::warn!(tasks = self.serving.running(), "some tasks did not end");
            }
        }
        self.lines.cancel();
        self.simulated.stop();
        let lost = self.writer.finish(FLUSH_FOR).await;
        if lost == 0 {
            step("every row is written, the store is closed");
        } else {
            tracing::error!(lost, after = ?began.elapsed(), "some rows could not be written");
        }
        lost
    }
}
