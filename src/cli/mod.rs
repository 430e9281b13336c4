//! The command line. Output is for people on a terminal and plain when piped; errors go to standard error; exit codes are
//! 0, 1 (it failed) and 2 (wrong use, or a bad configuration).

pub mod accounts;
pub mod bench;
pub mod check;
pub mod env;
pub mod history;
pub mod import;
pub mod incidents;
pub mod init;
pub mod login;
mod migrate;
pub mod models;
pub mod packaged;
pub mod plot;
pub mod probe;
pub mod providers;
pub mod race;
pub mod replay;
mod replicas;
pub mod report;
pub mod routing;
pub mod simulate;
pub mod stats;
pub mod usage;
pub mod verify;

mod first_token;
mod no_keys;
mod outcome;
mod overview;
mod provider_state;
mod screen;
mod serve;
mod sheet;
mod signals;
mod text;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use flate2::read::GzDecoder;
use tracing::level_filters::LevelFilter;

use no_keys::NoKeys;
use outcome::{CommandOutcome, WrongUse};
use photofinish_base::clock::wall_micros;
use photofinish_base::machine;
use photofinish_base::printable::printable_lines;
use photofinish_base::shutdown::Shutdown;
use photofinish_base::telemetry::{self, LogFormat};
use photofinish_config::{self as config, Config, ConfigSource, LoadError};
use photofinish_history::report::series::SeriesError;
use photofinish_history::store::AccountKind;
use photofinish_serve::accounts::AccountRequest;
use screen::ScreenSettings;
use text::write_folded;

/// A racing LLM gateway: each request is fanned out to several providers, the answer is streamed from whichever first token
/// wins, the losers are cancelled, and every attempt leaves one row in SQLite.
#[derive(Debug, Parser)]
#[command(name = "photofinish", disable_version_flag = true, max_term_width = 80, after_help = EXAMPLES)]
struct Cli {
    /// The configuration file. Without one: config.toml in this directory, or else the keys in the environment.
    #[arg(long, global = true, value_name = "PATH", env = "PHOTOFINISH_CONFIG")]
    config: Option<PathBuf>,

    /// Without a command: `serve`. Without a key and a file too, it serves the model servers of this machine, or simulated providers.
    #[command(subcommand)]
    command: Option<Command>,

    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,

    /// With --version: also the commit, its day, the target and what is built in.
    #[arg(long, requires = "version")]
    verbose: bool,
}

const KEY_EXAMPLES: &str = include_str!("help/key.txt").trim_ascii_end();
const EXAMPLES: &str = include_str!("help/photofinish.txt").trim_ascii_end();
/// `config.schema.json` in gzip.
const CONFIG_SCHEMA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/config.schema.json.gz"));

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a first configuration, out of the keys that are set and the model servers on this machine.
    ///
    /// It never replaces a file. On a terminal it asks before it looks for servers. Without any key or server the
    /// configuration races simulated providers.
    #[command(after_help = init::EXAMPLES)]
    Init(init::InitOptions),
    /// Write a configuration out of another gateway's file.
    ///
    /// It says by line what has no equal, never replaces a file and copies no key: `${VARIABLE}` takes its place.
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportOptions),
    /// Start the gateway.
    ///
    /// Apps ask it under /v1; people open /dashboard in a browser.
    ///
    /// Reloads the configuration on SIGHUP and when the file changes, once two looks have found the same. It takes nothing that
    /// drops all or most users or models, or that looks cut, before a person has accepted it. SIGINT or SIGTERM ends it cleanly: what has come is answered within
    /// `drain`, then the rows are flushed; a second signal ends it at once. It takes the sockets that systemd passes instead of
    /// opening its own.
    Serve(serve::ServeOptions),
    /// Read the configuration and print what is on, off and wrong, and where the database is.
    ///
    /// The exit code is 2 for an unusable configuration, and 1 for an unusable database: another program's, a damaged one,
    /// or one of a version that `serve` does not upgrade. With --live it is also 1 if an upstream that is on does not
    /// answer, and 130 after Ctrl-C.
    Check(check::CheckOptions),
    /// What is served, by which upstreams, and at what price.
    Models(models::ModelsOptions),
    /// The built-in catalogue of providers, each fact with its source.
    #[command(after_help = providers::EXAMPLES)]
    Providers(providers::ProvidersOptions),
    /// Who is fast, who fails and what racing costs.
    ///
    /// One line for each upstream, or for other groups, out of every recorded attempt. TTFT quantiles are Kaplan–Meier
    /// estimates: an attempt that was cut as a loser counts as "later than that".
    #[command(after_long_help = stats::HELP)]
    Stats(stats::StatsOptions),
    /// Draw a figure over time, or over the attempts in flight.
    ///
    /// A line for each upstream, model or user. Each point is one step of the figure that `stats` shows for a whole window.
    #[command(after_help = history::EXAMPLES)]
    History(history::HistoryOptions),
    /// When upstreams failed or were slow.
    ///
    /// The running gateway finds incidents by itself, within minutes, and writes them into the database. Newest first.
    Incidents(incidents::IncidentsOptions),
    /// Run one race and draw it; then print the answer and what it cost.
    ///
    /// It uses the keys of the configuration; no gateway has to run. The race is recorded like any other. In a pipe or a
    /// file the answer alone goes to standard output, and a line for each event to standard error. The exit code is 1 if
    /// no upstream answered, 2 for wrong use, 130 after Ctrl-C.
    #[command(after_help = race::EXAMPLES)]
    Race(race::RaceOptions),
    /// What another policy would have done with the recorded requests.
    ///
    /// Plays the history of one model again with the real routing code, several times, with draws for what no row knows,
    /// and says what it would have gained and cost.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayOptions),
    /// What probes and benchmarks measured, with intervals and the method, as a page to publish.
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportOptions),
    /// The state of each upstream in the running gateway, and why it is chosen.
    ///
    /// Its prediction, its breaker and its cool-down, and for each model what may be spent on extras. It asks the gateway,
    /// so one must run.
    #[command(after_help = routing::EXAMPLES)]
    Routing(routing::RoutingOptions),
    /// Bring the tables of the database up to date, or make them.
    ///
    /// `serve` does it too, unless the configuration says `migrate = "check"` in `[store]`.
    Migrate,
    /// The gateways that share the database: who lives, with which version, load, clock and configuration.
    Replicas(replicas::ReplicasOptions),
    /// Copy a history from an SQLite file into another database, such as Postgres.
    ///
    /// Rows, hourly figures, runs, incidents, keys, budgets and the audit. It can be interrupted and repeated: what is there already
    /// stays as it is. The gateway may run meanwhile.
    Copy(migrate::CopyOptions),
    /// The variables that point a shell, or one app, at the running gateway.
    ///
    /// Lines for `eval`. The gateway must answer; its errors go to standard error, and then nothing is printed.
    #[command(after_help = env::EXAMPLES)]
    Env(env::EnvOptions),
    /// A key of one's own, from the company's login: a browser confirms it.
    ///
    /// The key is printed once, on standard output; what to open on standard error. The gateway's configuration must have `[oidc]`.
    #[command(after_help = login::EXAMPLES)]
    Login(login::LoginOptions),
    /// Keys for users, made and taken back while the gateway runs.
    ///
    /// It asks the running gateway, with the token of an admin in PHOTOFINISH_TOKEN; where none runs, it works on the store.
    #[command(after_help = KEY_EXAMPLES)]
    Key(accounts::KeyOptions),
    /// Users that are made at run time. Those of the configuration are listed only.
    User(accounts::HolderOptions<accounts::UserMembers>),
    /// Teams that are made at run time: limits that several users share.
    Team(accounts::HolderOptions<accounts::TeamMembers>),
    /// What each user, team, key, model or tag used and cost.
    ///
    /// Two amounts are the bounds of what the providers can have billed. Extra: what losers cost, part of it.
    Usage(usage::UsageOptions),
    /// Who made, changed and removed teams, users and keys, newest first.
    Audit(usage::AuditOptions),
    /// Measure upstreams now with the workloads of `[probes]`, or show what the gateway will send.
    ///
    /// Each probe is a ping and then one request, read to its end, whose prompt no cache knows. It costs money, at most the
    /// day's cap of `[probes]` and --max-cost. The exit code is 1 if one was not answered.
    Probe(probe::ProbeOptions),
    /// What is exactly different between the hosts of a model: templates, contexts, switches that are ignored, broken tool calls.
    ///
    /// About 50 small requests to each host at temperature 0, of 5 to 50 tokens, 128 for calls and 512 for reasoning. It says before what
    /// that costs, and keeps what it found. The exit code is 3 when a fact differs from the reference, 1 if a host did not
    /// answer, 130 after Ctrl-C.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyOptions),
    Simulate(simulate::SimulateOptions),
    /// Measure upstreams, models or any server under load.
    ///
    /// Prompts are made and differ from their first token on. The requests go the way of production and leave rows, which
    /// `stats`, `history` and routing do not count. Stages that this machine itself slowed are not trusted. The exit code is 3
    /// if --fail-if or --against is missed, 4 if that cannot be decided, 130 after Ctrl-C.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::BenchOptions>),
    /// Whether the gateway is well, for containers and service managers: exit code 1 if it does not answer.
    Healthcheck(packaged::HealthOptions),
    /// Print the completions of a shell.
    Completions(packaged::CompletionOptions),
    /// Write the pages for `man` into a directory.
    Man(packaged::ManOptions),
}

/// The end of `check` if `serve` could not use the database.
const UNUSABLE: &str = "the database cannot be used: see above";
/// A thread without blocking work ends after this time. Threads take turns, so with tokio's ten seconds a little work would
/// keep every thread of a burst, each with its own memory.
const IDLE_THREAD_FOR: Duration = Duration::from_millis(500);

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    let cli = match typed(std::env::args_os()) {
        Ok(cli) => cli,
        // Help and the version go to standard output.
        Err(help) if !help.use_stderr() => help.exit(),
        Err(usage) => return exit_code(&usage.into()),
    };
    if cli.version {
        let written = packaged::version(cli.verbose, &mut io::stdout().lock());
        return written.map_or_else(|error| exit_code(&error.into()), |()| ExitCode::SUCCESS);
    }
    let source = ConfigSource::find(cli.config.as_deref());
    let is_bare = cli.command.is_none();
    let command = cli.command.unwrap_or_else(|| Command::Serve(serve::ServeOptions::default()));
    let problem = match &command {
        Command::Stats(options) => Some("stats").zip(options.question.problem(wall_micros())),
        Command::History(options) => Some("history").zip(options.problem(wall_micros())),
        Command::Incidents(options) => Some("incidents").zip(options.question.problem(wall_micros())),
        Command::Usage(options) => Some("usage").zip(options.question.window.problem(wall_micros())),
        Command::Report(options) => Some("report").zip(options.question.problem(wall_micros())),
        Command::Replay(options) => Some("replay").zip(options.question.problem(wall_micros())),
        _ => None,
    };
    if let Some((command, problem)) = problem {
        return exit_code(&wrong_use(command, problem).into());
    }
    if matches!(command, Command::Serve(_) | Command::Bench(_) | Command::Simulate(_)) {
        // While there is one thread. An error is reported where the limit matters.
        let _ = machine::raise_descriptors();
    }
    let mut builder = match command {
        Command::Bench(_) => photofinish_lab::bench::runtime(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = match builder.enable_all().thread_keep_alive(IDLE_THREAD_FOR).build() {
        Ok(runtime) => runtime,
        Err(error) => return exit_code(&anyhow::Error::new(error).context("cannot start")),
    };
    let code = runtime.block_on(run(command, is_bare, &source)).unwrap_or_else(|error| exit_code(&error));
    // A look-up of a name may still block a thread; the exit does not wait for it.
    runtime.shutdown_background();
    code
}

/// Reads the command line. Arguments of `models` and `history` are no arguments of their subcommands.
///
/// clap's own check, `args_conflicts_with_subcommands`, would also refuse the global `--config` before a subcommand.
fn typed(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut cli = overview::grouped(Cli::command());
    let matches = cli.try_get_matches_from_mut(words)?;
    if let Some((name, given)) = matches.subcommand()
        && let Some(action) = given.subcommand_name()
        && let Some(command) = cli.find_subcommand(name)
    {
        let was_typed = |arg: &&Arg| {
            let mut typed = given.ids().filter(|id| given.value_source(id.as_str()) == Some(ValueSource::CommandLine));
            !arg.is_global_set() && typed.any(|id| id == arg.get_id())
        };
        if let Some(arg) = command.get_arguments().find(was_typed) {
            return Err(wrong_use(name, format!("the subcommand '{action}' cannot be used with '{arg}'")));
        }
    }
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut cli))
}

/// As clap writes it, with the usage of that command.
fn wrong_use(command: &str, problem: String) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(ErrorKind::ValueValidation, problem),
        None => cli.error(ErrorKind::ValueValidation, problem),
    }
}

/// Wrong use that the command found itself, with its usage.
fn with_usage(command: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(WrongUse(problem)) => wrong_use(command, problem).into(),
        Err(error) => error,
    }
}

/// Commands that write a configuration.
async fn make_config(command: Command, source: &ConfigSource) -> anyhow::Result<()> {
    let env = |name: &str| std::env::var(name).ok();
    let path = source.file().unwrap_or(Path::new(config::USUAL_FILE));
    let (width, mut out, mut err) = (ScreenSettings::width_of_stderr(), io::stdout().lock(), io::stderr());
    match command {
        Command::Init(options) => {
            let asks = !options.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
            let mut input = io::stdin().lock();
            let input = asks.then_some(&mut input as &mut dyn BufRead);
            init::run(path, &options, &env, input, width, (&mut out, &mut err)).await
        }
        Command::Import(options) => import::run(path, &options, &env, width, (&mut out, &mut err)),
        _ => Ok(()),
    }
}

/// `is_bare`: no command was typed.
async fn run(command: Command, is_bare: bool, source: &ConfigSource) -> anyhow::Result<ExitCode> {
    match command {
        Command::Simulate(options) => {
            telemetry::start(telemetry::DEFAULT, LogFormat::Text);
            let shutdown = Shutdown::new();
            let serving = async {
                let result = simulate::run(options, shutdown.clone()).await;
                shutdown.cancel();
                result
            };
            // Not a task of `shutdown`: that waits for the end of its tasks, and this one for a second signal.
            tokio::join!(serving, signals::forward(shutdown.clone())).0?;
        }
        Command::Init(_) | Command::Import(_) => make_config(command, source).await?,
        // With --url the configuration is not read.
        Command::Routing(routing::RoutingOptions { url: Some(ref at), .. })
        | Command::Env(env::EnvOptions { url: Some(ref at), .. })
        | Command::Login(login::LoginOptions { url: Some(ref at), .. })
        | Command::Healthcheck(packaged::HealthOptions { url: Some(ref at) }) => {
            ask_gateway(&command, at, &mut io::stdout().lock()).await?;
        }
        Command::Healthcheck(_) => packaged::health_here(source).await?,
        ref command if account_request(command).is_some_and(|(_, at)| at.url.is_some()) => {
            change_accounts(None, command, &mut io::stdout().lock()).await?
        }
        Command::Check(check::CheckOptions { schema: true, .. }) => {
            io::copy(&mut GzDecoder::new(CONFIG_SCHEMA), &mut io::stdout().lock())?;
        }
        Command::Completions(options) => packaged::completions(Cli::command(), &options, &mut io::stdout().lock())?,
        Command::Man(options) => packaged::pages(Cli::command(), &options)?,
        // Works without a configuration too.
        Command::Providers(options) => {
            let config = match config::load(source) {
                Ok(config) => Some(config),
                Err(LoadError::Read { path, source }) if source.kind() == io::ErrorKind::NotFound => {
                    report(&format!("{} is not there: this is the catalogue alone", path.display()));
                    None
                }
                Err(error) => return Err(error.into()),
            };
            let width = ScreenSettings::of_stdout().columns();
            providers::run(config.as_ref(), &options, width, &mut io::stdout().lock())?;
        }
        command => {
            let listen = match &command {
                Command::Serve(options) => options.listen.as_ref(),
                _ => None,
            };
            if matches!(command, Command::Serve(_)) && source.file().is_none() {
                first_token::make(listen, is_bare, &mut io::stdout().lock(), &mut io::stderr())?;
            }
            let mut config = config::load_listening(source, listen)?;
            if config.is_without_keys() {
                config = without_keys(config, &command, is_bare).await?;
            }
            return Box::pin(with_config(command, config)).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Commands that need a running gateway, at this address.
async fn ask_gateway(command: &Command, at: &routing::GatewayAddress, out: &mut impl io::Write) -> anyhow::Result<()> {
    match command {
        Command::Routing(options) => routing::run(at, options, ScreenSettings::of_stdout(), out).await,
        Command::Env(options) => env::run(at, options, out).await.map_err(|error| with_usage("env", error)),
        Command::Healthcheck(_) => packaged::health(at).await,
        Command::Login(options) => {
            login::run(at, options, ScreenSettings::width_of_stderr(), (out, &mut io::stderr())).await
        }
        _ => Ok(()),
    }
}

/// What `key`, `user` and `team` ask, and whom. None: another command.
fn account_request(command: &Command) -> Option<(AccountRequest, &accounts::AtOptions)> {
    match command {
        Command::Key(options) => Some(options.action.request()),
        Command::User(options) => Some(options.action.request(AccountKind::User)),
        Command::Team(options) => Some(options.action.request(AccountKind::Team)),
        _ => None,
    }
}

async fn change_accounts(config: Option<&Config>, command: &Command, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Some((request, at)) = account_request(command) else { return Ok(()) };
    if let Command::Key(options) = command
        && !options.action.is_meant()?
    {
        return Ok(());
    }
    accounts::run(config, request, at, ScreenSettings::width_of_stdout(), out).await
}

/// What a command works with where there is no file and no key.
async fn without_keys(config: Config, command: &Command, is_bare: bool) -> anyhow::Result<Config> {
    match command {
        Command::Serve(_) if is_bare => {
            let mut found = init::found_here().await?;
            found.warnings.splice(..0, config.warnings);
            Ok(found)
        }
        Command::Serve(_) => Err(NoKeys(config.warnings).into()),
        // Any server, without a configuration.
        Command::Bench(options) if options.url.is_some() => Ok(config),
        Command::Race(_) | Command::Bench(_) => {
            report("no key of a provider is set and there is no config.toml: these providers are simulated");
            init::simulated()
        }
        _ => Ok(config),
    }
}

/// Asks on the terminal, where only a yes counts. `what` asks.
fn consent(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(WrongUse(format!("{what} asks before it sends, and this is no terminal: add --yes")).into());
    }
    write!(io::stderr(), "Ask them all? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Lines of the log would break its picture or its table.
fn shows_failures(command: &Command) -> bool {
    match command {
        Command::Race(_) | Command::Bench(_) | Command::Probe(_) | Command::Verify(_) => true,
        Command::Check(options) => options.live,
        _ => false,
    }
}

async fn with_config(command: Command, config: Config) -> anyhow::Result<ExitCode> {
    telemetry::start(if shows_failures(&command) { LevelFilter::ERROR } else { telemetry::DEFAULT }, config.server.log);
    let (mut out, mut err, screen) = (io::stdout().lock(), io::stderr(), ScreenSettings::of_stdout());
    match command {
        Command::Serve(options) => {
            drop(out);
            serve::run(config, options.take_over).await?;
        }
        Command::Check(options) => {
            let usable = check::render(&config, screen, &mut out)?;
            let mut outcome = CommandOutcome::Done;
            if options.live {
                let asked = check::live::run(config, &options, screen, &mut out, || consent("--all")).await;
                outcome = asked.map_err(|error| with_usage("check", error))?;
            }
            out.flush()?;
            anyhow::ensure!(usable, UNUSABLE);
            return Ok(outcome.into());
        }
        Command::Models(models::ModelsOptions { action: Some(models::ModelsAction::Update(options)), .. }) => {
            models::update::run(&config, &options, ScreenSettings::of_stdout(), &mut out).await?;
        }
        Command::Models(options) => {
            let now = models::ListedNow::ask(&config, &options).await;
            models::run(&config, &options, now.as_ref(), ScreenSettings::of_stdout(), &mut out)?;
        }
        Command::Stats(_)
        | Command::History(_)
        | Command::Incidents(_)
        | Command::Usage(_)
        | Command::Audit(_)
        | Command::Report(_)
        | Command::Replay(_)
        | Command::Migrate
        | Command::Replicas(_)
        | Command::Copy(_) => ask_database(command, &config, &mut out, &mut err)?,
        Command::Key(_) | Command::User(_) | Command::Team(_) => {
            change_accounts(Some(&config), &command, &mut out).await?;
        }
        Command::Race(options) => {
            let ended = race::run(config, &options, ScreenSettings::of_terminal, &mut out, &mut err).await;
            return ended.map(ExitCode::from).map_err(|error| with_usage("race", error));
        }
        Command::Bench(options) => {
            let ended = Box::pin(bench::run(config, &options, ScreenSettings::of_terminal, &mut out, &mut err)).await;
            return ended.map(ExitCode::from).map_err(|error| with_usage("bench", error));
        }
        Command::Probe(options) => {
            let ended = probe::run(config, &options, ScreenSettings::of_stdout(), &mut out, &mut err).await;
            return ended.map(ExitCode::from).map_err(|error| with_usage("probe", error));
        }
        Command::Verify(options) => {
            let asks = || consent("verify");
            let ended = Box::pin(verify::run(config, &options, screen, asks, &mut out, &mut err)).await;
            return ended.map(ExitCode::from).map_err(|error| with_usage("verify", error));
        }
        Command::Routing(_) | Command::Env(_) | Command::Login(_) => {
            let at = routing::GatewayAddress::listening(&config.server.listen, config.server.tls.is_some())?;
            ask_gateway(&command, &at, &mut out).await?;
        }
        Command::Init(_)
        | Command::Import(_)
        | Command::Simulate(_)
        | Command::Providers(_)
        | Command::Completions(_)
        | Command::Healthcheck(_)
        | Command::Man(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Commands that work on the database alone.
fn ask_database(command: Command, config: &Config, out: &mut impl Write, err: &mut io::Stderr) -> anyhow::Result<()> {
    match command {
        Command::Stats(mut options) => {
            options.question.figures.window.resolve_alias(config);
            stats::run(config, &options, ScreenSettings::of_stdout(), out)?;
        }
        Command::History(mut options) => {
            options.window().resolve_alias(config);
            history::run(&config.store.address, &options, ScreenSettings::of_stdout(), out, err)?;
        }
        Command::Incidents(options) => {
            incidents::run(&config.store.address, &options, ScreenSettings::width_of_stdout(), out)?;
        }
        Command::Usage(mut options) => {
            options.question.window.resolve_alias(config);
            usage::usage(config, &options, ScreenSettings::of_stdout(), out)?;
        }
        Command::Audit(options) => {
            usage::audit(&config.store.address, &options, ScreenSettings::width_of_stdout(), out)?;
        }
        Command::Migrate => migrate::migrate(config, out)?,
        Command::Replicas(options) => replicas::run(&config.store.address, &options, out)?,
        Command::Copy(options) => {
            let progress = err.is_terminal().then_some(err as &mut dyn Write);
            migrate::run(config, &options, out, progress)?;
        }
        Command::Report(options) => report::run(config, &options, ScreenSettings::width_of_stdout(), out)?,
        Command::Replay(options) => {
            let progress = err.is_terminal().then_some(err as &mut dyn Write);
            replay::run(config, &options, ScreenSettings::width_of_stdout(), out, progress)?;
        }
        _ => {}
    }
    Ok(())
}

/// Reports why a command failed.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    let is_closed_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    let is_wrong_use = error.is::<WrongUse>() || matches!(error.downcast_ref(), Some(SeriesError::Steps(_)));
    let (text, code) = match error.downcast_ref::<clap::Error>() {
        // Output was piped into a program that has ended, such as `head`.
        _ if error.downcast_ref().is_some_and(is_closed_pipe) => return ExitCode::SUCCESS,
        Some(usage) => (usage.to_string(), 2),
        None if error.is::<LoadError>() || error.is::<NoKeys>() => (error.to_string(), 2),
        None if is_wrong_use => (format!("error: {error}"), 2),
        None => (format!("photofinish: {error:#}"), 1),
    };
    report(&text);
    ExitCode::from(code)
}

fn report(text: &str) {
    // There is no other place for it if standard error is closed.
    let _ = write_folded(&printable_lines(text), ScreenSettings::width_of_stderr(), &mut io::stderr());
}

#[cfg(test)]
mod tests;
