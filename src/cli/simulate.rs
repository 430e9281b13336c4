//! `photofinish simulate`: one simulated provider on a port, to test a gateway with. Not for how it answers: see `simulate`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::config::ranges::{duration_within, within};
use crate::config::{SimulatedFailure, Simulation};
use crate::machine;
use crate::shutdown::Shutdown;
use crate::simulate::Simulator;

/// How long running streams may continue after the first signal.
const DRAIN: Duration = Duration::from_secs(5);

/// Run a simulated OpenAI-compatible provider: TTFT and speed distributions, failures on demand.
///
/// Every answer says that it is simulated. Every model name works; a request for the model `fail-NAME` always fails like that,
/// regardless of --failures.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,

    /// Its name in its answers.
    #[arg(long, default_value = "simulator")]
    pub name: String,

    /// Median time to first token, at most 1h.
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = |text: &str| duration_within(text, Simulation::TTFT))]
    pub ttft: Duration,

    /// Spread of TTFT and gaps: standard deviation of their logarithm, 0 to 5; 0 is exact.
    #[arg(long, value_name = "SIGMA", default_value_t = 0.2, value_parser = |text: &str| within(text, Simulation::JITTER))]
    pub jitter: f64,

    /// Share of requests whose TTFT is multiplied by a Pareto draw, 0 to 1: at least 2, with a median of 3.6.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::TAIL))]
    pub tail: f64,

    /// Median decode speed, 0.01 to 1000000.
    #[arg(long, value_name = "RATE", default_value_t = 50.0, value_parser = |text: &str| within(text, Simulation::TOKENS_PER_SECOND))]
    pub tokens_per_second: f64,

    /// Tokens in an answer, 1 to 100000, unless the request's max_tokens is smaller.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = |text: &str| within(text, Simulation::TOKENS))]
    pub tokens: u32,

    /// Share of requests that fail, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::FAILURES))]
    pub failures: f64,

    /// How they fail: 429, 401, 400, 500, hang, stall, reset, cut, error-frame or empty.
    #[arg(long, value_name = "NAME", default_value = "500")]
    pub failure: SimulatedFailure,

    /// Makes the draws repeatable. Without it the clock seeds them.
    #[arg(long)]
    pub seed: Option<u64>,
}

impl SimulateOptions {
    pub fn simulation(&self) -> Simulation {
        Simulation {
            ttft: self.ttft,
            jitter: self.jitter,
            tail: self.tail,
            tokens_per_second: self.tokens_per_second,
            tokens: self.tokens,
            failures: self.failures,
            failure: self.failure,
            seed: self.seed,
        }
    }
}

/// Serves until `shutdown` drains, and then at most five seconds for its streams to end.
///
/// # Errors
/// It cannot listen.
pub async fn run(options: SimulateOptions, shutdown: Shutdown) -> anyhow::Result<()> {
    let listen = options.listen;
    let listener = machine::listen(listen)
        .map_err(|error| anyhow::anyhow!("cannot listen on {listen}: {error}; choose another port with --listen"))?;
    let simulator = Simulator::start(&options.name, options.simulation(), listener, &shutdown)?;
    let base_url = simulator.base_url();
    tracing::info!(name = options.name, %base_url, "a simulated provider listens");
    tracing::info!(
        "try: curl -N {base_url}/chat/completions -H 'content-type: application/json' \
         -d '{{\"model\":\"simulated\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}'"
    );
    shutdown.draining().await;
    let running = simulator.counts().running;
    tracing::info!(running, "stopping");
    tokio::select! {
        _ = shutdown.finished(DRAIN) => {}
        () = shutdown.cancelled() => {}
    }
    shutdown.cancel();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: SimulateOptions,
    }

    fn parse(arguments: &[&str]) -> Result<SimulateOptions, String> {
        let arguments = std::iter::once("simulate").chain(arguments.iter().copied());
        Cli::try_parse_from(arguments).map(|cli| cli.options).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_config() {
        Cli::command().debug_assert();
        let options = parse(&[]).unwrap();
        assert_eq!(options.simulation(), Simulation::default());
        assert_eq!(options.listen, "127.0.0.1:9000".parse().unwrap());
    }

    #[test]
    fn every_failure_has_its_name_and_is_in_the_help() {
        let help = Cli::command().render_long_help().to_string();
        for failure in SimulatedFailure::ALL {
            assert_eq!(parse(&["--failure", failure.as_str()]).unwrap().failure, failure);
            assert!(help.contains(failure.as_str()), "{failure:?} is not in:\n{help}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let cases = [
            ("--failures", "1.5", "a number from 0 to 1"),
            ("--failures", "NaN", "a number from 0 to 1"),
            ("--tail", "1.1", "a number from 0 to 1"),
            ("--jitter", "9", "a number from 0 to 5"),
            ("--tokens-per-second", "0", "a number from 0.01 to 1000000"),
            ("--tokens-per-second", "inf", "a number from 0.01 to 1000000"),
            ("--tokens", "0", "a number from 1 to 100000"),
            ("--ttft", "2h", "to 1h"),
            ("--failure", "explode", "expected one of 429"),
            ("--ttft", "soon", "--ttft"),
        ];
        for (option, value, expected) in cases {
            let error = parse(&[option, value]).unwrap_err();
            assert!(error.contains(expected), "{option} {value}: {error}");
        }
    }

    #[tokio::test]
    async fn a_busy_port_is_a_clear_error() {
        let busy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = busy.local_addr().unwrap();
        let options = parse(&["--listen", &addr.to_string()]).unwrap();
        let error = run(options, Shutdown::new()).await.unwrap_err();
        assert!(
            format!("{error:#}").starts_with(&format!("cannot listen on {addr}: Address already in use")),
            "{error:#}"
        );
    }

    #[tokio::test]
    async fn it_ends_with_the_shutdown() {
        let shutdown = Shutdown::new();
        let options = parse(&["--listen", "127.0.0.1:0"]).unwrap();
        shutdown.drain();
        run(options, shutdown.clone()).await.unwrap();
        assert!(shutdown.is_cancelled());
    }
}
