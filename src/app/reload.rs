//! A new configuration while the gateway runs: on SIGHUP, or when the file has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::simulated::Simulated;
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
    pub(super) async fn run(mut self, gateway: Arc<Gateway>, simulated: Simulated) {
        let mut draining = std::pin::pin!(gateway.shutdown().draining());
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
                reload(&self.path, &gateway, &simulated).await;
            }
        }
    }
}

/// Reads the file and puts it in force, or reports what is wrong with it.
pub(super) async fn reload(path: &Path, gateway: &Gateway, simulated: &Simulated) {
    let config = match config::load(path) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!("the new configuration is not used, the old one stays in force:\n{error}");
            return;
        }
    };
    let before = gateway.live();
    for (what, changed) in restart_needed(&before.config, &config) {
        if changed {
            tracing::warn!("a new `{what}` takes effect only after a restart");
        }
    }
    let live = match simulated.follow(&config).await {
        Ok(addresses) => {
            welcome::configuration(&config);
            Live::new(config, &addresses).map_err(anyhow::Error::from)
        }
        Err(error) => Err(error),
    };
    match live {
        Ok(live) => {
            gateway.reload(live);
            tracing::info!("the new configuration is in force");
        }
        Err(error) => tracing::error!("the new configuration is not used, the old one stays in force: {error:#}"),
    }
}

fn restart_needed(before: &Config, after: &Config) -> [(&'static str, bool); 2] {
    [("server.listen", before.server.listen != after.server.listen), ("store.url", before.store != after.store)]
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
