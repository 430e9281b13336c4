//! How a command ends.

use std::process::ExitCode;

/// The end of a command that has printed everything else itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    Done,
    /// It failed, and said why.
    Failed,
    /// A target that was asked for is missed.
    Missed,
    /// Whether it is missed cannot be decided.
    Undecided,
    /// By a signal.
    Interrupted,
}

/// Wrong use that only the configuration shows: nothing was tried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUse(pub String);

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> ExitCode {
        match outcome {
            CommandOutcome::Done => ExitCode::SUCCESS,
            CommandOutcome::Failed => ExitCode::FAILURE,
            CommandOutcome::Missed => ExitCode::from(3),
            CommandOutcome::Undecided => ExitCode::from(4),
            // As shells have it for a program that SIGINT ended.
            CommandOutcome::Interrupted => ExitCode::from(130),
        }
    }
}
