//! `photofinish serve`: the gateway until a signal ends it.

use crate::app::{App, Watch};
use crate::cli::signals::Signals;
use crate::config::Config;

/// Serves until the first signal, then stops cleanly; a second signal ends the process at once.
///
/// # Errors
/// When it cannot start, or rows could not be written at the end.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let watch = Watch::new(config.path.clone())?;
    let app = App::start(config).await?;
    app.watch(watch);
    signals.next().await;
    let lost = tokio::select! {
        lost = app.stop() => lost,
        () = signals.next() => anyhow::bail!("a second signal: ended at once"),
    };
    anyhow::ensure!(lost == 0, "{lost} rows could not be written");
    Ok(())
}
