//! `photofinish race`: races run in this process, with the keys of the configuration, and drawn as they run.
//!
//! They go the same way as a client's request, so the plan, the rows and the figures are the same. No gateway has to run.

pub(super) mod answer;
mod board;
mod events;
mod feed;
mod finished;
mod output;
mod picture;
mod request_template;
mod session;
mod summary;
mod text;

use std::fmt;
use std::io;

pub use super::history::ScreenSettings;

use crate::config::Config;
use output::RaceOutput;
use request_template::RequestTemplate;
use session::RaceSession;

/// Races of one command.
pub const TIMES_MAX: u16 = 1_000;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct RaceOptions {
    /// What to ask; `-` reads it from standard input.
    pub prompt: PromptText,
    /// Of the configuration: a model or an alias; or upstreams as provider/model, with commas between.
    #[arg(long)]
    pub model: Option<String>,
    /// Race these instead of the model's: provider/model, with commas between. Without --model it names the model too.
    #[arg(long, value_name = "UPSTREAMS")]
    pub upstreams: Option<String>,
    /// Another policy than the model's.
    #[arg(long)]
    pub policy: Option<String>,
    /// For the policy hedge: how long each attempt has before the next one starts, such as 250ms, or a quantile such as p95.
    #[arg(long, value_name = "DELAY")]
    pub hedge_after: Option<String>,
    /// Attempts that may be started, retries included.
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<String>,
    /// Length of the answer, in tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<PromptText>,
    /// Ask as this user of the configuration: with their keys, and under their name in the history.
    #[arg(long)]
    pub user: Option<String>,
    /// Run so many races, one after the other, and tell the figures instead of the answers; 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(TIMES_MAX)))]
    pub times: u16,
    /// An object for each race, one in a line, for programs.
    #[arg(long)]
    pub json: bool,
    /// Leave the history as it is.
    #[arg(long)]
    pub no_store: bool,
}

/// Below the options in `--help`.
pub const EXAMPLES: &str = "\
Examples:
  photofinish race \"Say hello\" --model demo                     drawn as it runs
  photofinish race \"Say hello\" --model demo --policy hedge --hedge-after 200ms
  photofinish race - --model demo < prompt.txt > answer.txt     the answer alone in the file
  photofinish race \"Say hello\" --upstreams groq/llama-3.3-70b-versatile,cerebras/llama-3.3-70b
  photofinish race \"Say hello\" --model demo --times 50 --max-tokens 20   who is fast, and at what cost
  photofinish race \"Say hello\" --model demo --json --no-store | jq .race.winner";

/// Words of the user's. Not shown by `Debug`: they may be a prompt.
#[derive(Clone)]
pub struct PromptText(pub String);

/// How the command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// A race had an answer.
    Answered,
    /// Nothing was tried; why, in words.
    WrongUse(String),
    /// By a signal; all that ran was dropped and recorded.
    Interrupted,
}

/// Runs the races. `screen`: of the terminal, asked anew whenever it is drawn on; none where output is piped. Results go to
/// `out`, and where there is no screen, what happens goes to `err`.
///
/// # Errors
/// When no upstream answered, with the reasons; when the store cannot be opened or a row not be written; those of `out`.
pub async fn run(
    config: Config,
    options: &RaceOptions,
    screen: fn() -> Option<ScreenSettings>,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<CommandOutcome> {
    let asked = match RequestTemplate::new(&config, options, io::stdin().lock()) {
        Ok(asked) => asked,
        Err(problem) => return Ok(CommandOutcome::WrongUse(problem)),
    };
    let show = RaceOutput::new(options, screen, out, err);
    RaceSession::start(config, !options.no_store, asked, show).await?.run(options.times).await
}

impl From<String> for PromptText {
    fn from(text: String) -> PromptText {
        PromptText(text)
    }
}

impl fmt::Debug for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}
