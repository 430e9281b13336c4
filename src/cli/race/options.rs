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
    /// Race these instead of the model's: provider/model, with commas between. Without --model they are the model.
    #[arg(long, value_name = "UPSTREAMS")]
    pub upstreams: Option<String>,
    /// Another policy than the model's.
    #[arg(long)]
    pub policy: Option<String>,
    /// For hedge: the delay before the next attempt starts, such as 250ms, or a quantile such as p95.
    #[arg(long, value_name = "DELAY")]
    pub hedge_after: Option<String>,
    /// Attempts that may start, retries included.
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<String>,
    /// Length of the answer, in tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<PromptText>,
    /// Use this user's keys, and record the race under this name.
    #[arg(long)]
    pub user: Option<String>,
    /// Number of races, one after the other, 1 to 1000; prints figures instead of answers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(TIMES_MAX)))]
    pub times: u16,
    /// One object for each race, one per line, for programs.
    #[arg(long)]
    pub json: bool,
    /// Write no rows.
    #[arg(long)]
    pub no_store: bool,
}

/// Text that may be a prompt, so `Debug` does not show it.
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
