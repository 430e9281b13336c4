//! A new configuration while the gateway runs: on SIGHUP, or when the file has changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};

use super::simulated::Simulated;
use super::welcome;
use crate::config::{self, Config};
use crate::proxy::{Gateway, Live};

/// How often the file is looked at. A look by path, and not a watch on the file, also sees a mounted file that is replaced.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs until the gateway drains.
pub(super) async fn watch(path: PathBuf, gateway: std::sync::Arc<Gateway>, simulated: Simulated) {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGHUP: the config is not reloaded");
            return;
        }
    };
    let mut draining = std::pin::pin!(gateway.shutdown().draining());
    let mut seen = stamp(&path);
    loop {
        let asked = tokio::select! {
            () = &mut draining => return,
            _ = hangup.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let now = stamp(&path);
        // A file that is away for a moment is being replaced.
        if asked || (now != seen && now.is_some()) {
            seen = now;
            reload(&path, &gateway, &simulated).await;
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

/// What tells one state of a file from another.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
