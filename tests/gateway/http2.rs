//! HTTP/2 on both sides: with providers over TLS, with clients by prior knowledge.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_blocking};

use crate::gateway::{CHAT, Rows, Setup, pick};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon, sse_events};
use crate::talk::{end, hear};

/// The program itself, serving. Killed when dropped.
struct Program {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Program {
    async fn serve(config: &Path, authorities: &Path) -> (Program, SocketAddr) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_photofinish"))
            .args(["serve", "--config"])
            .arg(config)
            .env("SSL_CERT_FILE", authorities)
            .env_remove("SSL_CERT_DIR")
            .env_remove("PHOTOFINISH_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
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

    /// Asks it to end, and waits until it has.
    async fn end(mut self) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        let ended = spawn_blocking(move || {
            let mut log = String::new();
            // Read to its end, so that the program is not held up by its log.
            self.log.read_to_string(&mut log).unwrap();
            (self.child.wait().unwrap(), log)
        });
        let (status, log) = soon("the end", ended).await.unwrap();
        assert!(status.success(), "{log}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn losers_over_http2_are_reset_and_their_connection_is_kept() {
    const RACES: usize = 3;
    let gates: Vec<Gate> = (0..RACES).map(|_| Gate::new()).collect();
    let losing = gates.iter().map(|sent| Script::sse().role().reached(sent).until_closed()).collect();
    let winning = gates.iter().map(|sent| Script::sse().wait(sent).role().token("hello").finish("stop").done().end());
    let loser = FakeProvider::start_tls(&["h2"], losing).await;
    let winner = FakeProvider::start_tls(&["h2", "http/1.1"], winning.collect()).await;
    let directory = tempfile::tempdir().unwrap();
    let (config, database) = (directory.path().join("config.toml"), directory.path().join("test.db"));
    let authorities = directory.path().join("ca.pem");
    std::fs::write(&authorities, format!("{}{}", loser.ca(), winner.ca())).unwrap();
    std::fs::write(&config, Setup::over(&[&loser, &winner]).text(&database)).unwrap();
    // A program of its own: the roots to trust come out of the environment.
    let (program, address) = Program::serve(&config, &authorities).await;
    for race in 0..RACES {
        let mut client = RawClient::connect(address).await;
        client.post(CHAT, &json!({"model": "m", "stream": true, "messages": []})).await;
        let heard = hear(&mut client).await;
        assert_eq!((heard.upstream(), heard.said().as_str()), ("b/m", "hello"));
        loser.closed(race).await;
    }
    program.end().await;
    assert_eq!((loser.connections(), winner.connections()), (1, 1), "kept, also after a reset stream");
    assert!(loser.requests().iter().chain(&winner.requests()).all(|request| request.version == "HTTP/2.0"));
    let rows = Rows::read(&database).await;
    rows.assert_sound();
    for race in 0..RACES {
        let attempts = rows.of(race);
        assert_eq!(end(attempts[0]), json!(["lost", 0, "lost", null, null]));
        assert_eq!(end(attempts[1]), json!(["won", 1, null, null, null]));
        for attempt in attempts {
            let reused = i64::from(race > 0);
            assert_eq!(pick(attempt, &["http_version", "conn_reused"]), json!(["2", reused]));
        }
    }
}

#[tokio::test]
async fn a_client_may_speak_http2_by_prior_knowledge() {
    let never = Script::sse().role().token("x").until_closed();
    let fake = FakeProvider::start(vec![Script::stream(&["hello"]), never]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let tcp = TcpStream::connect(gateway.addr()).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(tcp));
    let (mut sender, connection) = soon("the handshake", handshake).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let request = || {
        let body = json!({"model": "m", "stream": true, "messages": []}).to_string();
        let uri = format!("http://{}{CHAT}", gateway.addr());
        hyper::Request::post(uri).body(Full::new(Bytes::from(body))).unwrap()
    };
    let response = soon("an answer", sender.send_request(request())).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
    let body = soon("the body", response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(sse_events(&body).last().unwrap(), "[DONE]");

    // One stream is given up; its connection stays.
    let response = soon("an answer", sender.send_request(request())).await.unwrap();
    drop(response);
    fake.closed(1).await;
    assert!(!sender.is_closed());
    drop(sender);
    let rows = gateway.stop().await;
    assert_eq!(end(&rows.attempts[0]), json!(["won", 1, null, null, null]));
    assert_eq!(end(&rows.attempts[1]), json!(["client_gone", 1, null, null, null]));
}
