//! The policies by name, and the run of one policy through a world.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use photofinish_config::{RaceSettings, parse};
use photofinish_lab::rehearse::{Baseline, PlayedRace, Rehearsal, SimulatedRequest};

use crate::baselines::{Ewma, Fixed, LeastOfTwo, Oracle, TwoChoices};
use crate::draws::stream;
use crate::figures::Run;
use crate::world::{Play, World};

/// The tested budgets of `adaptive`, in per cent.
pub const BUDGETS: [u32; 6] = [0, 1, 2, 5, 10, 30];
const FIXED_HEDGE: Duration = Duration::from_millis(800);
/// How long a provider continues to generate, and bill, after a cut; microseconds.
const CUT_LAG_US: i64 = 150_000;

/// A policy to compare.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Always starts with this upstream.
    Static(usize),
    Ewma,
    PeakEwma,
    LeastOfTwo,
    /// The best static order, the second 800 ms after the first.
    FixedHedge(Vec<usize>),
    EwmaHedge,
    /// Races the first two of an order.
    RaceOfTwo(Vec<usize>),
    Oracle,
    CompletionOracle,
    /// A policy of the product, by its config lines under `[race]`.
    Product {
        name: String,
        settings: Box<RaceSettings>,
    },
}

impl Policy {
    /// Makes a policy of the product.
    pub fn product(name: &str, lines: &str) -> anyhow::Result<Policy> {
        let settings = settings(lines)?;
        Ok(Policy::Product { name: name.to_owned(), settings: Box::new(settings) })
    }

    pub fn adaptive(per_cent: u32) -> anyhow::Result<Policy> {
        let lines = format!("policy = \"adaptive\"\noptimise = \"ttft\"\nbudget = {}", f64::from(per_cent) / 100.0);
        Policy::product(&format!("adaptive {per_cent} %"), &lines)
    }

    pub fn name(&self) -> String {
        match self {
            Policy::Static(upstream) => format!("static {}", letter(*upstream)),
            Policy::Ewma => "EWMA".into(),
            Policy::PeakEwma => "P2C peak-EWMA".into(),
            Policy::LeastOfTwo => "P2C in flight".into(),
            Policy::FixedHedge(_) => "fixed hedge".into(),
            Policy::EwmaHedge => "EWMA + p95 hedge".into(),
            Policy::RaceOfTwo(_) => "race of 2".into(),
            Policy::Oracle => "oracle".into(),
            Policy::CompletionOracle => "completion oracle".into(),
            Policy::Product { name, .. } => name.clone(),
        }
    }

    /// The budget. None: unbounded.
    pub fn budget(&self) -> Option<f64> {
        match self {
            Policy::Product { settings, .. } if settings.policy.spends_budget() => Some(settings.budget),
            _ => None,
        }
    }

    pub fn rehearsal<'w>(&self, world: &'w World, seed: u64) -> anyhow::Result<Rehearsal<'w>> {
        let count = world.upstreams.len();
        let baseline: Box<dyn Baseline + 'w> = match self {
            Policy::Static(upstream) => Box::new(Fixed::first(*upstream, count)),
            Policy::Ewma => Box::new(Ewma::new(count, false)),
            Policy::PeakEwma => Box::new(TwoChoices::new(count, seed)),
            Policy::LeastOfTwo => Box::new(LeastOfTwo { draws: stream(seed, 4, 0) }),
            Policy::FixedHedge(order) => Box::new(Fixed::hedge(order.clone(), FIXED_HEDGE)),
            Policy::EwmaHedge => Box::new(Ewma::new(count, true)),
            Policy::RaceOfTwo(order) => Box::new(Fixed::race(order.clone(), 1)),
            Policy::Oracle => Box::new(Oracle { world, completion: false }),
            Policy::CompletionOracle => Box::new(Oracle { world, completion: true }),
            Policy::Product { settings, .. } => {
                return Ok(Rehearsal { in_usd: world.recipe.in_usd, ..rehearsal(settings, seed) });
            }
        };
        Ok(Rehearsal { baseline: Some(baseline), ..rehearsal(&settings("")?, seed) })
    }

    pub fn play(&self, world: &World, seed: u64) -> anyhow::Result<Run> {
        Ok(play(world, self.rehearsal(world, seed)?, world.requests.iter().copied(), &mut |_| {}))
    }
}

/// A rehearsal with a policy of the product, without learned state.
pub fn rehearsal<'w>(settings: &RaceSettings, seed: u64) -> Rehearsal<'w> {
    Rehearsal { cut_lag_us: CUT_LAG_US, ..Rehearsal::new(settings.clone(), seed) }
}

/// Parses these lines of `[race]`.
fn settings(lines: &str) -> anyhow::Result<RaceSettings> {
    let config = parse(&format!("[race]\n{lines}"), Path::new("routing"), &|_| None);
    Ok(config.map_err(|problems| anyhow::anyhow!("{problems}"))?.race)
}

pub fn letter(upstream: usize) -> char {
    char::from(b'A' + u8::try_from(upstream).unwrap_or(25))
}

/// Runs one policy through these requests of a world. `also` receives every race.
pub fn play(
    world: &World,
    rehearsal: Rehearsal<'_>,
    requests: impl Iterator<Item = SimulatedRequest>,
    also: &mut dyn FnMut(&PlayedRace<'_>),
) -> Run {
    let mut kept = Run::new(world.requests.len());
    let mut heard = |race: &PlayedRace<'_>| {
        also(race);
        kept.hear(race);
    };
    rehearsal.run(requests, &mut Play::new(world), &mut heard);
    kept
}

/// Runs all policies, with one thread per processor; results are in the order of the list. `progress` receives each
/// name.
pub fn play_all(
    world: &World,
    policies: &[Policy],
    seed: u64,
    progress: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Vec<Run>> {
    let runs: Mutex<Vec<Option<anyhow::Result<Run>>>> = Mutex::new(policies.iter().map(|_| None).collect());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((place, policy)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, policies.get(at)?)))
        {
            let run = policy.play(world, seed);
            progress(&policy.name());
            runs.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(run);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    runs.into_iter().map(|run| run.context("a run was lost")?).collect()
}
