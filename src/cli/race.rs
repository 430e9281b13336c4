//! `photofinish race`: races run in this process, with the keys of the configuration, and drawn as they run.
//!
//! They go the same way as a client's request, so the plan, the rows and the figures are the same. No gateway has to run.

pub(super) mod answer;
mod board;
mod output;
mod picture;
mod request_template;
mod session;
mod summary;

use std::io;

use output::RaceOutput;
use request_template::RequestTemplate;
use session::RaceSession;

use super::outcome::{CommandOutcome, WrongUse};
use super::screen::ScreenSettings;
use photofinish_config::Config;

pub use request_template::RaceOptions;

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/race.txt").trim_ascii_end();

/// Runs the races. `screen`: of the terminal, asked anew whenever it is drawn on; None if output is piped. Results go to
/// `out`, and where there is no screen, what happens goes to `err`.
///
/// # Errors
/// `WrongUse`; when no upstream answered, with the reasons; when the store cannot be opened or a row not be written; those of `out`.
pub async fn run(
    config: Config,
    options: &RaceOptions,
    screen: fn() -> Option<ScreenSettings>,
    out: &mut impl io::Write,
    err: &mut impl io::Write,
) -> anyhow::Result<CommandOutcome> {
    let asked = RequestTemplate::new(&config, options, io::stdin().lock()).map_err(WrongUse)?;
    let show = RaceOutput::new(options, screen, out, err);
    RaceSession::start(config, !options.no_store, asked, show).await?.run().await
}
