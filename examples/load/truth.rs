//! The load generator of `photofinish bench` against the truth: a simulated provider on the other core stamps when it wrote
//! each event, and both clocks are monotonic, so durations compare without a common zero.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use http::{HeaderMap, HeaderValue};
use photofinish::app::LocalGateway;
use photofinish::bench::arrivals::Arrivals;
use photofinish::bench::measured::MeasuredRequest;
use photofinish::bench::prompt::{PromptMaker, marker};
use photofinish::bench::spend::Spend;
use photofinish::bench::workload::Workload;
use photofinish::bench::{BlockPlan, Generator, Load, LoadClient, LoadTarget, RowFeed};
use photofinish::clock::Instant;
use photofinish::config;
use serde_json::Value;

use crate::cost::on_its_core;
use crate::figures::{Sample, Table};
use crate::gateway::{own_cpu, program, rss_kib_of};

/// Maximum time until the simulated provider listens.
const START_MAX: Duration = Duration::from_secs(20);

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
    /// From the beginning of its service to its first event, and to its end.
    first_us: f64,
    service_us: f64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("truth.jsonl");
    let (mut simulator, base_url) = simulator(&options, &file)?;
    let measured = measure(&options, &base_url, dir.path()).await;
    let told = Command::new("kill").arg(simulator.id().to_string()).status()?;
    ensure!(told.success() && simulator.wait()?.success(), "the simulated provider is gone");
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

fn simulator(options: &Options, file: &Path) -> anyhow::Result<(Child, String)> {
    let mut command = Command::new(program()?);
    command
        .args(["simulate", "--listen", "127.0.0.1:0", "--ttft", "100ms", "--jitter", "0.2", "--seed", "1"])
        .args(["--tokens-per-second", &options.rate.to_string(), "--tokens", &options.tokens.to_string()])
        .args(["--tokens-per-event", &options.tokens_per_event.to_string(), "--slots", &options.slots.to_string()])
        .args(options.stall.iter().flat_map(|stall| ["--stall", stall]))
        .arg("--truth")
        .arg(file)
        .env_remove("PHOTOFINISH_LOG")
        .stderr(Stdio::piped());
    let mut child = on_its_core(|| Ok(command.spawn()?))?;
    let log = BufReader::new(child.stderr.take().context("no standard error")?);
    let begun = Instant::now();
    let mut lines = log.lines();
    while begun.elapsed() < START_MAX {
        let line = lines.next().context("the simulated provider ended")??;
        if let Some((_, rest)) = line.split_once("base_url=") {
            let url = rest.split_whitespace().next().unwrap_or_default().trim_matches('"').to_owned();
            // It goes on logging.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((child, url));
        }
    }
    anyhow::bail!("the simulated provider does not listen")
}

async fn measure(options: &Options, base_url: &str, dir: &Path) -> anyhow::Result<(Vec<MeasuredRequest>, ClientCost)> {
    let database = dir.join("rows.db");
    let text =
        format!("[store]\nurl = \"sqlite:{}\"\n[providers.sim]\nbase_url = \"{base_url}\"\n", database.display());
    let config = config::parse(&text, Path::new("truth"), &|_| None)?;
    let feed = RowFeed::new();
    let alone = LocalGateway::start(config, true, Arc::clone(&feed) as _).await?;
    let prompts = PromptMaker::new(Workload::new("truth", 20, options.tokens), 0.0, 1);
    let client = LoadClient::new(Arc::clone(alone.gateway()), feed);
    let members = serde_json::Map::new();
    let generator = Generator::new(client, prompts, Spend::unlimited(), members, "truth".to_owned());
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    let name = "sim/m".to_owned();
    let target = LoadTarget { name: name.clone(), model: name, headers, prices: Vec::new(), lane: 0 };
    let plan = BlockPlan {
        load: match options.arrivals {
            Some(per_second) => Load::Rate { per_second, arrivals: Arrivals::Poisson },
            None => Load::Users(options.streams),
        },
        duration: Duration::from_secs(options.seconds),
        requests: usize::MAX,
        first: 0,
        in_flight_max: usize::MAX,
        ramp: Duration::from_millis(options.ramp),
        seed: 1,
    };
    // Opens the store and a connection, which are no part of the streams' memory.
    generator
        .run(&target, &BlockPlan { requests: 1, first: 1 << 40, load: Load::Users(1), ..plan.clone() }, &mut |_| true)
        .await;
    let own = std::process::id();
    let (cpu, rss) = (own_cpu()?, rss_kib_of(own)?);
    let (mut grown, mut most) = (0, 0);
    let block = generator
        .run(&target, &plan, &mut |progress| {
            if progress.in_flight > most {
                most = progress.in_flight;
            }
            grown = grown.max(rss_kib_of(own).unwrap_or(0).saturating_sub(rss));
            true
        })
        .await;
    let cpu = own_cpu()?.saturating_sub(cpu);
    alone.stop().await;
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
        let (Some(began), Some(ended)) = (line["began_us"].as_f64(), line["ended_us"].as_f64()) else { continue };
        let (first_us, service_us) = (first - began, ended - began);
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
