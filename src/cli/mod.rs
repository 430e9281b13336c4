//! The command line. Output is for people on a terminal and plain when piped; errors go to standard error; exit codes are
//! 0, 1 (it failed) and 2 (wrong use, or a bad configuration).

pub mod check;
pub mod history;
pub mod plot;
pub mod providers;
pub mod race;
pub mod replay;
pub mod routing;
pub mod simulate;
pub mod stats;

mod serve;
mod signals;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::clock::wall_micros;
use crate::config::{self, Config, LoadError};
use crate::printable::printable_lines;
use crate::report::series::SeriesError;
use crate::shutdown::Shutdown;
use crate::telemetry::{self, LogFormat};
use race::CommandOutcome;

/// A racing LLM gateway: each request is fanned out to several providers, the answer is streamed from whichever first token
/// wins, the losers are cancelled, and every attempt leaves one row in SQLite.
#[derive(Debug, Parser)]
#[command(name = "photofinish", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    /// The configuration file.
    #[arg(long, global = true, value_name = "PATH", env = "PHOTOFINISH_CONFIG", default_value = "config.toml")]
    config: PathBuf,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  photofinish serve                       start the gateway
  photofinish check                       what is on, off and wrong in the configuration
  photofinish check --live                whether each upstream that is on answers, and how quickly
  photofinish providers                   the providers that are known without configuration
  photofinish stats --since 24h           who is fast, out of every attempt of the last day
  photofinish stats --by upstream,hour    at which hours
  photofinish stats --regressions         what is worse than in the same hours before
  photofinish history --since 24h         the same drawn over time
  photofinish race \"Hello\" --model demo   one race, drawn as it runs
  photofinish replay --policy adaptive    what another policy would have done
  photofinish routing                     whom the running gateway would choose, and why
  photofinish simulate --ttft 300ms       a provider to try things against

The log goes to standard error; PHOTOFINISH_LOG=debug shows more.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the gateway.
    ///
    /// Reloads the configuration on SIGHUP and when the file changes. SIGINT or SIGTERM ends it cleanly: running streams
    /// go on for `drain`, then the rows are flushed; a second signal ends it at once.
    Serve,
    /// Read the configuration and tell what is on, off and wrong.
    ///
    /// The exit code is 2 where the configuration cannot be used, and 1 where the database cannot: the file is another
    /// program's, damaged, or of another edition that `serve` does not upgrade. With --live it is 1 too where an upstream that is
    /// on does not answer, and 130 after Ctrl-C.
    Check(check::CheckOptions),
    /// The built-in catalogue of providers: addresses, dialects, keys, and what is known of each, with sources.
    #[command(after_help = providers::EXAMPLES)]
    Providers(providers::ProvidersOptions),
    /// Who is fast, who fails and what racing costs, per upstream or other groups, out of every recorded attempt.
    ///
    /// TTFT quantiles are Kaplan–Meier estimates: an attempt that was cut as a loser counts as "later than that".
    #[command(after_long_help = stats::HELP)]
    Stats(stats::StatsOptions),
    /// Draw a figure over time, a line for each upstream, model or user; or over the attempts in flight.
    ///
    /// Each point is one step of the same figure that `stats` tells of a whole window.
    #[command(after_help = history::EXAMPLES, args_conflicts_with_subcommands = true)]
    History(history::HistoryOptions),
    /// Run one race and draw it: each attempt with its phases, the first token, the losers; then the answer and what it cost.
    ///
    /// It asks with the keys of the configuration; no gateway has to run. The rows are kept like those of any race. Into a
    /// pipe or a file goes the answer alone, and what happens goes to standard error, a line for each event. The exit code is
    /// 1 where no upstream answered, 2 for wrong use, 130 after Ctrl-C.
    #[command(after_help = race::EXAMPLES)]
    Race(race::RaceOptions),
    /// What another policy would have done with the recorded requests, and at what cost, beside what was done.
    ///
    /// Plays the history of one model again by the real routing code, several times, with draws for what no row knows, and
    /// says how sure each figure is.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayOptions),
    /// How every upstream stands in the running gateway, and why it is chosen or not.
    ///
    /// What is predicted of each, its breaker and its cool-down, and for each model what may be spent on extras. The gateway is
    /// asked, so one must run.
    #[command(after_help = routing::EXAMPLES)]
    Routing(routing::RoutingOptions),
    Simulate(simulate::SimulateOptions),
}

/// What `check` ends with where `serve` could not use the database.
const UNUSABLE: &str = "the database cannot be used: see above";
/// As shells have it for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// A thread for blocking work that has had none for so long ends. They take turns, so at tokio's ten seconds a little work keeps all
/// that a burst has started, each with memory of its own.
const IDLE_THREAD_FOR: Duration = Duration::from_millis(500);

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let problem = match &cli.command {
        Command::Stats(options) => Some("stats").zip(options.question.problem(wall_micros())),
        Command::History(options) => Some("history").zip(options.problem(wall_micros())),
        Command::Replay(options) => Some("replay").zip(options.problem(wall_micros())),
        _ => None,
    };
    if let Some((command, problem)) = problem {
        wrong_use(command, problem).exit();
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = match builder.enable_all().thread_keep_alive(IDLE_THREAD_FOR).build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot start")),
    };
    let code = runtime.block_on(run(cli));
    // A look-up of a name may still block a thread; nobody waits for it.
    runtime.shutdown_background();
    code
}

/// As clap tells it, with the usage of that command.
fn wrong_use(command: &str, problem: String) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(ErrorKind::ValueValidation, problem),
        None => cli.error(ErrorKind::ValueValidation, problem),
    }
}

async fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Simulate(options) => {
            telemetry::start(telemetry::DEFAULT, LogFormat::Text);
            let shutdown = Shutdown::new();
            let serving = async {
                let result = simulate::run(options, shutdown.clone()).await;
                shutdown.cancel();
                result
            };
            // Not a task of `shutdown`: that waits for the end of its tasks, and this one for a second signal.
            tokio::join!(serving, signals::forward(shutdown.clone())).0
        }
        // Where it is said which gateway is meant, the configuration is not looked at.
        Command::Routing(options) if let Some(at) = options.url.clone() => {
            routing::run(&at, &options, history::ScreenSettings::of_stdout(), &mut io::stdout().lock()).await
        }
        Command::Check(check::CheckOptions { schema: true, .. }) => {
            io::stdout().lock().write_all(config::schema().as_bytes()).map_err(anyhow::Error::from)
        }
        // Works without a configuration too.
        Command::Providers(options) => {
            let config = match config::load(&cli.config) {
                Ok(config) => Some(config),
                Err(LoadError::Read { path, source }) if source.kind() == io::ErrorKind::NotFound => {
                    report(&format!("{} is not there: this is the catalogue alone", path.display()));
                    None
                }
                Err(error) => return bad_config(&error),
            };
            providers::run(config.as_ref(), &options, &mut io::stdout().lock())
        }
        command => {
            let config = match config::load(&cli.config) {
                Ok(config) => config,
                Err(error) => return bad_config(&error),
            };
            // Lines of the log would break the picture, which shows failures itself.
            let quiet = matches!(command, Command::Race(_) | Command::Check(check::CheckOptions { live: true, .. }));
            telemetry::start(if quiet { "error" } else { telemetry::DEFAULT }, config.server.log);
            match &command {
                Command::Race(options) => return run_race(config, options).await,
                Command::Check(check::CheckOptions { live: true, .. }) => return run_live_check(config).await,
                _ => {}
            }
            with_config(command, config).await
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Somebody piped us into `head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if matches!(error.downcast_ref(), Some(SeriesError::Steps(_))) => {
            report(&format!("error: {error}"));
            ExitCode::from(2)
        }
        Err(error) if error.is::<replay::UnknownModel>() || error.is::<providers::UnknownProvider>() => {
            report(&format!("error: {error}"));
            ExitCode::from(2)
        }
        Err(error) => fail(&error),
    }
}

async fn with_config(command: Command, config: Config) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match command {
        Command::Serve => {
            drop(out);
            serve::run(config).await
        }
        Command::Check(_) => {
            let usable = check::render(&config, &mut out)?;
            out.flush()?;
            anyhow::ensure!(usable, UNUSABLE);
            Ok(())
        }
        Command::Stats(options) => {
            let width = io::stdout().is_terminal().then(|| comfy_table::Table::new().width().unwrap_or(80));
            stats::run(&config.store.path, &options, width, &mut out)
        }
        Command::History(options) => history::run(
            &config.store.path,
            &options,
            history::ScreenSettings::of_stdout(),
            &mut out,
            &mut io::stderr(),
        ),
        Command::Replay(options) => {
            let width = io::stdout().is_terminal().then(|| comfy_table::Table::new().width().unwrap_or(80));
            let mut stderr = io::stderr();
            let err = stderr.is_terminal().then_some(&mut stderr as &mut dyn Write);
            replay::run(&config, &options, width, &mut out, err)
        }
        Command::Routing(options) => {
            let at = routing::GatewayAddress::listening(&config.server.listen, config.server.tls.is_some())?;
            routing::run(&at, &options, history::ScreenSettings::of_stdout(), &mut out).await
        }
        Command::Simulate(_) | Command::Race(_) | Command::Providers(_) => Ok(()),
    }
}

async fn run_race(config: Config, options: &race::RaceOptions) -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr());
    let ended = race::run(config, options, race::ScreenSettings::of_terminal, &mut out, &mut err).await;
    drop(out);
    match ended {
        Ok(CommandOutcome::Answered) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(CommandOutcome::WrongUse(problem)) => {
            report(&wrong_use("race", problem).to_string());
            ExitCode::from(2)
        }
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// What `check` tells, and then who answers.
async fn run_live_check(config: Config) -> ExitCode {
    let mut out = io::stdout().lock();
    let colour = history::ScreenSettings::of_stdout().colour;
    let checked = async {
        let usable = check::render(&config, &mut out)?;
        let ended = check::live::run(config, colour, &mut out).await?;
        out.flush()?;
        anyhow::ensure!(usable, UNUSABLE);
        Ok(ended)
    };
    match checked.await {
        Ok(check::live::LiveOutcome::Well) => ExitCode::SUCCESS,
        Ok(check::live::LiveOutcome::Failed) => ExitCode::FAILURE,
        Ok(check::live::LiveOutcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn bad_config(error: &LoadError) -> ExitCode {
    report(&format!("{error}"));
    ExitCode::from(2)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    report(&format!("photofinish: {error:#}"));
    ExitCode::FAILURE
}

fn report(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}
