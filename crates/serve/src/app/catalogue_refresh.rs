//! Asks once a day for a newer catalogue of models, if `[catalogue] refresh` says where, and warns once a day of an old one.
//!
//! A catalogue that needs consent is not taken: the log says so. Once one is written, the watch over the
//! configuration's files reloads it. Not for what is refused: see `refresh`.

use std::sync::Arc;
use std::time::Duration;

use photofinish_base::clock::{Instant, micros, wall_micros};
use photofinish_config::{Config, HttpAddress, today};
use photofinish_gateway::proxy::Gateway;
use photofinish_transport::refresh::{self, CatalogueSigner, CatalogueUpdate, UpdateError, UpdateOutcome};

/// How often the configuration is checked for an address.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// From one request to the next, and from one warning of an old catalogue to the next.
const ASK_EVERY: Duration = Duration::from_secs(24 * 3_600);
/// The same after a request that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// Runs until the gateway drains.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let look = async {
        let mut next: Option<(HttpAddress, Instant)> = None;
        let mut old = OldCatalogueWarning { last: Instant::now() };
        loop {
            if let Some(warning) = old.due(&gateway.live().config, &today()) {
                tracing::warn!("{warning}");
            }
            let url = gateway.live().config.catalogue_refresh.clone();
            if let Some(url) = url {
                let mut wait = match &next {
                    Some((asked, at)) if *asked == url => at.saturating_duration_since(Instant::now()),
                    _ => until_due(&gateway, &url).await,
                };
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

/// A restart does not ask again within a day of the last request, unless the file was not taken: then the log says why again.
async fn until_due(gateway: &Gateway, url: &HttpAddress) -> Duration {
    let asked = refresh::asked_at_us(&gateway.live().config.catalogue_file(), url).await;
    let since = asked.map(|asked| wall_micros().saturating_sub(asked)).filter(|since| *since >= 0);
    let left = since.map_or(0, |since| micros(ASK_EVERY).saturating_sub(since));
    Duration::from_micros(u64::try_from(left).unwrap_or(0))
}

/// Asks once; returns how long to wait before the next time.
async fn ask(gateway: &Arc<Gateway>, url: &HttpAddress) -> Duration {
    match update(gateway, url).await {
        Ok(update) => {
            log(&update, url);
            ASK_EVERY
        }
        Err(error) => {
            tracing::warn!("no newer catalogue of models from {url}: {error}; the next try is in an hour");
            AGAIN_AFTER
        }
    }
}

async fn update(gateway: &Arc<Gateway>, url: &HttpAddress) -> Result<CatalogueUpdate, UpdateError> {
    let (target, signer) = {
        let config = &gateway.live().config;
        (config.catalogue_file(), CatalogueSigner::of(config)?)
    };
    let received = refresh::look_again(url, &signer, &target, gateway.client(), refresh::LIMITS).await?;
    let live = gateway.live();
    // It writes and waits for the disk.
    let work = gateway.shutdown().run_blocking(move || refresh::settle(&live.config, received, false));
    work.await?
}

fn log(update: &CatalogueUpdate, url: &HttpAddress) {
    let CatalogueUpdate { outcome, date, change, gone_in_use, objections } = update;
    match outcome {
        UpdateOutcome::Unchanged => tracing::info!("the catalogue of models is the newest of {url}"),
        UpdateOutcome::Older => {
            tracing::info!("{url} has nothing newer: its catalogue of models is of {date}, older than the built-in one")
        }
        UpdateOutcome::Written => {
            let (added, gone, moved) = (change.added.len(), change.gone.len(), change.moved.len());
            tracing::info!(added, gone, moved, "a newer catalogue of models, of {date}, came from {url}");
            if !gone_in_use.is_empty() {
                let upstreams = refresh::first(gone_in_use, String::clone);
                tracing::warn!("the newer catalogue lacks upstreams of the configuration: {upstreams}");
            }
        }
        UpdateOutcome::Refused => tracing::warn!(
            "the catalogue of {date} at {url} is not taken: {}. `photofinish models update --accept` takes it",
            objections.join("; ")
        ),
    }
}

/// Warns of an old catalogue, but at most once a day. A start and a reload warn themselves.
struct OldCatalogueWarning {
    last: Instant,
}

impl OldCatalogueWarning {
    /// The warning, if it is due.
    fn due(&mut self, config: &Config, today: &str) -> Option<String> {
        if self.last.elapsed() < ASK_EVERY {
            return None;
        }
        self.last = Instant::now();
        config.old_catalogue(today)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    #[tokio::test(start_paused = true)]
    async fn an_old_catalogue_is_a_warning_once_a_day() {
        let config = parse("", Path::new("config.toml"), &|_| None).unwrap();
        let mut warning = OldCatalogueWarning { last: Instant::now() };
        assert_eq!(warning.due(&config, "2999-01-01"), None, "the start has just warned");
        tokio::time::advance(ASK_EVERY).await;
        assert!(warning.due(&config, "2999-01-01").unwrap().contains("days old"));
        assert_eq!(warning.due(&config, "2999-01-01"), None);
        tokio::time::advance(ASK_EVERY).await;
        assert_eq!(warning.due(&config, config.catalogue.date()), None);
    }
}
