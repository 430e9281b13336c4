//! Builds the gateway and connects its parts: the order of start, reload and shutdown.

mod catalogue_refresh;
mod config_changes;
mod discovery;
mod duty;
mod incident_watch;
mod listening;
mod local_gateway;
mod probe_task;
mod reload;
mod reload_watch;
mod replicas;
mod rollup_task;
mod simulated;
mod startup_log;
mod tokens;
mod warm_start;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::accounts::AccountKeeper;
use crate::login::Logins;
use crate::server;
use crate::traces::Traces;
use discovery::Discovery;
pub use listening::Listening;
pub use local_gateway::LocalGateway;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, ConfigSource, Listen, StoreAddress};
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::{Condition, Recorder, WriterTask};
use photofinish_history::store::{OpenError, Store};
use photofinish_lab::bench::{LoadClient, RowFeed};
use photofinish_limits::LimitClock;
use photofinish_routing::health::LiveConfig;
use photofinish_transport::upstream::{Resolver, UpstreamClient, system_resolver};
use reload::{ReloadOrder, Reloading};
pub use reload_watch::ReloadWatch;
use replicas::ReplicaTask;
use rollup_task::RollupTask;
use simulated::Simulated;
use tokens::Tokens;

/// How long the start waits for the store. After that the store is opened in the background.
const OPEN_FOR: Duration = Duration::from_secs(1);
/// How long cancelled tasks may take to end.
const CANCEL_FOR: Duration = Duration::from_secs(3);
/// How long the recorder may take to write queued rows.
const FLUSH_FOR: Duration = Duration::from_secs(30);

/// How long the collector of traces may take for the last spans.
const TRACES_FOR: Duration = Duration::from_secs(2);

/// After a second signal: how long cancelled tasks may take to end, and then how long the recorder may take to write.
/// Longer than a client has to read its last event.
const HURRY_FOR: Duration = Duration::from_millis(1_250);

/// A running gateway.
pub struct App {
    /// The addresses it listens on.
    listens: Vec<Listen>,
    gateway: Arc<Gateway>,
    recorder: Recorder,
    writer: WriterTask,
    /// Client connections and the tasks that serve them.
    serving: Shutdown,
    /// Connections to upstreams. They must outlive the requests served over them.
    lines: Shutdown,
    simulated: Simulated,
    reloading: Reloading,
    accounts: Arc<AccountKeeper>,
    traces: Traces,
}

/// The parts that answer requests, with or without a listener.
struct GatewayParts {
    gateway: Arc<Gateway>,
    recorder: Recorder,
    /// The tasks that serve requests.
    serving: Shutdown,
    /// Connections to upstreams.
    lines: Shutdown,
    simulated: Simulated,
    tokens: Tokens,
}

/// What connects to upstreams.
struct Upstreams {
    client: UpstreamClient,
    /// The connections.
    lines: Shutdown,
}

impl Upstreams {
    /// Reads the system's certificates, on a thread for blocking work.
    async fn start(resolver: Resolver) -> anyhow::Result<Upstreams> {
        let lines = Shutdown::new();
        let client = lines.run_blocking({
            let lines = lines.clone();
            move || UpstreamClient::with_resolver(lines, resolver)
        });
        Ok(Upstreams { client: client.await?.context("cannot set up TLS")?, lines })
    }
}

impl GatewayParts {
    async fn join(config: Config, recorder: Recorder, upstreams: Upstreams) -> anyhow::Result<GatewayParts> {
        let (serving, Upstreams { client, lines }) = (Shutdown::new(), upstreams);
        let (simulated, store) = (Simulated::default(), config.store.address.clone());
        let next = simulated.next(&config).await?;
        let live = LiveConfig::new(config, &next.addresses())?;
        next.put_in_force();
        let tokens = Tokens::new(serving.clone());
        tokens.keep(&live.config);
        let gateway = Arc::new(Gateway::new(live, client, Arc::new(recorder.clone()), serving.clone()));
        if recorder.condition() == Condition::Ok {
            // Before the first request, so that its decisions are as good as those before the restart.
            warm_start::learn(&gateway, &recorder, store).await;
        } else {
            serving.spawn(warm_start::learn_later(gateway.clone(), recorder.clone(), store));
        }
        Ok(GatewayParts { gateway, recorder, serving, lines, simulated, tokens })
    }
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug)]
pub struct StopReason {
    /// Records that could not be written.
    pub lost: usize,
    /// Whether a second signal cut the shutdown short.
    pub hurried: bool,
}

impl App {
    /// Starts everything that `config` asks for; returns once it listens. A locked store or a full disk does not stop
    /// the start.
    ///
    /// # Errors
    /// The store can never be opened as configured, or an address cannot be listened on. The text is for an operator.
    pub async fn start(config: Config) -> anyhow::Result<App> {
        App::start_with(config, Listening::Alone, system_resolver()).await
    }

    /// [`App::start`] with listeners from elsewhere, or with a different resolver for providers' names.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_with(config: Config, listening: Listening, resolver: Resolver) -> anyhow::Result<App> {
        let early = match listening {
            // Clients come to it at once, and not to the older gateway: it listens when it can serve them.
            Listening::TakeOver => None,
            listening => Some(listening.open(&config).await?),
        };
        let tls = config.server.tls.is_some();
        startup_log::configuration(&config);
        let address = config.store.address.clone();
        // Side by side: each takes a third of the start.
        let (store, upstreams) = tokio::join!(open_store(&config), Upstreams::start(resolver));
        let (recorder, writer) = Recorder::start(store?);
        let probe_rows = RowFeed::new();
        let recorder = recorder.watched(probe_rows.clone());
        let GatewayParts { gateway, recorder, serving, lines, simulated, tokens } =
            Box::pin(GatewayParts::join(config, recorder, upstreams?)).await?;
        let figures = server::figures(gateway.clone(), recorder.clone());
        let traces = Traces::start(&gateway, figures);
        let accounts = AccountKeeper::new(gateway.clone(), recorder.clone());
        Box::pin(meet_others(&gateway, &recorder, &serving, &lines)).await?;
        if accounts.is_needed() {
            let read = accounts.clone();
            // After a panic, which is in the log, later.
            let _ = serving.run_blocking(move || read.begin()).await;
        }
        if recorder.condition() == Condition::Ok {
            let _ = tokio::time::timeout(OPEN_FOR, config_changes::enter_start(&gateway, &accounts)).await;
        }
        // Answers that run on after the drain began cost too.
        lines.spawn(accounts.clone().run(lines.clone()));
        let logins = Logins::new(gateway.clone(), accounts.clone());
        serving.spawn(logins.clone().keep_keys());
        serving.spawn(logins.clone().confirm());
        serving.spawn(return_memory(gateway.clone()));
        serving.spawn(RollupTask::new(gateway.clone(), recorder.clone()).run());
        serving.spawn(warm_start::follow_facts(gateway.clone(), recorder.clone(), address.clone()));
        let probes = LoadClient::new(gateway.clone(), recorder.clone(), probe_rows);
        serving.spawn(probe_task::run(address.clone(), probes));
        serving.spawn(incident_watch::watch(address, gateway.clone(), recorder.clone()));
        serving.spawn(catalogue_refresh::run(gateway.clone()));
        let discovery = Discovery::new(gateway.clone());
        let listeners = match early {
            Some(listeners) => listeners,
            None => Listening::TakeOver.open(&gateway.live().config).await?,
        };
        let listens: Vec<Listen> = listeners.iter().map(|listener| listener.at().clone()).collect();
        let reloading = Reloading {
            gateway: gateway.clone(),
            simulated: simulated.clone(),
            tokens,
            discovery: discovery.clone(),
            accounts: accounts.clone(),
            bound: listens.clone(),
            one_at_a_time: Arc::default(),
        };
        serving.spawn(server::serve(
            listeners,
            gateway.clone(),
            recorder.clone(),
            (accounts.clone(), logins),
            reloading.call(),
        ));
        for listen in &listens {
            tracing::info!("listening on {}", listen.url(tls));
        }
        gateway.client().keep_warm(gateway.live().warm());
        serving.spawn(discovery.run());
        Ok(App { listens, gateway, recorder, writer, serving, lines, simulated, reloading, accounts, traces })
    }

    /// The addresses it listens on, in the order of the configuration.
    pub fn listens(&self) -> &[Listen] {
        &self.listens
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Reloads the config on SIGHUP and whenever the file has changed.
    pub fn watch(&self, watch: ReloadWatch) {
        self.serving.spawn(watch.run(self.reloading.clone()));
    }

    /// Reads the config again, whatever it drops. An invalid one is reported, and the old one stays in force.
    pub async fn reload(&self) {
        // The log has its error.
        let _ = self.reloading.reload(ReloadOrder::Accepted).await;
    }

    /// Shuts down: serves on for `drain_delay`, answers what has come and lets streams finish, for at most `drain`, cancels the
    /// rest, and flushes the rows. Returns the number of records that could not be written.
    pub async fn stop(self) -> usize {
        self.stop_unless(std::future::pending()).await.lost
    }

    /// [`App::stop`], but once `hurry` resolves, everything that still runs is cancelled, and the recorder has about a
    /// second to write its rows.
    pub async fn stop_unless(self, hurry: impl Future<Output = ()>) -> StopReason {
        let began = Instant::now();
        let mut hurry = std::pin::pin!(hurry);
        let mut hurried = tokio::select! {
            () = self.end_streams(began) => false,
            () = &mut hurry => true,
        };
        if hurried {
            tracing::warn!(races = self.gateway.races(), "a second signal: cancelling what still runs");
            self.serving.cancel();
            if !self.serving.finished(HURRY_FOR).await {
                tracing::warn!(tasks = self.serving.running(), "some tasks did not end");
            }
        }
        self.traces.finish(if hurried { HURRY_FOR } else { TRACES_FOR }).await;
        self.lines.cancel();
        self.simulated.stop();
        // Other gateways on the database hear that this one ends.
        self.lines.finished(HURRY_FOR).await;
        let accounts = self.accounts;
        // What the last answers cost. A database that does not answer gets no longer than rows do.
        let turn = Shutdown::new().run_blocking(move || accounts.turn(false));
        let _ = tokio::time::timeout(if hurried { HURRY_FOR } else { CANCEL_FOR }, turn).await;
        let enough = async {
            if !hurried {
                hurry.await;
                hurried = true;
            }
            tokio::time::sleep(HURRY_FOR).await;
        };
        let lost = self.writer.finish_unless(FLUSH_FOR, enough).await;
        let waiting = self.recorder.spilled();
        if lost == 0 && waiting > 0 {
            tracing::warn!(waiting, after = ?began.elapsed(), "every row is kept, but some wait for the next start");
        } else if lost == 0 {
            tracing::info!(after = ?began.elapsed(), "every row is written, the store is closed");
        } else {
            tracing::error!(lost, after = ?began.elapsed(), "some rows could not be written");
        }
        StopReason { lost, hurried }
    }

    async fn end_streams(&self, began: Instant) {
        let (delay, drain) = {
            let server = &self.gateway.live().config.server;
            (server.drain_delay, server.drain)
        };
        self.gateway.leave();
        if !delay.is_zero() {
            tracing::info!(?delay, "stopping: not ready any more, and serving on; a second signal ends it at once");
            tokio::time::sleep(delay).await;
        }
        let races = self.gateway.races();
        tracing::info!(
            races,
            ?drain,
            "stopping: running streams go on, each connection ends with its answer; a second signal ends them at once"
        );
        self.serving.drain();
        if self.serving.finished(drain).await {
            tracing::info!(after = ?began.elapsed(), "every stream has ended");
            return;
        }
        let races = self.gateway.races();
        tracing::warn!(races, after = ?began.elapsed(), "the drain ran out: cancelling what still runs");
        self.serving.cancel();
        if !self.serving.finished(CANCEL_FOR).await {
            tracing::warn!(tasks = self.serving.running(), "some tasks did not end");
        }
    }
}

/// Reports this gateway to the others on the same database, from now on; first of all reads from them what was spent.
async fn meet_others(
    gateway: &Arc<Gateway>,
    recorder: &Recorder,
    serving: &Shutdown,
    lines: &Shutdown,
) -> anyhow::Result<()> {
    let Some(mut replicas) = ReplicaTask::new(gateway.clone(), recorder.clone()) else { return Ok(()) };
    if recorder.condition() == Condition::Ok {
        replicas =
            serving.run_blocking(move || replicas.after_a_turn()).await.context("cannot meet the other gateways")?;
    } else {
        gateway.set_keys_away(true);
        let allowance = (gateway.live().config.store.outage_allowance * 1e6) as u32;
        let now = LimitClock { us: gateway.learning().now_us(), wall_us: wall_micros() };
        gateway.usage().begin_outage(allowance, now.wall_us, now);
    }
    // Answers that run on after the drain began use limits too.
    lines.spawn(replicas.run(lines.clone()));
    Ok(())
}

/// Opens the store; that of the built-in configuration with its directory. It blocks.
fn open(store: &StoreAddress, source: &ConfigSource) -> Result<Store, OpenError> {
    match source {
        ConfigSource::BuiltIn(_) => Store::open_in_new_directory(store),
        ConfigSource::File(_) => Store::open(store),
    }
}

/// Waits a moment for the store to open. After an error that may be temporary, the recorder continues trying in the
/// background.
async fn open_store(config: &Config) -> anyhow::Result<Store> {
    let address = &config.store.address;
    let opening = Shutdown::new().run_blocking({
        let (address, source) = (address.clone(), config.source.clone());
        move || open(&address, &source)
    });
    match tokio::time::timeout(OPEN_FOR, opening).await.ok().transpose()? {
        Some(Ok(store)) => {
            tracing::info!(path = %address, "store open");
            if config.source.file().is_none() && config.store.is_in_memory() {
                tracing::warn!("the history is in memory only, because the user's state directory cannot be written");
            }
            return Ok(store);
        }
        // Nothing says that a history is wanted.
        Some(Err(error @ OpenError::Unusable { .. })) if config.source.file().is_none() => {
            tracing::warn!("the history is in memory only, its last rows alone: {error}");
        }
        Some(Err(error)) if error.may_pass() => {
            tracing::warn!("the history cannot be written yet: {error}. The gateway starts without it and tries again");
        }
        Some(Err(error)) => return Err(error.into()),
        None => {
            tracing::warn!(path = %address, "the database takes long to open; the gateway starts without it and tries again");
        }
    }
    Ok(Store::unopened(address))
}

const RETURN_EVERY: Duration = Duration::from_secs(5);
/// In bytes. The allocator gives a request of this size a separate block. Nothing is written to it, so it uses no
/// memory.
const BLOCK: usize = 16 << 20;

/// Gives the memory of large requests back to the system once they are over. The allocator returns pages a second after
/// they were freed, but checks for them only when a large block is freed. After a burst of large bodies a quiet gateway
/// frees no such block, and would keep hundreds of megabytes. Also drops stored answers whose time is over.
async fn return_memory(gateway: Arc<Gateway>) {
    let mut draining = std::pin::pin!(gateway.shutdown().draining());
    while tokio::time::timeout(RETURN_EVERY, &mut draining).await.is_err() {
        gateway.trim_stored();
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
    }
}
