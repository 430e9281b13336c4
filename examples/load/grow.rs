//! How the gateway's cost grows: with open streams, connections, the size of a body and the width of a race. Each line
//! has a gateway of its own, alone on a core. A column that stays level means linear growth.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use photofinish_base::machine::descriptors;
use photofinish_base::shutdown::Shutdown;

use crate::cost::client::request;
use crate::cost::measure;
use crate::cost::script::{Answer, Script};
use crate::cost::subject::{Kind, Subject};

/// Events per second of all slow streams together, so that the upstream's core is not the limit.
const EVENTS_PER_SECOND: u32 = 20_000;
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Fewer streams than these say nothing about memory.
const STREAMS_FOR_MEMORY: u32 = 100;
/// The gateway's `max_in_flight` counts on so many. This process needs two: the client's and the upstream's.
const DESCRIPTORS_PER_STREAM: u64 = 4;
/// Bytes of all bodies of a line, and how many bodies there are at least and at most.
const BODY_BYTES: usize = 100_000_000;
const BODIES: (usize, usize) = (5, 4_000);
const BODY_CONNECTIONS: u64 = 2;
const RACE_CONNECTIONS: u64 = 16;

const KB: usize = 1_000;
const SIZES: [usize; 6] = [KB, 10 * KB, 100 * KB, 1_000 * KB, 5_000 * KB, 20_000 * KB];

#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Most open streams; fewer where the descriptors do not suffice.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// Tiny requests of a line.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(5_000..=1_000_000))]
    requests: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let tasks = Shutdown::new();
    let possible = u32::try_from(descriptors() / DESCRIPTORS_PER_STREAM).unwrap_or(u32::MAX);
    let most = options.streams.min(possible);
    open_streams(&tasks, most).await?;
    connections(&tasks, options.requests, u64::from(most)).await?;
    bodies(&tasks).await?;
    widths(&tasks, options.requests / 5).await
}

async fn open_streams(tasks: &Shutdown, most: u32) -> anyhow::Result<()> {
    heading(&["open streams", "memory a stream, KB", "CPU s per 1 M events"])?;
    let fewer = [1, 10, 100, 1_000, 3_000].into_iter().filter(|streams| *streams < most);
    for streams in fewer.chain([most]) {
        let pause = (Duration::from_secs(1) * streams / EVENTS_PER_SECOND).max(PAUSE_MIN);
        let mut script = Script::start(tasks, pause).await?;
        let subject = Subject::start(Kind::Photofinish, script.addr, 1).await?;
        let slow = measure::slow(tasks, &mut script, &subject, streams).await?;
        subject.stop().await?;
        let memory = match streams {
            0..STREAMS_FOR_MEMORY => "–".to_owned(),
            _ => format!("{:.1}", slow.kb_per_stream),
        };
        line(&format!("{streams} | {memory} | {:.1}", slow.cpu_s_per_million_events))?;
    }
    Ok(())
}

async fn connections(tasks: &Shutdown, requests: u64, most: u64) -> anyhow::Result<()> {
    heading(&["connections", "CPU s per 10,000 tiny requests"])?;
    let script = Script::start(tasks, PAUSE_MIN).await?;
    for connections in [1, 8, 64, 512, 4_096].into_iter().filter(|connections| *connections <= most) {
        let subject = Subject::start(Kind::Photofinish, script.addr, 1).await?;
        let cpu = measure::cpu_of_requests(tasks, &subject, Answer::Tiny, requests, connections).await?;
        subject.stop().await?;
        line(&format!("{connections} | {:.3}", cpu / requests as f64 * 1e4))?;
    }
    Ok(())
}

async fn bodies(tasks: &Shutdown) -> anyhow::Result<()> {
    heading(&["body, KB", "CPU ms a request", "CPU ms a MB"])?;
    let script = Script::start(tasks, PAUSE_MIN).await?;
    for size in SIZES {
        let subject = Subject::start(Kind::Photofinish, script.addr, 1).await?;
        let bodies = (BODY_BYTES / size).clamp(BODIES.0, BODIES.1);
        let body = request(Answer::Tiny.model(), false, size);
        measure::ask_all(tasks, subject.addr, body.clone(), BODY_CONNECTIONS, BODY_CONNECTIONS).await?;
        let before = subject.cpu()?;
        measure::ask_all(tasks, subject.addr, body, bodies as u64, BODY_CONNECTIONS).await?;
        let ms = (subject.cpu()? - before).as_secs_f64() * 1e3 / bodies as f64;
        subject.stop().await?;
        line(&format!("{} | {ms:.3} | {:.2}", size / KB, ms / size as f64 * 1e6))?;
    }
    Ok(())
}

async fn widths(tasks: &Shutdown, races: u64) -> anyhow::Result<()> {
    heading(&["upstreams that race", "CPU s per 10,000 races", "CPU s per 10,000 attempts"])?;
    let script = Script::start(tasks, PAUSE_MIN).await?;
    for width in 1..=8 {
        let subject = Subject::start(Kind::Photofinish, script.addr, width).await?;
        let cpu = measure::cpu_of_requests(tasks, &subject, Answer::Tiny, races, RACE_CONNECTIONS).await?;
        subject.stop().await?;
        let cpu = cpu / races as f64 * 1e4;
        line(&format!("{width} | {cpu:.2} | {:.2}", cpu / width as f64))?;
    }
    Ok(())
}

fn heading(columns: &[&str]) -> io::Result<()> {
    let rule = vec!["---"; columns.len()].join(" | ");
    writeln!(io::stdout().lock(), "\n| {} |\n| {rule} |", columns.join(" | "))
}

/// A line of a Markdown table, as soon as it is known.
fn line(cells: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "| {cells} |")
}
