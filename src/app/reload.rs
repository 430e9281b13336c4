//! A new configuration while the gateway runs: on SIGHUP, or when the file has changed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::simulated::Simulated;
use super::tokens::Tokens;
use super::welcome;
use crate::config::{self, Config};
use crate::proxy::{Gateway, Live};

/// How often the file is looked at. A look by path, and not a watch on the file, also sees a mounted file that is replaced.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What is watched. Made before the gateway starts: what changes or is signalled while it does is not missed.
pub struct Watch {
    path: PathBuf,
    seen: Option<Stamp>,
    hangup: Signal,
}

/// What tells one state of a file from another.
type Stamp = (SystemTime, u64);

impl Watch {
    /// From now on SIGHUP does not end the process.
    ///
    /// # Errors
    /// When the signal cannot be listened for.
    pub fn new(path: PathBuf) -> std::io::Result<Watch> {
        Ok(Watch { seen: stamp(&path), path, hangup: signal(SignalKind::hangup())? })
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
            let now = stamp(&self.path);
            // A file that is away for a moment is being replaced.
            if asked || (now != self.seen && now.is_some()) {
                self.seen = now;
                reloading.reload(&self.path).await;
            }
        }
    }
}

/// What a reload changes, and what it cannot change.
#[derive(Clone)]
pub(super) struct Reloading {
    pub gateway: Arc<Gateway>,
    pub simulated: Simulated,
    pub tokens: Tokens,
    /// Where the gateway listens, whatever `listen` says by now.
    pub bound: SocketAddr,
}

impl Reloading {
    /// Reads the file and puts it in force, or reports what is wrong with it.
    pub async fn reload(&self, path: &Path) {
        match self.replace(path).await {
            Ok(()) => tracing::info!("the new configuration is in force"),
            Err(error) => tracing::error!("the new configuration is not used, the old one stays in force:\n{error:#}"),
        }
    }

    async fn replace(&self, path: &Path) -> anyhow::Result<()> {
        let config = config::load(path)?;
        anyhow::ensure!(
            !config.users.is_empty() || self.bound.ip().to_canonical().is_loopback(),
            "the gateway listens on {}, which others can reach, and the new configuration has no [users]: \
             restart the gateway if it is to listen elsewhere, or keep a user",
            self.bound
        );
        let next = self.simulated.next(&config).await?;
        let before = self.gateway.live();
        let restart = restart_needed(&before.config, &config);
        let live = Live::new(config, &next.addresses())?;
        self.tokens.hand_over(&live.config);
        welcome::configuration(&live.config);
        for (what, _) in restart.iter().filter(|(_, changed)| *changed) {
            tracing::warn!("a new `{what}` takes effect only after a restart");
        }
        self.gateway.reload(live);
        self.tokens.keep(&self.gateway.live().config);
        next.put_in_force();
        Ok(())
    }
}

fn restart_needed(before: &Config, after: &Config) -> [(&'static str, bool); 2] {
    [
        ("server.listen", before.server.listen != after.server.listen),
        ("store.url", before.store.path != after.store.path),
    ]
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
