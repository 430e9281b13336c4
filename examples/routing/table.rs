//! The table of a world: all policies.

use std::io::{self, Write};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::figures::{Figures, Run, SLOS};
use crate::policies::{BUDGETS, Policy, play_all};
use crate::world::World;

/// One policy's line.
pub struct Row {
    pub name: String,
    pub figures: Figures,
    /// Share of race-all's gain in p99 and p99.9 over the best single upstream.
    pub share: [f64; 2],
    /// The bill divided by that of the cheapest single upstream.
    pub bill: f64,
    /// The largest share of its budget that it spent in one hour.
    pub worst_hour: Option<f64>,
    pub worst_interval: Option<f64>,
}

/// Runs every policy whose name contains `only`, and the reference policies.
///
/// # Errors
/// A policy has spent more than its budget allows in some hour.
pub fn rows(world: &World, seed: u64, only: &[String], progress: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Vec<Row>> {
    let count = world.upstreams.len();
    let singles: Vec<Policy> = (0..count).map(Policy::Static).collect();
    let mut statics = play_all(world, &singles, seed, progress)?;
    let mut order: Vec<usize> = (0..count).collect();
    let mean = |upstream: &usize| crate::figures::mean(&statics[*upstream].ttft_ms);
    order.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
    let cheapest = statics.iter().map(Run::bill).fold(f64::INFINITY, f64::min);
    let best = statics.swap_remove(order[0]);
    let references =
        [Policy::product("race of all", &format!("policy = \"race\"\nmax_attempts = {count}"))?, Policy::Oracle];
    let mut policies = middle(&order)?;
    let wanted = |policy: &Policy| only.is_empty() || only.iter().any(|part| policy.name().contains(part.as_str()));
    policies.retain(wanted);
    policies.extend(references);
    let runs = play_all(world, &policies, seed, progress)?;
    let [.., all, oracle] = &runs[..] else { anyhow::bail!("the runs to compare with are missing") };
    let (from, to) = (best.figures(oracle), all.figures(oracle));
    let row = |name: String, run: &Run, budget: Option<f64>| {
        let figures = run.figures(oracle);
        let bill = figures.bill / cheapest;
        let gain = |own: f64, from: f64, to: f64| (from - own) / (from - to).max(f64::MIN_POSITIVE);
        let share = [gain(figures.p99, from.p99, to.p99), gain(figures.p999, from.p999, to.p999)];
        let worst_hour = budget.map(|budget| run.worst_hour(budget));
        let worst_interval = budget.map(|budget| run.worst_interval(budget));
        Row { name, share, bill, worst_hour, worst_interval, figures }
    };
    let mut rows = vec![row(format!("best single ({})", crate::policies::letter(order[0])), &best, None)];
    let of = |(policy, run): (&Policy, &Run)| row(policy.name(), run, policy.budget());
    rows.extend(policies.iter().zip(&runs).map(of));
    Ok(rows)
}

/// Runs only the policies with these names.
///
/// # Errors
/// A policy cannot be played.
pub fn bare_rows(
    world: &World,
    seed: u64,
    names: &[String],
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Row>> {
    let order: Vec<usize> = (0..world.upstreams.len()).collect();
    let mut policies = middle(&order)?;
    policies.retain(|policy| names.contains(&policy.name()));
    let runs = play_all(world, &policies, seed, progress)?;
    let row = |(policy, run): (&Policy, &Run)| {
        let (figures, budget) = (run.figures(run), policy.budget());
        let [worst_hour, worst_interval] =
            [budget.map(|budget| run.worst_hour(budget)), budget.map(|budget| run.worst_interval(budget))];
        Row { name: policy.name(), share: [0.0; 2], bill: 0.0, worst_hour, worst_interval, figures }
    };
    Ok(policies.iter().zip(&runs).map(row).collect())
}

/// # Errors
/// A policy has spent more than its budget allows in some hour.
pub fn check(rows: &[Row]) -> anyhow::Result<()> {
    for row in rows {
        let part = row.worst_hour.unwrap_or(0.0);
        ensure!(part <= 1.0, "{}: {part:.3} times what its budget allows was spent in some hour", row.name);
    }
    Ok(())
}

/// The policies between the best single upstream and the race of all. `order`: the upstreams, best first.
fn middle(order: &[usize]) -> anyhow::Result<Vec<Policy>> {
    let order = || order.to_vec();
    let mut policies =
        vec![Policy::Ewma, Policy::PeakEwma, Policy::LeastOfTwo, Policy::FixedHedge(order()), Policy::EwmaHedge];
    policies.push(Policy::RaceOfTwo(order()));
    for per_cent in BUDGETS {
        policies.push(Policy::adaptive(per_cent)?);
    }
    policies.push(Policy::product("by default", "")?);
    Ok(policies)
}

pub fn print(out: &mut impl Write, world: &World, seed: u64, rows: &[Row]) -> io::Result<()> {
    let recipe = &world.recipe;
    let (count, days) = (world.requests.len(), recipe.days);
    writeln!(out, "\n## {}: {}\n\n{count} requests over {days} days, seed {seed}; ms\n", recipe.name, recipe.about)?;
    let slo = SLOS.map(|(ttft, tpot)| format!("{ttft}/{tpot}")).join(" · ");
    writeln!(
        out,
        "| policy | mean | p50 | p99 | p99.9 | most | extra | attempts | bill | share p99 | p99.9 | slower, p99 | whole mean | whole p99 | {slo} | worst hour · interval |"
    )?;
    writeln!(out, "|{}", " --- |".repeat(16))?;
    for Row { name, figures: f, share, bill, worst_hour, worst_interval } in rows {
        let goodput = f.goodput.map(|share| format!("{:.1}", 100.0 * share)).join(" · ");
        let [p99, p999] = share.map(|share| 100.0 * share);
        let worst = worst_hour.zip(*worst_interval);
        let worst = worst.map_or(String::new(), |(hour, interval)| format!("{hour:.2} · {interval:.2}"));
        let extra = 100.0 * f.extra;
        writeln!(
            out,
            "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {extra:.1} % | {:.2} | {:.2} | {p99:.1} % | {p999:.1} % | {:.2} | {:.0} | {:.0} | {goodput} % | {worst} |",
            f.mean, f.p50, f.p99, f.p999, f.most, f.attempts, bill, f.slowdown, f.whole_mean, f.whole_p99
        )?;
        if f.failed > 0.0 {
            writeln!(out, "| … of which failed | {:.4} % |", 100.0 * f.failed)?;
        }
    }
    Ok(())
}

pub fn json(world: &World, seed: u64, rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let f = &row.figures;
        json!({
            "policy": row.name, "mean_ms": f.mean, "p50_ms": f.p50, "p99_ms": f.p99, "p999_ms": f.p999,
            "most_ms": f.most, "bill": row.bill,
            "whole_mean_ms": f.whole_mean, "whole_p99_ms": f.whole_p99, "extra": f.extra, "share_p99": row.share[0],
            "share_p999": row.share[1], "slowdown_p99": f.slowdown, "goodput": f.goodput, "failed": f.failed,
            "attempts": f.attempts, "worst_hour": row.worst_hour,
            "worst_interval": row.worst_interval,
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json!({ "world": world.recipe.name, "seed": seed, "requests": world.requests.len(), "rows": rows })
}
