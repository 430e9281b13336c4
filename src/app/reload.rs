//! Loads a new configuration while the gateway runs: on SIGHUP, or when the file, one of the certificates and keys that it
//! names, or the catalogue beside the store has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::discovery::Discovery;
use super::simulated::Simulated;
use super::startup_log;
use super::tokens::Tokens;
use crate::config::{self, Config, Listen};
use crate::health::LiveConfig;
use crate::proxy::Gateway;
use crate::server::ReloadCall;

/// How often the files are checked. A check by path, unlike a watch on the file, also sees that a mounted file is
/// replaced.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The state of the watched files. Created before the gateway starts, so a change or signal during the start is not
/// missed.
pub struct ReloadWatch {
    /// None: the configuration is the built-in one.
    path: Option<PathBuf>,
    seen: Option<FileStamp>,
    /// Certificates, keys and the catalogue, as of the latest reload.
    read_beside: FileStamps,
    /// The same, as of the latest check. A certificate and its key are not replaced in one step, so a
    /// reload waits until two checks agree.
    seen_beside: FileStamps,
    hangup: Signal,
}

/// Modification time and size: identifies a version of a file.
type FileStamp = (SystemTime, u64);
/// None: the file does not exist.
type FileStamps = BTreeMap<PathBuf, Option<FileStamp>>;

impl ReloadWatch {
    /// From now on SIGHUP does not end the process.
    ///
    /// # Errors
    /// The handler for the signal cannot be installed.
    pub fn new(config: &Config) -> std::io::Result<ReloadWatch> {
        let (path, read_beside) = (config.source.file().map(Path::to_owned), stamps(config));
        let hangup = signal(SignalKind::hangup())?;
        Ok(ReloadWatch {
            seen: path.as_deref().and_then(stamp),
            path,
            seen_beside: read_beside.clone(),
            read_beside,
            hangup,
        })
    }

    /// Runs until the gateway drains.
    pub(super) async fn run(mut self, reloading: Reloading) {
        let mut draining = std::pin::pin!(reloading.gateway.shutdown().draining());
        loop {
            let asked = tokio::select! {
                () = &mut draining => return,
                _ = self.hangup.recv() => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            let now = self.path.as_deref().and_then(stamp);
            // A file that is missing for a moment is being replaced.
            let is_new = now != self.seen && now.is_some();
            let beside = stamps(&reloading.gateway.live().config);
            let has_settled = beside == self.seen_beside && beside.values().all(Option::is_some);
            self.seen_beside.clone_from(&beside);
            if asked || is_new || (has_settled && beside != self.read_beside) {
                self.seen = now;
                // The log has its error.
                let _ = reloading.reload().await;
                self.read_beside = stamps(&reloading.gateway.live().config);
                // A change during the reload is noticed at the next check.
                self.read_beside
                    .iter_mut()
                    .for_each(|(path, stamp)| *stamp = beside.get(path).copied().unwrap_or(*stamp));
            }
        }
    }
}

/// The parts that a reload changes, and the state that it cannot change.
#[derive(Clone)]
pub(super) struct Reloading {
    pub gateway: Arc<Gateway>,
    pub simulated: Simulated,
    pub tokens: Tokens,
    pub discovery: Discovery,
    /// The addresses the gateway listens on, whatever `listen` says now.
    pub bound: Vec<Listen>,
    pub one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

impl Reloading {
    /// Reads the configuration again and puts it in force, or reports its errors.
    ///
    /// # Errors
    /// For an operator, and already in the log.
    pub async fn reload(&self) -> anyhow::Result<()> {
        let _one_at_a_time = self.one_at_a_time.lock().await;
        let replaced = self.replace().await;
        self.gateway.refuse_configuration(replaced.as_ref().err().map(|error| format!("{error:#}")));
        match &replaced {
            Ok(()) => tracing::info!("the new configuration is in force"),
            Err(error) => tracing::error!("the new configuration is not used, the old one stays in force:\n{error:#}"),
        }
        replaced
    }

    /// For a request to the server.
    pub fn call(&self) -> ReloadCall {
        let reloading = self.clone();
        Arc::new(move || {
            let reloading = reloading.clone();
            Box::pin(async move { reloading.reload().await.map_err(|error| format!("{error:#}")) })
        })
    }

    async fn replace(&self) -> anyhow::Result<()> {
        let before = self.gateway.live();
        let config = config::load_listening(&before.config.source, before.config.given_listen.as_ref())?;
        if let Some(open) = self.bound.iter().find(|listen| !listen.is_local() && config.users.is_empty()) {
            anyhow::bail!(
                "the gateway listens on {open}, which others can reach, and the new configuration has no [users]: \
                 restart the gateway if it is to listen elsewhere, or keep a user"
            );
        }
        let next = self.simulated.next(&config).await?;
        let restart = restart_needed(&before.config, &config);
        let live = self.discovery.applied(&LiveConfig::new(config, &next.addresses())?);
        self.tokens.hand_over(&live.config);
        startup_log::configuration(&live.config);
        for (what, _) in restart.iter().filter(|(_, changed)| *changed) {
            tracing::warn!("a new `{what}` takes effect only after a restart");
        }
        self.gateway.reload(live);
        self.tokens.keep(&self.gateway.live().config);
        next.put_in_force();
        self.gateway.client().keep_warm(self.gateway.live().warm());
        self.discovery.reloaded();
        Ok(())
    }
}

fn restart_needed(before: &Config, after: &Config) -> [(&'static str, bool); 4] {
    [
        ("server.listen", before.server.listen != after.server.listen),
        // A different certificate needs no restart.
        ("server.tls", before.server.tls.is_some() != after.server.tls.is_some()),
        ("server.log", before.server.log != after.server.log),
        ("store.url", before.store.path != after.store.path),
    ]
}

/// The stamps of all files that a configuration names, and of the catalogue beside the store, which may be absent.
fn stamps(config: &Config) -> FileStamps {
    const ABSENT: FileStamp = (SystemTime::UNIX_EPOCH, 0);
    let mut stamps: FileStamps = config.files().map(|path| (path.to_owned(), stamp(path))).collect();
    let catalogue = config.catalogue_file();
    let seen = stamp(&catalogue).or(Some(ABSENT));
    stamps.insert(catalogue, seen);
    stamps
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
