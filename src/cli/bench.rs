//! `photofinish bench`: load against upstreams, models or any server until their curve, or the rate that they can take, is
//! known.
//!
//! The requests go through a gateway of this process, so they are measured and recorded by the definitions of production. Not
//! for the load itself: see `photofinish_lab::bench`.

mod live;
mod options;
mod output;
mod plan;
mod record;
mod session;
mod target;
mod verdict;

use std::io;

use live::LiveView;
use plan::BenchPlan;
use session::{BenchSession, FinishedRun, wrong};
use target::BenchTargets;
use verdict::RunVerdict;

use super::outcome::CommandOutcome;
use super::screen::ScreenSettings;
use super::signals;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Config;
use photofinish_lab::bench::result::{self, RunResult};

pub use options::BenchOptions;

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/bench.txt").trim_ascii_end();

/// Runs it. `screen`: of the terminal, asked anew whenever it is drawn on; None if output is piped. The result goes to
/// `out`, and how far it is to `err`.
///
/// # Errors
/// `WrongUse`; when a target does not answer, the store cannot be opened or a row not be written; those of `out`.
pub async fn run(
    config: Config,
    options: &BenchOptions,
    screen: fn() -> Option<ScreenSettings>,
    out: &mut impl io::Write,
    err: &mut (impl io::Write + Send),
) -> anyhow::Result<CommandOutcome> {
    let store = config.store.address.clone();
    if options.list {
        verdict::list(&store, options.json, ScreenSettings::of_stdout(), out)?;
        return Ok(CommandOutcome::Done);
    }
    let base = options.against.as_ref().map(|name| verdict::find(&store, name)).transpose()?;
    if let Some(name) = &options.show {
        let result = verdict::find(&store, name)?;
        let verdict = RunVerdict::new(&result, base.as_ref(), options);
        show(&result, &verdict, options, out)?;
        return Ok(verdict.outcome());
    }
    let targets = BenchTargets::new(target::with_url(config, options).map_err(wrong)?, options).map_err(wrong)?;
    let plan = BenchPlan::new(options, &targets).map_err(wrong)?;
    options.check_verdicts(targets.targets.len()).map_err(wrong)?;
    let asked = record::asked(&plan, &targets, options.label.clone());
    // Before a request is sent.
    if let Some(problem) = base.as_ref().and_then(|base| result::against_problem(base, &asked, &plan.loads())) {
        return Err(wrong(problem));
    }
    let mut live = LiveView::new(err, screen);
    if let Some(hint) = output::hint(&plan) {
        live.say(&hint);
    }
    let interrupt = Shutdown::new();
    interrupt.spawn(signals::forward(interrupt.clone()));
    let session = async {
        let session = BenchSession::start(targets, plan, asked, !options.no_store, live, interrupt.clone()).await?;
        session.run().await
    };
    let FinishedRun { result, interrupted, lost } = tokio::select! {
        finished = session => finished?,
        // The second signal: nothing more is written or printed.
        () = interrupt.cancelled() => return Ok(CommandOutcome::Interrupted),
    };
    let verdict = RunVerdict::new(&result, base.as_ref(), options);
    match show(&result, &verdict, options, out) {
        // The reader of the output has ended; the exit code still counts.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        shown => shown?,
    }
    anyhow::ensure!(lost == 0, "{lost} rows could not be written to {}: is its disk full?", store);
    Ok(if interrupted { CommandOutcome::Interrupted } else { verdict.outcome() })
}

fn show(result: &RunResult, verdict: &RunVerdict, options: &BenchOptions, out: &mut impl io::Write) -> io::Result<()> {
    if options.json {
        let mut object = serde_json::to_value(result)?;
        if let (Some(object), serde_json::Value::Object(verdict)) =
            (object.as_object_mut(), serde_json::to_value(verdict)?)
        {
            object.extend(verdict);
        }
        writeln!(out, "{object}")?;
    } else {
        output::write(result, verdict, ScreenSettings::of_stdout(), out)?;
    }
    out.flush()
}
