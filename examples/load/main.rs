//! Drives the gateway over real loopback HTTP. `cost` compares it with nginx, and `grow` shows how its
//! cost grows. `race`, `streams`, `proxy` and `clock` print its cost and the accuracy
//! of its measurements; `truth` and `verify` do so for the load generator; `policies` compares the policies.
//!
//! This process runs the simulated upstreams and the clients, so that both use one clock; the gateway is `photofinish
//! serve` in a separate process, so that its memory and CPU time are measured separately. How to read the figures:
//! `docs/benchmarks.md`.

mod client;
mod clock;
mod cost;
mod drive;
mod figures;
mod gateway;
mod generator;
mod grow;
mod ledger;
mod outcome;
mod policies;
mod proxy;
mod race;
mod simulator;
mod streams;
mod truth;
mod upstreams;
mod verify;

use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

/// The allocator of the program (`src/main.rs`), so that what runs in this process costs what it costs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Maximum time of a run.
const RUN_MAX: Duration = Duration::from_secs(3_600);

/// Measure the gateway on this machine.
#[derive(Debug, Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The cost of requests, events and streams, compared with nginx on the same core. Takes three minutes.
    Cost(cost::Options),
    /// How the gateway's cost grows with streams, connections, bodies and the width of races. Takes two minutes.
    Grow(grow::Options),
    /// The time that a race adds to the first token, and how soon the losers are stopped.
    Race(race::Options),
    /// Memory and CPU time of many slow streams at once.
    Streams(streams::Options),
    /// Throughput with one upstream, compared with the same load without a gateway.
    Proxy(proxy::Options),
    /// The error of the recorded TTFT and tokens per second against the upstream's own timestamps.
    Clock(clock::Options),
    /// The error of the load generator against the stamps of a simulated provider in a process of its own.
    Truth(truth::Options),
    /// Whether what `bench` says of a running server holds: intervals, verdicts, the rate found, trust. Up to half an hour.
    Verify(verify::Options),
    /// Compares policies over five upstreams with tails, whose favourite hangs for a quarter of the run.
    Policies(policies::Options),
}

fn main() -> anyhow::Result<()> {
    let command = Cli::parse().command;
    let runtime = match command {
        Command::Truth(_) | Command::Verify(_) => {
            cost::prepare()?;
            photofinish_lab::bench::runtime().build()?
        }
        Command::Cost(_) | Command::Grow(_) => {
            cost::prepare()?;
            Builder::new_current_thread().enable_all().build()?
        }
        _ => Builder::new_multi_thread().enable_all().build()?,
    };
    runtime.block_on(async { tokio::time::timeout(RUN_MAX, run(command)).await.context("the run took too long")? })
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Cost(options) => cost::run(options).await,
        Command::Grow(options) => grow::run(options).await,
        Command::Race(options) => race::run(options).await,
        Command::Streams(options) => streams::run(options).await,
        Command::Proxy(options) => proxy::run(options).await,
        Command::Clock(options) => clock::run(options).await,
        Command::Truth(options) => truth::run(options).await,
        Command::Verify(options) => verify::run(options).await,
        Command::Policies(options) => policies::run(options).await,
    }
}
