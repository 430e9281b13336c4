//! The options of `replay`: a question, and how its answer is printed.

use photofinish_lab::replay::ReplayQuestion;

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayOptions {
    #[command(flatten)]
    pub question: ReplayQuestion,
    /// Every figure with where it lies, and what is known of each upstream.
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// How it is played, and what cannot be known.
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
}

impl ReplayOptions {
    /// An error in the combination of valid options.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        self.question.problem(now_us)
    }
}
