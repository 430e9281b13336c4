//! The options of `bench`. Not for what they mean together: see `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};

use photofinish_config::units::{duration_within, within};
use photofinish_lab::bench::block::Arrivals;
use photofinish_lab::bench::condition::FailIf;
use photofinish_lab::bench::measured::LoadSlo;
use photofinish_lab::bench::prompt::TOKENS_MAX;

/// Users of a closed loop, or requests in flight, at most.
pub const USERS_MAX: usize = 100_000;
/// Arrivals per second at most.
pub const RATE_MAX: f64 = 100_000.0;
/// How long a stage of a benchmark may take.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How much worse counts as the same, if it is not said.
const MARGIN: f64 = 0.05;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
#[command(group(ArgGroup::new("sending").multiple(true).args(SENDING)))]
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
    /// With --url: its dialect, openai | responses | anthropic | gemini | bedrock | ollama. Of a known address the catalogue's.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub dialect: Option<String>,
    /// With --url: the environment variable that holds its key.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub key_env: Option<String>,
    /// With --url: its price, input and output, USD per million tokens. A known provider's is that of the catalogue.
    #[arg(long, value_name = "IN/OUT", value_parser = price, requires = "url")]
    pub price: Option<(f64, f64)>,

    /// Closed loop: this number of users at once, each waiting for its answer; a level for each number. 1,10,25,50 by default.
    #[arg(long, value_name = "N,…", allow_negative_numbers = true, value_delimiter = ',', value_parser = |text: &str| within(text, 1..=USERS_MAX), help_heading = "Load")]
    pub concurrency: Vec<usize>,
    /// Open loop: requests per second, whatever comes back; a level for each rate.
    #[arg(long, value_name = "R,…", allow_negative_numbers = true, value_delimiter = ',', value_parser = rate, conflicts_with = "concurrency", help_heading = "Load")]
    pub request_rate: Vec<f64>,
    /// Open loop: how arrivals are spread; poisson if not given.
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
    pub arrivals: Option<Arrivals>,
    /// Open loop: an arrival that finds this number in flight is dropped, counted, and not good. 10000 if not given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = |text: &str| within(text, 1..=USERS_MAX), help_heading = "Load")]
    pub in_flight_max: Option<usize>,
    /// Search the highest rate at which --attain of the requests meet every target of --slo.
    #[arg(long, value_enum, requires = "slo", conflicts_with_all = ["concurrency", "request_rate"], help_heading = "Load")]
    pub find: Option<FindOption>,
    /// Targets, all to be met at once: ttft=500ms,tpot=50ms,e2e=10s. In an open loop they count from the scheduled time.
    #[arg(long, value_name = "TARGETS", value_parser = slo, help_heading = "Load")]
    pub slo: Option<LoadSlo>,
    /// The share of requests for --find.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, requires = "find", value_parser = |text: &str| within(text, 0.5..=0.999), help_heading = "Load")]
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

    /// Lengths of prompt and answer: chat (500/200), 1k (1000/1000), 10k (10000/1500), 10k1k, 100k (100000/2000), ping (200/16); agent: sessions of 20 to 200 turns, 5k to 131k in, 150 out.
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
    /// Conversations instead of single prompts, one JSON object per message: conversation_id, turn, role, content. Each user plays one after another; --workload agent has made ones.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompts", "input_tokens", "prefix", "request_rate", "find"], help_heading = "Requests")]
    pub sessions: Option<PathBuf>,
    /// Share of each prompt that all have in common, so that a server's prefix cache helps. Without it no two begin alike.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = |text: &str| within(text, 0.0..=0.99), help_heading = "Requests")]
    pub prefix: f64,
    /// Members added to each request, such as '{"ignore_eos": true}'.
    #[arg(long, value_name = "JSON", help_heading = "Requests")]
    pub body: Option<String>,
    /// Repeats the words of prompts and the arrivals. Drawn if not given, and shown.
    #[arg(long, help_heading = "Requests")]
    pub seed: Option<u64>,

    /// USD that may be spent, if no answer costs over eight times what was asked for. Needed for hosted providers.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = |text: &str| within(text, 0.0..=1e6), help_heading = "Money")]
    pub max_cost: Option<f64>,
    /// More than 10 requests at once to a hosted provider are meant.
    #[arg(long, help_heading = "Money")]
    pub yes: bool,

    /// Exit code 3 if it holds for a stage, 4 if that cannot be decided: 'ttft_p95>800ms'. Of a search: 'rate<8', 'goodput<8'. May be repeated.
    #[arg(long, value_name = "CONDITION", value_parser = fail_if, help_heading = "For CI")]
    pub fail_if: Vec<FailIf>,
    /// Compare with an earlier run of the same work (id, its beginning, or label): exit code 3 if worse, 4 if that cannot be decided.
    #[arg(long, value_name = "RUN", help_heading = "For CI")]
    pub against: Option<String>,
    /// With --against or several targets: how much worse counts as the same; 5% if not given.
    #[arg(long, value_name = "SHARE", value_parser = margin, help_heading = "For CI")]
    pub margin: Option<f64>,

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
    #[arg(long, conflicts_with_all = ["sending", "fail_if", "against", "margin", "show"], help_heading = "Output")]
    pub list: bool,
    /// Show a stored run (id, its beginning, or label). --fail-if and --against judge it.
    #[arg(long, value_name = "RUN", conflicts_with = "sending", help_heading = "Output")]
    pub show: Option<String>,
}

/// The arguments of a run that sends something: all but those of its verdict and its output.
const SENDING: [&str; 29] = [
    "targets",
    "model",
    "policy",
    "url",
    "dialect",
    "key_env",
    "concurrency",
    "request_rate",
    "arrivals",
    "in_flight_max",
    "find",
    "slo",
    "attain",
    "duration",
    "requests",
    "warm_up",
    "workload",
    "input_tokens",
    "output_tokens",
    "prompts",
    "sessions",
    "prefix",
    "body",
    "seed",
    "max_cost",
    "price",
    "yes",
    "label",
    "no_store",
];

impl BenchOptions {
    /// How much worse counts as the same.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(MARGIN)
    }

    /// # Errors
    /// In words, if a condition or a margin is for another kind of run.
    pub fn check_verdicts(&self, targets: usize) -> Result<(), String> {
        if self.margin.is_some() && self.against.is_none() && targets < 2 {
            return Err("--margin is for a comparison: give --against, or several targets".to_owned());
        }
        self.fail_if.iter().try_for_each(|condition| condition.check(self.find.is_some(), self.slo.is_some()))
    }
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

fn price(text: &str) -> Result<(f64, f64), String> {
    let (input, output) = text.split_once('/').ok_or("expected IN/OUT, such as 0.5/1.5")?;
    Ok((within(input, 0.0..=1e6)?, within(output, 0.0..=1e6)?))
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

/// The options alone, for tests.
#[cfg(test)]
#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    options: BenchOptions,
}

/// What `bench` reads from these words.
#[cfg(test)]
pub fn typed(words: &[&str]) -> Result<BenchOptions, String> {
    let words = std::iter::once(&"bench").chain(words);
    <Cli as clap::Parser>::try_parse_from(words).map(|cli| cli.options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn read(line: &str) -> Result<BenchOptions, String> {
        typed(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn a_stored_run_takes_no_option_of_a_new_one() {
        let others = ["json", "list", "show", "fail_if", "against", "margin", "help"];
        let command = Cli::command();
        let ids: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        let mut all: Vec<&str> = SENDING.into_iter().chain(others.into_iter().filter(|id| ids.contains(id))).collect();
        let mut known = ids;
        all.sort_unstable();
        known.sort_unstable();
        assert_eq!(all, known, "an option is of a new run, or of what is said of one");
        for line in ["--list --json", "--show main --json", "--show main --against base --margin 3% --fail-if rate<8"] {
            assert!(read(line).is_ok(), "{line}: {}", read(line).unwrap_err());
        }
        for line in [
            "--list --seed 1",
            "--list --fail-if rate<8",
            "--list --show main",
            "--show main --label x",
            "--show main a/m",
        ] {
            assert!(read(line).unwrap_err().contains("cannot be used with"), "{line}");
        }
    }

    #[test]
    fn no_option_is_read_and_ignored() {
        assert!(read("a/m --attain 0.8").unwrap_err().contains("--find"));
        assert!(read("a/m --find rate --slo ttft=1s").is_ok(), "its default needs nothing");
        let check = |line: &str, targets| read(line).unwrap().check_verdicts(targets).err().unwrap_or_default();
        assert!(check("a/m --margin 3%", 1).contains("--margin is for a comparison"));
        assert_eq!(check("a/m b/m --margin 3%", 2), "");
        assert_eq!(check("a/m --margin 3% --against main", 1), "");
        assert!(check("a/m --fail-if rate<8", 1).contains("--find rate"));
    }
}
