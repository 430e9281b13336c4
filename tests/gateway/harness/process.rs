//! The built program in its own process: configured, started, signalled, and observed through its sockets, output and
//! files. Not for races: their tests run the gateway in process (`gateway`).

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::harness::answer::{Response, read_response};
use crate::support::{FakeProvider, RawClient, soon};

pub const CHAT: &str = "/v1/chat/completions";

/// A directory with a `config.toml`, the program's working directory. Its environment has only the variables set here.
pub struct Setup {
    dir: TempDir,
    env: Vec<(String, String)>,
}

impl Setup {
    /// `config` may begin with dotted keys such as `server.drain`. The gateway listens on a free port, audits no loser,
    /// and has no looks, retries and rescues that `config` does not name.
    pub fn new(config: &str) -> Setup {
        let setup = Setup { dir: TempDir::new().unwrap(), env: Vec::new() };
        setup.configure(config);
        setup
    }

    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces the config in one step, as editors do.
    pub fn configure(&self, config: &str) {
        let usual = [
            ("policy", "race.policy = \"race\"\n"),
            ("look", "race.look = 0.0\n"),
            ("retries", "race.retries = 0\n"),
            ("rescue", "race.rescue = \"off\"\n"),
        ];
        let usual: String = usual.into_iter().filter(|(key, _)| !config.contains(key)).map(|(_, line)| line).collect();
        self.write("new.toml", format!("server.listen = \"127.0.0.1:0\"\nrace.audit = 0.0\n{usual}{config}"));
        std::fs::rename(self.path("new.toml"), self.path("config.toml")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn database(&self) -> PathBuf {
        self.path("photofinish.db")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_photofinish"));
        command.args(args).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.command(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        CommandOutput::new(&soon("the command ends", output).await.unwrap())
    }

    pub fn spawn(&self, args: &[&str]) -> Process {
        self.spawn_into(args, Stdio::null())
    }

    /// With its standard output.
    pub fn spawn_into(&self, args: &[&str], out: Stdio) -> Process {
        Process::new(self.command(args).stdout(out).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// With a socket that a service manager passes: the first descriptor after the standard ones.
    pub fn spawn_activated(&self, args: &[&str], socket: impl Into<OwnedFd>) -> Process {
        const PASS: &str = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        self.spawn_by_shell(PASS, args, Stdio::from(socket.into()))
    }

    /// `script` executes `"$0" "$@"`.
    pub fn spawn_by_shell(&self, script: &str, args: &[&str], input: Stdio) -> Process {
        let program = self.command(args);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).arg(program.get_program()).args(program.get_args());
        command.current_dir(self.dir.path()).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        Process::new(command.stdin(input).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts the gateway; returns once it listens.
    pub async fn serve(self) -> RunningGateway {
        self.serve_by(&["serve"]).await
    }

    /// The same with this command line.
    pub async fn serve_by(self, args: &[&str]) -> RunningGateway {
        let process = self.spawn(args);
        let addr = process.address("listening on http://").await;
        RunningGateway { setup: self, process, addr }
    }

    /// The first column of every row, as text.
    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        let mut connection = self.connect().await;
        let rows: Vec<Option<String>> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
        rows.into_iter().map(Option::unwrap_or_default).collect()
    }

    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Each attempt as `provider outcome failure`, in the order of the races.
    pub async fn attempts(&self) -> Vec<String> {
        self.texts(
            "SELECT provider || ' ' || outcome || coalesce(' ' || failure, '') FROM attempt ORDER BY race_id, ordinal",
        )
        .await
    }

    /// Each race as `outcome attempts status`.
    pub async fn races(&self) -> Vec<String> {
        self.texts("SELECT outcome || ' ' || attempts || ' ' || coalesce(http_status, '-') FROM race ORDER BY race_id")
            .await
    }

    pub async fn connect(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(self.database()).connect().await.unwrap()
    }
}

/// The output and exit code of a command.
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    pub fn new(output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        CommandOutput { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Its words for people, without the breaks of lines.
    pub fn said(&self) -> String {
        words_of(&self.err)
    }
}

/// A running program. Killed when it is dropped.
pub struct Process {
    pid: u32,
    seen: watch::Receiver<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    log: String,
    /// Its exit code. None: a signal ended it.
    ended: Option<Option<i32>>,
}

impl Process {
    fn new(mut child: Child) -> Process {
        let (sender, seen) = watch::channel(Seen::default());
        let pid = child.id();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sender.send_modify(|seen| seen.log.extend([line.as_str(), "\n"]));
            }
            let status = child.wait().unwrap();
            sender.send_modify(|seen| seen.ended = Some(status.code()));
        });
        Process { pid, seen }
    }

    /// Waits for a line with this text; returns the line.
    pub async fn logged(&self, text: &str) -> String {
        self.logged_times(text, 1).await
    }

    /// Waits for this many lines with this text; returns the last of them.
    pub async fn logged_times(&self, text: &str, times: usize) -> String {
        let mut seen = self.seen.clone();
        let there = seen.wait_for(|seen| seen.ended.is_some() || seen.log.matches(text).count() >= times);
        let log = match tokio::time::timeout(std::time::Duration::from_secs(30), there).await {
            Ok(seen) => seen.unwrap().log.clone(),
            Err(_) => panic!("{text:?} is not logged {times} times: {}", self.log()),
        };
        let line = log.lines().filter(|line| line.contains(text)).nth(times - 1);
        line.unwrap_or_else(|| panic!("{text:?} is not logged {times} times: {log}")).to_owned()
    }

    /// The address after this text in the log.
    pub async fn address(&self, text: &str) -> SocketAddr {
        let line = self.logged(text).await;
        let (_, rest) = line.split_once(text).unwrap();
        let end = rest.find(|c: char| !c.is_ascii_digit() && !".:".contains(c)).unwrap_or(rest.len());
        rest[..end].parse().unwrap()
    }

    pub fn log(&self) -> String {
        self.seen.borrow().log.clone()
    }

    /// `TERM`, `HUP`, `KILL` …
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid.to_string()]).status().unwrap();
        assert!(status.success(), "kill -{name}");
    }

    /// Waits for its end; returns the exit code. None: a signal ended it.
    pub async fn ended(&self) -> Option<i32> {
        let mut seen = self.seen.clone();
        let ended = async { seen.wait_for(|seen| seen.ended.is_some()).await.unwrap().ended.unwrap() };
        soon("the process ends", ended).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.seen.borrow().ended.is_none() {
            // It may already have exited.
            let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

/// A running gateway.
pub struct RunningGateway {
    pub setup: Setup,
    pub process: Process,
    pub addr: SocketAddr,
}

impl RunningGateway {
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
        let mut client = RawClient::connect(self.addr).await;
        client.request(method, path, headers, body).await;
        read_response(&mut client).await
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.send("GET", path, headers, "").await
    }

    pub async fn chat(&self, headers: &[(&str, &str)], body: &Value) -> Response {
        self.send("POST", CHAT, headers, body.to_string()).await
    }

    /// A streamed request for this model.
    pub async fn ask(&self, model: &str) -> Response {
        self.chat(&[], &asking(model)).await
    }

    /// A connection on which a streamed request was sent.
    pub async fn asking(&self, model: &str) -> RawClient {
        let mut client = RawClient::connect(self.addr).await;
        client.post(CHAT, &asking(model)).await;
        client
    }

    /// Stops it with SIGTERM; all rows are on disk then.
    pub async fn stop(self) -> Setup {
        self.process.signal("TERM");
        let code = self.process.ended().await;
        assert_eq!(code, Some(0), "{}", self.process.log());
        self.setup
    }
}

pub fn asking(model: &str) -> Value {
    json!({ "model": model, "stream": true, "messages": [{"role": "user", "content": "hello"}] })
}

/// `[providers.NAME]` with the address of the fake; more keys of the table may follow.
pub fn provider(name: &str, fake: &FakeProvider) -> String {
    format!("\n[providers.{name}]\nbase_url = \"{}\"\n", fake.base_url())
}

/// A text without the breaks that fit it into 80 columns.
pub fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
