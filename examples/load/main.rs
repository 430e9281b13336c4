//! Drives the gateway over real loopback HTTP and prints what it cost, and how well it
//! measures: `race`, `streams`, `proxy` or `clock`; and compares the `policies`.
//!
//! This process holds the simulated upstreams and the clients, so that both stamp times with one clock; the gateway is
//! `photofinish serve`, a process of its own, so that its memory and CPU time are its own. How to read the figures: `docs/benchmarks.md`.

mod client;
mod clock;
mod drive;
mod figures;
mod gateway;
mod ledger;
mod outcome;
mod policies;
mod proxy;
mod race;
mod schedule;
mod streams;
mod upstreams;

use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};

/// No run may take longer.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Measure the gateway on this machine.
#[derive(Debug, Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What a race adds to the first token, and how soon the losers are stopped.
    Race(race::Options),
    /// Memory and CPU time of many slow streams at once.
    Streams(streams::Options),
    /// Throughput with one upstream, beside the same load without a gateway.
    Proxy(proxy::Options),
    /// How far the recorded TTFT and tokens per second are from the upstream's own stamps.
    Clock(clock::Options),
    /// Policies side by side before five upstreams with tails, whose favourite hangs for a quarter of the run.
    Policies(policies::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let run = async {
        match Cli::parse().command {
            Command::Race(options) => race::run(options).await,
            Command::Streams(options) => streams::run(options).await,
            Command::Proxy(options) => proxy::run(options).await,
            Command::Clock(options) => clock::run(options).await,
            Command::Policies(options) => policies::run(options).await,
        }
    };
    tokio::time::timeout(RUN_MAX, run).await.context("the run took too long")?
}
