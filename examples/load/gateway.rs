//! The released gateway program in a separate process, the resources of that process, and the rows that it writes.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use tempfile::TempDir;

/// The unit of CPU time in /proc: 100 per second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The text before the address in its log.
const LISTENING: &str = "listening on http://";

/// A running gateway; killed when dropped before [`Gateway::stop`].
pub struct Gateway {
    child: Child,
    pub addr: SocketAddr,
    database: PathBuf,
    /// The directory of its files. None: the caller owns it.
    own_dir: Option<TempDir>,
    /// Kept open, because the gateway continues to log.
    _log: BufReader<ChildStderr>,
}

/// The content of the database.
pub struct Rows {
    pub races: i64,
    /// The sum over the race rows.
    pub started: i64,
    pub attempts: i64,
    /// The gateway's measure of its share of the client's TTFT, in milliseconds: p50 and p99.
    pub overhead_ms: [Option<f64>; 2],
    /// The winner of each race, by race id.
    pub won: HashMap<String, Won>,
}

/// The recorded figures of a winner.
pub struct Won {
    pub ttft: Duration,
    /// Tokens per second. None: the row has too little data.
    pub tok_s: Option<f64>,
}

impl Gateway {
    /// Starts a gateway with a model `load` that races these upstreams.
    pub fn start(base_urls: &[String]) -> anyhow::Result<Gateway> {
        Gateway::start_with(&config(base_urls))
    }

    /// Starts a gateway with its files in a temporary directory.
    pub fn start_with(config: &str) -> anyhow::Result<Gateway> {
        let dir = tempfile::tempdir()?;
        let mut gateway = Gateway::start_in(dir.path(), config)?;
        gateway.own_dir = Some(dir);
        Ok(gateway)
    }

    /// Starts a gateway with its files in this directory; an existing database is continued. The configuration has
    /// everything except the listen address and the paths.
    pub fn start_in(dir: &Path, config: &str) -> anyhow::Result<Gateway> {
        let program = program()?;
        let (path, database) = (dir.join("config.toml"), dir.join("load.db"));
        let own =
            format!("[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"sqlite:{}\"\n{config}", database.display());
        fs::write(&path, own)?;
        let mut command = Command::new(&program);
        command.arg("serve").arg("--config").arg(&path).env_remove("PHOTOFINISH_LOG").stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut log = BufReader::new(child.stderr.take().context("no standard error")?);
        let addr = listening(&mut log)?;
        Ok(Gateway { child, addr, database, own_dir: None, _log: log })
    }

    /// CPU time so far, user and system.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.child.id().to_string())
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> anyhow::Result<u64> {
        rss_kib_of(self.child.id())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The path of its database.
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// Ends it with a clean shutdown.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(told.success(), "the gateway is gone");
        let status = self.child.wait()?;
        ensure!(status.success(), "the gateway ended with {status}");
        Ok(())
    }

    /// Ends it with a clean shutdown and reads its rows.
    pub async fn stop(mut self) -> anyhow::Result<Rows> {
        self.end()?;
        let options = SqliteConnectOptions::new().filename(&self.database).read_only(true);
        let mut connection = options.connect().await?;
        let (races, started): (i64, i64) =
            sqlx::query_as("SELECT count(*), coalesce(sum(attempts), 0) FROM race").fetch_one(&mut connection).await?;
        let (attempts,): (i64,) = sqlx::query_as("SELECT count(*) FROM attempt").fetch_one(&mut connection).await?;
        let overheads: Vec<(f64,)> =
            sqlx::query_as("SELECT overhead_ms FROM race_speed WHERE overhead_ms IS NOT NULL ORDER BY overhead_ms")
                .fetch_all(&mut connection)
                .await?;
        let won: Vec<(String, f64, Option<f64>)> =
            sqlx::query_as("SELECT race_id, ttft_ms, tok_s FROM attempt_speed WHERE outcome = 'won'")
                .fetch_all(&mut connection)
                .await?;
        let won = won
            .into_iter()
            .map(|(race, ttft_ms, tok_s)| (race, Won { ttft: Duration::from_secs_f64(ttft_ms / 1e3), tok_s }));
        connection.close().await?;
        let quantile =
            |percent: usize| overheads.get((overheads.len() * percent / 100).min(overheads.len().max(1) - 1));
        let overhead_ms = [50, 99].map(|percent| quantile(percent).map(|(ms,)| *ms));
        Ok(Rows { races, started, attempts, overhead_ms, won: won.collect() })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both calls fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rows {
    pub fn line(&self) -> String {
        let verdict = if self.started == self.attempts { "equal" } else { "DIFFERENT" };
        format!("{} races, {} attempts started, {} attempt rows: {verdict}", self.races, self.started, self.attempts)
    }
}

/// CPU time of this process: the upstreams and the clients.
pub fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

pub fn rss_kib_of(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

pub fn cpu_of(pid: &str) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may contain any character; user and system time are the 12th and 13th field after it.
    let (_, rest) = stat.rsplit_once(')').context("no process name")?;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(TICK * ticks)
}

/// The path of the program, built in the same profile as this example.
pub fn program() -> anyhow::Result<PathBuf> {
    let example = std::env::current_exe()?;
    let target = example.parent().and_then(Path::parent).context("no target directory")?;
    let program = target.join("photofinish");
    ensure!(program.exists(), "{} is not there: cargo build --release", program.display());
    Ok(program)
}

fn config(base_urls: &[String]) -> String {
    let mut config = String::from("[race]\naudit = 0\nlook = 0\n");
    for (number, base_url) in base_urls.iter().enumerate() {
        config.push_str(&format!("[providers.up{number}]\nbase_url = \"{base_url}\"\n"));
    }
    let upstreams: Vec<String> = (0..base_urls.len()).map(|number| format!("\"up{number}/simulated\"")).collect();
    config.push_str(&format!("[models.load]\nupstreams = [{}]\n", upstreams.join(", ")));
    config
}

/// Reads the log up to the address.
fn listening(log: &mut impl BufRead) -> anyhow::Result<SocketAddr> {
    let mut text = String::new();
    loop {
        let before = text.len();
        ensure!(log.read_line(&mut text)? > 0, "the gateway did not start:\n{text}");
        if let Some((_, addr)) = text[before..].split_once(LISTENING) {
            return addr.trim().parse().context("its address");
        }
    }
}
