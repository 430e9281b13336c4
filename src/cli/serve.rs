//! `photofinish serve`: the gateway until a signal ends it.

use crate::app::{App, ReloadWatch};
use crate::cli::signals::Signals;
use crate::config::{Config, Listen};
use crate::machine;

/// What the command takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServeOptions {
    /// Listen here instead of on `listen` in the configuration, such as 127.0.0.1:8081; also the variable PHOTOFINISH_LISTEN.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<Listen>,
}

fn listen_address(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| format!("expected {}", Listen::EXPECTED))
}

/// Serves until the first signal, then stops cleanly; a second signal cancels what still runs, and only its rows are waited for.
///
/// # Errors
/// When it cannot start, rows could not be written at the end, or a second signal came.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let raised = machine::raise_descriptors();
    let watch = ReloadWatch::new()?;
    let app = tokio::select! {
        biased;
        app = App::start(config) => app?,
        // A file that hangs must not hold up the end.
        () = signals.next() => {
            tracing::warn!("a signal: the start is given up");
            return Ok(());
        }
    };
    if let Err(error) = raised {
        tracing::warn!(%error, "the soft limit of descriptors cannot be raised");
    }
    app.watch(watch);
    signals.next().await;
    let stopped = app.stop_unless(signals.next()).await;
    anyhow::ensure!(stopped.lost == 0, "{} rows could not be written", stopped.lost);
    anyhow::ensure!(!stopped.hurried, "a second signal: ended at once");
    Ok(())
}
