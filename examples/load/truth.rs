//! The load generator of `photofinish bench` against the truth: a simulated provider on the other core stamps when it wrote
//! each event, and both clocks are monotonic, so durations compare without a common zero.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;

use crate::figures::{Sample, Table};
use crate::gateway::{own_cpu, rss_kib_of};
use crate::generator::{LocalGenerator, SERVER, plan, target};
use crate::simulator::Simulator;
use photofinish_lab::bench::block::Arrivals;
use photofinish_lab::bench::measured::MeasuredRequest;
use photofinish_lab::bench::prompt::marker;
use photofinish_lab::bench::{BlockPlan, Load};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Closed loop: users at once, each with one answer after the other.
    #[arg(long, default_value_t = 1_000, conflicts_with = "arrivals")]
    streams: usize,
    /// Open loop: arrivals per second.
    #[arg(long)]
    arrivals: Option<f64>,
    /// Tokens per second of each stream.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Tokens of each answer.
    #[arg(long, default_value_t = 500)]
    tokens: u32,
    #[arg(long, default_value_t = 1)]
    tokens_per_event: u32,
    /// Requests that the simulated provider serves at once; more wait. 0: no limit.
    #[arg(long, default_value_t = 0)]
    slots: u32,
    /// When the simulated provider stands still, such as "2s every 20s".
    #[arg(long)]
    stall: Option<String>,
    /// Seconds in which requests are sent.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Milliseconds over which the users begin.
    #[arg(long, default_value_t = 3_000)]
    ramp: u64,
}

/// What the simulated provider wrote of one request, in microseconds.
struct Truth {
    ttft_us: f64,
    tpot_us: Option<f64>,
    events: usize,
    /// From the beginning of its service to its first event, and to the moment when its slot was free again.
    first_us: f64,
    service_us: f64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("truth.jsonl");
    let mut simulator = simulator(&options, &file)?;
    let measured = measure(&options, &simulator.base_url, dir.path()).await;
    simulator.end()?;
    let (requests, cost) = measured?;
    let truth = truth(&file)?;
    print(&requests, &truth, &cost)?;
    if let (Some(_), 1..) = (options.arrivals, options.slots) {
        queue(&requests, &truth, options.slots as usize)?;
    }
    Ok(())
}

/// What the run cost this process.
struct ClientCost {
    cpu: Duration,
    /// KiB that the streams added.
    grown_kib: u64,
    in_flight: usize,
}

fn simulator(options: &Options, file: &Path) -> anyhow::Result<Simulator> {
    let Options { rate, tokens, tokens_per_event, slots, .. } = options;
    let arguments = format!(
        "--ttft 100ms --jitter 0.2 --seed 1 --tokens-per-second {rate} --tokens {tokens} --tokens-per-event {tokens_per_event} --slots {slots}"
    );
    let mut more = vec![("--truth", file.as_os_str())];
    more.extend(options.stall.iter().map(|stall| ("--stall", OsStr::new(stall))));
    Simulator::start(&arguments, &more)
}

async fn measure(options: &Options, base_url: &str, dir: &Path) -> anyhow::Result<(Vec<MeasuredRequest>, ClientCost)> {
    let local = LocalGenerator::start(base_url, dir, options.tokens).await?;
    let load = match options.arrivals {
        Some(per_second) => Load::Rate { per_second, arrivals: Arrivals::Poisson },
        None => Load::Users(options.streams),
    };
    let ramp = Duration::from_millis(options.ramp);
    let plan = BlockPlan { duration: Duration::from_secs(options.seconds), ramp, ..plan(load) };
    // Opens the store and a connection, which are no part of the streams' memory.
    let first = BlockPlan { requests: 1, first: 1 << 40, load: Load::Users(1), ..plan.clone() };
    local.generator.run(&target(0, SERVER), &first, &mut |_| true).await;
    let own = std::process::id();
    let (cpu, rss) = (own_cpu()?, rss_kib_of(own)?);
    let (mut grown, mut most) = (0, 0);
    let mut watch = |progress: photofinish_lab::bench::Progress<'_>| {
        most = progress.in_flight.max(most);
        grown = grown.max(rss_kib_of(own).unwrap_or(0).saturating_sub(rss));
        true
    };
    let block = local.generator.run(&target(0, SERVER), &plan, &mut watch).await;
    let cpu = own_cpu()?.saturating_sub(cpu);
    local.alone.stop().await;
    Ok((block.requests, ClientCost { cpu, grown_kib: grown, in_flight: most }))
}

fn truth(file: &Path) -> anyhow::Result<HashMap<String, Truth>> {
    let text = fs::read_to_string(file)?;
    let mut found = HashMap::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line)?;
        let Some(marker) = line["marker"].as_str() else { continue };
        let events: Vec<f64> = line["events_us"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let (Some(first), Some(arrived)) = (events.first(), line["arrived_us"].as_f64()) else { continue };
        let tokens = line["tokens"].as_f64().unwrap_or(0.0);
        // The first event has as many tokens as any but the last.
        let of_first = (tokens / events.len() as f64).ceil();
        let tpot_us = (events.len() > 1).then(|| (events[events.len() - 1] - first) / (tokens - of_first));
        let (Some(began), Some(freed)) = (line["began_us"].as_f64(), line["freed_us"].as_f64()) else { continue };
        let (first_us, service_us) = (first - began, freed - began);
        let one = Truth { ttft_us: first - arrived, tpot_us, events: events.len(), first_us, service_us };
        found.insert(marker.to_owned(), one);
    }
    Ok(found)
}

fn print(requests: &[MeasuredRequest], truth: &HashMap<String, Truth>, cost: &ClientCost) -> anyhow::Result<()> {
    let (mut ttft, mut tpot, mut lag) = (Sample::default(), Sample::default(), Sample::default());
    let (mut events, mut paired) = (0, 0);
    for request in requests {
        lag.add_value(request.lag_us() as f64 / 1e3);
        let Some(truth) = truth.get(&marker(request.number, 0)) else { continue };
        events += truth.events;
        let Some(measured) = request.ttft_us.filter(|_| request.is_answered()) else { continue };
        paired += 1;
        ttft.add_value((measured as f64 - truth.ttft_us).abs() / 1e3);
        if let Some((measured, truth)) = request.tpot_us.zip(truth.tpot_us) {
            tpot.add_value((measured / truth - 1.0).abs() * 100.0);
        }
    }
    ensure!(paired > 0, "no request could be found in the truth file");
    let mut table = Table::default();
    table.row("requests", format!("{} sent, {paired} answered and in the truth file, {events} events", requests.len()));
    table.row("TTFT off by", ttft.line());
    table.row("TPOT off by", tpot.line_in("%"));
    table.row("send lag", lag.line());
    table.row("CPU an event", format!("{:.2} µs", cost.cpu.as_secs_f64() * 1e6 / events as f64));
    let each = cost.grown_kib as f64 / cost.in_flight.max(1) as f64;
    table.row("memory a stream", format!("{each:.1} KiB ({} at once)", cost.in_flight));
    Ok(table.print("the load generator against the simulated provider's stamps")?)
}

/// The times from the schedule to the first token, beside those of a queue that is computed from the schedule and the
/// service times alone (Kiefer and Wolfowitz 1955): each request takes the slot that is free first.
fn queue(requests: &[MeasuredRequest], truth: &HashMap<String, Truth>, slots: usize) -> anyhow::Result<()> {
    let mut free = vec![0.0_f64; slots];
    let (mut measured, mut computed) = (Sample::default(), Sample::default());
    for request in requests {
        let Some((truth, ttft)) = truth.get(&marker(request.number, 0)).zip(request.client_ttft_us()) else { continue };
        let slot = (0..slots).min_by(|a, b| free[*a].total_cmp(&free[*b])).context("no slot")?;
        let at = request.scheduled_us as f64;
        let begins = free[slot].max(at);
        free[slot] = begins + truth.service_us;
        computed.add_value((begins - at + truth.first_us) / 1e3);
        measured.add_value(ttft as f64 / 1e3);
    }
    let mut table = Table::default();
    table.row("measured", measured.line());
    table.row("computed", computed.line());
    Ok(table.print("time from the schedule to the first token, and that of the queue by recursion")?)
}
