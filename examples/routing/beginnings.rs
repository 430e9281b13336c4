//! The first requests of a gateway without learned state, and of one that returns after a pause in which its upstreams
//! changed places.

use std::io::{self, Write};
use std::sync::Arc;

use photofinish_lab::rehearse::Rehearsal;
use photofinish_routing::learning::Learning;
use serde_json::{Value, json};

use crate::figures::{mean, quantile, sorted};
use crate::policies::{Policy, play};
use crate::world::World;

/// Number of beginnings; averages out chance.
const PLACES: usize = 40;
/// Requests examined after each beginning.
const FIRST: usize = 60;
/// Requests before the pause.
const BEFORE: usize = 3_000;
const PAUSE_US: i64 = 7 * 86_400_000_000;

/// One policy's first requests: mean and p99 of the TTFT in milliseconds, and attempts for a request.
pub struct Beginning {
    pub policy: String,
    pub fresh: [f64; 3],
    pub paused: [f64; 3],
}

pub fn beginnings(world: &World, seed: u64) -> anyhow::Result<Vec<Beginning>> {
    let mut policies = vec![
        Policy::product("race of all", "policy = \"race\"\nmax_attempts = 5")?,
        Policy::adaptive(0)?,
        Policy::adaptive(1)?,
    ];
    for per_cent in [2, 10, 30] {
        policies.push(Policy::adaptive(per_cent)?);
    }
    let later = world.after_pause(PAUSE_US);
    policies.iter().map(|policy| beginning(policy, world, &later, seed)).collect()
}

fn beginning(policy: &Policy, world: &World, later: &World, seed: u64) -> anyhow::Result<Beginning> {
    let mut times: [Vec<f32>; 2] = Default::default();
    let mut attempts = [0; 2];
    let count = world.requests.len();
    for place in 1..=PLACES {
        let at = count * place / (PLACES + 1);
        let before = at.saturating_sub(BEFORE)..at;
        let first = at..(at + FIRST).min(count);
        let learning = Arc::new(Learning::stopped());
        let with = |learning: Arc<Learning>| anyhow::Ok(Rehearsal { learning, ..policy.rehearsal(world, seed)? });
        play(world, with(learning.clone())?, world.requests[before].iter().copied(), &mut |_| {});
        for (state, learning) in [Arc::new(Learning::stopped()), learning].into_iter().enumerate() {
            let mut started = 0;
            let requests = later.requests[first.clone()].iter().copied();
            let run = play(later, with(learning)?, requests, &mut |race| started += race.attempts.len());
            times[state].extend(&run.ttft_ms[first.clone()]);
            attempts[state] += started;
        }
    }
    let [fresh, paused] = [0, 1].map(|state| {
        let times = &times[state];
        [mean(times), quantile(&sorted(times), 0.99), attempts[state] as f64 / times.len().max(1) as f64]
    });
    Ok(Beginning { policy: policy.name(), fresh, paused })
}

pub fn print(out: &mut impl Write, beginnings: &[Beginning]) -> io::Result<()> {
    writeln!(
        out,
        "\n## The first {FIRST} requests, {PLACES} times: with nothing learned, and after a week's pause with other upstreams\n"
    )?;
    writeln!(
        out,
        "| policy | fresh: mean | p99 | attempts | after the pause: mean | p99 | attempts |\n|{}",
        " --- |".repeat(7)
    )?;
    for Beginning { policy, fresh, paused } in beginnings {
        let [fresh, paused] =
            [fresh, paused].map(|[mean, p99, attempts]| format!("{mean:.0} | {p99:.0} | {attempts:.2}"));
        writeln!(out, "| {policy} | {fresh} | {paused} |")?;
    }
    Ok(())
}

pub fn json(beginnings: &[Beginning]) -> Value {
    let state = |[mean, p99, attempts]: [f64; 3]| json!({ "mean_ms": mean, "p99_ms": p99, "attempts": attempts });
    let one = |one: &Beginning| json!({ "policy": one.policy, "fresh": state(one.fresh), "paused": state(one.paused) });
    json!({ "beginnings": beginnings.iter().map(one).collect::<Vec<_>>() })
}
