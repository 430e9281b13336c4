//! The program with a custom environment: certificate authorities and limits. Not for commands: see `process`.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use tokio::task::spawn_blocking;

use crate::support::soon;

/// The program as a running gateway. Killed when dropped.
pub struct Program {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Program {
    /// `authorities`: a PEM file of roots to trust instead of the system's.
    pub async fn serve(config: &Path, authorities: Option<&Path>) -> (Program, SocketAddr) {
        Program::serve_with(config, authorities, None).await
    }

    /// `descriptors`: the maximum number of descriptors.
    pub async fn serve_with(
        config: &Path,
        authorities: Option<&Path>,
        descriptors: Option<u32>,
    ) -> (Program, SocketAddr) {
        let limit = descriptors.map_or(String::new(), |descriptors| format!("ulimit -n {descriptors}; "));
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_photofinish")])
            .args(["serve", "--config"])
            .arg(config)
            .env_remove("SSL_CERT_DIR")
            .env_remove("PHOTOFINISH_LOG")
            .stderr(Stdio::piped());
        if let Some(authorities) = authorities {
            command.env("SSL_CERT_FILE", authorities);
        }
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut program = Program { child, log };
        let listens = spawn_blocking(move || {
            let lines = program.log.by_ref().lines().map_while(Result::ok);
            let address =
                lines.filter_map(|line| Some(line.split_once("listening on http://")?.1.trim().to_owned())).next();
            (program, address)
        });
        let (program, address) = soon("it listens", listens).await.unwrap();
        (program, address.expect("an address in the log").parse().unwrap())
    }

    /// Sends SIGTERM, waits for its exit, and returns what it logged since it began to listen.
    pub async fn end(mut self) -> String {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        let ended = spawn_blocking(move || {
            let mut log = String::new();
            // Read to its end, so that a full pipe does not block the program.
            self.log.read_to_string(&mut log).unwrap();
            (self.child.wait().unwrap(), log)
        });
        let (status, log) = soon("the end", ended).await.unwrap();
        assert!(status.success(), "{log}");
        log
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
