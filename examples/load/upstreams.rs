//! Simulated upstreams on free loopback ports, in this process.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::Simulation;
use photofinish_lab::simulate::{FinishedRequest, Simulator};
use tokio::net::TcpListener;

/// How long the upstreams may take to notice that their clients have left.
const QUIET: Duration = Duration::from_secs(10);

/// The upstreams run until the process ends.
pub struct Upstreams {
    simulators: Vec<Simulator>,
    pub shutdown: Shutdown,
}

impl Upstreams {
    /// Starts one upstream for each TTFT, without jitter.
    pub async fn start(ttfts: &[Duration], tokens_per_second: f64) -> anyhow::Result<Upstreams> {
        let exact = |ttft: &Duration| Simulation {
            ttft: *ttft,
            jitter: 0.0,
            tokens_per_second,
            tokens: 100_000,
            ..Simulation::default()
        };
        Upstreams::start_as(ttfts.iter().map(exact)).await
    }

    /// Starts these simulations.
    pub async fn start_as(simulations: impl Iterator<Item = Simulation>) -> anyhow::Result<Upstreams> {
        let shutdown = Shutdown::new();
        let mut simulators = Vec::new();
        for simulation in simulations {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            simulators.push(Simulator::start("load", simulation, listener, &shutdown)?);
        }
        Ok(Upstreams { simulators, shutdown })
    }

    pub fn base_urls(&self) -> Vec<String> {
        self.simulators.iter().map(Simulator::base_url).collect()
    }

    /// The first upstream. Favourites are listed first.
    pub fn first(&self) -> Option<&Simulator> {
        self.simulators.first()
    }

    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.simulators.iter().map(Simulator::addr).collect()
    }

    /// Waits until no request is running.
    pub async fn quiet(&self) -> anyhow::Result<()> {
        for simulator in &self.simulators {
            let quiet = simulator.counts_are(|counts| counts.running == 0);
            tokio::time::timeout(QUIET, quiet).await.context("an upstream still generates")?;
        }
        Ok(())
    }

    /// The ended requests, at most 4096 of each upstream.
    pub fn ended(&self) -> impl Iterator<Item = FinishedRequest> {
        self.simulators.iter().flat_map(Simulator::ended)
    }
}
