//! The simulated providers of the config. They run in this process and serve real HTTP on loopback.

use std::collections::HashMap;
use std::mem;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::{Mutex, OwnedMutexGuard};

use photofinish_base::machine;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, Simulation};
use photofinish_lab::simulate::Simulator;

/// The running simulators, by provider. Cheap to clone; all clones share one state.
#[derive(Clone, Default)]
pub(super) struct Simulated {
    running: Arc<Mutex<HashMap<String, RunningSimulator>>>,
}

#[derive(Clone)]
struct RunningSimulator {
    simulation: Simulation,
    simulator: Simulator,
    /// A separate shutdown: the simulator must serve while the gateway drains.
    shutdown: Shutdown,
}

/// The simulators of a configuration that is not in force yet. The old ones still run. If it is dropped before it is
/// put in force, it stops what it started. At most one exists at a time.
pub(super) struct PendingSimulators {
    before: OwnedMutexGuard<HashMap<String, RunningSimulator>>,
    after: HashMap<String, RunningSimulator>,
    /// The simulators in `after` that are not in `before`.
    started: Vec<Shutdown>,
}

impl Simulated {
    /// Starts the simulators of `config` that do not run yet. Unchanged ones keep running.
    ///
    /// # Errors
    /// A simulator cannot listen.
    pub async fn next(&self, config: &Config) -> anyhow::Result<PendingSimulators> {
        let before = Arc::clone(&self.running).lock_owned().await;
        let mut next = PendingSimulators { before, after: HashMap::new(), started: Vec::new() };
        for provider in config.providers.values() {
            let Some(simulation) = &provider.simulate else { continue };
            let same = next.before.get(&provider.name).filter(|running| running.simulation == *simulation);
            let running = match same {
                Some(running) => running.clone(),
                None => next.start(&provider.name, simulation).await?,
            };
            next.after.insert(provider.name.clone(), running);
        }
        Ok(next)
    }

    pub async fn simulator(&self, provider: &str) -> Option<Simulator> {
        self.running.lock().await.get(provider).map(|running| running.simulator.clone())
    }

    /// Stops all simulators.
    pub fn stop(&self) {
        if let Ok(running) = self.running.try_lock() {
            running.values().for_each(|running| running.shutdown.cancel());
        }
    }
}

impl PendingSimulators {
    /// The address of each simulator, by provider.
    pub fn addresses(&self) -> HashMap<String, String> {
        self.after.iter().map(|(name, running)| (name.clone(), running.simulator.base_url())).collect()
    }

    /// Makes these the running simulators. All others accept no more connections.
    pub fn put_in_force(mut self) {
        self.started.clear();
        let after = mem::take(&mut self.after);
        let before = mem::replace(&mut *self.before, after);
        for (name, running) in before {
            let stays = self.before.get(&name).is_some_and(|after| after.simulator.addr() == running.simulator.addr());
            if !stays {
                running.shutdown.drain();
            }
        }
    }

    async fn start(&mut self, name: &str, simulation: &Simulation) -> anyhow::Result<RunningSimulator> {
        let listener =
            machine::listen((Ipv4Addr::LOCALHOST, 0).into()).context("cannot listen for a simulated provider")?;
        let shutdown = Shutdown::new();
        self.started.push(shutdown.clone());
        let simulator = Simulator::start(name, simulation.clone(), listener, &shutdown)?;
        Ok(RunningSimulator { simulation: simulation.clone(), simulator, shutdown })
    }
}

impl Drop for PendingSimulators {
    fn drop(&mut self) {
        self.started.iter().for_each(Shutdown::cancel);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    fn config(text: &str) -> Config {
        parse(text, Path::new("config.toml"), &|_| None).unwrap()
    }

    async fn shutdowns(simulated: &Simulated) -> HashMap<String, Shutdown> {
        let running = simulated.running.lock().await;
        running.iter().map(|(name, running)| (name.clone(), running.shutdown.clone())).collect()
    }

    #[tokio::test]
    async fn the_old_ones_run_until_the_new_ones_are_in_force() {
        let simulated = Simulated::default();
        let config_1 = config("providers = {same={simulate={}}, changed={simulate={}}, gone={simulate={}}}");
        let config_2 = config("providers = {same={simulate={}}, changed={simulate={tokens=9}}, new={simulate={}}}");
        simulated.next(&config_1).await.unwrap().put_in_force();
        let first = shutdowns(&simulated).await;

        let given_up = simulated.next(&config_2).await.unwrap();
        let started = given_up.started.clone();
        drop(given_up);
        assert!(started.len() == 2 && started.iter().all(Shutdown::is_cancelled));
        assert!(first.values().all(|shutdown| !shutdown.is_draining()));

        let next = simulated.next(&config_2).await.unwrap();
        let addresses = next.addresses();
        assert!(first.values().all(|shutdown| !shutdown.is_draining()), "not in force yet");
        next.put_in_force();
        assert_eq!(["same", "changed", "gone"].map(|name| first[name].is_draining()), [false, true, true]);
        let second = shutdowns(&simulated).await;
        assert!(second.len() == 3 && second.values().all(|shutdown| !shutdown.is_draining()));
        assert!(["same", "changed", "new"].iter().all(|name| addresses.contains_key(*name)));
        simulated.stop();
        assert!(second.values().all(Shutdown::is_cancelled));
    }
}
