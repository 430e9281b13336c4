//! `photofinish serve`: the gateway until a signal ends it.

use crate::app::{App, ReloadWatch};
use crate::cli::signals::Signals;
use crate::config::Config;
use crate::machine;

/// Serves until the first signal, then stops cleanly; a second signal cancels what still runs, and only its rows are waited for.
///
/// # Errors
/// When it cannot start, rows could not be written at the end, or a second signal came.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let raised = machine::raise_descriptors();
    let watch = ReloadWatch::new(&config)?;
    let app = App::start(config).await?;
    match raised {
        Ok((before, now)) => tracing::info!(before, now, "descriptors: the soft limit is the hard one"),
        Err(error) => tracing::warn!(%error, "the soft limit of descriptors cannot be raised"),
    }
    app.watch(watch);
    signals.next().await;
    let stopped = app.stop_unless(signals.next()).await;
    anyhow::ensure!(stopped.lost == 0, "{} rows could not be written", stopped.lost);
    anyhow::ensure!(!stopped.hurried, "a second signal: ended at once");
    Ok(())
}
