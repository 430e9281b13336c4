//! The simulated providers of the config: in this process, over real HTTP on loopback.

use std::collections::HashMap;
use std::mem;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::config::{Config, Simulation};
use crate::machine;
use crate::shutdown::Shutdown;
use crate::simulate::Simulator;

/// Those that run, by provider. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Simulated {
    running: Arc<Mutex<HashMap<String, RunningSimulator>>>,
}

#[derive(Clone)]
struct RunningSimulator {
    simulation: Simulation,
    simulator: Simulator,
    /// Its own, for it must serve while the gateway drains.
    shutdown: Shutdown,
}

/// The providers of a configuration that is not in force yet; those of the old one still run. Dropped before it is put in
/// force, it ends what it started. While there is one, there is no other.
pub(super) struct PendingSimulators {
    before: OwnedMutexGuard<HashMap<String, RunningSimulator>>,
    after: HashMap<String, RunningSimulator>,
    /// Those of `after` that `before` does not have.
    started: Vec<Shutdown>,
}

impl Simulated {
    /// Starts what `config` has and does not run yet. One that is unchanged runs on.
    ///
    /// # Errors
    /// When one cannot listen.
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

    /// Ends them all.
    pub fn stop(&self) {
        if let Ok(running) = self.running.try_lock() {
            running.values().for_each(|running| running.shutdown.cancel());
        }
    }
}

impl PendingSimulators {
    /// Where each listens, by provider.
    pub fn addresses(&self) -> HashMap<String, String> {
        self.after.iter().map(|(name, running)| (name.clone(), running.simulator.base_url())).collect()
    }

    /// From now on these are the ones that run; what is not among them takes no more connections.
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
    use crate::config::parse;

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
