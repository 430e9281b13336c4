//! Measures the speed of the history: creates one of any size, rolls it up, queries it, and writes to it during
//! queries. How to read the figures: `docs/benchmarks.md`.

mod world;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Parser;
use photofinish_config::{StoreAddress, parse};
use photofinish_facts::record::Record;
use photofinish_history::report::compare;
use photofinish_history::report::question::from_pairs;
use photofinish_history::report::stats::{self, Stats, StatsQuestion};
use photofinish_history::store::{Roller, RollupStep, Store, StoreReader};
use world::{FIELD, World};

/// Maximum time of a run.
const RUN_MAX: Duration = Duration::from_secs(1_800);
/// Records in one transaction, as in the recorder.
const BATCH: usize = 1_000;

/// Measure the history on this machine.
#[derive(Debug, Parser)]
#[command(name = "history")]
struct Options {
    /// Path of the database. An existing one is reused. Without it, a temporary directory.
    #[arg(long)]
    path: Option<PathBuf>,
    /// A Postgres database to write the attempts to, instead of all other measurements.
    #[arg(long, conflicts_with = "path")]
    url: Option<String>,
    /// Attempts in the history.
    #[arg(long, default_value_t = 10_000_000)]
    attempts: usize,
    /// Days covered by the attempts.
    #[arg(long, default_value_t = 30)]
    days: i64,
    /// Models that the attempts are of, the first ones most often.
    #[arg(long, default_value_t = 4)]
    models: usize,
    /// How often each question is repeated.
    #[arg(long, default_value_t = 15)]
    times: usize,
    /// Seconds for which the writer is measured; it adds to the newest hour. 0: not at all.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(url) = &options.url {
        let config = parse(&format!("store.url = {}", serde_json::json!(url)), Path::new("config.toml"), &|_| None)?;
        return make(&options, &config.store.address, &mut std::io::stdout()).await;
    }
    let directory = tempfile::tempdir()?;
    let path = options.path.clone().unwrap_or_else(|| directory.path().join("history.db"));
    let mut out = std::io::stdout();
    tokio::time::timeout(RUN_MAX, run(&options, &path, &mut out)).await.context("the run took too long")?
}

async fn run(options: &Options, path: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    if !path.exists() {
        make(options, path, out).await?;
    }
    roll_up(path, out)?;
    let size = std::fs::metadata(path)?.len();
    writeln!(out, "file: {:.2} GiB", size as f64 / f64::from(1 << 30))?;
    ask(path, options.times, out)?;
    if options.seconds > 0 {
        write(options, path, out).await?;
    }
    Ok(())
}

async fn make(options: &Options, at: impl Into<StoreAddress>, out: &mut impl Write) -> anyhow::Result<()> {
    let store = Store::open(at)?;
    let span_us = options.days * 86_400_000_000;
    let races = options.attempts.div_ceil(FIELD);
    let mut world = World::new(now_us() - span_us, span_us as f64 / races as f64, options.models);
    let (began, mut batch) = (Instant::now(), Vec::with_capacity(BATCH + FIELD));
    for _ in 0..races {
        world.race(&mut batch);
        if batch.len() >= BATCH {
            store.write(&batch)?;
            batch.clear();
        }
    }
    store.write(&batch)?;
    let took = began.elapsed().as_secs_f64();
    let attempts = races * FIELD;
    writeln!(out, "made: {attempts} attempts in {took:.1} s, {:.0} attempts/s", attempts as f64 / took)?;
    store.close();
    Ok(())
}

fn roll_up(path: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let mut roller = Roller::new(path, || false);
    let (began, mut slowest, mut steps, mut attempts) = (Instant::now(), Duration::ZERO, 0, 0);
    loop {
        let step_began = Instant::now();
        match roller.step(now_us(), None)? {
            RollupStep::RolledUp { attempts: more } => attempts += more,
            RollupStep::Day => {}
            _ => break,
        }
        slowest = slowest.max(step_began.elapsed());
        steps += 1;
    }
    writeln!(
        out,
        "rolled up: {steps} hours and days ({attempts} attempts) in {:.1} s; the slowest took {:.0} ms",
        began.elapsed().as_secs_f64(),
        millis(slowest)
    )?;
    Ok(())
}

fn ask(path: &Path, times: usize, out: &mut impl Write) -> anyhow::Result<()> {
    let config = parse("", path, &|_| None)?;
    let day: &[(&str, &str)] = &[("since", "24h")];
    for (name, pairs) in [
        ("all of it", &[][..]),
        ("all of it, by model", &[("by", "model")]),
        ("all of it, by upstream and hour", &[("by", "upstream,hour")]),
        ("all of it, by upstream and input", &[("by", "upstream,input")]),
        ("all of it, by upstream and concurrency", &[("by", "upstream,concurrency")]),
        ("7 days", &[("since", "7d")]),
        ("24 hours", day),
        ("1 hour", &[("since", "1h")]),
    ] {
        let mut took = Vec::new();
        let mut answer = None;
        for _ in 0..times {
            let began = Instant::now();
            // Uses a separate connection, as the command does.
            answer = Some(asked(path, pairs)?);
            took.push(began.elapsed());
        }
        took.sort();
        let (answer, median, most) = (answer.context("no run")?, took[times / 2], took[times - 1]);
        let of = if answer.coverage.rolled_until.is_some() { "cells and rows" } else { "rows" };
        writeln!(
            out,
            "{name}: median {:.1} ms, most {:.1} ms; {} attempts out of {of}, {} groups",
            millis(median),
            millis(most),
            answer.attempts,
            answer.groups.len()
        )?;
    }
    for since in ["30d", "24h"] {
        let window =
            from_pairs::<StatsQuestion>(&[("since".to_owned(), since.to_owned())]).map_err(anyhow::Error::msg)?.window;
        let (mut took, mut models) = (Vec::new(), 0);
        for _ in 0..times {
            let began = Instant::now();
            models = compare::ask(&StoreReader::open(path)?, &window, &config, now_us())?.models.len();
            took.push(began.elapsed());
        }
        took.sort();
        let (median, most) = (millis(took[times / 2]), millis(took[times - 1]));
        writeln!(out, "compared, {since}: median {median:.1} ms, most {most:.1} ms; {models} models")?;
    }
    let began = Instant::now();
    let exact = asked(path, &[("exact", "true")])?;
    writeln!(out, "all of it, exact: {:.1} s", began.elapsed().as_secs_f64())?;
    writeln!(out, "furthest from the exact quantiles: {:.2} %", 100.0 * furthest(&exact, &asked(path, &[])?))?;
    Ok(())
}

fn asked(path: &Path, pairs: &[(&str, &str)]) -> anyhow::Result<Stats> {
    let pairs: Vec<(String, String)> = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let question = from_pairs(&pairs).map_err(anyhow::Error::msg)?;
    Ok(stats::ask(&StoreReader::open(path)?, &question, now_us())?)
}

/// The largest relative difference among all quantiles of TTFT and tok/s.
fn furthest(exact: &Stats, rolled: &Stats) -> f64 {
    let mut most: f64 = 0.0;
    for (exact, rolled) in exact.groups.iter().zip(&rolled.groups) {
        let reached =
            |quantile: Option<photofinish_facts::estimate::survival::Estimate>| quantile.and_then(|at| at.reached());
        let ttft = exact.ttft.at.into_iter().zip(rolled.ttft.at);
        let ttft = ttft.filter_map(|(a, b)| Some((reached(a)? as f64, reached(b)? as f64)));
        let tok_s = exact.tok_s.into_iter().zip(rolled.tok_s).filter_map(|(a, b)| Some((a?, b?)));
        ttft.chain(tok_s).for_each(|(exact, rolled)| most = most.max((rolled / exact - 1.0).abs()));
    }
    most
}

/// Throughput of the writer during repeated queries, then the time of small batches.
async fn write(options: &Options, path: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let store = Store::open(path)?;
    let mut world = World::new(now_us(), 1_000.0, options.models);
    let (stop, asked_times) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let (written, began) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let asking = scope.spawn(|| -> anyhow::Result<()> {
            while !stop.load(Relaxed) {
                asked(path, &[])?;
                asked_times.fetch_add(1, Relaxed);
            }
            Ok(())
        });
        let (began, mut written) = (Instant::now(), 0);
        let wrote = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                while Instant::now() < until {
                    let mut batch = Vec::with_capacity(BATCH + FIELD);
                    while batch.len() < BATCH {
                        world.race(&mut batch);
                    }
                    store.write(&batch)?;
                    written += batch.iter().filter(|record| matches!(record, Record::Attempt(_))).count();
                }
                anyhow::Ok(())
            })
        });
        let took = began.elapsed();
        stop.store(true, Relaxed);
        wrote?;
        asking.join().map_err(|_| anyhow::anyhow!("the questions failed"))??;
        Ok((written, took))
    })?;
    writeln!(
        out,
        "writer beside {} questions: {:.0} attempts/s, the making of the rows included",
        asked_times.load(Relaxed),
        written as f64 / began.as_secs_f64()
    )?;
    let mut flushes = Vec::new();
    for _ in 0..500 {
        let mut batch = Vec::with_capacity(100);
        while batch.len() < 100 {
            world.race(&mut batch);
        }
        let flush_began = Instant::now();
        store.write(&batch)?;
        flushes.push(flush_began.elapsed());
    }
    flushes.sort();
    let [p50, p99] = [0.5, 0.99].map(|share| millis(flushes[(flushes.len() as f64 * share) as usize]));
    writeln!(
        out,
        "flush of 100 rows: p50 {p50:.1} ms, p99 {p99:.1} ms, most {:.1} ms",
        millis(flushes[flushes.len() - 1])
    )?;
    store.close();
    Ok(())
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
