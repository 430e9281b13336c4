//! What is measured: the gateway or nginx, alone on a core.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use photofinish_base::clock::Instant;
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

use super::client::{PlainClient, request};
use super::script::Answer;
use crate::gateway::{Gateway, cpu_of, rss_kib_of};

/// The core of the gateway or nginx.
const SUBJECT_CORE: usize = 0;
/// The core of the upstream and the clients.
const OWN_CORE: usize = 1;
/// Maximum time to the first answer.
const START_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Photofinish,
    Nginx,
}

/// A running proxy in front of one upstream.
pub struct Subject {
    pub addr: SocketAddr,
    /// From the start of the process to the end of the first answer.
    pub started: Duration,
    process: Process,
}

enum Process {
    Photofinish(Box<Gateway>),
    Nginx(Nginx),
}

/// Killed when dropped.
struct Nginx {
    child: Child,
    _dir: TempDir,
}

/// Puts this thread, and the threads and processes that it starts, on the core of the upstream and the clients.
pub fn pin_own() -> anyhow::Result<()> {
    pin(OWN_CORE).context("the measurement needs two cores")
}

fn pin(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Starts a process on the core of its own.
pub fn on_its_core<T>(start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    pin(SUBJECT_CORE)?;
    let started = start();
    pin(OWN_CORE)?;
    started
}

/// The path of nginx, if it is installed.
pub fn nginx() -> Option<&'static Path> {
    ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].map(Path::new).into_iter().find(|path| path.exists())
}

impl Subject {
    /// Starts it and waits for its first answer. The gateway races the upstream with itself, `width` times.
    pub async fn start(kind: Kind, upstream: SocketAddr, width: usize) -> anyhow::Result<Subject> {
        let began = Instant::now();
        let (addr, process) = match kind {
            Kind::Photofinish => {
                let gateway = on_its_core(|| Gateway::start_with(&gateway_config(upstream, width)))?;
                (gateway.addr, Process::Photofinish(Box::new(gateway)))
            }
            Kind::Nginx => {
                let (addr, nginx) = on_its_core(|| Nginx::start(upstream))?;
                (addr, Process::Nginx(nginx))
            }
        };
        let first = request(Answer::Tiny.model(), false, 24);
        let mut client = loop {
            match PlainClient::open(addr).await {
                Ok(client) => break client,
                Err(error) if began.elapsed() > START_MAX => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        client.ask(&first).await?;
        Ok(Subject { addr, started: began.elapsed(), process })
    }

    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.pid().to_string())
    }

    pub fn rss_kib(&self) -> anyhow::Result<u64> {
        rss_kib_of(self.pid())
    }

    /// Ends it. The gateway's rows must be complete.
    pub async fn stop(self) -> anyhow::Result<()> {
        if let Process::Photofinish(gateway) = self.process {
            let rows = gateway.stop().await?;
            ensure!(rows.started == rows.attempts, "{}", rows.line());
        }
        Ok(())
    }

    fn pid(&self) -> u32 {
        match &self.process {
            Process::Photofinish(gateway) => gateway.pid(),
            Process::Nginx(nginx) => nginx.child.id(),
        }
    }
}

fn gateway_config(upstream: SocketAddr, width: usize) -> String {
    let mut config = format!("[race]\naudit = 0\nlook = 0\nmax_attempts = {}\n", width.max(2));
    for number in 0..width {
        config.push_str(&format!("[providers.up{number}]\nbase_url = \"http://{upstream}/v1\"\n"));
    }
    let policy = if width > 1 { "race" } else { "fallback" };
    for answer in Answer::ALL {
        let model = answer.model();
        let upstreams: Vec<String> = (0..width).map(|number| format!("\"up{number}/{model}\"")).collect();
        let upstreams = upstreams.join(", ");
        config.push_str(&format!("[models.{model}]\nupstreams = [{upstreams}]\npolicy = \"{policy}\"\n"));
    }
    config
}

impl Nginx {
    /// A plain reverse proxy in one process, with connections kept to the upstream.
    fn start(upstream: SocketAddr) -> anyhow::Result<(SocketAddr, Nginx)> {
        let program = nginx().context("nginx is not installed")?;
        let dir = tempfile::tempdir()?;
        let path = dir.path().display();
        // It cannot choose a free port itself.
        let addr = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};\n"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; worker_rlimit_nofile 10000;
             events {{ worker_connections 8192; }}
             http {{
               access_log off; keepalive_requests 1000000000; client_max_body_size 64m; {temporary}
               upstream scripted {{ server {upstream}; keepalive 2000; keepalive_requests 1000000000; }}
               server {{
                 listen {addr} backlog=4096;
                 location / {{
                   proxy_pass http://scripted; proxy_http_version 1.1; proxy_set_header Connection \"\";
                   proxy_buffering off; proxy_request_buffering on; proxy_read_timeout 120s;
                 }}
               }}
             }}\n"
        );
        let file = dir.path().join("nginx.conf");
        fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(dir.path()).arg("-c").arg(&file).arg("-e").arg(dir.path().join("error.log"));
        let child = command.stderr(Stdio::null()).spawn().context("starting nginx")?;
        Ok((addr, Nginx { child, _dir: dir }))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Both calls fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
