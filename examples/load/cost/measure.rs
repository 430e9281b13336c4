//! The single measurements. Each drives one address, and takes the CPU time of the process behind it where it has one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;
use tokio::task::JoinHandle;

use super::client::{PlainClient, request};
use super::script::{Answer, EVENTS, SLOW, Script};
use super::subject::Subject;
use crate::figures::Sample;

/// A small prompt, in bytes.
const PROMPT: usize = 24;
/// Slow streams start over this time, and run for `PLATEAU` then.
const RAMP: Duration = Duration::from_secs(2);
const PLATEAU: Duration = Duration::from_secs(4);
/// Maximum time until all of them run.
const START_MAX: Duration = Duration::from_secs(30);
/// Maximum time until the upstream has noticed that all clients left.
const QUIET: Duration = Duration::from_secs(10);
/// The time between two requests at 100 a second.
const TICK: Duration = Duration::from_millis(10);

/// Asks this often over this many connections, as fast as the answers come.
pub async fn ask_all(
    tasks: &Shutdown,
    addr: SocketAddr,
    request: Vec<u8>,
    requests: u64,
    connections: u64,
) -> anyhow::Result<()> {
    let (request, taken): (Arc<[u8]>, _) = (request.into(), Arc::new(AtomicU64::new(0)));
    let workers: Vec<JoinHandle<anyhow::Result<()>>> = (0..connections)
        .map(|_| {
            let (request, taken) = (request.clone(), taken.clone());
            tasks.spawn(async move {
                let mut client = PlainClient::open(addr).await?;
                while taken.fetch_add(1, Relaxed) < requests {
                    client.ask(&request).await?;
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

/// CPU seconds of so many requests.
pub async fn cpu_of_requests(
    tasks: &Shutdown,
    subject: &Subject,
    answer: Answer,
    requests: u64,
    connections: u64,
) -> anyhow::Result<f64> {
    let streams = answer != Answer::Tiny;
    let request = request(answer.model(), streams, PROMPT);
    ask_all(tasks, subject.addr, request.clone(), (requests / 20).max(connections), connections).await?;
    let before = subject.cpu()?;
    ask_all(tasks, subject.addr, request, requests, connections).await?;
    Ok((subject.cpu()? - before).as_secs_f64())
}

/// The time of each of so many requests over one connection, in milliseconds.
pub async fn alone(addr: SocketAddr, requests: usize) -> anyhow::Result<Sample> {
    let request = request(Answer::Tiny.model(), false, PROMPT);
    let (mut client, mut sample) = (PlainClient::open(addr).await?, Sample::default());
    for number in 0..requests + requests / 10 {
        let sent = Instant::now();
        client.ask(&request).await?;
        if number >= requests / 10 {
            sample.add(sent.elapsed());
        }
    }
    Ok(sample)
}

/// The same at 100 requests a second.
pub async fn ticking(addr: SocketAddr, requests: usize) -> anyhow::Result<Sample> {
    let request = request(Answer::Tiny.model(), false, PROMPT);
    let (mut client, mut sample) = (PlainClient::open(addr).await?, Sample::default());
    let mut due = Instant::now();
    for _ in 0..requests {
        due += TICK;
        tokio::time::sleep_until(due).await;
        let sent = Instant::now();
        client.ask(&request).await?;
        sample.add(sent.elapsed());
    }
    Ok(sample)
}

/// What slow streams cost.
pub struct Slow {
    pub kb_per_stream: f64,
    pub cpu_s_per_million_events: f64,
}

/// Many slow streams at once, on a subject that had few before.
pub async fn slow(tasks: &Shutdown, script: &mut Script, subject: &Subject, streams: u32) -> anyhow::Result<Slow> {
    let rss_before = subject.rss_kib()?;
    let request: Arc<[u8]> = request(Answer::Slow.model(), true, PROMPT).into();
    let clients: Vec<JoinHandle<anyhow::Result<()>>> = (0..streams)
        .map(|number| {
            let (request, addr) = (request.clone(), subject.addr);
            tasks.spawn(async move {
                tokio::time::sleep(RAMP * number / streams).await;
                let mut client = PlainClient::open(addr).await?;
                client.begin(&request).await?;
                client.drain().await
            })
        })
        .collect();
    let began = Instant::now();
    while script.slow_answers() < u64::from(streams) && began.elapsed() < START_MAX {
        tokio::time::sleep(SLOW).await;
    }
    tokio::time::sleep(10 * SLOW).await;
    let (cpu, events) = (subject.cpu()?, script.slow_events());
    tokio::time::sleep(PLATEAU).await;
    let (cpu, events) = (subject.cpu()? - cpu, script.slow_events() - events);
    let rss = subject.rss_kib()?;
    let running = script.slow_answers();
    for client in clients {
        client.abort();
    }
    quiet(script).await?;
    anyhow::ensure!(running == u64::from(streams), "{running} of {streams} streams ran");
    Ok(Slow {
        kb_per_stream: rss.saturating_sub(rss_before) as f64 * 1.024 / f64::from(streams),
        cpu_s_per_million_events: cpu.as_secs_f64() / events as f64 * 1e6,
    })
}

/// From the moment that a client leaves a stream until the upstream sees the hang-up.
pub async fn cancelled(script: &mut Script, addr: SocketAddr, times: usize) -> anyhow::Result<Sample> {
    let request = request(Answer::Slow.model(), true, PROMPT);
    let mut sample = Sample::default();
    for _ in 0..times {
        let mut client = PlainClient::open(addr).await?;
        client.begin(&request).await?;
        let left = Instant::now();
        drop(client);
        let seen = tokio::time::timeout(QUIET, script.left.recv()).await.context("the upstream was not cancelled")?;
        sample.add(seen.context("no upstream")?.saturating_duration_since(left));
    }
    Ok(sample)
}

/// Waits until no slow answer is being written.
async fn quiet(script: &mut Script) -> anyhow::Result<()> {
    let all_left = async {
        while script.slow_answers() > 0 {
            script.left.recv().await;
        }
    };
    tokio::time::timeout(QUIET, all_left).await.context("the upstream was not cancelled")?;
    // The notice of the last one may still be on its way.
    while script.left.try_recv().is_ok() {}
    Ok(())
}

/// Events of this many long answers.
pub fn events(answers: u64) -> f64 {
    (answers * EVENTS) as f64
}
