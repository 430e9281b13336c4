//! Tests of the test tools: a faulty fake would invalidate every other test.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Exchange, FakeProvider, Gate, RawClient, Request, Script, SseReader, Step, soon, sse_events};

const PATH: &str = "/v1/chat/completions";

async fn asked(provider: &FakeProvider) -> RawClient {
    let mut client = RawClient::connect(provider.addr()).await;
    client.post(PATH, &json!({"model": "m", "stream": true})).await;
    client
}

fn content(event: &str) -> Value {
    serde_json::from_str::<Value>(event).unwrap()["choices"][0]["delta"]["content"].clone()
}

#[tokio::test]
async fn scripts_are_played_in_turn_on_one_connection() {
    let error = Script::status(429, &[("retry-after", "7")], r#"{"error":{}}"#);
    let provider = FakeProvider::start(vec![Script::stream(&["a", "b"]), error]).await;
    let mut client = asked(&provider).await;
    assert_eq!(client.head().await.header("content-type"), Some("text/event-stream"));
    let mut events = Vec::new();
    while let Some(event) = client.event().await.unwrap() {
        events.push(event);
    }
    let contents: Vec<Value> = events[..3].iter().map(|event| content(event)).collect();
    assert_eq!(contents, ["", "a", "b"]);
    assert!(events[3].contains(r#""finish_reason":"stop""#), "{}", events[3]);
    assert_eq!(events[4..], ["[DONE]"]);

    client.request("GET", "/v1/models", &[("X-Test", "1")], "").await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("retry-after")), (429, Some("7")));
    assert_eq!(client.body(&head).await.unwrap(), r#"{"error":{}}"#);

    client.post(PATH, &json!({})).await;
    assert_eq!(client.head().await.status, 500, "no script is left");

    assert_eq!(provider.connections(), 1);
    let requests = provider.requests();
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", PATH));
    assert_eq!(requests[0].version, "HTTP/1.1");
    assert_eq!(requests[0].json()["model"], "m");
    assert_eq!((requests[1].method.as_str(), requests[1].header("x-test")), ("GET", Some("1")));
    assert!(requests[1].body.is_empty());
}

#[tokio::test]
async fn each_request_may_have_a_script_of_its_own() {
    let provider = FakeProvider::answering(|request: &Request| {
        let model = request.json()["model"].as_str().unwrap().to_owned();
        Script::sse().comment("hello").token(&model).usage(3, 1).event("not json").done().end()
    })
    .await;
    assert!(provider.base_url().starts_with("http://127.0.0.1:") && provider.base_url().ends_with("/v1"));
    let mut client = asked(&provider).await;
    let head = client.head().await;
    let events = sse_events(&client.body(&head).await.unwrap());
    assert_eq!(content(&events[0]), "m", "a comment is no event");
    assert_eq!(serde_json::from_str::<Value>(&events[1]).unwrap()["usage"]["total_tokens"], 4);
    assert_eq!(events[2..], ["not json", "[DONE]"]);
}

#[tokio::test]
async fn a_gate_holds_the_script_until_the_test_opens_it() {
    let (reached, gate) = (Gate::new(), Gate::new());
    let script = Script::sse().role().reached(&reached).wait(&gate).token("late").end();
    let provider = FakeProvider::start(vec![script]).await;
    let mut client = asked(&provider).await;
    soon("the step", reached.passed()).await;
    client.head().await;
    assert_eq!(content(&client.event().await.unwrap().unwrap()), "");
    assert!(provider.exchanges()[0].answered.is_none());
    gate.open();
    assert_eq!(content(&client.event().await.unwrap().unwrap()), "late");
    assert_eq!(client.event().await.unwrap(), None);
    provider.answered(0).await;
}

#[tokio::test]
async fn a_hang_up_is_noticed_whatever_the_script_does() {
    let never = Gate::new();
    let long = Duration::from_secs(3_000);
    let scripts = [
        Script::new().wait(&never),
        Script::sse().wait(&never),
        Script::sse().role().delay(long),
        Script::sse().role().until_closed(),
        Script::sse().role(),
        // More than the socket buffers hold: the write itself is interrupted.
        Script::sse().chunk(vec![b'x'; 32 * 1024 * 1024]),
    ];
    for reset in [false, true] {
        let provider = FakeProvider::start(scripts.to_vec()).await;
        for number in 0..scripts.len() {
            let client = asked(&provider).await;
            provider.request(number).await;
            let left = Instant::now();
            if reset {
                client.reset()
            } else {
                client.close()
            }
            assert!(provider.closed(number).await >= left);
            let Exchange { arrived, answered, .. } = provider.exchanges()[number].clone();
            // All but the fifth have a step that cannot end.
            assert!(arrived <= left && (answered.is_none() || number == 4), "script {number}");
        }
        assert_eq!(provider.connections(), scripts.len());
    }
}

#[tokio::test]
async fn a_hang_up_after_the_answer_is_noticed_too() {
    let provider = FakeProvider::start(vec![Script::stream(&["a"])]).await;
    let mut client = asked(&provider).await;
    let head = client.head().await;
    client.body(&head).await.unwrap();
    let answered = provider.answered(0).await;
    client.close();
    assert!(provider.closed(0).await >= answered);
}

#[tokio::test]
async fn the_script_may_break_the_connection() {
    let provider = FakeProvider::start(vec![
        Script::sse().token("a").close(),
        Script::sse().token("a").reset(),
        Script::new().close(),
        Script::sse().chunk("data: half").raw("5\r\nab").close(),
        Script::new().step(Step::Raw(Bytes::from_static(b"nonsense\r\n"))).until_closed(),
    ])
    .await;
    for kind in [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset] {
        let mut client = asked(&provider).await;
        client.head().await;
        // A reset may overtake the token that was sent before it.
        let error = match client.event().await {
            Ok(event) => {
                assert_eq!(content(&event.unwrap()), "a");
                client.event().await.unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!(error.kind(), kind);
    }
    asked(&provider).await.closed().await;
    let mut client = asked(&provider).await;
    client.head().await;
    assert_eq!(client.chunk().await.unwrap().unwrap(), "data: half");
    assert_eq!(client.chunk().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(asked(&provider).await.read_until("\r\n").await, "nonsense\r\n");
    assert!(provider.exchanges()[..4].iter().all(|exchange| exchange.answered.is_some()));
}

#[tokio::test]
async fn a_request_is_read_however_it_is_cut() {
    let provider = FakeProvider::start(vec![Script::status(200, &[], "{}"), Script::status(200, &[], "{}")]).await;
    let mut client = RawClient::connect(provider.addr()).await;
    let bytes = b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    for byte in bytes {
        client.send([*byte]).await;
    }
    assert_eq!(provider.request(0).await.body, "abcde");
    // The next one in one write, probably before the first is answered.
    client.request("POST", "/v1/y", &[], "fgh").await;
    assert_eq!(provider.request(1).await.body, "fgh");
    for _ in 0..2 {
        let head = client.head().await;
        assert_eq!(client.body(&head).await.unwrap(), "{}");
    }
}

#[test]
fn events_are_read_however_they_are_cut() {
    let body =
        ": comment\r\n\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: three\n\n\n\ndata: ä\n\ndata: rest\n".as_bytes();
    let expected = ["one", "two\nthree", "ä"];
    assert_eq!(sse_events(body), expected);
    let mut reader = SseReader::default();
    let events: Vec<String> = body.iter().flat_map(|byte| reader.push(&[*byte])).collect();
    assert_eq!(events, expected);
}

/// A TLS connection that trusts only the provider's authority.
async fn tls(provider: &FakeProvider, alpn: &str) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(provider.ca().as_bytes()).unwrap()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let stream = TcpStream::connect(provider.addr()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn request(provider: &FakeProvider) -> hyper::Request<Full<Bytes>> {
    let uri = format!("{}/chat/completions", provider.base_url());
    hyper::Request::post(uri).header("host", "test").body(Full::from(r#"{"model":"m"}"#)).unwrap()
}

async fn text(body: &mut Incoming) -> String {
    let frame = soon("a frame", body.frame()).await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn over_http2_one_stream_can_be_reset_and_its_sibling_goes_on() {
    let (gate, read) = (Gate::new(), Gate::new());
    let provider = FakeProvider::start_tls(
        &["h2", "http/1.1"],
        vec![
            Script::sse().role().until_closed(),
            Script::sse().role().wait(&gate).token("on").end(),
            Script::new().wait(&Gate::new()),
            Script::sse().role().wait(&read).reset(),
        ],
    )
    .await;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(tls(&provider, "h2").await)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);

    let mut loser = sender.send_request(request(&provider)).await.unwrap().into_body();
    let mut winner = sender.send_request(request(&provider)).await.unwrap().into_body();
    assert!(text(&mut loser).await.contains("assistant"));
    assert!(text(&mut winner).await.contains("assistant"));
    drop(loser);
    provider.closed(0).await;
    gate.open();
    assert!(text(&mut winner).await.contains("\"on\""));
    provider.answered(1).await;

    let waiting = sender.send_request(request(&provider));
    tokio::select! {
        _ = waiting => panic!("there is no answer"),
        _ = provider.request(2) => {}
    }
    provider.closed(2).await;

    let mut broken = sender.send_request(request(&provider)).await.unwrap().into_body();
    assert!(text(&mut broken).await.contains("assistant"));
    read.open();
    let broke = async {
        while let Some(frame) = broken.frame().await {
            if frame.is_err() {
                return true;
            }
        }
        false
    };
    assert!(soon("the stream breaks", broke).await);
    assert_eq!(provider.requests()[0].version, "HTTP/2.0");
    assert_eq!(provider.requests()[0].json()["model"], "m");
    assert_eq!(provider.connections(), 1);
    assert!(provider.exchanges()[1].closed.is_none());
}

#[tokio::test]
async fn over_tls_http1_is_served_too() {
    let provider = FakeProvider::start_tls(&["http/1.1"], vec![Script::status(400, &[], "{}")]).await;
    assert!(provider.base_url().starts_with("https://"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(tls(&provider, "http/1.1").await)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let response = sender.send_request(request(&provider)).await.unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
    provider.answered(0).await;
    assert!(provider.exchanges()[0].closed.is_none());
}
