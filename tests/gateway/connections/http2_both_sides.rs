//! HTTP/2 with providers over TLS and with clients by prior knowledge.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{CHAT, Rows, Setup, assert_row};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Script, soon, sse_events};

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
    // The trusted roots come from the environment, so this test runs the program.
    let (program, address) = Program::serve(&config, Some(&authorities)).await;
    for race in 0..RACES {
        let mut client = RawClient::connect(address).await;
        client.post(CHAT, &json!({"model": "m", "stream": true, "messages": [{}]})).await;
        let response = read_response(&mut client).await;
        assert_eq!((response.upstream(), response.streamed_text().as_str()), ("b/m", "hello"));
        loser.closed(race).await;
    }
    program.end().await;
    assert_eq!((loser.connections(), winner.connections()), (1, 1), "kept, also after a reset stream");
    assert!(loser.requests().iter().chain(&winner.requests()).all(|request| request.version == "HTTP/2.0"));
    let rows = Rows::read(&database).await;
    rows.assert_sound();
    for race in 0..RACES {
        let attempts = rows.of(race);
        assert_eq!(ending(attempts[0]), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
        assert_eq!(ending(attempts[1]), json!({"outcome": "won", "ttft_event": 1}));
        for attempt in attempts {
            let reused = i64::from(race > 0);
            assert_row!(attempt, json!({"http_version": "2", "conn_reused": reused}));
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
        let body = json!({"model": "m", "stream": true, "messages": [{}]}).to_string();
        let uri = format!("http://{}{CHAT}", gateway.addr());
        hyper::Request::post(uri).body(Full::new(Bytes::from(body))).unwrap()
    };
    let response = soon("an answer", sender.send_request(request())).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
    let body = soon("the body", response.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(sse_events(&body).last().unwrap(), "[DONE]");

    // One stream is cancelled; its connection stays.
    let response = soon("an answer", sender.send_request(request())).await.unwrap();
    drop(response);
    fake.closed(1).await;
    assert!(!sender.is_closed());
    drop(sender);
    let rows = gateway.stop().await;
    assert_eq!(ending(&rows.attempts[0]), json!({"outcome": "won", "ttft_event": 1}));
    assert_eq!(ending(&rows.attempts[1]), json!({"outcome": "client_gone", "ttft_event": 1}));
}
