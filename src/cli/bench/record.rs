//! The row of a run, and what it says of itself.

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

use super::plan::{BenchPlan, Levels};
use super::target::BenchTargets;
use photofinish_base::clock::wall_micros;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::record::{RunKind, RunRecord};
use photofinish_lab::bench::prompt::SessionSource;
use photofinish_lab::bench::result::{RESULT_VERSION, RunResult};

/// Bytes of a fingerprint.
const FINGERPRINT: usize = 8;

/// The result of a run before it begins: what it asks.
pub fn asked(plan: &BenchPlan, targets: &BenchTargets, label: Option<String>) -> RunResult {
    RunResult {
        version: RESULT_VERSION,
        run_id: uuid::Uuid::now_v7().to_string(),
        label,
        started_at: wall_micros(),
        targets: targets.targets.iter().map(|target| target.name.clone()).collect(),
        workload: plan.workload.clone(),
        prefix: plan.prefix,
        prompts: given(plan),
        body: fingerprint(std::slice::from_ref(&plan.members).iter().filter_map(text)),
        seed: plan.seed,
        slo: plan.slo,
        machine: machine(),
        ..RunResult::default()
    }
}

/// The fingerprint of given prompts or conversations.
fn given(plan: &BenchPlan) -> Option<String> {
    match &plan.sessions {
        Some(SessionSource::Given(all)) => fingerprint(all.iter().map(|conversation| format!("{conversation:?}"))),
        _ => fingerprint(plan.prompts.iter().filter_map(text)),
    }
}

fn text(members: &Map<String, Value>) -> Option<String> {
    serde_json::to_string(members).ok().filter(|_| !members.is_empty())
}

/// Shows whether two runs were given the same, without what it was. None if nothing was given.
fn fingerprint(given: impl Iterator<Item = String>) -> Option<String> {
    let mut hash = Context::new(&SHA256);
    let mut is_given = false;
    for text in given {
        is_given = true;
        hash.update(text.as_bytes());
        hash.update(b"\n");
    }
    let bytes = hash.finish();
    is_given.then(|| bytes.as_ref()[..FINGERPRINT].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The row: when the run begins, and again when it has ended.
pub fn row(result: &RunResult, plan: &BenchPlan, ended: bool) -> RunRecord {
    let trust = match result.doubt() {
        Some(doubt) => doubt.to_owned(),
        None if result.stages.is_empty() => result.cut_short.clone().unwrap_or_else(|| "no stage".to_owned()),
        None => "trusted".to_owned(),
    };
    let cost = if ended { result.cost } else { Cost::default() };
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
        cost_usd_min: cost.cost_usd_min,
        cost_usd_max: cost.cost_usd_max,
        result: serde_json::to_string(result).ok().filter(|_| ended),
    }
}

/// The workload and the load in words.
pub fn describe(plan: &BenchPlan) -> String {
    let workload = &plan.workload;
    let conversations = plan.sessions.as_ref().and_then(SessionSource::count);
    let prompts = match conversations.unwrap_or(plan.prompts.len()) {
        0 => format!("{} ({} tokens in, {} out)", workload.name, workload.input_tokens, workload.output_tokens),
        given if conversations.is_some() => format!("{given} given conversations"),
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
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{system} {processor}, {cores} cores, photofinish {}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fingerprint_tells_what_was_given_apart() {
        let of = |given: Value| {
            let given: Vec<Map<String, Value>> = serde_json::from_value(given).unwrap();
            fingerprint(given.iter().filter_map(text))
        };
        assert_eq!((of(json!([])), of(json!([{}]))), (None, None));
        let secret = of(json!([{ "messages": ["secret"] }])).unwrap();
        assert!(secret.len() == 16 && !secret.contains("secret"));
        assert_eq!(of(json!([{ "messages": ["secret"] }])), Some(secret.clone()));
        assert_ne!(of(json!([{ "messages": ["other"] }])), Some(secret.clone()));
        assert_ne!(of(json!([{ "messages": ["secret"] }, { "messages": ["other"] }])), Some(secret));
    }
}
