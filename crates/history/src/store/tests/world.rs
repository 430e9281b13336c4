//! A seeded history with rows of every kind, for tests that compare rows with their roll-ups.

use fastrand::Rng;

use super::*;
use crate::store::columns::{DAY_US, HOUR_US, first_race_id};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, StartReason, TokenSource, sample};

/// 2026-01-02T00:00:00Z, a Friday.
pub const START_US: i64 = 1_767_312_000_000_000;
pub const DAYS: i64 = 4;
/// Ten minutes into the hour after the last day.
pub const NOW_US: i64 = START_US + DAYS * DAY_US + HOUR_US / 6;

const UPSTREAMS: [(&str, &str, f64); 5] = [
    ("groq", "llama", 150.0),
    ("groq", "llama-small", 260.0),
    ("cerebras", "llama", 220.0),
    ("my-vllm", "llama", 400.0),
    ("my-vllm", "qwen", 300.0),
];

/// Every record of `races` races, in the order of their ids.
pub fn records(seed: u64, races: usize) -> Vec<Record> {
    let mut draws = Rng::with_seed(seed);
    let length = NOW_US - START_US;
    // No requests from 2 to 5 o'clock.
    let awake = |at: &i64| !(2 * HOUR_US..5 * HOUR_US).contains(&(at % DAY_US));
    let mut starts: Vec<i64> = std::iter::repeat_with(|| draws.i64(0..length)).filter(awake).take(races).collect();
    starts.sort_unstable();
    starts.iter().enumerate().flat_map(|(n, at)| of_race(&mut draws, n, START_US + at)).collect()
}

pub fn id(n: usize, at_us: i64) -> String {
    format!("{}-7000-8000-{n:012x}", first_race_id(at_us))
}

fn of_race(draws: &mut Rng, n: usize, at_us: i64) -> Vec<Record> {
    let size = draws.u32(0..12);
    let mut of_race = RaceRecord {
        race_id: id(n, at_us),
        started_at: at_us,
        user: draws.choice([None, Some("ann"), Some("bob")]).flatten().map(str::to_owned),
        model: draws.choice(["fast", "good"]).unwrap_or_default().into(),
        stream: draws.f64() < 0.8,
        n_choices: draws.choice([None, Some(1), Some(1), Some(2)]).flatten(),
        input_tokens_estimate: draws.i64(1..65_536) >> size,
        ..sample::race(0)
    };
    if draws.f64() < 0.05 {
        let rejected = sample::bare_race(0);
        return vec![race(RaceRecord { race_id: of_race.race_id, started_at: at_us, user: of_race.user, ..rejected })];
    }
    let mut runs: Vec<AttemptRecord> =
        (0..draws.i64(1..=4)).map(|ordinal| run(draws, &of_race.race_id, ordinal)).collect();
    let first = |run: &AttemptRecord| Some(run.dispatch_us + run.first_token_us?);
    let winner = runs.iter().filter(|run| run.first_token_us.is_some()).min_by_key(|run| first(run));
    let won = winner.map(|run| (run.ordinal, first(run).unwrap_or_default()));
    of_race.attempts = runs.len() as i64;
    of_race.winner = won.map(|(ordinal, _)| ordinal);
    of_race.first_token_sent_us = won.map(|(_, at)| at + 300);
    of_race.outcome = match won {
        None => RaceOutcome::Error,
        Some(_) if draws.f64() < 0.06 => RaceOutcome::ClientGone,
        Some(_) => RaceOutcome::Ok,
    };
    if won.is_none() && draws.f64() < 0.2 {
        of_race.outcome = RaceOutcome::ClientGone;
    }
    for run in runs.iter_mut().filter(|run| run.first_token_us.is_some()) {
        match won {
            Some((ordinal, _)) if ordinal == run.ordinal && of_race.outcome == RaceOutcome::ClientGone => {
                run.outcome = AttemptOutcome::ClientGone;
            }
            Some((ordinal, at)) if ordinal != run.ordinal => lose(draws, run, at),
            _ => {}
        }
    }
    let mut records: Vec<Record> = runs.into_iter().map(attempt).collect();
    // Some rows of races are missing.
    if draws.f64() > 0.02 {
        records.push(race(of_race));
    }
    records
}

/// An attempt that ran to its end: won or failed.
fn run(draws: &mut Rng, race_id: &str, ordinal: i64) -> AttemptRecord {
    let (provider, model_sent, median_ms) = draws.choice(UPSTREAMS).unwrap_or_default();
    let spread = (0..6).map(|_| draws.f64()).sum::<f64>() - 3.0;
    let ttft_us = (median_ms * 1e3 * spread.exp()) as i64;
    let tokens = draws.i64(1..300);
    let last_us = ttft_us + tokens * draws.i64(5_000..60_000);
    // Sums of these numbers are exact in any order.
    let cost = |draws: &mut Rng| (draws.f64() < 0.9).then(|| draws.f64().mul_add(64.0, 1.0).floor() / 1_024.0);
    let mut run = AttemptRecord {
        race_id: race_id.to_owned(),
        ordinal,
        provider: provider.to_owned(),
        model_sent: model_sent.to_owned(),
        dispatch_us: draws.i64(0..3) * 100_000,
        start_reason: StartReason::First,
        first_token_us: Some(ttft_us),
        first_answer_us: Some(ttft_us),
        last_token_us: Some(last_us),
        ttft_obs_us: Some(ttft_us),
        ttft_event: Some(1),
        output_tokens: Some(tokens),
        reasoning_tokens: None,
        payload_events: tokens,
        burst: Some(draws.f64() < 0.05),
        tok_src: if draws.f64() < 0.9 { TokenSource::Usage } else { TokenSource::Chars },
        cost_usd_min: cost(draws),
        in_flight_upstream: draws.i64(0..80),
        failure: None,
        failure_phase: None,
        ..sample::won(0)
    };
    let failed = [
        (AttemptOutcome::Failed, Some("rate_limited")),
        (AttemptOutcome::Failed, Some("connect")),
        (AttemptOutcome::Empty, None),
        (AttemptOutcome::Timeout, Some("timeout")),
    ];
    run.cost_usd_max = run.cost_usd_min;
    if draws.f64() < 0.4 {
        let (outcome, failure) = failed[draws.usize(0..failed.len())];
        let censored = (outcome == AttemptOutcome::Timeout).then_some(3_000_000);
        (run.outcome, run.failure, run.ttft_obs_us) = (outcome, failure, censored);
        (run.first_token_us, run.first_answer_us, run.last_token_us, run.ttft_event) =
            (None, None, None, censored.map(|_| 0));
        (run.output_tokens, run.burst, run.tok_src) = (None, None, TokenSource::None);
    } else if draws.f64() < 0.1 {
        (run.plain, run.eof_us) = (true, run.last_token_us);
        (run.first_token_us, run.first_answer_us, run.last_token_us) = (None, None, None);
        (run.ttft_obs_us, run.ttft_event, run.burst) = (None, None, None);
    }
    run
}

fn lose(draws: &mut Rng, run: &mut AttemptRecord, won_at_us: i64) {
    const AUDITED: f64 = 0.25;
    let lost_us = (won_at_us - run.dispatch_us).max(0);
    (run.outcome, run.p_audit) = (AttemptOutcome::Lost, Some(AUDITED));
    run.cost_usd_min = run.cost_usd_min.filter(|_| draws.f64() < 0.8);
    run.cost_usd_max = run.cost_usd_min.filter(|_| draws.f64() < 0.99).map(|usd| usd * 2.0);
    (run.last_token_us, run.output_tokens, run.tok_src) = (None, None, TokenSource::None);
    if draws.f64() < AUDITED {
        run.audited = true;
    } else {
        (run.first_token_us, run.first_answer_us, run.ttft_obs_us, run.ttft_event) =
            (None, None, Some(lost_us), Some(0));
    }
}
