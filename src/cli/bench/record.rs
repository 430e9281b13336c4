//! The row of a run, and what it says of itself.

use super::plan::{BenchPlan, Levels};
use crate::bench::result::RunResult;
use crate::clock::wall_micros;
use crate::history::{RunKind, RunRecord};

/// The row: when the run begins, and again when it has ended.
pub fn row(result: &RunResult, plan: &BenchPlan, ended: bool) -> RunRecord {
    let trust = match result.stages.iter().flat_map(|stage| &stage.doubts).next() {
        Some(doubt) => doubt.clone(),
        None if result.stages.is_empty() => result.cut_short.clone().unwrap_or_else(|| "no stage".to_owned()),
        None => "trusted".to_owned(),
    };
    RunRecord {
        run_id: result.run_id.clone(),
        kind: RunKind::Bench,
        label: result.label.clone(),
        started_at: result.started_at,
        ended_at: ended.then(wall_micros),
        target: result.targets.join(" "),
        spec: plan.spec().to_string(),
        machine: Some(result.machine.clone()),
        trust: ended.then_some(trust),
        cost_usd: Some(result.cost_usd.1).filter(|usd| ended && *usd > 0.0),
        result: serde_json::to_string(result).ok().filter(|_| ended),
    }
}

/// The workload and the load in words.
pub fn describe(plan: &BenchPlan) -> String {
    let workload = &plan.workload;
    let prompts = match plan.prompts.len() {
        0 => format!("{} ({} tokens in, {} out)", workload.name, workload.input_tokens, workload.output_tokens),
        given => format!("{given} given prompts, at most {} tokens out", workload.output_tokens),
    };
    let load = match &plan.levels {
        Levels::Users(_) => "closed loop",
        Levels::Rates(_) => "open loop",
        Levels::FindRate => "search for the highest rate",
    };
    format!("{prompts}, {load}")
}

/// What it runs on.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{system} {processor}, {cores} cores, photofinish {}", env!("CARGO_PKG_VERSION"))
}
