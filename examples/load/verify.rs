//! Whether what `photofinish bench` says of a running server holds: its intervals, its verdicts, the rate that it finds,
//! and whether it knows when the client was the slow part. Each trial has seeds of its own. And how long a report takes.

mod report;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use fastrand::Rng;

use crate::figures::Table;
use crate::gateway::program;
use crate::generator::{LocalGenerator, SERVER, plan, target, workload};
use crate::simulator::Simulator;
use photofinish_lab::bench::compare::{self, ComparedFigure, LoadVerdict};
use photofinish_lab::bench::measured::MeasuredRequest;
use photofinish_lab::bench::result::RunResult;
use photofinish_lab::bench::search::FoundRate;
use photofinish_lab::bench::stage::{self, StageQuestion};
use photofinish_lab::bench::{BlockPlan, BlockResult, Load, statistics};

/// The median TTFT of the server, ms, and the spread of its logarithm.
const TTFT_MS: f64 = 100.0;
const JITTER: f64 = 0.5;
const TOKENS: u32 = 4;
const USERS: usize = 8;
/// Requests of an interval, and of each target in a comparison.
const REQUESTS: usize = 80;
const COMPARED: usize = 120;
const MARGIN: f64 = 0.05;
/// z of the 90th percentile of a normal distribution.
const Z90: f64 = 1.281_552;

/// The server whose rate is searched: slots, median TTFT and gap in ms, spread, tokens; and what is asked of it.
const SLOTS: usize = 32;
const QUEUED_TTFT_MS: f64 = 200.0;
const GAP_MS: f64 = 5.0;
const QUEUED_JITTER: f64 = 0.2;
const QUEUED_TOKENS: usize = 10;
const SLO_MS: f64 = 300.0;
const ATTAIN: f64 = 0.9;
/// Searches at a time.
const SEARCHES: usize = 5;
/// Arrivals of the computed queue.
const DRAWN: usize = 200_000;

/// Programs that take the client's core from it.
const BURNERS: usize = 3;
/// How late a thread of an idle program wakes on a quiet machine, 99th percentile in µs; and how long it sleeps.
const QUIET_US: f64 = 1_000.0;
const BEAT: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// How often a 95 % interval holds the truth.
    Intervals,
    /// How often a server is called worse than itself.
    Same,
    /// The rate that the search finds, beside the true one.
    Rate,
    /// How often a starved client, and an idle one, is not trusted.
    Trust,
    /// How long a report of a month of probes takes, and its size.
    Report,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    #[arg(value_enum)]
    what: What,
    /// Trials. By default 200 intervals, 100 comparisons, 20 rates, 20 starved and 50 idle clients, 9 reports.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    trials: Option<u32>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let trials = |default: u32| options.trials.unwrap_or(default);
    match options.what {
        What::Intervals => intervals(trials(200)).await,
        What::Same => same(trials(100)).await,
        What::Rate => rate(trials(20)),
        What::Trust => {
            trust("starved", trials(20), BURNERS)?;
            trust("idle", trials(50), 0)
        }
        What::Report => report::run(trials(9)),
    }
}

fn server() -> anyhow::Result<Simulator> {
    Simulator::start(
        &format!("--ttft {TTFT_MS}ms --jitter {JITTER} --seed 7 --tokens-per-second 1000 --tokens {TOKENS}"),
        &[],
    )
}

/// Blocks of requests, one for each trial.
async fn intervals(trials: u32) -> anyhow::Result<()> {
    let (mut simulator, dir) = (server()?, tempfile::tempdir()?);
    let local = LocalGenerator::start(&simulator.base_url, dir.path(), TOKENS).await?;
    let workload = workload(TOKENS);
    let question = StageQuestion {
        workload: &workload,
        unique: true,
        made: true,
        warm_up: Some(Duration::ZERO),
        slo: None,
        calibration_us: None,
    };
    let truths = [("p50", TTFT_MS), ("p90", TTFT_MS * (JITTER * Z90).exp())];
    let (mut held, mut width) = ([0_u32; 2], [0.0; 2]);
    for trial in 0..trials {
        let block = block(&local, trial, 0, REQUESTS).await;
        let figures = stage::figures("sim/m", &[block], &question);
        let ttft = figures.ttft_ms.context("no request was answered")?;
        for (at, estimate) in [ttft.p50, ttft.p90].iter().enumerate() {
            let (low, high) = estimate.low.zip(estimate.high).context("no interval")?;
            held[at] += u32::from(low <= truths[at].1 && truths[at].1 <= high);
            width[at] += estimate.half_width().unwrap_or(0.0) * 100.0 / f64::from(trials);
        }
    }
    local.alone.stop().await;
    simulator.end()?;
    let mut table = Table::default();
    for (at, (name, truth)) in truths.iter().enumerate() {
        let share = f64::from(held[at]) / f64::from(trials) * 100.0;
        table.row(
            format!("TTFT {name}, true {truth:.1} ms"),
            format!("{} of {trials} intervals hold it ({share:.1} %), ±{:.0} % wide", held[at], width[at]),
        );
    }
    Ok(table.print(&format!("95 % intervals of {REQUESTS} requests by {USERS} users of a running server"))?)
}

/// The same server twice, in interleaved blocks.
async fn same(trials: u32) -> anyhow::Result<()> {
    let (mut simulator, dir) = (server()?, tempfile::tempdir()?);
    let local = LocalGenerator::start(&simulator.base_url, dir.path(), TOKENS).await?;
    let mut verdicts = [[0_u32; 4]; 3];
    let mut any_worse = 0;
    for trial in 0..trials {
        let mut sides: [Vec<MeasuredRequest>; 2] = Default::default();
        for (half, lane) in [(0, 0), (0, 1), (1, 1), (1, 0)] {
            let block = block(&local, trial * 2 + half, lane, COMPARED / 2).await;
            sides[usize::try_from(lane)?].extend(block.requests);
        }
        let mut is_worse = false;
        for (at, figure) in ComparedFigure::OF_ANSWERS.into_iter().enumerate() {
            let (ratio, pairs) = compare::paired(figure, &sides[0], &sides[1]).context("too few pairs")?;
            let verdict = compare::judge(figure, &ratio, MARGIN, pairs);
            let column = match verdict {
                LoadVerdict::Worse => 0,
                LoadVerdict::Better => 1,
                LoadVerdict::Same => 2,
                LoadVerdict::CannotTell { .. } => 3,
            };
            is_worse |= column == 0;
            verdicts[at][column] += 1;
        }
        any_worse += u32::from(is_worse);
    }
    local.alone.stop().await;
    simulator.end()?;
    let mut table = Table::default();
    for (figure, [worse, better, same, unknown]) in ComparedFigure::OF_ANSWERS.into_iter().zip(verdicts) {
        table.row(figure.label(), format!("worse {worse}, better {better}, the same {same}, cannot tell {unknown}"));
    }
    table.row("any of them worse", format!("{any_worse} of {trials}"));
    Ok(table.print(&format!("a server against itself, {COMPARED} pairs, margin {:.0} %", MARGIN * 100.0))?)
}

async fn block(local: &LocalGenerator, trial: u32, lane: u64, requests: usize) -> BlockResult {
    let first = u64::from(trial) * 1_000_000;
    let plan = BlockPlan { requests, first, ..plan(Load::Users(USERS)) };
    local.generator.run(&target(lane, SERVER), &plan, &mut |_| true).await
}

/// The command against servers with seeds of their own, some at a time: each takes a hundredth of a core.
fn rate(trials: u32) -> anyhow::Result<()> {
    let truth = true_rate();
    let (mut table, mut within) = (Table::default(), 0);
    let seeds: Vec<u32> = (1..=trials).collect();
    for seeds in seeds.chunks(SEARCHES) {
        let found = std::thread::scope(|scope| {
            let searches: Vec<_> = seeds.iter().map(|seed| scope.spawn(|| search(*seed))).collect();
            searches.into_iter().map(|search| search.join()).collect::<Vec<_>>()
        });
        for (seed, found) in seeds.iter().zip(found) {
            let found = found.map_err(|_| anyhow::anyhow!("a search panicked"))??;
            let line = match found.passes.zip(found.fails) {
                Some((passes, fails)) => {
                    let off = ((passes * fails).sqrt() / truth - 1.0) * 100.0;
                    within += u32::from(off.abs() <= 10.0);
                    format!("≥ {passes:.1}/s passes, ≤ {fails:.1}/s fails; the middle is {off:+.1} % off")
                }
                None => {
                    let doubts = found.trials.iter().flat_map(|trial| trial.doubts.first()).next();
                    format!("undecided: {}", doubts.map_or("no doubt was told", String::as_str))
                }
            };
            let line = format!("{line} ({} trials)", found.trials.len());
            eprintln!("seed {seed}: {line}");
            table.row(format!("seed {seed}"), line);
        }
    }
    table.row("within 10 %", format!("{within} of {trials}"));
    Ok(table.print(&format!("the rate at which 90 % have TTFT ≤ {SLO_MS} ms; true, by recursion: {truth:.1}/s"))?)
}

fn search(seed: u32) -> anyhow::Result<FoundRate> {
    let mut simulator = Simulator::start(
        &format!(
            "--ttft {QUEUED_TTFT_MS}ms --jitter {QUEUED_JITTER} --seed {seed} --tokens-per-second {} --tokens {QUEUED_TOKENS} --slots {SLOTS}",
            1e3 / GAP_MS
        ),
        &[],
    )?;
    let asked = format!("--find rate --slo ttft={SLO_MS}ms --attain {ATTAIN} --duration 60s --seed {seed}");
    let result = bench(&simulator.base_url, &asked)?;
    simulator.end()?;
    result.found.into_iter().next().context("no rate was searched")
}

/// By the queue of Kiefer and Wolfowitz on drawn arrivals: each request takes the slot that is free first.
fn true_rate() -> f64 {
    let (mut low, mut high): (f64, f64) =
        (1.0, SLOTS as f64 * 1e3 / (QUEUED_TTFT_MS + GAP_MS * (QUEUED_TOKENS - 1) as f64) * 1.2);
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        *(if attainment(middle) >= ATTAIN { &mut low } else { &mut high }) = middle;
    }
    low
}

fn attainment(per_second: f64) -> f64 {
    let mut rng = Rng::with_seed(11);
    let (mut at, mut free, mut good) = (0.0, [0.0_f64; SLOTS], 0);
    for _ in 0..DRAWN {
        at += -(1.0 - rng.f64()).ln() * 1e3 / per_second;
        let first = log_normal(&mut rng, QUEUED_TTFT_MS);
        let rest: f64 = (1..QUEUED_TOKENS).map(|_| log_normal(&mut rng, GAP_MS)).sum();
        let slot = (0..SLOTS).fold(0, |best, slot| if free[slot] < free[best] { slot } else { best });
        let begins = free[slot].max(at);
        free[slot] = begins + first + rest;
        good += usize::from(begins - at + first <= SLO_MS);
    }
    good as f64 / DRAWN as f64
}

fn log_normal(rng: &mut Rng, median: f64) -> f64 {
    let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    median * (QUEUED_JITTER * normal).exp()
}

/// The command, sharing its core with `burners` busy programs.
fn trust(name: &str, trials: u32, burners: usize) -> anyhow::Result<()> {
    let mut simulator = server()?;
    let burning: Vec<Burner> = (0..burners).map(|_| Burner::start()).collect::<anyhow::Result<_>>()?;
    let (mut flagged, mut reasons, mut quiet, mut quiet_flagged) = (0, Vec::new(), 0, 0);
    for trial in 0..trials {
        let asked = format!("--concurrency {USERS} --requests {REQUESTS} --duration 20s --warm-up 0s --seed {trial}");
        let (result, woke_us) = witnessed(|| bench(&simulator.base_url, &asked))?;
        let doubts: Vec<&String> = result.stages.iter().flat_map(|stage| &stage.doubts).collect();
        let (not_trusted, is_quiet) = (!doubts.is_empty(), woke_us <= QUIET_US);
        flagged += u32::from(not_trusted);
        quiet += u32::from(is_quiet);
        quiet_flagged += u32::from(is_quiet && not_trusted);
        reasons.extend(doubts.first().map(|why| format!("{why}; this program: p99 {:.1} ms", woke_us / 1e3)));
    }
    drop(burning);
    simulator.end()?;
    let mut table = Table::default();
    table.row("not trusted", format!("{flagged} of {trials}"));
    let bound = QUIET_US / 1e3;
    table.row(
        "on a quiet machine alone",
        format!("{quiet_flagged} of {quiet} (a thread of this program woke within {bound} ms at p99)"),
    );
    for reason in reasons.iter().take(5) {
        table.row("such as", reason);
    }
    Ok(table.print(&format!("{name} client, {burners} busy programs on its core"))?)
}

/// Runs it, and tells how late a thread of this program woke meanwhile, 99th percentile in µs: what the machine did, whatever
/// the client does.
fn witnessed<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let done = AtomicBool::new(false);
    let (ran, mut late) = std::thread::scope(|scope| {
        let witness = scope.spawn(|| {
            let mut late = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let begun = Instant::now();
                sleep(BEAT);
                late.push(begun.elapsed().saturating_sub(BEAT).as_secs_f64() * 1e6);
            }
            late
        });
        let ran = run();
        done.store(true, Ordering::Relaxed);
        (ran, witness.join().unwrap_or_default())
    });
    late.sort_by(f64::total_cmp);
    Ok((ran?, statistics::quantile(&late, 0.99).context("the witness saw nothing")?))
}

#[expect(clippy::disallowed_methods, reason = "on a thread of its own")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Runs `photofinish bench` on the core of this process.
fn bench(base_url: &str, asked: &str) -> anyhow::Result<RunResult> {
    let ended = Command::new(program()?)
        .args(["bench", "--url", base_url, "--model", "m", "--input-tokens", "20", "--output-tokens", "16"])
        .args(["--no-store", "--json"])
        .args(asked.split(' '))
        .current_dir(Path::new("/"))
        .env_remove("PHOTOFINISH_CONFIG")
        .stderr(Stdio::piped())
        .output()?;
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(!ended.stdout.is_empty(), "bench said nothing ({}): {told}", ended.status);
    serde_json::from_slice(&ended.stdout).with_context(|| format!("its result ({})", ended.status))
}

/// A program that never sleeps; killed when dropped.
struct Burner(Child);

impl Burner {
    fn start() -> anyhow::Result<Burner> {
        let command = ["-c", "while :; do :; done"];
        Ok(Burner(Command::new("sh").args(command).spawn()?))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // Both calls fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
