//! `photofinish serve`: the gateway until a signal ends it.

use std::io::{self, IsTerminal as _};

use crate::cli::screen::ScreenSettings;
use crate::cli::signals::Signals;
use crate::cli::text::write_folded;
use photofinish_base::machine::{self, ServiceState};
use photofinish_config::{Config, Listen, ModelConfig, Policy};
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
    machine::outlive_file_limit()?;
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
    if io::stderr().is_terminal() {
        // It does no harm if it cannot be read.
        let said = welcome(&app.gateway().live().config, app.listens());
        let _ = write_folded(&format!("\n{said}"), ScreenSettings::width_of_stderr(), &mut io::stderr());
    }
    app.watch(watch);
    notify_manager(ServiceState::Ready);
    signals.next().await;
    notify_manager(ServiceState::Stopping);
    let stopped = app.stop_unless(signals.next()).await;
    anyhow::ensure!(stopped.lost == 0, "{} rows could not be written", stopped.lost);
    anyhow::ensure!(!stopped.hurried, "a second signal: ended at once");
    Ok(())
}

/// Notifies the service manager. Without it the gateway serves all the same.
fn notify_manager(state: ServiceState) {
    if let Err(error) = machine::notify(state) {
        tracing::warn!(%error, "the service manager cannot be notified (NOTIFY_SOCKET)");
    }
}

/// What it does, what it costs at most, where the dashboard is, and how to stop it.
fn welcome(config: &Config, listens: &[Listen]) -> String {
    let address = listens.first().map_or_else(String::new, |listen| listen.url(config.server.tls.is_some()));
    let on = || config.models.values().filter(|model| config.upstreams_on(model) > 0);
    let raced = || on().filter(|model| config.upstreams_on(model) > 1);
    let billed = |model: &ModelConfig| model.upstreams.iter().any(|upstream| upstream.provider.is_hosted());
    let simulated = on().all(|model| model.upstreams.iter().all(|upstream| upstream.provider.simulate.is_some()));
    let servers = config.providers.values().filter(|provider| provider.is_on() && provider.serves_its_list());
    let servers: Vec<&str> =
        servers.filter(|server| server.simulate.is_none()).map(|server| server.name.as_str()).collect();
    let what = match (on().count(), raced().count()) {
        // They are asked once it listens.
        (0, _) if !servers.is_empty() => {
            format!("Serves the models that {} lists, by name, at {address}/v1.", servers.join(" or "))
        }
        (0, _) => "No model is on: `photofinish check` says why.".to_owned(),
        (1, races) => {
            let name = on().next().map_or("", |model| &model.name);
            let does = if races > 0 { "Races" } else { "Serves" };
            let of = if simulated { "simulated " } else { "" };
            format!("{does} the {of}model \"{name}\" at {address}/v1.")
        }
        (models, races) => format!("Serves {models} models, {races} of them raced, at {address}/v1."),
    };
    let budget = raced().map(|model| model.race.budget).fold(0.0, f64::max);
    let cost = match raced().filter(|model| billed(model)).map(|model| model.race.policy).collect::<Vec<_>>() {
        _ if !on().any(|model| billed(model)) => "It costs nothing: no provider bills for it.".to_owned(),
        policies if policies.is_empty() => "It costs what the providers bill: nothing is raced.".to_owned(),
        policies if policies.iter().all(|policy| *policy == Policy::Adaptive) => {
            let share = 100.0 * budget;
            format!("Added attempts cost at most {share:.0} % of single ones, rescues apart (budget = {budget}).")
        }
        _ => "A race costs what all its attempts cost: `photofinish models` has prices.".to_owned(),
    };
    format!("{what}\n{cost}\nDashboard: {address}/dashboard\nCtrl-C stops it.\n")
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    #[test]
    fn four_lines_say_what_it_does_and_costs() {
        let said = |text: &str, keys: &'static [&'static str]| {
            let env = move |name: &str| keys.contains(&name).then(|| "planted".to_owned());
            let config = parse(text, Path::new("x"), &env).unwrap();
            let said = welcome(&config, &[Listen::parse("127.0.0.1:8080").unwrap()]);
            assert_eq!(
                said.lines().skip(2).collect::<Vec<_>>(),
                ["Dashboard: http://127.0.0.1:8080/dashboard", "Ctrl-C stops it."]
            );
            assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
            said.lines().take(2).collect::<Vec<_>>().join(" ")
        };
        let sim = "[providers]\na.simulate = {}\nb.simulate = {}\n[models.demo]\nupstreams = [\"a/x\", \"b/x\"]";
        for (text, keys, expected) in [
            (sim, &[][..], "Races the simulated model \"demo\" at http://127.0.0.1:8080/v1. It costs nothing"),
            (
                "[providers.ollama]\nbase_url = \"http://127.0.0.1:11434/v1\"",
                &[],
                "Serves the models that ollama lists, by name, at",
            ),
            ("", &[], "No model is on: `photofinish check` says why."),
            ("", &["GROQ_API_KEY"], "0 of them raced, at http://127.0.0.1:8080/v1. It costs what the providers bill"),
            ("", &["GROQ_API_KEY", "CEREBRAS_API_KEY"], "at most 10 % of single ones, rescues apart (budget = 0.1)."),
            (
                "race.policy = \"race\"",
                &["GROQ_API_KEY", "CEREBRAS_API_KEY"],
                "A race costs what all its attempts cost",
            ),
        ] {
            assert!(said(text, keys).contains(expected), "{text}: {}", said(text, keys));
        }
    }
}
