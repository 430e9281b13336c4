//! The options of `race`. Not for their request: see `request_template`.

use std::fmt;

/// Races of one command.
pub const TIMES_MAX: u16 = 1_000;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct RaceOptions {
    /// What to ask; `-` reads it from standard input.
    pub prompt: PromptText,
    /// A model or an alias of the configuration, or upstreams as provider/model with commas between. Not needed where only
    /// one model can be asked, or only one can race.
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

/// Words of the user's. Not shown by `Debug`: they may be a prompt.
#[derive(Clone)]
pub struct PromptText(pub String);

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
