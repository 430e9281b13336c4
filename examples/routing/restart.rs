//! The first requests after a restart: with the state before, with state read from the recorded rows, and without
//! state.

use std::io::{self, Write};
use std::sync::Arc;

use photofinish_base::failure::FailureKind;
use photofinish_config::RaceSettings;
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, RaceSource};
use photofinish_lab::rehearse::{AttemptEnd, PlayedAttempt, PlayedRace, Rehearsal};
use photofinish_routing::learning::{Learning, RequestMemory};
use photofinish_routing::verdict::slows_hedging;
use serde_json::{Value, json};

use crate::figures::{mean, quantile, sorted};
use crate::policies::{Policy, letter, play, rehearsal};
use crate::world::{PROVIDER, World};

/// Number of restarts; averages out chance.
const PLACES: usize = 20;
/// Requests examined after each restart.
const FIRST: usize = 100;
/// Requests whose rows are replayed.
const REPLAYED: usize = 20_000;

/// The result of a state: its name, mean and p99 of the TTFT in milliseconds.
pub type Served = (&'static str, f64, f64);

/// Compares the three states over the same parts of a world's requests.
pub fn restarts(world: &World, settings: &RaceSettings, seed: u64) -> Vec<Served> {
    let mut times: [Vec<f32>; 3] = Default::default();
    let count = world.requests.len();
    for place in 1..=PLACES {
        let at = count * place / (PLACES + 1);
        let from = at.saturating_sub(REPLAYED);
        let until = (at + FIRST).min(count);
        let stopped_us = world.requests[at].at_us;
        let mut rows = Vec::new();
        let mut write = |race: &PlayedRace<'_>| {
            if race.request.at_us + race.took_us < stopped_us {
                rows.push(recorded(world, race));
            }
        };
        let requests = world.requests[from..until].iter().copied();
        let ran_on = play(world, rehearsal(settings, seed), requests, &mut write);
        times[0].extend(&ran_on.ttft_ms[at..until]);
        let fresh = rehearsal(settings, seed);
        let read_back =
            Rehearsal { learning: Arc::new(learned(settings, &rows, stopped_us)), ..rehearsal(settings, seed) };
        for (place, state) in [(1, read_back), (2, fresh)] {
            let run = play(world, state, world.requests[at..until].iter().copied(), &mut |_| {});
            times[place].extend(&run.ttft_ms[at..until]);
        }
    }
    let names = ["ran on", "replayed", "fresh"];
    let of = |(name, times): (&'static str, Vec<f32>)| (name, mean(&times), quantile(&sorted(&times), 0.99));
    names.into_iter().zip(times).map(of).collect()
}

/// The state of a gateway that read these rows at its start.
fn learned(settings: &RaceSettings, rows: &[Recorded], now_us: i64) -> Learning {
    let learning = Learning::stopped();
    learning.set_now_us(now_us);
    for row in rows {
        let cost_budget = Some(learning.cost_budget("", settings.budget, true));
        let cost = |attempt: &RecordedAttempt| attempt.cost_usd;
        learning.remember(row, &RequestMemory { counts: &slows_hedging, cost_budget, cost: &cost });
    }
    learning.publish();
    learning
}

/// The rows of a race.
fn recorded(world: &World, race: &PlayedRace<'_>) -> Recorded {
    let output_tokens = Some(i64::from(race.request.output_tokens));
    let attempt = |(ordinal, attempt): (usize, &PlayedAttempt)| {
        let won = attempt.end == AttemptEnd::Won;
        let failed = attempt.end == AttemptEnd::Failed;
        let lasted_us = attempt.ended_us - attempt.after_us;
        RecordedAttempt {
            ordinal: ordinal as i64,
            provider: PROVIDER.to_owned(),
            model_sent: letter(attempt.upstream).to_string(),
            dispatch_us: attempt.after_us,
            in_flight: i64::from(attempt.sent.in_flight),
            ttft_obs_us: attempt.first_token_us.or((!failed).then_some(lasted_us)),
            seen: attempt.first_token_us.is_some(),
            plain: false,
            outcome: match attempt.end {
                AttemptEnd::Won => AttemptOutcome::Won,
                AttemptEnd::Lost => AttemptOutcome::Lost,
                AttemptEnd::TimedOut => AttemptOutcome::Timeout,
                AttemptEnd::Failed => AttemptOutcome::Failed,
            },
            failure: match attempt.end {
                AttemptEnd::Won | AttemptEnd::Lost => None,
                AttemptEnd::TimedOut => Some(FailureKind::Timeout),
                AttemptEnd::Failed => Some(FailureKind::ServerError),
            },
            tpot_us: race.tpot_us.filter(|_| won),
            input_tokens: None,
            cached_input_tokens: None,
            output_tokens: output_tokens.filter(|_| won),
            cost_usd: won.then_some(attempt.cost),
            calls: None,
            structured: None,
            tool_set: None,
            ended_us: lasted_us,
        }
    };
    Recorded {
        race_id: String::new(),
        started_at: race.request.at_us,
        model: String::new(),
        policy: None,
        stream: true,
        has_tools: false,
        input_tokens_estimate: world.prompt(race.request.id).uncached as i64,
        winner: race.winner.map(|winner| winner as i64),
        client_ttft_us: race.ttft_us,
        done_us: Some(race.took_us),
        outcome: if race.winner.is_some() { RaceOutcome::Ok } else { RaceOutcome::Error },
        source: RaceSource::Client,
        look: None,
        attempts: race.attempts.iter().enumerate().map(attempt).collect(),
    }
}

pub fn print(out: &mut impl Write, policy: &Policy, served: &[Served]) -> io::Result<()> {
    writeln!(out, "\n## The first {FIRST} requests after a restart, {PLACES} times, {}\n", policy.name())?;
    writeln!(out, "| state | mean | p99 |\n|{}", " --- |".repeat(3))?;
    for (name, mean, p99) in served {
        writeln!(out, "| {name} | {mean:.0} | {p99:.0} |")?;
    }
    Ok(())
}

pub fn json(served: &[Served]) -> Value {
    let one = |(name, mean, p99): &Served| json!({ "state": name, "mean_ms": mean, "p99_ms": p99 });
    json!({ "restarts": served.iter().map(one).collect::<Vec<_>>() })
}
