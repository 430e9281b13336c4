//! `photofinish simulate`: one simulated provider on a port, to test a gateway with. Not for how it answers: see `simulate`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use photofinish_base::machine;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::units::{duration_within, within};
use photofinish_config::{HostFact, ServerStall, SimulatedFailure, Simulation};
use photofinish_lab::simulate::{Simulator, TruthFile};

/// How long running streams may continue after the first signal.
const DRAIN: Duration = Duration::from_secs(5);
/// How long what is left may take to end after that.
const CANCEL: Duration = Duration::from_secs(1);

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

    /// Requests served at once, at most 100000; more wait in a queue. 0: no limit.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = |text: &str| within(text, Simulation::SLOTS))]
    pub slots: u32,

    /// Each further request in service adds this share to the time per token, 0 to 100.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::SLOWDOWN))]
    pub slowdown: f64,

    /// Input tokens read per second (4 bytes of the prompt's JSON are one); at most 1000000000. 0: reading takes no time.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::PREFILL))]
    pub prefill: f64,

    /// Do not read again what a prompt's beginning shares with earlier prompts; report it as cached_tokens.
    #[arg(long)]
    pub prefix_cache: bool,

    /// Tokens in one event of a stream, 1 to 1000; the last event may have fewer.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = |text: &str| within(text, Simulation::TOKENS_PER_EVENT))]
    pub tokens_per_event: u32,

    /// The whole server pauses at times: '2s every 20s'.
    #[arg(long, value_name = "STALL")]
    pub stall: Option<ServerStall>,

    /// Answer requests with tools by a call, and break this share of the calls, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| within(text, Simulation::SHARE))]
    pub bad_calls: Option<f64>,

    /// Leave the usage out of answers.
    #[arg(long)]
    pub no_usage: bool,

    /// Chat answers do what the request says: counts, tools, schemas, reasoning, sampling.
    #[arg(long)]
    pub obeys: bool,

    /// With --obeys: facts of `photofinish verify` that it does wrong, with commas between.
    #[arg(long, value_name = "FACTS", value_delimiter = ',', requires = "obeys")]
    pub wrong: Vec<HostFact>,

    /// With --obeys: total variation by which the distribution of sampled words is moved, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::SHARE))]
    pub moved: f64,

    /// Share of requests that a moved replica answers, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = |text: &str| within(text, Simulation::SHARE))]
    pub replicas: f64,

    /// Total variation, at most, by which the distribution also moves with each day, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, Simulation::SHARE))]
    pub daily: f64,

    /// Writes what happened to each request, as JSON lines; replaces the file.
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,

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
            slots: self.slots,
            slowdown: self.slowdown,
            prefill: self.prefill,
            prefix_cache: self.prefix_cache,
            tokens_per_event: self.tokens_per_event,
            stall: self.stall,
            bad_calls: self.bad_calls,
            usage: !self.no_usage,
            obeys: self.obeys,
            wrong: self.wrong.clone(),
            moved: self.moved,
            replicas: self.replicas,
            daily: self.daily,
            seed: self.seed,
        }
    }
}

/// Serves until `shutdown` drains, and then at most five seconds for its streams to end.
///
/// # Errors
/// It cannot listen, or not write the truth file.
pub async fn run(options: SimulateOptions, shutdown: Shutdown) -> anyhow::Result<()> {
    let listen = options.listen;
    let listener = machine::listen(listen)
        .map_err(|error| anyhow::anyhow!("cannot listen on {listen}: {error}; choose another port with --listen"))?;
    let truth = options.truth.as_deref().map(|path| {
        TruthFile::create(path).map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
    });
    let truth = truth.transpose()?;
    let simulation = options.simulation();
    let simulator = Simulator::start_with_truth(&options.name, simulation, listener, &shutdown, truth.clone())?;
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
    if let Some(truth) = truth {
        // Requests that were cut off have their lines, too.
        shutdown.finished(CANCEL).await;
        truth.flush();
    }
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
            ("--slots", "100001", "a number from 0 to 100000"),
            ("--slowdown", "NaN", "a number from 0 to 100"),
            ("--prefill", "inf", "a number from 0 to 1000000000"),
            ("--tokens-per-event", "0", "a number from 1 to 1000"),
            ("--stall", "20s every 2s", "2s every 20s"),
            ("--stall", "0s every 2s", "2s every 20s"),
            ("--stall", "2s", "2s every 20s"),
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
