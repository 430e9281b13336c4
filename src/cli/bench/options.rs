//! The options of `bench`. Not for what they mean together: see `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::bench::condition::FailIf;
use crate::bench::slo::LoadSlo;
use crate::bench::workload::TOKENS_MAX;
use crate::config::ranges::{duration_within, within};

/// Users of a closed loop, or requests in flight, at most.
pub const USERS_MAX: usize = 100_000;
/// Arrivals per second at most.
pub const RATE_MAX: f64 = 100_000.0;
const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct BenchOptions {
    /// Upstreams as PROVIDER/MODEL. Several are interleaved and compared.
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// A model of the configuration, through its policy; with --url the name that the server knows. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub model: Vec<String>,
    /// With --model: this policy instead of the model's. Several are interleaved and compared.
    #[arg(long, value_name = "POLICY", requires = "model")]
    pub policy: Vec<String>,
    /// Any server, with its version path, such as http://127.0.0.1:8000/v1. No configuration is needed.
    #[arg(long, value_name = "URL", conflicts_with_all = ["targets", "policy"], requires = "model")]
    pub url: Option<String>,
    /// With --url: its dialect, openai | responses | anthropic | gemini | bedrock | ollama.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub dialect: Option<String>,
    /// With --url: the environment variable that holds its key.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub key_env: Option<String>,

    /// Closed loop: so many users at once, each waiting for its answer; a level for each number. 1,10,25,50 by default.
    #[arg(long, value_name = "N,…", allow_negative_numbers = true, value_delimiter = ',', value_parser = |text: &str| within(text, 1..=USERS_MAX), help_heading = "Load")]
    pub concurrency: Vec<usize>,
    /// Open loop: requests per second, whatever comes back; a level for each rate.
    #[arg(long, value_name = "R,…", allow_negative_numbers = true, value_delimiter = ',', value_parser = rate, conflicts_with = "concurrency", help_heading = "Load")]
    pub request_rate: Vec<f64>,
    /// Open loop: how arrivals are spread; poisson if not given.
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
    pub arrivals: Option<ArrivalsOption>,
    /// Open loop: an arrival that finds so many in flight is dropped, counted, and not good. 10000 if not given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=USERS_MAX), help_heading = "Load")]
    pub in_flight_max: Option<usize>,
    /// Search the highest rate at which --attain of the requests meet every target of --slo.
    #[arg(long, value_enum, requires = "slo", conflicts_with_all = ["concurrency", "request_rate"], help_heading = "Load")]
    pub find: Option<FindOption>,
    /// Targets, all to be met at once: ttft=500ms,tpot=50ms,e2e=10s. In an open loop they count from the scheduled time.
    #[arg(long, value_name = "TARGETS", value_parser = slo, help_heading = "Load")]
    pub slo: Option<LoadSlo>,
    /// The share of requests for --find.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = |text: &str| within(text, 0.5..=0.999), help_heading = "Load")]
    pub attain: f64,
    /// Length of a stage; of --find, the longest trial.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Load")]
    pub duration: Option<Duration>,
    /// Requests of a stage at most.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=2_000_000_usize), help_heading = "Load")]
    pub requests: Option<usize>,
    /// The beginning of a stage that is left out. Found by itself if not given.
    #[arg(long, value_name = "DURATION", value_parser = |text: &str| duration_within(text, Duration::ZERO..=DURATION_MAX), help_heading = "Load")]
    pub warm_up: Option<Duration>,

    /// Lengths of prompt and answer: chat (500/200), 1k (1000/1000), 10k (10000/1500), 10k1k, 100k (100000/2000), ping (200/16).
    #[arg(long, value_name = "NAME", default_value = "chat", help_heading = "Requests")]
    pub workload: String,
    /// Tokens of a prompt, instead of the workload's.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=TOKENS_MAX), help_heading = "Requests")]
    pub input_tokens: Option<u32>,
    /// max_tokens of a request, instead of the workload's.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=TOKENS_MAX), help_heading = "Requests")]
    pub output_tokens: Option<u32>,
    /// Prompts of your own, one JSON object per line: {"prompt": "…"}, or {"messages": […]} with any other members of a request.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_tokens", "prefix"], help_heading = "Requests")]
    pub prompts: Option<PathBuf>,
    /// Share of each prompt that all have in common, so that a server's prefix cache helps. Without it no two begin alike.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, 0.0..=0.99), help_heading = "Requests")]
    pub prefix: f64,
    /// Members added to each request, such as '{"ignore_eos": true}'.
    #[arg(long, value_name = "JSON", help_heading = "Requests")]
    pub body: Option<String>,
    /// Makes prompts and arrivals repeatable. Drawn by itself if not given, and told.
    #[arg(long, help_heading = "Requests")]
    pub seed: Option<u64>,

    /// USD that may be spent. Needed for hosted providers.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = |text: &str| within(text, 0.0..=1e6), help_heading = "Money")]
    pub max_cost: Option<f64>,
    /// More than 10 requests at once to a hosted provider are meant.
    #[arg(long, help_heading = "Money")]
    pub yes: bool,

    /// Exit code 3 if it holds for a stage, 4 if that cannot be decided: 'ttft_p95>800ms'. May be repeated.
    #[arg(long, value_name = "CONDITION", value_parser = fail_if, help_heading = "For CI")]
    pub fail_if: Vec<FailIf>,
    /// Compare with an earlier run (id, its beginning, or label): exit code 3 if worse, 4 if that cannot be decided.
    #[arg(long, value_name = "RUN", help_heading = "For CI")]
    pub against: Option<String>,
    /// How much worse counts as the same, such as 5%.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = margin, help_heading = "For CI")]
    pub margin: f64,

    /// The result as one JSON object.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// A name for the run.
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub label: Option<String>,
    /// Write no rows.
    #[arg(long, conflicts_with = "label", help_heading = "Output")]
    pub no_store: bool,
    /// List the runs that are stored.
    #[arg(long, exclusive = true, help_heading = "Output")]
    pub list: bool,
    /// Show a stored run (id, its beginning, or label).
    #[arg(long, value_name = "RUN", conflicts_with_all = ["targets", "model", "list"], help_heading = "Output")]
    pub show: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsOption {
    /// Exponential gaps, as of many users who know nothing of each other.
    Poisson,
    /// Equal gaps.
    Constant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindOption {
    /// Requests per second.
    Rate,
}

fn duration(text: &str) -> Result<Duration, String> {
    duration_within(text, Duration::from_millis(100)..=DURATION_MAX)
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.001..=RATE_MAX)
}

fn slo(text: &str) -> Result<LoadSlo, String> {
    LoadSlo::parse(text, any_duration)
}

fn fail_if(text: &str) -> Result<FailIf, String> {
    FailIf::parse(text, any_duration)
}

fn any_duration(text: &str) -> Result<Duration, String> {
    duration_within(text, Duration::ZERO..=DURATION_MAX)
}

fn margin(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%') {
        Some(percent) => within(percent.trim(), 0.1..=100.0).map(|percent: f64| percent / 100.0),
        None => within(text, 0.001..=1.0),
    }
}
