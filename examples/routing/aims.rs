//! Objectives other than the first token: the time to the whole answer, and goodput; each compared with race-all and
//! the best possible result.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::figures::{Figures, SLOS};
use crate::policies::{Policy, play, play_all};
use crate::world::World;

/// A result: the name of the objective, the name of the policy, and the figures.
pub type Line = (String, String, Figures);

/// Tested budgets, in per cent.
const BUDGETS: [u32; 2] = [2, 10];

pub fn lines(world: &World, seed: u64, progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Line>> {
    let race = Policy::product("race of all", &format!("policy = \"race\"\nmax_attempts = {}", world.upstreams.len()))?;
    let mut policies = vec![Policy::Oracle, Policy::CompletionOracle, race];
    let mut aims = vec!["", "completion", ""].into_iter().map(str::to_owned).collect::<Vec<_>>();
    for per_cent in BUDGETS {
        policies.push(adaptive(per_cent, "optimise = \"completion\"")?);
        aims.push("completion".into());
    }
    for (place, (ttft, tpot)) in SLOS.into_iter().enumerate() {
        for per_cent in BUDGETS {
            let slo = format!("optimise = \"goodput\"\nslo = {{ ttft = \"{ttft}ms\", tpot = \"{tpot}ms\" }}");
            policies.push(adaptive(per_cent, &slo)?);
            aims.push(format!("goodput {}", place + 1));
        }
    }
    let runs = play_all(world, &policies, seed, progress)?;
    let lines = policies.iter().zip(aims).zip(&runs);
    let mut lines: Vec<Line> = lines.map(|((policy, aim), run)| (aim, policy.name(), run.figures(&runs[0]))).collect();
    lines.extend(waiting_for_all(world, seed)?);
    Ok(lines)
}

/// Clients that do not stream: they wait for the whole answer.
fn waiting_for_all(world: &World, seed: u64) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for policy in [Policy::CompletionOracle, adaptive(2, "optimise = \"completion\"")?] {
        let requests = world
            .requests
            .iter()
            .map(|request| photofinish_lab::rehearse::SimulatedRequest { whole: true, ..*request });
        let run = play(world, policy.rehearsal(world, seed)?, requests, &mut |_| {});
        lines.push(("whole answers".into(), policy.name(), run.figures(&run)));
    }
    Ok(lines)
}

fn adaptive(per_cent: u32, aim: &str) -> anyhow::Result<Policy> {
    let budget = f64::from(per_cent) / 100.0;
    Policy::product(&format!("adaptive {per_cent} %"), &format!("policy = \"adaptive\"\nbudget = {budget}\n{aim}"))
}

pub fn print(out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    writeln!(out, "\n## Other aims\n")?;
    writeln!(
        out,
        "| aim | policy | TTFT mean | p99 | whole mean | whole p99 | goodput 1 · 2 · 3 | extra |\n|{}",
        " --- |".repeat(8)
    )?;
    for (aim, policy, f) in lines {
        let goodput = f.goodput.map(|share| format!("{:.1}", 100.0 * share)).join(" · ");
        writeln!(
            out,
            "| {aim} | {policy} | {:.0} | {:.0} | {:.0} | {:.0} | {goodput} % | {:.1} % |",
            f.mean,
            f.p99,
            f.whole_mean,
            f.whole_p99,
            100.0 * f.extra
        )?;
    }
    Ok(())
}

pub fn json(lines: &[Line]) -> Value {
    let one = |(aim, policy, f): &Line| {
        json!({ "aim": aim, "policy": policy, "mean_ms": f.mean, "p99_ms": f.p99, "whole_mean_ms": f.whole_mean,
            "whole_p99_ms": f.whole_p99, "goodput": f.goodput, "extra": f.extra })
    };
    json!({ "aims": lines.iter().map(one).collect::<Vec<_>>() })
}
