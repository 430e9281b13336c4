//! The simulated providers of the config: in this process, over real HTTP on loopback.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::config::{Config, Simulation};
use crate::shutdown::Shutdown;
use crate::simulate::Simulator;

/// Those that run, by provider. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Simulated {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

struct Running {
    simulation: Simulation,
    simulator: Simulator,
    /// Its own, for it must serve while the gateway drains.
    shutdown: Shutdown,
}

impl Simulated {
    /// Starts and stops providers so that they are those of `config`, and tells where each listens.
    ///
    /// # Errors
    /// When one cannot listen.
    pub async fn follow(&self, config: &Config) -> anyhow::Result<HashMap<String, String>> {
        let mut running = self.running.lock().await;
        for provider in config.providers.values() {
            let Some(simulation) = &provider.simulate else { continue };
            if running.get(&provider.name).is_some_and(|running| running.simulation == *simulation) {
                continue;
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen for a simulated provider")?;
            let shutdown = Shutdown::new();
            let simulator = Simulator::start(&provider.name, simulation.clone(), listener, &shutdown)?;
            let started = Running { simulation: simulation.clone(), simulator, shutdown };
            if let Some(before) = running.insert(provider.name.clone(), started) {
                before.shutdown.drain();
            }
        }
        running.retain(|name, running| {
            let stays = config.providers.get(name).is_some_and(|provider| provider.simulate.is_some());
            if !stays {
                running.shutdown.drain();
            }
            stays
        });
        Ok(running.iter().map(|(name, running)| (name.clone(), running.simulator.base_url())).collect())
    }

    /// Ends them all.
    pub fn stop(&self) {
        if let Ok(running) = self.running.try_lock() {
            running.values().for_each(|running| running.shutdown.cancel());
        }
    }
}
