//! `photofinish bench`: load against upstreams, models or any server until their curve, or the rate that they can take, is
//! known.
//!
//! The requests go through a gateway of this process, so they are measured and recorded by the definitions of production. Not
//! for the load itself: see `crate::bench`.

mod calibration;
mod find;
mod first;
mod live;
mod options;
mod output;
mod plan;
mod record;
mod session;
mod stored;
mod target;

use std::io;

use super::outcome::CommandOutcome;
use super::screen::ScreenSettings;
use crate::bench::compare::{LoadComparison, LoadVerdict};
use crate::bench::condition::{ConditionOutcome, FailIf};
use crate::bench::result::RunResult;
use crate::config::Config;
use live::LiveView;
pub use options::BenchOptions;
use plan::BenchPlan;
use session::{BenchSession, FinishedRun, wrong};
use target::BenchTargets;

/// Below the options in `--help`.
pub const EXAMPLES: &str = include_str!("help/bench.txt").trim_ascii_end();

/// Runs it. `screen`: of the terminal, asked anew whenever it is drawn on; none where output is piped. The result goes to
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
    let store = config.store.path.clone();
    if options.list {
        stored::list(&store, ScreenSettings::of_stdout(), out)?;
        return Ok(CommandOutcome::Done);
    }
    if let Some(name) = &options.show {
        let result = stored::find(&store, name)?;
        show(&result, &[], &[], options, out)?;
        return Ok(CommandOutcome::Done);
    }
    // Before a request is sent.
    let base = options.against.as_ref().map(|name| stored::find(&store, name)).transpose()?;
    let targets = BenchTargets::new(target::with_url(config, options).map_err(wrong)?, options).map_err(wrong)?;
    let plan = BenchPlan::new(options, &targets).map_err(wrong)?;
    let mut live = LiveView::new(err, screen);
    if let Some(hint) = output::hint(&plan) {
        live.say(&hint);
    }
    let margin = plan.margin;
    let session = BenchSession::start(targets, plan, !options.no_store, options.label.clone(), live).await?;
    let FinishedRun { result, interrupted, lost } = session.run().await?;
    let against = base.map_or_else(Vec::new, |base| stored::compare(&base, &result, margin));
    let conditions: Vec<(FailIf, ConditionOutcome)> =
        options.fail_if.iter().map(|condition| (condition.clone(), condition.outcome(&result.stages))).collect();
    show(&result, &conditions, &against, options, out)?;
    anyhow::ensure!(lost == 0, "{lost} rows could not be written to {}: is its disk full?", store.display());
    Ok(if interrupted { CommandOutcome::Interrupted } else { outcome(&conditions, &against, options, &result) })
}

fn show(
    result: &RunResult,
    conditions: &[(FailIf, ConditionOutcome)],
    against: &[LoadComparison],
    options: &BenchOptions,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    if options.json {
        let mut object = serde_json::to_value(result)?;
        if !against.is_empty() {
            object["against"] = serde_json::to_value(against)?;
        }
        serde_json::to_writer(&mut *out, &object)?;
        writeln!(out)?;
    } else {
        output::write(result, conditions, against, ScreenSettings::of_stdout(), out)?;
    }
    Ok(out.flush()?)
}

/// The worst of what was asked for: missed, undecided, or done.
fn outcome(
    conditions: &[(FailIf, ConditionOutcome)],
    against: &[LoadComparison],
    options: &BenchOptions,
    result: &RunResult,
) -> CommandOutcome {
    let of_comparison = |found: &LoadComparison| match found.verdict {
        LoadVerdict::Worse => ConditionOutcome::Missed,
        LoadVerdict::CannotTell { .. } => ConditionOutcome::Undecided,
        LoadVerdict::Better | LoadVerdict::Same => ConditionOutcome::Met,
    };
    let nothing_to_compare = options.against.is_some() && (against.is_empty() || !result.is_trusted());
    let each = conditions.iter().map(|(_, outcome)| *outcome).chain(against.iter().map(of_comparison));
    let worst = each.chain(nothing_to_compare.then_some(ConditionOutcome::Undecided)).max();
    match worst {
        Some(ConditionOutcome::Missed) => CommandOutcome::Missed,
        Some(ConditionOutcome::Undecided) => CommandOutcome::Undecided,
        Some(ConditionOutcome::Met) | None => CommandOutcome::Done,
    }
}
