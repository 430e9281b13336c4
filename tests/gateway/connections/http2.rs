//! Connections to providers over HTTP/2: how many are opened, what a stalled client blocks, and how they end.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, SendStream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::harness::answer::{ending, first_text, read_response};
use crate::harness::gateway::{CHAT, Rows, Setup, pick};
use crate::harness::program::Program;
use crate::support::{FakeProvider, Gate, RawClient, Script, Step, soon};

/// The program over one TLS provider. Its trusted roots come from its environment.
pub(super) struct Secure {
    program: Program,
    address: SocketAddr,
    directory: TempDir,
}

impl Secure {
    pub(super) async fn over(fake: &FakeProvider) -> Secure {
        Secure::start(fake, &Setup::over(&[fake])).await
    }

    async fn start(fake: &FakeProvider, setup: &Setup) -> Secure {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        std::fs::write(path("ca.pem"), fake.ca()).unwrap();
        std::fs::write(path("config.toml"), setup.text(&path("test.db"))).unwrap();
        let (program, address) = Program::serve(&path("config.toml"), Some(&path("ca.pem"))).await;
        Secure { program, address, directory }
    }

    /// A connection with a request for the model.
    pub(super) async fn ask(&self, stream: bool) -> RawClient {
        let mut client = RawClient::connect(self.address).await;
        client.post(CHAT, &json!({"model": "m", "stream": stream, "messages": [{}]})).await;
        client
    }

    pub(super) async fn end(self) -> Rows {
        self.program.end().await;
        let rows = Rows::read(&self.directory.path().join("test.db")).await;
        rows.assert_sound();
        rows
    }
}

pub(super) type Tls = TlsStream<TcpStream>;
/// A connection from the gateway, on the provider's side.
type Served = Connection<Tls, Bytes>;

pub(super) fn ok() -> http::Response<()> {
    http::Response::builder().header("content-type", "text/event-stream").body(()).unwrap()
}

/// A whole answer.
pub(super) fn answer(mut respond: SendResponse<Bytes>) {
    let mut body = respond.send_response(ok(), false).unwrap();
    body.send_data(Script::stream(&["hello"]).body().into(), true).unwrap();
}

/// An answer up to its first token.
fn begin(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    let mut body = respond.send_response(ok(), false).unwrap();
    body.send_data(Script::new().role().token("hello").body().into(), false).unwrap();
    body
}

#[tokio::test]
async fn a_cold_burst_shares_its_connections() {
    const BURST: usize = 150;
    let may_answer = Gate::new();
    let gate = may_answer.clone();
    let fake = FakeProvider::answering_tls(&["h2", "http/1.1"], move |_| {
        let mut script = Script::new().wait(&gate);
        script.steps.extend(Script::stream(&["hello"]).steps);
        script
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let mut clients = Vec::new();
    for _ in 0..BURST {
        clients.push(gateway.ask(true).await);
    }
    fake.request(BURST - 1).await;
    assert!(fake.connections() <= 3, "{} connections for {BURST} streams", fake.connections());
    may_answer.open();
    for mut client in clients {
        assert_eq!(read_response(&mut client).await.streamed_text(), "hello");
    }
    let rows = gateway.end().await;
    assert_eq!((rows.attempts.len(), fake.requests().len()), (BURST, BURST));
}

#[tokio::test]
async fn a_burst_to_a_known_http1_provider_opens_a_connection_for_each_request() {
    let may_answer = Gate::new();
    let gate = may_answer.clone();
    let fake = FakeProvider::answering_tls(&["http/1.1"], move |_| {
        let mut script = Script::new().wait(&gate);
        script.steps.extend(Script::stream(&["hello"]).steps);
        script
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(gateway.ask(true).await);
    }
    fake.request(19).await;
    may_answer.open();
    for mut client in clients {
        assert_eq!(read_response(&mut client).await.streamed_text(), "hello");
    }
    let rows = gateway.end().await;
    assert_eq!(rows.attempts.len(), 20);
}

#[tokio::test]
async fn stalled_clients_do_not_block_the_hundred_streams_of_a_connection() {
    const STALLED: usize = 8;
    const STREAMS: usize = 100;
    let text = "x".repeat(32 << 10);
    let chunk = Script::new().token(&text).chunks().remove(0);
    let may_answer = Gate::new();
    let gate = may_answer.clone();
    let fake = FakeProvider::answering_tls(&["h2"], move |request| {
        if request.number >= STALLED {
            let mut script = Script::new().wait(&gate);
            script.steps.extend(Script::stream(&["hello"]).steps);
            return script;
        }
        let mut endless = Script::sse().role();
        endless.steps.extend(std::iter::repeat_n(Step::Chunk(chunk.clone()), 1_000));
        endless.until_closed()
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let mut stalled = Vec::new();
    for number in 0..STALLED {
        let mut client = gateway.ask(true).await;
        assert_eq!(client.head().await.status, 200);
        assert_eq!(first_text(&mut client).await, text);
        fake.request(number).await;
        stalled.push(client);
    }
    // Answers to clients that do not read have filled every buffer when the later ones are sent.
    let mut others = Vec::new();
    for _ in STALLED..STREAMS {
        others.push(gateway.ask(true).await);
    }
    fake.request(STREAMS - 1).await;
    may_answer.open();
    for mut client in others {
        assert_eq!(read_response(&mut client).await.streamed_text(), "hello");
    }
    assert_eq!(fake.connections(), 1);
    drop(stalled);
    gateway.end().await;
}

#[tokio::test]
async fn at_most_sixteen_connections_are_opened_and_further_requests_wait() {
    let may_answer = Gate::new();
    let (gate, arrived) = (may_answer.clone(), Arc::new(AtomicUsize::new(0)));
    let count = arrived.clone();
    let fake = FakeProvider::by_hand(&["h2"], move |stream, _| {
        let (gate, count) = (gate.clone(), count.clone());
        async move {
            let one_stream = h2::server::Builder::new().max_concurrent_streams(1).handshake(stream).await;
            let Ok(mut connection) = one_stream else { return };
            let mut open = Vec::new();
            loop {
                tokio::select! {
                    accepted = connection.accept() => match accepted {
                        // The second of the first two requests shows how many streams a connection accepts.
                        Some(Ok((_, respond))) if count.fetch_add(1, Ordering::Relaxed) < 2 => answer(respond),
                        Some(Ok((_, respond))) => open.push(respond),
                        _ => return,
                    },
                    () = gate.passed(), if !open.is_empty() => open.drain(..).for_each(answer),
                }
            }
        }
    })
    .await;
    let models =
        "[models.m]\nupstreams = [\"a/m\"]\n[models.hasty]\nupstreams = [\"a/m\"]\ntimeouts = {connect = \"50ms\"}";
    let setup = Setup::over(&[&fake]).race("timeouts = { connect = \"1m\", first_token = \"2m\" }").model(models);
    let gateway = Secure::start(&fake, &setup).await;
    for _ in 0..2 {
        assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    }
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(gateway.ask(true).await);
    }
    soon("sixteen streams", async {
        while arrived.load(Ordering::Relaxed) < 18 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut hasty = RawClient::connect(gateway.address).await;
    hasty.post(CHAT, &json!({"model": "hasty", "messages": [{}]})).await;
    let response = read_response(&mut hasty).await;
    assert!(
        response.status >= 500 && response.body.contains("no free stream within 50ms: the 16"),
        "{}",
        response.body
    );
    may_answer.open();
    for mut client in clients {
        assert_eq!(read_response(&mut client).await.streamed_text(), "hello");
    }
    assert_eq!(fake.connections(), 16);
    let rows = gateway.end().await;
    assert_eq!((rows.attempts.len(), arrived.load(Ordering::Relaxed)), (23, 22));
}

#[tokio::test]
async fn endless_informational_responses_are_cut() {
    let fake = FakeProvider::by_hand(&["h2"], move |stream, number| async move {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            if number > 0 {
                answer(respond);
                continue;
            }
            for _ in 0..5_000 {
                let hints = http::Response::builder().status(103).body(()).unwrap();
                respond.send_informational(hints).unwrap();
            }
            // Nothing more on this stream.
            let _ = poll_fn(|context| connection.poll_closed(context)).await;
            return;
        }
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let response = read_response(&mut gateway.ask(true).await).await;
    assert_eq!(response.status, 502, "{}", response.body);
    assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    let rows = gateway.end().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed", "failure": "protocol", "failure_phase": "headers"})
    );
}

/// What happens to the request on this stream, and then to the connection.
type Fate = fn(SendResponse<Bytes>, &mut Connection<Tls, Bytes>);

/// The rows of two requests: the provider refuses the first stream with `fate`, and answers all others.
async fn refused(fate: Fate) -> Vec<Value> {
    let refused = Arc::new(AtomicUsize::new(0));
    let fake = FakeProvider::by_hand(&["h2"], move |stream, _| {
        let refused = refused.clone();
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else { return };
            while let Some(Ok((_, respond))) = connection.accept().await {
                // The first request warms the connection, the second is refused.
                match refused.fetch_add(1, Ordering::Relaxed) {
                    1 => fate(respond, &mut connection),
                    _ => answer(respond),
                }
            }
        }
    })
    .await;
    let gateway = Secure::over(&fake).await;
    for _ in 0..2 {
        assert_eq!(read_response(&mut gateway.ask(true).await).await.streamed_text(), "hello");
    }
    let rows = gateway.end().await;
    rows.attempts.iter().map(|attempt| pick(attempt, &["outcome", "start_reason", "failure"])).collect()
}

#[tokio::test]
async fn only_refused_streams_are_sent_again_without_an_attempt() {
    let silent = {
        let won = || json!({"outcome": "won", "start_reason": "first", "failure": null});
        [won(), won()]
    };
    assert_eq!(refused(|mut respond, _| respond.send_reset(Reason::REFUSED_STREAM)).await, silent);
    // Its last stream is that of the warm-up: the server did not process this request.
    let retried = refused(|respond, connection| {
        drop(respond);
        connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    });
    let retried = retried.await;
    assert!(retried == silent || retried.len() == 3, "{retried:?}");
}

/// A stream whose connection is ended by `end`, once the client has its first token.
async fn broken(end: fn(Served) -> Option<Served>) -> Rows {
    let first_token_read = Gate::new();
    let gate = first_token_read.clone();
    let fake = FakeProvider::by_hand(&["h2"], move |stream, _| {
        let gate = gate.clone();
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else { return };
            let Some(Ok((_, mut respond))) = connection.accept().await else { return };
            let _body = begin(&mut respond);
            tokio::select! {
                _ = connection.accept() => {}
                () = gate.passed() => {}
            }
            if let Some(mut connection) = end(connection) {
                let _ = poll_fn(|context| connection.poll_closed(context)).await;
            }
        }
    })
    .await;
    let gateway = Secure::over(&fake).await;
    let mut client = gateway.ask(true).await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(first_text(&mut client).await, "hello");
    first_token_read.open();
    soon("the end", async { while let Ok(Some(_)) = client.event().await {} }).await;
    gateway.end().await
}

#[tokio::test]
async fn goaway_and_a_close_in_mid_answer_count_as_closed() {
    let goaway = broken(|mut connection| {
        connection.abrupt_shutdown(Reason::INTERNAL_ERROR);
        Some(connection)
    });
    let closed = broken(|connection| {
        drop(connection);
        None
    });
    let ended =
        |how: &str| json!({"outcome": "failed_mid", "ttft_event": 1, "failure": how, "failure_phase": "stream"});
    assert_eq!(ending(&goaway.await.attempts[0]), ended("closed"));
    // Closing with unread bytes sends a reset.
    let closed = ending(&closed.await.attempts[0]);
    assert!([ended("closed"), ended("reset")].contains(&closed), "{closed}");
}
