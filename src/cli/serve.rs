//! `photofinish serve`: the gateway until a signal ends it.

use crate::cli::signals::Signals;
use photofinish_base::machine;
use photofinish_config::config::{Config, Listen};
use photofinish_serve::app::{App, Listening, ReloadWatch};
use photofinish_transport::upstream::system_resolver;

/// What the command takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServeOptions {
    /// Listen here instead of on `listen` in the configuration, such as 127.0.0.1:8081; also the variable PHOTOFINISH_LISTEN.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<Listen>,
    /// Start next to a gateway that listens on the same addresses, and serve new clients with it. Stop the older one then: it lets
    /// no request down.
    #[arg(long)]
    pub take_over: bool,
}

fn listen_address(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| format!("expected {}", Listen::EXPECTED))
}

/// Serves until the first signal, then stops cleanly; a second signal cancels what still runs, and only its rows are waited for.
///
/// # Errors
/// When it cannot start, rows could not be written at the end, or a second signal came.
pub async fn run(config: Config, take_over: bool) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let raised = machine::raise_descriptors();
    let watch = ReloadWatch::new()?;
    let listening = listening(&config, take_over)?;
    let app = tokio::select! {
        biased;
        app = App::start_with(config, listening, system_resolver()) => app?,
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

fn listening(config: &Config, take_over: bool) -> anyhow::Result<Listening> {
    let passed = machine::passed_listeners()?;
    if passed.is_empty() {
        return Ok(if take_over { Listening::TakeOver } else { Listening::Alone });
    }
    let given = config.given_listen.is_some();
    anyhow::ensure!(
        !take_over && !given,
        "the service manager passes the sockets to listen on (LISTEN_FDS): start without {}",
        if take_over { "--take-over, which they do not need" } else { "--listen and PHOTOFINISH_LISTEN" }
    );
    Ok(Listening::Passed(passed))
}
