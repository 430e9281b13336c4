//! Asks once a day for a newer catalogue of models, if `[catalogue] refresh` says where.
//!
//! A catalogue that needs consent is not taken: the log says so. Once one is written, the watch over the
//! configuration's files reloads it. Not for what is refused: see `refresh`.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Instant, micros, wall_micros};
use crate::config::CatalogueUrl;
use crate::proxy::Gateway;
use crate::refresh::{self, CatalogueUpdate, UpdateError, UpdateOrigin, UpdateOutcome};

/// How often the configuration is checked for an address.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// From one request to the next.
const ASK_EVERY: Duration = Duration::from_secs(24 * 3_600);
/// The same after a request that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// Runs until the gateway drains.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let look = async {
        let mut next: Option<(CatalogueUrl, Instant)> = None;
        loop {
            let url = gateway.live().config.catalogue_refresh.clone();
            let wait = |url: &CatalogueUrl| match &next {
                Some((asked, at)) if asked == url => at.saturating_duration_since(Instant::now()),
                _ => until_due(&gateway, url),
            };
            if let Some(url) = url {
                let mut wait = wait(&url);
                if wait.is_zero() {
                    wait = ask(&gateway, &url).await;
                }
                next = Some((url, Instant::now() + wait));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = gateway.shutdown().draining() => {}
        () = look => {}
    }
}

/// A restart does not ask again what was asked within the last day.
fn until_due(gateway: &Gateway, url: &CatalogueUrl) -> Duration {
    let asked = refresh::asked_at_us(&gateway.live().config.catalogue_file(), url);
    let since = asked.map(|asked| wall_micros().saturating_sub(asked)).filter(|since| *since >= 0);
    let left = since.map_or(0, |since| micros(ASK_EVERY).saturating_sub(since));
    Duration::from_micros(u64::try_from(left).unwrap_or(0))
}

/// Asks once; returns how long to wait before the next time.
async fn ask(gateway: &Arc<Gateway>, url: &CatalogueUrl) -> Duration {
    match update(gateway, url).await {
        Ok(None | Some(CatalogueUpdate { outcome: UpdateOutcome::Unchanged, .. })) => {
            tracing::info!("the catalogue of models is the newest of {url}");
            ASK_EVERY
        }
        Ok(Some(update)) if update.outcome == UpdateOutcome::Written => {
            let CatalogueUpdate { date, change, gone_in_use, .. } = update;
            let (added, gone, moved) = (change.added.len(), change.gone.len(), change.moved.len());
            tracing::info!(added, gone, moved, "a newer catalogue of models, of {date}, came from {url}");
            if !gone_in_use.is_empty() {
                let upstreams = refresh::first(&gone_in_use, String::clone);
                tracing::warn!("the newer catalogue lacks upstreams of the configuration: {upstreams}");
            }
            ASK_EVERY
        }
        Ok(Some(CatalogueUpdate { date, objections, .. })) => {
            let why = objections.join("; ");
            tracing::warn!(
                "the catalogue of {date} at {url} is not taken: {why}. `photofinish models update --accept` takes it"
            );
            ASK_EVERY
        }
        Err(error) => {
            tracing::warn!("no newer catalogue of models from {url}: {error}; the next try is in an hour");
            AGAIN_AFTER
        }
    }
}

/// None: the address has nothing newer.
async fn update(gateway: &Arc<Gateway>, url: &CatalogueUrl) -> Result<Option<CatalogueUpdate>, UpdateError> {
    let (origin, target) = (UpdateOrigin::Url(url.clone()), gateway.live().config.catalogue_file());
    let Some(received) = refresh::receive(&origin, &target, gateway.client(), refresh::LIMITS).await? else {
        return Ok(None);
    };
    let live = gateway.live();
    let work = gateway.shutdown().run_blocking(move || refresh::settle(&live.config, &received, false));
    // The work cannot panic; if it did, the next try is as good.
    work.await.map_or(Ok(None), |settled| settled.map(Some))
}
