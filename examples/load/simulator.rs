//! A simulated provider in a process of its own, on the core of its own.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use photofinish_base::clock::Instant;

use crate::cost::on_its_core;
use crate::gateway::program;

/// Maximum time until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// `photofinish simulate`; killed when dropped before [`Simulator::end`].
pub struct Simulator {
    child: Child,
    /// With the version path.
    pub base_url: String,
}

impl Simulator {
    /// `arguments`: options of `simulate`, separated by spaces. `more`: options whose values may have spaces.
    pub fn start(arguments: &str, more: &[(&str, &OsStr)]) -> anyhow::Result<Simulator> {
        let mut command = Command::new(program()?);
        command.args(["simulate", "--listen", "127.0.0.1:0"]).args(arguments.split(' '));
        for (option, value) in more {
            command.arg(option).arg(value);
        }
        command.env_remove("PHOTOFINISH_LOG").stderr(Stdio::piped());
        let mut child = on_its_core(|| Ok(command.spawn()?))?;
        let log = BufReader::new(child.stderr.take().context("no standard error")?);
        let mut simulator = Simulator { child, base_url: String::new() };
        let begun = Instant::now();
        let mut lines = log.lines();
        while begun.elapsed() < START_MAX {
            let line = lines.next().context("the simulated provider ended")??;
            if let Some((_, rest)) = line.split_once("base_url=") {
                simulator.base_url = rest.split_whitespace().next().unwrap_or_default().trim_matches('"').to_owned();
                // It goes on logging.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(simulator);
            }
        }
        anyhow::bail!("the simulated provider does not listen")
    }

    /// Ends it with a clean shutdown.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(told.success() && self.child.wait()?.success(), "the simulated provider is gone");
        Ok(())
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // Both calls fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
