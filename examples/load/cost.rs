//! What the gateway costs beside nginx: one run, one table. The gateway and nginx have a core to themselves, one after
//! the other; the upstream and the clients have another. Each round measures both, so that a slow minute of the machine
//! affects both.

pub mod client;
pub mod measure;
mod record;
pub mod script;
pub mod subject;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use photofinish_base::machine::raise_descriptors;
use photofinish_base::shutdown::Shutdown;

use crate::gateway::{Gateway, program};
use crate::race;
use crate::upstreams::Upstreams;
use record::{Column, Record};
use script::{Answer, SLOW, Script};
pub use subject::on_its_core;
use subject::{Kind, Subject, nginx, pin_own};

/// Connections of the load with tiny answers, and of that with events.
const CONNECTIONS: u64 = 64;
const COALESCED_CONNECTIONS: u64 = 16;
/// Requests one after the other, and at 100 a second.
const ALONE: usize = 3_000;
const TICKS: usize = 300;
/// Clients that leave.
const LEAVE: usize = 100;
/// Time after the first answer until the memory counts as idle.
const IDLE: Duration = Duration::from_secs(1);
/// Races at once: 230 ms each make 100 a second.
const RACING: u32 = 23;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rounds; the table has the median and the range.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    rounds: u32,
    /// Tiny requests of each round; also the basis of the other counts.
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    requests: u64,
    /// Slow streams at once.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    streams: u32,
    /// Races of each round.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(23..=3_500))]
    races: u32,
    /// A file to which the figures are appended as a line of JSON.
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
}

/// Call it before there are other threads: they then share its core.
pub fn prepare() -> anyhow::Result<()> {
    pin_own()?;
    raise_descriptors()?;
    Ok(())
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let tasks = Shutdown::new();
    let mut record = Record::new()?;
    let kinds = if nginx().is_some() { vec![Kind::Photofinish, Kind::Nginx] } else { vec![Kind::Photofinish] };
    if kinds.len() == 1 {
        record.note("nginx is not installed (apt-get install nginx-light): its column is empty");
    }
    for _ in 0..options.rounds {
        let mut script = Script::start(&tasks, SLOW).await?;
        let [alone, _, alone_p99, _] = measure::alone(script.addr, ALONE).await?.quantiles();
        let [ticking, ..] = measure::ticking(script.addr, TICKS).await?.quantiles();
        record.add("p50 of a request, 1 connection, ms", Column::Direct, alone);
        record.add("p99 of a request, 1 connection, ms", Column::Direct, alone_p99);
        record.add("p50 of a request, 100 requests/s, ms", Column::Direct, ticking);
        for kind in &kinds {
            let direct = Direct { alone, alone_p99, ticking };
            subject_round(&options, &tasks, &mut script, *kind, direct, &mut record).await?;
        }
        race_round(&options, &mut record).await?;
    }
    let size = |path: &std::path::Path| anyhow::Ok(std::fs::metadata(path)?.len() as f64 / 1e6);
    record.add("binary, MB", Column::Photofinish, size(&program()?)?);
    if let Some(nginx) = nginx() {
        record.add("binary, MB", Column::Nginx, size(nginx)?);
    }
    record.print()?;
    match &options.append {
        Some(path) => record.append(path).with_context(|| format!("writing {}", path.display())),
        None => Ok(()),
    }
}

/// The times of this round without a proxy, in milliseconds.
#[derive(Clone, Copy)]
struct Direct {
    alone: f64,
    alone_p99: f64,
    ticking: f64,
}

/// All figures of one process, which is new in each round: its memory is that of the first streams.
async fn subject_round(
    options: &Options,
    tasks: &Shutdown,
    script: &mut Script,
    kind: Kind,
    direct: Direct,
    record: &mut Record,
) -> anyhow::Result<()> {
    let subject = Subject::start(kind, script.addr, 1).await?;
    let column = if kind == Kind::Nginx { Column::Nginx } else { Column::Photofinish };
    let mut add = |name, value| record.add(name, column, value);
    add("start to the first 200, s", subject.started.as_secs_f64());
    tokio::time::sleep(IDLE).await;
    add("idle resident memory, MB", subject.rss_kib()? as f64 * 1024.0 / 1e6);

    let slow = measure::slow(tasks, script, &subject, options.streams).await?;
    add("memory per open stream, KB", slow.kb_per_stream);
    add("CPU s per 1 M events, slow streams", slow.cpu_s_per_million_events);

    let requests = options.requests;
    let cpu = measure::cpu_of_requests(tasks, &subject, Answer::Tiny, requests, CONNECTIONS).await?;
    add("CPU s per 10,000 requests, tiny JSON, 64 connections", cpu / requests as f64 * 1e4);
    add("requests/s per core", requests as f64 / cpu);
    let answers = requests / 20;
    let cpu = measure::cpu_of_requests(tasks, &subject, Answer::Each, answers, CONNECTIONS).await?;
    add("CPU s per 1 M events, one write each", cpu / measure::events(answers) * 1e6);
    let answers = requests / 8;
    let cpu = measure::cpu_of_requests(tasks, &subject, Answer::Coalesced, answers, COALESCED_CONNECTIONS).await?;
    add("coalesced events/s per core, M", measure::events(answers) / cpu / 1e6);

    let [p50, _, p99, _] = measure::alone(subject.addr, ALONE).await?.quantiles();
    add("added p50, 1 connection, ms", p50 - direct.alone);
    add("added p99, 1 connection, ms", p99 - direct.alone_p99);
    let [p50, ..] = measure::ticking(subject.addr, TICKS).await?.quantiles();
    add("added p50, 100 requests/s, ms", p50 - direct.ticking);
    let [p50, _, p99, _] = measure::cancelled(script, subject.addr, LEAVE).await?.quantiles();
    add("client left to upstream cancelled, p50, ms", p50);
    add("client left to upstream cancelled, p99, ms", p99);
    subject.stop().await
}

/// Races of three through a gateway of their own, and by the client itself.
async fn race_round(options: &Options, record: &mut Record) -> anyhow::Result<()> {
    let races = race::Options { races: options.races, concurrent: RACING, tokens: 20, rate: 100.0, ttft: 30 };
    let upstreams = Upstreams::start(&races.ttfts(), races.rate).await?;
    let gateway = on_its_core(|| Gateway::start(&upstreams.base_urls()))?;
    let through = race::through(&upstreams, gateway.addr, races).await?;
    gateway.stop().await?;
    let upstreams = Upstreams::start(&races.ttfts(), races.rate).await?;
    let direct = race::directly(&upstreams, races).await?;
    for (column, seen) in [(Column::Photofinish, through), (Column::Direct, direct)] {
        let [p50, _, p99, _] = seen.added.quantiles();
        record.add("race of three, client TTFT over the fastest's, p50, ms", column, p50);
        record.add("race of three, client TTFT over the fastest's, p99, ms", column, p99);
        let [_, _, p99, _] = seen.stopped.quantiles();
        record.add("winner's token to loser cut, p99, ms", column, p99);
    }
    Ok(())
}
